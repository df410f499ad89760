"""A structure of your own, in plain Python and compiled: sets of tags that go together.

An example may carry any subset of m tags. A subset scores by its single tags, given the features of
the example, and by the pairs of tags in it; a wrong answer costs the number of wrong tags.

    python examples/own_structure.py
"""

from __future__ import annotations

import itertools

import numpy as np

import taut
from taut import CompiledStructure, Structure
from taut.structures import Blocks, RowFeatures, part


class Tags(Structure):
    """Subsets of m tags: a weight per feature and tag, and one per pair of tags; Hamming loss."""

    def __init__(self, n_tags):
        self.subsets = list(itertools.product((0, 1), repeat=n_tags))
        self.pairs = list(itertools.combinations(range(n_tags), 2))

    def features(self, x, label):
        together = [label[a] * label[b] for a, b in self.pairs]
        return np.concatenate([np.outer(x, label).ravel(), together])

    def loss(self, truth, label):
        return sum(a != b for a, b in zip(truth, label, strict=True))

    def argmax(self, x, w, truth=None):
        def value(label):
            loss = 0.0 if truth is None else self.loss(truth, label)
            return w @ self.features(x, label) + loss

        return max(self.subsets, key=value)


class CompiledTags(CompiledStructure):
    """The same for Numba; a label is a row of m bits, `work` has the scores of tags and pairs."""

    def __init__(self, n_tags):
        self.n_tags = n_tags

    def encode(self, X, y=None):
        n, m = len(X), self.n_tags
        truth = np.zeros((n, m), dtype=np.int32) if y is None else np.array(y, dtype=np.int32)
        X = np.ascontiguousarray(X, dtype=np.float64)
        features = RowFeatures(X, columns=m, tail=(m * (m - 1) // 2, 1))
        return Blocks((truth, features.stride), features, m * np.arange(n + 1), truth.ravel())

    def decode(self, labels, offsets):
        return [tuple(bits) for bits in labels.reshape(-1, self.n_tags).tolist()]

    @staticmethod
    def parts(data, i, label, each):
        pair, total = data[1], 0.0
        for a in range(label.shape[0]):
            total += part(each, a, label[a])
            for b in range(a + 1, label.shape[0]):
                total += part(each, pair, label[a] * label[b])
                pair += 1
        return total

    @staticmethod
    def loss(data, i, label):
        return 1.0 * (label != data[0][i]).sum()

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        truth, m = data[0][i], label.shape[0]
        best, winner = -np.inf, 0
        for subset in range(2**m):
            total, pair = 0.0, data[1]
            for a in range(m):
                mine = (subset >> a) & 1
                total += work[a] * mine + loss_weight * (mine != truth[a])
                for b in range(a + 1, m):
                    total += work[pair] * mine * ((subset >> b) & 1)
                    pair += 1
            if total > best:
                best, winner = total, subset
        for a in range(m):
            label[a] = (winner >> a) & 1
        return best


def tagged(n, n_tags, n_features, rng):
    """Examples whose tags depend on the features and on each other."""
    X = rng.normal(size=(n, n_features))
    leaning = X @ rng.normal(size=(n_features, n_tags))
    leaning[:, 1:] += 2.0 * np.sign(leaning[:, :-1])
    y = [tuple(int(value > 0.0) for value in row) for row in leaning]
    return X, y


def main() -> None:
    """Check both, train both, and compare optimum and time per visit."""
    X, y = tagged(300, 5, 8, np.random.default_rng(0))
    models = {}
    for structure in (Tags(5), CompiledTags(5)):
        taut.check_structure(structure, X[:5], y[:5])
        taut.StructuredSVM(structure, C=0.1, max_iter=1, tol=1.0).fit(X, y)  # compile
        model = taut.StructuredSVM(structure, C=0.1, tol=1e-6, random_state=0).fit(X, y)
        models[type(structure).__name__] = model
        proof = model.certificate_
        print(
            f"{type(structure).__name__:12s} primal {proof.primal:.5f}  dual {proof.dual:.5f}  "
            f"{1e6 * proof.seconds / proof.oracle_calls:8.1f} us per visit"
        )
    plain, compiled = (model.certificate_ for model in models.values())
    ratio = plain.seconds / plain.oracle_calls * compiled.oracle_calls / compiled.seconds
    print(f"The compiled one is {ratio:.0f} times faster per visit.")
    print("Predictions agree:", models["Tags"].predict(X) == models["CompiledTags"].predict(X))


if __name__ == "__main__":
    main()
