"""The regularisation path: models for every C in a range, each with a bound that is proved."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from taut.checks import check_number
from taut.console.interrupts import closing_all
from taut.console.notices import one_of_each_kind
from taut.console.progress import walk_line
from taut.errors import InvalidData, InvalidType
from taut.estimators.alternating import Alternating
from taut.estimators.base import StructuralEstimator
from taut.paths.enclosure import Enclosure, Node, mix
from taut.paths.walk import Point, Walk, in_doubt
from taut.result import History, meaning_of


class Path:
    """Models for every C in a range, as `taut.path` returns them.

    Attributes
    ----------
    points : list of Point
        The solves, by rising C.
    Cs : ndarray
        Where they are.
    gap : float
        The largest relative gap of all C in the range, as proved.
    message : str
        What the path proves, or why it ended early.
    """

    def __init__(self, points: Sequence[Point], nodes: Sequence[Node], message: str) -> None:
        self.points = list(points)
        self.Cs = np.array([point.C for point in self.points])
        self.message = message
        self._enclosure = Enclosure(nodes)
        self.gap = self._enclosure.worst()

    def coefs(self) -> np.ndarray:
        """`coef_` of the solves, one above the other."""
        return np.array([point.model.coef_ for point in self.points])

    def bounds_at(self, C: Any) -> tuple[np.ndarray, np.ndarray]:
        """What `at(C)` costs at most, and a lower bound of the optimum.

        Parameters
        ----------
        C : float or array
        """
        C = self._checked(C)
        return self._enclosure.upper(C), self._enclosure.lower(C)

    def gap_at(self, C: Any) -> np.ndarray:
        """The relative gap (upper - lower) / upper at C, a number or an array."""
        return self._enclosure.gap(self._checked(C))

    def at(self, C: float) -> Any:
        """The model to use at C, with the bounds at C as its certificate.

        Its weights are those of a solve, or a mixture of two neighbours.
        """
        node = self._enclosure.best(float(self._checked(C)))
        upper, lower = self.bounds_at(C)
        left = self.points[node.left]
        primal, dual = float(upper), min(float(lower), float(upper))
        message = f"The path proves a relative gap of {float(self.gap_at(C)):.2g} at C={C:g}."
        source = in_doubt(self.points) or left.certificate
        message += meaning_of(primal, dual, source.of, source.doubt)
        certificate = replace(
            left.certificate, primal=primal, dual=dual, penalty=node.penalty, message=message,
            of=source.of, doubt=source.doubt, oracle_calls=0, passes=0, seconds=0.0,
        )  # fmt: skip
        facts = {"certificate_": certificate, "history_": History(), "n_iter_": 0}
        right = self.points[node.left + (node.share > 0.0)]
        return left.model._copy(C=float(C))._mixed(right.model, node.share, facts)

    def weights_at(self, C: float) -> np.ndarray:
        """The joint weights of `at(C)`; with a kernel, the coefficients of all training rows."""
        node = self._enclosure.best(float(self._checked(C)))
        left = self.points[node.left].model
        if node.share == 0.0:
            return left._form.point(left)
        right = self.points[node.left + 1].model
        return mix(left._form.point(left), right._form.point(right), node.share)

    def key_at(self, C: float) -> tuple[int, float]:
        """Equal for C whose models have the same weights."""
        node = self._enclosure.best(float(self._checked(C)))
        return node.left, node.share

    def _checked(self, C: Any) -> np.ndarray:
        C = np.asarray(C, dtype=np.float64)
        first, last = self._enclosure.C[[0, -1]]
        outside = ~((first <= C) & (last >= C))
        if outside.any():
            raise InvalidData(
                f"C = {C[outside].flat[0]:g} is outside of the path, which goes from {first:g} to "
                f"{last:g}: walk a path over a wider range"
            )
        return C

    def to_dict(self) -> dict[str, Any]:
        """The path without its models, as JSON values."""
        return {
            "message": self.message,
            "gap": self.gap,
            "points": [
                {"C": point.C, "certificate": point.certificate.to_dict()} for point in self.points
            ],
            "nodes": [node._asdict() for node in self._enclosure.nodes],
        }

    def __repr__(self) -> str:
        return (
            f"Path: {len(self.points)} solves from C={self.Cs[0]:g} to C={self.Cs[-1]:g}. "
            f"{self.message}"
        )

    def __str__(self) -> str:
        gaps = self._enclosure.gap
        rows = [
            f"{p.C:>10.4g}{p.certificate.primal:>14.6g}{p.certificate.dual:>14.6g}"
            f"{float(gaps(p.C)):>10.1e}{p.certificate.passes:>8}{p.certificate.seconds:>10.2f}"
            for p in self.points
        ]
        header = f"{'C':>10}{'primal':>14}{'dual':>14}{'gap':>10}{'passes':>8}{'seconds':>10}"
        return "\n".join([header, *rows, self.message])


def path(
    estimator: Any,
    X: Any,
    y: Any,
    C_min: float,
    C_max: float,
    *,
    gap: float = 0.01,
    callbacks: Sequence[Callable[[Point], object]] = (),
    verbose: int = 0,
    **fit_params: Any,
) -> Path:
    """Models for every C from `C_min` to `C_max`, each within a relative gap of its optimum.

    Solves at a few C, each from where the last one ended. Between two solves, mixtures of their
    weights and of their dual variables prove the bounds, so that (P - D) / P <= `gap` holds for
    every C of the range and not for those of a grid only.

    Parameters
    ----------
    estimator : any estimator of taut without latent variables
        Its parameters but `C`, `tol`, `warm_start` and `checkpoint` are used; it stays as it is.
    X, y, **fit_params
        As for the estimator's `fit`.
    C_min, C_max : float
        0 < C_min < C_max.
    gap : float, default=0.01
        Largest relative duality gap of all C.
    callbacks : sequence of callables, default=()
        Called with a `Point` after each solve; returning True ends the path.
    verbose : int, default=0
        1 shows progress on standard error.

    Returns
    -------
    Path
        After Ctrl-C, the part that was done.

    Warns
    -----
    NotConverged
        After Ctrl-C, or where solves ended before they proved `gap`.
    UncertainLabels
        Where a user's argmax may miss labels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import taut
    >>> X, y = load_iris(return_X_y=True)
    >>> walked = taut.path(taut.MulticlassSVM(random_state=0), X, y, 0.01, 1.0, gap=0.05)
    >>> bool(walked.gap_at([0.01, 0.0234, 0.567, 1.0]).max() <= walked.gap <= 0.05)
    True
    >>> model = walked.at(0.567)
    >>> model.score(X, y) > 0.9, model.certificate_.relative_gap <= 0.05
    (True, True)
    """
    check_path(estimator, C_min, C_max, gap)
    check_number("verbose", verbose)
    line = walk_line(verbose, type(estimator).__name__)
    callbacks = list(callbacks)
    with one_of_each_kind(), closing_all([*callbacks, line]):
        walk = Walk(estimator, C_min, C_max, gap, callbacks, line)
        walk.go(X, y, fit_params)
        walk.warn()
    return Path(walk.points, walk.nodes, walk.message)


def check_path(estimator: Any, C_min: float, C_max: float, gap: float) -> None:
    """Refuse what no path can be walked with."""
    for name, value in (("C_min", C_min), ("C_max", C_max), ("gap", gap)):
        check_number(name, value)
    if not 0.0 < C_min < C_max < math.inf:
        raise InvalidData(f"C_min = {C_min} and C_max = {C_max}: give 0 < C_min < C_max")
    if not 0.0 < gap < 1.0:
        raise InvalidData(f"gap = {gap}: give a number between 0 and 1")
    if not isinstance(estimator, StructuralEstimator) or isinstance(estimator, Alternating):
        raise InvalidType(
            f"estimator = {estimator!r} is not an estimator of taut with a convex objective, which "
            "the bounds of a path need: fit it at each C instead"
        )
