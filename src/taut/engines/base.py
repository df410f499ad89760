"""What the loop asks of a dual point, and what solvers ask of an engine that has one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from taut.binding import Data
from taut.compiled.lanes import aligned_copy, aligned_zeros
from taut.duals.support import DualSupport
from taut.engines.naming import Arrays
from taut.engines.part import Ascent, Part, Reply
from taut.engines.turns import KeepGoing
from taut.errors import InvalidData
from taut.problem import Problem
from taut.storage.stored import check, vector


def no_start(name: str) -> str:
    """What to do where a solver cannot begin with what another solve left."""
    return (
        f"{name} keeps no dual variables to start from: fit anew with warm_start=False, and with "
        "checkpoint= to be able to resume that fit"
    )


class DualState(ABC):
    """A feasible dual point with its w; solvers subclass it.

    The loop places w before the first pass and may move it between passes
    (`taut.engines.centre`), so solvers must take w as it is. With a prior or bounds it is the v of
    `taut.spaces.quadratic`.
    """

    w: np.ndarray
    #: The loop's last estimate of the primal, and how much of the gap is due to the centre.
    primal: float = 0.0
    excess: float = 0.0
    #: The relative gap, as passes estimate it, that the run is to reach.
    tol: float = 0.0
    #: Whether the first dual point is a = 0, with U = 0.
    at_zero: bool = True
    #: Whether passes keep w from swinging by themselves: the loop then neither moves a centre
    #: around them nor averages w.
    steady: bool = False
    #: Whether w is where the dual vector and the centre put it; some methods move w by rules of
    #: their own, and have a dual point beside it. Their `recentring` is 0.
    follows: bool = True

    @property
    def precise(self) -> bool:
        """Whether passes work in float64."""
        return self.w.dtype == np.float64

    @property
    @abstractmethod
    def loss_sum(self) -> float:
        """Sum of a loss: the dual's linear term, as the passes have added it up."""

    @abstractmethod
    def dual_vector(self, U: np.ndarray) -> None:
        """U = sum_iy a_iy psi_i(y), of float64, computed afresh from the dual variables."""

    def dual_value(self, conjugate: float) -> float:
        """D, where `conjugate` is g* of the dual vector that w belongs to."""
        return self.loss_sum - conjugate

    @property
    def outcome(self) -> np.ndarray:
        """What a run ends with where nothing can be verified, because the data are gone: w."""
        return self.w

    def wake(self) -> None:
        """The gap that the passes reported was too small: look at all blocks in the next one."""

    def widen(self) -> None:
        """Go on with w in float64, where single precision is not enough."""

    def close(self) -> None:
        """The run is over, for now: let go of what is open."""

    @abstractmethod
    def curvature(self) -> float:
        """Mean over the blocks of C_i |psi_i|^2, from which the centre's strength is guessed."""

    def support(self) -> DualSupport | None:
        """Which blocks have dual weight, where blocks have dual variables that are all at hand."""
        return None

    @abstractmethod
    def arrays(self) -> Arrays:
        """Everything that is needed to go on, as named arrays."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> None:
        """Go on from `arrays`, exactly."""

    def hot_start(self, arrays: Arrays, same_weights: bool) -> None:
        """Take the dual point of another solve of the same blocks, scaled to these weights.

        For solvers that start hot.
        """
        raise InvalidData(f"the start cannot be used: {no_start('this solver')}")


class Engine(DualState):
    """A dual point that consists of parts, and what sweeps over all of them."""

    def __init__(self, problem: Problem, ascent: Ascent, rng: np.random.Generator) -> None:
        self.problem = problem
        self.ascent = ascent
        self.rng = rng
        self.w = aligned_zeros(problem.data.size, problem.data.dtype)

    @abstractmethod
    def sweep(self, stiffness: float, keep_going: KeepGoing) -> Reply:
        """Sweep over the parts; each sees in w what those before it moved."""

    def part_of(self, data: Data, weight: np.ndarray) -> Part:
        """Some blocks with a = 0."""
        return self.ascent.part_of(data, weight, self.problem.n_jobs, self.w.dtype)

    def draw_order(self, shuffle: bool) -> np.ndarray | None:
        """Numbers of all chunks in random order; None for the order in which they come."""
        if not (shuffle and self.problem.random_access):
            return None
        return self.rng.permutation(self.problem.n_parts)

    @property
    def parts(self) -> Sequence[Part]:
        """Those that are in memory."""
        return ()

    @property
    def loss_sum(self) -> float:
        """Sum of a loss."""
        return sum(part.loss_sum for part in self.parts)

    def dual_vector(self, U: np.ndarray) -> None:
        """U, and the summed loss with it, computed afresh."""
        U[:] = 0.0
        for part in self.parts:
            part.sum_up(U)
        self.problem.data.settle(U)

    def curvature(self) -> float:
        """Mean of C_i |psi_i|^2 over the blocks in memory."""
        values = [part.curvature() for part in self.parts]
        return float(np.mean(np.concatenate(values))) if values else 0.0

    def wake(self) -> None:
        """Visit all blocks in memory in the next pass with the oracle."""
        for part in self.parts:
            part.wake()

    def widen(self) -> None:
        """W and all that visits work with in float64."""
        self.w = aligned_copy(self.w, np.float64)
        for part in self.parts:
            part.widen()

    def restore_w(self, arrays: Arrays) -> None:
        """The w of `arrays`, in its precision."""
        check(arrays, {"w": vector(len(self.w))})
        if arrays["w"].dtype != self.w.dtype:
            self.widen()
        self.w[:] = arrays["w"]
