"""Joints of people in sport: how many are found, and what that costs.

    python benchmarks/joints.py --data FOLDER [--only NAME,NAME] [--picture FILE]

The folder has `lsp_extended`: 500 images to train on and 100 to test. Each model is trained in a
process of its own on one thread: CPU seconds of all from the files to the model, compilation left
out, which a model of a few images does before; milliseconds of CPU for an image at prediction; and
the peak of memory. `--part folds` compares settings on folds of the training images.
"""

from __future__ import annotations

import os
import resource
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import numpy as np

from datasets import data_folder, parser
from joint_data import LIMBS, NAMES, People, people, settings
from taut import PartSVM, Problem, solve
from taut.binding import bind
from taut.errors import NotConverged
from taut.metrics import pck, pcp, visibility_accuracy
from taut.structures import Parts
from taut.vision import FoundJoints, JointPose, image_size, plot_joint_grid
from taut.vision.photographs import Photographs
from timing import cpu_time, markdown

WARM = 6  # images of the model that compiles
FOLDS = 4
#: What folds compare, and a name for each.
CHANGES: dict[str, dict[str, Any]] = {
    f"C = {C}, cells = {cells}": {"C": C, "cells": cells}
    for C in (0.03, 0.1, 0.3)
    for cells in (16, 20)
}


class Answer(NamedTuple):
    """What a model found in test images, and what it cost."""

    found: FoundJoints
    seconds: float  # CPU, of training
    milliseconds: float  # CPU, for an image at prediction
    megabytes: float  # the peak of the process
    gap: float  # relative


def with_springs(train: People, test: People, **changes: Any) -> Answer:
    """PartSVM."""
    model = PartSVM(**settings(**changes))
    PartSVM(**settings(**changes, max_iter=1)).fit(*train.take(slice(WARM))).predict(
        test.images[:1]
    )
    _, seconds = cpu_time(lambda: model.fit(*train))
    found, spent = cpu_time(lambda: model.predict(test.images))
    return Answer(
        found, seconds, 1e3 * spent / len(test.images), peak(), model.certificate_.relative_gap
    )


def without_springs(train: People, test: People, **changes: Any) -> Answer:
    """A model for each joint alone, of the same templates and aspects, on the same features."""
    model = PartSVM(**settings(**changes))
    photographs, unseen = (Photographs(own.images, model.longest) for own in (train, test))
    shown = model._shown(photographs, train.joints, train.visible, None)
    frame, poses, mirror = model._framed(shown)
    pyramids, seconds = cpu_time(lambda: model._features(photographs, frame, mirror))
    extractor = model._extractor(frame)
    tested, spent = cpu_time(
        lambda: [unseen.pyramid(i, extractor) for i in range(len(test.images))]
    )
    solver = model._options()["solver"]
    joints, visible, gap = np.zeros(test.joints.shape), np.zeros(test.visible.shape, bool), 0.0
    for p, anchors in enumerate(frame.anchors_in(model.cells)):
        structure = Parts(
            [-1], [anchors], (model.side, model.side), model.cells, model.reach * model.cells
        )
        own = [JointPose(*(v[p : p + 1] for v in pose[:3]), pose.size) for pose in poses]
        # The loss of a part is 1 here and a share of all parts there: the same for weights that are
        # so many times as large, and for C.
        problem = Problem(structure, pyramids, own, model.C * len(NAMES))
        solve(problem, solver, tol=0.5, max_iter=1)  # compiles
        result, taken = cpu_time(
            lambda problem=problem: solve(
                problem, solver, tol=model.tol, max_iter=model.max_iter, random_state=0
            )
        )
        seconds += taken
        gap = max(gap, result.certificate.relative_gap)
        data: Any = bind(structure, tested)
        (labels, _scores), taken = cpu_time(lambda data=data, w=result.w: data.drawn(w, 2))
        spent += taken
        best = np.where(labels[0] < 0, labels[1], labels[0])
        found = structure.poses(data.blocks, structure.decode(best, data.blocks.offsets))
        joints[:, p] = [pose.joints[0] for pose in found]
        visible[:, p] = labels[0] >= 0
    answer = FoundJoints(joints, visible, np.zeros(len(joints)))
    return Answer(answer, seconds, 1e3 * spent / len(test.images), peak(), gap)


def mean_pose(train: People, test: People) -> Answer:
    """Each joint where it is in the mean, in shares of width and height of the image."""
    shares = train.joints / sizes(train)[:, None, :]
    mean = np.ma.array(shares, mask=np.repeat(~train.visible[:, :, None], 2, axis=2)).mean(axis=0)
    joints = np.asarray(mean)[None] * sizes(test)[:, None, :]
    found = FoundJoints(joints, np.ones(test.visible.shape, bool), np.zeros(len(joints)))
    return Answer(found, 0.0, 0.0, peak(), 0.0)


METHODS = {
    "5 aspects and springs": (with_springs, {}),
    "1 aspect and springs": (with_springs, {"aspects": 1}),
    "5 aspects without springs": (without_springs, {}),
    "mean pose": (mean_pose, {}),
}


def sizes(some: People) -> np.ndarray:
    """Width and height of images."""
    return np.array([image_size(image) for image in some.images], dtype=np.float64)


def peak() -> float:
    """Of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def run(name: str, folder: Path) -> Answer:
    """One method, in a process of its own."""
    warnings.simplefilter("ignore", NotConverged)
    method, changes = METHODS[name]
    return method(*people(folder), **changes)


def table(answers: dict[str, Answer], test: People) -> str:
    """Measures of all methods, a row for each."""
    rows = []
    for name, answer in answers.items():
        near = pck(answer.found.joints, test.joints, test.visible)
        right = pcp(answer.found.joints, test.joints, LIMBS, test.visible)
        seen = visibility_accuracy(answer.found.visible, test.visible)
        rows.append(
            [name, *(f"{share:.2f}" for share in (near.mean, *by_kind(near.each))),
             f"{right.mean:.2f}", f"{seen.mean:.2f}", f"{answer.seconds:.0f}",
             f"{answer.milliseconds:.0f}", f"{answer.megabytes:.0f}", f"{answer.gap:.2f}"]
        )  # fmt: skip
    header = ["", "PCK@0.2", *KINDS, "PCP", "visibility", "training, CPU s", "ms per image", "MB"]
    return markdown([*header, "gap"], rows)


KINDS = ("ankle", "knee", "hip", "wrist", "elbow", "shoulder", "neck", "head top")


def by_kind(each: np.ndarray) -> list[float]:
    """Left and right joints together."""
    return [
        float(np.mean([v for v, name in zip(each, NAMES, strict=True) if name.endswith(kind)]))
        for kind in KINDS
    ]


def compare_folds(folder: Path) -> None:
    """PCK of settings on folds of the training images."""
    train, _test = people(folder)
    numbers = np.arange(len(train.images)) % FOLDS
    for name, changes in CHANGES.items():
        shares = []
        for fold in range(FOLDS):
            rest, held = (
                People([train.images[i] for i in own], train.joints[own], train.visible[own])
                for own in (np.flatnonzero(numbers != fold), np.flatnonzero(numbers == fold))
            )
            answer = with_springs(rest, held, **changes)
            shares.append(pck(answer.found.joints, held.joints, held.visible).mean)
        print(f"{name}: PCK {np.mean(shares):.3f} +- {np.std(shares):.3f}", flush=True)


def main() -> None:
    """Print the table, draw what was found in the first images."""
    arguments = parser(__doc__)
    arguments.add_argument("--part", choices=("test", "folds"), default="test")
    arguments.add_argument("--only", default=",".join(METHODS))
    arguments.add_argument("--picture", type=Path, help="(default: in the folder of results)")
    options = arguments.parse_args()
    folder = data_folder(options)
    if options.part == "folds":
        warnings.simplefilter("ignore", NotConverged)
        compare_folds(folder)
        return
    _train, test = people(folder)
    answers = {}
    for name in options.only.split(","):
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            answers[name] = process.submit(run, name, folder).result()
        print(table(answers, test), flush=True)
    first = next(iter(answers.values())).found
    truths = np.where(test.visible[:, :, None], test.joints, np.nan)
    figure = plot_joint_grid(test.images[:16], LIMBS, list(truths[:16]), list(first.joints[:16]))
    picture = options.picture or options.results / "joints.jpg"
    figure.savefig(picture, dpi=75, pil_kwargs={"quality": 80})


if __name__ == "__main__":
    main()
