"""Labels with a part that the data do not tell."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from taut.structures.base import Structure


class LatentStructure(Structure):
    """A structure in plain Python whose labels have a latent part: one more method.

    Labels are, for instance, pairs (y, z), of which the data tell y alone. `features` takes whole
    labels; `argmax` maximises over both parts; `loss(truth, label)` may depend on both parts of
    the label, but not on the latent part of the truth. `complete` gives a truth its best latent
    part. The truths that `taut.LatentStructuredSVM.fit` takes look like labels, with anything in
    the place of what is not known.

    Examples
    --------
    A signal is somewhere in a row of numbers, or its mirror image is; where, nobody says.

    >>> import numpy as np
    >>> from taut import LatentStructure, LatentStructuredSVM
    >>> class Signal(LatentStructure):
    ...     "Label (sign, place): the sign of the two numbers at a place that is not known."
    ...     def features(self, x, label):
    ...         sign, place = label
    ...         return sign * x[place : place + 2]
    ...     def loss(self, truth, label):
    ...         return float(truth[0] != label[0])
    ...     def argmax(self, x, w, truth=None):
    ...         def value(label):
    ...             loss = 0.0 if truth is None else self.loss(truth, label)
    ...             return w @ self.features(x, label) + loss
    ...         return max(((s, z) for s in (-1, 1) for z in range(len(x) - 1)), key=value)
    ...     def complete(self, x, truth, w=None):
    ...         sign, _ = truth
    ...         if w is None:
    ...             return sign, 0
    ...         places = ((sign, z) for z in range(len(x) - 1))
    ...         return max(places, key=lambda label: w @ self.features(x, label))
    >>> X = [np.array([0.0, 1.0, 2.0, 0.0]), np.array([1.0, 2.0, 0.0]), np.array([0.0, -1.0, -2.0])]
    >>> y = [(1, None), (1, None), (-1, None)]
    >>> model = LatentStructuredSVM(Signal(), C=10.0, random_state=0).fit(X, y)
    >>> model.predict(X)
    [(1, 1), (1, 0), (-1, 1)]
    """

    @abstractmethod
    def complete(self, x: Any, truth: Any, w: np.ndarray | None = None) -> Any:
        """`truth` with the latent part of highest <w, phi(x, label)>; a first guess without w."""
