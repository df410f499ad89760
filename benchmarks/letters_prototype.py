"""OCR words against the prototype whose loops this library was drawn from: CPU time to a gap.

python benchmarks/letters_prototype.py --data FOLDER --prototype FOLDER

The prototype's folder has `chain_recentred.py` and `chain.py`. It is written for these data: fixed
sizes, a centre tuned by hand, and no verification in its times. Ours are whole calls of `fit`, with
the certificate. Both get the 128 pixels and minimise lambda/2 |w|^2 plus the mean hinge, where the
loss is the share of wrong letters. `run.py` leaves this script out: it needs the second folder.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import pairwise, product
from pathlib import Path

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np

from datasets import Letters, data_folder, parser
from taut import ChainSVM
from timing import cpu_time, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SEEDS = (1, 2, 3)
LAMBDAS = (0.01, 0.001)
TOLERANCES = (1e-2, 1e-3)
DTYPES = ("float64", "float32")
PIXELS = 128
SECONDS = 60.0  # of the prototype's passes, before it is given up
STYLES = {"float64": ("#1f5fa8", "o", -0.12), "float32": ("#e07b1a", "D", 0.12)}


@dataclass
class Times:
    """CPU seconds and passes of one method, seed by seed."""

    seconds: list[float] = field(default_factory=list)
    passes: list[int] = field(default_factory=list)

    def add(self, seconds: float, passes: int) -> None:
        self.seconds.append(seconds)
        self.passes.append(passes)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        return f"{self.median:.3f} s, {statistics.median(self.passes):g} passes"


@contextmanager
def prototype(folder):
    """Its function `run`: all of its script but the loop at the end.

    It runs from a copy, so that compiled code is not left in its folder.
    """
    source = (folder / "chain_recentred.py").read_text()
    with tempfile.TemporaryDirectory() as scratch:
        for path in folder.glob("*.py"):
            shutil.copy(path, scratch)
        sys.path.insert(0, scratch)
        names: dict = {}
        exec(source[: source.index("\nDs=load(")], names)
        sys.path.remove(scratch)
        yield names["run"]


def words(letters, small):
    """The pixels of the first fold's words or of all others as CSR, labels and lengths."""
    X, y, lengths = letters.take((letters.folds == 0) == small)
    return X[:, :PIXELS], y, lengths


def prototype_data(X, y, lengths):
    """The same words in the prototype's form: indices, and the products of each word's rows."""
    ends = np.concatenate([[0], np.cumsum(lengths)])
    pairs = ((X[a:b] @ X[a:b].T).toarray() for a, b in pairwise(ends))
    return {
        "n": len(lengths),
        "ptr": ends.astype(np.int64),
        "y": y.astype(np.int32),
        "fidx": X.indices.astype(np.int32),
        "fptr": X.indptr.astype(np.int64),
        "Kx": np.concatenate([products.ravel() for products in pairs]),
        "kptr": np.concatenate([[0], np.cumsum(lengths**2)]).astype(np.int64),
    }


def run_prototype(run, data, regularisation, seed, seconds=SECONDS):
    """CPU seconds and passes to each gap, with the centre's strength that its script uses."""
    strength = 30.0 * (1e-3 / regularisation) ** 0.5
    hits, _ = run(data, regularisation, strength, seed=seed, max_t=seconds, every=1)
    return {tol: hits[tol][:2] for tol in TOLERANCES if tol in hits}


def run_ours(X, y, lengths, regularisation, tol, seed):
    """CPU seconds of a certified fit, and its passes."""
    C = 1.0 / (regularisation * len(lengths))
    model = ChainSVM(C=C, loss="mean_hamming", tol=tol, random_state=seed)
    _, seconds = cpu_time(lambda: model.fit(X, y, lengths=lengths))
    return seconds, model.certificate_.passes


def measure(run, data, regularisation):
    """All methods to all gaps, in turns; keyed by gap, then by method."""
    X, y, lengths = data
    typed = {dtype: X.astype(dtype) for dtype in DTYPES}
    theirs = prototype_data(X, y, lengths)
    cells = {tol: {name: Times() for name in ("prototype", *DTYPES)} for tol in TOLERANCES}
    for seed in SEEDS:
        for tol, found in run_prototype(run, theirs, regularisation, seed).items():
            cells[tol]["prototype"].add(*found)
        for tol, dtype in product(TOLERANCES, DTYPES):
            found = run_ours(typed[dtype], y, lengths, regularisation, tol, seed)
            cells[tol][dtype].add(*found)
    return cells


def warm_up(run, letters):
    """Compile everything on a few words."""
    X, y, lengths = words(letters, small=True)
    lengths = lengths[:40]
    rows = slice(lengths.sum())
    run_prototype(run, prototype_data(X[rows], y[rows], lengths), 0.01, 1, seconds=0.5)
    for dtype in DTYPES:
        run_ours(X[rows].astype(dtype), y[rows], lengths, 0.01, 1e-2, 1)


def ratio(cell, dtype):
    """The prototype's median time by ours; None where the prototype was given up."""
    theirs = cell["prototype"]
    return theirs.median / cell[dtype].median if theirs.seconds else None


def table(cells):
    """One row per problem and gap."""
    header = ["words", "lambda", "gap", "prototype", *(f"taut {t}" for t in DTYPES)]
    header += [f"prototype / {t}" for t in DTYPES]
    rows = []
    for cell in cells:
        theirs = cell["prototype"] if cell["prototype"].seconds else f"> {SECONDS:g} s"
        ratios = [ratio(cell, dtype) for dtype in DTYPES]
        ratios = ["-" if value is None else f"{value:.2f}" for value in ratios]
        named = [cell["words"], f"{cell['lambda']:g}", f"{cell['gap']:g}"]
        rows.append([*named, theirs, *(cell[dtype] for dtype in DTYPES), *ratios])
    return markdown(header, rows)


def plot(cells, path):
    """Ratios of all cells; right of 1 taut is faster."""
    figure, axis = plt.subplots(figsize=(7.5, 0.8 + 0.42 * len(cells)), layout="constrained")
    for dtype, (colour, marker, offset) in STYLES.items():
        known = [(ratio(cell, dtype), row + offset) for row, cell in enumerate(cells)]
        known = [pair for pair in known if pair[0] is not None]
        for value, row in known:
            axis.hlines(row, 1.0, value, color=colour, alpha=0.45)
        axis.scatter(*zip(*known, strict=True), color=colour, marker=marker, label=dtype, zorder=3)
    names = [f"{c['words']} words, λ = {c['lambda']:g}, gap {c['gap']:g}" for c in cells]
    axis.set_yticks(range(len(cells)), names, fontsize=9)
    axis.set_ylim(len(cells) - 0.5, -0.5)
    axis.axvline(1.0, color="black", linewidth=1.0)
    axis.set_xlim(0.0, max(1.2, axis.get_xlim()[1]))
    axis.axvspan(0.0, 1.0, color="#c0392b", alpha=0.06, linewidth=0)
    axis.set_xlabel("CPU time of the prototype / of taut (shaded: prototype faster)")
    axis.grid(axis="x", alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def arguments():
    """The command line."""
    options = parser(__doc__)
    options.add_argument("--prototype", type=Path, help="folder of the prototype")
    options.add_argument("--small", action="store_true", help="only the small set of words")
    return options.parse_args()


def main():
    """Run all cells and write JSON, a table and a plot."""
    options = arguments()
    if options.prototype is None:
        print("skipped: give --prototype FOLDER")
        return
    letters = Letters(data_folder(options))
    cells = []
    with prototype(options.prototype) as run:
        warm_up(run, letters)
        for small, regularisation in product((True,) if options.small else (True, False), LAMBDAS):
            data = words(letters, small)
            named = {"words": len(data[2]), "lambda": regularisation}
            found = measure(run, data, regularisation)
            cells += [named | {"gap": tol} | cell for tol, cell in found.items()]
    versions = {name: version(name) for name in ("taut", "numpy", "numba")}
    write_json(options.results / "letters_prototype.json", {"versions": versions, "cells": cells})
    (options.results / "letters_prototype.md").write_text(table(cells) + "\n")
    plot(cells, options.results / "letters_prototype.png")
    print(table(cells))


if __name__ == "__main__":
    main()
