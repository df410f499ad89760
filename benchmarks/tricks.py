"""What each trick of the compiled code gains: the same work with it and without, in turns.

python benchmarks/tricks.py --data FOLDER

CPU time of one thread, medians; above a ratio of 1 a trick pays. Passes begin at w = 0 and visit
all blocks with the oracle, without the moving centre. Plain loops have the same options of Numba;
the plain Viterbi, of transposed transitions, is also compiled by g++, if the machine has it.
"""

from __future__ import annotations

import copy
import ctypes
import os
import shutil
import statistics
import subprocess
import tempfile
from dataclasses import replace
from itertools import product
from types import FunctionType

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numba
import numpy as np

from datasets import Letters, data_folder, parser, sparse, usps
from growth import Size
from taut import Problem
from taut.binding.kernels import make_hinges
from taut.compiled.jit import _ALLOCATES_NOTHING, _OPTIONS, helper
from taut.compiled.lanes import aligned_zeros, stride_of
from taut.compiled.rows import row_times
from taut.engines.turns import shuffle
from taut.solvers import DualCoordinate
from taut.structures import Chain, Multiclass, RowFeatures, Scalar
from taut.structures.base import Operations
from timing import cpu_time, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

compiled = numba.njit(**_OPTIONS, **_ALLOCATES_NOTHING)  # as taut's own, but not kept on disk
GPP = ["g++", "-O3", "-march=native", "-shared", "-fPIC", "-x", "c++", "-", "-o"]
CPP = """extern "C" void viterbi(double *nodes, double *T, int *truth, int length, int K, int *back,
                                 int repeats, double *best) {
  for (int r = 0; r < repeats; r++)
    for (int t = 0; t < length; t++)
      for (int k = 0; k < K; k++) {
        double top = t ? best[(t - 1) * K] + T[k * K] : 0.0, value; int from = 0;
        for (int j = 1; t && j < K; j++)
          if ((value = best[(t - 1) * K + j] + T[k * K + j]) > top) { top = value; from = j; }
        back[t * K + k] = from;
        best[t * K + k] = top + nodes[t * K + k] + (truth[t] != k); } }"""


@compiled
def _plain_viterbi(nodes, T, truth, length, K, back, repeats, best):
    for _ in range(repeats):
        for t in range(length):
            for k in range(K):
                top, source = best[(t - 1) * K] + T[k * K] if t else 0.0, 0
                for j in range(1, K if t else 0):
                    if best[(t - 1) * K + j] + T[k * K + j] > top:
                        top, source = best[(t - 1) * K + j] + T[k * K + j], j
                back[t * K + k] = source
                best[t * K + k] = top + nodes[t * K + k] + (truth[t] != k)


@compiled
def _strips(rows, n, W, stride, labels, out):
    for r in range(n):
        row_times(rows, r, W, stride, out, 0)


@compiled
def _plain_scores(rows, n, W, stride, labels, out):
    data, indices, indptr = rows
    for r in range(n):
        out[:labels] = 0.0
        for p in range(indptr[r], indptr[r + 1]):
            x, row = data[p], W[indices[p] * stride : indices[p] * stride + labels]
            for k in range(row.shape[0]):  # of a slice, which LLVM vectorises
                out[k] += x * row[k]


def scores(labels, dtype, n=2000):
    """Scores of rows with 100 non-zeros of 1000 features: strips in registers, or not."""
    data, indices, indptr = Size(n, 100, labels, 1000).problem().data.blocks.features.rows
    rows, stride = (data.astype(dtype), indices, indptr), stride_of(labels, dtype)
    W, outs = aligned_zeros(1000 * stride, dtype), np.zeros((2, stride), dtype)
    W.reshape(-1, stride)[:, :labels] = np.random.default_rng(0).normal(size=(1000, labels))
    given = rows, n, W, stride, labels
    return [lambda: _strips(*given, outs[0]), lambda: _plain_scores(*given, outs[1])], outs


def viterbi(K=26, length=10, repeats=500):
    """A sequence with losses, again and again: Chain.argmax, Numba's plain loop, g++'s."""
    rng, argmax = np.random.default_rng(0), helper(Chain.argmax)
    truth, label = rng.integers(K, size=length).astype(np.int32), np.zeros(length, np.int32)
    blocks = Chain(K).encode((rng.normal(size=(length, 5)), np.array([0, length])), truth)
    features, work = blocks.features, aligned_zeros(blocks.work_size, float)
    w, space = features.pad(rng.normal(size=features.n_features)), features.view(blocks.data)
    pull = helper(features.functions(None).pull)

    @compiled
    def ours(space, data, w, work, label, repeats):
        pull(space, 0, w, work)
        for _ in range(repeats):
            argmax(data, 0, work, 1.0, label)

    ours(space, blocks.data, w, work, label, 1)
    # As Chain.argmax lays them out: scores of positions, transitions, and two tables as the first.
    size = length * features.stride
    nodes, best = (part.reshape(length, -1)[:, :K] for part in (work[:size], work[-size:]))
    T, bests = features.unpad(w)[5 * K :].reshape(K, K).T.ravel(), np.zeros((2, length * K))
    plain = nodes.ravel(), T, truth, length, K, np.zeros(length * K, np.int32), repeats
    calls = [lambda: ours(space, blocks.data, w, work, label, repeats)]
    calls += [lambda: _plain_viterbi(*plain, bests[0])]
    if not shutil.which("g++"):
        return calls, [best, bests[0].reshape(best.shape)]
    with tempfile.NamedTemporaryFile(suffix=".so") as library:
        subprocess.run([*GPP, library.name], input=CPP, text=True, check=True)
        loop = ctypes.CDLL(library.name).viterbi
    given = [getattr(value, "ctypes", value) for value in (*plain, bests[1])]
    return [*calls, lambda: loop(*given)], [best, *bests.reshape(2, *best.shape)]


def counting(X, y):
    """All hinges, by oracles that do not count references to arrays, and by ones that do."""
    blocks, outs, loops = Scalar().encode(X, y), np.zeros((2, len(y))), []
    features = blocks.features
    given = features.view(blocks.data), blocks.data, blocks.offsets
    given += np.ones(features.size), np.zeros(1), 0, len(y), blocks.truth
    for allocates in (False, True):
        functions = *Scalar().oracles, *features.functions(None)
        inside = [function and helper(function, allocates) for function in functions]
        loops.append(compiled(make_hinges(Operations(*inside))))
    rest = 1.0, np.zeros(len(y), np.int32)
    return [lambda k=k: loops[k](*given, *rest, outs[k]) for k in range(2)], outs


def passes(count, C, *cases):
    """The first passes of each structure, X and y."""
    problems, duals = [Problem(*case, C=C) for case in cases], np.zeros(2)
    solver = DualCoordinate(shrink=0.0, recentring=0.0, cached_passes=0)

    def run(k):
        state = solver.init(problems[k], np.random.default_rng(0))
        for _ in range(count):
            solver.pass_(problems[k], state, 1.0, lambda: True)
        duals[k] = state.loss_sum - 0.5 * float(state.w @ state.w)

    return [lambda: run(0), lambda: run(1)], duals


def variant(base, change, *arguments):
    """A structure whose features are changed."""

    def encode(self, X, y=None):
        blocks = base.encode(self, X, y)
        return replace(blocks, features=change(blocks.features))

    return type("Variant", (base,), {"encode": encode})(*arguments)


def through(**functions):
    """What gives features other functions of the space."""

    def change(features):
        changed, own = copy.copy(features), features.functions(None)
        changed.functions = lambda structure: own._replace(**functions)
        return changed

    return change


def without_overlaps(features):
    """Inner products through w."""
    changed = copy.copy(features)
    changed.lifts = False
    return changed


def _ask_nothing(space, i):
    """No prefetching of rows."""


def _column_by_column(space, i, s, size, least, w):
    """As the push of Multiclass, for CSR rows without bias."""
    numbers, indices, indptr = space.rows
    for k in range(size):
        if s[k] != 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                w[indices[p] * space.stride + k] += s[k] * numbers[p]


def restless():
    """Multiclass whose step is also made where the block is at its optimum."""
    step = Multiclass.exact_step
    never = FunctionType(step.__code__, step.__globals__ | {"_NOTHING": -1.0})
    never.__module__, never.__qualname__ = __name__, "restless_step"
    return type("Restless", (Multiclass,), {"exact_step": staticmethod(never)})(10)


def shuffles(n=50_000):
    """Random orders of n blocks; only their sums can be compared."""
    rng, blocks, sums = np.random.default_rng(0), np.arange(n), np.zeros(2)

    def ours():
        order = blocks.copy()
        shuffle(order, np.uint64(12345))
        sums[0] = order.sum()

    def numpys():
        sums[1] = rng.permutation(blocks).sum()

    return [ours, numpys], sums


def cases(folder):
    """Name, the calls (with the trick, without, and perhaps in C++), and their results."""
    for labels, dtype in product((10, 26, 105), (np.float64, np.float32)):
        yield f"strips of scores, {labels} labels, {dtype.__name__}", *scores(labels, dtype)
    yield "strips of Viterbi, 26 labels", *viterbi()
    X, y = (part.astype(float) for part in sparse(folder, "a9a", "train"))
    yield "no reference counts, a9a", *counting(X, y)
    unasked = type("Unasked", (Scalar,), {"prefetch": staticmethod(_ask_nothing)})
    unasked = variant(unasked, through(ask=_ask_nothing))
    yield "prefetching, a9a", *passes(10, 1.0, (Scalar(), X, y), (unasked, X, y))
    yield "shuffling, 50,000 blocks", *shuffles()
    X, y = (part.astype(float) for part in sparse(folder, "ijcnn1", "train"))
    csr = variant(Scalar, lambda _: RowFeatures(X))
    yield "full rows dense, ijcnn1", *passes(10, 1.0, (Scalar(), X, y), (csr, X, y))
    X, y = usps(folder)[:2]
    dense = variant(Multiclass, lambda _: RowFeatures(X, columns=10), 10)
    yield "zeros left out, usps", *passes(5, 0.1, (Multiclass(10), X, y), (dense, X, y))
    plain = variant(Multiclass, through(push=_column_by_column), 10)
    yield "moves in strips, usps", *passes(5, 0.1, (Multiclass(10), X, y), (plain, X, y))
    yield "optima left alone, usps", *passes(5, 0.1, (Multiclass(10), X, y), (restless(), X, y))
    letters = Letters(folder)
    X, y, lengths = letters.take(letters.folds != 0)
    words, chain = ((X, np.cumsum([0, *lengths])), y), Chain(26, True)
    by_scores = variant(Chain, without_overlaps, 26, True)
    yield "overlaps of rows, letters", *passes(5, 0.016, (chain, *words), (by_scores, *words))
    (X, y), classes = sparse(folder, "sector", "train"), Multiclass(105)
    pair = [(classes, X.astype(dtype), y.astype(int) - 1) for dtype in (np.float32, np.float64)]
    yield "float32, sector", *passes(3, 1.0, *pair)


def measure(calls, outcomes, repeats):
    """Median CPU seconds of each call, in turns; stops if results differ."""
    for call in calls:
        call()  # compiles
    if not all(np.allclose(outcome, outcomes[0], rtol=1e-3) for outcome in outcomes):
        raise SystemExit("with and without the trick, results differ")
    rounds = [[cpu_time(call)[1] for call in calls] for _ in range(repeats)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def report(results):
    """The table as Markdown."""
    rows = [
        [name, *(f"{1e3 * s:.3g}" for s in row), *["-"] * (3 - len(row))]
        + [" / ".join(f"{s / row[0]:.2f}" for s in row[1:])]
        for name, row in results.items()
    ]
    return markdown(["trick", "with, ms", "without, ms", "g++, ms", "ratio / of g++"], rows)


def plot(ratios, path):
    """Ratios as bars from 1."""
    figure, axis = plt.subplots(figsize=(8, 1 + 0.34 * len(ratios)), layout="constrained")
    values, places = np.array(list(ratios.values())), range(len(ratios))
    colours = np.where(values > 1.0, "#1f5fa8", "#c0392b")
    bars = axis.barh(places, values - 1.0, left=1.0, height=0.6, color=colours)
    axis.bar_label(bars, [f"{value:.2f}" for value in values], padding=4, fontsize=9)
    axis.axvline(1.0, color="black", linewidth=1.0)
    axis.set_yticks(places, list(ratios), fontsize=9)
    axis.invert_yaxis()
    axis.set(xlabel="CPU time without the trick / with it (red: it does not pay)")
    axis.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(path, dpi=130)


def main():
    """Measure all tricks; write JSON, a table and a plot."""
    arguments = parser(__doc__)
    arguments.add_argument("--repeats", type=int, default=9, help="runs of each loop")
    options = arguments.parse_args()
    found = cases(data_folder(options))
    results = {name: measure(*case, options.repeats) for name, *case in found}
    write_json(options.results / "tricks.json", results)
    (options.results / "tricks.md").write_text(report(results) + "\n")
    plot({name: row[1] / row[0] for name, row in results.items()}, options.results / "tricks.png")
    print(report(results))


if __name__ == "__main__":
    main()
