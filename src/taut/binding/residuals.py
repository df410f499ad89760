"""Residual margins of all listed labels at a point."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.compiled.label_rows import listed_labels
from taut.compiled.lanes import aligned_zeros
from taut.spaces.labels import Gather


def _make_margins(operations: Any) -> Any:
    pull, parts, loss_of = operations.pull, operations.parts, operations.loss

    def margins(space, data, listed, offsets, truth, which, w, work, out, most):
        """out[p, k] = loss - margin of the k-th label, most[p] = the largest loss of a block."""
        for p in range(which.shape[0]):
            i = which[p]
            pull(space, i, w, work)
            labels = listed_labels(listed, i)
            base = parts(data, i, truth[offsets[i] : offsets[i + 1]], Gather(work))
            for k in range(labels.shape[0]):
                loss = loss_of(data, i, labels[k])
                most[p] = max(most[p], loss)
                out[p, k] = loss + parts(data, i, labels[k], Gather(work)) - base

    return margins


def margins_at(data: Any, w: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """loss - margin at w of all labels of some blocks of bound data, and their largest losses.

    A row for each block; where it has fewer labels than others, its row ends with zeros.
    """
    blocks, listed = data.blocks, data.listed
    out, most = np.zeros((len(which), listed.most)), np.zeros(len(which))
    work = aligned_zeros(blocks.work_size, w.dtype)
    data.kernel(_make_margins)(
        data.space(w.dtype), blocks.data, listed, blocks.offsets, blocks.truth, which, w, work, out,
        most,
    )  # fmt: skip
    return out, most


def residual_margins(data: Any, w: np.ndarray, least: float) -> np.ndarray:
    """The residual margins of bound data at w, a row for each block, bounded."""
    margins, most = margins_at(data, w, np.arange(data.n_blocks))
    return np.clip(margins, least, most[:, None])
