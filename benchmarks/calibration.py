"""Probabilities of letters before and after a temperature is fitted, and the speed of such outputs.

python benchmarks/calibration.py --data FOLDER

A chain is trained on fold 0 of the OCR words. The temperature is fitted on fold 1, and everything
is measured on folds 2 to 9: no piece of handwriting is in two of the three parts, but all have the
same vocabulary. A letter's confidence is the largest of its marginals. The expected calibration
error is the mean over letters, in 15 bins of equal width by confidence, of the distance between a
bin's mean confidence and its share of right letters. Speed is CPU time of one thread, in turns.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np

from datasets import Letters, data_folder, parser
from taut import ChainSVM
from timing import in_turns, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BINS = 15
LAMBDA = 0.01
TOP = 5
DTYPES = ("float64", "float32")
BEFORE, AFTER = "temperature 1", "fitted on held-out words"


class Parts:
    """The words by what they are used for."""

    def __init__(self, folder):
        source = Letters(folder)
        self.train = source.take(source.folds == 0)
        self.held_out = source.take(source.folds == 1)
        self.test = source.take(source.folds > 1)


def trained(words):
    """A chain trained on some words."""
    X, y, lengths = words
    model = ChainSVM(C=1.0 / (LAMBDA * len(lengths)), loss="mean_hamming", random_state=0)
    return model.fit(X, y, lengths=lengths)


def fitted_temperature(model, words):
    """The likeliest temperature of some words."""
    X, y, lengths = words
    return model.fit_temperature(X, y, lengths=lengths).temperature_


def reliability(confidence, right):
    """Of each bin: how many letters, their mean confidence, and the share of right ones."""
    places = np.minimum((BINS * confidence).astype(int), BINS - 1)
    counts = np.bincount(places, minlength=BINS)
    sums = (np.bincount(places, values, minlength=BINS) for values in (confidence, right))
    means = [np.divide(s, counts, out=np.zeros(BINS), where=counts > 0) for s in sums]
    return counts, *means


def measured(model, words, temperature):
    """How good the probabilities at one temperature are."""
    X, y, lengths = words
    marginals = model.predict_marginals(X, temperature, lengths=lengths)
    confidence, right = marginals.max(axis=1), model.classes_[marginals.argmax(axis=1)] == y
    counts, sure, share = reliability(confidence, right)
    truth = marginals[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    data, w = model._bound(X, y, lengths=lengths)
    return {
        "temperature": temperature,
        "calibration error": float(counts @ np.abs(sure - share) / counts.sum()),
        "mean confidence": float(confidence.mean()),
        "right letters": float(right.mean()),
        "cost of a letter": float(-np.log(truth).mean()),
        "cost of a word": float(-data.log_likelihoods(w, temperature).mean()),
        "bins": {"counts": counts.tolist(), "confidence": sure.tolist(), "right": share.tolist()},
    }


def speed(model, words, temperature, repeats):
    """Words per second of three kinds of predictions, both types in turns."""
    X, _, lengths = words
    calls = {}
    for dtype in DTYPES:
        part = X.astype(dtype)
        calls |= {
            f"predict, {dtype}": lambda X=part: model.predict(X, lengths=lengths),
            f"predict_top, k = {TOP}, {dtype}": lambda X=part: model.predict_top(
                X, TOP, lengths=lengths
            ),
            f"predict_marginals, {dtype}": lambda X=part: model.predict_marginals(
                X, temperature, lengths=lengths
            ),
        }
    return {name: len(lengths) / time for name, time in in_turns(calls, repeats).items()}


def report(results):
    """Tables as Markdown."""
    rows = [
        [name, f"{r['temperature']:.4g}", f"{100 * r['calibration error']:.2f} %"]
        + [f"{100 * r['mean confidence']:.2f} %", f"{100 * r['right letters']:.2f} %"]
        + [f"{r['cost of a letter']:.4f}", f"{r['cost of a word']:.3f}"]
        for name, r in results["calibration"].items()
    ]
    header = ["", "temperature", "expected calibration error", "mean confidence"]
    header += ["right letters", "-log p of a letter", "-log p of a word"]
    words = results["words"]
    return "\n\n".join(
        [
            f"{words['train']} words to train, {words['held_out']} for the temperature, "
            f"{words['test']} words ({words['letters']} letters) to measure. `predict` has "
            f"{100 * results['accuracy']:.2f} % of their letters right.",
            markdown(header, rows),
            markdown(["", "words / s"], [[k, f"{v:.3g}"] for k, v in results["speed"].items()]),
        ]
    )


def plot(results, path):
    """Reliability and counts by confidence, before and after."""
    before, after = (results["calibration"][name] for name in (BEFORE, AFTER))
    shown = {BEFORE: before, f"fitted temperature {after['temperature']:.3g}": after}
    layout = {"sharex": True, "sharey": "row", "height_ratios": [3, 1], "layout": "constrained"}
    figure, axes = plt.subplots(2, 2, figsize=(9, 5.6), **layout)
    edges = np.arange(BINS + 1) / BINS
    middles = 0.5 * (edges[1:] + edges[:-1])
    for column, (title, r) in enumerate(shown.items()):
        upper, lower = axes[:, column]
        counts, sure, share = (np.array(r["bins"][key]) for key in r["bins"])
        seen = counts > 0
        upper.plot([0, 1], [0, 1], color="black", linewidth=1.0, zorder=1)
        upper.bar(middles[seen], share[seen], width=0.9 / BINS, color="#bcd0e8", zorder=0)
        upper.plot(sure[seen], share[seen], "o", markersize=4, color="#1f5fa8", zorder=2)
        upper.set_title(
            f"{title}: calibration error {100 * r['calibration error']:.1f} %", fontsize=10
        )
        lower.bar(middles, counts, width=0.9 / BINS, color="#999999")
        lower.set_yscale("log")
        lower.set_xlabel("confidence: probability of the most probable letter")
        for axis in (upper, lower):
            axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("share of right letters")
    axes[1, 0].set_ylabel("letters")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main():
    """Measure everything; write JSON, tables and a plot."""
    arguments = parser(__doc__)
    arguments.add_argument("--repeats", type=int, default=7, help="predictions of each kind")
    options = arguments.parse_args()
    parts = Parts(data_folder(options))
    model = trained(parts.train)
    temperatures = {
        BEFORE: 1.0,
        AFTER: fitted_temperature(model, parts.held_out),
        "fitted on the training words": fitted_temperature(model, parts.train),
    }
    X, y, lengths = parts.test
    results = {
        "words": {name: len(words[2]) for name, words in vars(parts).items()} | {"letters": len(y)},
        "accuracy": model.score(X, y, lengths=lengths),
        "calibration": {
            name: measured(model, parts.test, temperature)
            for name, temperature in temperatures.items()
        },
        "speed": speed(model, parts.test, temperatures[AFTER], options.repeats),
    }
    write_json(options.results / "calibration.json", results)
    (options.results / "calibration.md").write_text(report(results) + "\n")
    plot(results, options.results / "calibration.png")
    print(report(results))


if __name__ == "__main__":
    main()
