"""The laws of expectation oracles: means are what enumeration gives, and linear maps are linear."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from taut.structures._examples import PRECISION, Guarded
from taut.structures.base import EXPECTATION

_TEMPERATURES = (1e-3, 0.3, 1e3)
_OLD = 77.0  # in arrays that are to be written
_MEAN = "a mean, which has {0} numbers", "correct mean_offsets in encode, or the indices"
_STATISTICS = "the statistics, which has {0} numbers", "correct n_potentials, or the indices"


def check_means(
    example: Any, some: np.ndarray, weights: np.ndarray, rng: np.random.Generator
) -> None:
    """Test an example whose structure has `expect`, among others with the labels `some`."""
    _check_complete(example)
    start, stop = example.blocks.mean_offsets[example.i : example.i + 2]
    size = int(stop - start)
    _check_linear(example, some, size, rng)
    if example.enumerated:
        for temperature in _TEMPERATURES:
            _check_expect(example, weights, size, temperature, rng)


def _check_complete(example: Any) -> None:
    missing = [name for name in EXPECTATION if getattr(example.operations, name) is None]
    if missing or example.blocks.mean_offsets is None:
        what = missing[0] if missing else "Blocks.mean_offsets"
        example.fail("expect", f"{what} is missing, and a structure with expect needs it", "add it")


def _means(example: Any, labels: np.ndarray, size: int) -> np.ndarray:
    """The mean of each label."""
    out = np.empty((len(labels), size))
    for label, row in zip(labels, out, strict=True):
        mean = Guarded(size)
        mean.array[:] = _OLD
        example.call("mean_of", example.blocks.data, example.i, label, mean.array)
        example.check_within(mean, "mean_of", *_MEAN)
        row[:] = mean.array
    return out


def _spreads(example: Any, mean: np.ndarray) -> tuple[np.ndarray, float]:
    """The statistics of a mean, and its loss."""
    statistics, given = Guarded(example.map.n_potentials), mean.copy()
    statistics.array[:] = _OLD
    example.call("spread", example.blocks.data, example.i, given, statistics.array)
    loss = example.call("mean_loss", example.blocks.data, example.i, given)
    example.check_within(statistics, "spread", *_STATISTICS)
    if not np.array_equal(given, mean):
        example.fail("spread or mean_loss", "the mean is modified", "write to the statistics only")
    size = example.call("n_all", example.space, example.i, statistics.array)
    statistics.array[size:] = 0.0  # which are not read
    return statistics.array, float(loss)


def _check_linear(example: Any, some: np.ndarray, size: int, rng: np.random.Generator) -> None:
    """Statistics and losses of any combination of means are those of the labels, combined."""
    means = _means(example, some, size)
    counts = np.array([example.statistics(label) for label in some])
    losses = np.array([example.loss(label) for label in some])
    for scales in (*np.eye(len(some))[:4], rng.normal(size=len(some))):
        statistics, loss = _spreads(example, scales @ means)
        true = scales @ counts
        error = np.abs(statistics - true)
        if not error.max() <= PRECISION * (1.0 + (np.abs(scales) @ np.abs(counts)).max()):
            p = int(np.argmax(np.where(error >= 0.0, error, np.inf)))
            example.fail(
                "spread",
                f"for the combined means of {len(some)} labels it writes {statistics[p]:.9g} for "
                f"potential {p}, while their parts add up to {true[p]:.9g}",
                "make it linear, agree with mean_of and parts, and write zeros as well",
            )
        if not abs(loss - scales @ losses) <= PRECISION * (1.0 + np.abs(scales) @ losses):
            example.fail(
                "mean_loss",
                f"for the combined means of {len(some)} labels it is {loss:.9g}, while their "
                f"losses add up to {scales @ losses:.9g}",
                "make it linear, and agree with mean_of and loss",
            )


def _check_expect(
    example: Any, weights: np.ndarray, size: int, temperature: float, rng: np.random.Generator
) -> None:
    """Means and sums as by enumeration, without a base and with one that factors."""
    labels = np.array(example.labels, dtype=np.int32)
    phi = np.array([example.features(label) for label in labels])
    losses = np.array([example.loss(label) for label in labels])
    means = _means(example, labels, size)
    w, other = weights[rng.permutation(len(weights))[:2]]
    # A base is known as far as its probabilities are numbers of that type: not a cold one.
    mild = 1.0 + np.abs(phi @ other).max()
    steps = ((w, 1.0, temperature, False), (other, 0.0, mild, False), (w, 1.0, temperature, True))
    for point, loss_weight, heat, based in steps:
        if not based:
            base, known = np.empty(0), np.zeros(len(labels))
        mean, again = Guarded(size), Guarded(size)
        before = example.pull(point)
        found = example.call(
            "expect", example.blocks.data, example.i, example.work.array, heat, loss_weight, base,
            mean.array,
        )  # fmt: skip
        again.array[:] = mean.array
        example.call("normalise", example.blocks.data, example.i, again.array)
        example.check_work("expect", before)
        for written in (mean, again):
            example.check_within(written, "expect or normalise", *_MEAN)
        values = known + (phi @ point + loss_weight * losses) / heat
        value, p = heat * logsumexp(values), np.exp(values - logsumexp(values))
        error = np.abs(mean.array - p @ means).max()
        if not error <= PRECISION:
            example.fail(
                "expect",
                f"at temperature {heat:g} it differs from enumeration by {error:.3g}",
                "return the mean of base times exp((score + loss) / temperature)",
            )
        if not abs(found - value) <= PRECISION * (1.0 + abs(value) + np.abs(phi @ point).max()):
            example.fail(
                "expect",
                f"at temperature {heat:g} it returns {found:.9g}, while the sum is {value:.9g}",
                "return temperature times the logarithm of the sum",
            )
        if not np.abs(again.array - mean.array).max() <= PRECISION:
            example.fail("normalise", "it changes a mean", "leave means as they are")
        base, known = mean.array.copy(), values - logsumexp(values)
