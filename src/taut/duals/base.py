"""What the solver asks of dual variables, and what the two forms with planes share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from taut.binding import Data, in_threads
from taut.compiled.jit import helper
from taut.compiled.lanes import aligned_zeros
from taut.duals.planes import N_PLANES, PlaneArrays, Planes
from taut.duals.support import DualSupport, LabelsInUse
from taut.duals.threads import Worker, alone, collect, together
from taut.errors import MissingOracle
from taut.spaces.labels import score_of

Arrays = dict[str, np.ndarray]
_WORTHWHILE = 64  # visits per thread, below which one thread is faster


@helper
def select(labels, values, count, factor, chosen, scales):
    """Gather the labels whose values are not zero, and factor times these; return how many."""
    size = labels.shape[1]
    kept = 0
    for q in range(count):
        if values[q] != 0.0:
            for t in range(size):
                chosen[kept * size + t] = labels[q, t]
            scales[kept] = factor * values[q]
            kept += 1
    return kept


def looking_of(operations):
    """A function that returns C_i hinge_i - sum_q coef[q] violation_i(labels[q]) at w."""
    pull, argmax, loss = operations.pull, operations.argmax, operations.loss
    score = score_of(operations)

    def look(space, data, i, own, labels, coef, weight, w, work, label):
        pull(space, i, w, work)
        base = score(data, i, work, own)
        mean = 0.0
        for q in range(coef.shape[0]):
            if coef[q] > 0.0:
                violation = loss(data, i, labels[q]) - base + score(data, i, work, labels[q])
                mean += coef[q] * violation
        hinge = max(argmax(data, i, work, 1.0, label[: own.shape[0]]) - base, 0.0)
        return weight * hinge - mean

    return helper(look)


class BlockDual(ABC):
    """Feasible dual variables of all blocks."""

    #: Whether visits can ask the oracle; without features there are only those over planes.
    asks: ClassVar[bool] = True
    #: Whether visits without the oracle, over the planes already found, are possible.
    cached_visits: ClassVar[bool] = True
    #: Whether all weight is on the truths at first, and U = 0.
    at_zero: ClassVar[bool] = True
    #: Whether dual variables of this form are numbers that `approach` can average.
    averages: ClassVar[bool] = False
    #: Of what samplers draw in this pass.
    seed: np.uint64 = np.uint64(0)

    def __init__(self, data: Data, weight: np.ndarray, n_jobs: int) -> None:
        self.data = data
        self.weight = weight
        self.n_jobs = n_jobs

    def allocate(self, dtype: type) -> None:
        """Make what visits work with, for w of this type."""

    def visit(
        self,
        order: np.ndarray,
        w: np.ndarray,
        stiffness: float,
        asks: bool,
        gap: np.ndarray,
        sums: np.ndarray,
    ) -> None:
        """Visit blocks in `order`, updating w and `gap`, and adding to `sums` block by block.

        `asks` says whether they ask the oracle, or go by the planes already found.
        sums[0] is the summed loss, sums[1] the summed squared length of the blocks' moves of U,
        and sums[2], where there are planes, the summed gap over those of each block.
        """
        n_threads = self.n_jobs if len(order) >= _WORTHWHILE * self.n_jobs else 1
        if n_threads == 1:
            parts, workers, own_sums = [order], [alone(w)], [sums]
        else:
            # By number, because a block may be in `order` twice, and only one thread may have it.
            parts = [order[order % n_threads == k] for k in range(n_threads)]
            before, workers = w.copy(), together(w, n_threads, self.news_interval)
            own_sums = [aligned_zeros(len(sums), np.float64) for _ in workers]

        def run(k: int) -> np.ndarray:
            return self.visit_part(k, parts[k], workers[k], stiffness, asks, gap, own_sums[k])

        while any(len(part) for part in parts):
            parts = in_threads(run, range(n_threads))
            if any(len(part) for part in parts):
                self.make_space()
        if n_threads > 1:
            collect(w, before, workers)
            sums += sum(own_sums)

    @property
    def news_interval(self) -> int:
        """Visits between two exchanges of news among threads; 0 where they take too long."""
        interval = max(8, 8 * self.data.size // max(self.data.reads, 1))
        return interval if interval <= len(self.weight) // 64 else 0

    @abstractmethod
    def visit_part(
        self,
        number: int,
        order: np.ndarray,
        worker: Worker,
        stiffness: float,
        asks: bool,
        gap: np.ndarray,
        sums: np.ndarray,
    ) -> np.ndarray:
        """The visits of one thread; the blocks that it could not visit for lack of space."""

    def look(self, w: np.ndarray, gap: np.ndarray) -> None:
        """gap[i] = the duality gap of block i at w, by one oracle call each; nothing moves."""
        raise MissingOracle(f"{type(self).__name__} moves whenever it looks at blocks")

    def make_space(self) -> None:
        """Find more space for the dual variables; no visit is under way."""

    @abstractmethod
    def sum_up(self, U: np.ndarray) -> float:
        """U += sum of a psi, unless it is empty, and the sum of a loss, from the dual variables."""

    @property
    def loss_sum(self) -> float:
        """Sum of a loss, from the dual variables."""
        return self.sum_up(np.empty(0))

    @abstractmethod
    def curvature(self) -> np.ndarray:
        """A typical |psi|^2 of each block among its dual variables in use; 0 where none is."""

    def revisitable(self) -> np.ndarray:
        """Blocks for which a visit without the oracle can gain something."""
        return np.zeros(len(self.weight), dtype=bool)

    @abstractmethod
    def arrays(self) -> Arrays:
        """The dual variables as named arrays."""

    @abstractmethod
    def check(self, arrays: Arrays, weight: np.ndarray) -> None:
        """Refuse arrays that are no feasible dual variables of these blocks under these weights.

        Before `restore` or `put`, for what did not come from this process.
        """

    @abstractmethod
    def restore(self, arrays: Arrays, factor: np.ndarray) -> None:
        """Take dual variables from `arrays`, block i's multiplied by factor[i]."""

    @abstractmethod
    def complete(self) -> None:
        """Give the truths what the dual variables lack of the blocks' weights."""

    def finish(self, w: np.ndarray, stiffness: float, sums: np.ndarray) -> None:
        """Do what visits leave to the end of a pass over all blocks."""

    @abstractmethod
    def used(self) -> np.ndarray:
        """How much of each block's weight is on something else than the truth."""

    def in_use(self) -> np.ndarray:
        """Which blocks have weight on something else than the truth."""
        return self.used() > 0.0

    def labels_in_use(self) -> LabelsInUse | None:
        """The labels with weight beside the truths, where dual variables belong to labels."""
        return None

    def support(self) -> DualSupport:
        """What a fit keeps."""
        return DualSupport.of(self.used(), self.weight, self.labels_in_use())

    @abstractmethod
    def take(self, blocks: np.ndarray) -> Arrays:
        """The dual variables of some blocks, as named arrays."""

    def packed(self, blocks: np.ndarray) -> Arrays:
        """The same in as little memory as possible."""
        return self.take(blocks)

    @abstractmethod
    def put(self, blocks: np.ndarray, arrays: Arrays) -> None:
        """Let some blocks have the dual variables that `take` or `packed` returned."""

    def approach(self, other: BlockDual, share: float) -> None:
        """Go `share` of the way to the dual variables of others of the same blocks."""
        raise NotImplementedError(f"{type(self).__name__} has no averages")

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory that the dual variables take."""


class PlaneDual(BlockDual):
    """What the two forms with planes share: only how planes are found and applied differs.

    A visit ends with `step`, one of `taut.duals.plane_steps`, of up to `max_steps`; one with the
    oracle of up to `oracle_steps`, where that is given. Without a step, weight goes to labels one
    by one (`taut.duals.one_by_one`), and no Gram matrices are kept.

    A label that the oracle finds is added if its violation exceeds that of all planes, the slack,
    by more than `margin`; any other label of a sample if it exceeds `share` of the same bar. A full
    block drops planes that have been without weight for `patience` counts (`Planes.count_idle`).
    """

    planes: Planes
    margin: float = 0.0
    share: float = 0.0
    patience: int = 0

    def __init__(
        self,
        data: Data,
        weight: np.ndarray,
        n_jobs: int,
        step: Callable | None,
        max_steps: int,
        oracle_steps: int | None,
    ) -> None:
        super().__init__(data, weight, n_jobs)
        self.step = step
        self.max_steps = max_steps
        self.oracle_steps = max_steps if oracle_steps is None else oracle_steps

    @abstractmethod
    def add_vector(self, U: np.ndarray) -> None:
        """U += sum of a psi, from the planes."""

    def sum_up(self, U):
        self.add_vector(U)
        return self.loss_sum

    @property
    def loss_sum(self):
        return self.planes.loss_sum

    def curvature(self):
        return self.planes.mean_squares()

    def revisitable(self):
        return (self.planes.arrays.places[:, N_PLANES] > 1) & (self.weight > 0.0)

    def arrays(self):
        return dict(self.planes.arrays._asdict())

    def restore(self, arrays, factor):
        self.planes.arrays = PlaneArrays(*(arrays[name].copy() for name in PlaneArrays._fields))
        self.planes.rescale(factor)

    def complete(self):
        self.planes.complete(self.weight)

    def used(self):
        return self.planes.used()

    def take(self, blocks):
        return self._named(self.planes.take(blocks))

    def packed(self, blocks):
        return self._named(self.planes.packed(blocks))

    def _named(self, planes: PlaneArrays) -> Arrays:
        """Planes that were taken, with all that belongs to them, as named arrays."""
        return dict(planes._asdict())

    def put(self, blocks, arrays):
        self.planes.put(blocks, PlaneArrays(*(arrays[name] for name in PlaneArrays._fields)))

    @property
    def nbytes(self):
        return self.planes.nbytes
