"""What an image costs: milliseconds of CPU for resizing, HOG, visual words, and for detection.

python benchmarks/vision_profile.py --data FOLDER

The folder, or the variable TAUT_DATA, has photographs in `raccoon/images`; without it images are
noise. Each is brought to 320 pixels on its longer side. All calls take turns, on one thread.
scikit-image is compared where it is installed: its HOG is of grey images, without interpolation
between cells, and with 9 directions.

Detection is with 4 templates of 8 x 8 cells and a border of 1, at 10 scales, from arrays. Steps of
the window scores are timed by functions of this file that do the same work; what is left of the
time of the scores is what they do not account for. dlib is compared where it is installed, with
detectors of the same size: it has no colours, goes from scale to scale by 5/6 while a template
fits into the image, and looks at fewer windows that reach beyond it.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import numba
import numpy as np

from datasets import parser
from taut import BoxSVM
from taut.metrics import suppress
from taut.spaces.windows import WindowFeatures
from taut.vision.descriptors import DenseDescriptors
from taut.vision.hog import HogPyramid
from taut.vision.images import read_image, resize
from taut.vision.resizing import planes_of, resized
from taut.vision.templates import Templates
from taut.vision.words import VisualWords, histograms
from timing import in_turns

LONGER = 320
SCALES = 2.0 ** (-0.25 * np.arange(10))
N_WORDS, N_BOXES = 1000, 1000
N_TEMPLATES, SIDE = 4, 8
FOUND = 0.01  # share of windows that score above the threshold of the detector


def photographs(folder: str | None, count: int) -> list[np.ndarray]:
    """Some photographs, or noise where there are none."""
    files = sorted(Path(folder, "raccoon", "images").glob("*.jpg"))[:count] if folder else []
    if not files:
        rng = np.random.default_rng(0)
        return [rng.integers(0, 256, (240, LONGER, 3), dtype=np.uint8) for _ in range(count)]
    images = []
    for file in files:
        image = read_image(file)
        scale = LONGER / max(image.shape[:2])
        height, width = (round(scale * side) for side in image.shape[:2])
        images.append(resize(image, width, height))
    return images


def of_pyramids(images: list[np.ndarray]) -> dict[str, Callable[[], Any]]:
    """Calls that make pyramids of all images, or parts of them."""
    features = HogPyramid(scales=SCALES, margin=3)
    flat = HogPyramid(scales=SCALES, margin=3, colour=False)
    planes = [planes_of(image) for image in images]

    def levels() -> None:
        for plane in planes:
            made = [plane]
            for scale in SCALES:
                high, wide = (max(1, round(side * scale / 8)) * 8 for side in plane.shape[1:])
                fits = [p for p in made if p.shape[1] >= 1.9 * high and p.shape[2] >= 1.9 * wide]
                made.append(resized(min(fits, key=np.size, default=plane), high, wide))

    return {
        "resizing to 10 levels": levels,
        "pyramid of 10 levels": lambda: [features.extract(image) for image in images],
        "the same without colour": lambda: [flat.extract(image) for image in images],
    }


def of_one_level(images: list[np.ndarray]) -> dict[str, Callable[[], Any]]:
    """Calls that make HOG of all images at their own size."""
    one = HogPyramid(scales=[1.0], colour=False)
    calls: dict[str, Callable[[], Any]] = {
        "one level without colour": lambda: [one.extract(image) for image in images]
    }
    if importlib.util.find_spec("skimage"):
        from skimage.feature import hog

        calls["scikit-image: HOG of grey"] = lambda: [
            hog(image.mean(axis=2), pixels_per_cell=(8, 8), cells_per_block=(2, 2))
            for image in images
        ]
    return calls


def of_words(images: list[np.ndarray]) -> dict[str, Callable[[], Any]]:
    """Calls that describe patches of all images, name their words and count these in boxes."""
    dense = DenseDescriptors()
    vocabulary = VisualWords(N_WORDS, dense).fit(images)
    maps = [vocabulary.transform(image) for image in images]
    rng = np.random.default_rng(0)
    edges = np.sort(rng.uniform(0, 1, (N_BOXES, 2, 2)), axis=1).reshape(-1, 4)
    boxes = [edges * np.tile(word_map.size, 2) for word_map in maps]
    return {
        "dense descriptors": lambda: [dense.extract(image) for image in images],
        f"words of {N_WORDS}": lambda: [vocabulary.transform(image) for image in images],
        f"histograms of {N_BOXES} boxes, 3 levels": lambda: [
            histograms(word_map, of, 3) for word_map, of in zip(maps, boxes)
        ],
    }


def detector(images: list[np.ndarray]) -> BoxSVM:
    """A model with random templates, which finds as many windows as FOUND says."""
    model = BoxSVM(scale_step=2.0**0.25)
    model.classes_ = np.array(["thing"])
    model.templates_ = np.tile([SIDE, SIDE, 0], (N_TEMPLATES, 1))
    model.scales_ = SCALES
    model.refinement_ = np.zeros((4, 1))
    model.extraction_ = np.array([model.cell, 4, model.border, model.colour, model.longest])
    found = windows_of(model, images)
    rng = np.random.default_rng(0)
    model.coef_ = 0.01 * rng.normal(size=found[0].n_features)
    scores = np.concatenate([scores_of(own, model.coef_) for own in found])
    first = int(found[0].space.firsts[-1]) * found[0].space.cells.shape[1]
    model.coef_[first : first + N_TEMPLATES] -= (
        np.quantile(scores, 1.0 - FOUND) / found[0].templates.bias
    )
    return model


def extractor_of(model: BoxSVM) -> HogPyramid:
    """What extracts the features that a model sees."""
    return HogPyramid(scales=SCALES, margin=4, cell=model.cell, colour=model.colour, fewest=2)


def windows_of(model: BoxSVM, images: list[np.ndarray]) -> list[WindowFeatures]:
    """The windows of each image."""
    rows, columns, classes = model.templates_.T
    templates = Templates(rows, columns, classes, model.border)
    extractor = extractor_of(model)
    return [WindowFeatures([extractor.extract(image)], templates) for image in images]


def scores_of(features: WindowFeatures, w: np.ndarray) -> np.ndarray:
    """The scores of the windows of an image."""
    room = np.empty(features.n_potentials, dtype=np.float32)
    return features.scores(0, features.pad(w.astype(np.float32)), room)


@numba.njit
def convert(cells, values):
    """Bytes to numbers."""
    for r in range(cells.shape[0]):
        for c in range(cells.shape[1]):
            values[r, c] = cells[r, c]


@numba.njit
def multiply(weights, values, ends, products):
    """The products of all cells of templates with all cells of each level."""
    for level in range(ends.shape[0] - 1):
        own = values[ends[level] : ends[level + 1]]
        n = weights.shape[0] * own.shape[0]
        np.dot(weights, own.T, products[:n].reshape((weights.shape[0], own.shape[0])))


@numba.njit(fastmath=True)
def add_up(products, shapes, side, n_templates, sums):
    """Sums of shifted rows of products, for each template and level."""
    n_cells = n_templates * side * side
    for level in range(shapes.shape[0]):
        rows, columns = shapes[level]
        own = products[: n_cells * rows * columns].reshape((n_cells, rows * columns))
        for t in range(n_templates):
            length = (rows - side) * columns + columns - side + 1
            if rows < side or columns < side:
                continue
            total = sums[:length]
            total[:] = 0.0
            for dy in range(side):
                for dx in range(side):
                    row = own[(t * side + dy) * side + dx]
                    shift = dy * columns + dx
                    for p in range(length):
                        total[p] += row[shift + p]


def of_detection(images: list[np.ndarray]) -> dict[str, Callable[[], Any]]:
    """Calls that detect in all images, and parts of it."""
    model = detector(images)
    extractor = extractor_of(model)
    found = windows_of(model, images)
    w = found[0].pad(model.coef_.astype(np.float32))
    room = np.empty(max(own.n_potentials for own in found), dtype=np.float32)
    side = SIDE + 2 * model.border
    n_cells, channels = N_TEMPLATES * side**2, found[0].space.cells.shape[1]
    weights = w[: n_cells * channels].reshape(n_cells, channels).copy()
    cells = [own.space.cells for own in found]
    values = [own.astype(np.float32) for own in cells]
    shapes = [own.space.levels.shapes for own in found]
    ends = [own.space.levels.cells for own in found]
    most = max(int(own.prod(axis=1).max()) for own in shapes)
    products, sums = np.zeros(n_cells * most, np.float32), np.empty(most, np.float32)
    scored = [scores_of(own, model.coef_) for own in found]
    edges = [own.edges(0) for own in found]
    calls: dict[str, Callable[[], Any]] = {
        "detection: features": lambda: [extractor.extract(image) for image in images],
        "detection: window scores": lambda: [own.scores(0, w, room) for own in found],
        "  bytes to numbers": lambda: [
            convert(own, out) for own, out in zip(cells, values, strict=True)
        ],
        "  products of matrices": lambda: [
            multiply(weights, own, end, products) for own, end in zip(values, ends, strict=True)
        ],
        "  sums of shifted rows": lambda: [
            add_up(products, own, side, N_TEMPLATES, sums) for own in shapes
        ],
    }
    for count, name in ((None, "above the threshold"), (2000, "of 2000 windows")):
        chosen = [np.flatnonzero(own >= 0.0) for own in scored]
        if count is not None:
            chosen = [np.argsort(-own)[:count] for own in scored]
        kept = [
            (box[best], own[best].astype(np.float64))
            for box, own, best in zip(edges, scored, chosen, strict=True)
        ]
        calls[f"detection: suppression {name}"] = lambda kept=kept: [
            suppress(*own, model.suppression, 100) for own in kept
        ]
    calls["detection: whole"] = lambda: model.detect(images)
    calls["detection: whole, any score"] = lambda: model.detect(images, threshold=-np.inf)
    if importlib.util.find_spec("dlib"):
        detectors = [dlib_detector(images)] * N_TEMPLATES
        calls["dlib: 4 detectors"] = lambda: [dlib_detect(detectors, image) for image in images]
        calls["dlib: 1 detector"] = lambda: [dlib_detect(detectors[:1], image) for image in images]
    return calls


def dlib_detector(images: list[np.ndarray]) -> Any:
    """A detector of dlib, of the size of the templates, trained on boxes in a few images."""
    import dlib

    options = dlib.simple_object_detector_training_options()
    options.detection_window_size = (8 * SIDE) ** 2
    options.num_threads, options.be_verbose, options.C = 1, False, 1.0
    some = [image for image in images if min(image.shape[:2]) > 16 * SIDE][:3]
    boxes = [[dlib.rectangle(30, 30, 30 + 8 * SIDE, 30 + 8 * SIDE)] for _ in some]
    return dlib.train_simple_object_detector(some, boxes, options)


def dlib_detect(detectors: list[Any], image: np.ndarray) -> Any:
    """What dlib finds."""
    import dlib

    return dlib.fhog_object_detector.run_multiple(detectors, image, upsample_num_times=0)


def plot(taken: dict[str, float], path: Path) -> None:
    """Where the time of a detection goes, beside dlib's."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    scores, whole = taken["detection: window scores"], taken["detection: whole"]
    steps = {
        "features": taken["detection: features"],
        "products of matrices": taken["  products of matrices"],
        "sums of shifted rows": taken["  sums of shifted rows"],
    }
    steps["rest of the scores"] = scores + steps["features"] - sum(steps.values())
    steps["suppression"] = taken["detection: suppression above the threshold"]
    steps["rest"] = whole - sum(steps.values())
    colours = ("#1e8449", "#1f5fa8", "#5b9bd5", "#a9cce3", "#e07b1a", "#bbbbbb")
    figure, axis = plt.subplots(figsize=(9.0, 2.6), layout="constrained")
    left = 0.0
    for (name, value), colour in zip(steps.items(), colours, strict=True):
        width = max(value, 0.0)
        axis.barh("taut", width, left=left, color=colour, label=f"{name}: {value:.1f}")
        left += width
    for name in ("dlib: 4 detectors", "dlib: 1 detector"):
        if name in taken:
            axis.barh(name, taken[name], color="#5d6d7e")
            axis.annotate(f" {taken[name]:.1f}", (taken[name], name), va="center", fontsize=9)
    axis.annotate(f" {whole:.1f}", (left, "taut"), va="center", fontsize=9)
    axis.invert_yaxis()
    axis.set_xlabel("CPU milliseconds an image")
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--images", type=int, default=20)
    options.add_argument("--repeats", type=int, default=7)
    options.add_argument("--picture", type=Path, help="(default: in the folder of results)")
    options.add_argument("--part", choices=("features", "words", "detection", "all"), default="all")
    arguments = options.parse_args()
    images = photographs(arguments.data, arguments.images)
    parts = {
        "features": lambda: of_pyramids(images) | of_one_level(images),
        "words": lambda: of_words(images),
        "detection": lambda: of_detection(images),
    }
    calls = {}
    for part in parts if arguments.part == "all" else (arguments.part,):
        calls |= parts[part]()
    taken = {
        name: 1e3 * seconds / len(images)
        for name, seconds in in_turns(calls, arguments.repeats).items()
    }
    for name, milliseconds in taken.items():
        print(f"{name:42} {milliseconds:8.2f} ms an image")
    if "detection: whole" in taken:
        plot(taken, arguments.picture or arguments.results / "detection_profile.png")
    pyramid = HogPyramid(scales=SCALES, margin=3).extract(images[0])
    print(f"{'bytes of a pyramid':42} {pyramid.cells.nbytes:8}")


if __name__ == "__main__":
    main()
