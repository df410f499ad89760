"""Oracles bound to data: loops over batches of blocks with the oracles inside, and threads.

A structure is compiled or plain Python, and `bind` gives either a form that the rest of the library
works with: hinges of all blocks at some weights, predictions, latent parts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from taut._jit import specialise
from taut._lanes import aligned_zeros
from taut.errors import InvalidData, MissingOracle
from taut.m_best import best_labels, candidates
from taut.marginals import check_temperature, position_marginals, truth_log_likelihoods
from taut.regularizer import FEW_LABELS, Prior, Regularizer, curvature_rises, through_scaling
from taut.structures.base import Blocks, CompiledStructure, Oracles, Structure, bounded_argmax


def _hinges(oracles):
    prepare, argmax, score = oracles.prepare, oracles.argmax, oracles.score

    def hinges(data, offsets, truth, w, work, loss_weight, label, first, last, out):
        """out[i] = the largest violation of block i, its losses multiplied by `loss_weight`."""
        for i in range(first, last):
            size = offsets[i + 1] - offsets[i]
            prepare(data, i, w, work)
            best = argmax(data, i, w, work, loss_weight, label[:size])
            base = score(data, i, w, work, truth[offsets[i] : offsets[i + 1]])
            out[i] = max(best - base, 0.0)

    return hinges


def _argmaxes(oracles):
    prepare, argmax = oracles.prepare, oracles.argmax

    def argmaxes(data, offsets, w, work, first, last, out):
        """Write the highest scoring label of each block into the flat array `out`."""
        for i in range(first, last):
            prepare(data, i, w, work)
            argmax(data, i, w, work, 0.0, out[offsets[i] : offsets[i + 1]])

    return argmaxes


def _prediction_losses(oracles):
    loss = oracles.loss

    def prediction_losses(data, offsets, labels, out):
        """out[i] = loss of the label of block i in the flat array `labels`."""
        for i in range(out.shape[0]):
            out[i] = loss(data, i, labels[offsets[i] : offsets[i + 1]])

    return prediction_losses


def _completions(oracles):
    complete = oracles.complete

    def completions(data, offsets, w, work, first, last, out):
        """Give the truths in the flat array `out` their best latent parts."""
        for i in range(first, last):
            complete(data, i, w, work, out[offsets[i] : offsets[i + 1]])

    return completions


class Room:
    """Vectors that compiled code works in, one of a kind for each thread.

    Data that are never worked on at the same time may share theirs.
    """

    def __init__(self) -> None:
        self._vectors: dict[tuple, np.ndarray] = {}

    def vector(self, kind: str, number: int, size: int, dtype: Any) -> np.ndarray:
        """A vector, zero when it is first asked for."""
        key = (kind, number, size, np.dtype(dtype).char)
        if key not in self._vectors:
            self._vectors[key] = aligned_zeros(size, dtype)
        return self._vectors[key]


class CompiledData:
    """A compiled structure bound to data: loops with its oracles inside, over batches of blocks.

    Vectors of weights are padded here (`Blocks.pad`), and of the regulariser's scaled space,
    unless said otherwise.
    """

    def __init__(
        self,
        structure: CompiledStructure,
        blocks: Blocks,
        regularizer: Regularizer | Prior | None = None,
        room: Room | None = None,
    ) -> None:
        self.structure = structure
        self.blocks = blocks
        self.room = Room() if room is None else room
        self.oracles = structure.oracles
        if not blocks.use_inner:
            self.oracles = self.oracles._replace(inner=None, mean_square=None)
        self.prior = (regularizer or Regularizer()).check(blocks.n_features)
        self.n_blocks = blocks.n_blocks
        self.n_features = blocks.n_features
        self.size = blocks.size
        self.reads = blocks.reads
        self.dtype = blocks.dtype
        self.pad = blocks.pad
        self.unpad = blocks.unpad
        if not self.prior.trivial:
            self._regularise()

    def _regularise(self) -> None:
        """Let the oracles see the weights through the scaling of the prior."""
        self.oracles = through_scaling(self.oracles, self.structure.allocates)
        self.scalings = {bounds: self.prior.scaling(self.pad, bounds) for bounds in (True, False)}
        self.rises = np.ones(self.blocks.n_blocks)
        if not self.prior.rescales:
            return
        if self.oracles.exact_step is not None and len(self.structure.all_labels) <= FEW_LABELS:
            self.kernel(curvature_rises)(
                self.local_data(np.float64, bounds=False), self.structure.all_labels,
                aligned_zeros(self.blocks.work_size, np.float64),
                aligned_zeros(self.blocks.size, np.float64), np.empty(1), self.rises,
            )  # fmt: skip
        else:
            self.oracles = self.oracles._replace(inner=None, exact_step=None, add_change=None)

    def local_data(self, dtype: Any, bounds: bool = True, number: int = 0) -> tuple:
        """The data for the oracles, for the thread of this number and w of this type."""
        if self.prior.trivial:
            return self.blocks.data
        weights, sums = (
            self.room.vector(f"{kind}, {bounds}", number, self.size, dtype)
            for kind in ("weights", "sums")
        )
        scaling = self.scalings[bounds]._replace(weights=weights, sums=sums)
        return self.blocks.data, scaling, self.rises

    def kernel(self, make: Callable[[Oracles], Callable]) -> Callable:
        """The loop that `make` builds around the oracles, compiled."""
        return specialise(make, self.oracles, self.structure.allocates)

    def arrays(self) -> Iterator[np.ndarray]:
        """All arrays of the data."""
        pending = list(self.blocks.data)
        while pending:
            item = pending.pop()
            if isinstance(item, tuple):
                pending.extend(item)
            else:
                yield np.asarray(item)

    def hinges(self, w: np.ndarray, n_jobs: int = 1, loss_weight: float = 1.0) -> np.ndarray:
        """The largest violation of each block at w: one oracle call each.

        With losses multiplied by more than 1, blocks that are not far from a violation show.
        """
        blocks, out, kernel = self.blocks, np.empty(self.n_blocks), self.kernel(_hinges)

        def run(number: int, first: int, last: int) -> None:
            data = self.local_data(w.dtype, number=number)
            work = aligned_zeros(blocks.work_size, w.dtype)
            label = np.empty(blocks.label_size, dtype=np.int32)
            kernel(
                data, blocks.offsets, blocks.truth, w, work, loss_weight, label, first, last, out
            )  # fmt: skip

        in_threads(run, *numbered_ranges(self.n_blocks, n_jobs))
        return out

    def predict(self, w: np.ndarray, n_jobs: int = 1) -> Sequence[Any]:
        """The highest scoring label of each block, for weights without padding."""
        return self.structure.decode(self.labels(w, n_jobs), self.blocks.offsets)

    def prediction_losses(self, w: np.ndarray) -> np.ndarray:
        """The loss of each block's prediction against its truth, for weights without padding."""
        blocks, out = self.blocks, np.empty(self.n_blocks)
        data = self.local_data(w.dtype)
        self.kernel(_prediction_losses)(data, blocks.offsets, self.labels(w), out)
        return out

    def labels(self, w: np.ndarray, n_jobs: int = 1) -> np.ndarray:
        """The highest scoring labels of all blocks one after the other; no padding in w."""
        labels = np.empty_like(self.blocks.truth)
        self._over_blocks(_argmaxes, w, n_jobs, lambda: (labels,))
        return labels

    def m_best(self, w: np.ndarray, m: int, n_jobs: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """The m highest scoring labels of each block, best first, for weights without padding.

        Returns
        -------
        labels : ndarray of int32, shape (m, offsets[-1])
            The best labels of all blocks one after the other, then the second best ones, and so
            on; -1 where a block has fewer labels. At most as many rows as any block has labels.
        scores : ndarray of shape (n_blocks, m)
            -inf where a block has fewer labels.
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

        self._over_blocks(best_labels, w, n_jobs, arguments)
        return labels, scores

    def marginals(
        self, w: np.ndarray, temperature: float, n_jobs: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities p(label) ~ exp(score / temperature), for weights without padding.

        Returns
        -------
        marginals : ndarray of shape (offsets[-1], n_labels)
            Those of the labels at the positions of all blocks, one after the other.
        log_partitions : ndarray of shape (n_blocks,)
            The logarithms of the sums of exp(score / temperature) over all labels.
        """
        room, blocks = self._expectation_room(w, temperature), self.blocks
        marginals = np.empty((blocks.offsets[-1], blocks.n_labels), dtype=w.dtype)
        logs = np.empty(self.n_blocks)

        def arguments() -> tuple:
            return blocks.mean_offsets, blocks.label_stride, *room(), marginals, logs

        self._over_blocks(position_marginals, w, n_jobs, arguments)
        return marginals, logs

    def log_likelihoods(self, w: np.ndarray, temperature: float, n_jobs: int = 1) -> np.ndarray:
        """The logarithms of the truths' probabilities as of `marginals`; no padding in w."""
        room, out = self._expectation_room(w, temperature), np.empty(self.n_blocks)

        def arguments() -> tuple:
            return self.blocks.mean_offsets, self.blocks.truth, *room(), out

        self._over_blocks(truth_log_likelihoods, w, n_jobs, arguments)
        return out

    def _expectation_room(self, w: np.ndarray, temperature: float) -> Callable[[], tuple]:
        """What makes a thread's temperature, empty base and room for a mean."""
        if self.oracles.expect is None or self.blocks.n_labels == 0:
            raise MissingOracle(
                f"{type(self.structure).__name__} has no expect, which probabilities of labels are "
                "computed by: see taut.CompiledStructure"
            )
        size, temperature = self.blocks.mean_size, check_temperature(temperature)
        return lambda: (temperature, np.empty(0, dtype=w.dtype), aligned_zeros(size, w.dtype))

    def completed(self, w: np.ndarray, n_jobs: int = 1) -> Sequence[Any]:
        """The truths with their best latent parts, for weights without padding."""
        labels = self.blocks.truth.copy()
        self._over_blocks(_completions, w, n_jobs, lambda: (labels,))
        return self.structure.decode(labels, self.blocks.offsets)

    def n_changed(self, other: Any) -> int:
        """Blocks whose truth is another in other data of the same blocks."""
        blocks, differs = self.blocks, self.blocks.truth != other.blocks.truth
        return int(np.count_nonzero(np.add.reduceat(differs, blocks.offsets[:-1])))

    def _over_blocks(
        self, make: Callable, w: np.ndarray, n_jobs: int, arguments: Callable[[], tuple]
    ) -> None:
        """Run the loop that `make` builds over all blocks; `arguments` makes those of a thread."""
        blocks, kernel, padded = self.blocks, self.kernel(make), self.pad(w)

        def run(number: int, first: int, last: int) -> None:
            data = self.local_data(w.dtype, number=number)
            work = aligned_zeros(blocks.work_size, w.dtype)
            kernel(data, blocks.offsets, padded, work, first, last, *arguments())

        in_threads(run, *numbered_ranges(self.n_blocks, n_jobs))


def _plain(data: Any) -> Any:
    """Data as it is indexed by number: a data frame is by name."""
    return data.to_numpy() if hasattr(data, "to_numpy") else data


class PythonData:
    """A plain-Python structure bound to data; its weights have no padding."""

    dtype = np.float64

    def __init__(
        self,
        structure: Structure,
        X: Any,
        y: Any = None,
        regularizer: Regularizer | Prior | None = None,
    ) -> None:
        self.structure = structure
        self.X, self.truth = _plain(X), _plain(y)
        self.n_blocks = len(X)
        if self.n_blocks == 0:
            raise InvalidData("X has 0 sample(s), a minimum of 1 is required: give some examples")
        if y is not None and len(y) != len(X):
            raise InvalidData(f"X has {len(X)} examples, y has {len(y)}: give one label to each")
        if isinstance(structure, Structure):
            self.X = structure.examples(self.X, self.truth)
        if y is None:
            return
        self.n_features = self.size = self.reads = len(self.features(0, self.truth[0]))
        self.prior = (regularizer or Regularizer()).check(self.n_features)

    @staticmethod
    def pad(w: np.ndarray) -> np.ndarray:
        """The weights as they are."""
        return w

    unpad = pad

    def arrays(self) -> Iterator[np.ndarray]:
        """The features of the truths."""
        for i in range(self.n_blocks):
            yield self.features(i, self.truth[i])

    def features(self, i: int, label: Any) -> np.ndarray:
        """phi(x_i, label), checked."""
        features = np.asarray(self.structure.features(self.X[i], label), dtype=np.float64)
        if features.ndim != 1:
            raise InvalidData(
                f"{type(self.structure).__name__}.features of example {i} has shape "
                f"{features.shape}: return a 1-D array"
            )
        if len(features) != getattr(self, "n_features", len(features)):
            raise InvalidData(
                f"{type(self.structure).__name__}.features of example {i} has {len(features)} "
                f"values for label {label!r}, {self.n_features} for the truth of example 0: return "
                "arrays of one length"
            )
        if not np.isfinite(features).all():
            raise InvalidData(
                f"{type(self.structure).__name__}.features of example {i} contains NaN or "
                "infinity: check the example, and what features makes of it"
            )
        return features

    def plane(self, i: int, label: Any) -> tuple[np.ndarray, float]:
        """psi, in the scaled space, and loss of a label of block i."""
        truth = self.truth[i]
        loss = float(self.structure.loss(truth, label))
        if not 0.0 <= loss < np.inf:
            raise InvalidData(
                f"{type(self.structure).__name__}.loss of example {i} is {loss}: losses are >= 0 "
                "and finite"
            )
        return self.prior.plane(self.features(i, truth) - self.features(i, label)), loss

    def worst(self, i: int, v: np.ndarray) -> tuple[np.ndarray, float, float]:
        """psi and loss of the label that the loss-augmented oracle finds, and its error.

        The error is how far the largest violation may at most lie above that of the label.
        """
        w = self.prior.weights(v)
        label, error = bounded_argmax(self.structure, self.X[i], w, self.truth[i])
        if not 0.0 <= error < np.inf:
            raise InvalidData(
                f"{type(self.structure).__name__}.bounded_argmax of example {i} returns the error "
                f"{error}: errors are >= 0 and finite"
            )
        return *self.plane(i, label), error

    def point(self, v: np.ndarray) -> np.ndarray:
        """Where planes are to be evaluated: v within its bounds."""
        return v if self.prior.trivial else np.maximum(v, self.prior.lower())

    def hinges(self, w: np.ndarray, n_jobs: int = 1, loss_weight: float = 1.0) -> np.ndarray:
        """The largest violation of each block at w, from above where the oracle is not exact.

        Python holds the GIL, and its oracles weigh no losses: the last two have no effect.
        """
        worst, point = (self.worst(i, w) for i in range(self.n_blocks)), self.point(w)
        return np.array([max(loss - psi @ point + error, 0.0) for psi, loss, error in worst])

    def predict(self, w: np.ndarray, n_jobs: int = 1) -> list[Any]:
        """The highest scoring label of each block."""
        return [self.structure.argmax(x, w) for x in self.X]

    def prediction_losses(self, w: np.ndarray) -> np.ndarray:
        """The loss of each block's prediction against its truth."""
        pairs = zip(self.truth, self.predict(w), strict=True)
        return np.array([self.structure.loss(truth, label) for truth, label in pairs])

    def n_changed(self, other: Any) -> int:
        """Blocks whose truth has other features in other data of the same blocks."""
        pairs = zip(self.arrays(), other.arrays(), strict=True)
        return sum(not np.array_equal(mine, others) for mine, others in pairs)


def bind(
    structure: Structure | CompiledStructure,
    X: Any,
    y: Any = None,
    regularizer: Regularizer | Prior | None = None,
    room: Room | None = None,
) -> CompiledData | PythonData:
    """Structure and data together; without y, for prediction only."""
    if isinstance(structure, CompiledStructure):
        return CompiledData(structure, structure.encode(X, y), regularizer, room)
    return PythonData(structure, X, y, regularizer)


def complete(
    structure: Any, X: Any, y: Any, w: np.ndarray | None = None, n_jobs: int = 1
) -> Sequence[Any]:
    """The truths y with their best latent parts under w; with a first guess without w."""
    if isinstance(structure, CompiledStructure):
        return (
            y if w is None else CompiledData(structure, structure.encode(X, y)).completed(w, n_jobs)
        )
    if len(y) != len(X):
        raise InvalidData(f"X has {len(X)} examples, y has {len(y)}: give one label to each")
    pairs = zip(_plain(X), _plain(y), strict=True)
    guess = () if w is None else (w,)
    return [structure.complete(x, truth, *guess) for x, truth in pairs]


@functools.cache
def _pool(n_jobs: int) -> ThreadPoolExecutor:
    """Threads that stay: starting them takes longer than a small pass."""
    return ThreadPoolExecutor(n_jobs, thread_name_prefix="taut")


def in_threads(run: Callable[..., Any], *arguments: Iterable[Any]) -> list[Any]:
    """As list(map(run, *arguments)), all calls at once; they should run without the GIL."""
    calls = list(zip(*arguments, strict=True))
    if len(calls) == 1:
        return [run(*calls[0])]
    return list(_pool(len(calls)).map(lambda call: run(*call), calls))


def numbered_ranges(n: int, n_jobs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number, first and last + 1 of up to n_jobs ranges that cover 0..n."""
    edges = np.linspace(0, n, min(n, n_jobs) + 1).astype(int)
    return np.arange(len(edges) - 1), edges[:-1], edges[1:]
