"""Functional descent against other online solvers: errors after two epochs, and its parameters.

    python benchmarks/functional_descent.py --data FOLDER [--part table|studies|search|classes]

RBF kernels without a bias, as published: ijcnn1 (gamma 1; the first 35,000 rows, and its test set),
adult (gamma 0.05; random splits of a9a's training rows into 22,696 and 9,865), and the digit 3 of
usps against the rest (gamma 1 / (256 var)). Subsets are 1 % of the rows. Comparators have the
constants that were published for them; those for usps are the ones of adult. Errors are on test
rows, in per cent; times are CPU seconds of one thread; an evaluation is one value of the kernel,
each time that it is computed, for training alone.
"""

from __future__ import annotations

import os
import statistics
import warnings

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

import taut
from datasets import data_folder, mnist5k, parser, sparse, usps
from taut import BinarySVM, ChainSVM, MulticlassSVM, OnlineSVM, Problem
from taut.errors import NotConverged
from taut.kernels import RBF
from taut.solvers import (
    FunctionalDescent,
    LaSVM,
    MiniBatchPegasos,
    OnlineMultiSample,
    PassiveAggressive,
    Perceptron,
    SampledCuts,
    Subgradient,
)
from taut.spaces.expansion import KernelExpansion, KernelPoint
from taut.spaces.kernel import through_kernel
from taut.structures import Chain, Scalar
from taut.training.loop import Run
from timing import cpu_time, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_TRIED = (0.25, 1.0, 4.0, 16.0)  # values of C
_FIRST = 22_696  # rows of adult to learn from
_QUARTERS = 8  # of an epoch, in curves


def adult(folder, seed):
    """A random split of the training rows of a9a."""
    X, y = sparse(folder, "a9a", "train")
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = sp.csr_array(sp.csr_matrix(X)[order], dtype=np.float64), np.sign(y)[order].astype(float)
    return X[:_FIRST], y[:_FIRST], X[_FIRST:], y[_FIRST:], 0.05


def ijcnn1(folder, seed):
    """The first rows of the training set, and the test set."""
    (X, y), (T, t) = sparse(folder, "ijcnn1", "train"), sparse(folder, "ijcnn1", "test")
    X, T = X.toarray()[:35_000].astype(float), T.toarray().astype(float)
    return X, np.sign(y)[:35_000].astype(float), T, np.sign(t).astype(float), 1.0


def usps3(folder, seed):
    """One digit against the rest."""
    X, y, T, t = usps(folder)
    return X, np.where(y == 3, 1.0, -1.0), T, np.where(t == 3, 1.0, -1.0), 1 / (256 * X.var())


SETS = {"ijcnn1": ijcnn1, "adult": adult, "usps 3": usps3}
#: C of Pegasos, averaged, LaSVM and sampled cuts.
PUBLISHED_C = {
    "ijcnn1": (4.0, 11.3, 4.0, 4.0), "adult": (4.0, 8.0, 4.0, 0.5), "usps 3": (4.0, 8.0, 4.0, 0.5),
}  # fmt: skip
#: Errors and, for all values of C that were tried, evaluations: of functional descent with both
#: schedules, Pegasos, averaged, LaSVM and sampled cuts.
PUBLISHED = {
    "ijcnn1": ("3.17", "3.40", "5.79", "7.17", "1.42", "2.66"),
    "adult": ("14.69", "14.81", "19.31", "16.67", "14.91", "14.94"),
}
EVALUATIONS = {
    "ijcnn1": ("3.6e9", "", "1.8e10", "2.0e9", "3.1e9", "5.2e11"),
    "adult": ("1.5e9", "", "6.6e9", "7.7e8", "4.2e9", "2.8e11"),
}
_NONE = ("",) * 6
_AS_PUBLISHED = {"bounds": "both", "averaging": False}


def methods(name):
    """Name: the solver, its C, and what was published of it."""
    C = PUBLISHED_C[name]
    errors, evaluations = PUBLISHED.get(name, _NONE), EVALUATIONS.get(name, _NONE)
    found = list(zip(errors, evaluations))
    bare = {"subset": 0.01} | _AS_PUBLISHED
    return {
        "descent as published, 1/k": (FunctionalDescent(**bare), 1.0, found[0]),
        "descent as published, t/N": (FunctionalDescent(**bare, schedule="linear"), 1.0, found[1]),
        "descent, 1/k": (FunctionalDescent(subset=0.01), 1.0, ("", "")),
        "descent, t/N": (FunctionalDescent(subset=0.01, schedule="linear"), 1.0, ("", "")),
        "descent by residuals, 1/k": (
            FunctionalDescent(subset=0.01, order="residual"),
            1.0,
            ("", ""),
        ),
        "Pegasos": (MiniBatchPegasos(subset=0.01, averaging=False), C[0], found[2]),
        "Pegasos, averaged": (MiniBatchPegasos(subset=0.01), C[1], found[3]),
        "LaSVM": (LaSVM(), C[2], found[4]),
        "sampled cuts": (SampledCuts(subset=0.01), C[3], found[5]),
    }


class Trained:
    """A solver's steps over some rows, and the errors of what they come to."""

    def __init__(self, X, y, gamma, solver, C, seed):
        space = through_kernel(RBF(gamma), cache="4GB", whole=0)
        self.problem = Problem(Scalar(), X, y, C=C, space=space)
        self.run = Run(self.problem, solver, 1e-3, np.random.default_rng(seed))
        self.seconds = 0.0

    @property
    def seen(self):
        """Epochs so far."""
        return self.run.state.seen / self.problem.n_blocks

    def until(self, epochs):
        """Go on until so many examples have been seen, and the pass at its end is over."""

        def go():
            while self.seen < epochs:
                self.run.solver.pass_(self.problem, self.run.state, 1.0, lambda: self.seen < epochs)

        self.seconds += cpu_time(go)[1]
        return self

    @property
    def point(self):
        features = self.problem.data.blocks.features
        return KernelPoint.of(features, self.problem.data.unpad(self.run.state.outcome))

    def error(self, T, t):
        expansion = KernelExpansion(self.problem.data.blocks.features.kernel, self.point)
        scores = expansion.scores(T.astype(np.float32))[:, 0]
        return 100.0 * float(np.mean(np.where(scores > 0.0, 1.0, -1.0) != t))


def _spread(values):
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


def _svm(C, gamma):
    return BinarySVM(C=C, kernel="rbf", gamma=gamma, fit_intercept=False, random_state=0)


def _svc(C, gamma):
    return SVC(C=C, gamma=gamma, cache_size=2000)


def _fitted(model, X, y, T, t):
    """The error in per cent and the CPU seconds of a fit."""
    seconds = cpu_time(lambda: model.fit(X, y))[1]
    return 100.0 * (1.0 - model.score(T, t)), seconds


def _chosen(X, y, gamma, make):
    """The C of least error in three folds, and the CPU seconds that the search took."""
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(np.zeros(len(y)), y))

    def search():
        errors = {
            C: np.mean([_fitted(make(C, gamma), X[a], y[a], X[b], y[b])[0] for a, b in folds])
            for C in _TRIED
        }
        return min(errors, key=lambda C: errors[C])

    return cpu_time(search)


def _bare(axis):
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def table(folder, results, seeds):
    """Errors of all methods after two epochs, and on the way there."""
    rows, raw = [], []
    figure, axes = plt.subplots(1, len(SETS), figsize=(15, 4.5))
    for axis, (name, read) in zip(axes, SETS.items()):
        found, C = {}, _chosen(*_training(read(folder, 0)), _svm)[0]
        for seed in range(seeds):
            X, y, T, t, gamma = read(folder, seed)
            for method, (solver, own_C, published) in methods(name).items():
                one, curve = Trained(X, y, gamma, solver, own_C, seed), []
                if seed == 0:
                    for quarter in range(1, _QUARTERS):
                        curve.append(one.until(quarter / 4).error(T, t))
                figures = (
                    one.until(2).error(T, t), one.seconds, one.problem.data.evaluations,
                    len(one.point.support),
                )  # fmt: skip
                found.setdefault((method, *published), []).append(figures)
                raw.append({"data": name, "method": method, "seed": seed, "figures": figures})
                if curve:
                    at = np.arange(1, _QUARTERS + 1) / 4
                    axis.plot(at, [*curve, figures[0]], "o-", markersize=3, label=method)
            model = _svm(C, gamma)
            error, seconds = _fitted(model, X, y, T, t)
            figures = error, seconds, 0, len(model.support_)
            found.setdefault((f"BinarySVM, C = {C:g}", "", ""), []).append(figures)
            if seed == 0:
                axis.axhline(error, color="black", linewidth=0.8, linestyle=":")
        for (method, published, theirs), all_figures in found.items():
            errors, seconds, evaluations, support = zip(*all_figures)
            rows.append([
                name, method, _spread(errors), published, f"{statistics.median(seconds):.1f}",
                f"{statistics.median(evaluations):.2g}" if evaluations[0] else "", theirs,
                f"{statistics.median(support):.0f}",
            ])  # fmt: skip
            print(rows[-1], flush=True)
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("epochs")
        axis.set_yscale("log")
        shown = np.concatenate([line.get_ydata() for line in axis.get_lines()])
        axis.set_ylim(0.95 * shown.min(), 1.2 * np.quantile(shown, 0.9))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("{x:g}")
        axis.tick_params(axis="y", which="minor", labelsize=7)
        _bare(axis)
    axes[0].set_ylabel("test error, %")
    axes[-1].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(results / "functional_descent_table.png", dpi=80)
    write_json(results / "functional_descent_table.json", raw)
    header = [
        "data", "method", "error", "published", "CPU s", "evaluations",
        "published, with search", "support rows",
    ]  # fmt: skip
    print(markdown(header, rows))


def _training(data):
    X, y, _T, _t, gamma = data
    return X, y, gamma


def studies(folder, results, seeds):
    """Subsets and schedules on adult, four epochs."""
    X, y, T, t, gamma = adult(folder, 0)
    own = _AS_PUBLISHED | {"epochs": 4}
    sizes = {
        f"k = {k}, t/N": FunctionalDescent(subset=k, schedule="linear", **own)
        for k in (10, 50, 100, 200)
    }
    schedules = {
        "10/k": FunctionalDescent(subset=50, factor=10.0, **own),
        "1/k": FunctionalDescent(subset=50, **own),
        "0.1/k": FunctionalDescent(subset=50, factor=0.1, **own),
        "t/N": FunctionalDescent(subset=50, schedule="linear", **own),
        "1/k, ours": FunctionalDescent(subset=50, epochs=4),
    }
    figure, axes = plt.subplots(2, 5, figsize=(19, 7))
    rows = []
    for line, solvers in zip(axes, (sizes, schedules)):
        for label, solver in solvers.items():
            one, support, errors = Trained(X, y, gamma, solver, 1.0, 0), [], []
            quarters = np.arange(1, 17) / 4
            for epochs in quarters:
                one.until(epochs)
                support.append(len(one.point.support))
                errors.append(one.error(T, t))
            steps = one.run.state.steps
            at = np.array([step.seen for step in steps]) / one.problem.n_blocks
            for axis, attribute in zip(line, ("hinge", "with_loss", "square")):
                values = np.array([getattr(step, attribute) for step in steps])
                width = max(len(values) // 60, 1)
                kept = len(values) // width * width
                smooth = values[:kept].reshape(-1, width).mean(axis=1)
                axis.plot(at[:kept:width], smooth, label=label)
            line[3].plot(quarters, errors, label=label)
            line[4].plot(support, errors, "o-", markersize=3, label=label)
            last = steps[-max(len(steps) // 20, 1) :]
            means = [np.mean([getattr(s, n) for s in last]) for n in ("with_loss", "hinge")]
            rows.append([
                label, f"{errors[3]:.2f}", f"{errors[-1]:.2f}", f"{100 * means[0]:.1f}",
                f"{means[1]:.2f}", f"{np.mean([s.square for s in last]):.2g}", support[-1],
            ])  # fmt: skip
            print(rows[-1], flush=True)
        titles = ("mean hinge", "share with a loss", "|u|^2", "test error, %", "test error, %")
        for axis, title in zip(line, titles):
            axis.set_title(title, fontsize=10)
            axis.set_xlabel("epochs" if axis is not line[4] else "support rows")
            _bare(axis)
        line[2].set_yscale("log")
        for axis in line[3:]:
            axis.set_ylim(14.5, 17.5)
        line[0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(results / "functional_descent_studies.png", dpi=80)
    header = ["", "error, 1 epoch", "4 epochs", "with a loss, %", "hinge", "|u|^2", "support rows"]
    print(markdown(header, rows))


def search(folder, results, seeds):
    """With and without a search of C; budgets; subsets by residuals."""
    rows = []
    for name, read in SETS.items():
        X, y, T, t, gamma = read(folder, 0)
        for label, make in (("BinarySVM", _svm), ("SVC", _svc)):
            C, seconds = _chosen(X, y, gamma, make)
            model = make(C, gamma)
            error, fit = _fitted(model, X, y, T, t)
            rows.append([
                name, f"{label}, C = {C:g}", f"{error:.2f}", f"{fit:.1f}", f"{fit + seconds:.1f}",
                len(model.support_),
            ])  # fmt: skip
            print(rows[-1], flush=True)
        one = Trained(X, y, gamma, LaSVM(), PUBLISHED_C[name][2], 0).until(2)
        error, fit = f"{one.error(T, t):.2f}", f"{one.seconds:.1f}"
        rows.append([name, "LaSVM, published C", error, fit, "", len(one.point.support)])
        print(rows[-1], flush=True)
        for label, settings in {
            "OnlineSVM": {}, "t/N": {"schedule": "linear"},
            "by residuals": {"order": "residual"},
            "by residuals, t/N": {"order": "residual", "schedule": "linear"},
            "budget 2000": {"budget": 2000}, "budget 500": {"budget": 500},
            "budget 500, t/N": {"budget": 500, "schedule": "linear"},
            "budget 500, rows dropped": {"budget": 500, "overflow": "remove"},
        }.items():  # fmt: skip
            model = OnlineSVM(
                kernel="rbf", gamma=gamma, fit_intercept=False, subset=0.01, random_state=0,
                **settings,
            )  # fmt: skip
            error, fit = _fitted(model, X, y, T, t)
            rows.append([
                name, label, f"{error:.2f}", f"{fit:.1f}", f"{fit:.1f}", len(model.support_)
            ])  # fmt: skip
            print(rows[-1], flush=True)
    print(markdown(["data", "model", "error", "fit, CPU s", "with search", "support rows"], rows))


def _letters(folder):
    """Words of one fold to learn from, and those of the others: rows, offsets and labels."""
    with np.load(next((folder / "ocr_letters").glob("*.npz"))) as stored:
        X, y, lengths, folds = (stored[name] for name in ("X", "y", "lengths", "folds"))
    ends = np.cumsum(lengths)
    parts = []
    for own in (folds == 0, folds != 0):
        spans = [np.arange(end - n, end) for end, n in zip(ends[own], lengths[own])]
        rows, offsets = np.concatenate(spans), np.append(0, np.cumsum(lengths[own]))
        parts.append((X[rows].astype(float), offsets, y[rows].astype(int)))
    return parts


def classes(folder, results, seeds):
    """Several classes through kernels, chains of letters, and sorted streams."""
    rows = []
    X, y = mnist5k()
    half = np.random.default_rng(0).permutation(len(y))
    own, other = half[: len(half) // 2], half[len(half) // 2 :]
    sets = {"usps": usps(folder), "mnist5k, halves": (X[own], y[own], X[other], y[other])}
    for name, (X, y, T, t) in sets.items():
        best = MulticlassSVM(C=10.0, kernel="rbf", random_state=0).fit(X, y)
        errors = {"MulticlassSVM, C = 10": [100 * (1 - best.score(T, t))] * 2}
        in_order, by_class = slice(None), np.argsort(y, kind="stable")
        for label, settings, some in (
            ("OnlineSVM, 1/k", {}, in_order),
            ("OnlineSVM, t/N", {"schedule": "linear"}, in_order),
            ("OnlineSVM, by residuals", {"order": "residual"}, in_order),
            ("OnlineSVM, in the order of the file", {"order": "window"}, in_order),
            ("OnlineSVM, sorted by class", {"order": "window"}, by_class),
            ("as published, order of the file", {"order": "window"} | _AS_PUBLISHED, in_order),
            ("as published, sorted by class", {"order": "window"} | _AS_PUBLISHED, by_class),
        ):
            model = OnlineSVM(kernel="rbf", subset=0.01, random_state=0, **settings)
            curve = model.fit(X[some], y[some], validation=(T, t)).learning_curve_
            errors[label] = (100 * curve.validation_error).tolist()
        for label, some in (("order of the file", in_order), ("sorted by class", by_class)):
            solver = MiniBatchPegasos(subset=0.01, order="window")
            errors[f"Pegasos, averaged, {label}"] = [
                100 * (1 - _passes(solver, epochs).fit(X[some], y[some]).score(T, t))
                for epochs in (1, 2)
            ]
        _report(rows, name, errors)
    _report(rows, "letters of words", _errors_of_words(folder))
    print(markdown(["data", "model", "error, 1 epoch", "2 epochs"], rows))


def _passes(solver, epochs):
    """Classes through a kernel after some passes of a solver."""
    return MulticlassSVM(
        C=10.0, kernel="rbf", solver=solver, max_iter=epochs, cache="2GB", random_state=0
    )


def _report(rows, name, errors):
    for label, found in errors.items():
        rows.append([name, label, *(f"{error:.2f}" for error in found)])
        print(rows[-1], flush=True)


def _errors_of_words(folder):
    """Errors of letters after one and two epochs, by solver."""
    (X, offsets, y), (T, ends, t) = _letters(folder)
    chain = Chain(int(max(y.max(), t.max())) + 1, boundary=True)
    best = ChainSVM(C=0.1, random_state=0)
    best.fit(np.split(X, offsets[1:-1]), np.split(y, offsets[1:-1]))
    found = 100 * (1 - best.score(np.split(T, ends[1:-1]), np.split(t, ends[1:-1])))
    errors = {"ChainSVM, C = 0.1": [found, found]}
    data = taut.binding.bind(chain, (T, ends), t)
    for label, solver, C in (
        ("functional descent, k = 50", FunctionalDescent(), 1.0),
        ("functional descent, k = 10", FunctionalDescent(subset=10), 1.0),
        ("Pegasos, k = 10", MiniBatchPegasos(subset=10), 0.1),
        ("Pegasos, one by one", Subgradient(), 0.1),
        ("passive-aggressive", PassiveAggressive(), 0.1),
        ("perceptron", Perceptron(), 0.1),
        ("multi-sample, online", OnlineMultiSample(), 0.1),
    ):
        problem = Problem(chain, (X, offsets), y, C=C)
        run = Run(problem, solver, 1e-3, np.random.default_rng(0))
        errors[label] = []
        for _ in range(2):
            while not solver.pass_(problem, run.state, 1.0, lambda: True).event.over:
                pass
            w = problem.weights(np.array(run.state.outcome))
            errors[label].append(100 * float(np.mean(data.labels(w) != t)))
    return errors


PARTS = {"table": table, "studies": studies, "search": search, "classes": classes}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--part", choices=[*PARTS, "all"], default="all")
    arguments.add_argument("--seeds", type=int, default=5)
    options = arguments.parse_args()
    folder = data_folder(options)
    options.results.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore", NotConverged)  # nothing here is to converge
    for name, part in PARTS.items():
        if options.part in (name, "all"):
            part(folder, options.results, options.seeds)


if __name__ == "__main__":
    main()
