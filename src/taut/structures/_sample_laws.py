"""The laws of `sample`: the argmax first, then other labels, none of them twice."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.structures._examples import PRECISION, Guarded, same

_COUNTS = (1, 2, 5)
_SEEDS = (1, 2)


def check_sample(example: Any, weights: np.ndarray) -> None:
    """Test an example of a compiled structure that has `sample`."""
    for w in weights:
        for count in _COUNTS:
            for seed in _SEEDS:
                found = _run(example, w, count, seed)
                if not np.array_equal(found, _run(example, w, count, seed)):
                    example.fail(
                        "sample",
                        f"with the seed {seed} it returns other labels when it is asked again",
                        "draw from the seed alone",
                    )
                _check_labels(example, w, list(found), example.enumerated)


def _run(example: Any, w: np.ndarray, count: int, seed: int) -> np.ndarray:
    """The labels that are found, as rows; what is not written is the truth."""
    before = example.pull(w)
    guard = Guarded(count * len(example.truth), np.int32)
    found = guard.array.reshape(count, len(example.truth))
    found[:] = example.truth
    number = int(
        example.call("sample", example.blocks.data, example.i, example.work.array, 1.0, seed, found)
    )
    example.check_work("sample", before)
    if guard.broken:
        example.fail(
            "sample",
            f"it writes outside found, which has {count} rows of {len(example.truth)} integers",
            "write at most len(found) labels",
        )
    if not 1 <= number <= count:
        example.fail(
            "sample",
            f"it returns {number} for {count} rows",
            "return how many labels it wrote, at least 1 and at most len(found)",
        )
    return found[:number]


def check_plain_sample(example: Any, weights: np.ndarray) -> None:
    """Test an example of a plain structure that has `sample`."""
    for w in weights:
        for count in _COUNTS:
            given = w.copy()
            labels = list(example.structure.sample(example.x, given, example.truth, count))
            if not 1 <= len(labels) <= count:
                example.fail(
                    "sample",
                    f"it returns {len(labels)} labels, asked for {count}",
                    "return at least 1 label and at most `count`",
                )
            if not np.array_equal(w, given):
                example.fail("sample", "it modifies w", "work on a copy of w")
            _check_labels(example, w, labels, example.candidates is not None)


def _check_labels(example: Any, w: np.ndarray, labels: list[Any], enumerated: bool) -> None:
    for q, label in enumerate(labels):
        if enumerated and not any(same(label, other) for other in example.labels):
            example.fail(
                "sample",
                f"it returns {example.name(label)}, which is none of the candidates",
                "return labels of the example only",
            )
        if any(same(label, other) for other in labels[:q]):
            example.fail(
                "sample", f"it returns {example.name(label)} twice", "return each label once"
            )
    # Features of numbers that are no label might be read outside of arrays: laws above come first.
    phi = np.array([example.features(label) for label in labels])
    losses = np.array([example.loss(label) for label in labels])
    if not (np.isfinite(phi).all() and np.isfinite(losses).all()):
        example.fail("sample", "it returns labels without finite features", "return labels only")
    best, _claimed, error = example.argmax(w.copy(), with_loss=True)
    right = example.features(best)
    value, highest = phi[0] @ w + losses[0], right @ w + example.loss(best)
    slack = PRECISION * (1.0 + losses[0] + np.abs(w) @ (np.abs(phi[0]) + np.abs(right)))
    if not highest <= value + error + slack:
        example.fail(
            "sample",
            f"it returns {example.name(labels[0])} first, whose score + loss is {value:.9g}, while "
            f"{example.name(best)} has {highest:.9g}",
            "return the label of highest score + loss first",
        )
