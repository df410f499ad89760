"""Weight moves to the labels of a visit one by one, by an inner product each.

What a block has, v = sum_q a_q psi_q, is known by its parts: what it had before the visit, of which
a share is kept, and what the visit adds,

    v = kept v0 + new,        sum_q a_q + (what is left on the truth) = C_i.

For each label j there are |psi_j|^2, <v0, psi_j> and <new, psi_j>, so that three steps are known
exactly, and the one that gains most is taken:

    from the truth              a_j += step, as of dual coordinate descent;
    from what the block had     v0 taken as one plane, where its labels are not known apart;
    from everything             v -> (1 - step) v + step C_i psi_j, the pair step against the plane
                                that all weight is merged into. A label that had weight may also
                                move away from it.

The dual never falls, and after the first label it is at least that of all weight there. No products
of two labels of the visit are needed: K labels cost K inner products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from taut.binding import CompiledData, PythonData
from taut.compiled.heaps import exchange, heap, sink
from taut.compiled.jit import helper, kernel
from taut.compiled.lanes import aligned_zeros
from taut.spaces.labels import ProductRoom
from taut.spaces.sums import NEW, OLD, SumRoom, sums_of

#: What is known of a block in a visit, numbers in one array: its weight; what of it the truth has;
#: what v0 may hand on as one plane; the share of v0 that is kept; what `new` is to be multiplied
#: by; the inner products of v0 and new; their losses, their violations at the w that the visit
#: began with, and their inner products with the truth; a difference of violations that is too small
#: to be worth a step.
(
    TOTAL, REST, MERGED, KEPT, SCALE, OLD_SQUARE, CROSS, NEW_SQUARE, OLD_LOSS, NEW_LOSS,
    OLD_VIOLATION, NEW_VIOLATION, OLD_OWN, NEW_OWN, LEAST,
) = range(15)  # fmt: skip

_TIED = 1e-13  # of a violation: a difference that rounding explains
_NOTHING = 1e-13  # of a block's weight
_WORTH = 2e-2  # of the first difference: later labels that differ by less are left out
_PAIRS = 4  # of the truth, v0 and what is new, that exchange weight in the end
_SMALL = 1e-30  # a scale at which the numbers that it multiplies are written anew


@kernel
def begin(point, total, rest, merged, square, loss, violation):
    """A block before its visit; `square`, `loss` and `violation` are those of v0."""
    for p in range(point.shape[0]):
        point[p] = 0.0
    point[TOTAL], point[REST], point[MERGED] = total, rest, merged
    point[KEPT], point[SCALE] = 1.0, 1.0
    point[OLD_SQUARE], point[OLD_LOSS], point[OLD_VIOLATION] = square, loss, violation


@helper
def _square(point):
    """|v|^2."""
    kept = point[KEPT]
    return kept * (kept * point[OLD_SQUARE] + 2.0 * point[CROSS]) + point[NEW_SQUARE]


@helper
def _violation(point, stiffness):
    """loss - <w, v> of all that the block has, at w as it is by now."""
    along = point[KEPT] * point[OLD_SQUARE] + point[CROSS]  # <v0, v>
    before = point[KEPT] * point[OLD_VIOLATION] + point[NEW_VIOLATION]
    return before - (_square(point) - along) / stiffness


@helper
def _violation_merged(point, stiffness):
    """The same of v0 as one plane, of weight 1."""
    along = (point[KEPT] - 1.0) * point[OLD_SQUARE] + point[CROSS]  # <v0, v - v0>
    return (point[OLD_VIOLATION] - along / stiffness) / point[MERGED]


@helper
def violation_now(point, violation, on_old, on_new, stiffness):
    """That of a label by now."""
    return violation - ((point[KEPT] - 1.0) * on_old + on_new) / stiffness


@kernel
def bar(point, stiffness):
    """A violation up to which a label without weight has nothing to gain."""
    low = _violation(point, stiffness) / point[TOTAL]
    if point[REST] > 0.0:
        low = min(low, 0.0)
    if point[MERGED] > 0.0 and point[KEPT] > 0.0:
        low = min(low, _violation_merged(point, stiffness))
    return low + max(point[LEAST], _TIED * (1.0 + abs(low)))


@kernel
def is_worth(point, violation, own, on_old, on_new, stiffness):
    """Whether a step is worth its cost; the label's |psi|^2 need not be known."""
    now = violation_now(point, violation, on_old, on_new, stiffness)
    low = bar(point, stiffness)
    if point[LEAST] == 0.0:
        point[LEAST] = _WORTH * abs(now - low)
    apart = abs(now - _violation(point, stiffness) / point[TOTAL])
    return now > low or (own > 0.0 and apart > point[LEAST])


@helper
def _exact(slope, curvature, low, high):
    """The step of largest gain between two bounds, and its gain."""
    curvature = max(curvature, 0.0)
    step = high if slope > 0.0 else low
    if abs(slope) < abs(step) * curvature:
        step = slope / curvature
    return step, step * (slope - 0.5 * step * curvature)


@kernel
def advance(point, violation, loss, own, square, on_old, on_new, stiffness):
    """Take the best step to a label that has the weight `own`, or from it; what it then has more.

    Beside that all weights, `own` too, shrink with point[KEPT] and point[SCALE].
    """
    total, kept = point[TOTAL], point[KEPT]
    now = violation_now(point, violation, on_old, on_new, stiffness)
    amount, best = _exact(now, square / stiffness, -own, point[REST])
    kind = 0
    if point[MERGED] > 0.0:
        size = point[MERGED]
        apart = square - (2.0 * on_old - point[OLD_SQUARE] / size) / size
        slope = now - _violation_merged(point, stiffness)
        step, gain = _exact(slope, apart / stiffness, -own, kept * size)
        if gain > best:
            amount, best, kind = step, gain, 1
    if total - own > _NOTHING * total:
        apart = total * (total * square - 2.0 * (kept * on_old + on_new)) + _square(point)
        slope = total * now - _violation(point, stiffness)
        step, gain = _exact(slope, apart / stiffness, -own / (total - own), 1.0)
        if gain > best:
            amount, best, kind = step, gain, 2
    if kind == 0:
        point[REST] = max(point[REST] - amount, 0.0)
    elif kind == 1:
        point[KEPT] = max(kept - amount / point[MERGED], 0.0)
    else:
        _scale(point, 1.0 - amount)
        on_new *= 1.0 - amount
        amount *= total
    point[CROSS] += amount * on_old
    point[NEW_SQUARE] += amount * (2.0 * on_new + amount * square)
    point[NEW_LOSS] += amount * loss
    point[NEW_VIOLATION] += amount * violation
    return amount


@helper
def _scale_new(point, factor):
    """Multiply what the visit has added."""
    point[SCALE] *= factor
    point[CROSS] *= factor
    point[NEW_SQUARE] *= factor * factor
    point[NEW_LOSS] *= factor
    point[NEW_VIOLATION] *= factor


@helper
def _scale(point, factor):
    """Multiply all that the block has, and what the truth has of its weight."""
    point[REST] *= factor
    point[KEPT] *= factor
    _scale_new(point, factor)


@helper
def _balance_all(point, stiffness):
    """The exact step between the truth and all that the block has beside it."""
    rest, used = point[REST], point[TOTAL] - point[REST]
    if used > _NOTHING * point[TOTAL]:
        slope, curvature = _violation(point, stiffness), _square(point) / stiffness
        step, _gain = _exact(slope, curvature, -1.0, rest / used)
        _scale(point, 1.0 + step)
        point[REST] = max(rest - step * used, 0.0)


@helper
def _balance_pair(point, stiffness):
    """The exact step between two of the truth, v0 and what is new; whether there was one.

    From the plane of lowest violation that has weight to that of the highest.
    """
    size = point[MERGED]
    old = point[KEPT] * size
    new = point[TOTAL] - point[REST] - old
    new = new if new > _NOTHING * point[TOTAL] else 0.0
    of_old, of_new, square, across = _violation_merged(point, stiffness), 0.0, 0.0, 0.0
    if new > 0.0:
        along = (point[KEPT] - 1.0) * point[CROSS] + point[NEW_SQUARE]
        of_new = (point[NEW_VIOLATION] - along / stiffness) / new
        square, across = point[NEW_SQUARE] / new**2, point[CROSS] / (size * new)
    up = 1 if of_old > 0.0 else 0
    highest = max(of_old, 0.0)
    if new > 0.0 and of_new > highest:
        up, highest = 2, of_new
    down, lowest, amount = up, highest, 0.0
    if point[REST] > 0.0 and lowest > 0.0:
        down, lowest, amount = 0, 0.0, point[REST]
    if old > 0.0 and of_old < lowest:
        down, lowest, amount = 1, of_old, old
    if new > 0.0 and of_new < lowest:
        down, lowest, amount = 2, of_new, new
    if highest - lowest <= max(point[LEAST], _TIED * (1.0 + abs(highest))):
        return False
    curvature = 0.0
    if up == 1 or down == 1:
        curvature += point[OLD_SQUARE] / size**2
    if up == 2 or down == 2:
        curvature += square
    if up + down == 3:
        curvature -= 2.0 * across
    if (highest - lowest) * stiffness < amount * curvature:
        amount = (highest - lowest) * stiffness / curvature
    for plane in range(3):
        move = amount if plane == up else -amount if plane == down else 0.0
        if plane == 0:
            point[REST] = max(point[REST] + move, 0.0)
        elif plane == 1:
            point[KEPT] = max(point[KEPT] + move / size, 0.0)
        elif move != 0.0:
            _scale_new(point, max(1.0 + move / new, 0.0))
    return True


@kernel
def balance(point, stiffness):
    """Exact steps between the truth and all else; v0 and what is new apart, where they may be."""
    if point[MERGED] == 0.0:
        _balance_all(point, stiffness)
        return
    for _ in range(_PAIRS):
        if not _balance_pair(point, stiffness):
            return


@kernel
def outcome(point):
    """The change of the summed loss, and the squared length of the move."""
    gone = 1.0 - point[KEPT]
    length = point[NEW_SQUARE] - gone * (2.0 * point[CROSS] - gone * point[OLD_SQUARE])
    return point[NEW_LOSS] - gone * point[OLD_LOSS], max(length, 0.0)


class VisitRoom(NamedTuple):
    """What a visit knows of its block, in which order it goes, and sums for inner products."""

    point: np.ndarray
    keys: np.ndarray
    on_old: np.ndarray  # inner products of labels with v0
    places: np.ndarray
    sums: SumRoom

    @classmethod
    def of(cls, data: CompiledData, products: ProductRoom, n_planes: int) -> VisitRoom:
        """For a thread that takes inner products there, of up to so many labels in a visit."""
        sums = SumRoom.of(products, data.blocks.features, data.operations.single is not None)
        sizes = LEAST + 1, n_planes, n_planes
        point, keys, on_old = (aligned_zeros(size, np.float64) for size in sizes)
        return cls(point, keys, on_old, aligned_zeros(n_planes, np.int64), sums)


def going_through(operations: Any) -> Callable:
    """A function that moves a block's weight to labels, and writes what each then has more.

    `begin` was called, and `hold` where the block had something. `coef` are the weights of labels
    that are part of v0, of which point[KEPT] is left in the end. The label `best` comes first, then
    those from number `start` on by their violations after that, then those that had weight.
    """
    _hold, start_sums, along, measure, add, shrink = sums_of(operations)
    loss_of = operations.loss

    def on_new_of(data, i, label, room):
        """The inner product of a label's psi with what is new."""
        point = room.point
        return point[SCALE] * (point[NEW_OWN] - along(data, i, label, NEW, room.sums))

    along_new = helper(on_new_of)

    def go_to(data, i, own, labels, q, count, violation, coef, stiffness, room, change):
        """Take the step to a label, if it is worth it."""
        point, rows, label = room.point, room.sums, labels[q]
        on_old, on_new = room.on_old[q], along_new(data, i, label, room)
        weight = point[KEPT] * coef[q] + point[SCALE] * change[q]
        if not is_worth(point, violation[q], weight, on_old, on_new, stiffness):
            return
        right, square = measure(data, i, own, label, rows)
        loss = loss_of(data, i, label)
        amount = advance(point, violation[q], loss, weight, square, on_old, on_new, stiffness)
        if point[SCALE] < _SMALL:
            shrink(i, point[SCALE], rows)
            point[NEW_OWN] *= point[SCALE]
            for r in range(count):
                change[r] *= point[SCALE]
            point[SCALE] = 1.0
        if amount != 0.0:
            amount /= point[SCALE]
            add(data, i, own, label, amount, rows)
            point[NEW_OWN] += amount * right
            change[q] += amount

    go = helper(go_to)

    def go_through(
        data, i, own, labels, first, start, count, best, violation, coef, stiffness, room, change
    ):
        point, keys, places, on_old = room.point, room.keys, room.places, room.on_old
        start_sums(data, i, own, room.sums)
        point[OLD_OWN], point[NEW_OWN] = along(data, i, own, OLD, room.sums), 0.0
        for q in range(count):
            change[q] = 0.0
            if q == best or q >= start or (q >= first and coef[q] != 0.0):
                on_old[q] = point[OLD_OWN] - along(data, i, labels[q], OLD, room.sums)
        go(data, i, own, labels, best, count, violation, coef, stiffness, room, change)
        low, waiting = bar(point, stiffness), 0
        for q in range(start, count):
            on_new = along_new(data, i, labels[q], room)
            now = violation_now(point, violation[q], on_old[q], on_new, stiffness)
            if q != best and now > low:
                keys[waiting], places[waiting] = -now, q
                waiting += 1
        heap(keys, places, waiting)
        while waiting > 0 and -keys[0] > bar(point, stiffness):
            q = places[0]
            waiting -= 1
            exchange(keys, places, 0, waiting)
            sink(keys, places, 0, waiting)
            go(data, i, own, labels, q, count, violation, coef, stiffness, room, change)
        for q in range(first, count):
            if coef[q] != 0.0:
                go(data, i, own, labels, q, count, violation, coef, stiffness, room, change)
        balance(point, stiffness)
        for q in range(count):
            change[q] *= point[SCALE]

    return helper(go_through)


def go_through_plain(
    data: PythonData,
    point: np.ndarray,
    v0: np.ndarray,
    psi: np.ndarray,
    losses: np.ndarray,
    violation: np.ndarray,
    stiffness: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The same for psi of a plain structure: v after the visit, and the weights of the labels."""
    beside = np.array([data.covector(row) for row in psi])
    squares, on_old = np.einsum("qj,qj->q", psi, beside), beside @ v0
    new, weights = np.zeros_like(v0), np.zeros(len(psi))

    def go(q: int) -> None:
        on_new, products = float(beside[q] @ new), (float(squares[q]), float(on_old[q]))
        if is_worth(point, violation[q], weights[q], products[1], on_new, stiffness):
            amount = advance(
                point, violation[q], losses[q], weights[q], *products, on_new, stiffness
            )
            for numbers in (new, weights):
                numbers *= point[SCALE]
            point[SCALE] = 1.0
            new[:] += amount * psi[q]
            weights[q] += amount

    best = int(np.argmax(violation))
    go(best)
    now = violation - (beside @ new + (point[KEPT] - 1.0) * on_old) / stiffness
    for q in np.argsort(-now, kind="stable").tolist():
        if q != best:
            go(q)
    balance(point, stiffness)
    return point[KEPT] * v0 + point[SCALE] * new, point[SCALE] * weights
