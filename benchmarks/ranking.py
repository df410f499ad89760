"""Ranking web documents: NDCG against LinearSVC on pair differences, and time to one objective.

python benchmarks/ranking.py --data FOLDER

Features are as given, in [0, 1]. C is chosen for each method by five-fold cross-validation over the
training queries, by mean NDCG@10. The times compare the pairwise hinge, the same objective for
all: taut on the documents, LIBLINEAR and scikit-learn on the differences of all pairs, whose making
is not timed. `timing` says how times to an accuracy are found.
"""

from __future__ import annotations

import functools
import itertools
import os
from importlib.metadata import version

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import KFold
from sklearn.svm import LinearSVC

from datasets import data_folder, sparse
from linear_rivals import (
    ACCURACIES,
    OUR_SETTINGS,
    PACKAGES,
    Family,
    arguments,
    hinge,
    liblinear,
    scikit_learn,
    slashed,
)
from taut import RankSVM
from taut.metrics import ndcg
from timing import Method, Run, cpu_time, markdown, sweep, time_ratio, write_json

CS = tuple(10.0**e for e in range(-5, 2))
TIMED_CS = (0.001, 0.01, 0.1, 1.0)
DEPTHS = (5, 10)
MAX_PASSES = 1_000_000
COLOURS = {"taut, ndcg": "#e07b1a", "taut, pairwise": "#1f5fa8", "LinearSVC on pairs": "#2a8f5b"}


class Documents:
    """Rows, relevances, and how many rows each query has."""

    def __init__(self, X, y, lengths):
        self.X, self.y, self.lengths = X, y, lengths
        self.offsets = np.concatenate([[0], np.cumsum(lengths)])

    def take(self, queries):
        """Some of the queries."""
        rows = np.concatenate([np.arange(*self.offsets[q : q + 2]) for q in queries])
        return Documents(self.X[rows], self.y[rows], self.lengths[queries])

    def differences(self):
        """Each pair of different relevance as a row and its sign, with both signs in turn."""
        pairs = [
            (a, b)
            for first, last in itertools.pairwise(self.offsets)
            for a in range(first, last)
            for b in range(first, last)
            if self.y[a] > self.y[b]
        ]
        better, worse = np.array(pairs).T
        signs = np.where(np.arange(len(pairs)) % 2, 1, -1)
        return signs[:, None] * (self.X[better] - self.X[worse]), signs


def load(folder, split):
    """The documents of a split, in float64."""
    X, y = sparse(folder, "lightgbm_rank", split)
    lengths = np.load(folder / "lightgbm_rank" / f"{split}.npz")["group"]
    return Documents(X.toarray().astype(np.float64), y.astype(np.float64), lengths)


def by_taut(loss):
    """The weights of RankSVM."""

    def train(documents, C):
        model = RankSVM(C=C, loss=loss, random_state=0, max_iter=MAX_PASSES)
        return model.fit(documents.X, documents.y, lengths=documents.lengths).coef_

    return train


def by_pairs(documents, C):
    """The weights of a classifier of pair differences."""
    model = LinearSVC(
        C=C, loss="hinge", dual=True, fit_intercept=False, tol=1e-3, max_iter=MAX_PASSES,
        random_state=0,
    )  # fmt: skip
    return model.fit(*documents.differences()).coef_[0]


METHODS = {
    "taut, ndcg": by_taut("ndcg"),
    "taut, pairwise": by_taut("pairwise"),
    "LinearSVC on pairs": by_pairs,
}


def measure(documents, w, k):
    """Mean NDCG@k."""
    return ndcg(documents.y, documents.X @ w, k=k, lengths=documents.lengths)


def validate(train, documents, C):
    """NDCG@10 by five-fold cross-validation over queries."""
    folds = KFold(5, shuffle=True, random_state=0).split(documents.lengths)
    return [measure(documents.take(out), train(documents.take(kept), C), 10) for kept, out in folds]


def each_query(documents, w, k):
    """NDCG@k of each query."""
    parts = itertools.pairwise(documents.offsets)
    return np.array([ndcg(documents.y[i:j], documents.X[i:j] @ w, k=k) for i, j in parts])


def with_error(values):
    """The mean over queries and its standard error."""
    return f"{values.mean():.4f} +- {values.std(ddof=1) / np.sqrt(len(values)):.4f}"


def accuracy(train_set, test_set):
    """For each method: the curve of validation, C, and NDCG on the test queries."""
    found = {}
    for name, train in METHODS.items():
        curve = [float(np.mean(validate(train, train_set, C))) for C in CS]
        C = CS[int(np.argmax(curve))]
        w = train(train_set, C)
        found[name] = {
            "curve": curve,
            "C": C,
            "validation": max(curve),
            "test": {k: each_query(test_set, w, k).tolist() for k in DEPTHS},
        }
        print(name, f"C = {C:g}, validation {max(curve):.4f}", flush=True)
    return found


def ours(documents, C):
    """taut, warm, so that no compilation is timed."""

    def run(tol, seed):
        model = RankSVM(C=C, tol=tol, random_state=seed, max_iter=MAX_PASSES)
        fit = functools.partial(model.fit, documents.X, documents.y, lengths=documents.lengths)
        _, seconds = cpu_time(fit)
        return Run(seconds, model.coef_[None])

    run(1.0, 0)
    return Method(run, OUR_SETTINGS, at_least=min(ACCURACIES))


def speed(documents, options):
    """Times to equal suboptimality at each C."""
    pairs, signs = documents.differences()
    family = Family(
        data={}, Cs=TIMED_CS, dtypes=(), estimator=RankSVM, liblinear_options="-s 3",
        objective=hinge,
        scikit_learn=functools.partial(LinearSVC, loss="hinge", dual=True),
    )  # fmt: skip
    cells = {}
    for C in TIMED_CS:
        tight = RankSVM(C=C, tol=1e-7, random_state=0, max_iter=MAX_PASSES, time_limit=60.0)
        proof = tight.fit(documents.X, documents.y, lengths=documents.lengths).certificate_
        best = 0.5 * (proof.primal + proof.dual)
        reached = []

        def suboptimality(W, C=C, best=best, reached=reached):
            reached.append(hinge(pairs, signs, C, W))
            return reached[-1] / best - 1.0

        methods = {
            "taut": ours(documents, C),
            "LIBLINEAR": liblinear(family, pairs, signs, C),
            "scikit-learn": scikit_learn(family, pairs, signs, C),
        }
        traces = sweep(
            methods, suboptimality, min(ACCURACIES),
            repeats=options.repeats, limit=options.limit, seed=options.seed,
        )  # fmt: skip
        rivals = [traces["LIBLINEAR"], traces["scikit-learn"]]
        cells[f"{C:g}"] = {
            "optimum": (proof.dual, proof.primal),
            "least": min(reached),
            "ratios": [time_ratio(traces["taut"], rivals, e) for e in ACCURACIES],
            "seconds": {n: [t.seconds_to(e) for e in ACCURACIES] for n, t in traces.items()},
            "certified": [traces["taut"].seconds_at(e) for e in ACCURACIES],
            "traces": traces,
        }
        print(f"C = {C:g}", list(map(str, cells[f"{C:g}"]["ratios"])), flush=True)
    return cells


def report(results):
    """Both tables as Markdown."""
    base = results["accuracy"]["LinearSVC on pairs"]["test"]
    rows = [
        [name, f"{found['C']:g}", f"{found['validation']:.4f}"]
        + [with_error(np.array(found["test"][k])) for k in DEPTHS]
        + [with_error(np.array(found["test"][k]) - base[k]) for k in DEPTHS]
        for name, found in results["accuracy"].items()
    ]
    header = ["method", "C", "validation NDCG@10", *(f"test NDCG@{k}" for k in DEPTHS)]
    header += [f"gain over LinearSVC, @{k}" for k in DEPTHS]
    timed = [
        [C, *cell["ratios"], slashed(cell["seconds"]["taut"]), slashed(cell["certified"])]
        + [slashed(cell["seconds"][name]) for name in ("LIBLINEAR", "scikit-learn")]
        for C, cell in results["speed"].items()
    ]
    names = ["taut, s", "certified, s", "LIBLINEAR, s", "scikit-learn, s"]
    setup = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    return "\n\n".join([
        f"One thread; {results['pairs']} pairs of {results['documents']} documents; {setup}.",
        markdown(header, rows),
        "Ratios of CPU time, rival / taut, to relative suboptimality of the pairwise objective.",
        markdown(["C", *(f"{e:g}" for e in ACCURACIES), *names], timed),
    ]) + "\n"  # fmt: skip


def plot(results, path):
    """Validation by C, and CPU time to suboptimality at one C."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for name, found in results["accuracy"].items():
        left.plot(CS, found["curve"], "o-", color=COLOURS[name], label=name, markersize=4)
    left.set(xscale="log", xlabel="C", ylabel="NDCG@10, cross-validation over queries")
    cell = results["speed"]["0.1"]
    marks = {"taut": ("#1f5fa8", "o"), "LIBLINEAR": ("#2a8f5b", "s"), "scikit-learn": ("grey", "D")}
    for name, trace in cell["traces"].items():
        colour, marker = marks[name]
        points = [(p.median, np.median(p.suboptimality)) for p in trace.points]
        points = [(t, s) for t, s in points if s > 1e-6]
        right.loglog(*zip(*points, strict=True), marker, color=colour, label=name, markersize=4)
    right.set(xlabel="CPU seconds, one thread", ylabel="(P - P*) / P*, pairwise, C = 0.1")
    for axis in (left, right):
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main():
    """Measure, and keep the results."""
    options = arguments(__doc__)
    folder = data_folder(options)
    train_set, test_set = load(folder, "train"), load(folder, "test")
    results = {
        "versions": {name: version(name) for name in PACKAGES},
        "documents": len(train_set.y),
        "pairs": len(train_set.differences()[1]),
        "speed": speed(train_set, options),
        "accuracy": accuracy(train_set, test_set),
    }
    write_json(options.results / "ranking.json", results)
    (options.results / "ranking.md").write_text(report(results))
    plot(results, options.results / "ranking.png")
    print(report(results))


if __name__ == "__main__":
    main()
