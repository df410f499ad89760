"""The blocks that a solver over a stream keeps: their features, their dual variables, its budget.

Blocks with weight off the truth are kept in segments, with their features, so that they can be
visited without being read again. When the features do not fit, some blocks are put to rest: their
dual variables stay, small and counted in the dual, and their features come back when their chunk is
read again. Blocks without weight are forgotten.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

import numpy as np

from taut.console.notices import warn_once
from taut.data.chunks import Chunk, check_columns, concatenate, from_columns
from taut.data.memory import return_freed_memory
from taut.errors import CacheOverflow, InvalidContent, InvalidData
from taut.solvers._block_ascent import CoordinateState
from taut.solvers._budget import Budget, resting_size
from taut.solvers._segment import Segment
from taut.solvers.base import Arrays, DualState
from taut.solvers.dual_coordinate import DualCoordinate
from taut.storage.stored import Stored, check, require, vector
from taut.streamed import Part, StreamedProblem

_ROUNDING = 1e-6  # relative, of sums that are made again
_MANY = 16  # small segments that are worth being merged
_GAIN = 0.9  # of the least gap so far, below which a round has gained something
_FAR = 100.0  # times its losses: what a block is from a violation that need not be feared
_RECENT = 0.2  # of the explored blocks: those whose gaps tell about the others
_NUMBERS = (
    "passes", "position", "explored", "explored_in_pass", "optimising", "ended", "rounds", "scale",
    "primal", "excess", "n_seen", "n_left", "n_explored", "fresh_gap", "least_gap", "waited",
)  # fmt: skip


class CacheState(DualState):
    """Kept and resting dual variables of a stream's blocks, and where in the stream it is."""

    def __init__(
        self,
        problem: StreamedProblem,
        ascent: DualCoordinate,
        w: np.ndarray,
        rng: np.random.Generator,
        memory: int,
    ) -> None:
        self.problem = problem
        self.ascent = ascent
        self.memory = memory
        self.budget = Budget(problem, ascent)
        self.w = w
        self.rng = rng
        self.segments: list[Segment] = []
        # By number of the chunk: positions of resting blocks in it, and their dual variables.
        self.resting: dict[int, list[tuple[np.ndarray, Arrays]]] = {}
        self.resting_vector: np.ndarray | None = None  # their sum a psi
        self.resting_loss = 0.0
        self.firsts: dict[int, int] = {}  # number of each chunk's first block
        self.n_seen = 0  # blocks that have been read at some time
        self.n_left = 0  # blocks that were let go in this pass for want of memory
        self.n_explored = 0  # visits of blocks that were not kept before
        self.fresh_gap = 0.0  # of a block when it is explored, averaged over the last fifth of them
        self.reader: Generator[tuple[Chunk, Part]] | None = None
        self.order = np.empty(0, dtype=np.int64)  # of the chunks in this pass; empty: as they come
        self.passes = 0
        self.position = 0  # chunks of this pass that have been explored
        self.explored = 0.0  # gap found since the cache was last optimised
        self.explored_in_pass = 0.0
        self.scale = -1.0  # the objective as exploring began; negative: it has not
        self.optimising = False
        self.ended = False  # whether the pass has seen all chunks
        self.rounds = 0  # of optimising, since it began
        self.least_gap = np.inf  # of the cache since then
        self.waited = 0  # rounds since it last fell by a tenth
        self.overflows, self.n_dropped = 0, 0  # how often blocks were put to rest, and how many

    # What the loop asks for

    @property
    def loss_sum(self) -> float:
        """Sum of a loss."""
        return self.resting_loss + sum(segment.state.loss_sum for segment in self.segments)

    def dual_vector(self, U):
        """U, and the summed loss of the kept blocks with it, computed afresh."""
        U[:] = 0.0 if self.resting_vector is None else self.resting_vector
        for segment in self.segments:
            segment.state.loss_sum = segment.state.duals.loss_sum
            segment.state.duals.add_vector(U)

    def curvature(self):
        """Mean of C_i |psi_i|^2 over the kept blocks."""
        values = [s.state.duals.weight * s.state.duals.curvature() for s in self.segments]
        return float(np.mean(np.concatenate(values))) if values else 0.0

    def widen(self):
        """W and all that visits work with in float64."""
        self.w = self.w.astype(np.float64)
        for segment in self.segments:
            segment.state.w = self.w
            segment.state.duals.allocate(np.float64)

    def wake(self):
        """Visit all kept blocks in the next round; the others are visited in each pass."""
        for segment in self.segments:
            segment.state.wake()

    def close(self):
        """Stop reading, and the thread that reads ahead; say what did not fit."""
        reader, self.reader = self.reader, None
        if reader is not None:
            reader.close()
        overflows, self.overflows = self.overflows, 0
        if overflows:
            warn_once(
                f"the active blocks do not fit into memory={self.memory}: {overflows} times some "
                f"features were dropped to be read again, {self.n_dropped} blocks counted each "
                "time; raise memory, or lower C",
                CacheOverflow,
            )
        self.n_dropped = 0

    # Gaps

    def explored_chunk(self, gap: float, n: int) -> None:
        """Take note of the summed gap of n blocks that were explored."""
        self.explored += gap
        self.explored_in_pass += gap
        if n:
            self.n_explored += n
            rate = n / (n + _RECENT * min(self.n_explored, self.n_seen))
            self.fresh_gap += min(rate, 1.0) * (gap / n - self.fresh_gap)

    def begin_rounds(self) -> None:
        """Optimising begins."""
        self.rounds, self.least_gap, self.waited = 0, np.inf, 0

    def end_round(self, gap: float) -> None:
        """Take note of the gap of the cache after a round."""
        self.rounds += 1
        self.waited += 1
        if gap < _GAIN * self.least_gap:
            self.least_gap, self.waited = gap, 0

    @property
    def cached_gap(self) -> float:
        """The gap of the kept blocks, each as it was last seen."""
        states = [segment.state for segment in self.segments]
        return float(sum(state.gap.sum() + state.rise * state.age for state in states))

    @property
    def unseen_gap(self) -> float:
        """What blocks outside memory may have by now, if they are as those explored last."""
        return (self.n_left + self.n_resting) * self.fresh_gap

    # Blocks

    @property
    def n_kept(self) -> int:
        """Number of blocks whose features are in memory."""
        return sum(len(segment.ids) for segment in self.segments)

    @property
    def n_resting(self) -> int:
        """Number of blocks that only have dual variables."""
        return sum(len(where) for found in self.resting.values() for where, _ in found)

    @property
    def nbytes(self) -> int:
        """Memory of everything that is kept."""
        rest = sum(resting_size(*entry) for found in self.resting.values() for entry in found)
        return rest + sum(segment.nbytes for segment in self.segments)

    @property
    def cache_bytes(self) -> int:
        """Bytes for what is kept; they shrink when w becomes one of float64."""
        return self.budget.cache_bytes(self.memory, self.w.dtype)

    def state_of(self, part: Part) -> CoordinateState:
        """Dual variables for the blocks of a part, all weight on the truths."""
        return self.ascent.state_of(part.data, part.weight, self.problem.n_jobs, self.w, self.rng)

    def waken(self, chunk: Chunk, part: Part) -> CoordinateState:
        """Dual variables for a chunk that was read; blocks that rested have theirs back."""
        self.n_seen += 0 if chunk.number in self.firsts else chunk.n_blocks
        self.firsts[chunk.number] = chunk.first
        state = self.state_of(part)
        found = self.resting.pop(chunk.number, [])
        for where, arrays in found:
            state.duals.put(where, arrays)
        if found:
            assert self.resting_vector is not None
            state.loss_sum = state.duals.loss_sum
            self.resting_loss -= state.loss_sum
            _subtract(state, self.resting_vector)
            if not self.resting:  # nor what rounding left of their sums
                self.resting_vector, self.resting_loss = None, 0.0
        for segment in self.segments:
            start, stop = np.searchsorted(segment.ids, [chunk.first, chunk.first + chunk.n_blocks])
            state.leave_out(segment.ids[start:stop] - chunk.first)
        return state

    def useful(self, state: CoordinateState, reach: float) -> np.ndarray:
        """Which blocks have weight off the truth, or might soon: violated if losses were larger."""
        used = state.duals.in_use()
        if reach > 0.0:
            # Not those that are left out here: they are in the cache already.
            near = state.duals.data.hinges(self.w, self.problem.n_jobs, 1.0 + reach) > 0.0
            used |= near & ~state.left_out
        return used

    def keep(self, chunk: Chunk, state: CoordinateState, reach: float) -> None:
        """Keep the useful blocks of an explored chunk."""
        self.merge_small()
        kept = np.flatnonzero(self.useful(state, reach))
        self._let_go(int(np.count_nonzero(~state.left_out)) - len(kept), reach)
        if len(kept):
            self.segments.append(self._reduced(chunk.first + kept, chunk, state, kept))

    def _let_go(self, n: int, reach: float) -> None:
        """Take note of blocks that are not kept, unless they were far from any violation."""
        self.n_left += n if reach < _FAR else 0

    def _reduced(
        self, ids: np.ndarray, chunk: Chunk, state: CoordinateState, kept: np.ndarray
    ) -> Segment:
        """A segment of the blocks at the positions `kept` of a chunk."""
        copy = chunk.take(kept)
        new = self.state_of(self.problem.bind(copy))
        new.duals.put(np.arange(len(kept)), state.duals.take(kept))
        new.take_over(state, kept)
        return Segment(ids, copy, new)

    def forget_useless(self, reach: float, share: float) -> None:
        """Drop blocks that are not useful, in segments of which they are a larger share."""
        for k, segment in enumerate(self.segments):
            used = self.useful(segment.state, reach)
            if used.mean() < 1.0 - share:
                self._let_go(int(np.count_nonzero(~used)), reach)
                self.segments[k] = self._selected(segment, np.flatnonzero(used))
        self.segments = [segment for segment in self.segments if len(segment.ids)]

    def _selected(self, segment: Segment, kept: np.ndarray) -> Segment:
        if len(kept) == 0:
            return Segment(segment.ids[:0], segment.chunk, segment.state)
        return self._reduced(segment.ids[kept], segment.chunk, segment.state, kept)

    def merge_small(self) -> None:
        """Stack small segments: visits in random order are best over many blocks."""
        # Not all at once: while segments are stacked they are in memory twice.
        largest = self.budget.piece(self.cache_bytes)
        small = [s for s in self.segments if s.nbytes < largest // 2]
        if len(small) < _MANY:
            return
        self.segments = [s for s in self.segments if s.nbytes >= largest // 2]
        group: list[Segment] = []
        while small:
            group.append(small.pop())
            size = sum(segment.nbytes for segment in [*group, *small[-1:]])
            if not small or size > largest:
                self.segments.append(self._merged(group))
                group = []
        return_freed_memory()

    def _merged(self, segments: list[Segment]) -> Segment:
        """One segment of some, which are taken out of the list: they need not stay."""
        if len(segments) == 1:
            return segments.pop()
        ids = np.concatenate([s.ids for s in segments])
        chunk = concatenate([s.chunk for s in segments])
        state = self.state_of(self.problem.bind(chunk))
        edges = np.cumsum([0] + [len(s.ids) for s in segments])
        for segment, first, last in zip(segments, edges[:-1], edges[1:], strict=True):
            own = np.arange(last - first)
            state.duals.put(np.arange(first, last), segment.state.duals.take(own))
        state.take_over_all([s.state for s in segments])
        merged = Segment(ids, chunk, state)
        segments.clear()
        del segment, chunk, state
        rising = (np.diff(ids) > 0).all()
        return merged if rising else self._selected(merged, np.argsort(ids))

    def rest(self, excess: int) -> int:
        """Free at least `excess` bytes: blocks whose gaps were least lose their features.

        A block at the bound, far beyond the margin, has no gap at all, and keeps its dual variables
        through many changes of w. Returns how many blocks were put to rest.
        """
        if not self.segments:
            return 0
        gaps = np.concatenate([segment.state.gap for segment in self.segments])
        size = sum(segment.nbytes for segment in self.segments)
        count = min(len(gaps), int(np.ceil(len(gaps) * min(1.0, excess / size))))
        chosen = np.zeros(len(gaps), dtype=bool)
        chosen[np.argsort(gaps, kind="stable")[:count]] = True
        if self.resting_vector is None:
            self.resting_vector = np.zeros(len(self.w))
        waiting, self.segments, first = self.segments[::-1], [], 0
        while waiting:  # one by one: what is copied and what it is copied from are both in memory
            segment = waiting.pop()
            own = chosen[first : first + len(segment.ids)]
            first += len(segment.ids)
            if own.any():
                segment = self._put_to_rest(segment, own)
            if len(segment.ids):
                self.segments.append(segment)
        del segment
        return_freed_memory()
        return count

    def _put_to_rest(self, segment: Segment, own: np.ndarray) -> Segment:
        """Keep the dual variables of some blocks of a segment; return what is left of it."""
        assert self.resting_vector is not None
        duals = segment.state.duals
        numbers = np.array(sorted(self.firsts, key=self.firsts.__getitem__))
        firsts = np.array([self.firsts[k] for k in numbers])
        owner = np.searchsorted(firsts, segment.ids, side="right") - 1
        for k in np.unique(owner[own]):
            mine = np.flatnonzero(own & (owner == k))
            where = segment.ids[mine] - firsts[k]
            self.resting.setdefault(int(numbers[k]), []).append((where, duals.packed(mine)))
        # What these blocks have of U: all of it, less what is left.
        self.resting_loss += duals.loss_sum
        duals.add_vector(self.resting_vector)
        left = self._selected(segment, np.flatnonzero(~own))
        if len(left.ids):
            self.resting_loss -= left.state.duals.loss_sum
            _subtract(left.state, self.resting_vector)
        return left

    # Saving

    def arrays(self):
        """Everything, as named arrays; features only where they cannot be read again."""
        arrays = {
            "w": self.w,
            "order": self.order,
            "chunks": np.array([[k, first] for k, first in self.firsts.items()]).reshape(-1, 2),
            "numbers": np.array([float(getattr(self, name)) for name in _NUMBERS]),
            "resting_loss": np.array(self.resting_loss),
        }
        if self.resting_vector is not None:
            arrays["resting_vector"] = self.resting_vector
        for k, segment in enumerate(self.segments):
            arrays |= _named(f"segment.{k}", {"ids": segment.ids} | segment.state.arrays())
            if not self.problem.repeatable:
                arrays |= _named(f"segment.{k}.chunk", segment.chunk.columns())
        for number, found in self.resting.items():
            for j, (where, duals) in enumerate(found):
                arrays |= _named(f"resting.{number}.{j}", {"where": where} | duals)
        return arrays

    def restore(self, arrays):
        """Go on exactly where `arrays` were taken."""
        size = Stored("f8", (len(_NUMBERS),), -1.0, infinite=True)
        check(arrays, {"w": vector(len(self.w)), "numbers": size})
        check(arrays, {"order": Stored("i8", (None,), 0, (self.problem.source.n_chunks or 0) - 1)})
        finite = np.array([isinstance(getattr(self, name), int) for name in _NUMBERS])
        require(np.isfinite(arrays["numbers"][finite]), "counts are not finite")
        require(np.isin(np.bincount(arrays["order"]), [0, 1]), "the order has a chunk twice")
        self._restore_blocks(arrays)
        if arrays["w"].dtype != self.w.dtype:
            self.widen()
        self.w[:] = arrays["w"]
        self.order = arrays["order"]
        for name, value in zip(_NUMBERS, arrays["numbers"].tolist(), strict=True):
            setattr(self, name, type(getattr(self, name))(value))

    def hot_start(self, arrays, same_weights):
        """The dual point of another solve of the same blocks, scaled to these weights.

        Blocks that rest cannot be scaled without their features: under other weights they begin
        anew.
        """
        if "chunks" not in arrays:
            raise InvalidData(
                "the start was made by a solver that keeps all blocks: start from a solve with "
                "online_cache, or from nothing (warm_start=False)"
            )
        if not same_weights:
            kept = {name: a for name, a in arrays.items() if not name.startswith("resting")}
            arrays = kept | {"resting_loss": np.zeros(())}
        self._restore_blocks(arrays, hot=True)

    def _restore_blocks(self, arrays: Arrays, hot: bool = False) -> None:
        check(arrays, {"chunks": Stored("i8", (None, 2), 0), "resting_loss": Stored("f8", ())})
        self.firsts = {int(k): int(first) for k, first in arrays["chunks"]}
        self.resting_loss = float(arrays["resting_loss"])
        self.resting_vector = arrays.get("resting_vector")
        if self.resting_vector is not None:
            check(arrays, {"resting_vector": Stored("f8", (len(self.w),))})
        self.segments = [self._restored(own, hot) for own in _grouped(arrays, "segment")]
        self.resting = {}
        for number in sorted(self.firsts):
            found = [(own.pop("where"), own) for own in _grouped(arrays, f"resting.{number}")]
            if found:
                self.resting[number] = found
        self._check_blocks()

    def _check_blocks(self) -> None:
        """Refuse blocks that are there twice, or whose chunks and sums are others.

        By a reading, where there can be one; otherwise nothing of them is ever used again.
        """
        found: list[np.ndarray] = [segment.ids for segment in self.segments]
        for number, groups in self.resting.items():
            for where, _ in groups:
                check({"where": where}, {"where": Stored("i8", (None,), 0)})
                found.append(self.firsts[number] + where)
        ids = np.concatenate([np.empty(0, np.int64), *found])
        require(len(np.unique(ids)) == len(ids), "blocks are kept twice")
        if not self.problem.repeatable:
            return
        loss, U = 0.0, np.zeros(len(self.w))
        seen = set()
        source = self.problem.source
        with closing(source.chunks(sorted(self.firsts) if source.random_access else None)) as read:
            for chunk in read:
                if chunk.number not in self.firsts:
                    continue
                seen.add(chunk.number)
                require(self.firsts[chunk.number] == chunk.first, "chunks begin elsewhere")
                for where, arrays in self.resting.get(chunk.number, []):
                    within = len(where) > 0 and where[-1] < chunk.n_blocks
                    rising = (np.diff(where) > 0).all()
                    require(within and rising, "resting blocks are not in order")
                    state = self.state_of(self.problem.bind(chunk.take(where)))
                    state.duals.check(arrays, state.duals.weight)
                    state.duals.put(np.arange(len(where)), arrays)
                    loss += state.duals.sum_up(U)
        require(seen == self.firsts.keys(), "there are no such chunks")
        claimed = 0.0 if self.resting_vector is None else self.resting_vector
        near = np.abs(claimed - U) <= _ROUNDING * (1.0 + np.abs(U).max(initial=0.0))
        near &= abs(self.resting_loss - loss) <= _ROUNDING * (1.0 + abs(loss))
        require(near, "the dual variables of resting blocks have other sums")

    def _restored(self, arrays: Arrays, hot: bool) -> Segment:
        ids = arrays.pop("ids")
        check({"ids": ids}, {"ids": Stored("i8", (None,), 0)})
        require(len(ids) > 0 and (np.diff(ids) > 0).all(), "kept blocks are not in order")
        columns = {k[len("chunk.") :]: arrays.pop(k) for k in list(arrays) if k[:6] == "chunk."}
        if columns and not self.problem.repeatable:
            check_columns(columns, self.problem.source.n_features or 0)
            chunk = from_columns(columns, -1, -1, self.problem.source.n_features or 0)
        elif self.problem.repeatable:
            chunk = self.problem.source.take(ids)
        else:
            raise InvalidContent("the kept blocks of a stream that is read only once are missing")
        require(chunk.n_blocks == len(ids), "kept blocks are miscounted")
        state = self.state_of(self.problem.bind(chunk))
        if hot:
            state.hot_start(arrays, same_weights=False)
        else:
            state.restore(arrays | {"w": self.w})
        return Segment(ids, chunk, state)


def _subtract(state: CoordinateState, U: np.ndarray) -> None:
    """U -= sum of a psi."""
    np.negative(U, out=U)
    state.duals.add_vector(U)
    np.negative(U, out=U)


def _named(prefix: str, arrays: Arrays) -> Arrays:
    return {f"{prefix}.{name}": array for name, array in arrays.items() if name != "w"}


def _grouped(arrays: Arrays, prefix: str) -> list[Arrays]:
    """The arrays `prefix.k.name`, by k."""
    groups: dict[int, Arrays] = {}
    for name, array in arrays.items():
        if name.startswith(prefix + "."):
            number, _, rest = name[len(prefix) + 1 :].partition(".")
            if number.isdigit() and rest:
                groups.setdefault(int(number), {})[rest] = array
    return [groups[k] for k in sorted(groups)]
