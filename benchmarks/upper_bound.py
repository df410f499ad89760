"""What the estimated upper bound saves: true bounds where it promises them, or after each pass.

python benchmarks/upper_bound.py --data FOLDER

The gap is estimated from what each pass saw, and true bounds, which need an oracle call for each
block, are computed when the estimate is within the tolerance. Without the estimate they are
computed after each pass that has seen all blocks. Both ways take turns, and end at the first gap
that is verified to be within the tolerance. Out of core the data are read from disk, by each pass
and by each verification, with memory for all of them or room in the cache for a quarter of their
bytes. CPU time is that of the whole solve; a first run of each way, which compiles, is not counted.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from unittest import mock

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np

from centre_rule import offsets_of
from datasets import Letters, data_folder, parser, sparse, usps
from one_pass import quarter
from taut import Problem, StreamedProblem, solve
from taut.data import open_shards, write_shards
from taut.errors import CacheOverflow
from taut.solvers import DualCoordinate, OnlineCache
from taut.structures import Chain, Multiclass, Scalar
from taut.training import loop
from timing import cpu_time, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TOLERANCES = (1e-2, 1e-3)
STYLES = {1e-2: ("#5aa0e0", "D", -0.15), 1e-3: ("#1f5fa8", "o", 0.15)}
CHUNK = "500kB"  # of the shards


@dataclass(frozen=True)
class Case:
    """A data set in memory or on disk, and the values of C."""

    Cs: tuple[float, ...]
    make: Callable  # (folder of the data, folder to write to) to a function of C
    solver: Callable = lambda problem: DualCoordinate()


def rows(read):
    """Rows in memory; two classes are signs."""

    def make(folder, _scratch):
        X, y = read(folder)
        names, codes = np.unique(y, return_inverse=True)
        if len(names) == 2:
            return lambda C: Problem(Scalar(), X, 2.0 * codes - 1.0, C=C)
        return lambda C: Problem(Multiclass(len(names)), X, codes, C=C)

    return make


def letters(small):
    """OCR words."""

    def make(folder, _scratch):
        words = Letters(folder)
        X, y, lengths = words.take((words.folds == 0) == small)
        structure = Chain(26, normalize=True)
        return lambda C: Problem(structure, (X, offsets_of(lengths)), y, C=C)

    return make


def on_disk(read):
    """Rows with signs, or class numbers, in shards."""

    def make(folder, scratch):
        X, y = read(folder)
        names, codes = np.unique(y, return_inverse=True)
        signs = len(names) == 2
        path = Path(tempfile.mkdtemp(dir=scratch)) / "shards"
        write_shards(path, X, 2.0 * codes - 1.0 if signs else codes, chunk_size=CHUNK)
        structure = Scalar() if signs else Multiclass(len(names))
        return lambda C: StreamedProblem(structure, open_shards(path), C=C)

    return make


def a9a(folder):
    return sparse(folder, "a9a", "train")


def ijcnn1(folder):
    return sparse(folder, "ijcnn1", "train")


def sector(folder):
    return sparse(folder, "sector", "train")


def digits(folder):
    return usps(folder)[:2]


def cache(_problem):
    return OnlineCache()


def small_cache(problem):
    return OnlineCache(memory=quarter(problem))


CASES = {
    "a9a": Case((0.01, 1.0, 10.0), rows(a9a)),
    "ijcnn1": Case((0.01, 1.0, 10.0), rows(ijcnn1)),
    "usps": Case((0.01, 0.1, 1.0), rows(digits)),
    "sector": Case((0.01, 0.1, 1.0), rows(sector)),
    # lambda = 0.01 and 0.001 with C = 1 / (lambda n)
    "letters, 626 words": Case((100 / 626, 1000 / 626), letters(small=True)),
    "letters, 6251 words": Case((100 / 6251, 1000 / 6251), letters(small=False)),
    "a9a on disk": Case((0.01, 1.0, 10.0), on_disk(a9a), cache),
    "usps on disk": Case((0.01, 0.1, 1.0), on_disk(digits), cache),
    "a9a on disk, a quarter": Case((0.01, 1.0, 10.0), on_disk(a9a), small_cache),
    "usps on disk, a quarter": Case((0.01, 0.1, 1.0), on_disk(digits), small_cache),
}


class Verifications:
    """Counts true bounds, and asks for them after each pass if there is no estimate."""

    def __init__(self, estimate):
        self.estimate = estimate
        self.count = 0
        self._verify = loop.Run.verify
        self._worth = loop.Run.worth_verifying

    def verify(self, run, *arguments):
        self.count += 1
        return self._verify(run, *arguments)

    def worth(self, run, gap, primal):
        return self._worth(run, gap, primal) if self.estimate else True

    def __enter__(self):
        ours = self
        self._patch = mock.patch.multiple(
            loop.Run,
            verify=lambda run, *arguments: ours.verify(run, *arguments),
            worth_verifying=lambda run, gap, primal: ours.worth(run, gap, primal),
        )
        self._patch.start()
        return self

    def __exit__(self, *_):
        self._patch.stop()


def run(problem, solver, tol, seed, estimate):
    """One solve with all that is reported about it."""
    with warnings.catch_warnings(), Verifications(estimate) as counter:
        warnings.simplefilter("ignore", CacheOverflow)
        result, seconds = cpu_time(
            lambda: solve(problem, solver, tol=tol, max_iter=100_000, random_state=seed)
        )
    proof = result.certificate
    if proof.relative_gap > tol:
        raise SystemExit(f"the gap is {proof.relative_gap}: nothing to compare")
    return {
        "seconds": seconds,
        "passes": proof.passes,
        "verifications": counter.count,
        "oracle calls": proof.oracle_calls / problem.n_blocks,
    }


def measure(case, problem, tol, repeats):
    """Both ways in turns; medians over seeds, and the ratios without / with."""
    runs, solver = {"with": [], "without": []}, case.solver(problem)
    for name in runs:
        run(problem, solver, tol, 0, name == "with")
    for seed in range(repeats):
        for name in runs if seed % 2 else reversed(runs):
            runs[name].append(run(problem, solver, tol, seed, name == "with"))
    medians = {
        name: {key: median(r[key] for r in found) for key in found[0]}
        for name, found in runs.items()
    }
    pairs = zip(runs["without"], runs["with"], strict=True)
    ratios = [a["seconds"] / b["seconds"] for a, b in pairs]
    return medians | {"runs": runs, "ratio": median(ratios), "range": [min(ratios), max(ratios)]}


def table(cells):
    """One row per problem and tolerance."""
    header = ["data", "C", "tol", "passes", "verifications", "calls per block", "CPU s"]
    header += ["CPU time, without / with"]
    lines = []
    for cell in cells:
        w, o = cell["with"], cell["without"]
        lines.append(
            [cell["data"], f"{cell['C']:.2g}", f"{cell['tol']:g}"]
            + [f"{w[key]:g} / {o[key]:g}" for key in ("passes", "verifications")]
            + [f"{w['oracle calls']:.1f} / {o['oracle calls']:.1f}"]
            + [f"{w['seconds']:.3f} / {o['seconds']:.3f}"]
            + ["{:.2f} ({:.2f} .. {:.2f})".format(cell["ratio"], *cell["range"])]
        )
    return markdown(header, lines)


def summary(cells):
    """Medians of the ratios, in memory and on disk."""
    lines = []
    places = {"in memory": lambda name: "on disk" not in name}
    places["on disk"] = lambda name: name.endswith("on disk")
    places["on disk, a quarter"] = lambda name: name.endswith("a quarter")
    for place, holds in places.items():
        for tol in TOLERANCES:
            own = [c for c in cells if c["tol"] == tol and holds(c["data"])]
            ratios = [c["ratio"] for c in own]
            if ratios:
                lines.append(
                    f"- {place}, to {tol:g}: median ratio of CPU time {median(ratios):.2f}, from "
                    f"{min(ratios):.2f} to {max(ratios):.2f}, in {len(ratios)} problems."
                )
    return "\n".join(lines)


def report(results):
    """The table and its summary."""
    setup = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    return "\n\n".join([
        f"Medians of {results['repeats']} runs, with / without the estimate; one thread; {setup}.",
        table(results["cells"]),
        summary(results["cells"]),
    ]) + "\n"  # fmt: skip


def plot(cells, path):
    """Ratios of CPU time; right of 1 the estimate saves time."""
    keys = list(dict.fromkeys((c["data"], c["C"]) for c in cells))
    figure, axis = plt.subplots(figsize=(8, 1.5 + 0.27 * len(keys)), layout="constrained")
    for tol, (colour, mark, offset) in STYLES.items():
        own = [c for c in cells if c["tol"] == tol]
        y = np.array([keys.index((c["data"], c["C"])) for c in own]) + offset
        x = np.array([c["ratio"] for c in own])
        spread = np.abs(np.array([c["range"] for c in own]).T - x)
        axis.errorbar(x, y, xerr=spread, fmt=mark, color=colour, capsize=2, label=f"to {tol:g}")
    axis.axvline(1.0, color="black", linewidth=1.0)
    axis.axvline(2.0, color="#999999", linewidth=1.0, linestyle="--", label="reported by Ramanan")
    axis.set_yticks(range(len(keys)), [f"{name}, C = {C:.2g}" for name, C in keys], fontsize=8)
    axis.set(xscale="log", ylim=(len(keys) - 0.4, -0.6))
    low, high = axis.get_xlim()
    ticks = [t for t in (0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10) if low <= t <= high]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_xticks([], minor=True)
    axis.set_xlabel("CPU time without the estimated bound / with it", fontsize=9)
    axis.grid(axis="x", alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main():
    """Measure all problems; write JSON, a table and a plot."""
    arguments = parser(__doc__)
    arguments.add_argument("--repeats", type=int, default=5, help="runs of each way, by seed")
    arguments.add_argument("--only", default="", help="part of the names of the data sets to run")
    options = arguments.parse_args()
    folder, cells = data_folder(options), []
    with tempfile.TemporaryDirectory() as scratch:
        for name, case in CASES.items():
            if options.only not in name:
                continue
            make = case.make(folder, scratch)
            for C in case.Cs:
                problem = make(C)
                for tol in TOLERANCES:
                    cell = {"data": name, "C": C, "tol": tol}
                    cells.append(cell | measure(case, problem, tol, options.repeats))
                    print(name, f"C = {C:.2g}, tol = {tol:g}: {cells[-1]['ratio']:.2f}", flush=True)
    versions = {package: version(package) for package in ("taut", "numpy", "numba")}
    results = {"versions": versions, "repeats": options.repeats, "cells": cells}
    write_json(options.results / "upper_bound.json", results)
    (options.results / "upper_bound.md").write_text(report(results))
    plot(cells, options.results / "upper_bound.png")
    print(report(results))


if __name__ == "__main__":
    main()
