"""Probabilities of labels, p(label) proportional to exp(score / temperature)."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from taut.errors import InvalidData
from taut.spaces.labels import score_of


def check_temperature(temperature: Any) -> float:
    """A temperature as a float; InvalidData if it is not positive and finite."""
    if not isinstance(temperature, Real) or not 0.0 < float(temperature) < np.inf:
        raise InvalidData(f"temperature = {temperature!r}: give a positive and finite number")
    return float(temperature)


def position_marginals(operations):
    """A loop over blocks around the oracles."""
    pull, expect = operations.pull, operations.expect

    def marginals(
        space, data, offsets, w, work, first, last, starts, stride, temperature, base, mean,
        out, logs,
    ):  # fmt: skip
        """out[p, k] = the probability of label k at position p, counted over all blocks.

        logs[i] = the logarithm of the sum of exp(score / temperature) over the labels of block i.
        """
        for i in range(first, last):
            part = mean[: starts[i + 1] - starts[i]]
            pull(space, i, w, work)
            logs[i] = expect(data, i, work, temperature, 0.0, base, part) / temperature
            for p in range(offsets[i], offsets[i + 1]):
                here = (p - offsets[i]) * stride
                for k in range(out.shape[1]):
                    out[p, k] = part[here + k]

    return marginals


def truth_log_likelihoods(operations):
    """A loop over blocks around the oracles."""
    pull, expect, score = operations.pull, operations.expect, score_of(operations)

    def log_likelihoods(
        space, data, offsets, w, work, first, last, starts, truth, temperature, base, mean, out
    ):
        """out[i] = the logarithm of the probability of block i's truth."""
        for i in range(first, last):
            part = mean[: starts[i + 1] - starts[i]]
            pull(space, i, w, work)
            value = score(data, i, work, truth[offsets[i] : offsets[i + 1]])
            total = expect(data, i, work, temperature, 0.0, base, part)
            out[i] = (value - total) / temperature

    return log_likelihoods
