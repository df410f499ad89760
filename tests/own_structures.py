"""The example of a user's own structure, and a variant with inner products of its own."""

import itertools
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from own_structure import CompiledTags, Tags, tagged

__all__ = [
    "CompiledTags",
    "CompiledTagsWithInner",
    "ListedCompiledTags",
    "ListedTags",
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


class CompiledTagsWithInner(CompiledTags):
    """With the inner product of phi's, so that the Gram matrix needs no scores."""

    @staticmethod
    def inner(data, i, a, b):
        X, _truths = data
        single, pairs = 0.0, 0.0
        for s in range(a.shape[0]):
            single += a[s] * b[s]
            for t in range(s + 1, a.shape[0]):
                pairs += a[s] * a[t] * b[s] * b[t]
        return single * (X[i] ** 2).sum() + pairs
