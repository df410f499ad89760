"""Dual ascent with several labels per visit, which a sampler chooses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from taut._lanes import aligned_zeros
from taut.binding import CompiledData, PythonData
from taut.errors import InvalidData
from taut.plane_steps import sampled_steps
from taut.problem import Problem
from taut.sampling import Sampler, as_sampler
from taut.solvers._block_ascent import BlockAscent
from taut.solvers._block_duals import (
    BlockDual,
    EnumeratedDual,
    LabelledDual,
    MergedDual,
    PythonDual,
)
from taut.solvers._chunked import ChunkedState
from taut.solvers._sequential import Sequential
from taut.solvers._sequential_state import SequentialState
from taut.solvers._visits import ExactVisits, Step, Visits
from taut.solvers.base import KeepGoing, PassReport, Solver
from taut.streamed import StreamedProblem

_SAMPLES = 10  # of a visit, where nothing is said and the labels are too many for all of them


@dataclass
class _Choice:
    """Which labels a visit works on."""

    n_samples: int | None
    sampler: str | Callable | Sampler

    def takes_all(self, data: CompiledData | PythonData) -> bool:
        """Whether all labels are sampled, by a step that is exact over them."""
        if isinstance(data, PythonData) or data.oracles.exact_step is None:
            return False
        own = self.sampler == "auto" and data.oracles.sample is not None
        return self.sampler in ("auto", "all") and self.n_samples is None and not own

    def of(self, data: CompiledData | PythonData) -> tuple[Sampler, int]:
        """The sampler for data, and how many labels to ask it for."""
        return as_sampler(self.sampler, data), self.n_samples or _SAMPLES


@dataclass
class _Merging(BlockAscent):
    """Algorithm 2: dual variables for each block, merged into one plane."""

    name: ClassVar[str] = "multi_sample"

    choice: _Choice
    shuffle: bool

    def duals_of(
        self, data: CompiledData | PythonData, weight: np.ndarray, n_jobs: int
    ) -> BlockDual:
        """The form of dual variables that the oracles allow."""
        if self.choice.takes_all(data):
            assert isinstance(data, CompiledData)
            return EnumeratedDual(data, weight, n_jobs)
        sampler, count = self.choice.of(data)
        if isinstance(data, PythonData):
            return PythonDual(
                data, weight, n_jobs, sampled_steps, count + 1, sampler=sampler, n_samples=count,
                merges=True,
            )  # fmt: skip
        if data.oracles.expect is not None:
            return MergedDual(data, weight, n_jobs, sampler, count)
        return LabelledDual(
            data, weight, n_jobs, sampled_steps, count + 1, sampler=sampler, n_samples=count
        )


@dataclass
class _OverChunks(Solver[ChunkedState]):
    """The same for data that are read chunk by chunk."""

    name: ClassVar[str] = "multi_sample"

    ascent: _Merging

    def init(self, problem: Problem, rng: np.random.Generator) -> ChunkedState:
        """All weight on the truths."""
        streamed = StreamedProblem.of(problem)
        w = aligned_zeros(streamed.data.size, streamed.data.dtype)
        return ChunkedState(streamed, self.ascent, w, rng)

    def pass_(
        self, problem: Problem, state: ChunkedState, stiffness: float, keep_going: KeepGoing
    ) -> PassReport:
        """One reading, and one visit of each block."""
        return state.go_through(stiffness, keep_going)


@dataclass
class _Online(Sequential):
    """Algorithm 1: nothing is kept of a block."""

    name: ClassVar[str] = "multi_sample"
    fades: ClassVar[bool] = True

    choice: _Choice
    shuffle: bool

    @property
    def step(self) -> Step:
        """Towards the argmax, then between all labels of the visit."""
        return Step(sampled_steps, max_steps=1 + self.n_labels)

    def visits_of(self, data: CompiledData | PythonData, state: SequentialState) -> Visits:
        """Visits with as many labels as were asked for."""
        if self.choice.takes_all(data):
            assert isinstance(data, CompiledData)
            return ExactVisits(data)
        self.sampler, self.n_labels = self.choice.of(data)
        return super().visits_of(data, state)


@dataclass
class MultiSample(Solver[Any]):
    """Multi-sample dual ascent with importance sampling (Branson, Beijbom and Belongie, 2013).

    Problem: max_a sum_iy a_iy loss_i(y) - 1/2 |sum_iy a_iy psi_i(y)|^2, a >= 0, sum_y a_iy <= C_i.
    Given: for each block a few labels of high violation, little correlated, the loss-augmented
    argmax among them, from a sampler (`taut.sampling`). Comes out: w and a feasible a.

    A visit moves weight between the labels of the sample and what the block has already. All weight
    first goes towards the argmax by an exact step, so that a visit is never worse than full weight
    on it; then pairs of labels exchange weight, as many times as there are labels. Where all labels
    are sampled and the structure has an exact step, that is taken instead.

    - "dual" (Algorithm 2): a block's labels are merged into one plane after each visit, so that its
      memory does not grow: the mean of their statistics where the structure has expectations, a
      sparse vector for plain-Python structures, one weight per label where all are sampled.
      Compiled structures without expectations keep their labels apart, which gains at least as
      much. Labels that were merged can only lose weight together.
    - "online" (Algorithm 1): nothing is kept of a block; what earlier visits found fades as n / t.
      The weights are w^t = (t - 1)/t w^(t-1) + ..., and violations in a visit are those of the
      weights already faded: as printed, with those before, the dual is not what the step maximises.

    Over a source both keep the features of one chunk at a time; in sequence (`shuffle=False`) the
    outcome is that of the same data in memory.

    Cost per pass: one call of the sampler per block, and (samples)^2 operations beside it.
    Memory: as above; "online" three vectors of the length of w.
    Certificate: exact. Convergence is guessed from the losses that accumulate in a pass, and
    confirmed by a true gap.

    Parameters
    ----------
    n_samples : int, optional
        Labels per visit. By default all where the structure has an exact step over them, else 10.
    sampler : str, callable or Sampler, default="auto"
        "argmax", "all", "top", "m_best", "diverse", "random", or a function; by default the
        structure's own `sample`, or what suits it: see `taut.sampling.as_sampler`.
    form : {"dual", "online"}, default="dual"
    shuffle : bool, default=True
        Blocks in random order; of a source, its chunks where they can be read in any order, and the
        blocks in each.
    recentring : float or "auto", default="auto"
        Strength of the moving centre of the dual form, as for `DualCoordinate`; the published
        algorithms have none, and 0 switches it off. The online form has none.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.solvers import MultiSample
    >>> from taut.structures import Multiclass
    >>> problem = Problem(Multiclass(3), np.eye(3), np.array([0, 1, 2]), C=1.0)
    >>> for solver in (MultiSample(), MultiSample(2), MultiSample(form="online")):
    ...     result = solve(problem, solver, tol=1e-2, random_state=0)
    ...     result.certificate.relative_gap <= 1e-2
    True
    True
    True
    """

    name: ClassVar[str] = "multi_sample"

    n_samples: int | None = None
    sampler: str | Callable | Sampler = "auto"
    form: str = "dual"
    shuffle: bool = True
    recentring: float | str = "auto"

    def __post_init__(self) -> None:
        if self.form not in ("dual", "online"):
            raise InvalidData(f"form = {self.form!r}: give 'dual' or 'online'")
        if self.n_samples is not None and self.n_samples < 1:
            raise InvalidData(f"n_samples = {self.n_samples}: it must be at least 1, or None")
        if self.form == "online":
            if self.recentring not in ("auto", 0.0):
                raise InvalidData(
                    f"recentring = {self.recentring!r} with form = 'online', which has no centre: "
                    "leave it out, or give form='dual'"
                )
            self.recentring = 0.0

    @property
    def can_be_fed(self) -> bool:  # type: ignore[override]
        """Whether it goes on with data that come in later: only what keeps nothing of a block."""
        return self.form == "online"

    def _way(self, problem: Problem) -> Solver:
        choice = _Choice(self.n_samples, self.sampler)
        if self.form == "online":
            return _Online(choice, self.shuffle)
        merging = _Merging(choice, self.shuffle)
        return merging if problem.in_memory else _OverChunks(merging)

    def init(self, problem: Problem, rng: np.random.Generator) -> Any:
        """All weight on the truths."""
        return self._way(problem).init(problem, rng)

    def pass_(
        self, problem: Problem, state: Any, stiffness: float, keep_going: KeepGoing
    ) -> PassReport:
        """One visit of each block."""
        return self._way(problem).pass_(problem, state, stiffness, keep_going)
