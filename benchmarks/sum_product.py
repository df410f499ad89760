"""Speed of sum-product over chains: `expect` against loops in C++ that give the same marginals.

python benchmarks/sum_product.py

CPU time of one thread per position, in turns, 26 labels, scores in [-5, 5]. The rivals are in
sum_product.cpp, compiled by g++ with -O3 -march=native -ffast-math, so that their exponentials are
vectorised: messages both ways as logarithms; the conditional probabilities that taut computes, by
plain loops; and exponentials of the transitions ahead, which is not safe at low temperatures.
Beside them `expect` with a base, the Viterbi oracle, and the junction tree of the same path.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from itertools import product
from pathlib import Path

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np

from datasets import parser
from taut.binding import CompiledData
from taut.compiled.lanes import aligned_zeros
from taut.structures import Chain, Tree
from timing import in_turns, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

K = 26
POSITIONS = 20_000  # in one timed call
NUMBERS = {"float64": ctypes.c_double, "float32": ctypes.c_float}
CASES = tuple(product(NUMBERS, (8, 100), (1.0, 0.01)))
COMPARED = (1.0, 0.1, 0.01, 0.001)  # temperatures at which marginals are compared
EQUAL = 1e-8  # differences of marginals that rounding explains, in float64
GPP = ["g++", "-O3", "-march=native", "-ffast-math", "-fPIC", "-c"]
OURS, BASE, VITERBI, TREE = "expect", "expect, base", "Viterbi", "expect, Tree"
SAFE = {"C++ both ways": "forward_backward", "C++ conditional": "conditional"}
AHEAD = "C++ ahead"
RIVALS = SAFE | {AHEAD: "exponentials_ahead"}


def library():
    """The loops in C++; None if there is no g++."""
    if not shutil.which("g++"):
        return None
    with tempfile.TemporaryDirectory() as folder:
        parts, target = Path(folder) / "sum_product.o", Path(folder) / "sum_product.so"
        subprocess.run([*GPP, Path(__file__).with_suffix(".cpp"), "-o", parts], check=True)
        # Not linked with -ffast-math: that would change the arithmetic of the whole process.
        subprocess.run(["g++", "-shared", parts, "-o", target], check=True)
        return ctypes.CDLL(str(target))


def _expectations(oracles):
    pull, expect = oracles.pull, oracles.expect

    def expectations(space, data, w, work, temperature, base, mean, repeats):
        value = 0.0
        pull(space, 0, w, work)
        for _ in range(repeats):
            value = expect(data, 0, work, temperature, 0.0, base, mean)
        return value

    return expectations


def _best_labels(oracles):
    pull, argmax = oracles.pull, oracles.argmax

    def best_labels(space, data, w, work, label, repeats):
        value = 0.0
        pull(space, 0, w, work)
        for _ in range(repeats):
            value = argmax(data, 0, work, 0.0, label)
        return value

    return best_labels


class Ours:
    """A structure bound to one sequence; its features make the node scores a part of w."""

    def __init__(self, structure, X, scores):
        self.data = CompiledData(structure, structure.encode(X))
        self.blocks = self.data.blocks
        self.given = self.data.own_space, self.blocks.data
        self.w, self.base = self.data.pad(scores), aligned_zeros(0, scores.dtype)
        self.work = aligned_zeros(self.blocks.work_size, scores.dtype)
        self.mean = aligned_zeros(self.blocks.mean_size, scores.dtype)

    def expect(self, temperature, repeats):
        """The value and the rows of the mean, without padding; of a tree's, the first of them."""
        given = *self.given, self.w, self.work, temperature, self.base, self.mean
        value = self.data.kernel(_expectations)(*given, repeats)
        stride = self.blocks.label_stride
        rows = self.mean[: self.mean.size // stride * stride].reshape(-1, stride)
        return value, rows[:, : self.blocks.n_labels]

    def argmax(self, repeats):
        """The value of the best label."""
        label = np.zeros(self.blocks.label_size, np.int32)
        return self.data.kernel(_best_labels)(*self.given, self.w, self.work, label, repeats)


class Rival:
    """A loop in C++ for one sequence."""

    def __init__(self, function, nodes, T):
        self.real = function.restype = NUMBERS[nodes.dtype.name]
        self.function, self.scores = function, (nodes.copy(), T.copy())
        length = len(nodes)
        self.work = aligned_zeros((2 * length + 1) * K + K * K, nodes.dtype)
        self.mean = aligned_zeros((length + (length - 1) * K) * K, nodes.dtype).reshape(-1, K)

    def expect(self, temperature, repeats):
        """The value and the rows of the mean."""
        sizes = len(self.scores[0]), K, self.real(temperature)
        room = self.work, self.mean, self.mean[len(self.scores[0]) :]
        arrays = [[array.ctypes for array in some] for some in (self.scores, room)]
        return self.function(*arrays[0], *sizes, *arrays[1], repeats), self.mean


def methods(rivals, dtype, length):
    """All that has an `expect`, for the same random scores in [-5, 5]; the chain is first."""
    rng = np.random.default_rng(0)
    drawn = (rng.uniform(-5.0, 5.0, size=(n, K)).astype(np.float32) for n in (length, K))
    nodes, T = (scores.astype(dtype) for scores in drawn)  # the same numbers in both types
    eye, path = np.eye(length, dtype=dtype), np.arange(length)
    chains = [
        Ours(Chain(K), (eye, np.array([0, length])), np.concatenate([nodes, T]).ravel())
        for _ in range(2)
    ]
    chains[0].expect(1.0, 1)
    chains[1].base = chains[0].mean.copy()
    tree = Ours(
        Tree(K),
        [(eye, np.column_stack([path[:-1], path[1:]]))],
        np.concatenate([nodes.T.ravel(), T.ravel()]),
    )
    loops = {
        name: Rival(getattr(rivals, f"{function}_{dtype}"), nodes, T)
        for name, function in (RIVALS if rivals else {}).items()
    }
    return {OURS: chains[0]} | loops | {BASE: chains[1], TREE: tree}


def differences(rivals, length=100):
    """How far all marginals are from those of `expect` in float64; stops if safe ones differ."""
    found = {dtype: methods(rivals, dtype, length) for dtype in NUMBERS}
    apart = {dtype: {name: [] for name in (OURS, *RIVALS)} for dtype in NUMBERS}
    for temperature, (dtype, rows) in product(COMPARED, apart.items()):
        exact = found["float64"][OURS].expect(temperature, 1)[1]
        for name in rows:
            mean = found[dtype][name].expect(temperature, 1)[1]
            rows[name].append(float(np.nan_to_num(np.abs(mean - exact), nan=1.0).max()))
    if max(max(apart["float64"][name]) for name in SAFE) > EQUAL:
        raise SystemExit(f"marginals of taut and C++ differ: {apart['float64']}")
    return apart


def measure(rivals, dtype, length, temperature, repeats):
    """Microseconds per position of each method, in turns."""
    found, count = methods(rivals, dtype, length), POSITIONS // length
    calls = {name: lambda m=m: m.expect(temperature, count) for name, m in found.items()}
    calls[VITERBI] = lambda: found[OURS].argmax(count)
    seconds = in_turns(calls, repeats)
    return {name: 1e6 * time / (count * length) for name, time in seconds.items()}


def ratios(row):
    """The time of `expect` by that of each loop in C++."""
    return {name: row[OURS] / row[name] for name in RIVALS if name in row}


def report(results):
    """Tables as Markdown."""
    times = results["microseconds per position"]
    names = list(next(iter(times.values())))
    rows = [
        [case, *(f"{row[name]:.2f}" for name in names)]
        + [f"{ratio:.2f}" for ratio in ratios(row).values()]
        for case, row in times.items()
    ]
    header = ["case", *names, *(f"expect / {name}" for name in ratios(next(iter(times.values()))))]
    parts = ["Microseconds of CPU time per position, medians.", markdown(header, rows)]
    if not results["differences"]:
        return "\n\n".join([*parts, "The loops in C++ were skipped: no g++."])
    apart = [
        [f"{name}, {dtype}", *(f"{value:.0e}" for value in values)]
        for dtype, found in results["differences"].items()
        for name, values in found.items()
    ]
    return "\n\n".join(
        [
            *parts,
            "Largest difference from the marginals of `expect` in float64, 100 positions.",
            markdown(["method", *(f"temperature {value:g}" for value in COMPARED)], apart),
        ]
    )


def plot(results, path):
    """Times in the first case of each type, and the ratios of all cases."""
    times = results["microseconds per position"]
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
    first = {dtype: next(row for case, row in times.items() if dtype in case) for dtype in NUMBERS}
    rivals = [name for name in RIVALS if results["differences"]]
    panels = [first, {name: {c: ratios(row)[name] for c, row in times.items()} for name in rivals}]
    titles = (
        "microseconds per position: 8 positions, temperature 1",
        "CPU time of expect / loop in C++",
    )
    palettes = (("#1f5fa8", "#8fb4dc"), ("#bbbbbb", "#555555", "#d98880"))
    for axis, panel, title, colours in zip(axes, panels, titles, palettes, strict=True):
        height, values = 0.8 / max(1, len(panel)), {}
        for number, (name, values) in enumerate(panel.items()):
            places = np.arange(len(values)) + (number - 0.5 * (len(panel) - 1)) * height
            bars = axis.barh(
                places, list(values.values()), height, color=colours[number], label=name
            )
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
            axis.bar_label(bars, fmt="%.2f", padding=3, fontsize=7, bbox=box)
        axis.set_yticks(np.arange(len(values)), list(values), fontsize=8)
        axis.invert_yaxis()
        axis.margins(x=0.12)
        axis.set_title(title, fontsize=10)
        axis.tick_params(axis="y", length=0)
        axis.spines[["top", "right", "left"]].set_visible(False)
        if panel:
            axis.legend(fontsize=8, frameon=False, loc="lower right")
    axes[1].axvline(1.0, color="black", linewidth=1.0, zorder=0.5)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main():
    """Measure everything; write JSON, tables and a plot."""
    arguments = parser(__doc__)
    arguments.add_argument("--repeats", type=int, default=9, help="runs of each loop")
    options = arguments.parse_args()
    rivals = library()
    apart = differences(rivals) if rivals else {}
    times = {
        f"{dtype}, {length} positions, temperature {temperature:g}": measure(
            rivals, dtype, length, temperature, options.repeats
        )
        for dtype, length, temperature in CASES
    }
    results = {"microseconds per position": times, "differences": apart}
    write_json(options.results / "sum_product.json", results)
    (options.results / "sum_product.md").write_text(report(results) + "\n")
    plot(results, options.results / "sum_product.png")
    print(report(results))


if __name__ == "__main__":
    main()
