"""Steps of two dual variables at a time, among blocks that have one each and whose matrix is known.

Given: blocks with psi_t = sign_t phi_t, one weight a_t in [0, C_t] each, and the matrix of inner
products of all phi, which have length 1. With b_t = sign_t a_t and f_t = <w, phi_t>, the dual is a
concave quadratic in b, with the gradient r_t = sign_t loss_t - f_t. Comes out: b within its bounds,
whose summed gap is small.

A matrix of kernel values has one large eigenvalue, whose vector is nearly constant. Single steps
move all of w along it, and undo each other; pairs of opposite moves leave it alone. On a9a with an
RBF kernel and C = 100, 106 000 steps of pairs did the work of 725 000 single ones. The first of a
pair is the variable that gains most alone; the second is the one that gains most together with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from taut.compiled.jit import helper, kernel

_BLOCK = 128  # variables whose best gain is found by one loop over registers
_SINGULAR = 1e-6  # least 1 - cos^2 of the angle between two phi


@cache
def pair_steps_in(dtype: str) -> Callable:
    """The loop over pairs, for numbers of this type."""
    real = np.dtype(dtype).type
    whole = {4: np.int32, 8: np.int64}[np.dtype(dtype).itemsize]
    zero, half, one, least = real(0.0), real(0.5), real(1.0), real(_SINGULAR)

    @helper
    def best_alone(r, up, down):
        """The largest gain of one variable, as the integer of its bits.

        Gains are at least 0, so that bits order them; LLVM vectorises the maximum of integers.
        """
        top = whole(0)
        for t in range(r.shape[0]):
            x = r[t]
            step = x if x < up[t] else up[t]
            step = step if step > -down[t] else -down[t]
            top = max(top, real(step * (x - half * step)).view(whole))
        return top

    @helper
    def best_together(r, up, down, row, own):
        """The largest gain of a second variable, and of the first, free, with it."""
        top = whole(0)
        for t in range(r.shape[0]):
            cosine, x = row[t], r[t]
            sine = one - cosine * cosine
            sine = sine if sine > least else least
            step = (x - cosine * own) / sine
            step = step if step < up[t] else up[t]
            step = step if step > -down[t] else -down[t]
            rest = own - cosine * step
            gain = real(step * (x - half * step) + half * rest * rest)
            top = max(top, gain.view(whole))
        return top

    @kernel
    def pair_steps(gram, r, centre, up, down, moved, sign, kappa, enough, limit):
        """Steps until the gap is `enough`, or so many are made; return the gap and their number.

        `up` and `down` are how far b may still move, `moved` is how far it has. Around the steps
        a centre moves, as in `taut.engines.centre`, after each some of them: with b, its bounds
        and its moves divided by 1 + kappa, steps are those without a centre. r and `centre` are
        the gradients at w and at the centre.
        """
        n = r.shape[0]
        every = max(n // 7, 16)
        strength, stiffness = real(kappa), real(1.0 + kappa)
        steps, gap, i, j = 0, 0.0, 0, 0
        first, second = zero, zero
        while True:
            row, other = gram[i], gram[j]
            for t in range(n):
                r[t] -= first * row[t] + second * other[t]
            if steps % every == 0:
                gap = 0.0
                for t in range(n):
                    here = r[t]
                    at_dual = here + strength * (here - centre[t])
                    violation = sign[t] * at_dual
                    used = down[t] if sign[t] > zero else up[t]
                    gap += (up[t] + down[t]) * max(violation, zero) - used * violation
                    centre[t] = here
                    r[t] = (at_dual + strength * here) / stiffness
                gap *= stiffness
                if gap <= enough or steps >= limit:
                    break
            best, at = whole(-1), 0
            for start in range(0, n, _BLOCK):
                end = min(start + _BLOCK, n)
                top = best_alone(r[start:end], up[start:end], down[start:end])
                if top > best:
                    best, at = top, start
            most = -one
            for t in range(at, min(at + _BLOCK, n)):
                step = max(min(r[t], up[t]), -down[t])
                gain = step * (r[t] - half * step)
                if gain > most:
                    most, i = gain, t
            own, row = r[i], gram[i]
            best, at = whole(-1), 0
            for start in range(0, n, _BLOCK):
                end = min(start + _BLOCK, n)
                top = best_together(
                    r[start:end], up[start:end], down[start:end], row[start:end], own
                )
                if top > best:
                    best, at = top, start
            most, j = -one, i
            for t in range(at, min(at + _BLOCK, n)):
                if t != i:
                    cosine = row[t]
                    sine = max(one - cosine * cosine, least)
                    step = max(min((r[t] - cosine * own) / sine, up[t]), -down[t])
                    rest = own - cosine * step
                    gain = step * (r[t] - half * step) + half * rest * rest
                    if gain > most:
                        most, j = gain, t
            first, second = max(min(own, up[i]), -down[i]), zero
            if j != i:
                cosine = row[j]
                sine = max(one - cosine * cosine, least)
                first = max(min((own - cosine * r[j]) / sine, up[i]), -down[i])
                second = max(min(r[j] - cosine * first, up[j]), -down[j])
                first = max(min(own - cosine * second, up[i]), -down[i])
                second = max(min(r[j] - cosine * first, up[j]), -down[j])
                up[j] = max(up[j] - second, zero)
                down[j] = max(down[j] + second, zero)
                moved[j] += second
            up[i] = max(up[i] - first, zero)
            down[i] = max(down[i] + first, zero)
            moved[i] += first
            steps += 1
        return gap, steps

    return pair_steps
