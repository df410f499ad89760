"""Training from a stream with one example in memory, and from arrays, in the same order.

python benchmarks/stream_equals_memory.py

Generated histograms are written to a temporary file. Each training is a process of its own, which
takes the same few passes over the same rows in the order of the file: with all rows in memory, or
reading one row after the other. The weights and the dual values of all passes are compared. Peak
memory is what a process grew by after its imports; a first process compiles and is not counted.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np

from datasets import generated, parser
from taut import Problem, StreamedProblem, solve
from taut.data import Stream
from taut.result import peak_memory
from taut.solvers import SOLVERS
from taut.structures import Multiclass, tree_cost
from timing import markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FEATURES, CLASSES = 1000, 20
C = 1.0
FORMS = {"dual": "multi_sample", "online": "multi_sample_online"}
WAYS = {"memory": "#1f5fa8", "stream": "#c0392b"}


def write(folder, rows):
    """Rows, class numbers and costs, in files of their own; in a process that may grow."""
    X, y, X_rest, y_rest, tree = generated(rows, CLASSES, FEATURES)
    np.concatenate([X, X_rest]).tofile(folder / "X")
    np.concatenate([y, y_rest]).tofile(folder / "y")
    np.save(folder / "cost.npy", tree_cost(tree, normalize=False))


def rows_of(folder):
    """One row after the other, as parts."""
    with open(folder / "X", "rb") as X, open(folder / "y", "rb") as y:
        while len(label := np.fromfile(y, np.int64, 1)):
            yield np.fromfile(X, np.float32, FEATURES)[None], label


def problem(folder, way):
    """The same problem, in memory or as a stream."""
    structure = Multiclass(CLASSES, np.load(folder / "cost.npy"))
    if way == "stream":
        return StreamedProblem(structure, Stream(lambda: rows_of(folder)), C=C)
    X = np.fromfile(folder / "X", np.float32).reshape(-1, FEATURES)
    return Problem(structure, X, np.fromfile(folder / "y", np.int64), C=C)


def train(folder, way, form, passes):
    """In a process of its own: weights and dual values into a file, the rest to the parent."""
    before, began = peak_memory(), time.process_time()
    solver = SOLVERS[FORMS[form]](shuffle=False)
    result = solve(problem(folder, way), solver, tol=0.0, max_iter=passes, random_state=0)
    dual = {record.iteration: record.dual for record in result.history}  # when a pass was over
    np.savez(folder / f"{way}-{form}.npz", w=result.w, dual=list(dual.values()))
    grown = result.certificate.peak_memory - before
    print(json.dumps({"grown": grown, "seconds": time.process_time() - began}))


def in_process(folder, way, form, passes):
    """What `train` says in another process."""
    arguments = ["--folder", folder, "--way", way, "--form", form, "--passes", str(passes)]
    done = subprocess.run(
        [sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


def compare(folder, form, passes):
    """Both ways of one form."""
    runs = {way: in_process(folder, way, form, passes) for way in WAYS}
    found = {way: np.load(folder / f"{way}-{form}.npz") for way in WAYS}
    apart = {
        name: float(np.abs(found["memory"][name] - found["stream"][name]).max())
        for name in ("w", "dual")
    }
    sizes = {name: float(np.abs(found["memory"][name]).max()) for name in ("w", "dual")}
    return {"runs": runs, "apart": apart, "largest": sizes}


def table(cells, size):
    """One row per form."""
    rows = []
    for form, cell in cells.items():
        apart = [f"{cell['apart'][n]:.2g} of {cell['largest'][n]:.3g}" for n in ("w", "dual")]
        memory = [f"{cell['runs'][way]['grown'] / 1e6:.0f}" for way in WAYS]
        seconds = [f"{cell['runs'][way]['seconds']:.3g}" for way in WAYS]
        rows.append([form, *apart, f"{size / 1e6:.0f}", *memory, *seconds])
    header = ["form", "weights differ by at most", "dual values by", "rows, MB"]
    header += [f"{way}, MB" for way in WAYS] + [f"{way}, CPU s" for way in WAYS]
    return markdown(header, rows)


def plot(cells, size, path):
    """What processes grew by, beside the size of the rows."""
    figure, axis = plt.subplots(figsize=(6.0, 3.2), layout="constrained")
    for k, (way, colour) in enumerate(WAYS.items()):
        grown = [cell["runs"][way]["grown"] / 1e6 for cell in cells.values()]
        bars = axis.barh(np.arange(len(cells)) + 0.3 * k, grown, 0.28, color=colour, label=way)
        axis.bar_label(bars, fmt="%.0f", padding=3, fontsize=9)
    axis.axvline(size / 1e6, color="black", linewidth=1.0, linestyle="--", label="size of the rows")
    axis.set_yticks(np.arange(len(cells)) + 0.15, list(cells))
    axis.set_xlabel("peak memory above that after imports, MB")
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.12)
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main():
    """Compare both forms, or be one of the processes."""
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=50_000)
    options.add_argument("--passes", type=int, default=3)
    for name in ("--folder", "--way", "--form"):
        options.add_argument(name, help="of one training, which the others start")
    options = options.parse_args()
    if options.way is not None:
        warnings.simplefilter("ignore")
        train(Path(options.folder), options.way, options.form, options.passes)
        return
    cells, size = {}, options.rows * FEATURES * 4
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rows, passes in ((100, 1), (options.rows, options.passes)):  # compiles, then counts
            # A process begins with the peak of the one that started it, which must stay small.
            writer = multiprocessing.get_context("spawn").Process(target=write, args=(folder, rows))
            writer.start()
            writer.join()
            cells = {form: compare(folder, form, passes) for form in FORMS}
    versions = {package: version(package) for package in ("taut", "numpy", "numba")}
    results = {"versions": versions, "rows": options.rows, "passes": options.passes, "cells": cells}
    write_json(options.results / "stream_equals_memory.json", results)
    (options.results / "stream_equals_memory.md").write_text(table(cells, size) + "\n")
    plot(cells, size, options.results / "stream_equals_memory.png")
    print(table(cells, size))


if __name__ == "__main__":
    main()
