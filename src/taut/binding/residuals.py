"""Residual margins of all listed labels at a point."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.compiled.label_rows import listed_labels
from taut.compiled.lanes import aligned_zeros
from taut.spaces.labels import Gather


def _make_margins(operations: Any) -> Any:
    pull, parts, loss_of = operations.pull, operations.parts, operations.loss

    def margins(space, data, listed, offsets, truth, w, work, least, out):
        """out[i, k] = loss - margin of the k-th label, up to the block's largest loss."""
        for i in range(out.shape[0]):
            pull(space, i, w, work)
            labels = listed_labels(listed, i)
            base = parts(data, i, truth[offsets[i] : offsets[i + 1]], Gather(work))
            most = 0.0
            for k in range(labels.shape[0]):
                most = max(most, loss_of(data, i, labels[k]))
            for k in range(labels.shape[0]):
                lead = parts(data, i, labels[k], Gather(work)) - base
                out[i, k] = min(max(loss_of(data, i, labels[k]) + lead, least), most)

    return margins


def residual_margins(data: Any, w: np.ndarray, least: float) -> np.ndarray:
    """The residual margins of bound data at w, a row for each block, bounded."""
    blocks, listed = data.blocks, data.listed
    out = np.zeros((data.n_blocks, listed.most))
    work = aligned_zeros(blocks.work_size, w.dtype)
    data.kernel(_make_margins)(
        data.space(w.dtype), blocks.data, listed, blocks.offsets, blocks.truth, w, work, least, out
    )
    return out
