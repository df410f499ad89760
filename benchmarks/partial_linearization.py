"""Partial linearisation against Frank-Wolfe, exponentiated gradient and dual coordinate ascent.

python benchmarks/partial_linearization.py --data FOLDER

All minimise lambda/2 |w|^2 plus the mean hinge on the same data, one after the other in one
process. Words have the published layout of 4082 features (128 pixels, a constant, and whether a
letter is the first or the last, each times 26, and 26 x 26 pairs), and the loss is the share of
wrong letters. Times are CPU seconds of passes alone: the primal is evaluated off the clock, at w
and at a running average, and the smallest so far counts. A gap is (primal - dual) / primal.
Exponentiated gradient gets the best of eight temperatures, found by runs of a part of the limit
that are not counted.
"""

from __future__ import annotations

import os
import statistics
from dataclasses import replace
from importlib.metadata import version

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np

from curves import watch
from datasets import Letters, data_folder, digits, parser, usps
from taut import Problem, solve
from taut.solvers import DualCoordinate, ExponentiatedGradient, FrankWolfe, PartialLinearization
from taut.structures import Chain, Multiclass
from timing import markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter

LAMBDAS = (0.1, 0.01, 0.001)
GAPS = (1e-2, 1e-3)
TEMPERATURES = (100.0, 10.0, 1.0, 0.1, 0.01, 0.001, 1e-5, 1e-10)
SEARCH = 0.15  # of the time limit, for each temperature tried
PUBLISHED = {
    "partial linearisation": PartialLinearization(recentring=0.0),
    "Frank-Wolfe": FrankWolfe(recentring=0.0),
    "exponentiated gradient": ExponentiatedGradient(recentring=0.0),
}
OURS = {
    "pairwise Frank-Wolfe, gap sampling": FrankWolfe("pairwise", order="gap", recentring=0.0),
    "partial linearisation, centre": PartialLinearization(recentring="auto"),
    "dual coordinate": DualCoordinate(),
}
COLOURS = dict(
    zip(
        [*PUBLISHED, *OURS],
        ("#c0392b", "#1f5fa8", "#7f8c8d", "#5dade2", "#e07b1a", "#1e8449"),
        strict=True,
    )
)


def run(problem, solver, limit, seed, passes=10**9):
    """The curve of one run, until the gap or the limit is reached."""
    return watch(
        problem, solver, limit=limit, gap=min(GAPS), tol=1e-9, seed=seed, passes=passes
    )  # fmt: skip


def best_temperature(problem, solver, limit, seed):
    """Exponentiated gradient at the temperature whose dual is highest after part of the limit."""
    duals = {}
    for temperature in TEMPERATURES:
        curve = run(problem, replace(solver, temperature=temperature), SEARCH * limit, seed)
        duals[temperature] = curve.dual[-1]
    return replace(solver, temperature=max(duals, key=duals.get))


def words(letters, small):
    """A problem over the first fold's words or over all others, by lambda."""
    X, y, lengths = letters.take((letters.folds == 0) == small)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return lambda lam: Problem(
        Chain(26, normalize=True), (X, offsets), y, C=1.0 / (lam * len(lengths))
    )


def classes(X, y):
    """A multiclass problem with an intercept, by lambda."""
    return lambda lam: Problem(Multiclass(10, bias=1.0), X, y, C=1.0 / (lam * len(y)))


def problems(folder):
    """All data sets, and how many CPU seconds each run gets relative to the limit."""
    letters = Letters(folder)
    X, y, *_ = usps(folder)
    return {
        "letters, 626 words": (words(letters, small=True), 1.0),
        "letters, 6251 words": (words(letters, small=False), 2.0),
        "usps": (classes(X, y), 1.0),
        "digits": (classes(*digits()), 0.5),
    }


def measure(make, lam, limit, seeds):
    """Curves of all methods, seed by seed, and a lower bound on the optimum."""
    problem = make(lam)
    curves = {name: [] for name in (*PUBLISHED, *OURS)}
    for seed in seeds:
        for name, solver in (PUBLISHED | OURS).items():
            if name == "exponentiated gradient":
                solver = best_temperature(problem, solver, limit, seed)
            curve = run(problem, solver, limit, seed)
            curve.setting = f"{getattr(solver, 'temperature', 0.0):g}"
            curves[name].append(curve)
    best = solve(problem, tol=1e-5, random_state=0).certificate.primal
    return {"optimum": best, "curves": curves}


def times(cell, name, gap):
    """Median CPU seconds to a gap; None if most runs did not reach it."""
    found = [curve.seconds_to(gap) for curve in cell["curves"][name]]
    found = [np.inf if seconds is None else seconds for seconds in found]
    middle = statistics.median(found)
    return None if np.isinf(middle) else middle


def table(cells, limits):
    """CPU seconds to both gaps, one row per data set and lambda."""
    names = [*PUBLISHED, *OURS]
    rows = []
    for (data, lam), cell in cells.items():
        for gap in GAPS:
            found = [times(cell, name, gap) for name in names]
            shown = [f"> {limits[data]:g}" if s is None else f"{s:.3g}" for s in found]
            settings = [curve.setting for curve in cell["curves"]["exponentiated gradient"]]
            shown[2] += f" ({', '.join(sorted(set(settings)))})"
            pl, fw = found[:2]
            ratio = "-" if pl is None or fw is None else f"{fw / pl:.2f}"
            rows.append([data, f"{lam:g}", f"{gap:g}", *shown, ratio])
    header = ["data", "lambda", "gap", *names, "Frank-Wolfe / partial linearisation"]
    return markdown(header, rows)


def mean_times(cells, limits):
    """The published comparison: mean CPU seconds over lambda, where a limit counts as itself."""
    rows = []
    for data in dict.fromkeys(data for data, _ in cells):
        for gap in GAPS:
            means = []
            for name in ("partial linearisation", "Frank-Wolfe"):
                found = [times(cell, name, gap) for (d, _), cell in cells.items() if d == data]
                late = sum(seconds is None for seconds in found)
                mean = statistics.mean(limits[data] if s is None else s for s in found)
                means.append(f"{'> ' if late else ''}{mean:.3g}")
            rows.append([data, f"{gap:g}", *means])
    return markdown(["data", "gap", "partial linearisation, mean s", "Frank-Wolfe, mean s"], rows)


def plot(cells, path):
    """How far the dual is below the optimum, over CPU time."""
    data = list(dict.fromkeys(name for name, _ in cells))
    shape = {"figsize": (3.6 * len(LAMBDAS), 2.6 * len(data)), "layout": "constrained"}
    figure, axes = plt.subplots(len(data), len(LAMBDAS), squeeze=False, **shape)
    for (name, lam), cell in cells.items():
        axis = axes[data.index(name), LAMBDAS.index(lam)]
        for method, curves in cell["curves"].items():
            for number, curve in enumerate(curves):
                below = (cell["optimum"] - np.array(curve.dual)) / cell["optimum"]
                axis.plot(
                    curve.seconds,
                    np.maximum(below, 1e-5),
                    color=COLOURS[method],
                    linewidth=1.4,
                    alpha=0.9 if number == 0 else 0.4,
                    label=method if number == 0 else None,
                )
        axis.set(xscale="log", yscale="log", ylim=(2e-4, 1.2), title=f"{name}, λ = {lam:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.title.set_fontsize(9)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("CPU seconds", fontsize=9)
    for row in axes:
        row[0].set_ylabel("dual below the optimum", fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def warm_up(makers):
    """Compile everything for all kinds of data, before the clock runs."""
    for make in makers:
        problem = make(max(LAMBDAS))
        for solver in (PUBLISHED | OURS).values():
            run(problem, solver, np.inf, 0, passes=3)


def main():
    """Run all cells and write JSON, tables and a plot."""
    options = parser(__doc__)
    options.add_argument("--limit", type=float, default=20.0, help="CPU seconds of a run")
    options.add_argument("--seeds", type=int, default=1, help="runs of each method")
    options = options.parse_args()
    sets = problems(data_folder(options))
    warm_up(make for make, _ in sets.values())
    cells, limits = {}, {}
    for name, (make, share) in sets.items():
        limits[name] = share * options.limit
        for lam in LAMBDAS:
            cells[name, lam] = measure(make, lam, limits[name], range(options.seeds))
            print(table({(name, lam): cells[name, lam]}, limits), flush=True)
    versions = {name: version(name) for name in ("taut", "numpy", "numba")}
    named = [{"data": d, "lambda": lam, **cell} for (d, lam), cell in cells.items()]
    write_json(
        options.results / "partial_linearization.json",
        {"versions": versions, "limits": limits, "cells": named},
    )
    text = f"{table(cells, limits)}\n\n{mean_times(cells, limits)}\n"
    (options.results / "partial_linearization.md").write_text(text)
    plot(cells, options.results / "partial_linearization.png")
    print(text)


if __name__ == "__main__":
    main()
