"""Handwritten digits strung into sequences: a chain model against digit-by-digit classification.

The digits are scikit-learn's, 1797 images of 8 x 8 pixels. A small grammar decides which digit may
follow which, so a digit that is hard to read can be told from its neighbours. Both models see the
same images; only `ChainSVM` sees that they form sequences.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

import taut

GRAMMAR = {digit: ((digit + 1) % 10, (digit + 3) % 10, (7 * digit) % 10) for digit in range(10)}


def sequences(images, digits, n, rng):
    """`n` sequences of 4 to 12 images that follow the grammar."""
    of_digit = [np.flatnonzero(digits == digit) for digit in range(10)]
    X, y = [], []
    for _ in range(n):
        labels = [int(rng.integers(10))]
        while len(labels) < rng.integers(4, 13):
            labels.append(int(rng.choice(GRAMMAR[labels[-1]])))
        rows = [rng.choice(of_digit[digit]) for digit in labels]
        X.append(images[rows])
        y.append(np.array(labels))
    return X, y


def main() -> None:
    """Train both models, show their certificates and test errors, save, load, predict."""
    console = Console()
    began = time.perf_counter()
    images, digits = load_digits(return_X_y=True)
    images = images / 16.0
    rng = np.random.default_rng(0)
    held_out = rng.permutation(len(digits)) < len(digits) // 3
    train_X, train_y = sequences(images[~held_out], digits[~held_out], 300, rng)
    test_X, test_y = sequences(images[held_out], digits[held_out], 300, rng)
    console.print(
        f"{len(train_X)} training and {len(test_X)} test sequences of handwritten digits, "
        "no image in both.\nThe first fit compiles; later ones, in any process, do not.\n"
    )

    chain = taut.ChainSVM(C=0.1, random_state=0, verbose=1).fit(train_X, train_y)
    single = taut.MulticlassSVM(C=0.1, random_state=0, verbose=1)
    single.fit(np.concatenate(train_X), np.concatenate(train_y))

    table = Table(title="Certified models")
    for column in ("model", "primal", "dual", "relative gap", "passes", "seconds", "test error"):
        left = column == "model"
        table.add_column(column, justify="left" if left else "right", no_wrap=left)
    flat_X, flat_y = np.concatenate(test_X), np.concatenate(test_y)
    for model, error in (
        (single, 1.0 - single.score(flat_X, flat_y)),
        (chain, 1.0 - chain.score(test_X, test_y)),
    ):
        proof = model.certificate_
        table.add_row(
            type(model).__name__,
            f"{proof.primal:.3f}",
            f"{proof.dual:.3f}",
            f"{proof.relative_gap:.1e}",
            str(proof.passes),
            f"{proof.seconds:.1f}",
            f"{error:.2%}",
        )
    console.print(table)
    console.print(f"ChainSVM: {chain.certificate_.message}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.taut"
        chain.save(path)
        again = taut.load(path)
        console.print(f"\nSaved {path.stat().st_size / 1e3:.0f} kB, loaded, and read again:")
    for truth, label in list(zip(test_y, again.predict(test_X), strict=True))[:3]:
        console.print(f"  truth {' '.join(map(str, truth))}   read {' '.join(map(str, label))}")
    console.print(f"\nAll in {time.perf_counter() - began:.0f} s.")


if __name__ == "__main__":
    main()
