"""Steps over the planes of one block: which weight moves where, at the block's violations.

All have the same form, so that a visit can be compiled around any of them: they change the block's
coefficients, which stay >= 0 and keep their sum, write how they changed into `change`, and return
the change of the summed loss and |sum_q change[q] psi(q)|^2. Each is exact along its direction: the
dual never falls.
"""

from __future__ import annotations

from taut.compiled.jit import helper, kernel
from taut.duals.planes import N_PLANES, SLOT, gram_of

_TIED = 1e-13  # of a violation: a difference that rounding explains
_LEAST = 1e-13  # of a block's weight: a plane with less is given up, so that planes stay few


@helper
def _outcome(planes, i, change):
    """The change of the summed loss, and the squared length of the move."""
    count = planes.places[i, N_PLANES]
    start = planes.places[i, SLOT]
    gram = gram_of(planes, i)
    loss_change = 0.0
    length = 0.0
    for q in range(count):
        if change[q] != 0.0:
            loss_change += change[q] * planes.loss[start + q]
            for r in range(count):
                length += change[q] * change[r] * gram[q, r]
    return loss_change, length


@helper
def _ends(coef, violation, count):
    """The most violated plane, and the least violated one that has weight.

    Of planes that only rounding tells apart, as after an exact step between them, the first: or how
    the code was compiled would decide.
    """
    up = 0
    down = -1
    for q in range(count):
        if violation[q] > violation[up] + _TIED * (1.0 + abs(violation[up])):
            up = q
        if coef[q] > 0.0 and (
            down < 0 or violation[q] < violation[down] - _TIED * (1.0 + abs(violation[down]))
        ):
            down = q
    return up, down


@kernel
def corrective_steps(planes, i, violation, stiffness, max_steps, change):
    """Move weight between pairs of block i's planes, up to `max_steps` of them.

    The pair is the most violated plane and the least violated one that has weight. `violation` is
    kept current through the Gram matrix. One such step is that of pairwise Frank-Wolfe.
    """
    count = planes.places[i, N_PLANES]
    start = planes.places[i, SLOT]
    coef = planes.coef[start : start + count]
    gram = gram_of(planes, i)
    for q in range(count):
        change[q] = 0.0
    first_difference = 0.0
    for step in range(max_steps):
        up, down = _ends(coef, violation, count)
        difference = violation[up] - violation[down]
        if step == 0:
            first_difference = difference
        # Later pairs of a visit are worth their cost only while they are not tiny beside the first.
        if difference <= 1e-3 * first_difference or difference <= 1e-14:
            break
        curvature = gram[up, up] + gram[down, down] - 2.0 * gram[up, down]
        amount = coef[down]
        if difference * stiffness < amount * curvature:
            amount = difference * stiffness / curvature
            coef[down] -= amount
        else:
            coef[down] = 0.0
        coef[up] += amount
        change[down] -= amount
        change[up] += amount
        for q in range(count):
            violation[q] -= amount * (gram[q, up] - gram[q, down]) / stiffness
    return _outcome(planes, i, change)


@helper
def _move_along(planes, i, violation, stiffness, vertex, limit, change):
    """Move all coefficients towards one plane by the exact share, or away from it up to `limit`.

    limit = 1 moves towards: coef + share (total e_vertex - coef). A limit below 0 moves away, by a
    negative share down to it, at which the plane has no weight left.
    """
    count = planes.places[i, N_PLANES]
    start = planes.places[i, SLOT]
    coef = planes.coef[start : start + count]
    gram = gram_of(planes, i)
    total = 0.0
    mean = 0.0
    for q in range(count):
        total += coef[q]
        mean += coef[q] * violation[q]
    # d = total e_vertex - coef, d'Gd through the product of G and coef; few planes have weight.
    curvature = total * total * gram[vertex, vertex]
    for q in range(count):
        if coef[q] > 0.0 or q == vertex:
            product = 0.0
            for r in range(count):
                product += gram[q, r] * coef[r]
            curvature += coef[q] * product
            if q == vertex:
                curvature -= 2.0 * total * product
    slope = stiffness * (total * violation[vertex] - mean)
    share = limit
    if abs(slope) < abs(limit) * curvature:
        share = slope / curvature
    rest = total
    for q in range(count):
        if q != vertex:
            new = (1.0 - share) * coef[q]
            if new <= _LEAST * total:
                new = 0.0
            change[q] = new - coef[q]
            coef[q] = new
            rest -= new
    rest = rest if rest > _LEAST * total else 0.0
    change[vertex] = rest - coef[vertex]
    coef[vertex] = rest


@kernel
def toward_step(planes, i, violation, stiffness, max_steps, change):
    """Frank-Wolfe: all coefficients move towards the most violated plane."""
    count = planes.places[i, N_PLANES]
    start = planes.places[i, SLOT]
    up, down = _ends(planes.coef[start : start + count], violation, count)
    for q in range(count):
        change[q] = 0.0
    if violation[up] - violation[down] > 1e-14:
        _move_along(planes, i, violation, stiffness, up, 1.0, change)
    return _outcome(planes, i, change)


@kernel
def away_step(planes, i, violation, stiffness, max_steps, change):
    """Frank-Wolfe with away steps: the steeper of two directions.

    Towards the most violated plane, or away from the least violated one that has weight.
    """
    count = planes.places[i, N_PLANES]
    start = planes.places[i, SLOT]
    coef = planes.coef[start : start + count]
    up, down = _ends(coef, violation, count)
    for q in range(count):
        change[q] = 0.0
    if violation[up] - violation[down] <= 1e-14:
        return _outcome(planes, i, change)
    total = 0.0
    mean = 0.0
    for q in range(count):
        total += coef[q]
        mean += coef[q] * violation[q]
    mean /= total
    away = mean - violation[down] > violation[up] - mean and coef[down] < (1.0 - _LEAST) * total
    if away:
        _move_along(
            planes, i, violation, stiffness, down, -coef[down] / (total - coef[down]), change
        )
    else:
        _move_along(planes, i, violation, stiffness, up, 1.0, change)
    return _outcome(planes, i, change)
