"""One problem with the costs of a tree, against one binary problem per class that knows no tree.

python benchmarks/one_vs_rest.py --data FOLDER

MulticlassSVM with the tree's costs and LinearSVC of scikit-learn (LIBLINEAR, one class against the
rest) train on the same rows with an intercept, each with its defaults, in turns in one process. C
was chosen for each by `--choose-C`, as in `hierarchical.py`: the smallest mean cost on a quarter of
the training part. Not so for LinearSVC on generated rows, where it takes too long: give `--rows`.
Ratios are LinearSVC's number by ours: above 1 ours is faster, or errs less.
"""

from __future__ import annotations

import os
import statistics
import warnings
from importlib.metadata import version

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from datasets import parser
from hierarchical import CS, SETS, chosen, plain_ticks, validated
from taut import MulticlassSVM
from timing import cpu_time, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OURS = "MulticlassSVM"
MODELS = {
    OURS: lambda data, C: MulticlassSVM(C=C, cost=data.cost, solver="multi_sample", random_state=0),
    "LinearSVC, hinge": lambda data, C: LinearSVC(C=C, loss="hinge", random_state=0),
    "LinearSVC": lambda data, C: LinearSVC(C=C, random_state=0),
}
CHOSEN = {
    "generated": {OURS: 100.0, "LinearSVC, hinge": 1.0, "LinearSVC": 1.0},
    "sector": {OURS: 1.0, "LinearSVC, hinge": 10.0, "LinearSVC": 1.0},
    "questions": {OURS: 10.0, "LinearSVC, hinge": 10.0, "LinearSVC": 10.0},
}
COLOURS = {OURS: "#c0392b", "LinearSVC, hinge": "#1f5fa8", "LinearSVC": "#5dade2"}


def narrow(X):
    """Rows as scikit-learn accepts them."""
    if not sp.issparse(X):
        return X
    index = (X.indices.astype(np.int32), X.indptr.astype(np.int32))
    return sp.csr_array((X.data, *index), shape=X.shape)


def answers_of(make):
    """Training and prediction, in the form that a validation takes."""
    return lambda data, C: make(data, C).fit(narrow(data.X), data.y).predict(narrow(data.X_test))


def train(model, data):
    """One training: CPU seconds, how well it answers, and whether it ran out of iterations."""
    X, X_test = narrow(data.X), narrow(data.X_test)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        _, seconds = cpu_time(lambda: model.fit(X, data.y))
    found = model.predict(X_test)
    return {
        "seconds": seconds,
        "loss": data.mean_cost(found),
        "accuracy": float(np.mean(found == data.y_test)),
        "capped": any(issubclass(w.category, ConvergenceWarning) for w in caught),
    }


def measure(data, Cs, repeats):
    """All models, in turns."""
    train(MODELS[OURS](data, Cs[OURS]).set_params(max_iter=1), data)  # compiles
    runs = {name: [] for name in MODELS}
    for _ in range(repeats):
        for name, make in MODELS.items():
            runs[name].append(train(make(data, Cs[name]), data))
            print(f"  {name}: {runs[name][-1]}", flush=True)
    return {"C": Cs, "rows": len(data.y), "runs": runs}


def median(runs, what):
    """Of all repeats."""
    return statistics.median(run[what] for run in runs)


def table(cells):
    """One row per data set and model."""
    rows = []
    for data, cell in cells.items():
        ours = cell["runs"][OURS]
        for name, runs in cell["runs"].items():
            ratios = [median(runs, what) / median(ours, what) for what in ("seconds", "loss")]
            rows.append(
                [data, name, f"{cell['C'][name]:g}", f"{median(runs, 'seconds'):.3g}"]
                + [f"{ratios[0]:.3g}", f"{median(runs, 'loss'):.4g}", f"{ratios[1]:.3g}"]
                + [f"{median(runs, 'accuracy'):.4g}", "yes" if runs[0]["capped"] else "no"]
            )
    header = ["data", "model", "C", "CPU s", "ratio", "test loss", "ratio", "accuracy"]
    return markdown([*header, "out of iterations"], rows)


def plot(cells, path):
    """CPU time and test loss, a panel per data set."""
    figure, axes = plt.subplots(
        1, len(cells), figsize=(1.0 + 3.4 * len(cells), 3.4), squeeze=False, layout="constrained"
    )
    for axis, (data, cell) in zip(axes[0], cells.items(), strict=True):
        for name, runs in cell["runs"].items():
            axis.scatter(
                [run["seconds"] for run in runs], [run["loss"] for run in runs],
                s=40, color=COLOURS[name], label=name,
            )  # fmt: skip
        axis.set(xscale="log", title=data, xlabel="CPU seconds")
        axis.set_ylim(0.0, 1.1 * max(run["loss"] for runs in cell["runs"].values() for run in runs))
        plain_ticks(axis.xaxis)
        axis.grid(alpha=0.25, which="both")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("test loss")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main():
    """Compare on all data sets, or choose C."""
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, default=3, help="runs of each model")
    options.add_argument("--rows", type=int, default=100_000, help="of the generated set")
    options.add_argument("--only", default="", help="part of the names of the data sets to run")
    options.add_argument("--choose-C", action="store_true", help="print losses of all C, no more")
    options = options.parse_args()
    if options.choose_C:
        for key, data, _ in chosen(SETS, options):
            for name, make in MODELS.items():
                print(key, name, *validated(data, CS, answers_of(make)), flush=True)
        return
    cells, packages = {}, ("taut", "numpy", "numba", "scikit-learn")
    versions = {package: version(package) for package in packages}
    for key, data, _ in chosen(SETS, options):
        print(key, flush=True)
        cells[key] = measure(data, CHOSEN[key], options.repeats)
        write_json(options.results / "one_vs_rest.json", {"versions": versions, "cells": cells})
        (options.results / "one_vs_rest.md").write_text(table(cells) + "\n")
        plot(cells, options.results / "one_vs_rest.png")
    print(table(cells))


if __name__ == "__main__":
    main()
