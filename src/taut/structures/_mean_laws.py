"""The laws of expectation oracles: means are what enumeration gives, and linear maps are linear."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from taut.structures._examples import PRECISION, Guarded
from taut.structures.base import EXPECTATION

_TEMPERATURES = (1e-3, 0.3, 1e3)


def _expect(oracles):
    pull, expect, normalise = oracles.pull, oracles.expect, oracles.normalise

    def run(data, i, w, work, temperature, loss_weight, base, mean, again):
        """The mean, and what normalising makes of it."""
        pull(data, i, w, work)
        value = expect(data, i, work, temperature, loss_weight, base, mean)
        for p in range(mean.shape[0]):
            again[p] = mean[p]
        normalise(data, i, again)
        return value

    return run


def _means_of(oracles):
    mean_of = oracles.mean_of

    def means_of(data, i, labels, out):
        for q in range(labels.shape[0]):
            mean_of(data, i, labels[q], out[q])

    return means_of


def _linear(oracles):
    pull, mean_score, mean_loss = oracles.pull, oracles.mean_score, oracles.mean_loss
    add_mean = oracles.add_mean

    def linear(data, i, w, work, mean, out):
        """<w, A mean> and the expected loss; A mean is added to `out`."""
        pull(data, i, w, work)
        score = mean_score(data, i, work, mean)
        add_mean(data, i, mean, 1.0, work, out)
        return score, mean_loss(data, i, mean)

    return linear


def _square(oracles):
    mean_square = oracles.mean_square

    def square(data, i, work, mean):
        return mean_square(data, i, work, mean)

    return square


def check_means(
    example: Any, some: np.ndarray, phi: np.ndarray, weights: np.ndarray, rng: np.random.Generator
) -> None:
    """Test an example whose structure has `expect`; `phi` are the features of the labels `some`."""
    _check_complete(example)
    start, stop = example.blocks.mean_offsets[example.i : example.i + 2]
    size = int(stop - start)
    _check_linear(example, some, phi, size, weights[-1], rng)
    if example.enumerated:
        for temperature in _TEMPERATURES:
            _check_expect(example, weights, size, temperature, rng)


def _check_complete(example: Any) -> None:
    missing = [name for name in EXPECTATION if getattr(example.oracles, name) is None]
    if missing or example.blocks.mean_offsets is None:
        what = missing[0] if missing else "Blocks.mean_offsets"
        example.fail("expect", f"{what} is missing, and a structure with expect needs it", "add it")


def _means(example: Any, labels: np.ndarray, size: int) -> np.ndarray:
    """s(label) of each label."""
    out = np.full((len(labels), size), 77.0)
    example.kernel(_means_of)(example.blocks.data, example.i, labels, out)
    return out


def _check_linear(
    example: Any, some: np.ndarray, phi: np.ndarray, size: int, w: np.ndarray, rng: Any
) -> None:
    """A of any combination of s(label) is that of features, and so are scores and losses."""
    means = _means(example, some, size)
    losses = np.array([example.loss(label) for label in some])
    for scales in (*np.eye(len(some))[:4], rng.normal(size=len(some))):
        mean, expected, added = scales @ means, scales @ phi, Guarded(example.blocks.size)
        added.array[:] = 0.0
        score, loss = example.kernel(_linear)(
            example.blocks.data, example.i, w, example.work.array, mean, added.array
        )
        example.check_work("mean_score or add_mean")
        norms = np.abs(scales) @ np.abs(phi)
        for name, found, true, terms in (
            ("add_mean", added.array, expected, norms.max()),
            ("mean_score", score, w @ expected, np.abs(w) @ norms),
            ("mean_loss", loss, scales @ losses, np.abs(scales) @ losses),
        ):
            if added.broken or not np.max(np.abs(found - true)) <= PRECISION * (1.0 + terms):
                example.fail(
                    name,
                    f"for a combination of {len(some)} labels it differs from that of their "
                    f"features by {np.max(np.abs(found - true)):.3g}",
                    "make it linear, and agree with add_features, score and loss",
                )
        if example.oracles.mean_square is not None and example.blocks.use_inner:
            square = example.kernel(_square)(
                example.blocks.data, example.i, example.work.array, mean
            )
            if not abs(square - expected @ expected) <= PRECISION * (1.0 + norms @ norms):
                example.fail(
                    "mean_square",
                    f"it is {square:.9g}, while |A mean|^2 is {expected @ expected:.9g}",
                    "return |A mean|^2",
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
        found = example.kernel(_expect)(
            example.blocks.data, example.i, point, example.work.array, heat, loss_weight, base,
            mean.array, again.array,
        )  # fmt: skip
        example.check_work("expect")
        values = known + (phi @ point + loss_weight * losses) / heat
        value, p = heat * logsumexp(values), np.exp(values - logsumexp(values))
        error = np.abs(mean.array - p @ means).max()
        if mean.broken or not error <= PRECISION:
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
