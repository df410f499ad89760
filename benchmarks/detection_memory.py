"""A detector from photographs whose features do not fit into the memory that training may take.

python benchmarks/detection_memory.py --data FOLDER [--images 500 2000]

Photographs are made of those of `raccoon`: parts that contain all boxes, half of them mirrored, as
JPEG files. Their features are extracted once, into files. Then the same model is trained in two
processes, one after the other: from the files, chunk by chunk, with `MultiSample(2)`, and with all
features in memory. Each has imported and compiled everything on a few images before. The rise of
each step is the largest resident size in it, less the size before the fit. CPU seconds, one thread.
Training ends at a relative gap of --tol, or after --seconds of CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import numpy as np

from datasets import data_folder, parser
from detection_data import Photographs, raccoon
from memory_budget import settled_size, status
from taut import BoxSVM
from taut.errors import CacheOverflow, NotConverged
from taut.solvers import DualCoordinate, MultiSample
from taut.vision import Boxes, read_image
from timing import markdown, write_json

CAP = 300  # megabytes that training may add
WARM = 24  # images to compile with
QUALITY = 90  # of JPEG
STEPS = ("features", "training", "refinement")
HEADER = [
    "images", "features", "MB of features", "step", "rise, MB", "peak, MB", "CPU s",
    "objective", "gap", "passes", "status",
]  # fmt: skip


def generate(data: Photographs, folder: Path, count: int) -> None:
    """Write parts of the photographs, which contain all their boxes, and the boxes."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    listed = []
    for number in range(count):
        image = read_image(data.images[number % len(data.images)])
        truth = data.boxes[number % len(data.boxes)]
        part, truth = _part(image, truth, rng)
        if rng.random() < 0.5:
            part, truth = part[:, ::-1], truth.mirrored(part.shape[1])
        Image.fromarray(np.ascontiguousarray(part)).save(
            folder / f"{number:05}.jpg", quality=QUALITY
        )
        listed.append(truth.edges.tolist())
    (folder / "boxes.json").write_text(json.dumps(listed))


def _part(image: np.ndarray, truth: Boxes, rng: np.random.Generator) -> tuple[np.ndarray, Boxes]:
    """A part of an image that contains all boxes, up to 40 % less of it on each side."""
    height, width = image.shape[:2]
    left, top = truth.edges[:, :2].min(axis=0)
    right, bottom = truth.edges[:, 2:].max(axis=0)
    shares = rng.uniform(0.0, 0.4, size=4)
    x, y = (int(share * max(first, 0.0)) for share, first in zip(shares, (left, top)))
    end_x, end_y = (
        int(size - share * max(size - last, 0.0))
        for share, last, size in zip(shares[2:], (right, bottom), (width, height))
    )
    return image[y:end_y, x:end_x], truth._replace(edges=truth.edges - [x, y, x, y])


def read(folder: Path, count: int | None = None) -> tuple[list[Path], list[Boxes]]:
    """The files, and what is in them."""
    edges = json.loads((folder / "boxes.json").read_text())[:count]
    boxes = [
        Boxes(np.array(own), np.array(["raccoon"] * len(own)), np.zeros(len(own), dtype=bool))
        for own in edges
    ]
    return [folder / f"{number:05}.jpg" for number in range(len(edges))], boxes


class Measured(BoxSVM):
    """Knows what each step of its fit has taken."""

    def _take_down(self, step: str, call: Callable[..., Any], *arguments: Any) -> Any:
        self.notes: dict[str, Any] = getattr(self, "notes", {})
        before, began = settled_size(), time.process_time()
        result = call(*arguments)
        self.notes[step] = {
            "before": before,
            "seconds": time.process_time() - began,
            "peak": status("VmHWM"),
        }
        return result

    def _features(self, photographs, frame):
        def make():
            found = super(Measured, self)._features(photographs, frame)
            return found if self.folder is not None else list(found)

        return self._take_down("features", make)

    def _problem(self, *arguments):
        # In the training's step: groups of windows are a part of what it needs.
        self._posed = arguments
        return

    def _solve(self, problem, options):
        def train():
            posed, self._posed = super(Measured, self)._problem(*self._posed), None
            return super(Measured, self)._solve(posed, options)

        return self._take_down("training", train)

    def _refinement(self, *arguments):
        return self._take_down("refinement", super()._refinement, *arguments)


def model_of(kind: str, features: Path, options: Any) -> Measured:
    """The estimator, with features on disk or in memory."""
    common = {"tol": options.tol, "random_state": 0, "max_iter": 1000}
    if kind == "on disk":
        solver = MultiSample(2, "own")
        return Measured(solver=solver, folder=features, **common)
    return Measured(solver=DualCoordinate(cached_passes=3), **common)


def train(kind: str, images: Path, features: Path, options: Any) -> None:
    """Train in this process, and print what happened as JSON."""
    warnings.simplefilter("ignore", NotConverged)
    warnings.simplefilter("ignore", CacheOverflow)
    with tempfile.TemporaryDirectory() as temporary:
        model_of(kind, Path(temporary), options).set_params(max_iter=3).fit(*read(images, WARM))
    model = model_of(kind, features, options)
    began = 0.0

    def late(record: Any) -> bool:
        nonlocal began
        began = began or time.process_time()
        return time.process_time() - began > options.seconds

    model.callbacks = [late]
    before = settled_size()
    model.fit(*read(images))
    certificate = model.certificate_
    steps = {
        step: {
            "rise": (model.notes[step]["peak"] - before) / 1e6,
            "peak": model.notes[step]["peak"] / 1e6,
            "seconds": model.notes[step]["seconds"],
        }
        for step in STEPS
    }
    print(
        json.dumps(
            {
                "steps": steps,
                "primal": certificate.primal,
                "dual": certificate.dual,
                "gap": certificate.relative_gap,
                "passes": certificate.passes,
                "status": certificate.status.name,
                "before": before / 1e6,
            }
        )
    )


def extract(images: Path, features: Path, options: Any) -> float:
    """Extract the features into files, in this process; CPU seconds."""
    from taut.vision.photographs import Photographs as Given

    model = model_of("on disk", features, options)
    files, boxes = read(images)
    photographs = Given(files, model.longest)
    truths = model._truths(photographs, boxes)
    model._features(photographs, model._frame(truths, model._classes(truths)))
    return model.notes["features"]["seconds"]


def measure(count: int, folder: Path, options: Any) -> list[dict[str, Any]]:
    """Both ways in processes of their own."""
    images, features = folder / f"images-{count}", folder / f"features-{count}"
    if not (images / "boxes.json").exists():
        generate(raccoon(data_folder(options)), images, count)
    seconds = extract(images, features, options)
    size = sum(file.stat().st_size for file in features.iterdir()) / 1e6
    print(f"{count} images: {size:.0f} MB of features, extracted in {seconds:.0f} s", flush=True)
    found = []
    for kind in options.kinds:
        command = [
            sys.executable, __file__, "--train", kind, str(images), str(features),
            "--tol", str(options.tol), "--seconds", str(options.seconds),
        ]  # fmt: skip
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found.append({"images": count, "kind": kind, "size": size, "extraction": seconds})
        found[-1] |= json.loads(done.stdout.splitlines()[-1])
        print(found[-1], flush=True)
    return found


def rows_of(found: dict[str, Any]) -> list[list[str]]:
    """A line for each step of a fit."""
    rows = []
    for step, own in found["steps"].items():
        start = [found["images"], found["kind"], f"{found['size']:.0f}"]
        end = ["", "", "", ""]
        if step == "training":
            end = [
                f"{found['primal']:.4g}", f"{found['gap']:.3f}", found["passes"], found["status"],
            ]  # fmt: skip
        rows.append(
            [
                *start,
                step,
                f"{own['rise']:.0f}",
                f"{own['peak']:.0f}",
                f"{own['seconds']:.0f}",
                *end,
            ]
        )
    return rows


def consistent(results: list[dict[str, Any]]) -> list[str]:
    """Whether the bounds of both ways agree, and whether the cap was kept."""
    lines = []
    for count in dict.fromkeys(result["images"] for result in results):
        own = [result for result in results if result["images"] == count]
        agree = max(r["dual"] for r in own) <= min(r["primal"] for r in own)
        lines.append(f"{count} images: bounds {'agree' if agree else 'CONTRADICT each other'}")
        for result in own:
            rise = result["steps"]["training"]["rise"]
            word = "within" if rise <= CAP else "above"
            lines.append(f"  {result['kind']}: training adds {rise:.0f} MB, {word} {CAP} MB")
    return lines


def main() -> None:
    """Generate, train in processes of their own, report; or train only."""
    arguments = parser(__doc__)
    arguments.add_argument("--images", type=int, nargs="+", default=[2000])
    arguments.add_argument("--tol", type=float, default=0.02)
    arguments.add_argument("--seconds", type=float, default=600.0, help="CPU, of training")
    arguments.add_argument(
        "--kinds", nargs="+", default=["on disk", "in memory"], choices=["on disk", "in memory"]
    )
    arguments.add_argument("--folder", type=Path, help="for generated files; a temporary one")
    arguments.add_argument("--train", nargs=3, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.train is not None:
        train(options.train[0], Path(options.train[1]), Path(options.train[2]), options)
        return
    with tempfile.TemporaryDirectory() as temporary:
        results = []
        for count in options.images:
            results += measure(count, options.folder or Path(temporary), options)
    print(markdown(HEADER, [row for result in results for row in rows_of(result)]))
    print(*consistent(results), sep="\n")
    write_json(options.results / "detection_memory.json", results)


if __name__ == "__main__":
    main()
