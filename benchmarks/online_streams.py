"""Streams: 10 million rows in constant memory, killed and resumed; kernel values a second.

    python benchmarks/online_streams.py --data FOLDER [--part stream|killed|evaluations]

Rows are generated: 10 columns, classes by the length of three of them, 5 % of the labels wrong.
They are fed to `OnlineSVM.partial_fit` 5000 at a time, and none is kept. One thread.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np

import taut
from datasets import data_folder, parser
from functional_descent import SETS, Trained
from taut import OnlineSVM
from taut.solvers import FunctionalDescent
from timing import cpu_time, markdown

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_CHUNK = 5000
_OTHERS = 10**9  # the number of the chunk that models are tested on
MODELS = {
    "RBF, budget 500": {"kernel": "rbf", "gamma": 0.2, "budget": 500, "subset": 500},
    "RBF, budget 2000": {"kernel": "rbf", "gamma": 0.2, "budget": 2000, "subset": 500},
    "linear": {"subset": 500},
}


def chunk(number):
    """Some rows of the stream, and their labels."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(_CHUNK, 10))
    y = np.linalg.norm(X[:, :3], axis=1) > 1.5
    return X, np.where(rng.random(_CHUNK) < 0.05, ~y, y)


def _error(model):
    X, y = chunk(_OTHERS)
    return 100 * (1 - model.score(X, y))


def _resident():
    """Megabytes of this process at the moment."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def stream(folder, results, total):
    """Rates, errors and memory while the stream goes on."""
    rows = []
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.5))
    for label, settings in MODELS.items():
        model, seconds, n = OnlineSVM(random_state=0, **settings), 0.0, total // _CHUNK
        # The one with the larger budget is to show what the smaller one costs.
        n = n // 10 if label == "RBF, budget 2000" else n
        points = sorted({int(k) for k in np.geomspace(4, n, 16)})
        seen, errors, residents, rates = [], [], [], []
        since = 0.0
        for number in range(n):
            X, y = chunk(number)
            taken = cpu_time(lambda X=X, y=y, model=model: model.partial_fit(X, y))[1]
            seconds, since = seconds + taken, since + taken
            if number + 1 in points:
                rates.append((model.n_seen_ - (seen[-1] if seen else 0)) / since)
                seen.append(model.n_seen_)
                errors.append(_error(model))
                residents.append(_resident())
                since = 0.0
        support = len(model.support_) if "kernel" in settings else ""
        for k in (len(seen) // 2, -1):
            rows.append([
                label, f"{seen[k]:,}", f"{errors[k]:.1f}", f"{rates[k]:,.0f}",
                f"{residents[k]:.0f} MB", support,
            ])  # fmt: skip
        rows[-1].append(f"{model.n_evaluations_ / seconds:.2g}" if support else "")
        rows[-2].append("")
        print(rows[-2:], flush=True)
        for axis, values in zip(axes, (errors, rates, residents)):
            axis.plot(seen, values, "o-", markersize=3, label=label)
    for axis, title in zip(axes, ("test error, %", "rows a CPU second", "resident, MB")):
        axis.set_title(title, fontsize=10)
        axis.set_xscale("log")
        axis.set_xlabel("rows seen")
        axis.set_ylim(bottom=0.0)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(results / "online_streams.png", dpi=80)
    header = [
        "model", "rows", "error, %", "rows a CPU second", "resident", "support rows",
        "evaluations a second",
    ]  # fmt: skip
    print(markdown(header, rows))


def feed(path, last):
    """Go on with the model of a file up to a chunk, and save it after each fourth."""
    path = Path(path)
    model = OnlineSVM(random_state=0, **MODELS["RBF, budget 500"])
    if path.exists():
        model = taut.load(path)
    first = getattr(model, "n_seen_", 0) // _CHUNK
    for number in range(first, last):
        model.partial_fit(*chunk(number))
        if number % 4 == 3 or number == last - 1:
            model.save(path)


def killed(folder, results, total, last=400):
    """A process that feeds a model is killed again and again, and goes on from its file."""
    rng, kills = np.random.default_rng(0), 0
    with tempfile.TemporaryDirectory() as place:
        whole, path = Path(place) / "whole", Path(place) / "killed"
        feed(whole, last)
        command = [sys.executable, __file__, "--feed", str(path), "--last", str(last)]
        while True:
            process = subprocess.Popen(command)
            try:
                process.wait(timeout=6.0 + 6.0 * rng.random())
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                kills += 1
                continue
            break
        first, second = taut.load(whole), taut.load(path)
        same = np.array_equal(first.last_, second.last_) and first.n_seen_ == second.n_seen_
        left = sorted(p.name for p in Path(place).iterdir())
        print(f"{last * _CHUNK:,} rows, {kills} kills: the same model {same}; files {left}")


def evaluations(folder, results, total):
    """Values of the kernel a second and core, of whole passes."""
    rows = []
    for name in ("adult", "ijcnn1"):
        X, y, _T, _t, gamma = SETS[name](folder, 0)
        Trained(X[:2000], y[:2000], gamma, FunctionalDescent(subset=0.01), 1.0, 0).until(0.1)
        for label, solver in {
            "descent": FunctionalDescent(subset=0.01),
            "as published": FunctionalDescent(subset=0.01, bounds="both", averaging=False),
        }.items():
            one = Trained(X, y, gamma, solver, 1.0, 0)
            before, began = one.problem.data.evaluations, time.perf_counter()
            one.until(2)
            count, wall = one.problem.data.evaluations - before, time.perf_counter() - began
            rows.append([
                name, label, f"{count:.3g}", f"{one.seconds:.2f}", f"{count / one.seconds:.3g}",
                f"{count / wall:.3g}",
            ])  # fmt: skip
    print(markdown(["data", "solver", "evaluations", "CPU s", "a CPU second", "a second"], rows))


PARTS = {"evaluations": evaluations, "killed": killed, "stream": stream}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--part", choices=[*PARTS, "all"], default="all")
    arguments.add_argument("--rows", type=int, default=10_000_000)
    arguments.add_argument("--feed", help="a model's file: go on with it, and nothing else")
    arguments.add_argument("--last", type=int, default=0)
    options = arguments.parse_args()
    if options.feed:
        feed(options.feed, options.last)
        return
    folder = data_folder(options)
    options.results.mkdir(parents=True, exist_ok=True)
    for name, part in PARTS.items():
        if options.part in (name, "all"):
            part(folder, options.results, options.rows)


if __name__ == "__main__":
    main()
