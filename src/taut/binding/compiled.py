"""Compiled structures bound to data: loops over blocks with the oracles inside."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from taut.binding.abilities import CompiledAbilities
from taut.binding.arena import Arena, Room
from taut.binding.audits import Auditor
from taut.binding.kernels import (
    make_argmaxes,
    make_completions,
    make_draws,
    make_hinge_sum,
    make_hinges,
    make_lengths,
    make_prediction_losses,
    make_worst_planes,
)
from taut.binding.other_labels import Findings
from taut.binding.residuals import residual_margins
from taut.compiled.jit import specialise
from taut.compiled.label_rows import Listed
from taut.compiled.lanes import aligned_zeros
from taut.compiled.sources import check_unchanged
from taut.compiled.threads import in_threads, numbered_ranges
from taut.errors import InvalidData, InvalidStructure, MissingOracle
from taut.inference.m_best import best_labels, candidates
from taut.inference.marginals import check_temperature, position_marginals, truth_log_likelihoods
from taut.spaces.labels import ProductRoom
from taut.spaces.regularizer import FEW_LABELS, Prior, Regularizer, gram_sizes
from taut.spaces.scaled import through_scaling
from taut.spaces.scaling import ScaledSpace, UnscaledSpace
from taut.storage.checksum import arrays_in
from taut.structures._listed_laws import labels_of
from taut.structures.abilities import is_users
from taut.structures.base import Blocks, CompiledStructure, Operations
from taut.structures.residual import bounded

_LONGER = 2.0  # how many times longer than two labels' the features of others are, at most
_LIKELY = 100.0  # times the loss: most blocks have a label that violates then


class CompiledData(CompiledAbilities):
    """A compiled structure bound to data: loops with its oracles inside, over batches of blocks.

    Vectors of weights are padded here (`Features.pad`), and of the regulariser's scaled space,
    unless said otherwise.
    """

    lasting = True  # points mean the same in another process

    def __init__(
        self,
        structure: CompiledStructure,
        blocks: Blocks,
        regularizer: Regularizer | Prior | None = None,
        room: Room | None = None,
    ) -> None:
        if is_users(structure):
            for function in filter(None, (*structure.oracles, *(structure.own_map or ()))):
                check_unchanged(function)
        self.structure = structure
        self.blocks = blocks
        self.room = Room() if room is None else room
        self.rng = np.random.default_rng(0)  # for audits
        self._lengths: np.ndarray | None = None  # |phi| of any label of each block, at most
        features = blocks.features
        functions = features.functions(structure)
        self.operations = Operations(*structure.oracles, *functions)
        self.own_operations = self.operations  # see the weights as they are
        self.prior = (regularizer or Regularizer()).check(features.n_features)
        lower = structure.lower(blocks)
        if lower is not None:
            self.prior = self.prior.above(lower)
        self.n_blocks = blocks.n_blocks
        self.n_features = features.n_features
        self.size = features.size
        self.reads = features.reads
        self.dtype = features.dtype
        self.pad = features.pad
        self.unpad = features.unpad
        self.settle = features.settle
        self.is_point = features.is_point
        self.condition = features.condition
        self.comes_as = features.comes_as
        self.lifts = features.lifts and self.prior.trivial
        self.own_space = features.view(blocks.data)
        self.quadratic = features.quadratic(self.prior)
        if not self.quadratic.of_weights and (not self.prior.trivial or self.prior.mean.any()):
            raise InvalidData(
                f"points of {type(features).__name__} are no weights, and the regularizer has a "
                "mean, a precision or bounds of weights: leave out regularizer, or space"
            )
        if not self.prior.trivial:
            functions = through_scaling(functions, structure.allocates)
            self.operations = Operations(*structure.oracles, *functions)
            self._regularise()

    def _regularise(self) -> None:
        """Let the functions of the space see the weights through the scaling of the prior."""
        self.scalings = {bounds: self.prior.scaling(self.pad, bounds) for bounds in (True, False)}
        self.rises = np.ones(self.blocks.n_blocks)
        if not self.prior.rescales or self.operations.exact_step is None:
            return
        if self.listed.most <= FEW_LABELS:
            own = self._gram_sizes(self.own_operations, self.own_space, self.blocks.features.lifts)
            scaled = self._gram_sizes(self.operations, self.space(np.float64, bounds=False), False)
            np.divide(scaled, own, out=self.rises, where=own > 0.0)
        else:
            self.operations = self.operations._replace(exact_step=None)

    def _gram_sizes(self, operations: Any, space: tuple, lifts: bool) -> np.ndarray:
        """What bounds the curvature of a step over all labels of each block, in a space."""
        out = np.empty(self.n_blocks)
        room = self.product_room(np.float64, space, lifts)
        specialise(gram_sizes, operations, self.structure.allocates)(
            self.blocks.data, self.listed, room, np.empty(self.listed.most), out
        )
        return out

    @functools.cached_property
    def listed(self) -> Listed:
        """All labels of each block, where the structure lists them."""
        return labels_of(self.structure, self.blocks)

    def product_room(self, dtype: Any, space: tuple, lifts: bool | None = None) -> ProductRoom:
        """Room for inner products of labels in a space where weights are not bounded."""
        known = self.lifts if lifts is None else lifts
        scratch = aligned_zeros(0 if known else self.size, dtype)
        return ProductRoom.of(space, self.blocks.features, scratch)

    def statistics(self, dtype: Any) -> np.ndarray:
        """Room for the statistics of a block."""
        return aligned_zeros(self.blocks.features.n_potentials, dtype)

    def arena(
        self,
        dtype: Any,
        number: int = 0,
        n_found: int = 0,
        n_planes: int = 0,
        scratch: np.ndarray | None = None,
    ) -> Arena:
        """What the thread of this number works in; it may have had its scratch vector before."""
        products = self.product_room(dtype, self.space(dtype, bounds=False, number=number))
        if scratch is not None:
            products = products._replace(scratch=scratch)
        return Arena.of(self.blocks, products, n_found, n_planes)

    def space(
        self, dtype: Any, bounds: bool = True, number: int = 0, room: Room | None = None
    ) -> tuple:
        """What the functions of the space know, for the thread of this number and w of this type.

        With a room of its own it may be in use while another space of the thread is.
        """
        if self.prior.trivial:
            return self.own_space
        if not (bounds or self.prior.rescales) and self.operations.single is not None:
            return UnscaledSpace(self.own_space)
        weights, sums = (
            (room or self.room).vector(f"{kind}, {bounds}", number, self.size, dtype)
            for kind in ("weights", "sums")
        )
        scaling = self.scalings[bounds]._replace(weights=weights, sums=sums)
        return ScaledSpace(self.own_space, scaling, self.rises)

    def user_weights(self, v: np.ndarray) -> np.ndarray:
        """W as users get it."""
        w = self.unpad(v)
        return w if self.prior.trivial else self.prior.weights(w)

    def kernel(self, make: Callable[[Any], Callable]) -> Callable:
        """The loop that `make` builds around the operations, compiled."""
        return specialise(make, self.operations, self.structure.allocates)

    def own_kernel(self, make: Callable[[Any], Callable], bounded: bool = False) -> Callable:
        """The same without the prior, for `own_space`."""
        return specialise(make, self.own_operations, self.structure.allocates, bounded)

    def take(self, which: np.ndarray) -> CompiledData | None:
        """A copy of some blocks alone; None where they have to be encoded again."""
        blocks = self.structure.take(self.blocks, which) if self.structure.can_take else None
        if blocks is None:
            return None
        return CompiledData(self.structure, blocks, self.prior, self.room)

    def local(self, part: CompiledData, w: np.ndarray) -> np.ndarray:
        """A point as some of the blocks see it, which were taken from these."""
        return self.blocks.features.local(part.blocks.features, w)

    def absorb(self, part: CompiledData, U: np.ndarray, w: np.ndarray) -> None:
        """Add to a point what dual variables of some of the blocks sum up to."""
        self.blocks.features.absorb(part.blocks.features, U, w)

    def assign(self, w: np.ndarray, given: np.ndarray) -> None:
        """Let a point that is 0 be the one of these weights, as precisely as passes work."""
        self.blocks.features.assign(w, given)

    @property
    def evaluations(self) -> int:
        """Values of a kernel that were computed so far."""
        return self.blocks.features.evaluations

    def n_support(self, w: np.ndarray) -> int:
        """How many rows have coefficients in a point; 0 where there are none."""
        return self.blocks.features.n_support(w)

    def with_residuals(self, part: CompiledData, w: np.ndarray, least: float) -> CompiledData:
        """Some of the blocks with residual margins at w, as they see it, for losses.

        Not above a block's largest loss, and not below `least`.
        """
        structure, blocks = bounded(part.structure, part.blocks, residual_margins(part, w, least))
        return CompiledData(structure, blocks, self.prior, self.room)

    def arrays(self) -> Iterator[np.ndarray]:
        """All arrays of the data."""
        shared = self.own_space is self.blocks.data
        pending: list[Any] = [self.blocks.data, *([] if shared else [self.own_space])]
        while pending:
            item = pending.pop()
            if isinstance(item, tuple):
                pending.extend(item)
            else:
                yield np.asarray(item)

    def watched(self, X: Any, y: Any) -> Iterator[np.ndarray]:
        """What must not change while a fit runs; a user's structure may count in its own arrays."""
        return arrays_in((X, y)) if is_users(self.structure) else self.arrays()

    def doubt_argmax(self, i: int) -> None:
        """A label of block i was known that beats the argmax: refuse it from a user's structure.

        In single precision rounding may do that; the library's own oracles are tested elsewhere.
        """
        if is_users(self.structure):
            raise InvalidStructure(
                f"{type(self.structure).__name__}.argmax of block {i} returns a value below that "
                "of the truth or of a label that it returned before: return the highest score + "
                "loss_weight * loss; taut.check_structure tests it"
            )

    def check_losses(self, losses: np.ndarray) -> None:
        """Refuse losses that no label may have."""
        least = losses.min(initial=0.0)
        if least < 0.0 and not self.structure.signed_losses:
            raise InvalidStructure(
                f"{type(self.structure).__name__}.loss is {least:g} for a label that argmax found: "
                "losses are >= 0, unless signed_losses says otherwise"
            )

    def content(self) -> Iterator[Any]:
        """All that oracles see of the data, and the truths, for a digest."""
        yield self.blocks

    def hinges(self, w: np.ndarray, n_jobs: int = 1, loss_weight: float = 1.0) -> np.ndarray:
        """The largest violation of each block at w: one oracle call each.

        With losses multiplied by more than 1, blocks that are not far from a violation show.
        """
        return self.hardest(w, n_jobs, loss_weight)[0]

    def hardest(
        self, w: np.ndarray, n_jobs: int = 1, loss_weight: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """The largest violation of each block at w, and the labels with it, one after the other."""
        truth = self.blocks.truth
        out, labels = np.empty(self.n_blocks), np.empty_like(truth)
        self._over_blocks(make_hinges, w, n_jobs, lambda: (truth, loss_weight, labels, out))
        return out, labels

    def evaluate(self, v: np.ndarray, weight: np.ndarray, n_jobs: int = 1) -> tuple[float, float]:
        """sum_i C_i hinge_i, and the same of the sizes of the terms of all scores.

        Of satisfied blocks too: where terms are large, rounding may hide that they are not.
        """
        value = self._hinge_sum(v, weight, n_jobs)
        if is_users(self.structure):
            Auditor(self, self.rng).audit(v)
        weights = self._padded_weights(v)
        if self._lengths is None:
            lengths = self.structure.lengths(self.blocks)
            self._lengths = self._measured_lengths(weights) if lengths is None else lengths
        # By inner products rounding may leave less than 0.
        length = float(np.sqrt(max(weights @ self.quadratic.covector(weights), 0.0)))
        return value, 2.0 * length * float(weight @ self._lengths)

    def _padded_weights(self, v: np.ndarray) -> np.ndarray:
        """The weights that belong to v, with padding."""
        return v if self.prior.trivial else self.pad(self.prior.weights(self.unpad(v)))

    def inexactness(self, v: np.ndarray, weight: np.ndarray) -> float:
        """How far the objective may be off because products of features are, beside rounding."""
        return self.blocks.features.inexactness(self._padded_weights(v), weight)

    def _hinge_sum(self, v: np.ndarray, weight: np.ndarray, n_jobs: int) -> float:
        """sum_i C_i hinge_i, by one oracle call each."""
        blocks = self.blocks

        def arguments() -> tuple:
            return blocks.truth, weight, np.empty(blocks.label_size, dtype=np.int32)

        found = self._over_blocks(make_hinge_sum, v, n_jobs, arguments)
        sums, doubts = zip(*found, strict=True)
        if max(doubts) and is_users(self.structure):
            Auditor(self, self.rng).refuse(max(doubts) - 1)
        return sum(sums)

    def _measured_lengths(self, w: np.ndarray) -> np.ndarray:
        """Some times |phi| of the truth or of a label that may violate, the longer one; w as it is.

        For structures that do not know them.
        """
        blocks, out = self.blocks, np.empty(self.n_blocks)
        self.own_kernel(make_lengths)(
            self.own_space, blocks.data, blocks.offsets, blocks.truth, w,
            aligned_zeros(blocks.work_size, w.dtype), _LIKELY,
            np.empty(blocks.label_size, dtype=np.int32),
            self.product_room(w.dtype, self.own_space, blocks.features.lifts), np.empty(1), out,
        )  # fmt: skip
        return _LONGER * out

    def closing_audit(self, v: np.ndarray, weight: np.ndarray) -> Findings:
        """Hold the argmax of some blocks at the final v against all labels that there are to try.

        Labels that surely are a block's own refuse an argmax that they beat. Those of other blocks
        refuse it where it returns them at other weights; otherwise they leave a doubt.
        """
        if not is_users(self.structure):
            return Findings()
        return Auditor(self, self.rng).closing(v, weight)

    def remember(self, memory: dict[int, Any], number: int) -> None:
        """Go on with the memory of a chunk of this number, if there is any: which were audited."""
        self.rng = memory.setdefault(-1, self.rng)

    def add_worst(
        self,
        w: np.ndarray,
        weight: np.ndarray,
        n_jobs: int,
        first: int,
        last: int,
        psi: np.ndarray,
        sums: np.ndarray,
    ) -> None:
        """Add the planes of highest violation at w of blocks first..last, times their weights.

        psi gets the sum of C_i psi_i, sums[0] that of C_i loss_i, sums[1] that of C_i hinge_i;
        blocks without violation add nothing. psi is of the type of w.
        """
        blocks, kernel = self.blocks, self.kernel(make_worst_planes)

        def run(number: int, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
            # The first thread adds to what is there: with one, parts do not change the rounding.
            own = (psi, sums) if number == 0 else (np.zeros_like(psi), np.zeros_like(sums))
            room = (
                aligned_zeros(blocks.work_size, w.dtype),
                self.statistics(w.dtype),
                np.empty(2 * blocks.label_size, dtype=np.int32),
                np.empty(2),
            )
            kernel(
                self.space(w.dtype, number=number), blocks.data, (blocks.offsets, blocks.truth),
                weight, w, room, first + begin, first + end, *own,
            )  # fmt: skip
            return own

        for more_psi, more_sums in in_threads(run, *numbered_ranges(last - first, n_jobs))[1:]:
            psi += more_psi
            sums += more_sums

    def predict(self, w: np.ndarray, n_jobs: int = 1) -> Sequence[Any]:
        """The highest scoring label of each block, for weights without padding."""
        return self.structure.decode(self.labels(w, n_jobs), self.blocks.offsets)

    def prediction_losses(self, w: np.ndarray) -> np.ndarray:
        """The loss of each block's prediction against its truth, for weights without padding."""
        blocks, out = self.blocks, np.empty(self.n_blocks)
        self.kernel(make_prediction_losses)(blocks.data, blocks.offsets, self.labels(w), out)
        return out

    def labels(self, w: np.ndarray, n_jobs: int = 1) -> np.ndarray:
        """The highest scoring labels of all blocks one after the other; no padding in w."""
        labels = np.empty_like(self.blocks.truth)
        self._over_blocks(make_argmaxes, self.pad(w), n_jobs, lambda: (labels,))
        return labels

    def m_best(self, w: np.ndarray, m: int, n_jobs: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """The m highest scoring labels of each block, best first, for weights without padding.

        A row of labels for all blocks, one after the other, for the best, the second best, and so
        on, and a row of scores for each block; -1 and -inf where a block has fewer labels. There
        are at most as many of each as any block has labels.
        """
        blocks = self.blocks
        if blocks.n_labels == 0:
            raise MissingOracle(
                f"{type(self.structure).__name__} has no scores of single labels, which the m best "
                "labels are found by: set n_labels and label_stride of its Blocks"
            )
        m = min(m, blocks.n_labels**blocks.label_size)
        labels = np.full((m, blocks.offsets[-1]), -1, dtype=np.int32)
        scores = np.full((self.n_blocks, m), -np.inf)

        def arguments() -> tuple:
            room = candidates(m, blocks.label_size, blocks.label_stride, w.dtype)
            return blocks.n_labels, blocks.label_stride, room, labels, scores

        self._over_blocks(best_labels, self.pad(w), n_jobs, arguments)
        return labels, scores

    def drawn(self, w: np.ndarray, count: int, n_jobs: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Labels of each block that the structure's own `sample` chooses, for prediction.

        In the form of `m_best`, in the order of `sample`, which begins with the best; up to
        `count` of each.
        """
        blocks = self.blocks
        if not self.draws_labels:
            raise MissingOracle(
                f"{type(self.structure).__name__} has no sample, which several labels of a block "
                "are chosen by: see taut.CompiledStructure"
            )
        labels = np.full((count, blocks.offsets[-1]), -1, dtype=np.int32)
        scores = np.full((self.n_blocks, count), -np.inf)
        longest = int(np.diff(blocks.offsets).max())

        def arguments() -> tuple:
            return np.empty(count * longest, dtype=np.int32), labels, scores

        self._over_blocks(make_draws, self.pad(w), n_jobs, arguments)
        return labels, scores

    def marginals(
        self, w: np.ndarray, temperature: float, n_jobs: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities p(label) ~ exp(score / temperature), for weights without padding.

        Those of the labels at the positions of all blocks, one after the other, and the logarithm
        of each block's sum of exp(score / temperature).
        """
        room, blocks = self._expectation_room(w, temperature), self.blocks
        marginals = np.empty((blocks.offsets[-1], blocks.n_labels), dtype=w.dtype)
        logs = np.empty(self.n_blocks)

        def arguments() -> tuple:
            return blocks.mean_offsets, blocks.label_stride, *room(), marginals, logs

        self._over_blocks(position_marginals, self.pad(w), n_jobs, arguments)
        return marginals, logs

    def log_likelihoods(self, w: np.ndarray, temperature: float, n_jobs: int = 1) -> np.ndarray:
        """The logarithms of the truths' probabilities as of `marginals`; no padding in w."""
        room, out = self._expectation_room(w, temperature), np.empty(self.n_blocks)

        def arguments() -> tuple:
            return self.blocks.mean_offsets, self.blocks.truth, *room(), out

        self._over_blocks(truth_log_likelihoods, self.pad(w), n_jobs, arguments)
        return out

    def _expectation_room(self, w: np.ndarray, temperature: float) -> Callable[[], tuple]:
        """What makes a thread's temperature, empty base and room for a mean."""
        if self.operations.expect is None or self.blocks.n_labels == 0:
            raise MissingOracle(
                f"{type(self.structure).__name__} has no expect, which probabilities of labels are "
                "computed by: see taut.CompiledStructure"
            )
        size, temperature = self.blocks.mean_size, check_temperature(temperature)
        return lambda: (temperature, np.empty(0, dtype=w.dtype), aligned_zeros(size, w.dtype))

    def completed(self, labels: np.ndarray, w: np.ndarray, n_jobs: int = 1) -> Sequence[Any]:
        """Truths with their best latent parts, for weights without padding.

        The truths of these data, which are encoded without any, are not looked at.
        """
        labels = labels.copy()
        self._over_blocks(make_completions, self.pad(w), n_jobs, lambda: (labels,))
        return self.structure.decode(labels, self.blocks.offsets)

    def n_changed(self, other: Any) -> int:
        """Blocks whose truth is another in other data of the same blocks."""
        blocks, differs = self.blocks, self.blocks.truth != other.blocks.truth
        return int(np.count_nonzero(np.add.reduceat(differs, blocks.offsets[:-1])))

    def _over_blocks(
        self, make: Callable, w: np.ndarray, n_jobs: int, arguments: Callable[[], tuple]
    ) -> list[Any]:
        """Run the loop that `make` builds over all blocks; `arguments` makes those of a thread."""
        blocks, kernel = self.blocks, self.kernel(make)

        def run(number: int, first: int, last: int) -> Any:
            space = self.space(w.dtype, number=number)
            work = aligned_zeros(blocks.work_size, w.dtype)
            return kernel(space, blocks.data, blocks.offsets, w, work, first, last, *arguments())

        return in_threads(run, *numbered_ranges(self.n_blocks, n_jobs))
