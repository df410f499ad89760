"""Rows of one query or sequence, kept together where a file is read part by part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from taut.readers.base import Part
from taut.readers.files import DataFile
from taut.readers.tables import joined, rows_of


def whole_groups(file: DataFile, parts: Iterable[Part], what: str) -> Iterator[Part]:
    """Parts with `lengths` in place of `queries`: each query whole, in one part.

    A query whose rows do not stand together is refused; errors call it `what`.
    """
    seen: set[int] = set()
    waiting: list[Part] = []
    for part in parts:
        queries = part.queries
        assert queries is not None
        before = waiting[-1].queries[-1] if waiting else queries[0]  # type: ignore[index]
        begins = np.flatnonzero(np.diff(queries, prepend=before))
        if len(begins):
            last = int(begins[-1])
            if last:
                waiting.append(rows_of(part, 0, last))
                part = rows_of(part, last, len(queries))
            yield _grouped(file, joined(waiting), seen, what)
            waiting = []
        # A copy, because the next part may come in the same memory.
        waiting.append(joined([part]))
    if waiting:
        yield _grouped(file, joined(waiting), seen, what)


def _grouped(file: DataFile, part: Part, seen: set[int], what: str) -> Part:
    queries = part.queries
    assert queries is not None
    starts = np.concatenate([[0], np.flatnonzero(np.diff(queries)) + 1])
    for group in queries[starts].tolist():
        if group in seen:
            raise file.fault(
                f"the rows of {what} {group} do not stand together: sort the lines by qid"
            )
        seen.add(group)
    lengths = np.diff(starts, append=len(queries))
    weight = part.sample_weight
    if weight is not None:
        differs = weight != np.repeat(weight[starts], lengths)
        if differs.any():
            group = queries[np.argmax(differs)]
            raise file.fault(
                f"the rows of {what} {group} have different costs: give each {what} one cost"
            )
        weight = weight[starts]
    return Part(part.X, part.y, weight, None, lengths)
