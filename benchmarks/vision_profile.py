"""What the features of an image cost: milliseconds of CPU for resizing, HOG and visual words.

python benchmarks/vision_profile.py --data FOLDER

The folder, or the variable TAUT_DATA, has photographs in `raccoon/images`; without it images are
noise. Each is brought to 320 pixels on its longer side. All calls take turns, on one thread.
scikit-image is compared where it is installed: its HOG is of grey images, without interpolation
between cells, and with 9 directions.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from taut.vision.descriptors import DenseDescriptors
from taut.vision.hog import HogPyramid
from taut.vision.images import read_image, resize
from taut.vision.resizing import planes_of, resized
from taut.vision.words import VisualWords, histograms
from timing import in_turns

LONGER = 320
SCALES = 2.0 ** (-0.25 * np.arange(10))
N_WORDS, N_BOXES = 1000, 1000


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("TAUT_DATA"))
    parser.add_argument("--images", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    images = photographs(arguments.data, arguments.images)
    calls = of_pyramids(images) | of_one_level(images) | of_words(images)
    for name, seconds in in_turns(calls, arguments.repeats).items():
        print(f"{name:40} {1e3 * seconds / len(images):8.2f} ms an image")
    pyramid = HogPyramid(scales=SCALES, margin=3).extract(images[0])
    print(f"{'bytes of a pyramid':40} {pyramid.cells.nbytes:8}")


if __name__ == "__main__":
    main()
