"""Working sets by mini-batches, and whether classes that are alike should share what they learn.

python benchmarks/working_set.py --data FOLDER [--part choose|cost|share|sharing|joint]

usps: all 7291 rows, an RBF kernel times the similarity of the ten classes, by the matrix of all
rows. Questions (TREC): tf-idf, a linear kernel times a tree of 50 classes in six groups as label
kernel. Both have the finite map of the classes (`SimilarClasses`); `joint` takes the same kernel
by the table of pairs (`JointKernel`), on fewer rows, and boxes with poses, whose angles have a von
Mises kernel, by the table and by its Fourier terms.

Boxes with poses, generated, have an oracle in Python. An epoch asks the oracle once for each row;
those of dual coordinate ascent do so every other time, or less.

Variants take turns, one thread, CPU seconds of passes with the loop's verifications. Gaps are those
of bounds that are computed afresh off the clock; a run ends at 1e-3, or at --limit. C and how much
classes share were chosen on a quarter of the training rows (`choose`), never on test rows.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np

from curves import watch
from datasets import data_folder, parser, trec, usps
from taut import Problem, solve
from taut.kernels import RBF, ClassSimilarity, Linear, PairProduct, VonMisesLabels
from taut.solvers import DualCoordinate, OneSlack, WorkingSet
from taut.spaces.kernel import through_kernel
from taut.structures import JointKernel, SimilarClasses
from timing import markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

GAPS = (1e-2, 1e-3)
#: Name: solver, colour, line.
VARIANTS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "batches of 50": (lambda: WorkingSet(), "#c0392b", "-"),
    "closed form": (lambda: WorkingSet(update="closed_form"), "#e07b1a", "-"),
    "3 planes": (lambda: WorkingSet(n_planes=3), "#1f5fa8", "-"),
    "10 planes": (lambda: WorkingSet(n_planes=10), "#1f5fa8", "--"),
    "batches by gap": (lambda: WorkingSet(order="gap"), "#17a2b8", "-"),
    "all at once": (lambda: WorkingSet(batch=None), "#8e44ad", "-"),
    "1-slack": (lambda: OneSlack(), "#5d6d7e", "--"),
    "dual coordinate": (lambda: DualCoordinate(), "#1e8449", ":"),
}
STRENGTHS = (0.0, 0.25, 0.5, 0.75, 0.9)
PARTS = (0.1, 0.3, 1.0)


@dataclass(frozen=True)
class Data:
    """Rows with class numbers, the similarity of classes, and the kernel of rows, if not linear.

    C and `strength` are what `choose` found on all training rows.
    """

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    similar: Callable[[Any, np.ndarray], np.ndarray]
    gamma: float | None
    Cs: tuple[float, ...]
    C: float
    strength: float

    @property
    def n_classes(self):
        return len(self.similar(self.X, self.y))

    def map(self, strength):
        """L of (1 - strength) I + strength T."""
        shared = self.similar(self.X, self.y)
        return ClassSimilarity((1.0 - strength) * np.eye(len(shared)) + strength * shared).map

    def problem(self, C, strength, whole=True):
        """The training rows; with the matrix of all of them, or rows as they are asked for."""
        structure = SimilarClasses(self.n_classes, label_map=self.map(strength))
        space = None
        if self.gamma is not None:
            space = through_kernel(RBF(self.gamma), whole=len(self.y) if whole else 0)
        return Problem(structure, self.X, self.y, C=C, space=space)

    def tester(self, strength):
        """What turns weights into the share of wrong answers to the test part."""
        rows = self.X_test if self.gamma is None else RBF(self.gamma)(self.X_test, self.X)
        L = self.map(strength)

        def error(w):
            scores = (rows @ w.reshape(-1, L.shape[1])) @ L.T
            return float((scores.argmax(axis=1) != self.y_test).mean())

        return error

    def tenth(self):
        """Every tenth row."""
        return self.take(np.arange(0, len(self.y), 10))

    def take(self, rows, test=None):
        """Some of the training rows, and perhaps others of them in the place of the test part."""
        own = (self.X_test, self.y_test) if test is None else (self.X[test], self.y[test])
        return Data(
            self.X[rows], self.y[rows], *own, self.similar, self.gamma, self.Cs, self.C,
            self.strength,
        )  # fmt: skip


def means_alike(X, y):
    """A Gaussian of the distances of the classes' means, of the median width."""
    means = np.array([X[y == k].mean(axis=0) for k in range(int(y.max()) + 1)])
    squares = ((means[:, None] - means) ** 2).sum(axis=2)
    return np.exp(-squares / np.median(squares[np.triu_indices(len(means), 1)]))


def read_usps(folder):
    """Digits."""
    X, y, X_test, y_test = usps(folder)
    first = y.min()
    gamma = 1.0 / (X.shape[1] * X.var())
    return Data(
        X, y - first, X_test, y_test - first, means_alike, gamma, (0.3, 1.0, 3.0, 10.0, 30.0),
        C=3.0, strength=0.25,
    )  # fmt: skip


def read_questions(folder):
    """Questions, with classes in the order of their names."""
    X, y, X_test, y_test, tree = trec(folder)
    names, codes = np.unique(y, return_inverse=True)
    numbers = {name: k for k, name in enumerate(names.tolist())}
    numbered = {group: [numbers[name] for name in own] for group, own in tree.items()}
    alike = ClassSimilarity(numbered).matrix
    return Data(
        X, codes, X_test, np.searchsorted(names, y_test), lambda X, y: alike, None,
        (0.3, 1.0, 3.0, 10.0, 30.0), C=3.0, strength=0.25,
    )  # fmt: skip


POSES = 2.0 * np.pi * np.arange(16) / 16
BOXES = 12


@dataclass(frozen=True)
class Poses:
    """Generated images of twelve boxes, one with an object whose features turn with its pose.

    The oracle lists boxes times poses, in Python, by the table of pairs.
    """

    n: int = 100
    explicit: bool = False
    memory: str = "1GB"
    C: float = 0.3
    strength: float = 0.0

    def images(self, n, seed):
        """Features of each box, and box and angle of the object."""
        basis = np.random.default_rng(0).normal(size=(3, 30))
        rng, X, y = np.random.default_rng(seed), [], []
        for _ in range(n):
            box, angle = int(rng.integers(BOXES)), float(rng.choice(POSES))
            x = 1.5 * rng.normal(size=(BOXES, 30))
            x[box] += np.array([1.0, np.cos(angle), np.sin(angle)]) @ basis
            X.append(x)
            y.append((box, angle))
        return X, y

    def problem(self, C, strength):
        """A linear kernel on features of a box times a von Mises kernel on angles."""
        kernel = PairProduct(
            Linear(), VonMisesLabels(2.0), features=lambda x, box: x[box],
            part=lambda label: label[0], aspect=lambda label: label[1],
        )  # fmt: skip
        labels = [(box, float(angle)) for box in range(BOXES) for angle in POSES]
        structure = JointKernel(
            kernel, labels=labels, loss=turned, memory=self.memory, explicit=self.explicit
        )
        return Problem(structure, *self.images(self.n, 1), C=C)

    def tester(self, strength):
        """What turns weights into the mean loss on 200 other images."""
        structure = self.problem(self.C, strength).structure
        X, y = self.images(200, 2)

        def error(w):
            pairs = zip(X, y, strict=True)
            return float(np.mean([turned(t, structure.argmax(x, w)) for x, t in pairs]))

        return error

    def tenth(self):
        """Few images."""
        return replace(self, n=self.n // 10)


def turned(truth, label):
    """Half a wrong box, and the angle by which the pose is off over a full turn."""
    turn = abs(truth[1] - label[1])
    return 0.5 * (truth[0] != label[0]) + min(turn, 2.0 * np.pi - turn) / (2.0 * np.pi)


SETS = {"usps": read_usps, "questions": read_questions}


# What it costs


def cost(data, options):
    """Curves of all variants, which take turns; the first round compiles, on a few rows."""
    problem, error = data.problem(data.C, data.strength), data.tester(data.strength)
    small = data.tenth().problem(data.C, data.strength)
    curves = {name: [] for name in VARIANTS}
    for make, _colour, _line in VARIANTS.values():
        watch(small, make(), limit=np.inf, gap=0.0, tol=1e-9, seed=0, passes=6)
    for seed in range(options.repeats):
        for name, (make, _colour, _line) in VARIANTS.items():
            curves[name].append(
                watch(
                    problem, make(), limit=options.limit, gap=GAPS[-1], tol=GAPS[-1], seed=seed,
                    test=error, growth=1.1,
                )
            )  # fmt: skip
            last = curves[name][-1]
            print(
                f"  {name}: {last.passes[-1]} passes, {last.seconds[-1]:.3g} s, gap "
                f"{1.0 - last.dual[-1] / last.primal[-1]:.2g}, error {last.test[-1]:.4g}",
                flush=True,
            )
    return curves


def middle(values):
    """The median, where None is later than all; None if that is the median."""
    found = statistics.median(np.inf if value is None else value for value in values)
    return None if np.isinf(found) else found


def cost_table(cells, options):
    """Seconds and epochs to each gap, and seconds by those of the first variant."""
    rows = []
    for data, curves in cells.items():
        first = {
            gap: middle(c.seconds_to(gap) for c in next(iter(curves.values()))) for gap in GAPS
        }
        for name, own in curves.items():
            line = [data, name]
            for gap in GAPS:
                seconds = middle(curve.seconds_to(gap) for curve in own)
                epochs = middle(curve.passes_to(gap) for curve in own)
                if seconds is None:
                    line += [f"> {options.limit:g}", f"> {options.limit / first[gap]:.2g}", "-"]
                else:
                    line += [f"{seconds:.3g}", f"{seconds / first[gap]:.2g}", f"{epochs:g}"]
            rows.append(line)
    header = ["data", "variant"]
    for gap in GAPS:
        header += [f"s to {gap:g}", "by the first's", "epochs"]
    return markdown(header, rows)


def epoch_table(cells):
    """Test errors after epochs, and at the end."""
    rows = []
    for data, curves in cells.items():
        for name, own in curves.items():
            errors = [middle(curve.test_after(n) for curve in own) for n in (1, 2, 5)]
            errors.append(middle(curve.test[-1] for curve in own))
            gaps = [middle(gap_after(curve, n) for curve in own) for n in (1, 2, 5)]
            shown = ["-" if e is None else f"{100 * e:.2f}" for e in errors]
            shown += ["-" if g is None else f"{g:.2g}" for g in gaps]
            rows.append([data, name, *shown])
    header = ["data", "variant", "error %, 1 epoch", "2", "5", "end", "gap, 1 epoch", "2", "5"]
    return markdown(header, rows)


def gap_after(curve, passes):
    """The relative gap when so many passes were over."""
    points = zip(curve.passes, curve.primal, curve.dual, strict=True)
    return next((1.0 - d / p for done, p, d in points if done >= passes), None)


def plot(cells, path):
    """Gap over time and over epochs, and error over epochs, a row per data set."""
    shape = {"figsize": (12.0, 0.9 + 3.2 * len(cells)), "layout": "constrained"}
    figure, axes = plt.subplots(len(cells), 3, squeeze=False, **shape)
    for (name, curves), row in zip(cells.items(), axes, strict=True):
        for label, own in curves.items():
            _make, colour, line = VARIANTS[label]
            style = {"color": colour, "linestyle": line, "linewidth": 1.5, "label": label}
            style |= {"marker": ".", "markersize": 4}
            curve = own[0]
            gaps = np.maximum(1.0 - np.array(curve.dual) / np.array(curve.primal), 1e-5)
            row[0].plot(curve.seconds, gaps, **style)
            row[1].plot(curve.passes, gaps, **style)
            row[2].plot(curve.passes, 100.0 * np.array(curve.test), **style)
        row[0].set(xlabel="CPU seconds", ylabel=f"{name}: relative gap", yscale="log")
        row[1].set(xlabel="epochs", yscale="log")
        row[2].set(xlabel="epochs", ylabel="100 times mean loss" if name == "poses" else "error, %")
        lowest = min(100.0 * min(curve.test) for own in curves.values() for curve in own)
        row[2].set(ylim=(0.9 * lowest, 2.2 * lowest), xlim=(0.9, 40.0))
        for axis in row:
            axis.set_xscale("log")
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
            axis.tick_params(labelsize=8)
        for axis in row[:2]:
            axis.set_ylim(GAPS[-1] / 2.0, 1.0)
            for gap in GAPS:
                axis.axhline(gap, color="black", linewidth=0.8, linestyle=":")
        for axis in row[1:]:
            axis.xaxis.set_major_formatter("{x:g}")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)


# Where the time goes


class Timed(WorkingSet):
    """Knows how long updates took, and with them the rest: what the oracle found."""

    spent = 0.0

    def _timed(self, update, *arguments):
        start = time.process_time()
        update(*arguments)
        self.spent += time.process_time() - start

    def _solve(self, *arguments):
        self._timed(super()._solve, *arguments)

    def _step(self, *arguments):
        self._timed(super()._step, *arguments)


def shares(problem, tol=GAPS[-1]):
    """Of each update the share of a run that is not the QP, whole seconds and oracle calls."""
    rows = []
    for update in ("solve", "closed_form"):
        solver = Timed(update=update)
        solve(problem, Timed(update=update), tol=tol, max_iter=1, random_state=0)
        start = time.process_time()
        certificate = solve(problem, solver, tol=tol, max_iter=500, random_state=0).certificate
        seconds = time.process_time() - start
        rows.append(
            [update, f"{100.0 * (1.0 - solver.spent / seconds):.0f}", f"{seconds:.3g}",
             f"{certificate.oracle_calls / problem.n_blocks:.3g}",
             f"{certificate.relative_gap:.1e}"]
        )  # fmt: skip
    return rows


# Whether sharing helps


def fitted(data, C, strength):
    """The share of wrong answers to the test part, after training to a gap of 1 %."""
    w = solve(data.problem(C, strength, whole=False), DualCoordinate(), tol=1e-2, random_state=0).w
    return data.tester(strength)(w)


def validated(data, rng):
    """Errors on a quarter of the rows for each strength and C."""
    order = rng.permutation(len(data.y))
    held, kept = np.split(order, [len(order) // 4])
    inner = data.take(kept, held)
    return {(s, C): fitted(inner, C, s) for s in STRENGTHS for C in data.Cs}


def sharing(data, options):
    """Mean test errors of each strength, and of that which validation chooses."""
    rows = []
    for part in PARTS:
        found, chosen = [], []
        for seed in range(1 if part == 1.0 else options.subsets):
            rng = np.random.default_rng(seed)
            some = data.take(subset(data.y, part, rng))
            errors = validated(some, rng)
            Cs = [min(data.Cs, key=lambda C, s=s: (errors[s, C], C)) for s in STRENGTHS]
            held_out = [errors[s, C] for s, C in zip(STRENGTHS, Cs, strict=True)]
            chosen.append(int(np.argmin(held_out)))
            pairs = zip(STRENGTHS, Cs, strict=True)
            found.append([100.0 * fitted(some, C, s) for s, C in pairs])
        test = np.array(found)
        picked = test[np.arange(len(test)), chosen]
        rows.append(
            [f"{100 * part:g} %", len(some.y), len(test)]
            + [f"{value:.2f}" for value in test.mean(axis=0)]
            + [f"{picked.mean():.2f}", ", ".join(f"{STRENGTHS[k]:g}" for k in chosen)]
        )
        print("  ", rows[-1], flush=True)
    return rows


def subset(y, part, rng):
    """So many rows of each class, one at least."""
    if part == 1.0:
        return np.arange(len(y))
    kept = [
        rng.permutation(np.flatnonzero(y == k))[: max(1, round(part * (y == k).sum()))]
        for k in range(int(y.max()) + 1)
    ]
    return np.sort(np.concatenate(kept))


# The table of pairs


def as_table(data, n, memory):
    """The joint kernel of the first n rows of usps as a product, by the table of pairs."""
    similar = ClassSimilarity(data.map(data.strength) @ data.map(data.strength).T)
    structure = JointKernel(
        PairProduct(RBF(data.gamma), similar), labels=range(data.n_classes), memory=memory
    )
    return Problem(structure, data.X[:n], data.y[:n].tolist(), C=data.C)


def joint(data, options):
    """Time, calls and the share of the oracle, by the table of pairs and by finite maps."""
    n, rows = options.pairs, []
    some = data.take(np.arange(n))
    problems = {
        f"usps {n}, table of pairs": lambda: as_table(data, n, options.memory),
        f"usps {n}, map of the classes": lambda: some.problem(data.C, data.strength),
        "poses, table of pairs": lambda: Poses().problem(0.3, 0.0),
        "poses, explicit": lambda: Poses(explicit=True).problem(0.3, 0.0),
    }
    for name, make in problems.items():
        for row in shares(make(), 1e-2):
            rows.append([name, *row])
            print("  ", rows[-1], flush=True)
    return rows


def main():
    """Print tables, write a plot."""
    arguments = parser(__doc__)
    parts = ("cost", "share", "sharing", "joint", "choose")
    arguments.add_argument("--part", choices=(*parts, "all"), default="all")
    arguments.add_argument("--only", default="", help="part of the names of the data sets to run")
    arguments.add_argument("--limit", type=float, default=240.0, help="CPU seconds of a run")
    arguments.add_argument("--repeats", type=int, default=3, help="runs of each variant")
    arguments.add_argument("--subsets", type=int, default=5, help="of each size below all rows")
    arguments.add_argument("--pairs", type=int, default=2000, help="rows for the table of pairs")
    arguments.add_argument("--memory", default="1GB", help="of the table of pairs")
    options = arguments.parse_args()
    folder = data_folder(options)
    sets = {name: read(folder) for name, read in SETS.items() if options.only in name}
    options.results.mkdir(parents=True, exist_ok=True)

    def wanted(part):
        return options.part in (part, "all")

    if options.part == "choose":
        for name, data in sets.items():
            errors = validated(data, np.random.default_rng(0))
            print(name, {k: round(100 * e, 2) for k, e in errors.items()})
    if wanted("cost"):
        cells = {}
        every = sets | ({"poses": Poses()} if options.only in "poses" else {})
        for name, data in every.items():
            print(name, flush=True)
            cells[name] = cost(data, options)
            write_json(options.results / "working_set.json", cells)
            plot(cells, options.results / "working_set.png")
        print(cost_table(cells, options), epoch_table(cells), sep="\n\n", flush=True)
    share_header = ["update", "oracle, % of time", "CPU s", "calls per row", "gap"]
    if wanted("share"):
        rows = []
        for name, data in sets.items():
            rows += [[name, *row] for row in shares(data.problem(data.C, data.strength))]
        print(markdown(["data", *share_header], rows), flush=True)
    if wanted("sharing"):
        header = ["rows", "n", "subsets", *(f"error %, {s:g}" for s in STRENGTHS)]
        header += ["as chosen", "chosen"]
        for name, data in sets.items():
            print(name, flush=True)
            print(markdown(header, sharing(data, options)), flush=True)
    if wanted("joint"):
        print(markdown(["problem", *share_header], joint(read_usps(folder), options)), flush=True)


if __name__ == "__main__":
    main()
