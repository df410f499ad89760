"""What is said of plain structures whose labels are none."""

import numpy as np
import pytest

from taut import Structure, StructuredSVM, check_structure
from taut.errors import InvalidStructure


class Listing(Structure):
    def labels(self, x):
        return [0, 1]

    def features(self, x, label):
        return np.outer(np.arange(3) == label, x).ravel()

    def loss(self, truth, label):
        return float(truth != label)

    def argmax(self, x, w, truth=None):
        def value(label):
            return w @ self.features(x, label) + (0.0 if truth is None else truth != label)

        return max(self.labels(x), key=value)


class Silent(Listing):
    def argmax(self, x, w, truth=None):
        return None


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Listing, r"the truth 2 of example 0 is not among labels\(x\); list it"),
        (Silent, r"Silent\.argmax on example 0: it returns None; return a label"),
    ],
)
def test_labels_that_are_none_are_named(kind, message):
    X, y = np.eye(3), [2, 1, 0] if kind is Listing else [0, 1, 1]
    with pytest.raises(InvalidStructure, match=message):
        check_structure(kind(), X, y)
    with pytest.raises(InvalidStructure, match=message):
        StructuredSVM(kind()).fit(X, y)
