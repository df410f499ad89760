"""Examples of compiled structures, with the laws that only these have."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator

import numpy as np

from taut.compiled.jit import specialise
from taut.compiled.label_rows import Listed
from taut.errors import InvalidData
from taut.spaces.features import OwnFeatures
from taut.spaces.labels import Extent, ProductRoom, Scatter, products_of, score_of
from taut.structures._examples import PRECISION, Candidates, Example, Guarded
from taut.structures._listed_laws import check_listed
from taut.structures._map_laws import check_map, pulled, push, written_by_pull
from taut.structures._mean_laws import check_means
from taut.structures._sample_laws import check_sample
from taut.structures._step_laws import check_exact_step
from taut.structures.base import Blocks, CompiledStructure, Operations

_LABEL = "its label, which has {0} integers"
_NUMBERS = ("argmax", "expect", "loss", "mean_loss", "sample")  # what these return
_SOME = 16  # labels among which laws of pairs are tested


@functools.cache
def _calling(name):
    """What builds the kernel that calls one of the operations, and does no more."""

    def make(operations):
        operation = getattr(operations, name)

        def call(*arguments):
            return operation(*arguments)

        def number(*arguments):
            return operation(*arguments) + 0  # or it is not compiled, and the user told why

        return number if name in _NUMBERS else call

    return make


def _statistics(operations):
    parts, n_all = operations.parts, operations.n_all

    def statistics(space, data, i, label, reached, out):
        """Those of a label, unless it is made of potentials that are not there; how many are."""
        size = n_all(space, i, out)
        parts(data, i, label, Extent(reached))
        if reached[0] >= 0 and reached[1] < size:
            parts(data, i, label, Scatter(out, out, size, 0, 1.0))
        return size

    return statistics


def _scores(operations):
    score = score_of(operations)

    def scores(data, i, work, labels, out):
        for q in range(labels.shape[0]):
            out[q] = score(data, i, work, labels[q])

    return scores


def _products(operations):
    products = products_of(operations)

    def run(data, i, labels, room, out):
        for q in range(labels.shape[0]):
            products(data, i, labels[q], labels, room, out[q])

    return run


class CompiledExample(Example):
    """One block, encoded with truths.

    For a thorough test `digests` are those of the data, by names of arrays: whether they change is
    looked at then, and inner products. `blank` are the same blocks encoded without truths, which
    `complete` sees. `listed` are all labels of all blocks, where the structure lists them.
    """

    features_name = "parts"
    enumerated = True  # whether `labels` are all that there are
    structure: CompiledStructure

    def __init__(
        self,
        structure: CompiledStructure,
        i: int,
        blocks: Blocks,
        candidates: Candidates | None,
        digests: dict[str, str] | None = None,
        blank: Blocks | None = None,
        listed: Listed | None = None,
    ) -> None:
        start, stop = blocks.offsets[i : i + 2]
        super().__init__(structure, i, blocks.truth[start:stop], candidates)
        self.blocks = blocks
        self.digests = digests
        self.listed = listed
        self.map = blocks.features
        self.space = self.map.view(blocks.data)
        self.operations = Operations(*structure.oracles, *self.map.functions(structure))
        self.features_name = "push" if isinstance(self.map, OwnFeatures) else "parts"
        self.work = Guarded(blocks.work_size)
        self.written = written_by_pull(self)
        self.blank: CompiledExample | None = None
        if blank is not None and structure.oracles.complete is not None:
            self.blank = CompiledExample(structure, i, blank, candidates)

    def kernel(self, make):
        """The loop that `make` builds around the oracles and the functions of the space."""
        return specialise(make, self.operations, self.structure.allocates)

    def call(self, name, *arguments):
        """What one of the operations returns."""
        return self.kernel(_calling(name))(*arguments)

    def name(self, label):
        return str(label.tolist())

    def enumerate_labels(self, n_features, rng):
        if callable(self.candidates):
            labels = self.candidates(self.i)
        elif self.candidates is not None:
            labels = self.candidates
        elif self.structure.exact_step is not None:
            labels = self.all_labels()
        else:
            self.enumerated = False
            labels = list(self.found(n_features, rng))
        labels = np.atleast_2d(np.asarray(labels, dtype=np.int32))
        if labels.shape[1:] != self.truth.shape:
            raise InvalidData(
                f"candidates of example {self.i} have shape {labels.shape}, its truth has "
                f"{len(self.truth)} integers: give one label per row"
            )
        labels = np.unique(labels, axis=0)
        self.labels = [self.truth, *labels[(labels != self.truth).any(axis=1)]]

    @property
    def lists_by_block(self) -> bool:
        """Whether the labels are those of `listed`, rather than `all_labels`."""
        return type(self.structure).listed is not CompiledStructure.listed

    def all_labels(self) -> np.ndarray:
        """Those of the structure, tested for their form."""
        if self.lists_by_block:
            assert self.listed is not None
            labels = self.listed.own(self.i)
        else:
            labels = np.asarray(self.structure.all_labels)
        if labels.dtype != np.int32 or labels.shape[1:] != self.truth.shape:
            self.fail(
                "all_labels",
                f"dtype {labels.dtype} and shape {labels.shape}, while the truth has "
                f"{len(self.truth)} integers",
                "return an int32 array of shape (n_labels, label size)",
            )
        return labels

    def statistics(self, label: np.ndarray) -> np.ndarray:
        """s(label): how often the label has each potential."""
        reached = np.array([self.map.n_potentials, -1])
        out = np.zeros(self.map.n_potentials)
        label = np.ascontiguousarray(label, dtype=np.int32)
        size = self.kernel(_statistics)(self.space, self.blocks.data, self.i, label, reached, out)
        if reached[0] > reached[1]:
            return out  # of no parts
        if reached[0] < 0 or reached[1] >= size:
            where = reached[0] if reached[0] < 0 else reached[1]
            self.fail(
                "parts",
                f"label {self.name(label)} is made of potential {where}, and the block has the "
                f"potentials 0 to {size - 1}",
                "correct the index, or what says how many there are; or let argmax return labels "
                "of the block only",
            )
        unknown = np.flatnonzero((out != 0.0) & ~self.written)
        if len(unknown):
            self.fail(
                "parts",
                f"label {self.name(label)} is made of potential {unknown[0]}, which pull does not "
                "write",
                "make pull and parts number the potentials in the same way",
            )
        return out

    def pull(self, w: np.ndarray) -> np.ndarray:
        """Write the potentials at w to the beginning of `work`, and return a copy."""
        potentials = pulled(self, self.map.pad(w))
        self.work.array[: len(potentials)] = potentials
        return potentials

    def features(self, label):
        statistics = self.statistics(label)
        phi = push(self, statistics)
        own = self.map.unpad(phi)
        if not np.array_equal(self.map.pad(own), phi, equal_nan=True):
            self.fail(
                "parts",
                f"label {self.name(label)} is made of a potential that is padding, one of "
                f"{np.flatnonzero(statistics).tolist()}",
                "count `stride` of RowFeatures, and not `columns`, from a row to the next one or "
                "to the tail, which has no more potentials than it has weights",
            )
        return own

    def loss(self, label):
        label = np.ascontiguousarray(label, dtype=np.int32)
        return float(self.call("loss", self.blocks.data, self.i, label))

    def argmax(self, w, with_loss):
        found = Guarded(len(self.truth), np.int32)
        before = self.pull(w)
        value = self.call(
            "argmax", self.blocks.data, self.i, self.work.array, float(with_loss), found.array
        )
        self.check_within(found, "argmax", _LABEL, "write one integer for each of the truth's")
        self.check_work("argmax", before)
        return found.array, float(value), 0.0

    def complete(self, w):
        if self.blank is None:
            return None
        label = Guarded(len(self.truth), np.int32)
        label.array[:] = self.truth
        blank = self.blank
        blank.pull(w)
        blank.call("complete", blank.blocks.data, self.i, blank.work.array, label.array)
        blank.check_work("complete")
        self.check_within(label, "complete", _LABEL, "write the latent part of the truth")
        return label.array

    def completed_features(self, label):
        """On data without truths: those with truths may know one latent part alone."""
        assert self.blank is not None
        return self.blank.features(label)

    def check_within(self, guarded: Guarded, method: str, what: str, remedy: str) -> None:
        """Nothing is written outside an array; `what` it is may speak of its length, {0}."""
        if guarded.broken:
            self.fail(method, f"it writes outside {what.format(len(guarded.array))}", remedy)

    def check_work(self, method: str, before: np.ndarray | None = None) -> None:
        """Nothing is written outside `work`, and potentials are what they were before."""
        self.check_within(
            self.work, method, "work, whose length is {0}",
            "correct work_size in encode, or the indices",
        )  # fmt: skip
        if before is None:
            return
        after = self.work.array[: len(before)]
        changed = np.flatnonzero(self.written & ~((before == after) | np.isnan(before)))
        if len(changed):
            p = int(changed[0])
            self.fail(
                method,
                f"it makes {after[p]:.9g} of potential {p}, which was {before[p]:.9g}",
                "keep the potentials in work as they are; what follows them is free to use, see "
                "work_size",
            )

    def check_untouched(self):
        if self.digests is None:
            return
        for name, digest in digests_of(self.blocks.data):
            if self.digests[name] != digest:
                self.fail("oracles", f"they modify {name}", "write to work, label and w only")

    def check_features(self, weights, scores, sizes, rng):
        if isinstance(self.map, OwnFeatures):
            check_map(self, weights, rng)
        for w, expected, size in zip(weights, scores, sizes, strict=True):
            self._check_score(w, expected, size)

    def check_more(self, weights, scores, sizes, rng):
        others = rng.permutation(len(self.labels) - 1)[: _SOME - 1] + 1
        some = np.array([self.truth, *(self.labels[q] for q in others)], dtype=np.int32)
        if self.map.lifts and self.digests is not None:  # bounds do not rest on it, only steps
            self._check_products(some)
        if self.structure.exact_step is not None:
            statistics = Guarded(self.map.n_potentials)
            statistics.array[:] = 0.0
            for w in weights:
                check_exact_step(self, w, statistics, rng)
        if self.listed is not None:
            check_listed(self, weights)
        if self.structure.expect is not None:
            check_means(self, some, weights, rng)
        if self.operations.sample is not None:
            check_sample(self, weights)

    def _check_score(self, w, expected, size):
        labels, found = np.array(self.labels, dtype=np.int32), np.empty(len(self.labels))
        self.pull(w)
        self.kernel(_scores)(self.blocks.data, self.i, self.work.array, labels, found)
        for q in np.flatnonzero(~(np.abs(found - expected) <= PRECISION * (1.0 + size))):
            self.fail(
                "parts",
                f"for label {self.name(self.labels[q])} it returns the score {found[q]:.9g}, while "
                f"its parts, one by one, have {expected[q]:.9g}",
                "return the sum of all that part(each, index, amount) returns, whatever `each` is",
            )

    def _check_products(self, some):
        """Those that are made of the inner products of rows."""
        phi = np.array([self.features(label) for label in some])
        found, expected = np.empty((len(some), len(some))), phi @ phi.T
        room = ProductRoom.of(self.space, self.map, np.zeros(0))
        self.kernel(_products)(self.blocks.data, self.i, some, room, found)
        norms = np.linalg.norm(phi, axis=1)
        for a, b in np.argwhere(
            ~(np.abs(found - expected) <= PRECISION * (1.0 + np.outer(norms, norms)))
        ):
            self.fail(
                "encode",
                f"labels {self.name(some[a])} and {self.name(some[b])} have <phi, phi> = "
                f"{expected[a, b]:.9g}, and {found[a, b]:.9g} by the overlaps of RowFeatures",
                "give the inner products of all pairs of a block's rows, block by block",
            )


def digests_of(data: tuple, name: str = "data") -> Iterator[tuple[str, str]]:
    """Name and digest of each array in nested tuples."""
    for position, item in enumerate(data):
        inside = f"{name}[{position}]"
        if isinstance(item, tuple):
            yield from digests_of(item, inside)
        else:
            yield inside, hashlib.sha256(np.ascontiguousarray(item).tobytes()).hexdigest()
