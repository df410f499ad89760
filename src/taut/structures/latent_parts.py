"""Parts of which only the root is known: where the others are is latent."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.errors import InvalidData
from taut.inference.part_trees import (
    INVISIBLE,
    best_root,
    fill_tables,
    leave_out_levels,
)
from taut.spaces.windows import place_of
from taut.structures.base import Blocks
from taut.structures.parts import Parts

_NEVER = -1e6  # of a loss: what costs any is left out


class LatentParts(Parts):
    """`Parts` where the root alone has a true place, and all other parts are where they score most.

    The loss is 1 if the root is invisible, or further than `radius` from its place, where the truth
    has it; or if it is visible where the truth has none. `complete` finds the label of highest
    score among those of loss 0 on the level that the truth belongs to.

    X is a list of pairs of a `Pyramid` and its `JointPose`, of which only the root is looked at,
    and y a list of labels as `decode` gives them; without y all parts but the root are invisible.

    Parameters
    ----------
    parents, anchors, size, scale, radius, unit, least, sampling, suppression
        As of `Parts`.

    Examples
    --------
    See `taut.LatentPartSVM`, which trains it by alternation.
    """

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """Pairs of a pyramid and where the root is, and labels that stand for the objects."""
        pyramids, poses = zip(*X, strict=True)
        root = np.arange(self.n_parts) == self.tree.order[0]
        known = [pose._replace(visible=np.asarray(pose.visible) & root) for pose in poses]
        blocks = super().encode(list(pyramids), known)
        if y is None:
            return blocks
        if len(y) != len(known):
            raise InvalidData(f"X has {len(known)} images, y labels of {len(y)}: give all")
        labels = np.concatenate([np.asarray(own, dtype=np.int32) for own in y])
        owner = np.arange(len(known))
        if len(labels) != len(blocks.truth) or not self.valid_labels(blocks, owner, labels).all():
            raise InvalidData("y has windows of other images or parts: give what decode gave")
        features: Any = blocks.features
        data: Any = blocks.data
        return self._blocks(features, data, labels)

    def _shares(self) -> np.ndarray:
        return (np.arange(self.n_parts) == self.tree.order[0]).astype(np.float64)

    @staticmethod
    def complete(data, i, work, label):
        """The best label of loss 0, on the level of the truth."""
        root = data.tree.order[0]
        if label[root] == INVISIBLE:
            return
        _t, level, _y, _x = place_of(data.space, data.space.image[i], label[root])
        tables = fill_tables(data, i, work, _NEVER)
        leave_out_levels(data, i, tables, level)
        best_root(data, i, work, tables, label)
