"""The best weights of planes, a concave quadratic over b >= 0, sum b <= 1, by an active set.

    max_b  <linear, b> - 1/2 b' G b,    violation = linear - G b

Plane 0 is the truth, without psi and loss; its weight is what the others leave of 1. So weights sum
to 1, and the planes that have some are the members of a face of the simplex. A step goes towards
the maximum over the face, until it is reached or a member has no weight left, and leaves. At the
maximum the most violated plane joins. The value never falls, a start near the solution takes few
steps, and planes without weight have exactly none. The direction of a step is

    argmax_d  <violation, d> - 1/2 d' (G + s 1 1' + r I) d,    sum d = 0,    d = 0 off the face.

s 1 1' changes nothing where sum d = 0, and makes the matrix definite unless planes depend on each
other, as those found near an optimum nearly do. The ridge r is for these: it shortens the step, so
that the value still rises, and further steps on the same face make up for what it left. A Cholesky
factor of the matrix grows and shrinks with the face.
"""

from __future__ import annotations

import numpy as np

from taut.compiled.jit import helper, kernel

_RIDGE = 1e-12  # beside the largest squared length: well above what rounding does to the factor
_NOTHING = 1e-15  # of a value: a gain that rounding explains
_PATIENCE = 2  # maxima over faces in a row that gain nothing
_STEPS = 20  # planes that join, for each plane that there is; one or two in all are usual


@helper
def _join(gram, lift, members, count, factor, plane):
    """Append a plane to the face and its row to the factor."""
    row = factor[count]
    ridge = _RIDGE * lift
    pivot = gram[plane, plane] + lift + ridge
    for c in range(count):
        above = factor[c]
        product = gram[plane, members[c]] + lift
        for t in range(c):
            product -= row[t] * above[t]
        row[c] = product / above[c]
        pivot -= row[c] * row[c]
    row[count] = np.sqrt(max(pivot, ridge))
    members[count] = plane


@helper
def _leave(members, count, factor, place):
    """Take the member at `place` out of the face, and its row out of the factor."""
    for r in range(place, count - 1):
        members[r] = members[r + 1]
        for t in range(r + 2):
            factor[r, t] = factor[r + 1, t]
    # Each row has one entry too many now: rotations of neighbouring columns take them away.
    for c in range(place, count - 1):
        length = np.hypot(factor[c, c], factor[c, c + 1])
        cosine = factor[c, c] / length
        sine = factor[c, c + 1] / length
        for r in range(c, count - 1):
            left = factor[r, c]
            right = factor[r, c + 1]
            factor[r, c] = cosine * left + sine * right
            factor[r, c + 1] = cosine * right - sine * left


@helper
def _look(gram, linear, b, members, count, violation):
    """Write the violations of all planes; return the value at b and the mean violation."""
    for q in range(len(linear)):
        violation[q] = linear[q]
    for c in range(count):
        row = gram[members[c]]
        weight = b[members[c]]
        for q in range(len(linear)):
            violation[q] -= weight * row[q]
    value = 0.0
    mean = 0.0
    for c in range(count):
        q = members[c]
        value += 0.5 * b[q] * (linear[q] + violation[q])
        mean += b[q] * violation[q]
    return value, mean


@helper
def _most_violated(violation, members, count):
    """The most violated plane, and whether it is outside the face; of tied ones, a member."""
    up = members[0]
    for c in range(count):
        if violation[members[c]] > violation[up]:
            up = members[c]
    outside = False
    for q in range(len(violation)):
        if violation[q] > violation[up]:
            up = q
            outside = True
    return up, outside


@helper
def _aim(violation, mean, members, count, factor, ones, direction):
    """The direction of a step, from violations less their mean: a lone member then stays."""
    both = 0.0
    square = 0.0
    for r in range(count):
        row = factor[r]
        slope = violation[members[r]] - mean
        one = 1.0
        for t in range(r):
            slope -= row[t] * direction[t]
            one -= row[t] * ones[t]
        direction[r] = slope / row[r]
        ones[r] = one / row[r]
        both += ones[r] * direction[r]
        square += ones[r] * ones[r]
    for r in range(count):
        direction[r] -= both / square * ones[r]
    for r in range(count - 1, -1, -1):
        row = factor[r]
        direction[r] /= row[r]
        for t in range(r):
            direction[t] -= row[t] * direction[r]


@helper
def _move(b, members, count, direction):
    """Go along the direction; return the place of the member that stops it, or -1 at its end."""
    share = 1.0
    stops = -1
    for c in range(count):
        if b[members[c]] < -share * direction[c]:
            share = -b[members[c]] / direction[c]
            stops = c
    total = 0.0
    for c in range(count):
        q = members[c]
        b[q] = 0.0 if c == stops else max(b[q] + share * direction[c], 0.0)
        total += b[q]
    for c in range(count):
        b[members[c]] /= total
    return stops


@kernel
def _ascend(gram, linear, b, members, factor, violation, ones, direction):
    """Change b, which sums to 1, until nothing can be gained."""
    n = len(linear)
    lift = 0.0
    for q in range(n):
        lift = max(lift, gram[q, q])
    if lift == 0.0:
        lift = 1.0
    count = 0
    for q in range(n):
        if b[q] > 0.0:
            _join(gram, lift, members, count, factor, q)
            count += 1
    best, mean = _look(gram, linear, b, members, count, violation)
    idle = 0
    for _ in range(_STEPS * n):
        up, outside = _most_violated(violation, members, count)
        if violation[up] <= mean or idle == _PATIENCE:
            break
        if outside and count < n:
            _join(gram, lift, members, count, factor, up)
            count += 1
        value = best
        stops = 0
        while stops >= 0:
            _aim(violation, mean, members, count, factor, ones, direction)
            stops = _move(b, members, count, direction)
            if stops >= 0:
                _leave(members, count, factor, stops)
                count -= 1
            value, mean = _look(gram, linear, b, members, count, violation)
        idle = 0 if value > best + _NOTHING * abs(best) else idle + 1
        best = max(best, value)


def best_weights(gram: np.ndarray, linear: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """argmax_b <linear, b> - 1/2 b' gram b over b >= 0, sum b <= 1, from `coef` on.

    Feasible to the last digit, and as good as rounding allows; `coef` itself where numbers
    overflow.
    """
    if not (np.isfinite(gram).all() and np.isfinite(linear).all()):
        return coef
    n = len(linear) + 1
    whole, terms, b = np.zeros((n, n)), np.zeros(n), np.zeros(n)
    whole[1:, 1:], terms[1:], b[1:] = gram, linear, coef
    b[0] = max(1.0 - coef.sum(), 0.0)
    members, factor, work = np.zeros(n, dtype=np.int64), np.empty((n, n)), np.empty((3, n))
    _ascend(whole, terms, b, members, factor, *work)
    found = b[1:] / max(b[1:].sum(), 1.0)
    return found if np.isfinite(found).all() else coef
