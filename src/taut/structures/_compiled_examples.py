"""Examples of compiled structures, with the laws of the functions that exist for speed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from taut.compiled.jit import specialise
from taut.errors import InvalidData
from taut.structures._examples import PRECISION, Candidates, Example, Guarded
from taut.structures._mean_laws import check_means
from taut.structures._sample_laws import check_sample
from taut.structures.base import Blocks, CompiledStructure

_SOME = 16  # labels among which laws of pairs are tested


def _ask(oracles):
    pull, argmax, loss, score = oracles.pull, oracles.argmax, oracles.loss, oracles.score

    def ask(data, i, w, work, loss_weight, labels, before, after, losses, found):
        """The argmax and its value, and the labels' scores as they are before and after it."""
        pull(data, i, w, work)
        for q in range(labels.shape[0]):
            before[q] = score(data, i, work, labels[q])
        value = argmax(data, i, work, loss_weight, found)
        for q in range(labels.shape[0]):
            after[q] = score(data, i, work, labels[q])
            losses[q] = loss(data, i, labels[q])
        return value

    return ask


def _complete(oracles):
    complete = oracles.complete

    def write(data, i, w, work, label):
        complete(data, i, w, work, label)

    return write


def _add_features(oracles):
    add_features = oracles.add_features

    def add(data, i, labels, scales, w):
        add_features(data, i, labels, scales, w)

    return add


def _inner_products(oracles):
    inner = oracles.inner

    def inner_products(data, i, labels, out):
        for a in range(labels.shape[0]):
            for b in range(labels.shape[0]):
                out[a, b] = inner(data, i, labels[a], labels[b])

    return inner_products


def _add_change(oracles):
    add_change = oracles.add_change

    def add(data, i, change, factor, work, w):
        add_change(data, i, change, factor, work, w)

    return add


def _exact_step(oracles):
    pull, exact_step = oracles.pull, oracles.exact_step

    def step(data, i, w, work, weight, stiffness, alpha, change):
        pull(data, i, w, work)
        return exact_step(data, i, work, weight, stiffness, alpha, change)

    return step


class CompiledExample(Example):
    features_name = "add_features"
    enumerated = True  # whether `labels` are all that there are
    structure: CompiledStructure

    def __init__(
        self,
        structure: CompiledStructure,
        i: int,
        blocks: Blocks,
        candidates: Candidates | None,
        digests: dict[str, str] | None = None,
    ) -> None:
        start, stop = blocks.offsets[i : i + 2]
        super().__init__(structure, i, blocks.truth[start:stop], candidates)
        self.blocks = blocks
        self.digests = digests
        self.oracles = structure.oracles
        self.work = Guarded(blocks.work_size)

    def kernel(self, make):
        """The loop that `make` builds around the oracles, compiled."""
        return specialise(make, self.oracles, self.structure.allocates)

    def name(self, label):
        return str(label.tolist())

    def enumerate_labels(self, n_features, rng):
        if callable(self.candidates):
            labels = self.candidates(self.i)
        elif self.candidates is not None:
            labels = self.candidates
        elif self.structure.exact_step is not None:
            labels = self._all_labels()
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

    def _all_labels(self) -> np.ndarray:
        labels = np.asarray(self.structure.all_labels)
        if labels.dtype != np.int32 or labels.shape[1:] != self.truth.shape:
            self.fail(
                "all_labels",
                f"dtype {labels.dtype} and shape {labels.shape}, while the truth has "
                f"{len(self.truth)} integers",
                "return an int32 array of shape (n_labels, label size)",
            )
        return labels

    def features(self, label):
        return self._sum(label[None], np.ones(1))

    def _sum(self, labels, scales):
        """sum_q scales[q] phi(labels[q]), by one call."""
        w = Guarded(self.blocks.size)
        w.array[:] = 0.0
        labels = np.ascontiguousarray(labels, dtype=np.int32)
        self.kernel(_add_features)(self.blocks.data, self.i, labels, scales, w.array)
        if w.broken:
            self.fail(
                "add_features",
                f"it writes outside w, whose length is {self.blocks.size}",
                "correct n_features in encode, or the indices",
            )
        return w.array

    def loss(self, label):
        return float(self._ask(np.zeros(self.blocks.size), 0.0, label[None])[3][0])

    def argmax(self, w, with_loss):
        none = np.empty((0, len(self.truth)), dtype=np.int32)
        return *self._ask(w, float(with_loss), none)[:2], 0.0

    def complete(self, w):
        if self.oracles.complete is None:
            return None
        label = self.truth.copy()
        self.kernel(_complete)(self.blocks.data, self.i, w, self.work.array, label)
        self.check_work("complete")
        return label

    def _ask(self, w, loss_weight, labels):
        """Found label, its value, the labels' scores before and after that, their losses."""
        found = Guarded(len(self.truth), np.int32)
        before, after, losses = np.empty((3, len(labels)))
        value = self.kernel(_ask)(
            self.blocks.data, self.i, w, self.work.array, loss_weight, labels, before, after,
            losses, found.array,
        )  # fmt: skip
        if found.broken:
            self.fail(
                "argmax",
                f"it writes outside its label, which has {len(self.truth)} integers",
                "write one integer for each of the truth's",
            )
        self.check_work("pull or argmax")
        return found.array, value, (before, after), losses

    def check_work(self, method: str) -> None:
        if self.work.broken:
            self.fail(
                method,
                f"it writes outside work, whose length is {self.blocks.work_size}",
                "correct work_size in encode, or the indices",
            )

    def check_untouched(self):
        if self.digests is None:
            return
        for name, digest in digests_of(self.blocks.data):
            if self.digests[name] != digest:
                self.fail("oracles", f"they modify {name}", "write to work, label and w only")

    def check_more(self, weights, scores, sizes, rng):
        for w, expected, size in zip(weights, scores, sizes, strict=True):
            self._check_score(w, expected, size)
        others = rng.permutation(len(self.labels) - 1)[: _SOME - 1] + 1
        some = np.array([self.truth, *(self.labels[q] for q in others)], dtype=np.int32)
        phi = np.array([self.features(label) for label in some])
        self._check_linear(some, phi, rng)
        self._check_inner(some, phi)
        if self.structure.exact_step is not None:
            for w in weights:
                self._check_exact_step(w, rng)
            self._check_add_change(rng)
        if self.structure.expect is not None:
            check_means(self, some, phi, weights, rng)
        if self.oracles.sample is not None:
            check_sample(self, weights)

    def _check_score(self, w, expected, size):
        given = w.copy()
        answers = self._ask(given, 1.0, np.array(self.labels, dtype=np.int32))[2]
        if not np.array_equal(w, given):
            self.fail("pull or score", "w is modified", "write to work only")
        remedies = ("make score and add_features agree", "let argmax keep what pull wrote")
        for found, when, remedy in zip(answers, ("", " after argmax"), remedies, strict=True):
            for q in np.flatnonzero(~(np.abs(found - expected) <= PRECISION * (1.0 + size))):
                self.fail(
                    "score",
                    f"label {self.name(self.labels[q])} has {found[q]:.9g}{when}, while <w, phi> "
                    f"through add_features is {expected[q]:.9g}",
                    remedy,
                )

    def _check_linear(self, some, phi, rng):
        scales = rng.normal(size=len(some)) * (rng.random(len(some)) < 0.8)
        found, expected = self._sum(some, scales), scales @ phi
        error = np.abs(found - expected) / (1.0 + np.abs(scales) @ np.abs(phi))
        if not error.max() <= PRECISION:
            where = int(error.argmax())
            self.fail(
                "add_features",
                f"{len(some)} labels at once add {found[where]:.9g} to feature {where}, one by one "
                f"they add {expected[where]:.9g}",
                "add sum_q scales[q] phi(labels[q])",
            )

    def _check_inner(self, some, phi):
        if not self.blocks.use_inner:
            return  # what it would read may not be there
        if self.oracles.inner is None:
            if self.structure.exact_step is not None:
                self.fail("inner", "it is missing, and exact_step needs it", "write it")
            return
        found, expected = np.empty((len(some), len(some))), phi @ phi.T
        self.kernel(_inner_products)(self.blocks.data, self.i, some, found)
        norms = np.linalg.norm(phi, axis=1)
        for a, b in np.argwhere(
            ~(np.abs(found - expected) <= PRECISION * (1.0 + np.outer(norms, norms)))
        ):
            self.fail(
                "inner",
                f"labels {self.name(some[a])} and {self.name(some[b])} have {found[a, b]:.9g}, "
                f"while <phi, phi> through add_features is {expected[a, b]:.9g}",
                "return <phi(a), phi(b)>",
            )

    def _check_add_change(self, rng):
        if self.oracles.add_change is None:
            self.fail("add_change", "it is missing, and exact_step needs it", "write it")
        labels, w = self._all_labels(), Guarded(self.blocks.size)
        w.array[:] = 0.0
        change = rng.normal(size=len(labels)) * (rng.random(len(labels)) < 0.7)
        self.kernel(_add_change)(
            self.blocks.data, self.i, change.copy(), -0.5, self.work.array, w.array
        )
        self.check_work("add_change")
        expected = self._sum(labels, -0.5 * change)
        error = np.abs(w.array - expected) / (1.0 + np.abs(expected).max())
        if w.broken or not error.max() <= PRECISION:
            where = int(error.argmax())
            self.fail(
                "add_change",
                f"it adds {w.array[where]:.9g} to feature {where}, while add_features adds "
                f"{expected[where]:.9g} for the same labels",
                "add factor sum_q change[q] phi(q) over all_labels",
            )

    def _check_exact_step(self, w, rng):
        """Feasible, truthful, and no exchange of weight between two labels gains anything.

        Where the truth is none of `all_labels`, it is added with the weight that is not in use.
        """
        labels = self._all_labels()
        n_labels, is_truth = len(labels), (labels == self.truth).all(axis=1)
        implicit = not is_truth.any()
        if implicit:
            labels, is_truth = np.vstack([labels, self.truth]), np.append(is_truth, True)
        phi = np.array([self.features(label) for label in labels])
        if implicit and phi[-1].any():
            self.fail(
                "all_labels",
                f"the truth {self.name(self.truth)} is not among them and has features",
                "make it one of them",
            )
        psi, losses = phi[is_truth.argmax()] - phi, np.array([self.loss(q) for q in labels])
        violation = losses - psi @ w
        weight, stiffness = rng.uniform(0.1, 10.0), rng.choice([1.0, 5.0])
        before = weight * rng.dirichlet(np.full(len(labels), 0.5))
        guards = Guarded(n_labels), Guarded(n_labels)
        alpha, change = (guard.array for guard in guards)
        alpha[:] = before[:n_labels]
        gap, loss_change, length = self.kernel(_exact_step)(
            self.blocks.data, self.i, w, self.work.array, weight, stiffness, alpha, change
        )
        self.check_work("exact_step")
        if any(guard.broken for guard in guards):
            self.fail(
                "exact_step",
                f"it writes outside alpha or change, which have {n_labels} entries",
                "make all_labels and exact_step agree",
            )
        rest = weight - alpha.sum()
        if alpha.min() < -PRECISION * weight or rest < -PRECISION * weight:
            self.fail(
                "exact_step",
                f"alpha has the least entry {alpha.min():.3g} and the sum {alpha.sum():.9g}, the "
                f"block's weight is {weight:.9g}",
                "keep alpha >= 0 and its sum within the weight",
            )
        if implicit:
            alpha, change = np.append(alpha, rest), np.append(change, rest - before[-1])
        elif rest > PRECISION * weight:
            self.fail(
                "exact_step",
                f"alpha sums to {alpha.sum():.9g}, the block's weight is {weight:.9g}",
                "give the truth what the other labels leave",
            )
        moved, gram = alpha - before, psi @ psi.T
        true_length = moved @ gram @ moved
        true_gap = weight * max(violation.max(), 0.0) - before @ violation
        size = 1.0 + weight * (np.abs(violation).max() + losses.max())
        wrong = np.abs(change - moved).argmax()
        for what, given, true, slack in (
            (f"change of {self.name(labels[wrong])}", change[wrong], moved[wrong], 1.0 + weight),
            ("gap", gap, true_gap, size),
            ("change of the summed loss", loss_change, moved @ losses, size),
            ("squared length of the move", length, true_length, 1.0 + weight**2 * gram.max()),
        ):
            if not abs(given - true) <= PRECISION * slack:
                self.fail(
                    "exact_step",
                    f"it reports the {what} as {given:.9g}, which is {true:.9g}",
                    "write new minus old alpha into change, and return the gap before the step, "
                    "the change of sum alpha loss, and |sum change psi|^2",
                )
        up, down, amount, gain = _best_exchange(gram, violation, alpha, moved, stiffness)
        if gain > PRECISION * size:
            self.fail(
                "exact_step",
                f"moving {amount:.3g} of alpha from label {self.name(labels[down])} to "
                f"{self.name(labels[up])} gains another {gain:.3g}",
                "maximise the block's dual over all of alpha",
            )


def _best_exchange(
    gram: np.ndarray, violation: np.ndarray, alpha: np.ndarray, moved: np.ndarray, stiffness: float
) -> tuple[int, int, float, float]:
    """The pair of labels between which moving alpha gains most: to, from, how much, the gain."""
    violation = violation - gram @ moved / stiffness
    slope = np.maximum(violation[:, None] - violation[None, :], 0.0)
    squares = np.diag(gram)
    curvature = (squares[:, None] + squares[None, :] - 2.0 * gram) / stiffness
    amount = np.maximum(alpha, 0.0)[None, :] * np.ones_like(gram)
    np.divide(slope, curvature, out=amount, where=slope < amount * curvature)
    gain = amount * (slope - 0.5 * amount * curvature)
    up, down = np.unravel_index(gain.argmax(), gain.shape)
    return int(up), int(down), float(amount[up, down]), float(gain[up, down])


def digests_of(data: tuple, name: str = "data") -> Iterator[tuple[str, str]]:
    """Name and digest of each array in nested tuples."""
    for position, item in enumerate(data):
        inside = f"{name}[{position}]"
        if isinstance(item, tuple):
            yield from digests_of(item, inside)
        else:
            yield inside, hashlib.sha256(np.ascontiguousarray(item).tobytes()).hexdigest()
