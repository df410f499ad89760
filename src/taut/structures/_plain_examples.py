"""Examples of plain structures."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from taut.errors import InvalidData
from taut.structures._examples import Candidates, Example, same
from taut.structures._sample_laws import check_plain_sample
from taut.structures.abilities import ability, bounded_argmax, loss_of
from taut.structures.base import Structure


class PlainExample(Example):
    features_name = "features"
    structure: Structure

    def __init__(
        self,
        structure: Structure,
        i: int,
        x: Any,
        truth: Any,
        candidates: Candidates | None,
        watched: bool = True,
    ) -> None:
        super().__init__(structure, i, truth, candidates)
        self.x = x
        # Not every x can be copied.
        self.before = copy.deepcopy((x, truth)) if watched else (x, truth)

    def enumerate_labels(self, n_features, rng):
        listed = ability(self.structure, "labels")
        if listed is not None:
            self._check_truth(list(listed(self.x)))
        if self.candidates is None:
            found = self.found(n_features, rng) if listed is None else listed(self.x)
            self.labels = [self.truth, *found]
        elif callable(self.candidates):
            self.labels = [self.truth, *self.candidates(self.x)]
        else:
            raise InvalidData(
                f"candidates is of type {type(self.candidates).__name__}: for a plain structure "
                "give a function that returns the labels of an x"
            )

    def _check_truth(self, listed: list[Any]) -> None:
        """The truth is a label, where labels are listed; it may say more than a label does."""
        if not any(same(self.truth, label) or self._is_truth(label) for label in listed):
            self.fail(
                "labels",
                f"the truth {self.truth!r} of example {self.i} is not among labels(x)",
                "list it, in the form in which y gives it",
            )

    def _is_truth(self, label: Any) -> bool:
        """Whether nothing tells a label from the truth."""
        alike = self.loss(label) == 0.0
        return alike and np.array_equal(self.features(label), self.features(self.truth))

    def features(self, label):
        return np.array(self.structure.features(self.x, label), dtype=np.float64)

    def loss(self, label):
        return float(loss_of(self.structure)(self.x, self.truth, label))

    def argmax(self, w, with_loss):
        truth = (self.truth,) if with_loss else ()
        label, error = bounded_argmax(self.structure, self.x, w, *truth)
        if label is None:
            self.fail("argmax", "it returns None", "return a label")
        return label, None, error

    def complete(self, w):
        complete = ability(self.structure, "complete")
        return complete and complete(self.x, self.truth, w)

    def check_more(self, weights, scores, sizes, rng):
        if ability(self.structure, "sample"):
            check_plain_sample(self, weights)
        labels = ability(self.structure, "labels")
        listed = [] if labels is None else list(labels(self.x))
        if 0 < len(listed) <= self.most_listed:
            self._check_listed(weights, [self.truth, *listed])

    def _check_listed(self, weights: np.ndarray, listed: list[Any]) -> None:
        """What the argmax returns is listed."""
        for w in weights:
            for with_loss in (True, False):
                label = self.argmax(w, with_loss)[0]
                if not any(same(label, known) for known in listed):
                    self.fail(
                        "labels", f"{label!r} is missing, which argmax returns", "list all labels"
                    )

    def check_untouched(self):
        if not same(self.before, (self.x, self.truth)):
            self.fail("argmax, features or loss", "x or the truth is modified", "work on a copy")
