"""Which weights the features of rows belong to: what a visit computes or adds to of w."""

from __future__ import annotations

from typing import Any

from taut.compiled.rows import COMPILED_ONLY, Rows, operation
from taut.spaces.scaling import act


def _dense_touch(rows, first, last, stride, action):
    act(action, 0, rows[0].shape[1] * stride)


def _csr_touch(rows, first, last, stride, action):
    _data, indices, indptr = rows
    for p in range(indptr[first], indptr[last]):
        act(action, indices[p] * stride, (indices[p] + 1) * stride)


@operation(_dense_touch, _csr_touch)
def touch_rows(rows: Rows, first: int, last: int, stride: int, action: Any) -> None:
    """Act on the weights of the features that rows first..last - 1 have (`scaling`)."""
    raise TypeError(COMPILED_ONLY)
