"""Blocks whose labels are others from block to block: windows of sequences, and allowed classes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cases import long_if
from taut import (
    CompiledStructure,
    Problem,
    Structure,
    StructuredSVM,
    check_structure,
    solve,
)
from taut.errors import InvalidStructure
from taut.sampling import AllLabels, Random, Top
from taut.solvers import DualCoordinate, MultiSample
from taut.structures import Blocks, Listed, RowFeatures, SlackRescaled, part
from taut.structures.multiclass import project_on_simplex


def windows(length):
    return [(a, b) for a in range(length) for b in range(a + 1, length + 1)]


def overlap_loss(truth, label):
    shared = max(min(truth[1], label[1]) - max(truth[0], label[0]), 0)
    return 1.0 - shared / (truth[1] - truth[0] + label[1] - label[0] - shared)


class PlainWindows(Structure):
    """The best window of a sequence, by the sum of its rows; the loss is 1 - overlap / union."""

    def features(self, x, label):
        return x[label[0] : label[1]].sum(axis=0)

    def loss(self, truth, label):
        return overlap_loss(truth, label)

    def labels(self, x):
        return windows(len(x))

    def argmax(self, x, w, truth=None):
        def value(label):
            return w @ self.features(x, label) + (self.loss(truth, label) if truth else 0.0)

        return max(self.labels(x), key=value)


class Windows(CompiledStructure):
    """The same, compiled."""

    takes_examples = True
    allocates = False

    def encode(self, X, y=None):
        lengths = np.array([len(x) for x in X])
        ends = np.cumsum(lengths)
        own = [np.array(windows(length), dtype=np.int32) for length in lengths]
        listed = Listed.of_blocks(own)
        truth = np.zeros((len(X), 2)) if y is None else np.array(y)
        truth = np.ascontiguousarray(truth, dtype=np.int32)
        return Blocks(
            data=(listed.rows, listed.starts, truth),
            features=RowFeatures(np.vstack(X), places=np.column_stack([ends - lengths, ends])),
            offsets=2 * np.arange(len(X) + 1),
            truth=truth.ravel(),
        )

    def decode(self, labels, offsets):
        return [tuple(label) for label in labels.reshape(-1, 2).tolist()]

    def listed(self, blocks):
        return Listed(blocks.data[0], blocks.data[1], 1)

    @staticmethod
    def loss(data, i, label):
        a, b = data[2][i, 0], data[2][i, 1]
        shared = max(min(b, label[1]) - max(a, label[0]), 0)
        return 1.0 - shared / (b - a + label[1] - label[0] - shared)

    @staticmethod
    def parts(data, i, label, each):
        total = 0.0
        for t in range(label[0], label[1]):
            total += part(each, t, 1.0)
        return total

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        labels, starts, truth = data
        best, highest = starts[i], -np.inf
        a, b = truth[i, 0], truth[i, 1]
        for k in range(starts[i], starts[i + 1]):
            first, last = labels[k, 0], labels[k, 1]
            value = 0.0
            for t in range(first, last):
                value += work[t]
            shared = max(min(b, last) - max(a, first), 0)
            value += loss_weight * (1.0 - shared / max(b - a + last - first - shared, 1))
            if value > highest:
                best, highest = k, value
        label[0], label[1] = labels[best, 0], labels[best, 1]
        return highest


@pytest.fixture
def sequences(rng):
    lengths = [2, 5, 3, 4, 1, 5]
    X = [rng.normal(size=(length, 3)) for length in lengths]
    return X, [windows(len(x))[rng.integers(len(windows(len(x))))] for x in X]


def test_lists_of_different_lengths_have_their_own_labels(sequences):
    X, y = sequences
    data = Problem(Windows(), X, y).data
    assert data.listed.most == len(windows(5))
    for i, x in enumerate(X):
        assert data.listed.own(i).tolist() == [list(label) for label in windows(len(x))]
    owner, labels = np.array([0, 0, 1]), np.array([0, 2, 0, 3, 0, 3], dtype=np.int32)
    valid = data.structure.valid_labels(data.blocks, owner, labels)
    assert valid.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("solver", "slack"),
    [
        # An estimator below rescales slacks of lists; `top` of many labels is `all` in order.
        long_if(slack or name in ("all", "random"), solver, slack, id=f"{name}-{slack}")
        for slack in (False, True)
        for name, solver in {
            "dual_coordinate": DualCoordinate(),
            "all": MultiSample(3, AllLabels()),
            "top": MultiSample(3, Top()),
            "random": MultiSample(3, Random()),
        }.items()
    ],
)
def test_solvers_and_samplers_find_the_optimum_of_the_plain_form(solver, slack, sequences):
    X, y = sequences
    wrap = SlackRescaled if slack else lambda structure: structure
    ours = solve(Problem(wrap(Windows()), X, y, C=2.0), solver, tol=1e-4, random_state=0)
    plain = solve(Problem(wrap(PlainWindows()), X, y, C=2.0), tol=1e-7, random_state=0)
    assert ours.certificate.status.name == "CONVERGED"
    assert_allclose(ours.certificate.primal, plain.certificate.primal, rtol=2e-4)
    assert_allclose(ours.w, plain.w, atol=5e-2)


class Allowed(CompiledStructure):
    """Classes of which each block may have some only, with an exact step over these."""

    def __init__(self, allowed, n_classes):
        self.allowed = allowed
        self.n_classes = n_classes

    def encode(self, X, y=None):
        listed = Listed.of_blocks([np.array(own)[:, None] for own in self.allowed])
        truth = np.zeros(len(X), np.int32) if y is None else np.asarray(y, dtype=np.int32)
        return Blocks(
            data=(listed.rows, listed.starts, truth),
            features=RowFeatures(X, columns=self.n_classes),
            offsets=np.arange(len(X) + 1),
            truth=truth,
        )

    def decode(self, labels, offsets):
        return labels

    def listed(self, blocks):
        return Listed(blocks.data[0], blocks.data[1], 1)

    @staticmethod
    def loss(data, i, label):
        return 1.0 * (label[0] != data[2][i])

    @staticmethod
    def parts(data, i, label, each):
        return part(each, label[0], 1.0)

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        labels, starts, truth = data
        highest = -np.inf
        for k in range(starts[i], starts[i + 1]):
            value = work[labels[k, 0]] + loss_weight * (labels[k, 0] != truth[i])
            if value > highest:
                highest = value
                label[0] = labels[k, 0]
        return highest

    @staticmethod
    def exact_step(data, i, work, square, weight, stiffness, alpha, statistics):
        labels, starts, truth = data
        first, count = starts[i], starts[i + 1] - starts[i]
        hinge = 0.0
        mean = 0.0
        new = np.empty(count)
        for q in range(count):
            k = labels[first + q, 0]
            violation = work[k] - work[truth[i]] + (k != truth[i])
            mean += alpha[q] * violation
            hinge = max(hinge, violation)
            new[q] = alpha[q] + stiffness / square * violation
        project_on_simplex(new, weight)
        for k in range(statistics.shape[0]):
            statistics[k] = 0.0
        loss = 0.0
        length = 0.0
        for q in range(count):
            k = labels[first + q, 0]
            change = new[q] - alpha[q]
            alpha[q] = new[q]
            statistics[k] = change
            loss += change * (k != truth[i])
            length += change**2 * square
        return weight * hinge - mean, loss, length


class PlainAllowed(Structure):
    """The same in plain Python; x is a row and the classes that it may have."""

    def features(self, x, label):
        return np.outer(x[0], np.arange(4) == label).ravel()

    def loss(self, truth, label):
        return float(truth != label)

    def argmax(self, x, w, truth=None):
        def value(label):
            return w @ self.features(x, label) + (truth is not None and self.loss(truth, label))

        return max(x[1], key=value)


def test_exact_steps_over_labels_of_the_block(rng):
    X = rng.normal(size=(10, 3))
    allowed = [sorted(rng.permutation(4)[: rng.integers(2, 5)].tolist()) for _ in X]
    y = np.array([rng.choice(own) for own in allowed])
    ours = solve(Problem(Allowed(allowed, 4), X, y, C=2.0), tol=1e-7, random_state=0)
    plain = solve(
        Problem(PlainAllowed(), list(zip(X, allowed, strict=True)), y.tolist(), C=2.0),
        tol=1e-7,
        random_state=0,
    )
    assert ours.certificate.status.name == "CONVERGED"
    assert_allclose(ours.certificate.primal, plain.certificate.primal, rtol=3e-7)


class TooManyWindows(Windows):
    """Lists one window beyond the end of each sequence whose number is a multiple of `every`."""

    every = 1

    def listed(self, blocks):
        rows, starts, _truth = blocks.data
        own = np.split(rows, starts[1:-1])
        for i in range(0, len(own), self.every):
            end = own[i][:, 1].max()
            own[i] = np.vstack([own[i], [(end - 1, end + 1)]])
        return Listed.of_blocks(own)


class OneClassTooMany(Allowed):
    """Lists class 3 for some blocks that may not have it."""

    exact_step = None

    def listed(self, blocks):
        own = [np.array(classes)[:, None] for classes in self.allowed]
        for i in range(2, len(own), 4):
            own[i] = np.vstack([own[i], [[3]]])
        return Listed.of_blocks(own)


class TooFewWindows(Windows):
    def listed(self, blocks):
        rows, starts, _truth = blocks.data
        return Listed.of_blocks([own[:1] for own in np.split(rows, starts[1:-1])])


class NoList(Windows):
    def listed(self, blocks):
        return [blocks.data[0]]


class ShortList(Windows):
    def listed(self, blocks):
        return Listed.of_blocks([blocks.data[0]])


FOREIGN = (
    r"{0}\.argmax (on example|of block) \d+.* which is listed, has .*; argmax misses it, or the "
    "list names a label that the example does not have"
)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (TooManyWindows, FOREIGN.format("TooManyWindows")),
        (
            TooFewWindows,
            r"TooFewWindows\.listed on example \d: \[.*\] is missing, which argmax ret",
        ),
        (NoList, r"NoList\.listed returns list: return taut\.structures\.Listed\.of_blocks\("),
        (ShortList, r"ShortList\.listed has labels of 1 blocks, and there are 6: list those of"),
    ],
)
def test_wrong_lists_are_refused_before_training(kind, message, sequences):
    X, y = sequences
    with pytest.raises(InvalidStructure, match=message):
        check_structure(kind(), X, y)
    with pytest.raises(InvalidStructure, match=message):
        StructuredSVM(kind(), C=1.0, random_state=0).fit(X, y)


def test_wrong_lists_are_refused_after_training(sequences):
    structure = TooManyWindows()
    structure.every = 5
    model = StructuredSVM(structure, check=False, random_state=0)
    with pytest.raises(InvalidStructure, match=FOREIGN.format("TooManyWindows")):
        model.fit(*sequences)


@pytest.mark.parametrize("seed", range(3))
def test_labels_that_some_blocks_do_not_have_are_refused_after_training(seed, rng):
    allowed = [[0, 1, 2, 3] if i % 2 else [0, 1, 2] for i in range(100)]
    y = np.array([rng.choice(own) for own in allowed])
    X = np.eye(4)[y] + rng.normal(size=(100, 4))
    model = StructuredSVM(
        OneClassTooMany(allowed, 4), solver=MultiSample(3, Top()), tol=0.05, random_state=seed
    )
    with pytest.raises(InvalidStructure, match=r"OneClassTooMany\.argmax of block"):
        model.set_params(check=False).fit(X, y)


def test_estimators_take_slack_rescaled_compiled_structures(sequences):
    X, y = sequences
    model = StructuredSVM(SlackRescaled(Windows()), C=2.0, tol=1e-3, random_state=0).fit(X, y)
    plain = StructuredSVM(SlackRescaled(PlainWindows()), C=2.0, tol=1e-3, random_state=0).fit(X, y)
    assert_allclose(model.certificate_.primal, plain.certificate_.primal, rtol=2e-3)
    assert model.predict(X) == plain.predict(X)
