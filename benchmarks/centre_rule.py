"""The moving centre's automatic strength against none, over five decades of C, on six data sets.

python benchmarks/centre_rule.py --data FOLDER

One rule and no tuning: passes, oracle calls and CPU time to a verified relative gap of 1e-3. C runs
from 10^-2.5 to 10^2.5 times a middle: 1 / (0.01 n) on OCR words, with the loss divided by the
length, 0.1 on sentences and usps, 1 on sector. A run that has not arrived within the limit of CPU
time ends there, and its gap is reported. It counts as diverged if that gap is not finite, or if the
dual value ends below 0, where it began.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np

from datasets import Letters, data_folder, parser, sparse, usps
from tagging import Vocabulary, conll2000, ud_english_ewt
from taut import Problem, solve
from taut.solvers import DualCoordinate
from taut.structures import Chain, Multiclass
from timing import Ratio, cpu_time, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TOL = 1e-3
DECADES = (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)
STRENGTHS = {"auto": "auto", "off": 0.0}
COUNTED = ("seconds", "passes", "oracle calls")
QUANTITIES = {"seconds": "CPU time"} | {name: name for name in (*COUNTED[1:], "relative gap")}
COLOURS = ("#1f5fa8", "#5aa0e0", "#2a8f5b", "#8cc63f", "#e07b1a", "#8e44ad")
MARKS = ("o", "D", "s", "P", "^", "v")


@dataclass(frozen=True)
class Data:
    """A structure with its X and y, and the middle of the values of C."""

    structure: Chain | Multiclass
    X: object
    y: np.ndarray
    middle: float

    def problem(self, C):
        """The problem with one C."""
        return Problem(self.structure, self.X, self.y, C=C)


def letters(small):
    """OCR words, with C = 1 / (lambda n) for lambda = 0.01 in the middle."""

    def read(folder):
        words = Letters(folder)
        X, y, lengths = words.take((words.folds == 0) == small)
        structure = Chain(26, normalize=True)
        return Data(structure, (X, offsets_of(lengths)), y, 1.0 / (0.01 * len(lengths)))

    return read


def tagged(read_sentences, limit):
    """Sentences as chains of labels."""

    def read(folder):
        sentences = read_sentences(folder, "train", limit)
        X = Vocabulary(sentences).matrix(sentences)
        names, y = np.unique(sentences.stacked_labels, return_inverse=True)
        return Data(Chain(len(names)), (X, offsets_of(sentences.lengths)), y, 0.1)

    return read


def classes(read_examples, middle):
    """A multiclass problem without bias."""

    def read(folder):
        X, labels = read_examples(folder)
        names, y = np.unique(labels, return_inverse=True)
        return Data(Multiclass(len(names)), X, y, middle)

    return read


def offsets_of(lengths):
    """Where sequences begin in the stacked rows, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)])


DATA: dict[str, Callable] = {
    "letters, 626 words": letters(small=True),
    "letters, 6251 words": letters(small=False),
    "conll2000, 1000 sentences": tagged(conll2000, 1000),
    "ud_english_ewt, 2000 sentences": tagged(ud_english_ewt, 2000),
    "usps": classes(lambda folder: usps(folder)[:2], 0.1),
    "sector": classes(lambda folder: sparse(folder, "sector", "train"), 1.0),
}


def run(problem, strength, limit):
    """One solve with all that is reported about it."""
    solver = DualCoordinate(recentring=strength)
    end = time.process_time() + limit
    late = [lambda record: time.process_time() > end]
    result, seconds = cpu_time(
        lambda: solve(problem, solver, tol=TOL, max_iter=10**9, callbacks=late, random_state=0)
    )
    proof = result.certificate
    return {
        "arrived": proof.relative_gap <= TOL,
        "diverged": not math.isfinite(proof.relative_gap) or proof.dual < 0.0,
        "relative gap": proof.relative_gap,
        "primal": proof.primal,
        "dual": proof.dual,
        "seconds": seconds,
        "passes": proof.passes,
        "oracle calls": proof.oracle_calls,
        "stiffness": float(result.history["stiffness"][-1]),
    }


def compare(off, auto):
    """Ratios off / auto: bounds where one run did not arrive, only that of gaps where both did not.

    Gaps of runs that arrived count as the tolerance.
    """
    gaps = [max(found["relative gap"], TOL) for found in (off, auto)]
    ratios = dict.fromkeys(COUNTED, Ratio(None)) | {"relative gap": Ratio(gaps[0] / gaps[1])}
    if off["arrived"] or auto["arrived"]:
        sign = "" if off["arrived"] and auto["arrived"] else "<" if off["arrived"] else ">"
        ratios |= {name: Ratio(off[name] / auto[name], sign) for name in COUNTED}
    return ratios


def measure(data, limit):
    """Both strengths at each C, one after the other."""
    rows = []
    for decade in DECADES:
        problem = data.problem(data.middle * 10.0**decade)
        row = {"C": data.middle * 10.0**decade, "decade": decade, "blocks": problem.n_blocks}
        for name, strength in STRENGTHS.items():
            row[name] = run(problem, strength, limit)
        rows.append(row | {"ratios": compare(row["off"], row["auto"])})
    return rows


def cell(row, name):
    """A run in a table: passes, oracle calls per block, time; and the gap if it did not arrive."""
    found = row[name]
    calls = found["oracle calls"] / row["blocks"]
    text = f"{found['passes']} passes, {calls:.0f} calls, {found['seconds']:.2f} s"
    text += "" if found["arrived"] else f", gap {found['relative gap']:.1e}"
    return text + (", diverged" if found["diverged"] else "")


def table(cells):
    """One row per data set and C."""
    header = ["data", "C", *(f"{name}: passes, calls per block, CPU time" for name in STRENGTHS)]
    header += [f"{label}, off / auto" for label in QUANTITIES.values()] + ["stiffness"]
    rows = [
        [name, f"{row['C']:.2g}", *(cell(row, strength) for strength in STRENGTHS)]
        + [row["ratios"][quantity] for quantity in QUANTITIES]
        + [f"{row['auto']['stiffness']:.3g}"]
        for name, group in cells.items()
        for row in group
    ]
    return markdown(header, rows)


def summary(cells):
    """How many runs arrived, and how many diverged."""
    rows = [row for group in cells.values() for row in group]
    lines = []
    for name in STRENGTHS:
        arrived = sum(row[name]["arrived"] for row in rows)
        diverged = sum(row[name]["diverged"] for row in rows)
        lines.append(f"{name}: {arrived} of {len(rows)} runs arrived, {diverged} diverged.")
    return "\n".join(lines)


def draw_panel(axis, cells, quantity):
    """The ratios of one quantity over C, with arrows where they are bounds."""
    for (name, rows), colour, mark in zip(cells.items(), COLOURS, MARKS, strict=False):
        known = [row for row in rows if row["ratios"][quantity].value is not None]
        x = [row["decade"] for row in known]
        y = [row["ratios"][quantity].value for row in known]
        axis.plot(x, y, color=colour, marker=mark, markersize=5, linewidth=1.2, label=name)
        for row, place, value in zip(known, x, y, strict=True):
            if sign := row["ratios"][quantity].sign:
                end = value * {">": 1.6, "<": 1 / 1.6}[sign]
                arrow = {"arrowstyle": "->", "color": colour, "linewidth": 1.4}
                axis.annotate("", (place, end), (place, value), arrowprops=arrow)
    axis.axhline(1.0, color="black", linewidth=1.0)
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    axis.set_ylim(min(low, 0.5), max(high, 2.0) * 1.5)
    axis.set_xticks(DECADES, [f"$10^{{{decade:g}}}$" for decade in DECADES])
    axis.set_xlabel("C / middle", fontsize=9)
    axis.set_title(f"{QUANTITIES[quantity]}, off / auto", fontsize=10)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def plot(cells, path):
    """A panel per quantity; above 1 the automatic centre is better."""
    figure, axes = plt.subplots(1, len(QUANTITIES), figsize=(14, 4.6), layout="constrained")
    for axis, quantity in zip(axes, QUANTITIES, strict=True):
        draw_panel(axis, cells, quantity)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def save(results, options):
    """Write JSON, table and plot; called after each data set, so that a long run loses little."""
    write_json(options.results / "centre_rule.json", results)
    note = "Not reached: neither run arrived. Stiffness: 1 + kappa of the centre at the end."
    report = f"{table(results['cells'])}\n\n{note}\n\n{summary(results['cells'])}\n"
    (options.results / "centre_rule.md").write_text(report)
    plot(results["cells"], options.results / "centre_rule.png")
    return report


def arguments():
    """The command line."""
    options = parser(__doc__)
    options.add_argument("--limit", type=float, default=20.0, help="CPU seconds of one run")
    options.add_argument("--only", default="", help="part of the names of the data sets to run")
    return options.parse_args()


def main():
    """Run all data sets and keep their results."""
    options = arguments()
    folder = data_folder(options)
    results = {"versions": {"taut": version("taut")}, "limit": options.limit, "cells": {}}
    for name in (name for name in DATA if options.only in name):
        data = DATA[name](folder)
        for strength in STRENGTHS.values():
            run(data.problem(data.middle * 10.0 ** DECADES[0]), strength, options.limit)  # compiles
        results["cells"][name] = measure(data, options.limit)
        report = save(results, options)
        print(name, summary({name: results["cells"][name]}), sep="\n", flush=True)
    print(report)


if __name__ == "__main__":
    main()
