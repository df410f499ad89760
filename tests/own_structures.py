"""The example of a user's own structure, and variants of it."""

import dataclasses
import itertools
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from own_structure import CompiledTags, Tags, tagged

from taut.structures import OwnFeatures

__all__ = [
    "CompiledTags",
    "ListedCompiledTags",
    "ListedTags",
    "MappedTags",
    "Tags",
    "tagged",
]


class ListedTags(Tags):
    """With all labels of an example, for slack rescaling."""

    def labels(self, x):
        return self.subsets


class ListedCompiledTags(CompiledTags):
    """The compiled twin."""

    @property
    def all_labels(self):
        return np.array(list(itertools.product((0, 1), repeat=self.n_tags)), dtype=np.int32)


class MappedTags(CompiledTags):
    """With features of its own, by `pull` and `push`; potentials have no padding."""

    def encode(self, X, y=None):
        blocks, m = super().encode(X, y), self.n_tags
        n_pairs = m * (m - 1) // 2
        return dataclasses.replace(
            blocks,
            data=(blocks.data[0], m, np.ascontiguousarray(X, dtype=np.float64)),
            features=OwnFeatures(X.shape[1] * m + n_pairs, m + n_pairs),
            work_size=0,
        )

    @staticmethod
    def pull(data, i, w, work):
        m, X = data[1], data[2]
        for k in range(m):
            work[k] = 0.0
            for j in range(X.shape[1]):
                work[k] += X[i, j] * w[j * m + k]
        for p in range(m * (m - 1) // 2):
            work[m + p] = w[X.shape[1] * m + p]

    @staticmethod
    def push(data, i, statistics, w):
        m, X = data[1], data[2]
        for k in range(m):
            for j in range(X.shape[1]):
                w[j * m + k] += X[i, j] * statistics[k]
        for p in range(m * (m - 1) // 2):
            w[X.shape[1] * m + p] += statistics[m + p]
