"""Lines of svmlight files: the compiled parser.

    line     = target [qid:integer] [cost:number] index:value ... [# comment]

Blanks are spaces and tabs. Lines without a target, blank or of a comment alone, are skipped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taut.compiled import jit
from taut.readers.floats import FAULT, LEFT, NOT_FINITE, number

MAX_INDEX = 2**31 - 2  # so that the number of columns is an int32 too

# What is wrong with a line.
(
    NO_FAULT, BAD_TARGET, SEVERAL_TARGETS, NO_TARGET, BAD_PAIR, BAD_INDEX, BAD_VALUE,
    INFINITE, DOUBLE, DESCENDING, BAD_QUERY, SOME_QUERIES, LATE_QUERY, BAD_COST, SOME_COSTS,
    SLACK_ID, TOO_LOW, TOO_HIGH,
) = range(18)  # fmt: skip

DATA, TARGETS, COSTS = range(3)

#: Whether all lines have something, as far as is known.
UNKNOWN, ABSENT, PRESENT = -1, 0, 1


class Columns(NamedTuple):
    """Where the parser writes; `bits_*` are the same memory as the numbers before them.

    `left` are numbers for Python: which are meant, DATA, TARGETS or COSTS, their slots, and where
    their text begins and ends.
    """

    data: np.ndarray
    data_bits: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    targets: np.ndarray
    target_bits: np.ndarray
    costs: np.ndarray
    cost_bits: np.ndarray
    queries: np.ndarray
    left: np.ndarray


class Counts(NamedTuple):
    """What the parser found; a fault at `place`, or NO_FAULT."""

    rows: int
    values: int
    left: int
    lines: int
    lowest: int
    highest: int
    whole: bool
    queries: int
    costs: int
    fault: int
    place: int


def columns_for(size: int) -> Columns:
    """Room for all that a text of this size can hold."""
    values, rows = size // 4 + 2, size // 2 + 2  # of "1:1 " and of "1\n"
    data, targets, costs = (np.empty(n) for n in (values, rows, rows))
    return Columns(
        data, data.view(np.uint64), np.empty(values, np.int32), np.empty(rows + 1, np.int64),
        targets, targets.view(np.uint64), costs, costs.view(np.uint64), np.empty(rows, np.int64),
        # What is left takes five bytes at least, as "1e400" does.
        np.empty((size // 5 + 2, 4), np.int32),
    )  # fmt: skip


@jit.helper
def _ends(c):
    """Whether a word ends at this byte."""
    return c == 32 or (9 <= c <= 13) or c == 35


@jit.helper
def _leave(left, n, kind, slot, start, end):
    left[n, 0], left[n, 1], left[n, 2], left[n, 3] = kind, slot, start, end


@jit.helper
def _integer(text, place, limit):
    """A number of digits alone: where it ends, which is where it begins if it is none or larger."""
    start, value = place, np.int64(0)
    while 48 <= text[place] <= 57:
        value = value * 10 + np.int64(text[place] - 48)
        if value > limit:
            return start, value
        place += 1
    return place, value


@jit.kernel
def parse(text, stop, columns, least, most, queries, costs):
    """Parse whole lines, of which the last ends in a newline at `stop` - 1.

    Indices are from `least` to `most`; `queries` and `costs` say whether lines before had any.
    Returns a tuple as `Counts` has it.
    """
    (
        data, data_bits, indices, indptr, targets, target_bits, weights, weight_bits, groups, left,
    ) = columns  # fmt: skip
    rows, values, place, n_left = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    lines, lowest, highest, whole = 0, MAX_INDEX, np.int64(-1), True
    fault = NO_FAULT
    indptr[0] = 0
    while place < stop:
        c = text[place]
        if c != 10 and _ends(c) and c != 35:
            place += 1
            continue
        if c == 10 or c == 35:
            while text[place] != 10:
                place += 1
            place += 1
            lines += 1
            continue
        # A target.
        end, found, integer = number(text, place, targets, target_bits, rows)
        if found == NOT_FINITE:
            fault = INFINITE
            break
        if found == FAULT:
            fault = BAD_TARGET
            break
        if not _ends(text[end]):
            c = text[end]
            place, fault = (place, NO_TARGET) if c == 58 else (end, BAD_TARGET)
            if c == 44:
                fault = SEVERAL_TARGETS
            break
        if found == LEFT:
            _leave(left, n_left, TARGETS, rows, place, end)
            n_left += 1
        whole = whole and integer
        place = end
        has_query, has_cost = False, False
        previous = np.int64(-1)
        # Pairs.
        while True:
            c = text[place]
            if c == 10 or c == 35:
                break
            if _ends(c):
                place += 1
                continue
            if 48 <= c <= 57:
                end, index = _integer(text, place, MAX_INDEX)
                if end == place:
                    fault = BAD_INDEX
                    break
                if text[end] != 58:
                    place, fault = end, BAD_PAIR
                    break
                if index < least or index > most:
                    fault = TOO_LOW if index < least else TOO_HIGH
                    break
                if index <= previous:
                    fault = DOUBLE if index == previous else DESCENDING
                    break
                previous = index
                place = end + 1
                end, found, integer = number(text, place, data, data_bits, values)
                if found in (NOT_FINITE, FAULT) or not _ends(text[end]):
                    fault = INFINITE if found == NOT_FINITE else BAD_VALUE
                    break
                if found == LEFT:
                    _leave(left, n_left, DATA, values, place, end)
                    n_left += 1
                place = end
                lowest = min(lowest, index)
                indices[values] = index
                values += 1
            elif (
                c == 113 and text[place + 1] == 105 and text[place + 2] == 100
                and text[place + 3] == 58
            ):  # fmt: skip
                if previous >= 0 or has_query:
                    fault = LATE_QUERY
                    break
                place += 4
                end, groups[rows] = _integer(text, place, np.int64(2**59))
                if end == place or not _ends(text[end]):
                    fault = BAD_QUERY
                    break
                place = end
                has_query = True
            elif (
                c == 99 and text[place + 1] == 111 and text[place + 2] == 115
                and text[place + 3] == 116 and text[place + 4] == 58
            ):  # fmt: skip
                if previous >= 0 or has_cost:
                    fault = LATE_QUERY
                    break
                place += 5
                end, found, integer = number(text, place, weights, weight_bits, rows)
                if found in (NOT_FINITE, FAULT) or text[place] == 45 or not _ends(text[end]):
                    fault = BAD_COST
                    break
                if found == LEFT:
                    _leave(left, n_left, COSTS, rows, place, end)
                    n_left += 1
                place = end
                has_cost = True
            else:
                slack = c == 115 and text[place + 1] == 105 and text[place + 2] == 100
                fault = SLACK_ID if slack else BAD_PAIR
                break
        if fault != NO_FAULT:
            break
        if queries == UNKNOWN:
            queries = PRESENT if has_query else ABSENT
        if costs == UNKNOWN:
            costs = PRESENT if has_cost else ABSENT
        if (queries == PRESENT) != has_query or (costs == PRESENT) != has_cost:
            fault = SOME_QUERIES if (queries == PRESENT) != has_query else SOME_COSTS
            break
        if previous > highest:
            highest = previous
        rows += 1
        indptr[rows] = values
        # The newline or the comment comes next, and counts the line.
    return rows, values, n_left, lines, lowest, highest, whole, queries, costs, fault, place
