"""Where an object is, and from which side it is seen: PoseSVM against other ways, on rendered cars.

    python benchmarks/pose_data.py TRAIN --n 900 --photographs IMAGES
    python benchmarks/pose_data.py TEST --n 600 --seed 1 --photographs OTHER_IMAGES
    python benchmarks/pose.py TRAIN TEST --part choice --sizes 150 --only "product, explicit"
    python benchmarks/pose.py TRAIN TEST --part errors --sizes 50 200 --seeds 3
    python benchmarks/pose.py TRAIN TEST --part ways --sizes 40 --tol 0.02
    python benchmarks/pose.py TRAIN TEST --part batches --sizes 50
    python benchmarks/pose.py TRAIN TEST --part pictures --sizes 200

Times are CPU seconds of training, without features, in one process; set OPENBLAS_NUM_THREADS and
OMP_NUM_THREADS to 1. All methods see the same pyramids, and the same windows of one shape on
stretched images. A box is right that overlaps the true one by 0.5. Each seed has training images
of its own. Where the limit of a fit ended it, its gap is larger than asked for, and ">" is said.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from sklearn.linear_model import RidgeCV

import pose_data
from taut import BoxSVM, PoseSVM, Problem, solve
from taut.binding import bind
from taut.data.angles import grid_of, nearest_angles
from taut.errors import NotConverged
from taut.kernels import VonMisesLabels
from taut.metrics import angle_errors, pose_losses
from taut.solvers import DualCoordinate, OneSlack, WorkingSet
from taut.spaces.pose_windows import stacked, unstacked
from taut.spaces.windows import WindowFeatures
from taut.structures import PoseBoxes, PoseSearch
from taut.structures.pose_boxes import poses_of
from taut.vision import FoundPoses, HogPyramid, Templates, overlaps
from taut.vision.boxes import paired_overlaps
from taut.vision.templates import scales_of, stretches_of
from timing import cpu_time, in_turns

CELLS, ASPECTS, STEP, N_POSES = 36, 2, 2.0 ** (1.0 / 3.0), 16
SHARED = {"cells": CELLS, "aspects": ASPECTS, "scale_step": STEP, "random_state": 0}
AS_WINDOWS = {"refine": False}  # what all ways have in common


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


class Constants(NamedTuple):
    """What folds of training images choose."""

    C: float
    kappa: float


class Ends(NamedTuple):
    """When training ends."""

    tol: float
    seconds: float  # of CPU time

    def parameters(self) -> dict[str, Any]:
        """Those of an estimator that is trained next."""
        last = time.process_time() + self.seconds
        return {"tol": self.tol, "callbacks": [lambda _record: time.process_time() > last]}


class Trained(NamedTuple):
    """A model, as far as it is asked here."""

    predict: Callable[[Any], FoundPoses]
    gap: float  # the largest relative gap of what it was trained by


Way = Callable[[Any, Any, Any, Constants, Ends], Trained]


def pose_model(**parameters: Any) -> Way:
    """How `PoseSVM` is trained."""

    def fit(pyramids: Any, boxes: Any, angles: Any, constants: Constants, ends: Ends) -> Trained:
        given = SHARED | AS_WINDOWS | constants._asdict() | ends.parameters() | parameters
        model = PoseSVM(**given)
        model.fit(pyramids, boxes, angles)
        return Trained(model.predict, model.certificate_.relative_gap)

    return fit


def linear_in_direction(angles: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The linear kernel of (1, cosine, sine)."""
    return 0.5 + 0.5 * np.cos(angles[:, None] - others)


def detector(pyramids: Any, boxes: list[Any], C: float, tol: float) -> BoxSVM:
    """A detector of the objects of one class."""
    model = BoxSVM(C=C, tol=tol, cells=CELLS, aspects=1, mirror=False, refine=False, random_state=0)
    return model.fit(pyramids, boxes)


def independent(
    pyramids: Any, boxes: Any, angles: Any, constants: Constants, ends: Ends
) -> Trained:
    """A detector for each of 16 poses, which takes images of all others for empty ones."""
    numbers = nearest_angles(angles, N_POSES)
    models = {}
    for k in np.unique(numbers).tolist():
        own = [[tuple(b)] if p == k else [] for b, p in zip(boxes, numbers, strict=True)]
        models[k] = detector(pyramids, own, constants.C, ends.tol)

    def predict(images: Any) -> FoundPoses:
        found = {k: model.localise(images) for k, model in models.items()}
        best = [max(found, key=lambda k: found[k][i].scores[0]) for i in range(len(images))]
        return FoundPoses(
            np.array([found[k][i].edges[0] for i, k in enumerate(best)]),
            grid_of(N_POSES)[best],
            np.array([found[k][i].scores[0] for i, k in enumerate(best)]),
        )

    return Trained(predict, max(m.certificate_.relative_gap for m in models.values()))


def regression(pyramids: Any, boxes: Any, angles: Any, constants: Constants, ends: Ends) -> Trained:
    """One detector, and a ridge regression of sine and cosine on the cells of its best window."""
    model = detector(pyramids, [[tuple(box)] for box in boxes], constants.C, ends.tol)
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

    return Trained(predict, model.certificate_.relative_gap)


WAYS: dict[str, Way] = {
    "product, explicit": pose_model(),
    "product, explicit, refined": pose_model(refine=True),
    "product, explicit, mirrored": pose_model(mirror=True),
    "product, pairs": pose_model(explicit=False),
    "product, pairs, 1-slack": pose_model(explicit=False, solver=OneSlack()),
    "linear in direction, pairs": pose_model(explicit=False, angle_kernel=linear_in_direction),
    "a template per pose": pose_model(angle_kernel="sectors", n_angles=N_POSES),
    "16 detectors": independent,
    "regression": regression,
}

#: By `--part choice`, the same for all ways.
CHOSEN = Constants(0.1, 2.0)


def measured(found: FoundPoses, truth: pose_data.Posed) -> dict[str, float]:
    """Share of boxes that are right, and errors of angles in degrees."""
    common = paired_overlaps(found.edges, truth.boxes)
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
    ends, most = Ends(options.tol, options.limit), len(data.pyramids) // options.seeds
    rows = []
    for n in options.sizes:
        for name in options.only:
            own = []
            for seed in range(options.seeds):
                some = data.some(slice(seed * most, seed * most + n))
                model, seconds = cpu_time(partial(WAYS[name], *some, CHOSEN, ends))
                found, asked = cpu_time(partial(model.predict, data.unseen))
                row = {"CPU s": seconds, "gap": model.gap, "ms": 1e3 * asked / len(data.unseen)}
                own.append(row | measured(found, data.test))
                print(json.dumps({"n": n, "way": name, "seed": seed} | own[-1]), flush=True)
            rows.append({"n": n, "way": name} | spread_of(own, options.tol))
            print("| " + " | ".join(map(str, rows[-1].values())) + " |", flush=True)
    return rows


def spread_of(rows: list[dict[str, float]], tol: float) -> dict[str, str]:
    """Means over seeds, and standard deviations where there are several."""
    found = {}
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        digits = 3 if name in ("gap", "loss", "overlap") else 1
        found[name] = f"{values.mean():.{digits}f}"
        if len(rows) > 1:
            found[name] += f" ± {values.std(ddof=1):.{digits}f}"
    if max(row["gap"] for row in rows) > tol:
        found["CPU s"] = "> " + found["CPU s"]
    return found


def ways(data: Data, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One problem on the grid, by Fourier terms and by pairs."""
    n, grid = options.sizes[-1], grid_of(N_POSES)
    kernel = VonMisesLabels(CHOSEN.kappa, precision=1e-9)
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
        problem, asked[0] = Problem(*given[name], C=CHOSEN.C), 0.0
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
    rows, ends = [], Ends(options.tol, options.limit)
    solvers = {f"mini-batches of {k}": WorkingSet(batch=k) for k in (5, 20)}
    solvers |= {"all at a time": WorkingSet(batch=None), "1-slack": OneSlack()}
    for n in options.sizes:
        for name, solver in solvers.items():
            fit = PoseSVM(
                **SHARED, **AS_WINDOWS, **CHOSEN._asdict(), **ends.parameters(), explicit=False,
                solver=solver,
            ).fit  # fmt: skip
            model, seconds = cpu_time(partial(fit, *data.some(slice(n))))
            certificate = model.certificate_
            rows.append(
                {
                    "n": n, "solver": name, "CPU s": seconds, "passes": certificate.passes,
                    "calls": certificate.oracle_calls, "gap": certificate.relative_gap,
                }
            )  # fmt: skip
            print(json.dumps(rows[-1]), flush=True)
    return rows


def choice(data: Data, options: argparse.Namespace) -> list[dict[str, Any]]:
    """C with the first kappa, and then kappa if there is one, on two folds of training images."""
    n, rows, ends = options.sizes[-1], [], Ends(options.tol, options.limit)
    pyramids, boxes, angles = data.some(slice(n))
    folds = np.arange(n) % 2

    def loss(name: str, constants: Constants) -> float:
        values = []
        for k in range(2):
            kept, rest = np.flatnonzero(folds != k), np.flatnonzero(folds == k)
            model = WAYS[name](*data.some(kept), constants, ends)
            found = model.predict([pyramids[i] for i in rest])
            values.append(pose_losses(found, boxes[rest], angles[rest]).mean())
        rows.append({"way": name} | constants._asdict() | {"loss": float(np.mean(values))})
        print(json.dumps(rows[-1]), flush=True)
        return rows[-1]["loss"]

    for name in options.only:
        tried = [Constants(C, options.kappa[0]) for C in options.C]
        best = min(tried, key=partial(loss, name))
        if name.startswith("product"):
            for kappa in options.kappa[1:]:
                loss(name, best._replace(kappa=kappa))
    return rows


def pictures(data: Data, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Test images with what is found, and errors against the number of training images."""
    from matplotlib import pyplot as plt  # only this part needs it
    from matplotlib.patches import Rectangle

    name, ends = "product, explicit", Ends(options.tol, options.limit)
    model = WAYS[name](*data.some(slice(options.sizes[-1])), CHOSEN, ends)
    found = model.predict(data.unseen[:18])
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
    arguments.add_argument("--only", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY")
    arguments.add_argument("--seeds", type=int, default=1, help="sets of training images")
    arguments.add_argument("--C", type=float, nargs="+", default=[0.1, 0.3, 1.0])
    arguments.add_argument("--kappa", type=float, nargs="+", default=[4.0, 2.0, 8.0])
    arguments.add_argument("--tol", type=float, default=0.1)
    arguments.add_argument("--limit", type=float, default=1e9, help="CPU seconds of a fit")
    arguments.add_argument("--n-test", type=int, default=300)
    here = Path(__file__).parent
    arguments.add_argument("--results", type=Path, default=here / "results")
    arguments.add_argument(
        "--picture", type=Path, default=here.parent / "docs" / "images" / "pose.png"
    )
    options = arguments.parse_args()
    warnings.simplefilter("ignore", NotConverged)
    train, test = pose_data.read(options.train), pose_data.read(options.test)
    test = pose_data.Posed(*(part[: options.n_test] for part in test))
    most = options.seeds * max(options.sizes)
    train = pose_data.Posed(*(part[:most] for part in train))
    rows = PARTS[options.part](Data(train, test), options)
    options.results.mkdir(exist_ok=True)
    (options.results / f"pose_{options.part}.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
