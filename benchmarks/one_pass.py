"""One and two passes over a stream: how far from the optimum, with how much memory.

python benchmarks/one_pass.py --data FOLDER

Rows come in random order, 256 at a time, and in the same order in the second pass. All minimise
P(w) = 1/2 |w|^2 + C sum of hinges without bias; suboptimality is P(w) / P* - 1, where P* is a
certified lower bound within 1e-6 of the optimum. Three settings of `OnlineCache`: as it is; with
room for a quarter of the data's bytes; keeping none but blocks with weight (`reach=0`, Algorithm 2
as it was published). Against them one and two passes of `DualCoordinate` in memory, and stochastic
gradient descent: the step is eta / sqrt(t) or, like that of Pegasos, eta / (1 + alpha eta t), with
five values of eta each, with and without averaging. The first, and its own rule "optimal", are
scikit-learn's `SGDClassifier` on two classes; the second, and all of Crammer and Singer's hinge on
ten, are a loop below. The best of all of them is taken, for each seed, by the very objective that
is reported; its time is that of one run.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from statistics import median

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numba
import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier

from datasets import data_folder, parser, sparse, usps
from linear_rivals import crammer_singer, hinge
from taut import Problem, StreamedProblem, solve
from taut.data import Stream
from taut.errors import CacheOverflow
from taut.solvers import DualCoordinate, OnlineCache
from taut.structures import Multiclass, Scalar
from timing import cpu_time, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

CS = (0.01, 0.1, 1.0)
PASSES = (1, 2)
TARGETS = {1: 1e-2, 2: 2e-3}
ROWS = 256  # of a part of the stream
SHARE = 0.25  # of the data's bytes that the small cache has room for
RATES = {"root": (0.3, 1.0, 3.0, 10.0, 30.0), "Pegasos": (0.003, 0.01, 0.03, 0.1, 0.3)}
METHODS = {  # label, colour, mark
    "default": ("OnlineCache", "#1f5fa8", "o"),
    "quarter": ("OnlineCache, room for a quarter", "#5aa0e0", "D"),
    "reach=0": ("OnlineCache, reach=0", "#8e44ad", "^"),
    "memory": ("DualCoordinate in memory", "#2a8f5b", "s"),
    "SGD": ("SGD, best rate in hindsight", "#e07b1a", "v"),
}


@dataclass(frozen=True)
class Data:
    """Rows with signs or class numbers, their structure and their objective."""

    X: np.ndarray | sp.csr_array
    y: np.ndarray
    structure: Scalar | Multiclass
    objective: Callable

    def shuffled(self, seed):
        """The same rows in another order."""
        order = np.random.default_rng(seed).permutation(len(self.y))
        return Data(self.X[order], self.y[order], self.structure, self.objective)

    def stream(self):
        """The rows in parts."""
        starts = range(0, len(self.y), ROWS)
        return Stream([(self.X[k : k + ROWS], self.y[k : k + ROWS]) for k in starts])

    def primal(self, C, W):
        """P, computed without the library."""
        return self.objective(self.X, self.y, C, W)


def binary(name):
    """A sparse set with signs."""

    def read(folder):
        X, y = sparse(folder, name, "train")
        X, codes = X.astype(np.float64), np.unique(y, return_inverse=True)[1]
        X = sp.csr_array(  # scikit-learn accepts no other type of index
            (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape
        )
        return Data(X, 2.0 * codes - 1.0, Scalar(), hinge)

    return read


def digits(folder):
    """Ten classes."""
    X, y = usps(folder)[:2]
    y = np.unique(y, return_inverse=True)[1]
    return Data(X, y, Multiclass(10), crammer_singer)


DATA = {"a9a": binary("a9a"), "ijcnn1": binary("ijcnn1"), "usps": digits}


def optimum(data, C):
    """A lower bound on P, within a relative 1e-6 of P*."""
    problem = Problem(data.structure, data.X, data.y, C=C)
    proof = solve(problem, DualCoordinate(), tol=1e-6, max_iter=10**6, random_state=0).certificate
    return proof.dual


def quarter(problem):
    """The memory with which the cache has room for a share of the data."""
    plenty, size = 10**12, sum(chunk.nbytes for chunk in problem.source.chunks())
    solver = OnlineCache(memory=plenty)
    fixed = plenty - solver.init(problem, np.random.default_rng(0)).cache_bytes
    return fixed + int(SHARE * size)


def trained(problem, solver, passes, seed):
    """A run of some passes, its CPU seconds without the verification, and the warnings."""
    ends = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CacheOverflow)
        warnings.simplefilter("ignore", ConvergenceWarning)
        began = time.process_time()
        result = solve(
            problem, solver, tol=0.0, max_iter=passes, random_state=seed,
            callbacks=[lambda record: ends.append(time.process_time())],
        )  # fmt: skip
    overflows = sum(issubclass(w.category, CacheOverflow) for w in caught)
    return result, ends[-1] - began, time.process_time() - began, overflows


def weights(data, result):
    """W with a row per class, or one row."""
    columns = 10 if isinstance(data.structure, Multiclass) else 1
    return result.w.reshape(-1, columns).T


def solved(data, C, best, problem, solver, passes, seed):
    """One training by the library."""
    result, seconds, verified, overflows = trained(problem, solver, passes, seed)
    kept = [a for name, a in result.state.items() if name.endswith(".ids")]
    return {
        "suboptimality": data.primal(C, weights(data, result)) / best - 1.0,
        "gap": result.certificate.relative_gap,
        "estimate": result.history.records[-1].relative_gap,
        "seconds": seconds,
        "verified": verified,
        "kept": sum(map(len, kept)),
        "overflows": overflows,
    }


@numba.njit(cache=True)
def descend(X, y, alpha, eta, root, passes, W, mean):
    """Stochastic gradient descent on alpha/2 |W|^2 + mean hinge; W and the mean of all W."""
    step = 0
    for _ in range(passes):
        for i in range(len(y)):
            step += 1
            rate = eta / np.sqrt(step) if root else eta / (1.0 + alpha * eta * step)
            scores = W @ X[i]
            if len(W) == 1:  # y is a sign
                violated = y[i] * scores[0] < 1.0
                W *= 1.0 - rate * alpha
                if violated:
                    W[0] += rate * y[i] * X[i]
            else:
                scores += 1.0
                scores[y[i]] -= 1.0
                k = np.argmax(scores)
                W *= 1.0 - rate * alpha
                W[y[i]] += rate * X[i]
                W[k] -= rate * X[i]
            mean += (W - mean) / step


def own_runs(data, alpha, rules, passes):
    """The loop above, with all rates of some rules: settings, CPU seconds and weights."""
    X = data.X.toarray() if sp.issparse(data.X) else data.X
    shape = (10 if isinstance(data.structure, Multiclass) else 1, X.shape[1])
    for rule in rules:
        for eta in RATES[rule]:
            W, mean = np.zeros(shape), np.zeros(shape)
            arguments = (X, data.y.astype(int), alpha, eta, rule == "root", passes, W, mean)
            _, seconds = cpu_time(lambda arguments=arguments: descend(*arguments))
            yield f"{rule}, {eta}", seconds, W
            yield f"{rule}, {eta}, averaged", seconds, mean


def scikit_learn_runs(data, alpha, passes):
    """`SGDClassifier` with the rules that it has."""
    rules = {"optimal": {"learning_rate": "optimal"}} | {
        f"root, {eta}": {"learning_rate": "invscaling", "eta0": eta, "power_t": 0.5}
        for eta in RATES["root"]
    }
    for rule, options in rules.items():
        for average in (False, True):
            model = SGDClassifier(
                loss="hinge", alpha=alpha, fit_intercept=False, max_iter=passes, tol=None,
                shuffle=False, average=average, **options,
            )  # fmt: skip
            _, seconds = cpu_time(lambda model=model: model.fit(data.X, data.y))
            yield rule + ", averaged" * average, seconds, model.coef_


def gradient_runs(data, C, passes):
    """All settings of stochastic gradient descent."""
    alpha = 1.0 / (C * len(data.y))
    if isinstance(data.structure, Multiclass):
        yield from own_runs(data, alpha, RATES, passes)
    else:
        yield from scikit_learn_runs(data, alpha, passes)
        yield from own_runs(data, alpha, ["Pegasos"], passes)


def descended(data, C, best, passes):
    """The best of all settings of stochastic gradient descent."""
    runs = gradient_runs(data, C, passes)
    found = [(data.primal(C, W) / best - 1.0, t, setting) for setting, t, W in runs]
    return dict(zip(("suboptimality", "seconds", "setting"), min(found), strict=True))


def measure(data, C, seeds):
    """All methods on one problem, in turns: method, passes, one entry per seed."""
    best = optimum(data, C)
    found = {name: {p: [] for p in PASSES} for name in METHODS}
    for seed in range(seeds):
        shuffled = data.shuffled(seed)
        whole = Problem(data.structure, shuffled.X, shuffled.y, C=C)
        stream = StreamedProblem(data.structure, shuffled.stream(), C=C)
        ways = {
            "default": (stream, OnlineCache()),
            "quarter": (stream, OnlineCache(memory=quarter(stream))),
            "reach=0": (stream, OnlineCache(reach=0.0)),
            "memory": (whole, DualCoordinate()),
        }
        for passes in PASSES:
            for name, (problem, solver) in ways.items():
                run = solved(shuffled, C, best, problem, solver, passes, seed)
                found[name][passes].append(run)
            found["SGD"][passes].append(descended(shuffled, C, best, passes))
    return {"optimum": best, "rows": len(data.y), "runs": found}


def column(runs, name):
    """One number of all seeds."""
    return [run[name] for run in runs]


def ranged(values):
    """Median and range."""
    return f"{median(values):.1e} ({min(values):.0e} .. {max(values):.0e})"


def accuracies(cells, passes):
    """Suboptimality of all methods."""
    rows = [
        key.split(", C = ")
        + [ranged(column(r[passes], "suboptimality")) for r in c["runs"].values()]
        for key, c in cells.items()
    ]
    return markdown(["data", "C", *(label for label, _, _ in METHODS.values())], rows)


def costs(cells):
    """Certified gaps, CPU seconds and sizes of the caches."""
    caches = ("default", "quarter", "reach=0")
    rows = []
    for key, cell in cells.items():
        for passes in PASSES:
            runs = {name: found[passes] for name, found in cell["runs"].items()}

            def each(name, form, runs=runs):
                return " / ".join(format(median(column(runs[c], name)), form) for c in caches)

            share = [median(column(runs[c], "kept")) / cell["rows"] for c in caches]
            rows.append(
                [*key.split(", C = "), passes, each("gap", ".1e"), each("estimate", ".1e")]
                + [each("seconds", ".2f")]
                + [each("verified", ".2f"), f"{median(column(runs['memory'], 'seconds')):.3f}"]
                + [f"{median(column(runs['SGD'], 'seconds')):.3f}"]
                + [" / ".join(f"{s:.0%}" for s in share)]
                + [f"{median(column(runs['quarter'], 'overflows')):g}"]
            )
    header = ["data", "C", "passes", "certified gap", "estimated gap", "CPU s"]
    header += ["with the proof", "DualCoordinate, CPU s", "SGD, CPU s", "blocks kept", "overflows"]
    return markdown(header, rows)


def summary(cells):
    """How often the targets are met by the median."""
    lines = []
    for method, (label, _, _) in METHODS.items():
        for passes, target in TARGETS.items():
            values = [
                median(column(cell["runs"][method][passes], "suboptimality"))
                for cell in cells.values()
            ]
            met = sum(value <= target for value in values)
            lines.append(
                f"- {label}, {passes} pass{'es' * (passes > 1)}: within {target:g} in {met} of "
                f"{len(values)} problems, at most {max(values):.1e}."
            )
    return "\n".join(lines)


def report(results):
    """Both tables and the summary."""
    setup = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    parts = [f"Medians and ranges over {results['seeds']} seeds; {setup}."]
    for passes in PASSES:
        title = f"P(w) / P* - 1 after {passes} pass{'es' * (passes > 1)}:"
        parts += [title, accuracies(results["cells"], passes)]
    parts += ["OnlineCache: default / a quarter / reach=0; overflows are those of the second."]
    parts += [costs(results["cells"])]
    return "\n\n".join([*parts, summary(results["cells"])]) + "\n"


def plot(cells, path):
    """Suboptimality, a panel per data set and number of passes."""
    figure, axes = plt.subplots(
        len(PASSES), len(DATA), figsize=(11, 6.5), sharey=True, sharex=True, layout="constrained"
    )
    for line, passes in zip(axes, PASSES, strict=True):
        for axis, name in zip(line, DATA, strict=True):
            for k, (method, (label, colour, mark)) in enumerate(METHODS.items()):
                runs = [cells[f"{name}, C = {C:g}"]["runs"][method][passes] for C in CS]
                values = np.array([column(r, "suboptimality") for r in runs]).clip(min=1e-6)
                x, middle = np.arange(len(CS)) + 0.15 * (k - 2), np.median(values, axis=1)
                spread = np.abs(np.stack([values.min(1), values.max(1)]) - middle)
                style = {"color": colour, "fmt": mark, "markersize": 6, "capsize": 2}
                axis.errorbar(x, middle, spread, label=label, **style)
            axis.axhline(TARGETS[passes], color="black", linewidth=1.0, linestyle="--")
            axis.set_title(f"{name}, {passes} pass{'es' * (passes > 1)}", fontsize=10)
            axis.set_yscale("log")
            axis.grid(axis="y", alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_xticks(range(len(CS)), [f"C = {C:g}" for C in CS])
        line[0].set_ylabel("P(w) / P* - 1 (dashed: target)", fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main():
    """Measure all problems; write JSON, tables and a plot."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=3, help="orders of the rows")
    options = arguments.parse_args()
    folder, cells = data_folder(options), {}
    for name, read in DATA.items():
        data = read(folder)
        measure(data, CS[0], 1)  # compiles
        for C in CS:
            key = f"{name}, C = {C:g}"
            cells[key] = measure(data, C, options.seeds)
            for passes in PASSES:
                runs = {m: cells[key]["runs"][m][passes] for m in METHODS}
                shown = {m: f"{median(column(r, 'suboptimality')):.1e}" for m, r in runs.items()}
                print(key, passes, shown, flush=True)
    packages = ("taut", "numpy", "numba", "scikit-learn")
    results = {"versions": {n: version(n) for n in packages}, "seeds": options.seeds}
    results["cells"] = cells
    write_json(options.results / "one_pass.json", results)
    (options.results / "one_pass.md").write_text(report(results))
    plot(cells, options.results / "one_pass.png")
    print(report(results))


if __name__ == "__main__":
    main()
