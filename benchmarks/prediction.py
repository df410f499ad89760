"""Speed of prediction: classes against a plain product with BLAS, chains against CRFsuite's tagger.

python benchmarks/prediction.py --data FOLDER

CPU time of one thread, in turns. The plain product is (X @ W.T + b).argmax(axis=1) with weights of
the type of X; `predict` also checks X and maps codes to classes. CRFsuite's tagger gets ready-made
attributes (`ItemSequence`), but looks their names up: times are with that and without. `predict`
gets CSR rows, their columns found beforehand, and includes the checks of X and `classes_`.
"""

from __future__ import annotations

import os
import tempfile
import warnings

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from chunking import DTYPES, RIVAL, Ours, Rival, tagging_speed
from datasets import Letters, data_folder, generated_text, parser
from tagging import conll2000
from taut import ChainSVM, MulticlassSVM
from timing import in_turns, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def dense(n, features, classes, dtype):
    """Normal numbers, and classes at random: only the sizes matter."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, features), dtype=np.float32).astype(dtype, copy=False)
    return X, rng.integers(classes, size=n)


def text(dtype):
    """Generated documents."""
    X, y = generated_text()
    return X.astype(dtype), y


CLASSES = {
    "dense 60000 x 784, 10 classes": lambda dtype: dense(60_000, 784, 10, dtype),
    "dense 20000 x 1000, 100 classes": lambda dtype: dense(20_000, 1000, 100, dtype),
    "CSR 20000 x 50000, 20 classes": text,
}


def class_speed(X, y, repeats):
    """`predict` beside the plain product, with the share of equal answers."""
    first = slice(2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MulticlassSVM(C=0.1, max_iter=2, random_state=0).fit(X[first], y[first])
    W, b = model.coef_.astype(X.dtype), model.intercept_.astype(X.dtype)

    def plain():
        return model.classes_[(X @ W.T + b).argmax(axis=1)]

    seconds = in_turns({"predict": lambda: model.predict(X), "plain": plain}, repeats)
    return seconds | {
        "ratio": seconds["predict"] / seconds["plain"],
        "rows per second": X.shape[0] / seconds["predict"],
        "equal": float(np.mean(model.predict(X) == plain())),
    }


def letters_speed(folder, repeats):
    """Words and letters per second of the larger part of the OCR words, both types in turns."""
    source = Letters(folder)
    X, y, lengths = source.take(source.folds == 0)
    test_X, _, test_lengths = source.take(source.folds != 0)
    calls = {}
    for dtype in DTYPES:
        model = ChainSVM(C=0.1, loss="mean_hamming", max_iter=10, random_state=0)
        Ours.fit(model, X.astype(dtype), y, lengths)
        part = test_X.astype(dtype)
        calls[dtype] = lambda m=model, X=part: m.predict(X, lengths=test_lengths)
    return {
        name: {
            "seconds": time,
            "tokens per second": float(test_lengths.sum() / time),
            "sentences per second": len(test_lengths) / time,
        }
        for name, time in in_turns(calls, repeats).items()
    }


def chunks_speed(folder, repeats, limit):
    """Tokens and sentences per second on CoNLL-2000, ours and CRFsuite's in turns."""
    train, test = conll2000(folder, "train", limit), conll2000(folder, "test")
    with tempfile.TemporaryDirectory() as scratch:
        methods = {dtype: Ours(train, test, dtype) for dtype in DTYPES}
        methods[RIVAL] = Rival(train, test, scratch, RIVAL)
        return tagging_speed(methods, test, repeats)


def report(results):
    """Tables as Markdown."""
    classes = [
        [name, f"{1e3 * r['predict']:.1f}", f"{1e3 * r['plain']:.1f}", f"{r['ratio']:.2f}"]
        + [f"{r['rows per second']:.3g}", f"{100 * r['equal']:.2f} %"]
        for name, r in results["classes"].items()
    ]
    chains = [
        [data, name, f"{r['tokens per second']:.3g}", f"{r['sentences per second']:.3g}"]
        for data, found in results["chains"].items()
        for name, r in found.items()
    ]
    header = ["data", "predict, ms", "plain, ms", "ratio", "rows / s", "equal answers"]
    return "\n\n".join(
        [
            "CPU time of one thread, medians.",
            markdown(header, classes),
            markdown(["data", "tagger", "tokens / s", "sequences / s"], chains),
        ]
    )


def plot(results, path):
    """Ratios to the plain product, and tokens per second."""
    figure, axes = plt.subplots(1, 2, figsize=(12, 3.6), layout="constrained")
    ratios = {name: row["ratio"] for name, row in results["classes"].items()}
    rates = {
        f"{data}: {'CRFsuite ' if RIVAL in name else 'taut, '}{name}": r["tokens per second"] / 1e6
        for data, found in results["chains"].items()
        for name, r in found.items()
    }
    titles = ("classes: CPU time of predict / plain product", "chains: million tokens per second")
    for axis, values, title in zip(axes, (ratios, rates), titles, strict=True):
        places = np.arange(len(values))
        colours = ["#999999" if "CRFsuite" in name else "#1f5fa8" for name in values]
        axis.barh(places, list(values.values()), height=0.6, color=colours)
        for place, value in zip(places, values.values(), strict=True):
            box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            axis.annotate(
                f"{value:.2f}", (value, place), xytext=(6, 0), textcoords="offset points",
                va="center", fontsize=9, bbox=box, zorder=3,
            )  # fmt: skip
        axis.set_yticks(places, list(values), fontsize=8)
        axis.invert_yaxis()
        axis.margins(x=0.12)
        axis.set_title(title, fontsize=10)
        axis.tick_params(axis="y", length=0)
        axis.spines[["top", "right", "left"]].set_visible(False)
    axes[0].axvline(1.0, color="black", linewidth=1.0)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main():
    """Measure everything; write JSON, tables and a plot."""
    arguments = parser(__doc__)
    arguments.add_argument("--repeats", type=int, default=7, help="predictions of each kind")
    arguments.add_argument("--limit", type=int, help="train on the first sentences only")
    options = arguments.parse_args()
    folder = data_folder(options)
    classes = {
        f"{name}, {dtype}": class_speed(*make(dtype), options.repeats)
        for name, make in CLASSES.items()
        for dtype in DTYPES
    }
    chains = {
        "letters": letters_speed(folder, options.repeats),
        "CoNLL-2000": chunks_speed(folder, options.repeats, options.limit),
    }
    results = {"classes": classes, "chains": chains}
    write_json(options.results / "prediction.json", results)
    (options.results / "prediction.md").write_text(report(results) + "\n")
    plot(results, options.results / "prediction.png")
    print(report(results))


if __name__ == "__main__":
    main()
