"""A part of the blocks of a source in memory: those that matter, within a budget.

Blocks with weight off the truth are kept in segments, with their features, so that they can be
visited without being read again. When the features do not fit, some blocks lose them, until their
chunk is read again. Where the psi of their planes take clearly less memory they are kept instead,
and such bare blocks are still visited, without the oracle. Others are put to rest: their dual
variables stay, small and counted in the dual. Blocks without weight are forgotten.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from taut.console.notices import warn_once
from taut.data.chunks import concatenate
from taut.data.memory import return_freed_memory
from taut.engines import cache_saving
from taut.engines.base import Engine
from taut.engines.budget import Budget
from taut.engines.holders import Bare, Resting, Segment, bare_of
from taut.engines.part import Ascent, Part, Reply
from taut.engines.turns import KeepGoing, draw_seed
from taut.errors import CacheOverflow
from taut.streamed import BoundChunk, StreamedProblem

_MANY = 16  # small segments that are worth being merged
_GAIN = 0.9  # of the least gap so far, below which a round has gained something
_FAR = 100.0  # times its losses: what a block is from a violation that need not be feared
_RECENT = 0.2  # of the explored blocks: those whose gaps tell about the others
_SLICE = 256  # blocks of one segment that are visited in a row


class Cache(Engine):
    """Kept and resting dual variables of a source's blocks, and where in the source it is."""

    problem: StreamedProblem

    def __init__(
        self,
        problem: StreamedProblem,
        ascent: Ascent,
        rng: np.random.Generator,
        memory: int,
    ) -> None:
        super().__init__(problem, ascent, rng)
        self.memory = memory
        self.budget = Budget(problem, ascent)
        self.segments: list[Segment] = []
        self.bare: list[Bare] = []
        self.resting = Resting()
        self.firsts: dict[int, int] = {}  # number of each chunk's first block
        self.n_seen = 0  # blocks that have been read at some time
        self.n_left = 0  # blocks that were let go in this pass for want of memory
        self.n_explored = 0  # visits of blocks that were not kept before
        self.fresh_gap = 0.0  # of a block when it is explored, averaged over the last fifth of them
        self.reader: Generator[BoundChunk] | None = None
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
    def loss_sum(self):
        """Sum of a loss."""
        return self.resting.loss + super().loss_sum

    def dual_vector(self, U):
        """U, and the summed loss of the kept blocks with it, computed afresh."""
        U[:] = 0.0 if self.resting.vector is None else self.resting.vector
        for part in self.parts:
            part.sum_up(U)

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

    def arrays(self):
        """Everything, as named arrays; features only where they cannot be read again."""
        return cache_saving.arrays_of(self)

    def restore(self, arrays):
        """Go on exactly where `arrays` were taken."""
        cache_saving.restore(self, arrays)

    def hot_start(self, arrays, same_weights):
        """The dual point of another solve of the same blocks, scaled to these weights."""
        cache_saving.hot_start(self, arrays, same_weights)

    # Passes over the source

    def begin_pass(self) -> None:
        """Begin another pass over the source."""
        self.passes += 1
        self.position, self.explored_in_pass, self.ended, self.n_left = 0, 0.0, False, 0
        self.order = self.order[:0]

    def read(self, shuffle: bool) -> BoundChunk | None:
        """The next chunk of this pass, in random order if it can be; None at the end."""
        if self.reader is None:
            drawn = None if len(self.order) else self.draw_order(shuffle)
            self.order = self.order if drawn is None else drawn
            order = self.order if len(self.order) else None
            self.reader = self.problem.bound_chunks(order, self.position)
        found = next(self.reader, None)
        if found is None:
            self.reader, self.ended = None, True
        return found

    def waken(self, bound: BoundChunk) -> Part:
        """A chunk that was read, as a part; blocks that lost it have their dual variables back."""
        chunk = bound.chunk
        self.n_seen += 0 if chunk.number in self.firsts else chunk.n_blocks
        self.firsts[chunk.number] = chunk.first
        part = self.part_of(bound.data, bound.weight)
        self.resting.wake(chunk.number, part)
        for bare in self.bare:
            if bare.number == chunk.number:
                bare.give_back(part)
        self.bare = [bare for bare in self.bare if bare.number != chunk.number]
        for segment in self.segments:
            start, stop = np.searchsorted(segment.ids, [chunk.first, chunk.first + chunk.n_blocks])
            part.leave_out(segment.ids[start:stop] - chunk.first)
        return part

    def explore(self, part: Part, stiffness: float, keep_going: KeepGoing) -> Reply:
        """Sweep over blocks of a chunk, and take note of their gaps at first sight."""
        reply = part.sweep(self.w, draw_seed(self.rng), self.rng, stiffness, keep_going)
        gap, n = float(part.gap[np.isfinite(part.gap)].sum()), reply.calls
        self.explored += gap
        self.explored_in_pass += gap
        if n:
            self.n_explored += n
            rate = n / (n + _RECENT * min(self.n_explored, self.n_seen))
            self.fresh_gap += min(rate, 1.0) * (gap / n - self.fresh_gap)
        return reply

    # Rounds over the cache

    def begin_rounds(self) -> None:
        """Optimising begins."""
        self.rounds, self.least_gap, self.waited = 0, np.inf, 0

    def sweep(self, stiffness: float, keep_going: KeepGoing) -> Reply:
        """Sweep over all that is kept at once, a slice of one part after a slice of another.

        One after the other, each would draw w to what suits it best, and the last one would have
        its way. It is cut short where planes that were found have outgrown the memory.
        """
        parts = self.parts
        sweeps = [part.begin(draw_seed(self.rng), self.rng) for part in parts]
        slices = [k for k, s in enumerate(sweeps) for _ in range(0, len(s.order), _SLICE)]
        visited, whole, free = [0] * len(parts), True, self.cache_bytes - self.nbytes
        for q in self.rng.permutation(len(slices)):
            k = slices[q]
            blocks = sweeps[k].order[visited[k] : visited[k] + _SLICE]
            free += parts[k].nbytes
            parts[k].visit(blocks, sweeps[k], self.w, stiffness)
            free -= parts[k].nbytes
            visited[k] += len(blocks)
            whole = keep_going() and free >= 0
            if not whole:
                break
        ends = zip(parts, sweeps, visited, strict=True)
        replies = [part.end(sweep, count) for part, sweep, count in ends]
        return Reply.total(replies)._replace(whole=whole)

    def end_round(self, gap: float) -> None:
        """Take note of the gap of the cache after a round."""
        self.rounds += 1
        self.waited += 1
        if gap < _GAIN * self.least_gap:
            self.least_gap, self.waited = gap, 0

    @property
    def cached_gap(self) -> float:
        """The gap of the kept blocks, each as it was last seen."""
        return sum(part.total_gap for part in self.parts)

    @property
    def unseen_gap(self) -> float:
        """What blocks outside memory may have by now, if they are as those explored last.

        Bare ones too: their planes tell nothing of other labels.
        """
        return (self.n_left + self.resting.n_blocks + self.n_bare) * self.fresh_gap

    # Blocks

    @property
    def parts(self):
        """Those of all blocks that can be visited."""
        return [*(segment.part for segment in self.segments), *(bare.part for bare in self.bare)]

    @property
    def n_kept(self) -> int:
        """Number of blocks whose features are in memory."""
        return sum(len(segment.ids) for segment in self.segments)

    @property
    def n_bare(self) -> int:
        """Number of blocks of which only the planes and their psi are."""
        return sum(len(bare.where) for bare in self.bare)

    @property
    def nbytes(self) -> int:
        """Memory of everything that is kept."""
        kept: list[Segment | Bare] = [*self.segments, *self.bare]
        return self.resting.nbytes + sum(holder.nbytes for holder in kept)

    @property
    def cache_bytes(self) -> int:
        """Bytes for what is kept; they shrink when w becomes one of float64."""
        return self.budget.cache_bytes(self.memory, self.w.dtype)

    def useful(self, part: Part, reach: float) -> np.ndarray:
        """Which blocks have weight off the truth, or might soon: violated if losses were larger."""
        used = part.duals.in_use()
        if reach > 0.0:
            # Not those that are left out here: they are in the cache already.
            near = part.duals.data.hinges(self.w, self.problem.n_jobs, 1.0 + reach) > 0.0
            used |= near & ~part.left_out
        return used

    def keep(self, bound: BoundChunk, part: Part, reach: float) -> None:
        """Keep the useful blocks of an explored chunk."""
        self.merge_small()
        kept = np.flatnonzero(self.useful(part, reach))
        self._let_go(int(np.count_nonzero(~part.left_out)) - len(kept), reach)
        if len(kept):
            self.segments.append(self._reduced(bound.chunk.first + kept, bound, part, kept))

    def _let_go(self, n: int, reach: float) -> None:
        """Take note of blocks that are not kept, unless they were far from any violation."""
        self.n_left += n if reach < _FAR else 0

    def _reduced(self, ids: np.ndarray, bound: BoundChunk, part: Part, kept: np.ndarray) -> Segment:
        """A segment of the blocks at the positions `kept` of a part."""
        chunk, data, weight = self.problem.take(bound, kept)
        new = self.part_of(data, weight)
        new.copy_of(part, kept)
        return Segment(ids, chunk, new)

    def forget_useless(self, reach: float, share: float) -> None:
        """Drop blocks that are not useful, in segments of which they are a larger share."""
        for k, segment in enumerate(self.segments):
            used = self.useful(segment.part, reach)
            if used.mean() < 1.0 - share:
                self._let_go(int(np.count_nonzero(~used)), reach)
                self.segments[k] = self._selected(segment, np.flatnonzero(used))
        self.segments = [segment for segment in self.segments if len(segment.ids)]
        self.bare = [bare for bare in self.bare if bare.part.duals.in_use().any()]

    def _selected(self, segment: Segment, kept: np.ndarray) -> Segment:
        if len(kept) == 0:
            return Segment(segment.ids[:0], segment.chunk, segment.part)
        return self._reduced(segment.ids[kept], segment.bound, segment.part, kept)

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
        ids = np.concatenate([segment.ids for segment in segments])
        chunk, data, weight = self.problem.bind(concatenate([s.chunk for s in segments]))
        part = self.part_of(data, weight)
        part.join([segment.part for segment in segments])
        merged = Segment(ids, chunk, part)
        segments.clear()
        del chunk, data, part
        rising = (np.diff(ids) > 0).all()
        return merged if rising else self._selected(merged, np.argsort(ids))

    def rest(self, excess: int) -> int:
        """Free at least `excess` bytes: blocks whose gaps were least lose their features.

        A block at the bound, far beyond the margin, has no gap at all, and keeps its dual variables
        through many changes of w. Where no features are left, bare blocks lose their psi. Returns
        how many blocks lost their features.
        """
        if not self.segments:
            self._drop_psi(excess)
            return 0
        gaps = np.concatenate([segment.part.gap for segment in self.segments])
        size = sum(segment.nbytes for segment in self.segments)
        count = min(len(gaps), int(np.ceil(len(gaps) * min(1.0, excess / size))))
        chosen = np.zeros(len(gaps), dtype=bool)
        chosen[np.argsort(gaps, kind="stable")[:count]] = True
        waiting, self.segments, first = self.segments[::-1], [], 0
        while waiting:  # one by one: what is copied and what it is copied from are both in memory
            segment = waiting.pop()
            own = chosen[first : first + len(segment.ids)]
            first += len(segment.ids)
            if own.any():
                segment = self._without_features(segment, own)
            if len(segment.ids):
                self.segments.append(segment)
        del segment
        return_freed_memory()
        return count

    def _without_features(self, segment: Segment, own: np.ndarray) -> Segment:
        """Keep no features of some blocks of a segment; return what is left of it."""
        numbers = np.array(sorted(self.firsts, key=self.firsts.__getitem__))
        firsts = np.array([self.firsts[k] for k in numbers])
        owner = np.searchsorted(firsts, segment.ids, side="right") - 1
        sizes, bare, rests = np.diff(segment.chunk.ends()), list[Bare](), False
        for k in np.unique(owner[own]):
            mine, number = np.flatnonzero(own & (owner == k)), int(numbers[k])
            where = segment.ids[mine] - firsts[k]
            found = bare_of(segment.part, mine, sizes[mine], number, where, self.problem.data)
            if found is not None:
                own_bare, chosen = found
                bare.append(own_bare)
                mine, where = np.delete(mine, chosen), np.delete(where, chosen)
            if len(mine):
                self.resting.put(number, where, segment.part.duals.packed(mine))
                rests = True
        left = self._selected(segment, np.flatnonzero(~own))
        if rests:
            # What these blocks have of U: all of it, less what the others have.
            self.resting.add(segment.part, len(self.w))
            others = [left.part] if len(left.ids) else []
            for part in (*others, *(group.part for group in bare)):
                self.resting.subtract(part)
        self.bare += bare
        return left

    def _drop_psi(self, excess: int) -> None:
        """Free at least `excess` bytes, if there are: bare blocks of least gaps go to rest."""
        waiting = sorted(self.bare, key=lambda bare: -float(bare.part.gap.mean()))
        target = self.nbytes - excess
        while waiting and self.nbytes > target:
            bare = waiting.pop()
            self.bare = [other for other in self.bare if other is not bare]
            self.resting.put(bare.number, bare.where, bare.part.duals.packed(bare.everything))
            self.resting.add(bare.part, len(self.w))
