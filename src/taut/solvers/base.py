"""What a contributor writes: a solver makes a state, improves it pass by pass, and reads its dual.

The loop around it, stopping, certificates, logging and checkpoints are in `taut.training.loop`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Generic, TypeVar

import numpy as np

from taut.problem import Problem

KeepGoing = Callable[[], bool]
Arrays = dict[str, np.ndarray]


class PassEvent(Enum):
    """What a pass has come to, and so what the loop may do now.

    A solver may hand back control within a long pass: after a part of it the loop reports and saves
    as between passes, and calls `pass_` again.
    """

    # What it means, and whether the pass is over, complete and stuck.
    EXPLORED = (
        "part of a pass, with blocks that came in: the centre stays, and its gaps are void",
        False, False, False,
    )  # fmt: skip
    PART = (
        "part of a pass: the centre may move, and learn from how the visits added up",
        False, False, False,
    )  # fmt: skip
    STUCK_PART = (
        "such a part whose visits gain nothing any more: go on with w in float64",
        False, False, True,
    )  # fmt: skip
    INCOMPLETE = (
        "the pass is over, but cut short or without the oracle: the gap is not to trust",
        True, False, False,
    )  # fmt: skip
    COMPLETE = (
        "the pass is over: the gap may be trusted enough to be verified",
        True, True, False,
    )  # fmt: skip
    STUCK = (
        "a complete pass, whose visits gain nothing any more: go on with w in float64",
        True, True, True,
    )  # fmt: skip
    SETTLED = (
        "a complete pass, and another one would change nothing: stop, whatever the gap",
        True, True, False,
    )  # fmt: skip
    OUT_OF_MEMORY = (
        "a pass or a part of one, and there is no memory left for another: stop",
        False, False, False,
    )  # fmt: skip

    def __init__(self, sentence: str, over: bool, complete: bool, stuck: bool) -> None:
        self.sentence = sentence
        #: Whether the pass is over, and not a part of it alone.
        self.over = over
        #: Whether the exact oracle was asked throughout, so that the gap may be verified.
        self.complete = complete
        #: Whether visits gain nothing any more: in single precision their steps are lost in w.
        self.stuck = stuck


@dataclass(frozen=True)
class Candidate:
    """Weights beside the state's w, the better of which is certified.

    Attributes
    ----------
    w : ndarray, optional
        Weights of the solver's own. Without them it is the loop's running average of w, and the
        state's w belongs into it now.
    restarts : bool
        Whether that average begins anew with it.
    """

    w: np.ndarray | None = None
    restarts: bool = False


@dataclass(frozen=True)
class PassReport:
    """What one pass, or a part of it, found.

    Attributes
    ----------
    gap : float
        Sum over blocks of C_i hinge_i - sum_y a_iy violation_i(y), each as seen when last visited:
        an estimate of P(w) - D(a) - 1/2 |w - U|^2, and exact when w stood still.
    movement : float
        Sum over visits of the squared length of the visit's move of U: beside the squared length of
        the whole pass's move it tells whether blocks undo each other's steps.
    oracle_calls : int
    event : PassEvent
        What the loop may do now.
    candidate : Candidate, optional
        What to verify beside w; what there was before, by default.
    """

    gap: float
    movement: float
    oracle_calls: int
    event: PassEvent
    candidate: Candidate | None = None


class DualState(ABC):
    """A feasible dual point with its w; solvers subclass it.

    The loop places w before the first pass and may move it between passes
    (`taut.training.centre`), so solvers must take w as it is. With a prior or bounds it is the v of
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
    #: Whether w is where the dual vector and the centre put it; some methods move w by rules of
    #: their own, and have a dual point beside it. Their `recentring` is 0.
    follows: bool = True

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

    @abstractmethod
    def arrays(self) -> Arrays:
        """Everything that is needed to go on, as named arrays."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> None:
        """Go on from `arrays`, exactly."""

    @abstractmethod
    def hot_start(self, arrays: Arrays, same_weights: bool) -> None:
        """Take the dual point of another solve of the same blocks, scaled to these weights."""


State = TypeVar("State", bound=DualState)


class Solver(ABC, Generic[State]):
    """A way to optimise.

    Attributes
    ----------
    recentring : float or "auto"
        Strength of the moving centre (`taut.training.centre`) that this solver wants from the loop;
        0 for solvers that do not ascend the dual by blocks.
    can_be_fed : bool
        Whether it goes on with data that come in later and are gone afterwards, as of
        `partial_fit`.
    """

    name: ClassVar[str]
    can_be_fed: ClassVar[bool] = False
    recentring: float | str = 0.0

    @abstractmethod
    def init(self, problem: Problem, rng: np.random.Generator) -> State:
        """The first feasible dual point."""

    @abstractmethod
    def pass_(
        self, problem: Problem, state: State, stiffness: float, keep_going: KeepGoing
    ) -> PassReport:
        """One pass over the blocks, for the problem with 1/2 |w|^2 stiffened by the centre.

        A change of the dual moves w by 1 / stiffness of what it moves U. `keep_going` is asked
        every fraction of a second; after False the pass ends early, with the dual point feasible.
        """
