"""Where an object is, and from which side it is seen: PoseSVM against other ways, on rendered cars.

    python benchmarks/pose_data.py TRAIN --n 900 --photographs IMAGES
    python benchmarks/pose_data.py TEST --n 600 --seed 1 --photographs OTHER_IMAGES
    python benchmarks/pose.py TRAIN TEST --part errors
    python benchmarks/pose.py TRAIN TEST --part ways
    python benchmarks/pose.py TRAIN TEST --part batches
    python benchmarks/pose.py TRAIN TEST --part choice
    python benchmarks/pose.py TRAIN TEST --part pictures

Times are CPU seconds of training, without features, in one process; set OPENBLAS_NUM_THREADS and
OMP_NUM_THREADS to 1. All methods see the same pyramids, and the same windows of one shape on
stretched images. A box is right that overlaps the true one by 0.5.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.linear_model import RidgeCV

import pose_data
from taut import BoxSVM, PoseSVM, Problem, solve
from taut.binding import bind
from taut.data.angles import grid_of, nearest_angles
from taut.errors import NotConverged
from taut.metrics import angle_errors, pose_losses
from taut.solvers import DualCoordinate, WorkingSet
from taut.spaces.pose_windows import stacked, unstacked
from taut.spaces.windows import WindowFeatures
from taut.structures import PoseBoxes, PoseSearch
from taut.structures.pose_boxes import poses_of
from taut.vision import FoundPoses, HogPyramid, Templates, overlaps
from taut.vision.templates import scales_of, stretches_of
from timing import cpu_time, in_turns

CELLS, ASPECTS, STEP, N_POSES = 36, 2, 2.0 ** (1.0 / 3.0), 16
SHARED = {"cells": CELLS, "aspects": ASPECTS, "scale_step": STEP, "random_state": 0}


@dataclass
class Data:
    """Pyramids, boxes and angles; the first `n_known` images set the sizes that are looked at."""

    train: pose_data.Posed
    test: pose_data.Posed
    pyramids: list[Any] = field(init=False)
    unseen: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        boxes = self.train.boxes
        self.rows, self.columns, stretches = stretches_of(boxes, ASPECTS, CELLS)
        extractor = HogPyramid(
            scales=scales_of(boxes, CELLS, 8, STEP), margin=3, fewest=2, stretches=stretches
        )
        self.pyramids = [extractor.extract(image) for image in self.train.images]
        self.unseen = [extractor.extract(image) for image in self.test.images]

    def some(self, which: Any) -> tuple[list[Any], np.ndarray, np.ndarray]:
        """Pyramids, boxes and angles of some training images."""
        numbers = np.arange(len(self.pyramids))[which]
        pyramids = [self.pyramids[i] for i in numbers]
        return pyramids, self.train.boxes[numbers], self.train.angles[numbers]


def pose_model(**parameters: Any) -> Callable:
    """How `PoseSVM` is trained, and what predicts."""

    def fit(pyramids: Any, boxes: Any, angles: Any) -> Callable[[Any], FoundPoses]:
        return PoseSVM(**SHARED, **parameters).fit(pyramids, boxes, angles).predict

    return fit


def detector(pyramids: Any, boxes: list[Any], C: float, tol: float) -> BoxSVM:
    """A detector of the objects of one class."""
    model = BoxSVM(C=C, tol=tol, cells=CELLS, aspects=1, mirror=False, refine=False, random_state=0)
    return model.fit(pyramids, boxes)


def independent(C: float, tol: float) -> Callable:
    """A detector for each of 16 poses, which takes images of all others for empty ones."""

    def fit(pyramids: Any, boxes: Any, angles: Any) -> Callable[[Any], FoundPoses]:
        numbers = nearest_angles(angles, N_POSES)
        models = {}
        for k in np.unique(numbers).tolist():
            own = [[tuple(b)] if p == k else [] for b, p in zip(boxes, numbers, strict=True)]
            models[k] = detector(pyramids, own, C, tol)

        def predict(images: Any) -> FoundPoses:
            found = {k: model.localise(images) for k, model in models.items()}
            best = [max(found, key=lambda k: found[k][i].scores[0]) for i in range(len(images))]
            return FoundPoses(
                np.array([found[k][i].edges[0] for i, k in enumerate(best)]),
                grid_of(N_POSES)[best],
                np.array([found[k][i].scores[0] for i, k in enumerate(best)]),
            )

        return predict

    return fit


def regression(C: float, tol: float) -> Callable:
    """One detector, and a ridge regression of sine and cosine on the cells of its best window."""

    def fit(pyramids: Any, boxes: Any, angles: Any) -> Callable[[Any], FoundPoses]:
        model = detector(pyramids, [[tuple(box)] for box in boxes], C, tol)
        rows, columns, _number = model.templates_[0]
        template = Templates(np.array([rows]), np.array([columns]), np.array([0]))

        def cells(pyramid: Any, box: Any) -> np.ndarray:
            features = WindowFeatures([pyramid], template)
            window = int(overlaps(features.edges(0), box[None])[:, 0].argmax())
            return features.vectors(0, np.array([window]))[0]

        turned = np.column_stack([np.cos(angles), np.sin(angles)])
        X = [cells(p, box) for p, box in zip(pyramids, boxes, strict=True)]
        ridge = RidgeCV(np.logspace(-1, 4, 11)).fit(np.array(X), turned)

        def predict(images: Any) -> FoundPoses:
            found = model.localise(images)
            edges = np.array([each.edges[0] for each in found])
            c, s = ridge.predict(np.array(list(map(cells, images, edges)))).T
            scores = np.array([each.scores[0] for each in found])
            return FoundPoses(edges, np.arctan2(s, c) % (2.0 * np.pi), scores)

        return predict

    return fit


def measured(found: FoundPoses, truth: pose_data.Posed) -> dict[str, float]:
    """Share of boxes that are right, and errors of angles in degrees."""
    pairs = zip(found.edges, truth.boxes, strict=True)
    common = np.array([overlaps(a[None], b[None])[0, 0] for a, b in pairs])
    apart = np.rad2deg(angle_errors(found.angles, truth.angles))
    return {
        "right boxes %": 100.0 * float((common >= 0.5).mean()),
        "overlap": float(common.mean()),
        "median": float(np.median(apart)),
        "mean": float(apart.mean()),
        "beyond 90 %": 100.0 * float((apart > 90.0).mean()),
        "loss": float(pose_losses(found, truth.boxes, truth.angles).mean()),
    }


def errors(data: Data, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Errors of all methods, against the number of training images."""
    C, kappa, tol = options.C, options.kappa, options.tol
    ways = {
        "product, explicit": pose_model(C=C, kappa=kappa, tol=tol),
        "product, pairs": pose_model(C=C, kappa=kappa, tol=tol, explicit=False),
        "a template per pose": pose_model(C=C, tol=tol, angle_kernel="sectors", n_angles=N_POSES),
        "16 detectors": independent(C, tol),
        "regression": regression(C, tol),
    }
    rows = []
    for n in options.sizes:
        for name, fit in ways.items():
            if options.only and name not in options.only:
                continue
            predict, seconds = cpu_time(lambda fit=fit, n=n: fit(*data.some(slice(n))))
            found, asked = cpu_time(lambda predict=predict: predict(data.unseen))
            row = {"n": n, "way": name, "CPU s": seconds, "ms": 1e3 * asked / len(data.unseen)}
            rows.append(row | measured(found, data.test))
            print(json.dumps(rows[-1]), flush=True)
    return rows


def ways(data: Data, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One problem on the grid, by Fourier terms and by pairs."""
    n, grid = options.sizes[-1], grid_of(N_POSES)
    kernel = PoseSVM(kappa=options.kappa, precision=1e-9)._angle_kernel()
    pyramids, boxes, angles = data.some(slice(n))
    poses = poses_of(boxes, grid[nearest_angles(angles, N_POSES)])
    written = PoseBoxes(data.rows, data.columns, kernel, N_POSES)
    search = PoseSearch(data.rows, data.columns, kernel, N_POSES)
    asked = [0.0]
    scored = search._scored

    def timed(x: Any, w: Any, truth: Any) -> np.ndarray:
        values, seconds = cpu_time(lambda: scored(x, w, truth))
        asked[0] += seconds
        return values

    search._scored = timed
    given = {
        "explicit": (written, pyramids, poses),
        "pairs": (search, *search.posed(pyramids, poses)),
    }
    rows, found = [], {}
    for name, solver in (
        ("explicit", DualCoordinate(cached_passes=3)),
        ("explicit", WorkingSet()),
        ("pairs", WorkingSet()),
    ):
        problem, asked[0] = Problem(*given[name], C=options.C), 0.0
        result, seconds = cpu_time(
            lambda problem=problem, solver=solver: solve(
                problem, solver, tol=options.tol, random_state=0
            )
        )
        certificate = result.certificate
        if name == "explicit":
            known, w = bind(*given[name]), result.w
            padded = known.pad(w.astype(np.float32))
            once = in_turns({"all": partial(known.hinges, padded)}, 3)["all"]
            asked[0] = once / n * certificate.oracle_calls
            found[name] = unstacked(w, len(kernel.finite_map([0.0])[0]))
        else:
            found[name] = kernel.finite_map(grid).T @ search.templates(result.w)
        rows.append(
            {
                "way": name, "solver": solver.name, "n": n, "CPU s": seconds,
                "primal": certificate.primal, "dual": certificate.dual,
                "calls": certificate.oracle_calls, "search %": 100.0 * asked[0] / seconds,
            }
        )  # fmt: skip
        print(json.dumps(rows[-1]), flush=True)
    one, other = stacked(found["explicit"]), stacked(found["pairs"])
    apart = np.linalg.norm(one - other) / np.linalg.norm(one)
    rows.append({"distance of the two w, relative": float(apart)})
    print(json.dumps(rows[-1]))
    return rows


def batches(data: Data, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Mini-batches against the whole training set at a time, over pairs."""
    rows = []
    for n in options.sizes:
        for batch in (5, 20, 50, None):
            fit = PoseSVM(
                **SHARED, C=options.C, kappa=options.kappa, tol=options.tol, explicit=False,
                solver=WorkingSet(batch=batch), max_iter=options.max_iter,
            ).fit  # fmt: skip
            model, seconds = cpu_time(lambda fit=fit, n=n: fit(*data.some(slice(n))))
            certificate = model.certificate_
            rows.append(
                {
                    "n": n, "batch": batch or n, "CPU s": seconds, "passes": certificate.passes,
                    "calls": certificate.oracle_calls, "gap": certificate.relative_gap,
                }
            )  # fmt: skip
            print(json.dumps(rows[-1]), flush=True)
    return rows


def choice(data: Data, options: argparse.Namespace) -> list[dict[str, Any]]:
    """C, and then kappa, on two folds of the training images."""
    n, rows = options.sizes[-1], []
    folds = np.arange(n) % 2

    def loss(**parameters: Any) -> float:
        values = []
        for k in range(2):
            pyramids, boxes, angles = data.some(slice(n))
            kept, rest = np.flatnonzero(folds != k), np.flatnonzero(folds == k)
            model = PoseSVM(**SHARED, tol=options.tol, **parameters)
            model.fit([pyramids[i] for i in kept], boxes[kept], angles[kept])
            values.append(-model.score([pyramids[i] for i in rest], boxes[rest], angles[rest]))
        rows.append(parameters | {"loss": float(np.mean(values))})
        print(json.dumps(rows[-1]), flush=True)
        return rows[-1]["loss"]

    best = min((0.03, 0.1, 0.3), key=lambda C: loss(C=C, kappa=options.kappa))
    min((1.0, 4.0), key=lambda kappa: loss(C=best, kappa=kappa))
    return rows


def pictures(data: Data, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Test images with what is found, and errors against the number of training images."""
    from matplotlib import pyplot as plt  # only this part needs it
    from matplotlib.patches import Rectangle

    n = options.sizes[-1]
    model = PoseSVM(**SHARED, C=options.C, kappa=options.kappa, tol=options.tol)
    found = model.fit(*data.some(slice(n))).predict(data.unseen[:18])
    figure, axes = plt.subplots(3, 6, figsize=(12, 5.4))
    for i, axis in enumerate(axes.ravel()):
        axis.imshow(data.test.images[i])
        axis.set_axis_off()
        for box, angle, colour in (
            (data.test.boxes[i], data.test.angles[i], "white"),
            (found.edges[i], found.angles[i], "yellow"),
        ):
            left, top, right, bottom = box
            axis.add_patch(
                Rectangle((left, top), right - left, bottom - top, fill=False, ec=colour, lw=1.5)
            )
            # The direction of the front seen from above, with the camera below the picture.
            middle, reach = ((left + right) / 2.0, (top + bottom) / 2.0), (right - left) / 2.0
            axis.annotate(
                "", (middle[0] + reach * np.sin(angle), middle[1] + reach * np.cos(angle)), middle,
                arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.5},
            )  # fmt: skip
    figure.tight_layout(pad=0.3)
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.picture, dpi=80)
    # Few colours are enough, and noise does not compress.
    Image.open(options.picture).convert("RGB").quantize(64).save(options.picture)
    return []


PARTS = {f.__name__: f for f in (errors, ways, batches, choice, pictures)}


def main() -> None:
    """Run one part, and write its figures."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("train", type=Path)
    arguments.add_argument("test", type=Path)
    arguments.add_argument("--part", choices=sorted(PARTS), default="errors")
    arguments.add_argument("--sizes", type=int, nargs="+", default=[50, 100, 200, 400, 800])
    arguments.add_argument("--only", nargs="+", help="names of the ways to compare")
    arguments.add_argument("--C", type=float, default=0.1)
    arguments.add_argument("--kappa", type=float, default=2.0)
    arguments.add_argument("--tol", type=float, default=0.05)
    arguments.add_argument("--max-iter", type=int, default=1000)
    arguments.add_argument("--n-test", type=int, default=600)
    here = Path(__file__).parent
    arguments.add_argument("--results", type=Path, default=here / "results")
    arguments.add_argument(
        "--picture", type=Path, default=here.parent / "docs" / "images" / "pose.png"
    )
    options = arguments.parse_args()
    warnings.simplefilter("ignore", NotConverged)
    train, test = pose_data.read(options.train), pose_data.read(options.test)
    test = pose_data.Posed(*(part[: options.n_test] for part in test))
    train = pose_data.Posed(*(part[: max(options.sizes)] for part in train))
    rows = PARTS[options.part](Data(train, test), options)
    options.results.mkdir(exist_ok=True)
    (options.results / f"pose_{options.part}.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
