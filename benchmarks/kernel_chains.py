"""Handwritten words by chains with kernels: letter error, time and gap of 626 training words.

python benchmarks/kernel_chains.py --data FOLDER

OCR letters: one of ten folds is for training, 626 words, and the other 6251 words for testing. All
kernels get the same 131 columns of a letter: 128 pixels, a constant, and whether the letter is the
first or the last of its word. The constant cancels in the differences of RBF, and adds gamma to the
inner products of polynomials; first and last letters are at a squared distance of 1 from those
within. Transitions stay linear. C and gamma are chosen by five-fold cross-validation over the
training words, by the mean letter error at a gap of 1e-2; the fit that is reported ends at 1e-3.
Times are CPU seconds of one thread; those of prediction are of all test words.
"""

from __future__ import annotations

import itertools
import os

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np
from sklearn.model_selection import KFold

from datasets import Letters, data_folder, parser
from taut import ChainSVM
from taut.kernels import RBF, Polynomial
from timing import cpu_time, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

COARSE, FINE = 1e-2, 1e-3
WIDTHS = (0.01, 0.02, 0.04, 0.08)
#: Name: kernels and values of C to choose from.
FAMILIES = {
    "linear": (("linear",), (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)),
    "polynomial, degree 2": (
        tuple(Polynomial(2, gamma, 1.0) for gamma in WIDTHS),
        (0.1, 1.0, 10.0),
    ),
    "polynomial, degree 3": (
        tuple(Polynomial(3, gamma, 1.0) for gamma in WIDTHS),
        (0.1, 1.0, 10.0),
    ),
    "RBF": (tuple(RBF(gamma) for gamma in WIDTHS), (1.0, 3.0, 10.0, 30.0)),
}


def model(kernel, C, tol):
    """Chains of letters."""
    return ChainSVM(C=C, kernel=kernel, tol=tol, random_state=0, max_iter=10_000)


def letter_error(fitted, X, y, lengths):
    """The share of wrong letters."""
    return float(np.mean(fitted.predict(X, lengths=lengths) != y))


def validate(kernel, C, letters, words):
    """The mean letter error over five folds of words."""
    errors = []
    for kept, out in KFold(5, shuffle=True, random_state=0).split(words):
        X, y, lengths = take(letters, words[kept])
        fitted = model(kernel, C, COARSE).fit(X, y, lengths=lengths)
        errors.append(letter_error(fitted, *take(letters, words[out])))
    return float(np.mean(errors))


def take(letters, words):
    """Dense rows, labels and lengths of words."""
    chosen = np.zeros(len(letters.lengths), dtype=bool)
    chosen[words] = True
    X, y, lengths = letters.take(chosen)
    return X.toarray(), y, lengths


def study(name, letters):
    """One family: what was chosen, and what comes of it."""
    words = np.flatnonzero(letters.folds == 0)
    kernels, factors = FAMILIES[name]
    curve = {}
    for kernel, C in itertools.product(kernels, factors):
        curve[kernel, C] = validate(kernel, C, letters, words)
        print(name, kernel, C, f"{curve[kernel, C]:.4f}", flush=True)
    kernel, C = min(curve, key=curve.get)
    train, test = take(letters, words), take(letters, np.flatnonzero(letters.folds != 0))
    model(kernel, C, COARSE).fit(train[0], train[1], lengths=train[2])  # compiled
    fitted, seconds = cpu_time(
        lambda: model(kernel, C, FINE).fit(train[0], train[1], lengths=train[2])
    )
    error, prediction = cpu_time(lambda: letter_error(fitted, *test))
    return {
        "family": name,
        "kernel": repr(kernel),
        "C": C,
        "validation": curve[kernel, C],
        "error": error,
        "seconds": seconds,
        "prediction": prediction,
        "gap": fitted.certificate_.relative_gap,
        "support": len(fitted.support_) if kernels != ("linear",) else 0,
        "letters": len(train[1]),
        "curve": [(repr(key[0]), key[1], value) for key, value in curve.items()],
    }


def plot(rows, path):
    """Letter errors as bars."""
    fig, axes = plt.subplots(figsize=(6.0, 2.2))
    places = np.arange(len(rows))[::-1]
    for key, label, colour, offset in (
        ("validation", "cross-validation, 626 words", "#e07b1a", 0.19),
        ("error", "test, 6251 words", "#1f5fa8", -0.19),
    ):
        values = [100.0 * r[key] for r in rows]
        axes.barh(places + offset, values, 0.36, color=colour, label=label)
        for place, value in zip(places + offset, values, strict=True):
            axes.text(value + 0.3, place, f"{value:.1f}", va="center", fontsize=8)
    axes.set_yticks(places, [r["family"] for r in rows])
    axes.set(xlabel="wrong letters (%)", xlim=(0.0, 30.0))
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    fig.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=110)


def main() -> None:
    options = parser(__doc__).parse_args()
    letters = Letters(data_folder(options))
    rows = []
    for name in FAMILIES:
        rows.append(study(name, letters))
        print({key: value for key, value in rows[-1].items() if key != "curve"}, flush=True)
    write_json(options.results / "kernel_chains.json", rows)
    print(markdown(
        ["kernel", "C", "letter error, test", "cross-validation", "fit, CPU s", "gap",
         "support rows", "prediction, CPU s"],
        [[r["kernel"].strip("'"), f"{r['C']:g}", f"{100 * r['error']:.2f} %",
          f"{100 * r['validation']:.2f} %", f"{r['seconds']:.1f}", f"{r['gap']:.1e}",
          f"{r['support']} of {r['letters']}" if r["support"] else "",
          f"{r['prediction']:.1f}"] for r in rows],
    ))  # fmt: skip
    plot(rows, options.results / "kernel_chains.png")


if __name__ == "__main__":
    main()
