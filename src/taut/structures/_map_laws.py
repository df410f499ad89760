"""The laws of `pull` and `push`: both are linear, and each is the transpose of the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.structures._examples import PRECISION, Guarded

_SOME = 64  # potentials that are looked at one by one
_FILLS = 3.0, -5.0  # of arrays that are then written to


def pulled(example: Any, w: np.ndarray, fill: float = 0.0) -> np.ndarray:
    """The potentials at weights in the form that compiled code sees."""
    theta, given = Guarded(example.map.n_potentials), w.copy()
    theta.array[:] = fill
    example.call("pull", example.space, example.i, given, theta.array)
    example.check_within(
        theta, "pull", "the potentials, of which there are {0}",
        "correct n_potentials of OwnFeatures, or the indices",
    )  # fmt: skip
    if not np.array_equal(given, w, equal_nan=True):
        example.fail("pull", "it modifies w", "write to work only")
    return theta.array


def written_by_pull(example: Any) -> np.ndarray:
    """Which potentials the block has: blocks may differ in how many."""
    w = np.zeros(example.map.size)
    first, second = (pulled(example, w, fill) for fill in _FILLS)
    return (first != _FILLS[0]) | (second != _FILLS[1])


def push(example: Any, statistics: np.ndarray, start: float = 0.0) -> np.ndarray:
    """What pushing statistics adds to weights, in the form that compiled code sees."""
    w, given = Guarded(example.map.size), statistics.copy()
    w.array[:] = start
    size = example.call("n_all", example.space, example.i, given)
    example.call("push", example.space, example.i, given, size, 0.0, w.array)
    example.check_within(
        w, "push", "w, whose length is {0}", "correct n_features of OwnFeatures, or the indices"
    )
    if not np.array_equal(given, statistics, equal_nan=True):
        example.fail("push", "it modifies the statistics", "write to w only")
    return w.array - start


def check_map(example: Any, weights: np.ndarray, rng: np.random.Generator) -> None:
    """Test the functions of a structure with `OwnFeatures`."""
    potentials = np.flatnonzero(example.written)
    _check_pull(example, weights, rng)
    statistics = np.zeros(example.map.n_potentials)
    statistics[potentials] = rng.normal(size=len(potentials))
    _check_adds(example, statistics)
    for p in rng.permutation(potentials)[:_SOME].tolist():
        unit = np.zeros(len(statistics))
        unit[p] = 1.0
        phi = push(example, unit)
        for w in weights:
            found, true = pulled(example, w)[p], phi @ w
            if not abs(found - true) <= PRECISION * (1.0 + np.abs(phi) @ np.abs(w)):
                example.fail(
                    "pull and push",
                    f"pull writes the potential {p} as {found:.9g}, while w times the features "
                    f"that push adds for it is {true:.9g}",
                    "let push add to w what pull multiplies w with",
                )
    phi = push(example, statistics)
    for w in weights:
        theta = pulled(example, w)
        found, true = phi @ w, statistics[potentials] @ theta[potentials]
        size = np.abs(phi) @ np.abs(w) + np.abs(statistics) @ np.abs(theta)
        if not abs(found - true) <= PRECISION * (1.0 + size):
            example.fail(
                "push",
                f"what it adds for several statistics at once has the product {found:.9g} with w, "
                f"and {true:.9g} if they come one by one",
                "add each of the statistics times the features of its potential",
            )


def _check_pull(example: Any, weights: np.ndarray, rng: np.random.Generator) -> None:
    """The potentials of a sum of weights are the sums of their potentials."""
    own = example.written
    for w in weights:
        other = weights[rng.integers(len(weights))]
        once, again, both = (pulled(example, v)[own] for v in (w, other, w - 2.0 * other))
        error = np.abs(both - (once - 2.0 * again))
        size = 1.0 + np.abs(w).sum() + np.abs(other).sum() + np.abs(once) + np.abs(again)
        if not (error <= PRECISION * size).all():
            p = int(np.argmax(np.where(error >= 0.0, error, np.inf)))
            example.fail(
                "pull",
                f"potential {np.flatnonzero(own)[p]} of two weights together is {both[p]:.9g}, and "
                f"{once[p] - 2.0 * again[p]:.9g} if they are pulled one by one",
                "make potentials products of w with features, and add nothing",
            )


def _check_adds(example: Any, statistics: np.ndarray) -> None:
    """What is in w stays there, beside what is added."""
    expected, found = push(example, statistics), push(example, statistics, start=1.0)
    error = np.abs(found - expected) / (1.0 + np.abs(expected))
    if not error.max(initial=0.0) <= PRECISION:
        where = int(error.argmax())
        example.fail(
            "push",
            f"it adds {expected[where]:.9g} to a weight {where} that is 0, and {found[where]:.9g} "
            "to one that is 1",
            "add to w, and do not replace what is there",
        )
