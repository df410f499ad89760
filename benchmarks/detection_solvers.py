"""Solvers on one detection problem, with one oracle: the windows of all images.

python benchmarks/detection_solvers.py --data FOLDER [--set raccoon|horses] [--only NAME,NAME]

The problem is that of BoxSVM's defaults: 3 shapes of templates, each image and its mirror image.
Features are extracted once. The clock runs in passes alone: CPU seconds, one thread. It stands
while we look at the primal of w and of its average, and at the average precision on test images,
of boxes that are not refined. A run ends when its primal is within half of 1 % of a reference, a
long run of dual coordinate ascent, or at --limit. "Best" is the lowest primal of all runs.

Curves are kept in the folder of results, and a run of some solvers (--only) replaces theirs alone.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np

from datasets import data_folder, parser
from detection_data import SETS
from taut import BoxSVM, Problem, solve
from taut.metrics import average_precision
from taut.result import Record
from taut.solvers import (
    DualCoordinate,
    HardNegatives,
    MultiSample,
    NSlack,
    OneSlack,
    PassiveAggressive,
    Solver,
    Subgradient,
    WorkingSet,
)
from taut.vision.photographs import Photographs
from timing import cpu_time, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

WITHIN = 0.01  # of the best objective
NEAR = 0.005  # of the reference, where a run ends
REFERENCE_GAP = 0.003
GROWTH = 1.3  # of the time between two looks
REFERENCE = "dual coordinate, 3 cached"
#: Name: solver, colour, line.
SOLVERS: dict[str, tuple[Callable[[], Solver], str, str]] = {
    REFERENCE: (lambda: DualCoordinate(cached_passes=3), "#1e8449", "-"),
    "dual coordinate, 1 cached": (lambda: DualCoordinate(cached_passes=1), "#1e8449", ":"),
    "dual coordinate, 5 cached": (lambda: DualCoordinate(cached_passes=5), "#1e8449", "--"),
    "multi-sample, K = 1": (lambda: MultiSample(1, "own"), "#1f5fa8", ":"),
    "multi-sample, K = 4": (lambda: MultiSample(4, "own"), "#1f5fa8", "-."),
    "multi-sample, K = 16": (lambda: MultiSample(16, "own"), "#1f5fa8", "--"),
    "multi-sample, K = 64": (lambda: MultiSample(64, "own"), "#1f5fa8", "-"),
    "n slacks, all at once": (lambda: NSlack(), "#8e44ad", "-"),
    "n slacks, batches of 20": (lambda: NSlack(batch=20), "#8e44ad", "--"),
    "working set, batches of 20": (lambda: WorkingSet(batch=20), "#e07b1a", "-"),
    "passive-aggressive": (lambda: PassiveAggressive(), "#17a2b8", "-"),
    "subgradient": (lambda: Subgradient(), "#17a2b8", "--"),
    "one slack": (lambda: OneSlack(), "#5d6d7e", "-"),
    "hard negatives": (lambda: HardNegatives(), "#c0392b", "-"),
}  # fmt: skip


@dataclass
class Curve:
    """What was seen after CPU seconds and oracle calls; a primal is the lowest by then."""

    seconds: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)  # per block
    primal: list[float] = field(default_factory=list)
    dual: list[float] = field(default_factory=list)
    precision: list[float] = field(default_factory=list)

    def first_below(self, primal: float) -> int | None:
        """Where a primal is reached; None if it is not."""
        return next((k for k, value in enumerate(self.primal) if value <= primal), None)

    def precision_after(self, calls: float) -> float | None:
        """That of the first look after so many calls per block; None if there was none."""
        points = zip(self.calls, self.precision, strict=True)
        return next((value for done, value in points if done >= calls), None)


class Task(NamedTuple):
    """The problem, and what says how good weights are on the test images."""

    problem: Problem
    precision: Callable[[np.ndarray], float]
    extraction: float  # CPU seconds
    megabytes: float  # of cells

    def primal(self, v: np.ndarray) -> float:
        """P, by potentials in the precision of training."""
        hinges = self.problem.data.hinges(v.astype(self.problem.data.dtype))
        value = self.problem.quadratic.value(v.astype(np.float64))
        return float(value + self.problem.block_weight @ hinges)

    def pass_seconds(self) -> float:
        """CPU seconds of one oracle call for each block, at w = 0."""
        w = np.zeros(self.problem.data.size, dtype=self.problem.data.dtype)
        return cpu_time(lambda: self.problem.data.hinges(w))[1]


def task_of(folder: Path, name: str) -> Task:
    """What BoxSVM.fit would solve."""
    data, model = SETS[name](folder), BoxSVM(random_state=0)
    photographs = Photographs(data.images, model.longest)
    truths = model._truths(photographs, data.boxes)
    frame = model._frame(truths, model._classes(truths))
    photographs.pyramid(0, frame.extractor())  # compiles
    pyramids, seconds = cpu_time(lambda: list(model._features(photographs, frame)))
    structure = model._structure(frame)
    problem = model._problem(structure, frame, pyramids, truths, np.ones(len(truths)))
    tested = Photographs(data.test_images, model.longest)
    extractor = frame.extractor()
    unseen = [tested.pyramid(i, extractor) for i in range(len(tested))]
    boxes = model._truths(tested, data.test_boxes)
    for key, value in (frame.facts() | {"refinement_": np.zeros((4, 1))}).items():
        setattr(model, key, value)

    def precision(w: np.ndarray) -> float:
        model.coef_ = w
        return average_precision(model.detect(unseen, threshold=-np.inf), boxes)

    size = sum(pyramid.cells.nbytes for pyramid in pyramids if not pyramid.mirrored)
    return Task(problem, precision, seconds, size / 1e6)


class Watched:
    """A solver that shows its state and its reports, and whose passes are timed."""

    def __init__(self, solver: Solver, limit: float) -> None:
        self.solver, self.limit = solver, limit
        self.spent = 0.0
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.solver, name)

    def init(self, problem, rng):
        began = time.process_time()
        self.state = self.solver.init(problem, rng)
        self.spent = time.process_time() - began
        return self.state

    def pass_(self, problem, state, stiffness, keep_going):
        began = time.process_time()

        def within_limit():
            return keep_going() and self.spent + time.process_time() - began < self.limit

        self.report = self.solver.pass_(problem, state, stiffness, within_limit)
        self.spent += time.process_time() - began
        self.calls += self.report.oracle_calls
        return self.report


def watch(
    task: Task, solver: Solver, limit: float, enough: float, tol: float, growth: float = GROWTH
) -> Curve:
    """The curve of a run until a primal value or so many CPU seconds are reached."""
    curve, watched = Curve(), Watched(solver, limit)
    average: np.ndarray | None = None
    best, due = np.inf, 0.0

    def note(primal: float, dual: float, w: np.ndarray) -> None:
        curve.seconds.append(watched.spent)
        curve.calls.append(watched.calls / task.problem.n_blocks)
        curve.primal.append(primal)
        curve.dual.append(dual)
        curve.precision.append(task.precision(w))

    def look(record: Record) -> bool:
        nonlocal average, best, due
        w, candidate = watched.state.w, watched.report.candidate
        if candidate is not None and candidate.w is not None:
            average = candidate.w
        elif candidate is not None:
            average = w.copy() if average is None else 0.8 * average + 0.2 * w
        over = watched.spent >= limit
        if not over and watched.spent < due:
            return False
        due = growth * watched.spent
        found = [(task.primal(v), v) for v in (w, average) if v is not None]
        primal, v = min(found, key=lambda pair: pair[0])
        best = min(best, primal)
        note(best, record.dual, task.problem.weights(v))
        return over or best <= enough

    result = solve(task.problem, watched, tol=tol, max_iter=10**6, callbacks=[look], random_state=0)
    note(min(best, result.certificate.primal), result.certificate.dual, result.w)
    return curve


def run(task: Task, wanted: list[str], limit: float, curves: dict[str, Curve], keep: Callable):
    """Curves of the solvers that are wanted, and CPU seconds of passes over all images."""
    passes = []
    if REFERENCE not in curves:
        wanted = [REFERENCE, *(name for name in wanted if name != REFERENCE)]
    for name in wanted:
        make = SOLVERS[name][0]
        # Compiles, off the clock.
        solve(task.problem, make(), tol=0.5, max_iter=1, random_state=0)
        passes.append(min(task.pass_seconds() for _ in range(2)))
        if name == REFERENCE:
            curves[name] = watch(task, make(), limit, -np.inf, REFERENCE_GAP)
        else:
            enough = (1.0 + NEAR) * curves[REFERENCE].primal[-1]
            curves[name] = watch(task, make(), limit, enough, REFERENCE_GAP)
        keep()
        last = curves[name]
        print(
            f"  {name}: {last.seconds[-1]:.1f} s, {last.calls[-1]:.1f} calls, "
            f"primal {last.primal[-1]:.3f}, AP {last.precision[-1]:.3f}, "
            f"one pass {passes[-1]:.2f} s",
            flush=True,
        )
    return passes


def table(curves: dict[str, Curve]) -> str:
    """Time and calls to the accuracy, and precision on the way."""
    best = min(curve.primal[-1] for curve in curves.values())
    rows = []
    for name, curve in curves.items():
        k = curve.first_below((1.0 + WITHIN) * best)
        if k is None:
            reached = [f"> {curve.seconds[-1]:.0f}", f"> {curve.calls[-1]:.0f}"]
        else:
            reached = [f"{curve.seconds[k]:.1f}", f"{curve.calls[k]:.1f}"]
        after = [curve.precision_after(calls) for calls in (1.0, 2.0, 5.0)]
        rows.append(
            [name, *reached, f"{100.0 * (curve.primal[-1] / best - 1.0):.2g}",
             *("-" if value is None else f"{value:.3f}" for value in after),
             f"{curve.precision[-1]:.3f}"]
        )  # fmt: skip
    header = ["solver", "CPU s to 1 %", "calls per image", "% above the best, end"]
    return markdown([*header, "AP after 1 call", "2", "5", "end"], rows)


def plot(cells: dict[str, tuple[dict[str, Curve], float]], path: Path) -> None:
    """Distance from the best over time and over calls, and precision over time."""
    figure, axes = plt.subplots(
        len(cells), 3, figsize=(13.0, 1.2 + 3.6 * len(cells)), squeeze=False, layout="constrained"
    )
    for (name, (curves, one_pass)), row in zip(cells.items(), axes, strict=True):
        best = min(curve.primal[-1] for curve in curves.values())
        for label, curve in curves.items():
            _make, colour, line = SOLVERS[label]
            style = {"color": colour, "linestyle": line, "linewidth": 1.4, "label": label}
            above = np.maximum(100.0 * (np.array(curve.primal) / best - 1.0), 0.05)
            row[0].plot(curve.seconds, above, **style)
            row[1].plot(curve.calls, above, **style)
            row[2].plot(curve.seconds, curve.precision, **style)
        row[0].set(xlabel="CPU seconds", ylabel=f"{name}: % above the best objective")
        row[1].set(xlabel="oracle calls per image")
        row[2].set(xlabel="CPU seconds", ylabel="average precision, overlap 0.5", ylim=(0.0, 1.0))
        for axis in row[:2]:
            axis.axhline(100.0 * WITHIN, color="black", linewidth=0.8, linestyle=":")
            axis.set(yscale="log", ylim=(0.1, 300.0))
            axis.yaxis.set_major_formatter("{x:g}")
        for axis in (row[0], row[2]):
            axis.axvline(one_pass, color="black", linewidth=0.8)
            axis.annotate(
                " one pass", (one_pass, 0.02), xycoords=("data", "axes fraction"), fontsize=8
            )
        for axis in row:
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter("{x:g}")
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
            axis.tick_params(labelsize=8)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=5, frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def kept_curves(path: Path) -> dict[str, Any]:
    """What earlier runs on a set have left, in the order of the solvers."""
    content = json.loads(path.read_text()) if path.exists() else {"curves": {}, "passes": []}
    found = {name: Curve(**own) for name, own in content["curves"].items()}
    return {"curves": found, "passes": content["passes"]}


def main() -> None:
    """Print tables, write a plot."""
    arguments = parser(__doc__)
    arguments.add_argument("--set", choices=tuple(SETS), action="append")
    arguments.add_argument("--limit", type=float, default=120.0, help="CPU seconds of a run")
    arguments.add_argument("--only", default=",".join(SOLVERS), help='"" draws what there is')
    arguments.add_argument("--picture", type=Path, help="(default: in the folder of results)")
    options = arguments.parse_args()
    folder, cells = data_folder(options), {}
    wanted = [name for name in SOLVERS if any(p and p in name for p in options.only.split(","))]
    for name in options.set or SETS:
        path = options.results / f"detection_solvers_{name}.json"
        known = kept_curves(path)
        curves, passes = known["curves"], known["passes"]
        if wanted:
            task = task_of(folder, name)
            print(
                f"{name}: {task.problem.n_blocks} blocks, {task.problem.data.size} weights, "
                f"{task.megabytes:.0f} MB of features in {task.extraction:.1f} CPU s",
                flush=True,
            )

            def keep(path: Path = path, curves: dict = curves, passes: list = passes) -> None:
                own = {key: asdict(curve) for key, curve in curves.items()}
                write_json(path, {"curves": own, "passes": passes})

            passes += run(task, wanted, options.limit, curves, keep)
            keep()
        curves = {key: curves[key] for key in SOLVERS if key in curves}
        one_pass = statistics.median(passes)
        cells[name] = (curves, one_pass)
        print(f"\n{name}: one pass over all images takes {one_pass:.2f} CPU s\n")
        print(table(curves), flush=True)
    plot(cells, options.picture or options.results / "detection_solvers.png")


if __name__ == "__main__":
    main()
