"""A path over three decades of C, beside single fits: CPU time, and what is proved between solves.

python benchmarks/path.py --data FOLDER

MulticlassSVM on usps, pixels as given. A path is `taut.path`, whose relative gap is proved for
every C of the range. Beside it: one fit at the largest C to the same gap, from nothing; and fits
from nothing at the C of the path's solves, to the tolerance that the path solves them to. All take
turns in one process; one thread.
"""

from __future__ import annotations

import os
import statistics

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np

from datasets import data_folder, parser, usps
from taut import MulticlassSVM, path
from timing import cpu_time, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RANGES = ((1e-3, 1.0), (1e-2, 10.0))
GAPS = (0.1, 0.01, 0.001)
PASSES = 20_000  # more than any fit here needs
COSTS = {"path": "#1f5fa8", "fits at the same C": "#999999"}


def title(C_min, C_max, gap):
    """The name of a setting."""
    return f"C {C_min:g} .. {C_max:g}, gap {gap:g}"


def fit(X, y, C, tol, seed):
    """One fit from nothing."""
    return MulticlassSVM(C=C, tol=tol, max_iter=PASSES, random_state=seed).fit(X, y)


def measure(X, y, C_min, C_max, gap, repeats):
    """Median CPU seconds of the three ways, and the path of the first seed."""
    seconds = {"path": [], "fit at the largest C": [], "fits at the same C": []}
    calls = {name: [] for name in seconds}
    walked = []
    for seed in range(repeats):
        estimator = MulticlassSVM(max_iter=PASSES, random_state=seed)
        found, time = cpu_time(lambda e=estimator: path(e, X, y, C_min, C_max, gap=gap))
        walked.append(found)
        seconds["path"].append(time)
        calls["path"].append(sum(point.certificate.oracle_calls for point in found.points))
        single, time = cpu_time(lambda s=seed: fit(X, y, C_max, gap, s))
        seconds["fit at the largest C"].append(time)
        calls["fit at the largest C"].append(single.certificate_.oracle_calls)
        tols = {point.C: point.model.tol for point in found.points}
        models, time = cpu_time(lambda s=seed, t=tols: [fit(X, y, C, t[C], s) for C in t])
        seconds["fits at the same C"].append(time)
        calls["fits at the same C"].append(sum(m.certificate_.oracle_calls for m in models))
    median = {name: statistics.median(times) for name, times in seconds.items()}
    grid = np.geomspace(C_min, C_max, 600)[1:-1]
    return {
        "seconds": seconds,
        "median seconds": median,
        "oracle calls": {name: statistics.median(numbers) for name, numbers in calls.items()},
        "path over one fit": median["path"] / median["fit at the largest C"],
        "solves": [len(found.points) for found in walked],
        "proved": max(found.gap for found in walked),
        "Cs": walked[0].Cs.tolist(),
        "gaps at solves": [point.certificate.relative_gap for point in walked[0].points],
        "grid": grid.tolist(),
        "gaps": walked[0].gap_at(grid).tolist(),
    }


def report(results):
    """A line for each setting."""
    rows = [
        [
            name,
            statistics.median(row["solves"]),
            f"{row['proved']:.2g}",
            *(f"{seconds:.3g}" for seconds in row["median seconds"].values()),
            f"{row['path over one fit']:.2f}",
            f"{row['oracle calls']['path'] / row['oracle calls']['fit at the largest C']:.2f}",
        ]
        for name, row in results.items()
    ]
    header = [
        "usps, MulticlassSVM", "solves", "proved for every C", "path, s",
        "one fit at the largest C, s", "fits at the same C, s", "path / one fit", "in oracle calls",
    ]  # fmt: skip
    return "CPU seconds, medians; one thread.\n\n" + markdown(header, rows)


def plot(results, file):
    """Above, the gap that is proved over C, with the solves; below, the costs; dashed: 3 fits."""
    figure, axes = plt.subplots(2, len(RANGES), figsize=(10, 7), layout="constrained")
    colours = dict(zip(GAPS, ("#d98c21", "#1f5fa8", "#3a8a4f"), strict=True))
    for column, (C_min, C_max) in enumerate(RANGES):
        top, bottom = axes[:, column]
        for gap, colour in colours.items():
            row = results[title(C_min, C_max, gap)]
            top.axhline(gap, color=colour, linewidth=0.8, linestyle="--")
            top.loglog(row["grid"], row["gaps"], color=colour, linewidth=1.2)
            top.loglog(
                row["Cs"], row["gaps at solves"], "o", color=colour, markersize=4,
                label=f"gap {gap:g}: {len(row['Cs'])} solves",
            )  # fmt: skip
        top.set_title(f"usps, C from {C_min:g} to {C_max:g}", fontsize=10)
        top.set_xlabel("C", fontsize=9)
        top.set_ylim(5e-5, 0.6)
        top.legend(
            frameon=False,
            fontsize=8,
            loc="upper left",
            ncols=3,
            columnspacing=0.8,
            handletextpad=0.0,
        )
        for k, (name, colour) in enumerate(COSTS.items()):
            medians = [results[title(C_min, C_max, gap)]["median seconds"] for gap in GAPS]
            costs = [median[name] / median["fit at the largest C"] for median in medians]
            bars = bottom.bar(np.arange(len(GAPS)) + 0.4 * k - 0.2, costs, 0.36, color=colour)
            bars.set_label(name)
            bottom.bar_label(bars, fmt="%.1f", fontsize=8)
        bottom.axhline(3.0, color="#444444", linewidth=0.8, linestyle="--")
        bottom.set_xticks(range(len(GAPS)), [f"gap {gap:g}" for gap in GAPS])
        bottom.legend(frameon=False, fontsize=8, loc="upper left")
        for axis in (top, bottom):
            axis.grid(alpha=0.25, axis="y")
            axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("relative gap that is proved", fontsize=9)
    axes[1, 0].set_ylabel("CPU time, in fits at the largest C", fontsize=9)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def main():
    """Measure all ranges and gaps; write JSON, a table and a plot."""
    arguments = parser(__doc__)
    arguments.add_argument("--repeats", type=int, default=3, help="seeds")
    options = arguments.parse_args()
    X, y, _, _ = usps(data_folder(options))
    path(MulticlassSVM(random_state=0), X, y, 1e-3, 2e-3, gap=0.1)  # compiles
    results = {
        title(*ends, gap): measure(X, y, *ends, gap, options.repeats)
        for ends in RANGES
        for gap in GAPS
    }
    write_json(options.results / "path.json", results)
    (options.results / "path.md").write_text(report(results) + "\n")
    plot(results, options.results / "path.png")
    print(report(results))


if __name__ == "__main__":
    main()
