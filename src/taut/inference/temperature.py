"""The temperature at which scores are as good as log-probabilities: one number, found afterwards.

With scores s, the log-likelihood of given labels is concave in 1 / temperature,

    sum_i [s(y_i) / temperature - log sum_y exp(s(y) / temperature)],

so it has one maximum, in the logarithm of the temperature as well.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from taut.errors import TemperatureAtBound

LOWEST, HIGHEST = 1e-3, 1e3
_NEAR = 1e-3  # of the logarithm: what is nearer to a bound has run into it


def likeliest_temperature(
    log_likelihoods: Callable[[float], np.ndarray], weight: np.ndarray
) -> float:
    """The temperature between LOWEST and HIGHEST under which the truths are most probable.

    Given are the log-likelihoods of all truths at a temperature, and what each of them counts.
    Warns where the likelihood still rises at a bound.
    """

    def cost(logarithm: float) -> float:
        return -float(np.average(log_likelihoods(np.exp(logarithm)), weights=weight))

    bounds = np.log([LOWEST, HIGHEST])
    found = minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-6}).x
    if min(abs(found - bounds)) > _NEAR:
        return float(np.exp(found))
    bound = HIGHEST if found > 0.0 else LOWEST
    reason = "hardly tell labels apart" if found > 0.0 else "make no mistakes on these data"
    warnings.warn(
        f"the likelihood still rises at temperature = {bound:g}, where the search ends: the scores "
        f"{reason}; give more held-out data that fit has not seen, or choose a temperature",
        TemperatureAtBound,
        stacklevel=3,
    )
    return bound
