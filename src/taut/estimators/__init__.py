"""scikit-learn estimators: thin, no arithmetic."""

from __future__ import annotations

import os
from typing import Any

from taut.errors import InvalidData, InvalidFile
from taut.estimators import storage
from taut.estimators.base import Estimator
from taut.estimators.boxes import BoxSVM
from taut.estimators.classification import BinarySVM, MulticlassSVM
from taut.estimators.graphs import GraphSVM, TreeSVM
from taut.estimators.latent import LatentStructuredSVM, LatentSVM
from taut.estimators.latent_boxes import LatentBoxSVM
from taut.estimators.latent_multiclass import LatentMulticlassSVM
from taut.estimators.latent_parts import LatentPartSVM
from taut.estimators.online_svm import OnlineSVM
from taut.estimators.parts import PartSVM
from taut.estimators.poses import PoseSVM
from taut.estimators.ranking import RankSVM
from taut.estimators.regression import RegressionSVM
from taut.estimators.sequences import ChainSVM
from taut.estimators.structured import StructuredSVM
from taut.storage import files

ESTIMATORS: dict[str, type[Estimator]] = {
    estimator.__name__: estimator
    for estimator in (
        BinarySVM,
        MulticlassSVM,
        RegressionSVM,
        ChainSVM,
        TreeSVM,
        GraphSVM,
        RankSVM,
        StructuredSVM,
        LatentSVM,
        LatentStructuredSVM,
        LatentMulticlassSVM,
        OnlineSVM,
        BoxSVM,
        LatentBoxSVM,
        PoseSVM,
        PartSVM,
        LatentPartSVM,
    )
}

__all__ = [
    "ESTIMATORS",
    "BinarySVM",
    "BoxSVM",
    "ChainSVM",
    "GraphSVM",
    "LatentBoxSVM",
    "LatentMulticlassSVM",
    "LatentPartSVM",
    "LatentSVM",
    "LatentStructuredSVM",
    "MulticlassSVM",
    "OnlineSVM",
    "PartSVM",
    "PoseSVM",
    "RankSVM",
    "RegressionSVM",
    "StructuredSVM",
    "TreeSVM",
    "load",
]


def load(path: str | os.PathLike, **parameters: Any) -> Any:
    """Read a model that `save` wrote; nothing in the file is executed.

    Parameters
    ----------
    path : str or path
    **parameters
        What is not in the file, such as `structure=` for a `StructuredSVM`, or shall differ.

    Returns
    -------
    estimator
        Fitted, with its certificate and history.

    Raises
    ------
    InvalidFile
        The file is damaged, or is no model of taut.

    Examples
    --------
    >>> import os, tempfile
    >>> import taut
    >>> model = taut.BinarySVM(random_state=0).fit([[0.0], [1.0]], [0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.taut")
    ...     model.save(path)
    ...     again = taut.load(path)
    >>> again.predict([[-1.0], [2.0]])
    array([0, 1])
    """
    tensors, meta = files.read(path, storage.KIND)
    name = meta.get("class")
    if not isinstance(name, str) or name not in ESTIMATORS:
        raise InvalidFile(
            f"{path} holds a model of class {name!r:.50}, which this version of taut does not "
            "have: update taut"
        )
    fitted = meta.get("fitted")
    of_structure = "structure" in ESTIMATORS[name]._get_param_names()
    of_classes = isinstance(fitted, dict) and "classes_" in fitted
    if of_structure and not of_classes and "structure" not in parameters:
        article = "an" if name[0] in "AEIOU" else "a"
        raise InvalidFile(
            f"{path} holds the weights of {article} {name}, structures are not saved: "
            "call taut.load(path, structure=...) with the structure it was fitted with"
        )
    unknown = sorted(parameters.keys() - ESTIMATORS[name]._get_param_names())
    if unknown:
        raise InvalidData(
            f"{path} holds a {name}, which has no parameter {unknown[0]!r}: remove it"
        )
    try:
        return storage.restored(ESTIMATORS[name], tensors, meta, parameters)
    except (*files.NONSENSE, MemoryError) as error:
        raise InvalidFile(
            f"{path} holds a {name} that is inconsistent, or in a form that this version of taut "
            f"cannot read ({error!r}): update taut, or save it again{storage.writers_of(meta)}"
        ) from error
