"""How kernel machines grow: time and kernel rows against n, memory against the cache's budget.

python benchmarks/kernel_growth.py --data FOLDER [--part growth|memory] [--jobs 2]

RBF kernel, one thread, to a certified relative gap of 1e-3. Growth: the first n rows of a9a in
random order (gamma 0.05), and generated rows: 10 columns of normal numbers, labels by the radius,
one in ten of them wrong (gamma "scale"). Times are CPU seconds of whole fits, the median of three
where they take less than 20 s; rows are those of the kernel matrix that were computed in single
precision to bring scores up to date. Exponents are slopes of log against log, by least squares
over the five sizes.

Memory: each fit in a process of its own, which has imported and compiled everything by fits of 2000
rows. The rise is the largest resident size while it trains, less the size just before, when the
data are read: it has what the fit makes of the data, but not the data themselves. Ratios of time
are to the largest budget.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import warnings
from pathlib import Path

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np
import scipy.sparse as sp

from datasets import data_folder, parser, sparse, usps
from memory_budget import settled_size, status
from taut import BinarySVM, MulticlassSVM
from taut.data.memory import as_bytes
from taut.errors import CacheOverflow
from timing import cpu_time, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SIZES = (2000, 4000, 8000, 16_000, 32_000)
FACTORS = (1.0, 10.0)
BUDGETS = ("2GB", "256MB", "64MB", "8MB")
WARM = 2000  # rows of the fit that compiles
LONG = 20.0  # seconds of a fit that is not repeated


def a9a(folder):
    """All rows in random order."""
    X, y = sparse(folder, "a9a", "train")
    order = np.random.default_rng(0).permutation(len(y))
    return sp.csr_array(X.astype(np.float64)[order]), np.sign(y).astype(int)[order]


def digits(folder):
    """The classes of usps in random order."""
    X, y = usps(folder)[:2]
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


def generated(folder):
    """Balls and what surrounds them, with one label in ten wrong."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(SIZES[-1], 10))
    wrong = rng.random(len(X)) < 0.1
    return X, np.where(((X**2).sum(axis=1) > 9.34) ^ wrong, 1, -1)  # 9.34: half of all rows


#: Name: how to read, gamma.
GROWTH = {"a9a": (a9a, 0.05), "generated": (generated, "scale")}
#: Name: how to read, the estimator, gamma, C.
MEMORY = {
    "a9a, C = 1": (a9a, BinarySVM, 0.05, 1.0),
    "a9a, C = 10": (a9a, BinarySVM, 0.05, 10.0),
    "usps, all classes, C = 10": (digits, MulticlassSVM, "scale", 10.0),
}


def fit(estimator, X, y, **settings):
    """A fit, its CPU seconds, and the rows that its cache computed."""
    counts = {}

    class Counted(estimator):
        def _solve(self, problem, options):
            outcome = super()._solve(problem, options)
            cache = problem.data.blocks.features.cache
            counts.update(computed=cache.computed, recomputed=cache.recomputed)
            return outcome

    model = Counted(kernel="rbf", tol=1e-3, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheOverflow)
        seconds = cpu_time(lambda: model.fit(X, y))[1]
    certificate = model.certificate_
    found = {
        "seconds": seconds,
        "support": len(model.support_),
        "gap": certificate.relative_gap,
        "status": certificate.status.name,
    }
    return found | counts


def slope(x, y):
    """The exponent of y in x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def growth(folder):
    """Time and rows for all sizes."""
    rows = []
    for name, (read, gamma) in GROWTH.items():
        X, y = read(folder)
        for C in FACTORS:
            settings = {"C": C, "gamma": gamma, "cache": "4GB"}
            fit(BinarySVM, X[:WARM], y[:WARM], random_state=0, **settings)
            for n in SIZES:
                runs = []
                while len(runs) < 3 and max((r["seconds"] for r in runs), default=0.0) < LONG:
                    runs.append(fit(BinarySVM, X[:n], y[:n], random_state=len(runs), **settings))
                medians = {
                    key: statistics.median(run[key] for run in runs)
                    for key in ("seconds", "computed", "support", "gap")
                }
                rows.append({"data": name, "C": C, "n": n} | medians)
                print(rows[-1], flush=True)
    return rows


def of_series(rows):
    """The rows by data and C."""
    keys = dict.fromkeys((r["data"], r["C"]) for r in rows)
    return {key: [r for r in rows if (r["data"], r["C"]) == key] for key in keys}


def print_growth(rows):
    """A table with exponents."""
    lines = []
    for (name, C), own in of_series(rows).items():
        sizes = [r["n"] for r in own]
        for key, label, form in (
            ("seconds", "CPU seconds", "{:.2f}"),
            ("computed", "rows computed", "{:.0f}"),
            ("support", "support rows", "{:.0f}"),
        ):
            values = [r[key] for r in own]
            cells = [form.format(v) for v in values]
            lines.append([f"{name}, C = {C:g}", label, *cells, f"{slope(sizes, values):.2f}"])
    print(markdown(["data", "", *(f"{n:,}" for n in SIZES), "exponent"], lines))


def train(folder, name, budget, jobs):
    """One fit in this process, after one that compiles; prints what happened as JSON."""
    read, estimator, gamma, C = MEMORY[name]
    X, y = read(folder)
    settings = {"C": C, "gamma": gamma, "cache": budget, "random_state": 0, "n_jobs": jobs}
    fit(estimator, X[:WARM], y[:WARM], **settings)
    before = settled_size()
    found = fit(estimator, X, y, **settings)
    parts = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
    sizes = {
        "before": before,
        "rise": status("VmHWM") - before,
        "nbytes": sum(part.nbytes for part in parts),
        "n": len(y),
    }
    print(json.dumps(found | sizes))


def memory(options):
    """Each fit in a process of its own."""
    rows = []
    for name in MEMORY:
        for budget in BUDGETS:
            command = [sys.executable, __file__, "--data", str(data_folder(options)), "--train"]
            command += [name, "--budget", budget, "--jobs", str(options.jobs)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            rows.append({"data": name, "budget": budget} | json.loads(done.stdout.splitlines()[-1]))
            print(rows[-1], flush=True)
    return rows


def print_memory(rows):
    """A table; time is relative to the largest budget."""
    lines = []
    for r in rows:
        first = next(q for q in rows if q["data"] == r["data"])
        lines.append([
            r["data"], r["budget"], f"{r['rise'] / 1e6:.0f} MB",
            f"{max(0.0, r['rise'] - r['nbytes'] - as_bytes(r['budget'])) / 1e6:.0f} MB",
            f"{r['seconds']:.1f}", f"{r['seconds'] / first['seconds']:.2f}",
            r["computed"], r["recomputed"], r["status"], f"{r['gap']:.1e}",
        ])  # fmt: skip
    print(markdown(
        ["data", "cache", "rise", "beyond cache and data", "CPU seconds", "ratio", "rows computed",
         "of these again", "status", "gap"], lines,
    ))  # fmt: skip


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--part", choices=["growth", "memory", "all"], default="all")
    arguments.add_argument("--jobs", type=int, default=1)
    arguments.add_argument("--train", default="", help="one fit of the memory part, here")
    arguments.add_argument("--budget", default="64MB")
    options = arguments.parse_args()
    if options.train:
        train(Path(data_folder(options)), options.train, options.budget, options.jobs)
        return
    if options.part in ("growth", "all"):
        rows = growth(data_folder(options))
        write_json(options.results / "kernel_growth.json", rows)
        print_growth(rows)
        plot(rows, options.results / "kernel_growth.png")
    if options.part in ("memory", "all"):
        rows = memory(options)
        write_json(options.results / "kernel_memory.json", rows)
        print_memory(rows)


def plot(rows, path):
    """Both against n, in log-log."""
    fig, panels = plt.subplots(1, 2, figsize=(8.0, 3.2))
    colours = {"a9a": "#1f5fa8", "generated": "#e07b1a"}
    for axes, key, title in zip(
        panels, ("seconds", "computed"), ("CPU seconds", "kernel rows computed"), strict=True
    ):
        for (name, C), own in of_series(rows).items():
            sizes, values = [r["n"] for r in own], [r[key] for r in own]
            label = f"{name}, C = {C:g} (n^{slope(sizes, values):.2f})"
            line = "o-" if FACTORS[0] == C else "s--"
            axes.plot(sizes, values, line, color=colours[name], markersize=4, label=label)
        axes.set(xscale="log", yscale="log", xlabel="n", title=title)
        axes.set_xticks(SIZES, [f"{n:,}" for n in SIZES], fontsize=8)
        axes.minorticks_off()
        axes.legend(frameon=False, fontsize=8)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    fig.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
