"""How the time of a pass grows with blocks, non-zeros and labels: exponents over a 100x range.

python benchmarks/growth.py

Passes over all blocks with the oracle, without the moving centre, on generated CSR rows of length
1. Sizes take turns, pass by pass; the first pass, which compiles, is not counted. An exponent is
the slope of log time against log size, over the whole range and over the upper tenth of it. Strips
of labels are padded to whole registers, so few labels cost as much as some more. Viterbi looks at
all pairs of labels: its exponent rises towards 2.
"""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np
import scipy.sparse as sp

from datasets import parser
from taut import Problem
from taut.solvers import DualCoordinate
from taut.structures import Chain, Multiclass
from timing import cpu_time, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

LENGTH = 10  # positions of a sequence


@dataclass(frozen=True)
class Size:
    """What is generated; one of the first three numbers is varied."""

    blocks: int
    nonzeros: int
    labels: int
    features: int = 2000
    rows: int = 1  # per block

    def problem(self, seed: int = 0) -> Problem:
        """Labels by random weights, so that blocks have something to agree about."""
        rng = np.random.default_rng(seed)
        n = self.blocks * self.rows
        # One non-zero in each of equally wide ranges of columns: sorted, and never twice the same.
        edges = np.linspace(0, self.features, self.nonzeros + 1).astype(int)
        indices = edges[:-1] + (rng.random((n, self.nonzeros)) * np.diff(edges)).astype(int)
        values = rng.normal(size=(n, self.nonzeros))
        values /= np.linalg.norm(values, axis=1, keepdims=True)
        indptr = np.arange(0, n * self.nonzeros + 1, self.nonzeros)
        parts = (values.ravel(), indices.ravel().astype(np.int32), indptr)
        X = sp.csr_array(parts, shape=(n, self.features))
        y = (X @ rng.normal(size=(self.features, self.labels))).argmax(axis=1)
        if self.rows == 1:
            return Problem(Multiclass(self.labels), X, y)
        return Problem(Chain(self.labels), (X, np.arange(0, n + 1, self.rows)), y)


def geometric(low, high):
    """Five sizes from low to high."""
    return [round(float(size)) for size in np.geomspace(low, high, 5)]


#: Title: what is varied, and the sizes.
SWEEPS = {
    "multiclass, rows": ("rows", [Size(n, 50, 10) for n in geometric(1000, 100_000)]),
    "multiclass, non-zeros per row": (
        "non-zeros per row",
        [Size(2000, k, 10) for k in geometric(10, 1000)],
    ),
    "multiclass, classes": ("classes", [Size(2000, 50, k) for k in geometric(5, 500)]),
    "chains, sequences": (
        "sequences",
        [Size(n, 20, 26, rows=LENGTH) for n in geometric(100, 10_000)],
    ),
    "chains, non-zeros per position": (
        "non-zeros per position",
        [Size(200, k, 26, rows=LENGTH) for k in geometric(10, 1000)],
    ),
    "chains, labels": ("labels", [Size(200, 20, k, rows=LENGTH) for k in geometric(3, 300)]),
}


def varied(title, size):
    """The number that the sweep varies."""
    what = title.rpartition(", ")[2].split()[0]
    names = {"rows": "blocks", "sequences": "blocks", "non-zeros": "nonzeros"}
    return getattr(size, names.get(what, "labels"))


def pass_seconds(sizes, repeats):
    """Median CPU seconds of a pass at each size, in turns."""
    solver = DualCoordinate(shrink=0.0, recentring=0.0, cached_passes=0)
    problems = [size.problem() for size in sizes]
    states = [solver.init(problem, np.random.default_rng(0)) for problem in problems]
    seconds = [[] for _ in sizes]
    for _ in range(repeats + 1):
        for problem, state, times in zip(problems, states, seconds, strict=True):
            report, time = cpu_time(
                lambda p=problem, s=state: solver.pass_(p, s, 1.0, lambda: True)
            )
            if not report.event.complete or report.oracle_calls != problem.n_blocks:
                raise SystemExit("a pass did not visit all blocks: nothing to compare")
            times.append(time)
    return [statistics.median(times[1:]) for times in seconds]


def exponent(sizes, seconds):
    """Slope of log seconds against log sizes."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def measure(title, repeats):
    """One sweep with its exponents."""
    _, sizes = SWEEPS[title]
    values = [varied(title, size) for size in sizes]
    seconds = pass_seconds(sizes, repeats)
    return {
        "sizes": values,
        "milliseconds per pass": [1e3 * s for s in seconds],
        "microseconds per block": [1e6 * s / z.blocks for s, z in zip(seconds, sizes, strict=True)],
        "exponent": exponent(values, seconds),
        "exponent, upper tenth": exponent(values[-3:], seconds[-3:]),
    }


def report(results):
    """Exponents, and then all times."""
    exponents = [
        [title, f"{r['sizes'][0]} .. {r['sizes'][-1]}", f"{r['exponent']:.2f}"]
        + [f"{r['exponent, upper tenth']:.2f}"]
        for title, r in results.items()
    ]
    times = [
        [title, *(f"{size}: {ms:.3g}" for size, ms in zip(*list(r.values())[:2], strict=True))]
        for title, r in results.items()
    ]
    header = ["varied", "range", "exponent", "upper tenth"]
    columns = ["varied", *(["size: ms"] * 5)]
    return "\n\n".join(
        [
            "Exponents of the CPU time of a pass; one thread, float64.",
            markdown(header, exponents),
            "CPU milliseconds per pass:",
            markdown(columns, times),
        ]
    )


def plot(results, path):
    """Time against size, a panel per sweep, with lines of slope 1 and for labels of chains 2."""
    figure, axes = plt.subplots(2, 3, figsize=(10, 6), layout="constrained")
    for axis, (title, row) in zip(axes.flat, results.items(), strict=True):
        sizes, times = np.array(row["sizes"]), np.array(row["milliseconds per pass"])
        slopes = (1, 2) if title == "chains, labels" else (1,)
        for slope, style in zip(slopes, ("--", ":"), strict=False):
            guide = times[-1] * (sizes / sizes[-1]) ** slope
            axis.loglog(sizes, guide, style, color="#999999", label=f"slope {slope}")
        axis.loglog(sizes, times, "o-", color="#1f5fa8", markersize=5, label="measured")
        axis.set_title(f"{title}: exponent {row['exponent']:.2f}", fontsize=9)
        axis.set_xlabel(SWEEPS[title][0], fontsize=9)
        axis.set_ylim(bottom=0.4 * times.min())
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8, loc="upper left")
    for axis in axes[:, 0]:
        axis.set_ylabel("CPU milliseconds per pass", fontsize=9)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main():
    """Measure all sweeps; write JSON, tables and a plot."""
    arguments = parser(__doc__)
    arguments.add_argument("--repeats", type=int, default=7, help="passes of each size")
    options = arguments.parse_args()
    results = {title: measure(title, options.repeats) for title in SWEEPS}
    write_json(options.results / "growth.json", results)
    (options.results / "growth.md").write_text(report(results) + "\n")
    plot(results, options.results / "growth.png")
    print(report(results))


if __name__ == "__main__":
    main()
