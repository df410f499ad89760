"""The laws of `exact_step`: feasible, truthful, and nothing left to gain."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.structures._examples import PRECISION, Guarded

_REMEDY = (
    "write the sum of new minus old alpha times s(q) into statistics, whatever is there, and "
    "return the gap before the step, the change of sum alpha loss, and |sum change psi|^2"
)


def check_exact_step(
    example: Any, w: np.ndarray, statistics: Guarded, rng: np.random.Generator
) -> None:
    """Test one step at w; `statistics` are those of the step before.

    Feasible, truthful, and no exchange of weight between two labels gains anything. Where the truth
    is none of `all_labels`, it is added with the weight that is not in use.
    """
    labels = example.all_labels()
    n_labels, is_truth = len(labels), (labels == example.truth).all(axis=1)
    implicit = not is_truth.any()
    if implicit:
        labels, is_truth = np.vstack([labels, example.truth]), np.append(is_truth, True)
    phi = np.array([example.features(label) for label in labels])
    if implicit and phi[-1].any():
        example.fail(
            "all_labels",
            f"the truth {example.name(example.truth)} is not among them and has features",
            "make it one of them",
        )
    psi, losses = phi[is_truth.argmax()] - phi, np.array([example.loss(q) for q in labels])
    violation = losses - psi @ w
    weight, stiffness = rng.uniform(0.1, 10.0), rng.choice([1.0, 5.0])
    before = weight * rng.dirichlet(np.full(len(labels), 0.5))
    guard = Guarded(n_labels, around=0)  # a label too many has no weight, and gets some
    alpha = guard.array
    alpha[:] = before[:n_labels]
    example.pull(w)
    gap, loss_change, length = example.call(
        "exact_step", example.blocks.data, example.i, example.work.array,
        example.call("square", example.space, example.i), weight, stiffness, alpha,
        statistics.array,
    )  # fmt: skip
    example.check_work("exact_step")
    if guard.broken or statistics.broken:
        example.fail(
            "exact_step",
            f"it writes outside alpha, which has {n_labels} entries, or outside the statistics, "
            f"which have {len(statistics.array)}",
            "make all_labels and exact_step agree, and write a number for each potential",
        )
    rest = weight - alpha.sum()
    if alpha.min() < -PRECISION * weight or rest < -PRECISION * weight:
        example.fail(
            "exact_step",
            f"alpha has the least entry {alpha.min():.3g} and the sum {alpha.sum():.9g}, the "
            f"block's weight is {weight:.9g}",
            "keep alpha >= 0 and its sum within the weight",
        )
    if implicit:
        alpha = np.append(alpha, rest)
    elif rest > PRECISION * weight:
        example.fail(
            "exact_step",
            f"alpha sums to {alpha.sum():.9g}, the block's weight is {weight:.9g}",
            "give the truth what the other labels leave",
        )
    moved, gram = alpha - before, psi @ psi.T
    true_gap = weight * max(violation.max(), 0.0) - before @ violation
    size = 1.0 + weight * (np.abs(violation).max() + losses.max())
    counts = np.array([example.statistics(label) for label in labels])
    true = moved @ counts
    wrong = np.abs(statistics.array - true).argmax()
    for what, given, expected, slack in (
        (
            f"statistics of potential {wrong}", statistics.array[wrong], true[wrong],
            1.0 + weight * np.abs(counts).max(),
        ),
        ("gap", gap, true_gap, size),
        ("change of the summed loss", loss_change, moved @ losses, size),
        (
            "squared length of the move", length, moved @ gram @ moved,
            1.0 + weight**2 * gram.max(),
        ),
    ):  # fmt: skip
        if not abs(given - expected) <= PRECISION * slack:
            example.fail(
                "exact_step",
                f"it reports the {what} as {given:.9g}, which is {expected:.9g}",
                _REMEDY,
            )
    up, down, amount, gain = _best_exchange(gram, violation, alpha, moved, stiffness)
    if gain > PRECISION * size:
        example.fail(
            "exact_step",
            f"moving {amount:.3g} of alpha from label {example.name(labels[down])} to "
            f"{example.name(labels[up])} gains another {gain:.3g}",
            "maximise the block's dual over all of alpha",
        )


def _best_exchange(
    gram: np.ndarray, violation: np.ndarray, alpha: np.ndarray, moved: np.ndarray, stiffness: float
) -> tuple[int, int, float, float]:
    """The pair of labels between which moving alpha gains most: to, from, how much, the gain."""
    violation = violation - gram @ moved / stiffness
    slope = np.maximum(violation[:, None] - violation[None, :], 0.0)
    squares = np.diag(gram)
    curvature = (squares[:, None] + squares[None, :] - 2.0 * gram) / stiffness
    amount = np.maximum(alpha, 0.0)[None, :] * np.ones_like(gram)
    np.divide(slope, curvature, out=amount, where=slope < amount * curvature)
    gain = amount * (slope - 0.5 * amount * curvature)
    up, down = np.unravel_index(gain.argmax(), gain.shape)
    return int(up), int(down), float(amount[up, down]), float(gain[up, down])
