"""What a contributor writes: a solver makes a state, improves it pass by pass, and reads its dual.

The loop around it, stopping, certificates, logging and checkpoints are in `taut.training.loop`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Generic, TypeVar

import numpy as np

from taut.engines.base import DualState
from taut.engines.turns import KeepGoing
from taut.errors import InvalidData
from taut.problem import Problem


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


State = TypeVar("State", bound=DualState)


#: What a solver says of data that come in a way that it does not take.
_LACKS = {
    "whole": "reads data chunk by chunk, and these are in memory: use solver='dual_coordinate'",
    "chunks": (
        "needs all data in memory, and these are read part by part: use solver='online_cache', or "
        "load them if they fit"
    ),
    "rows": (
        "needs the whole kernel matrix, and its rows are computed as they are asked for: use "
        "solver='dual_coordinate', or make room for it, by `cache` of an estimator or `whole` of "
        "through_kernel"
    ),
}


class Solver(ABC, Generic[State]):
    """A way to optimise.

    Attributes
    ----------
    recentring : float or "auto"
        Strength of the moving centre (`taut.engines.centre`) that this solver wants from the loop;
        0 for solvers that do not ascend the dual by blocks.
    starts_hot : bool
        Whether it can begin with what another solve left, and leaves what others can begin with.
    can_be_fed : bool
        Whether it goes on with data that come in later and are gone afterwards, as of
        `partial_fit`.
    takes : tuple of str
        What it works on: data as a "whole", in memory, and in "chunks", as they are read.
    """

    name: ClassVar[str]
    starts_hot: ClassVar[bool] = True
    can_be_fed: ClassVar[bool] = False
    takes: ClassVar[tuple[str, ...]] = ("whole", "chunks")
    recentring: float | str = 0.0

    def check(self, problem: Problem) -> None:
        """Refuse a problem whose data come in a way that this solver does not take."""
        if problem.comes_as not in self.takes:
            raise InvalidData(f"{self.name} {_LACKS[problem.comes_as]}")

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
