"""Detectors trained on some hundred photographs: how well they find, and what that costs.

    python benchmarks/detection.py --data FOLDER [--part raccoon|horses|both|faces|faults|tune]

The folder has `raccoon` and `dlib_faces`, with images and boxes.json, and `weizmann_horses`, with
images and masks. Each method runs in a process of its own, on one thread; methods take turns, and
times are medians of CPU seconds. Training is all from the files to the detector, but compilation.
dlib is compared where it is installed. `--part faults` shows what bad images and boxes lead to, and
`--part tune` tests settings of rivals on folds of the training images.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import pickle
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np

import detection_faults
from datasets import data_folder, parser
from detection_data import SETS, Photographs, faces, folds, joined
from detection_negatives import HardNegatives
from detection_rivals import Detector, Dlib
from detection_worker import METHODS, Measured
from taut import BoxSVM
from taut.metrics import (
    average_precision,
    bootstrap_interval,
    coco_average_precision,
    localisation_accuracy,
    precision_recall,
)
from taut.vision import (
    Boxes,
    Detections,
    plot_image_grid,
    plot_precision_recall,
    plot_template,
)
from timing import cpu_time, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OVERLAPS = (0.3, 0.5, 0.7)
_WORKER = Path(__file__).with_name("detection_worker.py")
_N_FOLDS = 4
#: What `tune` tries: C and the number of shapes for dlib, C for hard negatives.
DLIB_GRID = ((5.0, 1), (50.0, 1), (500.0, 1), (50.0, 3))
NEGATIVES_GRID = (0.001, 0.01, 0.1)
#: The lowest score in the picture of faces: false alarms of a model of four images lie below.
FACES_ABOVE = 0.7


def measured(folder: Path, name: str, repeats: int) -> dict[str, Measured]:
    """Each method on a set, the methods in turns."""
    runs: dict[str, list[Measured]] = {method: [] for method in available()}
    for _ in range(repeats):
        for method, own in runs.items():
            command = [sys.executable, str(_WORKER), str(folder), name, method]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            own.append(Measured(*pickle.loads(done.stdout)))
            print(f"{name}, {method}: {own[-1].fit_seconds:.1f} s", file=sys.stderr)
    return {method: _median(own) for method, own in runs.items()}


def available() -> list[str]:
    """The methods whose packages are installed."""
    there = importlib.util.find_spec("dlib") is not None
    return [method for method in METHODS if method != "dlib" or there]


def _median(runs: list[Measured]) -> Measured:
    """What the first run has found, with medians of seconds and the largest memory."""
    return runs[0]._replace(
        fit_seconds=statistics.median(run.fit_seconds for run in runs),
        array_seconds=statistics.median(run.array_seconds for run in runs),
        file_seconds=statistics.median(run.file_seconds for run in runs),
        peak=max(run.peak for run in runs),
        imported=max(run.imported for run in runs),
    )


def row_of(method: str, found: Measured, truths: list[Boxes]) -> list[str]:
    """A row of the table."""
    precision = []
    for overlap in OVERLAPS:
        metric = functools.partial(average_precision, overlap=overlap)
        value, low, high = bootstrap_interval(metric, found.detections, truths)
        precision.append(f"{value:.3f} ({low:.2f} to {high:.2f})")
    coco = coco_average_precision(found.detections, truths).mean
    accuracy = localisation_accuracy(found.detections, truths)
    return [
        method, *precision, f"{coco:.3f}", f"{accuracy:.3f}", f"{found.fit_seconds:.1f}",
        f"{found.peak:.0f} ({found.imported:.0f})", f"{1e3 * found.array_seconds:.1f}",
        f"{1e3 * found.file_seconds:.1f}", "" if found.gap is None else f"{found.gap:.3f}",
    ]  # fmt: skip


def compare(folder: Path, name: str, options: Any) -> None:
    """The table of a set, and its pictures."""
    data = SETS[name](folder)
    # First of all, so that workers find compiled code on disk.
    model = BoxSVM(random_state=0).fit(data.images, data.boxes)
    found = model.detect(data.test_images)
    results = measured(folder, name, options.repeats)
    rows = [row_of(method, found, data.test_boxes) for method, found in results.items()]
    print(
        f"\n{name}: {len(data.images)} images for training, {len(data.test_images)} for testing\n"
    )
    print(
        markdown(
            ["method", *(f"AP at {overlap}" for overlap in OVERLAPS), "AP of COCO", "localised",
             "training, s", "memory, MB (imports)", "ms an array", "ms a file", "gap"],
            rows,
        )
    )  # fmt: skip
    precision, recall = at_threshold(found, data.test_boxes, 0.0)
    print(f"\nBoxSVM above its default threshold: precision {precision:.2f}, recall {recall:.2f}")
    write_json(options.results / f"detection_{name}.json", rows)
    _save(_curves(results, data.test_boxes), options.pictures / f"detection_{name}_curves.png")
    _save(
        plot_image_grid(data.test_images, data.test_boxes, found),
        options.pictures / f"detection_{name}.jpg",
    )
    _save(_templates(model), options.pictures / f"detection_{name}_templates.png")


def at_threshold(
    found: list[Detections], truths: list[Boxes], threshold: float
) -> tuple[float, float]:
    """Precision and recall at an overlap of 0.5, of what scores at least so much."""
    curve = precision_recall(found, truths)
    last = np.flatnonzero(curve.scores >= threshold)[-1:]
    precision, recall = (part[last].sum() for part in (curve.precision, curve.recall))
    return float(precision), float(recall)


def _curves(results: dict[str, Measured], truths: list[Boxes]) -> Any:
    figure, panels = plt.subplots(1, 2, figsize=(11.0, 4.5), layout="constrained")
    for ax, overlap in zip(panels, (0.5, 0.7)):
        plot_precision_recall(
            {
                method: precision_recall(found.detections, truths, overlap)
                for method, found in results.items()
            },
            ax,
        )
        ax.set_title(f"overlap of {overlap} or more", fontsize=10)
    return figure


def _templates(model: BoxSVM) -> Any:
    """The weights of the cells of each template, borders included."""
    n = len(model.templates_)
    figure, panels = plt.subplots(n, 1, figsize=(8.0, 2.7 * n), squeeze=False, layout="constrained")
    for number, ax in enumerate(panels[:, 0]):
        plot_template(model.template(number), ax)
    return figure


def both(folder: Path, options: Any) -> None:
    """One model of two classes against one for each."""
    sets = {"raccoon": SETS["raccoon"](folder), "horse": SETS["horses"](folder)}
    everything = joined(*sets.values())
    _warm_up(everything)
    models, seconds = {}, {}
    for name, data in [("together", everything), *sets.items()]:
        models[name], seconds[name] = cpu_time(
            functools.partial(BoxSVM(random_state=0).fit, data.images, data.boxes)
        )
    rows = []
    for name, data in sets.items():
        for where, tested in ((f"images of {name}", data), ("images of both", everything)):
            truths = [_only(truth, name) for truth in tested.test_boxes]
            for kind in ("together", name):
                found = models[kind].detect(tested.test_images, threshold=-np.inf)
                values = [average_precision(found, truths, o, class_name=name) for o in OVERLAPS]
                rows.append([name, where, "one model" if kind == "together" else "its own",
                             *(f"{value:.3f}" for value in values)])  # fmt: skip
    print("\ntwo classes\n")
    print(markdown(["class", "tested on", "model", *(f"AP at {o}" for o in OVERLAPS)], rows))
    print()
    print(
        markdown(
            ["trained on", "training, s", "gap"],
            [
                [name, f"{seconds[name]:.1f}", f"{model.certificate_.relative_gap:.3f}"]
                for name, model in models.items()
            ],
        )
    )
    write_json(options.results / "detection_both.json", rows)


def _only(truth: Boxes, name: str) -> Boxes:
    return Boxes(*(part[truth.classes == name] for part in truth))


def _warm_up(data: Photographs) -> None:
    model = BoxSVM(random_state=0).fit(data.images[::20], data.boxes[::20])
    model.detect(data.test_images[:1])


def draw_faces(folder: Path, options: Any) -> None:
    """A detector of faces from a few photographs."""
    data = faces(folder)
    _warm_up(joined(data, data))
    model, seconds = cpu_time(lambda: BoxSVM(random_state=0).fit(data.images, data.boxes))
    found = model.detect(data.test_images)
    print(
        f"\nfaces: {sum(len(b.edges) for b in data.boxes)} in {len(data.images)} images for "
        f"training, {sum(len(b.edges) for b in data.test_boxes)} in {len(data.test_images)} for "
        f"testing; {seconds:.1f} s; average precision at 0.5: "
        f"{model.score(data.test_images, data.test_boxes):.3f}"
    )
    for threshold in (0.0, FACES_ABOVE):
        precision, recall = at_threshold(found, data.test_boxes, threshold)
        print(f"above {threshold}: precision {precision:.2f}, recall {recall:.2f}")
    shown = model.detect(data.test_images, threshold=FACES_ABOVE)
    figure = plot_image_grid(data.test_images, data.test_boxes, shown, columns=3, top=15)
    _save(figure, options.pictures / "detection_faces.jpg")


def tune(folder: Path, options: Any) -> None:
    """Settings of rivals on folds of the training images, the first ones of four."""
    settings: dict[str, Callable[[], Detector]] = {
        f"hard negatives, C={C}": functools.partial(HardNegatives, C) for C in NEGATIVES_GRID
    }
    if "dlib" in available():
        for C, shapes in DLIB_GRID:
            settings[f"dlib, C={C:g}, shapes={shapes}"] = functools.partial(Dlib, C, shapes)
    for name, read in SETS.items():
        rows = []
        parts = folds(read(folder), _N_FOLDS)[: options.folds]
        for setting, make in settings.items():
            found: list[Detections] = []
            for part in parts:
                model = make()
                model.fit(part.images, part.boxes)
                found += model.detect(part.test_images)
            truths = [truth for part in parts for truth in part.test_boxes]
            rows.append(
                [setting, *(f"{average_precision(found, truths, o):.3f}" for o in OVERLAPS)]
            )
            print(rows[-1], file=sys.stderr)
        print(f"\n{name}, held-out training images\n")
        print(markdown(["setting", *(f"AP at {overlap}" for overlap in OVERLAPS)], rows))


def print_faults() -> None:
    """A table of what is wrong, and what is said."""
    print(markdown(["given", "outcome", "what is said"], detection_faults.outcomes()))


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    parts = ("raccoon", "horses", "both", "faces", "faults", "tune", "all")
    options.add_argument("--part", choices=parts, default="all")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--folds", type=int, default=1, help="of four, in --part tune")
    options.add_argument("--pictures", type=Path, help="folder (default: that of the results)")
    chosen = options.parse_args(arguments)
    chosen.pictures = chosen.pictures or chosen.results
    folder = data_folder(chosen)
    for name in SETS:
        if chosen.part in (name, "all"):
            compare(folder, name, chosen)
    if chosen.part in ("both", "all"):
        both(folder, chosen)
    if chosen.part in ("faces", "all"):
        draw_faces(folder, chosen)
    if chosen.part in ("faults", "all"):
        print_faults()
    if chosen.part == "tune":
        tune(folder, chosen)


if __name__ == "__main__":
    main()
