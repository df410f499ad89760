"""Plain structures see the blocks of shards as a list, as they would in memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from taut import Structure, StructuredSVM
from taut.data import write_shards
from taut.structures import SlackRescaled


class Means(Structure):
    """Three classes, by the mean of what an example consists of."""

    def features(self, x, label):
        return np.outer(np.arange(3) == label, [x.mean(), 1.0]).ravel()

    def loss(self, truth, label):
        return float(truth != label)

    def labels(self, x):
        return range(3)

    def argmax(self, x, w, truth=None):
        def value(label):
            return w @ self.features(x, label) + (0.0 if truth is None else truth != label)

        return max(self.labels(x), key=value)


class Signs(Structure):
    """A sign for each row."""

    def features(self, x, label):
        return label @ x

    def loss(self, truth, label):
        return float((truth != label).sum())

    def argmax(self, x, w, truth=None):
        scores = 2.0 * (x @ w) - (0 if truth is None else truth)
        return np.where(scores >= 0.0, 1, -1)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("wrap", [lambda structure: structure, SlackRescaled])
def test_shards_of_plain_structures_are_fitted_as_in_memory(ragged, wrap, rng, tmp_path):
    y = np.arange(20) % 3
    rows = rng.integers(1, 4, size=20) if ragged else np.ones(20, dtype=int)
    X = [rng.normal(size=(count, 4)) + label for count, label in zip(rows, y, strict=True)]
    X = X if ragged else np.vstack(X)
    shards = write_shards(tmp_path / "shards", X, y)
    options = {"C": 1.0, "tol": 1e-3, "random_state": 0}
    memory = StructuredSVM(wrap(Means()), **options).fit(X, y.tolist())
    assert list(memory.predict(shards)) == list(memory.predict(X))
    assert_allclose(memory.score(shards), memory.score(X, y))
    streamed = StructuredSVM(wrap(Means()), **options).fit(shards)
    assert_allclose(streamed.certificate_.primal, memory.certificate_.primal, rtol=2e-3)
    assert list(streamed.predict(shards)) == list(memory.predict(X))


def test_labels_of_rows_come_in_an_array_for_each_example(rng, tmp_path):
    X = [rng.normal(size=(count, 3)) for count in rng.integers(2, 5, size=12)]
    y = [np.where(x @ [1.0, -1.0, 0.5] >= 0.0, 1, -1) for x in X]
    shards = write_shards(tmp_path / "shards", X, y)
    model = StructuredSVM(Signs(), C=1.0, tol=1e-3, random_state=0).fit(shards)
    memory = StructuredSVM(Signs(), C=1.0, tol=1e-3, random_state=0).fit(X, y)
    assert_allclose(model.certificate_.primal, memory.certificate_.primal, rtol=2e-3)
    for ours, theirs in zip(memory.predict(shards), memory.predict(X), strict=True):
        assert ours.tolist() == theirs.tolist()
    assert_allclose(memory.score(shards), memory.score(X, y))
