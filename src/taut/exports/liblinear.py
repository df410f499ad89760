"""Model files of LIBLINEAR, as its `predict` reads them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from taut.errors import InvalidData
from taut.exports.row_scores import RowScores, row_scores
from taut.storage import files

_INTEGERS = np.iinfo(np.int32)  # labels are integers of C
_TWO, _SEVERAL, _NUMBER = "L2R_L1LOSS_SVC_DUAL", "MCSVM_CS", "L2R_L1LOSS_SVR_DUAL"


def to_liblinear(model: Any, path: str | os.PathLike) -> None:
    """Write a linear model of rows as a text file that LIBLINEAR's `predict` reads.

    Weights are written with as many digits as it takes to read the same numbers. The type of
    solver is the one with the same loss. The file has no place for the certificate, C, costs and
    priors: `taut.certify(path, X, y, C=C)` proves a bound anew for models without the last two.

    Parameters
    ----------
    model : BinarySVM, MulticlassSVM, RegressionSVM or OnlineSVM
        Fitted, without a kernel. Classes must be whole numbers.
    path : str or path
        An existing file is replaced as a whole.

    Examples
    --------
    >>> import os, tempfile
    >>> import taut
    >>> from taut.exports import to_liblinear
    >>> model = taut.BinarySVM(C=10.0, random_state=0).fit([[0.0], [1.0], [3.0]], [-1, -1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model")
    ...     to_liblinear(model, path)
    ...     with open(path) as file:
    ...         lines = file.read().splitlines()
    >>> lines[:4]
    ['solver_type L2R_L1LOSS_SVC_DUAL', 'nr_class 2', 'label 1 -1', 'nr_feature 1']
    """
    scores = row_scores(model)
    coef, header = _laid_out(scores)
    intercept = coef[:, -1:] / scores.constant if scores.constant else coef[:, :0]
    weights = np.hstack([coef[:, :-1], intercept]).T
    header += [
        f"nr_feature {scores.coef.shape[1]}",
        f"bias {scores.constant!r}" if scores.constant else "bias -1",
        "w",
    ]
    lines = [*header, *(" ".join(map(repr, row)) + " " for row in weights.tolist())]
    with files.whole_file(path) as file:
        file.write(("\n".join(lines) + "\n").encode("ascii"))


def _laid_out(scores: RowScores) -> tuple[np.ndarray, list[str]]:
    """Rows of coefficients with the intercept last, and the lines that say what they are."""
    coef = np.column_stack([scores.coef, scores.intercept])
    if scores.classes is None:
        return coef, [f"solver_type {_NUMBER}", "nr_class 2"]
    labels = _labels(scores.classes)
    solver = _TWO if scores.is_of_two else _SEVERAL
    if len(labels) == 2:
        # A positive first score stands for the first label; with equal scores it is the second.
        labels = labels[::-1]
        half = (coef[-1] - coef[0]) / 2.0
        coef = coef if scores.is_of_two else np.stack([half, -half])
    words = " ".join(map(str, labels))
    return coef, [f"solver_type {solver}", f"nr_class {len(labels)}", f"label {words}"]


def _labels(classes: np.ndarray) -> list[int]:
    """Classes as integers, if they are such."""
    labels = classes.tolist()
    for label in labels:
        whole = isinstance(label, int | float) and label == label // 1
        if not whole or not _INTEGERS.min <= label <= _INTEGERS.max:
            raise InvalidData(
                f"the model has the class {label!r}, and LIBLINEAR knows whole numbers alone: fit "
                "with numbers for the classes, such as np.searchsorted(classes, y)"
            )
    return [int(label) for label in labels]
