"""Linear classifiers against LIBLINEAR and scikit-learn: CPU time to equal accuracy, one thread.

python benchmarks/linear_rivals.py --data FOLDER

All minimise P(w) = 1/2 |w|^2 + C sum of hinges, without bias; P is computed here, in float64.
Accuracy is (P(w) - P*) / P*. Our time is the whole call of `fit` and so is scikit-learn's;
LIBLINEAR's is that of `train`, without the conversion of the data. `timing` says how times
to an accuracy are found.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np
import scipy.sparse as sp
from liblinear.liblinear import PRINT_STRING_FUN
from liblinear.liblinearutil import parameter, problem, train
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from datasets import data_folder, digits, generated_text, mnist5k, parser, sparse, usps
from taut import BinarySVM, MulticlassSVM
from timing import Method, Run, cpu_time, geometric_grid, markdown, sweep, time_ratio, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ACCURACIES = (1e-2, 1e-3, 1e-4)
OUR_SETTINGS = geometric_grid(1.0, 1e-6)
RIVAL_SETTINGS = geometric_grid(10.0, 1e-8)
STYLES = {  # of the plot: label, colour, mark and vertical offset
    ("multiclass", "float64"): ("multiclass, float64", "#1f5fa8", "o", -0.15),
    ("multiclass", "float32"): ("multiclass, float32", "#e07b1a", "D", 0.15),
    ("binary", "float64"): ("binary, float64", "#2a8f5b", "s", 0.0),
}
PACKAGES = ("taut", "numpy", "numba", "scikit-learn", "liblinear-official")


@dataclass(frozen=True)
class Family:
    """One objective: its data sets, values of C, and the number types that we train on."""

    data: dict[str, Callable]
    Cs: tuple[float, ...]
    dtypes: tuple[str, ...]
    estimator: Callable
    liblinear_options: str
    objective: Callable
    scikit_learn: Callable | None = None


def crammer_singer(X, y, C, W):
    """P at W, of shape (classes, features); y are class numbers."""
    rows = np.arange(len(y))
    scores = X @ W.T + 1.0
    scores[rows, y] -= 1.0
    return 0.5 * (W**2).sum() + C * (scores.max(axis=1) - scores[rows, y]).sum()


def hinge(X, y, C, W):
    """P at W, of shape (1, features); y are signs."""
    return 0.5 * (W**2).sum() + C * np.maximum(0.0, 1.0 - y * (X @ W[0])).sum()


FAMILIES = {
    "multiclass": Family(
        data={
            "usps": lambda folder: usps(folder)[:2],
            "sector": lambda folder: sparse(folder, "sector", "train"),
            "digits": lambda folder: digits(),
            "mnist5k": lambda folder: mnist5k(),
            "text": lambda folder: generated_text(),
        },
        Cs=(0.01, 0.1, 1.0),
        dtypes=("float64", "float32"),
        estimator=MulticlassSVM,
        liblinear_options="-s 4",
        objective=crammer_singer,
    ),
    "binary": Family(
        data={
            "a9a": lambda folder: sparse(folder, "a9a", "train"),
            "ijcnn1": lambda folder: sparse(folder, "ijcnn1", "train"),
        },
        Cs=(0.01, 1.0, 10.0),
        dtypes=("float64",),
        estimator=BinarySVM,
        liblinear_options="-s 3",
        objective=hinge,
        scikit_learn=functools.partial(LinearSVC, loss="hinge", dual=True),
    ),
}


def load(family, name, folder):
    """X in float64; class numbers from 0, or the signs of a binary problem."""
    X, y = family.data[name](folder)
    codes = np.unique(y, return_inverse=True)[1]
    return X.astype(np.float64), codes if family is FAMILIES["multiclass"] else 2 * codes - 1


def ours(family, X, y, C):
    """taut on X as it is; warm, so that no compilation is timed."""

    def run(tol, seed):
        model = family.estimator(
            C=C, fit_intercept=False, tol=tol, random_state=seed, max_iter=1_000_000
        )
        _, seconds = cpu_time(lambda: model.fit(X, y))
        return Run(seconds, np.atleast_2d(model.coef_).astype(np.float64))

    run(1.0, 0)
    return Method(run, OUR_SETTINGS, at_least=min(ACCURACIES))


def liblinear(family, X, y, C):
    """LIBLINEAR; its number of iterations is fixed inside it, and its warning noted."""
    data = problem(y, sp.csr_matrix(X))

    def run(eps, _seed):
        options = parameter(f"{family.liblinear_options} -c {C} -e {eps} -B -1 -q")
        messages = []
        options.print_func = PRINT_STRING_FUN(messages.append)
        model, seconds = cpu_time(lambda: train(data, options))
        capped = any(b"max number of iterations" in message for message in messages)
        return Run(seconds, liblinear_weights(model), capped)

    return Method(run, RIVAL_SETTINGS)


def liblinear_weights(model):
    """Weights: one row per class in the order of their numbers, or one row for two signs."""
    labels = np.array(model.get_labels())
    rows = len(labels) if model.param.solver_type == 4 else 1
    W = np.ctypeslib.as_array(model.w, (model.get_nr_feature(), rows)).T
    if model.is_regression_model():
        return W.copy()
    return W * labels[0] if rows == 1 else W[np.argsort(labels)]


def scikit_learn(family, X, y, C):
    """The same solver of LIBLINEAR in scikit-learn, without its fixed cap."""
    if sp.issparse(X):
        index = (X.indices.astype(np.int32), X.indptr.astype(np.int32))  # it accepts no other type
        X = sp.csr_array((X.data, *index), shape=X.shape)

    def run(tol, seed):
        model = family.scikit_learn(
            C=C, fit_intercept=False, tol=tol, max_iter=10**9, random_state=seed
        )
        _, seconds = cpu_time(lambda: model.fit(X, y))
        return Run(seconds, np.atleast_2d(model.coef_))

    return Method(run, RIVAL_SETTINGS)


def optimum(family, X, y, C, key, path):
    """Bounds on P* from our certificate, kept on disk: they depend on nothing but the data."""
    known = json.loads(path.read_text()) if path.exists() else {}
    if key not in known:
        model = family.estimator(
            C=C, fit_intercept=False, tol=1e-7, random_state=0, max_iter=1_000_000, time_limit=120
        )
        with warnings.catch_warnings():  # the bounds are bounds however far apart
            warnings.simplefilter("ignore", ConvergenceWarning)
            proof = model.fit(X, y).certificate_
        known[key] = {"primal": proof.primal, "dual": proof.dual}
        write_json(path, known)
    return known[key]["dual"], known[key]["primal"]


def measure(family, X, y, C, bounds, options):
    """All methods on one problem: traces, ratios at each accuracy, and certified times."""
    low, high = bounds
    best = 0.5 * (low + high)

    def suboptimality(W):
        P = family.objective(X, y, C, W)
        if low * (1.0 - 1e-9) > P:
            raise SystemExit(f"P = {P} lies below the certified dual value {low}")
        return P / best - 1.0

    methods = {dtype: ours(family, X.astype(dtype), y, C) for dtype in family.dtypes}
    rivals = {"LIBLINEAR": liblinear(family, X, y, C)}
    if family.scikit_learn is not None:
        rivals["scikit-learn"] = scikit_learn(family, X, y, C)
    traces = sweep(
        methods | rivals, suboptimality, min(ACCURACIES),
        repeats=options.repeats, limit=options.limit, seed=options.seed,
    )  # fmt: skip
    return {
        "C": C,
        "optimum": bounds,
        "ratios": {
            dtype: [time_ratio(traces[dtype], [traces[r] for r in rivals], e) for e in ACCURACIES]
            for dtype in family.dtypes
        },
        "seconds": {name: [t.seconds_to(e) for e in ACCURACIES] for name, t in traces.items()},
        "certified": {d: [traces[d].seconds_at(e) for e in ACCURACIES] for d in family.dtypes},
        "traces": traces,
    }


def slashed(seconds):
    """Times at the three accuracies in one cell of a table."""
    return " / ".join("not reached" if t is None else f"{t:.3g}" for t in seconds)


def cells_table(family, cells):
    """One row per data set and C: ratios, then CPU seconds at the three accuracies."""
    header = ["data", "C"]
    header += [f"{dtype}, {e:g}" for dtype in family.dtypes for e in ACCURACIES]
    header += [f"taut {dtype}, s" for dtype in family.dtypes]
    header += [f"certified {dtype}, s" for dtype in family.dtypes]
    rivals = [name for name in next(iter(cells.values()))["traces"] if name not in family.dtypes]
    rows = []
    for cell in cells.values():
        ratios = [value for dtype in family.dtypes for value in cell["ratios"][dtype]]
        times = [slashed(cell["seconds"][name]) for name in family.dtypes]
        times += [slashed(cell["certified"][dtype]) for dtype in family.dtypes]
        times += [slashed(cell["seconds"][name]) for name in rivals]
        rows.append([cell["data"], f"{cell['C']:g}", *ratios, *times])
    return markdown([*header, *(f"{name}, s" for name in rivals)], rows)


def summary(cells, dtype):
    """Median and smallest ratio over cells and accuracies, and the number of those without one."""
    found = [
        (value.value, f"{value} ({key}, to {accuracy:g})")
        for key, cell in cells.items()
        for accuracy, value in zip(ACCURACIES, cell["ratios"][dtype], strict=True)
    ]
    known = [pair for pair in found if pair[0] is not None]
    if not known:
        return "the rival reached nothing"
    median = statistics.median(value for value, _ in known)
    return (
        f"median ratio {median:.3g}, smallest {min(known)[1]}, "
        f"{len(found) - len(known)} of {len(found)} without a ratio"
    )


def report(results, families):
    """Tables and summary lines as Markdown."""
    setup = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    parts = [
        "Ratios of CPU time, rival / taut, to relative suboptimality "
        f"{', '.join(f'{e:g}' for e in ACCURACIES)}; one thread; {setup}.",
        "Certified: the time of `fit` with tol set to the accuracy.",
    ]
    for name, family in families.items():
        if cells := results["cells"].get(name):
            parts += [f"## {name}", cells_table(family, cells)]
            parts += [f"{name}, {dtype}: {summary(cells, dtype)}." for dtype in family.dtypes]
    return "\n\n".join(parts) + "\n"


def draw_series(axis, pairs, label, colour, marker):
    """One mark per ratio with a stem from 1, an arrow where it is a bound, a word where none is."""
    known = [(ratio.value, row) for ratio, row in pairs if ratio.value is not None]
    values, rows = zip(*known, strict=True) if known else ((), ())
    axis.hlines(rows, 1.0, values, color=colour, linewidth=1.4, alpha=0.45)
    axis.scatter(values, rows, s=30, color=colour, marker=marker, label=label, zorder=3)
    for ratio, row in pairs:
        if ratio.sign:
            end = ratio.value * {">": 1.5, "<": 1 / 1.5}[ratio.sign]
            arrow = {"arrowstyle": "->", "color": colour}
            axis.annotate("", (end, row), (ratio.value, row), arrowprops=arrow)
        if ratio.value is None:
            axis.text(1.05, row, "not reached", fontsize=7, color=colour, va="center")


def draw_panel(axis, families, rows, column, styles):
    """All ratios at one accuracy, and a line at 1."""
    for (title, dtype), (label, colour, marker, offset) in styles.items():
        cells = families.get(title, {})
        if cells:
            pairs = [(cells[key]["ratios"][dtype][column], rows[key] + offset) for key in cells]
            draw_series(axis, pairs, label, colour, marker)
    axis.axvline(1.0, color="black", linewidth=1.0, zorder=2)
    axis.set_title(f"to suboptimality {ACCURACIES[column]:g}", fontsize=10)
    axis.grid(axis="x", alpha=0.25)
    axis.tick_params(length=0, labelsize=8)
    axis.spines[["top", "right", "left"]].set_visible(False)


def set_scale(axes, keys):
    """A log scale with plain numbers, wide enough for 1, and a shade where the rival is faster."""
    axes[0].set_xscale("log")
    low, high = axes[0].get_xlim()
    low, high = min(low, 0.4), max(high, 2.5)
    steps = (1, 2, 5) if high < 200.0 * low else (1,)
    ticks = [m * 10.0**k for k in range(-4, 5) for m in steps if low <= m * 10.0**k <= high]
    axes[0].set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes[0].set_xticks([], minor=True)
    axes[0].set_yticks(range(len(keys)), keys)
    axes[0].set(xlim=(low, high), ylim=(len(keys) - 0.4, -0.6))
    for axis in axes:
        axis.axvspan(low, 1.0, color="#c0392b", alpha=0.06, zorder=0, linewidth=0)


def plot(families, path, styles):
    """Ratios of all cells, a panel per accuracy; right of 1 taut is faster."""
    keys = [key for cells in families.values() for key in cells]
    rows = {key: row for row, key in enumerate(keys)}
    height = 1.5 + 0.3 * len(keys)
    figure, axes = plt.subplots(
        1, len(ACCURACIES), figsize=(12, height), sharex=True, sharey=True, layout="constrained"
    )
    for column, axis in enumerate(axes):
        draw_panel(axis, families, rows, column, styles)
    set_scale(axes, keys)
    figure.supxlabel("CPU time of the rival / CPU time of taut (shaded: rival faster)", fontsize=9)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def save(results, folder, name, families, styles):
    """Write JSON, table and plot; called after each cell, so that a long run loses nothing."""
    write_json(folder / f"{name}.json", results)
    (folder / f"{name}.md").write_text(report(results, families))
    plot(results["cells"], folder / f"{name}.png", styles)


def arguments(description):
    """The command line."""
    options = parser(description)
    options.add_argument("--repeats", type=int, default=3, help="runs of each setting")
    options.add_argument("--only", default="", help="part of the names of the data sets to run")
    options.add_argument("--seed", type=int, default=0, help="seed of the first repeat")
    options.add_argument("--limit", type=float, default=60.0, help="CPU seconds of one training")
    return options.parse_args()


def run_all(script, families, styles, load, options):
    """Run all cells, keep their results and return them."""
    folder = data_folder(options)
    results = {"versions": {name: version(name) for name in PACKAGES}, "cells": {}}
    optima = options.results / f"{script.removesuffix('_rivals')}_optima.json"
    for title, family in families.items():
        for name in (name for name in family.data if options.only in name):
            X, y = load(family, name, folder)
            for C in family.Cs:
                key = f"{name}, C = {C:g}"
                bounds = optimum(family, X, y, C, key, optima)
                cell = {"data": name} | measure(family, X, y, C, bounds, options)
                results["cells"].setdefault(title, {})[key] = cell
                save(results, options.results, script, families, styles)
                print(key, {d: list(map(str, r)) for d, r in cell["ratios"].items()}, flush=True)
    print(report(results, families))
    return results


if __name__ == "__main__":
    run_all("linear_rivals", FAMILIES, STYLES, load, arguments(__doc__))
