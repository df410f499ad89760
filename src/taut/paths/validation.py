"""Cross-validation over all C of a range: a path for each fold, scored on a common grid."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import _safe_split

from taut.checks import check_number
from taut.console.interrupts import closing_all
from taut.console.notices import one_of_each_kind
from taut.console.progress import walk_line
from taut.errors import InvalidData
from taut.paths.path import Path, check_path
from taut.paths.walk import Walk


class PathCV:
    """What `taut.path_cv` returns.

    Attributes
    ----------
    Cs : ndarray of shape (n_points,)
        The grid.
    scores : ndarray of shape (n_points, n_folds)
        Of the models that the folds' paths have at each C, on what the fold holds out.
    mean, standard_error : ndarray of shape (n_points,)
        Over the folds.
    best_C_ : float
        The smallest C of the grid with the highest mean score.
    best_score_ : float
    best_estimator_ : estimator, or Pipeline if one was given
        Fitted to all data at `best_C_`, with the `tol` of the estimator that was given.
    paths : list of Path
        Of the folds.
    """

    best_estimator_: Any

    def __init__(self, Cs: np.ndarray, scores: np.ndarray, paths: list[Path]) -> None:
        self.Cs, self.scores, self.paths = Cs, scores, paths
        n_folds = scores.shape[1]
        self.mean = scores.mean(axis=1)
        self.standard_error = scores.std(axis=1, ddof=1) / np.sqrt(n_folds)
        best = int(np.argmax(self.mean))
        self.best_C_, self.best_score_ = float(Cs[best]), float(self.mean[best])

    def to_dict(self) -> dict[str, Any]:
        """The grid, the scores and the choice, as JSON values."""
        return {
            "Cs": self.Cs.tolist(),
            "scores": self.scores.tolist(),
            "best_C": self.best_C_,
            "best_score": self.best_score_,
        }

    def __repr__(self) -> str:
        error = self.standard_error[np.argmax(self.mean)]
        return (
            f"PathCV: best C={self.best_C_:.4g} with score {self.best_score_:.4g} +- {error:.2g}, "
            f"of {len(self.Cs)} C from {self.Cs[0]:g} to {self.Cs[-1]:g} in "
            f"{self.scores.shape[1]} folds"
        )

    def __str__(self) -> str:
        rows = zip(self.Cs, self.mean, self.standard_error, strict=True)
        lines = [
            f"{C:>10.4g}{mean:>10.4f} +- {error:.4f}" + ("  <- best" if self.best_C_ == C else "")
            for C, mean, error in rows
        ]
        return "\n".join([f"{'C':>10}{'score':>10}", *lines])


def path_cv(
    estimator: Any,
    X: Any,
    y: Any,
    C_min: float,
    C_max: float,
    *,
    gap: float = 0.01,
    cv: Any = 5,
    scoring: str | Callable[..., float] | None = None,
    n_points: int = 50,
    sample_weight: Any = None,
    verbose: int = 1,
) -> PathCV:
    """Choose C by cross-validation, with one path for each fold instead of a fit for each C.

    Parameters
    ----------
    estimator : estimator of taut, or Pipeline that ends with one
        As for `taut.path`. The steps of a pipeline before the last are fitted anew to each fold.
    X, y, C_min, C_max, gap
        As for `taut.path`. Sequences and other examples are given as lists, which are split.
    cv : int, splitter or iterable, default=5
        As for scikit-learn's `cross_val_score`. Classes of rows are stratified.
    scoring : str or callable, optional
        As for scikit-learn; the estimator's `score` by default.
    n_points : int, default=50
        C at which the paths are scored, from `C_min` to `C_max` with equal ratios.
    sample_weight : array of shape (n_examples,), optional
        For training; scores are without weights.
    verbose : int, default=1
        1 shows progress on standard error.

    Returns
    -------
    PathCV

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C in the folds: some of them alone tell nothing about the best C. In the last
        fit it warns, and `best_estimator_` is the best model so far.

    Warns
    -----
    NotConverged
        Where solves ended before they proved `gap`, or the last fit before its `tol`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import taut
    >>> X, y = load_iris(return_X_y=True)
    >>> search = taut.path_cv(taut.MulticlassSVM(random_state=0), X, y, 1e-3, 1.0, gap=0.1, cv=3)
    >>> search.best_score_ > 0.9, search.best_estimator_.score(X, y) > 0.9
    (True, True)
    """
    steps, model = _steps(estimator)
    check_path(model, C_min, C_max, gap)
    check_number("verbose", verbose)
    check_number("n_points", n_points)
    if n_points < 2:
        raise InvalidData(f"n_points = {n_points}: give at least 2")
    scorer = check_scoring(model, scoring)
    folds = list(check_cv(cv, y, classifier=is_classifier(model)).split(X, y))
    if len(folds) < 2:
        raise InvalidData(f"cv = {cv!r} gives {len(folds)} fold: give at least 2")
    Cs = np.geomspace(C_min, C_max, n_points)
    Cs[[0, -1]] = C_min, C_max
    scores, paths = np.empty((n_points, len(folds))), []
    line = walk_line(verbose, type(model).__name__)
    with one_of_each_kind(), closing_all([line]):
        for k, (train, test) in enumerate(folds):
            walk = Walk(model, C_min, C_max, gap, (), line, f"fold {k + 1}/{len(folds)}  ")
            own, labels = _safe_split(model, X, y, train)
            before, rows = _fitted(steps, own, labels)
            walk.go(rows, labels, _weights(sample_weight, train))
            if walk.interrupted.is_set():
                raise KeyboardInterrupt
            walk.warn()
            path = Path(walk.points, walk.nodes, walk.message)
            held, truth = _safe_split(model, X, y, test, train)
            held = held if before is None else before.transform(held)
            scores[:, k] = _scores(path, Cs, scorer, held, truth)
            paths.append(path)
        result = PathCV(Cs, scores, paths)
        before, rows = _fitted(steps, X, y)
        best = model._copy(C=result.best_C_)
        best.fit(rows, y, **_weights(sample_weight, np.arange(len(y))))
        result.best_estimator_ = _with_steps(estimator, before, best)
    return result


def _steps(estimator: Any) -> tuple[Any, Any]:
    """The steps before the last, as a pipeline, and the last; None where there are none before."""
    if not isinstance(estimator, Pipeline):
        return None, estimator
    return (estimator[:-1] if len(estimator) > 1 else None), estimator[-1]


def _fitted(steps: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """A copy of the steps that is fitted, and X after them."""
    if steps is None:
        return None, X
    fresh = clone(steps)
    return fresh, fresh.fit_transform(X, y)


def _with_steps(estimator: Any, before: Any, model: Any) -> Any:
    """The model, at the end of a pipeline if the estimator is one."""
    if not isinstance(estimator, Pipeline):
        return model
    pipeline = copy.copy(estimator)
    pipeline.steps = [*([] if before is None else before.steps), (estimator.steps[-1][0], model)]
    return pipeline


def _weights(sample_weight: Any, rows: np.ndarray) -> dict[str, Any]:
    return {} if sample_weight is None else {"sample_weight": _safe_indexing(sample_weight, rows)}


def _scores(path: Path, Cs: np.ndarray, scorer: Callable, X: Any, y: Any) -> list[float]:
    """The scores of the path's models; neighbouring C often have the same weights."""
    known: dict[tuple[int, float], float] = {}
    for C in Cs:
        key = path.key_at(C)
        if key not in known:
            known[key] = float(scorer(path.at(C), X, y))
    return [known[path.key_at(C)] for C in Cs]
