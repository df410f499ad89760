"""How far training from files makes a process grow, beside the budget that it was given.

python benchmarks/memory_budget.py --folder FOLDER

Writes dense rows, CSR rows and chains to shards, several times larger than the largest budget and
with so many support vectors that no budget holds them. Each is trained under three budgets, in a
new process each time, which has imported and compiled everything on a small set of the same kind
before. The rise is the largest resident size while it trains, less the size just before.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import numpy as np
import scipy.sparse as sp

from datasets import RESULTS
from taut import BinarySVM, ChainSVM
from taut.data import open_shards, write_shards
from taut.errors import CacheOverflow, NotConverged
from taut.solvers import OnlineCache
from timing import markdown, write_json

BUDGETS = ("50MB", "70MB", "100MB")
MEGABYTES = 300  # of each set
WARM = 0.6  # megabytes of the set that is compiled with
FLIPPED, FLIPPED_IN_CHAINS = 0.2, 0.01  # shares of labels that are wrong
COLUMNS, WORDS, WIDTH = 20_000, 100, 100  # sparse features, their non-zeros per row, dense features
LENGTH, ENTRIES, LABELS = 10, 200, 5  # of chains: rows, their features, labels
PART = 1_000_000  # bytes that are generated at a time


def dense(n: int, rng: np.random.Generator, dtype: Any) -> tuple[Any, Any]:
    """Rows whose labels follow a direction, and are wrong one time in five."""
    X = rng.standard_normal((n, WIDTH), dtype=np.float32).astype(dtype)
    return X, (X[:, :10].sum(axis=1) > 0) ^ (rng.random(n) < FLIPPED)


def sparse(n: int, rng: np.random.Generator, dtype: Any) -> tuple[Any, Any]:
    """Texts whose labels follow which of two vocabularies their words are of, with errors."""
    y = rng.random(n) < 0.5
    edges = np.linspace(0, COLUMNS, WORDS + 1).astype(np.int32)
    place = rng.random((n, WORDS))
    place = np.where(rng.random((n, WORDS)) < 0.3, (place + y[:, None]) / 2, place)
    indices = (edges[:-1] + place * np.diff(edges)).astype(np.int32).ravel()
    values = np.full(n * WORDS, WORDS**-0.5, dtype=dtype)
    X = sp.csr_array((values, indices, np.arange(0, n * WORDS + 1, WORDS)), shape=(n, COLUMNS))
    return X, y ^ (rng.random(n) < FLIPPED)


def chains(n: int, rng: np.random.Generator, dtype: Any) -> tuple[Any, Any]:
    """Sequences whose labels follow some features of their rows, with errors."""
    X = rng.standard_normal((n, LENGTH, ENTRIES), dtype=np.float32).astype(dtype)
    y = np.argmax(X[:, :, :LABELS], axis=2)
    wrong = rng.random(y.shape) < FLIPPED_IN_CHAINS
    return list(X), list(np.where(wrong, rng.integers(LABELS, size=y.shape), y))


#: Kind: what makes n blocks, bytes per block in float32, the estimator, its C.
KINDS: dict[str, Any] = {
    "dense": (dense, 4 * WIDTH, BinarySVM, 0.001),
    "sparse": (sparse, 8 * WORDS, BinarySVM, 0.1),
    "chains": (chains, 4 * LENGTH * ENTRIES, ChainSVM, 0.1),
}


def parts(kind: str, megabytes: float, dtype: str) -> Iterator[tuple[Any, Any]]:
    """A set, a megabyte at a time."""
    make, width = KINDS[kind][:2]
    rng, left = np.random.default_rng(0), int(megabytes * 1e6 / width)
    while left > 0:
        yield make(min(left, PART // width), rng, np.dtype(dtype))
        left -= PART // width


def generate(folder: Path, kind: str, megabytes: float, dtype: str) -> Path:
    """Write a set unless it is there."""
    path = folder / f"{kind}-{dtype}-{megabytes:g}MB"
    if not path.exists():
        write_shards(path, parts(kind, megabytes, dtype))
    return path


def status(name: str) -> int:
    """A size of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))


def settled_size() -> int:
    """The resident size without what was freed, from which on the largest is counted."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def train(path: Path, warm: Path, kind: str, memory: str, passes: int) -> None:
    """Train under a budget, and print what happened as JSON."""
    _, _, estimator, C = KINDS[kind]

    def fit(source: Path, memory: str, passes: int) -> Any:
        solver = OnlineCache(memory=memory)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CacheOverflow)
            warnings.simplefilter("ignore", NotConverged)
            model = estimator(C=C, solver=solver, tol=1e-3, max_iter=passes, random_state=0)
            return model.fit(open_shards(source))

    fit(warm, memory, 3)
    before, began = settled_size(), time.perf_counter()
    model = fit(path, memory, passes)
    print(
        json.dumps(
            {
                "rise": status("VmHWM") - before,
                "seconds": time.perf_counter() - began,
                "gap": model.certificate_.relative_gap,
                "status": model.certificate_.status.name,
                "before": before,
            }
        )
    )


def measure(kind: str, dtype: str, budget: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train in a new process."""
    path = generate(options.folder, kind, options.megabytes, dtype)
    warm = generate(options.folder, kind, WARM, dtype)
    command = [
        sys.executable, __file__, "--train", str(path), str(warm), "--kinds", kind,
        "--budgets", budget, "--passes", str(options.passes),
    ]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    size = open_shards(path).nbytes
    return {"kind": kind, "dtype": dtype, "budget": budget, "size": size} | result


def as_bytes(budget: str) -> float:
    """Of a number of megabytes."""
    return 1e6 * float(budget.removesuffix("MB"))


def report(results: list[dict[str, Any]]) -> str:
    """A table."""
    header = ["set", "type", "size", "budget", "rise", "of the budget", "gap", "training"]
    rows = [
        [
            r["kind"], r["dtype"], f"{r['size'] / 1e6:.0f} MB", r["budget"],
            f"{r['rise'] / 1e6:.0f} MB", f"{r['rise'] / as_bytes(r['budget']):.0%}",
            f"{r['gap']:.1e}", f"{r['seconds']:.0f} s",
        ]
        for r in results
    ]  # fmt: skip
    return markdown(header, rows)


def plot(results: list[dict[str, Any]], path: Path) -> None:
    """Rises over budgets, and the line that none may cross."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4.5), layout="constrained")
    colours = dict(zip(KINDS, ("#1f5fa8", "#b03030", "#3a8a4d"), strict=True))
    for kind, dtype in dict.fromkeys((r["kind"], r["dtype"]) for r in results):
        own = [r for r in results if (r["kind"], r["dtype"]) == (kind, dtype)]
        axis.plot(
            [as_bytes(r["budget"]) / 1e6 for r in own], [r["rise"] / 1e6 for r in own],
            marker="o", color=colours[kind], linestyle="-" if dtype == "float32" else "--",
            label=f"{kind}, {dtype}",
        )  # fmt: skip
    most = max(as_bytes(r["budget"]) for r in results) / 1e6
    axis.plot([0, 1.1 * most], [0, 1.1 * most], color="#999999", linewidth=0.8, label="the budget")
    axis.set_xlabel("budget, MB")
    axis.set_ylabel("largest rise of the resident size, MB")
    axis.legend(frameon=False, fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Generate, train in processes of their own, report; or train only."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--folder", type=Path, help="for the generated files; a temporary one")
    arguments.add_argument("--megabytes", type=float, default=MEGABYTES, help="of each set")
    arguments.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    arguments.add_argument("--dtypes", nargs="+", default=["float32", "float64"])
    arguments.add_argument("--budgets", nargs="+", default=list(BUDGETS), help="such as 50MB")
    arguments.add_argument("--passes", type=int, default=2)
    arguments.add_argument("--results", type=Path, default=RESULTS)
    arguments.add_argument("--train", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.train is not None:
        train(*options.train, options.kinds[0], options.budgets[0], options.passes)
        return
    with tempfile.TemporaryDirectory() as temporary:
        options.folder = options.folder or Path(temporary)
        options.folder.mkdir(exist_ok=True)
        results = []
        for kind in options.kinds:
            for dtype in options.dtypes:
                for budget in options.budgets:
                    results.append(measure(kind, dtype, budget, options))
                    print(results[-1], flush=True)
    options.results.mkdir(exist_ok=True)
    print(report(results))
    write_json(options.results / "memory_budget.json", results)
    (options.results / "memory_budget.md").write_text(report(results) + "\n")
    plot(results, options.results / "memory_budget.png")


if __name__ == "__main__":
    main()
