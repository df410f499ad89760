"""The numbers that steer the loop, each with its meaning and its origin.

They decide when to verify, when to go on in float64, how strong the centre is and when to give up;
the bounds of a certificate do not depend on them. Those that were measured have their figures in
docs/design.md.
"""

from __future__ import annotations

# When to verify

#: True gap over estimated gap, before any was verified. Measured: estimates were twice the truth.
FIRST_OVERESTIMATE = 0.5
#: Between what that ratio is believed: one wrong estimate is no lasting verdict. Chosen by hand.
TRUSTED_OVERESTIMATE = (1e-3, 10.0)
#: Part of tol that the expected gap must be within before it is verified. Chosen by hand.
MARGIN_OF_ESTIMATES = 0.95
#: Relative gaps that rounding may hide from estimates: verified whatever tol. Chosen by hand.
HIDDEN_GAP = 1e-12
#: Passes from which bounds are verified at each power of 2, whatever estimates say. By hand.
LONG_RUN = 256

# What to verify

#: Weight of the newest w in the running average, once it has begun. Chosen by hand.
AVERAGING = 0.2
#: Which w the average begins with: the first ones are far from where it goes. Chosen by hand.
FIRST_AVERAGED = 3
#: Times tol: up to which gap of w the average is asked for too, or the other way. By hand.
UNDECIDED = 2.0
#: Times tol: up to which gap the dual point is summed up afresh. Chosen by hand.
NEAR = 1.1

# When precision is blamed

#: Relative gaps above this are never blamed on floating-point numbers. Chosen by hand.
PRECISION = 1e-9
#: Share of a gap that rounding has at least where it is in the way. Chosen by hand.
IN_THE_WAY = 0.01
#: Relative excess of the dual over the primal that is no proof of a fault. Chosen by hand.
CROSSING = 1e-10
#: What a verification must leave of the gap to count as a gain. Chosen by hand.
VERIFIED_GAIN = 0.9
#: Verifications without gain before the run has stalled; half as many widen w. Chosen by hand.
VERIFIED_PATIENCE = 20
#: Relative gaps below this are beyond w in single precision. Chosen by hand.
SINGLE_PRECISION = 1e-5
#: Parts of passes after which its rounding has added up in w. Chosen by hand.
DRIFT = 50
#: What a pass must leave of the least estimated gap to count as a gain. Chosen by hand.
PASS_GAIN = 0.98
#: Passes without gain before single precision is blamed. Chosen by hand.
PASS_PATIENCE = 60
