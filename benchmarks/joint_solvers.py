"""Solvers on the joints of people, with one oracle: the best labels of all images by tree.

    python benchmarks/joint_solvers.py --data FOLDER [--only "NAME;NAME"] [--limit SECONDS]

The problem is that of PartSVM on the first 400 images of `lsp_extended`, and errors are shares of
joints that are not found (PCK at 0.2) in the last 100. Features are extracted once. The clock runs
in passes alone: CPU seconds, one thread. A run ends at --limit, or near the best objective of the
first run. Curves are kept in the folder of results; a run of some solvers (--only) replaces theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np

from datasets import data_folder, parser
from detection_solvers import WITHIN, Curve, Task, Watched, kept_curves, watch
from joint_data import people, settings
from taut import PartSVM, Problem, solve
from taut.metrics import pck
from taut.solvers import (
    DualCoordinate,
    HardNegatives,
    MultiSample,
    NSlack,
    OneSlack,
    PassiveAggressive,
    Solver,
    Subgradient,
)
from taut.vision.photographs import Photographs
from timing import cpu_time, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

N_TRAIN, GAP = 400, 0.003
N_WARM = 4  # images of the fit that compiles
N_VISITED, PASSES, REPEATS = 40, 2, 3  # images, passes over them, runs where visits are timed
GROWTH = 1.6  # of the time between two looks, each of which takes twice as long as a pass
SAMPLES = (64, 1, 16, 4, 256)
LINES = {1: ":", 4: "-.", 16: "--", 64: "-", 256: (0, (6, 1, 1, 1))}


def _several(sampling: str, counts: tuple[int, ...], colour: str) -> dict[str, tuple]:
    return {
        f"multi-sample, {sampling}, K = {count}": (
            sampling, lambda count=count: MultiSample(count, "own"), colour, LINES[count],
        )
        for count in counts
    }  # fmt: skip


#: Name: how labels are sampled, solver, colour, line. One sample is the best label with either.
SOLVERS: dict[str, tuple[str, Callable[[], Solver], str, Any]] = {
    **_several("diverse", SAMPLES[:3], "#1f5fa8"),
    "n slacks, batches of 1": ("diverse", lambda: NSlack(batch=1), "#8e44ad", "--"),
    "one slack": ("diverse", lambda: OneSlack(), "#5d6d7e", "-"),
    "subgradient": ("diverse", lambda: Subgradient(), "#17a2b8", "--"),
    "passive-aggressive": ("diverse", lambda: PassiveAggressive(), "#17a2b8", "-"),
    **_several("suppression", (64, 16), "#e07b1a"),
    "hard negatives": ("diverse", lambda: HardNegatives(), "#c0392b", "-"),
    "n slacks, all at once": ("diverse", lambda: NSlack(), "#8e44ad", "-"),
    **_several("diverse", SAMPLES[3:], "#1f5fa8"),
    **_several("suppression", (4,), "#e07b1a"),
    "dual coordinate, 3 cached": (
        "diverse", lambda: DualCoordinate(cached_passes=3), "#1e8449", "-",
    ),
}  # fmt: skip


class Prepared(NamedTuple):
    """The whole problem, and those of some of its images."""

    task: Task
    warm: Problem
    visited: Problem


def tasks_of(folder: Path) -> dict[str, Prepared]:
    """What PartSVM.fit would solve, with each way to sample labels."""
    train, test = people(folder)
    train, found = train.take(slice(N_TRAIN)), {}
    model = PartSVM(**settings())
    photographs = Photographs(train.images, model.longest)
    shown = model._shown(photographs, train.joints, train.visible, None)
    frame, poses, mirror = model._framed(shown)
    pyramids, seconds = cpu_time(lambda: model._features(photographs, frame, mirror))
    unseen, extractor = Photographs(test.images, model.longest), model._extractor(frame)
    tested = [unseen.pyramid(i, extractor) for i in range(len(unseen))]
    for name, value in frame.facts().items():
        setattr(model, name, value)

    def near(w: np.ndarray) -> float:
        for name, value in model._attributes(w, w.shape).items():
            setattr(model, name, value)
        return pck(model.predict(tested).joints, test.joints, test.visible).mean

    size = sum(pyramid.cells.nbytes for pyramid in pyramids if not pyramid.mirrored)
    for sampling in ("diverse", "suppression"):
        model.sampling = sampling
        problem, warm, visited = (
            model._problem(frame, pyramids[:n], poses[:n], np.ones(n))
            for n in (N_TRAIN, N_WARM, N_VISITED)
        )
        found[sampling] = Prepared(Task(problem, near, seconds, size / 1e6), warm, visited)
    return found


def visits(prepared: dict[str, Prepared]) -> str:
    """What a visit costs, the search for labels included, against the number of labels."""
    spent: dict[tuple[int, str], list[float]] = {}
    for repeat in range(REPEATS + 1):
        for sampling, own in prepared.items():
            for count in sorted(SAMPLES):
                watched = Watched(MultiSample(count, "own"), np.inf)
                solve(own.visited, watched, tol=1e-9, max_iter=PASSES, random_state=0)
                if repeat > 0:
                    seconds = watched.spent / (PASSES * N_VISITED)
                    spent.setdefault((count, sampling), []).append(1000.0 * seconds)
    rows = []
    for count in sorted(SAMPLES):
        row = [str(count)]
        for sampling in prepared:
            own, base = (np.median(spent[k, sampling]) for k in (count, min(SAMPLES)))
            row += [f"{own:.1f}", f"{own / base:.2f}"]
        rows.append(row)
    return markdown(["K", *(f"{s}{u}" for s in prepared for u in (", ms", ", to K = 1"))], rows)


def run(own: Prepared, name: str, limit: float, curves: dict[str, Curve]) -> None:
    """The curve of a solver."""
    make = SOLVERS[name][1]
    solve(own.warm, make(), tol=0.5, max_iter=1, random_state=0)  # compiles, off the clock
    best = min((min(curve.primal) for curve in curves.values()), default=-np.inf)
    curves[name] = last = watch(own.task, make(), limit, best, GAP, GROWTH)
    print(
        f"  {name}: {last.seconds[-1]:.1f} s, {last.calls[-1]:.1f} calls, primal "
        f"{min(last.primal):.3f}, PCK {last.precision[-1]:.3f}",
        flush=True,
    )


def table(curves: dict[str, Curve]) -> str:
    """Time to the accuracy, and joints found on the way."""
    best = min(curve.primal[-1] for curve in curves.values())
    rows = []
    for name, curve in curves.items():
        k = curve.first_below((1.0 + WITHIN) * best)
        reached = f"> {curve.seconds[-1]:.0f}" if k is None else f"{curve.seconds[k]:.1f}"
        after = [curve.precision_after(calls) for calls in (1.0, 2.0, 5.0)]
        rows.append(
            [name, reached, f"{curve.calls[-1]:.1f}",
             f"{100.0 * (curve.primal[-1] / best - 1.0):.2g}",
             *("-" if value is None else f"{value:.3f}" for value in after),
             f"{curve.precision[-1]:.3f}"]
        )  # fmt: skip
    header = ["solver", "CPU s to 1 %", "calls, end", "% above the best, end"]
    return markdown([*header, "PCK after 1 call", "2", "5", "end"], rows)


def plot(curves: dict[str, Curve], one_pass: float, path: Path) -> None:
    """The objective and the error over time."""
    figure, axes = plt.subplots(1, 2, figsize=(12.0, 5.0), layout="constrained")
    best = min(curve.primal[-1] for curve in curves.values())
    for name, curve in curves.items():
        _sampling, _make, colour, line = SOLVERS[name]
        style = {"color": colour, "linestyle": line, "linewidth": 1.4, "label": name}
        above = np.maximum(100.0 * (np.array(curve.primal) / best - 1.0), 0.05)
        axes[0].plot(curve.seconds, above, **style)
        axes[1].plot(curve.seconds, 1.0 - np.array(curve.precision), **style)
    axes[0].set(ylabel="% above the best objective", yscale="log")
    axes[0].axhline(100.0 * WITHIN, color="black", linewidth=0.8, linestyle=":")
    axes[1].set(ylabel="share of test joints that are not found")
    for axis in axes:
        axis.set(xlabel="CPU seconds", xscale="log")
        axis.axvline(one_pass, color="black", linewidth=0.8)
        axis.annotate(" one pass", (one_pass, 0.02), xycoords=("data", "axes fraction"), fontsize=8)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False,
        fontsize=8,
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Print the table, write a plot."""
    arguments = parser(__doc__)
    arguments.add_argument("--limit", type=float, default=60.0, help="CPU seconds of a run")
    arguments.add_argument("--visits", action="store_true", help="time visits against K")
    arguments.add_argument("--only", default=";".join(SOLVERS), help='"" draws what there is')
    arguments.add_argument("--picture", type=Path, help="(default: in the folder of results)")
    options = arguments.parse_args()
    wanted = [name for name in SOLVERS if any(p and p in name for p in options.only.split(";"))]
    path = options.results / "joint_solvers.json"
    known = kept_curves(path)
    curves, passes = known["curves"], known["passes"]
    if options.visits:
        print(visits(tasks_of(data_folder(options))))
        return
    if wanted:
        tasks = tasks_of(data_folder(options))
        own, warm = tasks["diverse"].task, tasks["diverse"].warm.data
        warm.hinges(np.zeros(warm.size, dtype=warm.dtype))  # compiles
        passes.append(own.pass_seconds())
        print(
            f"{own.problem.n_blocks} blocks, {own.problem.data.size} weights, {own.megabytes:.0f} "
            f"MB of features, one pass {passes[-1]:.1f} CPU s",
            flush=True,
        )
        for name in wanted:
            run(tasks[SOLVERS[name][0]], name, options.limit, curves)
            kept = {key: asdict(curve) for key, curve in curves.items()}
            write_json(path, {"curves": kept, "passes": passes})
    curves = {name: curves[name] for name in SOLVERS if name in curves}
    print(table(curves), flush=True)
    plot(curves, float(np.median(passes)), options.picture or path.with_suffix(".png"))


if __name__ == "__main__":
    main()
