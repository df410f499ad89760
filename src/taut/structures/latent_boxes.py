"""Boxes whose windows are latent: which shape and place of a template stands for an object."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.errors import InvalidData
from taut.structures.base import Blocks
from taut.structures.boxes import NOWHERE, Boxes
from taut.vision.templates import Templates


class LatentBoxes(Boxes):
    """`Boxes` where windows that are near enough to an object are right, whichever it is.

    A window that overlaps its object by `settled` or more, or as much as any window does, costs
    nothing. Which of these stands for the object is latent, its template with it: `complete` finds
    the one of highest score. The loss of the others is the distance to `settled`.

    X is a list of pairs of a `Pyramid` and its `taut.vision.Boxes`, y a list of arrays with the
    numbers of windows, as `decode` gives them; without y objects have the windows that overlap them
    most.

    Parameters
    ----------
    templates : Templates
    match : float, default=0.5
    settled : float, default=0.7
        Above `match`.
    suppression : float, default=0.5

    Examples
    --------
    See `taut.LatentBoxSVM`, which trains it by alternation.
    """

    def __init__(
        self,
        templates: Templates,
        match: float = 0.5,
        settled: float = 0.7,
        suppression: float = 0.5,
    ) -> None:
        super().__init__(templates, match, suppression)
        if not match < settled <= 1.0:
            raise InvalidData(
                f"settled = {settled}: give an overlap above match = {match}, and at most 1"
            )
        self.settled = settled

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """Pairs of a pyramid and its objects, and the windows that stand for them."""
        pyramids, truths = zip(*X, strict=True)
        blocks = super().encode(list(pyramids), list(truths))
        if y is None:
            return blocks
        if len(y) != len(truths):
            raise InvalidData(f"X has {len(truths)} images, y windows of {len(y)}: give all")
        labels = np.concatenate([np.asarray(own, dtype=np.int32) for own in y])
        owner = np.arange(len(truths))
        if len(labels) != len(blocks.truth) or not self.valid_labels(blocks, owner, labels).all():
            raise InvalidData("y has windows of other images or groups: give what decode gave")
        data: Any = blocks.data
        features: Any = blocks.features
        return self._blocks(features, data._replace(truth=labels))

    @staticmethod
    def complete(data, i, work, label):
        """The windows of highest score among those that cost nothing."""
        first = data.starts[i]
        for g in range(label.shape[0]):
            if label[g] == NOWHERE:
                continue
            for j in range(data.counts[i]):
                right = data.groups[first + j] == g and data.losses[first + j] == 0.0
                if right and work[j] > work[label[g]]:
                    label[g] = j
