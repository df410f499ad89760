"""What a run (`taut.training.loop.Run`) writes into a checkpoint, and how it goes on from there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from taut.engines.naming import Arrays
from taut.problem import Bound
from taut.result import History
from taut.storage.stored import check, check_size, number, require, restore_generator, vector

_AGREE = 1e-5  # relative: vectors that rounding in single precision tells apart; bounds, squared
_NUMBERS = (
    "alignment", "averaged", "iteration", "parts", "summed", "recentres", "oracle_calls", "seconds",
    "overestimate", "best_dual", "better", "verified_gap", "fruitless", "least_gap", "stagnant",
)  # fmt: skip
_VECTORS = {"U", "centre", "average", "best_w", "w", "late", "lowest_w", "resting_vector"}
_SIGNED = ("best_dual", "alignment")


def snapshot_of(run: Any) -> tuple[Arrays, dict[str, Any]]:
    """All that is needed to go on exactly from here."""
    arrays = {f"state.{name}": array for name, array in run.state.arrays().items()}
    arrays |= {"centre": run.centre.z, "U": run.centre.U}
    for name in ("average", "best_w"):
        if getattr(run, name) is not None:
            arrays[name] = getattr(run, name)
    meta = {
        "random": run.rng.bit_generator.state,
        "history": run.history.to_dict(),
        "centre": {name: str(value) for name, value in run.centre.settings().items()},
        "numbers": {name: str(getattr(run, name)) for name in _NUMBERS},
    }
    return arrays, meta


def resume(run: Any, arrays: Arrays, meta: dict[str, Any]) -> None:
    """Go on from a snapshot, whose bounds are proved again: a file may say anything.

    Raises
    ------
    InvalidData
        The snapshot is none, or says of its dual point or its w what is not so.
    """
    require("U" in arrays, "U is missing")
    check_vectors(run.problem.data, arrays)
    if arrays["U"].dtype != run.state.w.dtype:
        run.widen()
    state = {name[len("state.") :]: a for name, a in arrays.items() if name[:6] == "state."}
    run.state.restore(state)
    U = np.zeros(len(run.state.w))
    run.state.dual_vector(U)
    dual = run.problem.dual_bound(run.state.loss_sum, U)
    run.average, run.best_w = arrays.get("average"), arrays.get("best_w")
    run.history = History.from_dict(meta["history"])
    for name in _NUMBERS:
        kind, low = type(getattr(run, name)), -math.inf if name in _SIGNED else 0.0
        value = meta["numbers"][name]
        value = value if kind is str else number(value, kind, name, low)
        setattr(run, name, value)
    require(run.better in ("w", "average"), f"better = {run.better!r:.20} is no name")
    require(run.parts == 0 or len(run.history) > 0, "the history has no records")
    _prove(run, dual, U, arrays["U"])
    centre = {k: number(v, float, k, 0.0) for k, v in meta["centre"].items()}
    run.centre.resume(arrays["centre"], arrays["U"], centre)
    run.state.restore(state)  # sums as the passes have added them up, not as they are afresh
    restore_generator(run.rng, meta["random"])
    run.aim()


def check_vectors(data: Any, arrays: Arrays) -> None:
    """Refuse vectors of a state or a run that are not of w's length, or have values in its padding.

    What is there belongs to no weight, but would be part of the regulariser.
    """
    for name in arrays:
        if name.removeprefix("state.") in _VECTORS:
            check(arrays, {name: vector(data.size)})
            check_size(name, arrays[name])
            require(data.is_point(arrays[name]), f"{name} has values where there are no weights")


def _prove(run: Any, dual: Bound, U: np.ndarray, claimed: np.ndarray) -> None:
    """Bounds of a snapshot anew, or refuse a dual point and a w that contradict each other.

    For feasible dual variables P(w) - D is at least g(w) + g*(U) - <U, w>, whatever w is.
    """
    # In single precision what passes add up drifts away, until it is summed up afresh.
    if run.state.follows and claimed.dtype == np.float64:
        gap = np.abs(claimed - U).max(initial=0.0)
        require(gap <= _AGREE * (1.0 + np.abs(U).max(initial=0.0)), "U is not the dual vector")
    if not run.problem.repeatable:
        require(math.isinf(run.best_dual), "data that cannot be read again have a bound")
        return
    v = run.wide(run.state.w if run.best_w is None else run.best_w).copy()
    primal, penalty = run.problem.primal_bound(v), run.problem.quadratic.value(v)
    conjugate = run.problem.quadratic.conjugate(U)
    terms = primal.value + penalty + abs(conjugate)
    rounding = primal.rounding + dual.rounding + _AGREE * _AGREE * terms
    excess = penalty + conjugate - run.problem.quadratic.dot(U, v)
    require(
        primal.value - run.problem.dual(run.state.loss_sum, U) >= excess - rounding,
        f"the dual bound {dual.value} and the objective {primal.value} contradict each other",
    )
    if run.best_w is not None:
        (run.best_primal, run.primal_rounding), run.penalty = primal, penalty
    # What an earlier dual point proved, and this one does not, is not known any more.
    run.best_dual = min(run.best_dual, dual.value)
    run.dual_rounding = dual.rounding
