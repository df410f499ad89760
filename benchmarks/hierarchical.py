"""Many classes in a tree, where an error costs the height of the lowest common group.

python benchmarks/hierarchical.py --data FOLDER

All methods minimise the same objective with the same oracle, one after the other in one process,
on histograms that are generated (200 classes, 1000 features), on sector and on TREC's questions.
Times are CPU seconds of passes alone. The primal is evaluated off the clock, at w and at an average
of w where a method has one, and the smallest so far counts; it is compared with a lower bound on
the minimum. Cutting planes get the whole time limit, so that ten times the reference's time can be
seen, and the other methods a part of it. The test loss is the mean cost of the answers to the
test part. C was chosen by `--choose-C`: of five values, the one with the smallest mean cost on a
quarter of the training part, trained on the rest to a gap of 1 %; of 30,000 generated rows. With
`--own-C` each method has a C of its own, chosen alike after `--passes` passes of the method, and
its test losses are means over the repeats, with standard deviations; runs end at the time limit.
"""

from __future__ import annotations

import json
import os
import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np

from curves import watch
from datasets import data_folder, generated, parser, sector, trec
from taut import Problem, solve
from taut.solvers import SOLVERS, DualCoordinate
from taut.structures import Multiclass, tree_cost
from timing import markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

NEAR = 0.01  # of the optimum, and of the primal for gaps
ENOUGH = 0.001  # the gap at which a run ends
CS = (0.1, 1.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True)
class Method:
    """A solver by its name, its settings, how it is drawn, and whether it gets the whole limit."""

    solver: str
    settings: dict[str, Any]
    colour: str
    line: str = "-"
    patient: bool = False

    def make(self):
        """The solver."""
        return SOLVERS[self.solver](**self.settings)


METHODS = {
    "multi-sample": Method("multi_sample", {}, "#c0392b"),
    "multi-sample, no centre": Method("multi_sample", {"recentring": 0.0}, "#c0392b", "--"),
    "multi-sample, online": Method("multi_sample_online", {}, "#e07b1a"),
    "dual coordinate": Method("dual_coordinate", {}, "#1e8449"),
    "Frank-Wolfe": Method("frank_wolfe", {}, "#1f5fa8"),
    "n-slack": Method("n_slack", {}, "#8e44ad", patient=True),
    "n-slack, batches of 1": Method("n_slack", {"batch": 1}, "#8e44ad", ":", patient=True),
    "1-slack": Method("one_slack", {}, "#8e44ad", "--", patient=True),
    "subgradient": Method("subgradient", {}, "#5d6d7e"),
    "passive-aggressive": Method("passive_aggressive", {}, "#17a2b8"),
    "perceptron": Method("perceptron", {}, "#17a2b8", "--"),
    "hard negatives": Method("hard_negatives", {}, "#9a7d0a"),
}
REFERENCE = "multi-sample"


@dataclass(frozen=True)
class Data:
    """Rows with class numbers, for training and for testing, and what confusions cost."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    cost: np.ndarray

    def problem(self, C):
        """The training part."""
        return Problem(Multiclass(len(self.cost), self.cost), self.X, self.y, C=C)

    def test_loss(self, w):
        """The mean cost of the classes of highest score."""
        scores = self.X_test @ w.reshape(-1, len(self.cost)).astype(self.X.dtype)
        return self.mean_cost(scores.argmax(axis=1))

    def mean_cost(self, answers):
        """The mean cost of answers to the test part."""
        return float(self.cost[self.y_test, answers].mean())

    def head(self, n):
        """The first rows."""
        return Data(self.X[:n], self.y[:n], self.X_test[:n], self.y_test[:n], self.cost)

    def validation(self):
        """A quarter of the training part in the place of the test part."""
        order = np.random.default_rng(0).permutation(len(self.y))
        held, kept = order[: len(order) // 4], order[len(order) // 4 :]
        return Data(self.X[kept], self.y[kept], self.X[held], self.y[held], self.cost)


def numbered(X, y, X_test, y_test, tree):
    """Classes as numbers, and the cost matrix of the tree."""
    classes, codes = np.unique(y, return_inverse=True)
    cost = tree_cost(tree, classes, normalize=False)
    return Data(X, codes, X_test, np.searchsorted(classes, y_test), cost)


@dataclass(frozen=True)
class Set:
    """How a data set is read, its C, its share of the time limit, and how closely it is looked at.

    `precision` is that of P*; looks are so many times as far apart as the one before, in passes.
    """

    read: Callable
    C: float
    share: float
    precision: float = 1e-5
    looks: float = 1.25


SETS = {
    "generated": Set(lambda folder, rows: generated(rows), 100.0, 1.0, 1e-3, 1.6),
    "sector": Set(lambda folder, rows: sector(folder), 1.0, 0.5),
    "questions": Set(lambda folder, rows: trec(folder), 10.0, 0.25),
}


def chosen(names, options):
    """Data sets by name, as the command line wants them."""
    folder = data_folder(options)
    for name in names:
        if options.only in name:
            yield name, numbered(*SETS[name].read(folder, options.rows)), SETS[name]


def available(methods):
    """Methods whose solvers are there; the others are named."""
    missing = sorted({method.solver for method in methods.values()} - set(SOLVERS))
    if missing:
        print(f"not there, left out: {', '.join(missing)}", flush=True)
    return {name: method for name, method in methods.items() if method.solver in SOLVERS}


def validated(data, Cs, train):
    """The best C, and the mean costs of all on held-out rows; `train(data, C)` gives answers."""
    inner = data.validation()
    losses = {C: inner.mean_cost(train(inner, C)) for C in Cs}
    return min(losses, key=losses.get), losses


def answers(data, C):
    """What is predicted for the test part after training to a gap of 1 %."""
    w = solve(data.problem(C), DualCoordinate(), tol=0.01, random_state=0).w
    return (data.X_test @ w.reshape(-1, len(data.cost))).argmax(axis=1)


def choice_after(method, passes, limit):
    """What is predicted so, but after some passes of a method, however large the gap is."""

    def answers_of_method(data, C):
        problem, solver = data.problem(C), method.make()
        with warnings.catch_warnings(action="ignore"):  # that it did not converge
            w = solve(
                problem, solver, tol=1e-5, max_iter=passes, time_limit=limit, random_state=0
            ).w
        return (data.X_test @ w.reshape(-1, len(data.cost))).argmax(axis=1)

    return answers_of_method


def compare_own(options):
    """Test losses of all methods after some passes, each with its own C: means of the repeats."""
    rows = []
    for name, data, found in chosen(SETS, options):
        for label, method in available(METHODS).items():
            limit = found.share * options.limit
            C, _ = validated(data, CS, choice_after(method, options.passes, limit))
            curves = [
                run(data, C, method, limit, seed, passes=options.passes)
                for seed in range(options.repeats)
            ]
            row = [name, label, f"{C:g}"]
            for count in (1, options.passes):
                losses = [loss for c in curves if (loss := c.test_after(count)) is not None]
                spread = np.std(losses) if losses else 0.0
                row.append(f"{np.mean(losses):.4g} +- {spread:.2g}" if losses else "-")
            rows.append([*row, f"{np.mean([curve.seconds[-1] for curve in curves]):.3g}"])
            print(*rows[-1], flush=True)
    header = ["data", "method", "C", "test loss, 1 pass", f"{options.passes} passes", "CPU s"]
    (options.results / "hierarchical_own.md").write_text(markdown(header, rows) + "\n")


def optimum(data, C, precision, key, path):
    """A lower bound on the minimum, kept on disk: it depends on nothing but the data."""
    known = json.loads(path.read_text()) if path.exists() else {}
    key = f"{key}, {len(data.y)} rows, C = {C:g}"
    if key not in known:
        solver = DualCoordinate()
        proof = solve(
            data.problem(C), solver, tol=precision, max_iter=10**6, random_state=0
        ).certificate
        known[key] = {"primal": proof.primal, "dual": proof.dual, "seconds": proof.seconds}
        write_json(path, known)
    return known[key]["dual"]


def measure(data, found, best, methods, options):
    """Curves of all methods, which take turns."""
    C, limit = found.C, found.share * options.limit
    limits = {
        name: limit * (1.0 if method.patient else options.part) for name, method in methods.items()
    }
    curves = {name: [] for name in methods}
    for method in methods.values():  # compiles, however long that takes
        run(data.head(1000), C, method, np.inf, 0, passes=5)
    for seed in range(options.repeats):
        for name, method in methods.items():
            curves[name].append(run(data, C, method, limits[name], seed, found.looks))
            print(f"  {name}: {brief(curves[name][-1], best)}", flush=True)
    return {"C": C, "optimum": best, "limits": limits, "rows": len(data.y), "curves": curves}


def run(data, C, method, limit, seed, looks=1.25, passes=10**9):
    """One run. With a smaller tol, w would not be of the data's precision."""
    return watch(
        data.problem(C), method.make(), limit=limit, gap=ENOUGH, tol=1e-5, seed=seed,
        test=data.test_loss, growth=looks, passes=passes,
    )  # fmt: skip


def brief(curve, best):
    """How a run ended."""
    return (
        f"{curve.passes[-1]} passes, {curve.seconds[-1]:.3g} s, P / P* - 1 = "
        f"{curve.primal[-1] / best - 1.0:.2g}, test loss {curve.test[-1]:.4g}"
    )


def middle(values):
    """The median, where None is later than all; None if that is the median."""
    found = statistics.median(np.inf if value is None else value for value in values)
    return None if np.isinf(found) else found


def near(cell, name):
    """Median CPU seconds until the primal is near the optimum."""
    value = (1.0 + NEAR) * cell["optimum"]
    return middle(curve.seconds_below(value) for curve in cell["curves"][name])


def certified(cell, name):
    """Median CPU seconds until the gap is small."""
    return middle(curve.seconds_to(NEAR) for curve in cell["curves"][name])


def shown(seconds, limit):
    """A time, or the limit that it exceeds."""
    return f"> {limit:g}" if seconds is None else f"{seconds:.3g}"


def ratio(seconds, reference, limit):
    """A time by the reference's, or a bound on it."""
    if reference is None:
        return "-"
    return f"> {limit / reference:.3g}" if seconds is None else f"{seconds / reference:.3g}"


def table(cells, reference):
    """One row per data set and method."""
    rows = []
    for data, cell in cells.items():
        curves = cell["curves"]
        first = near(cell, reference) if reference in curves else None
        for name in curves:
            seconds, limit = near(cell, name), cell["limits"][name]
            tests = [middle(c.test_after(n) for c in curves[name]) for n in (1, 2)]
            tests.append(middle(c.test[-1] for c in curves[name]))
            rows.append(
                [data, name, shown(seconds, limit), ratio(seconds, first, limit)]
                + [shown(certified(cell, name), limit)]
                + ["-" if loss is None else f"{loss:.4g}" for loss in tests]
            )
    header = ["data", "method", "s to 1 % of P*", f"by {reference}'s", "s to a gap of 1 %"]
    header += [f"test loss, {when}" for when in ("1 pass", "2 passes", "end")]
    return markdown(header, rows)


def plot(cells, methods, path):
    """Suboptimality and test loss over CPU time, a row per data set."""
    shape = {"figsize": (10.0, 0.8 + 3.1 * len(cells)), "layout": "constrained"}
    figure, axes = plt.subplots(len(cells), 2, squeeze=False, **shape)
    for (name, cell), (left, right) in zip(cells.items(), axes, strict=True):
        for label, curves in cell["curves"].items():
            method = methods[label]
            style = {"color": method.colour, "linestyle": method.line, "linewidth": 1.5}
            style |= {"marker": ".", "markersize": 4}
            for number, curve in enumerate(curves):
                style |= {"alpha": 0.95 if number == 0 else 0.35}
                style |= {"label": label if number == 0 else None}
                above = np.array(curve.primal) / cell["optimum"] - 1.0
                left.plot(curve.seconds, np.maximum(above, 1e-5), **style)
                right.plot(curve.seconds, curve.test, **style)
        left.axhline(NEAR, color="black", linewidth=0.8, linestyle=":")
        left.set(ylabel="P above the optimum, relative", ylim=(2e-4, None))
        right.set_ylabel("test loss")
        for axis in (left, right):
            axis.set(xscale="log", yscale="log", title=f"{name}, C = {cell['C']:g}")
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.title.set_fontsize(10)
            axis.grid(alpha=0.25, which="both")
            axis.tick_params(labelsize=8, which="both")
            axis.spines[["top", "right"]].set_visible(False)
        plain_ticks(right.yaxis)
    for axis in axes[-1]:
        axis.set_xlabel("CPU seconds", fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def plain_ticks(axis):
    """Numbers rather than powers, on an axis that may be shorter than a power of ten."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(MaxNLocator(5) if high < 4.0 * low else LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def save(name, cells, reference, methods, folder):
    """Write JSON, table and plot; called after each data set, so that a long run loses nothing."""
    versions = {package: version(package) for package in ("taut", "numpy", "numba")}
    write_json(folder / f"{name}.json", {"versions": versions, "cells": cells})
    (folder / f"{name}.md").write_text(table(cells, reference) + "\n")
    plot(cells, methods, folder / f"{name}.png")


def arguments(description):
    """The command line."""
    options = parser(description)
    options.add_argument("--limit", type=float, default=300.0, help="CPU seconds of a run")
    options.add_argument(
        "--part", type=float, default=0.25, help="of the limit, for all but cutting planes"
    )
    options.add_argument("--repeats", type=int, default=3, help="runs of each method")
    options.add_argument("--rows", type=int, default=100_000, help="of the generated set")
    options.add_argument("--only", default="", help="part of the names of the data sets to run")
    return options


def compare(name, sets, methods, reference, options):
    """Measure methods on data sets, and write what was found."""
    cells = {}
    for key, data, found in chosen(sets, options):
        best = optimum(
            data, found.C, found.precision, key, options.results / "hierarchical_optima.json"
        )
        print(f"{key}, P* = {best:.6g}", flush=True)
        cells[key] = measure(data, found, best, methods, options)
        save(name, cells, reference, methods, options.results)
    print(table(cells, reference))


def main():
    """Compare all methods, or choose C."""
    options = arguments(__doc__)
    options.add_argument("--choose-C", action="store_true", help="print losses of all C, no more")
    options.add_argument(
        "--own-C", action="store_true", help="test losses alone, a C for each method"
    )
    options.add_argument("--passes", type=int, default=2, help="of --own-C")
    options = options.parse_args()
    if options.choose_C:
        for name, data, _ in chosen(SETS, options):
            print(name, *validated(data, CS, answers), flush=True)
        return
    if options.own_C:
        compare_own(options)
        return
    compare("hierarchical", SETS, available(METHODS), REFERENCE, options)


if __name__ == "__main__":
    main()
