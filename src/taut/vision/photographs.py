"""Images as users give them, read one by one, shrunk, and turned into features."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from taut.errors import InvalidData
from taut.vision.annotations import as_boxes
from taut.vision.boxes import Boxes, within
from taut.vision.extraction import extract
from taut.vision.hog import HogPyramid
from taut.vision.images import image_size, list_images, read_image, shrink
from taut.vision.pyramid import Pyramid


class Photographs:
    """Images as they are given, read one by one when they are asked for."""

    def __init__(self, images: Any, longest: int) -> None:
        if isinstance(images, str | os.PathLike):
            images = list_images(images)
        if isinstance(images, np.ndarray) and images.ndim == 3:
            raise InvalidData("images is one image: give a list of images, [image]")
        self.images = list(images)
        if not self.images:
            raise InvalidData("images is empty: give at least one image")
        kinds = [isinstance(image, Pyramid) for image in self.images]
        if kinds.count(kinds[0]) < len(kinds):
            raise InvalidData(
                f"image {kinds.index(not kinds[0])} is {'no' if kinds[0] else 'a'} Pyramid, unlike "
                "image 0: give features of your own for all images, or for none"
            )
        self.longest = longest
        self._sizes: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> np.ndarray:
        pixels = read_image(self.images[i], name=f"image {i}")
        return shrink(pixels, _no_boxes(), self.longest)[0]

    def size(self, i: int) -> tuple[float, float]:
        """Width and height of an image as it is given."""
        given = self.images[i]
        if isinstance(given, Pyramid):
            width, height = given.size.tolist()
            return width, height
        if i not in self._sizes:
            self._sizes[i] = image_size(given, name=f"image {i}")
        return self._sizes[i]

    def factor(self, i: int) -> float:
        """By what an image is shrunk."""
        if isinstance(self.images[i], Pyramid):
            return 1.0
        return min(1.0, self.longest / max(self.size(i)))

    def truths(self, boxes: Any) -> list[Boxes]:
        """An item for each image, as it is given; boxes end where their image does."""
        return [
            truth._replace(edges=within(truth.edges, self.size(i), f"image {i}"))
            for i, truth in enumerate(as_boxes(boxes, len(self)))
        ]

    def pyramid(self, i: int, extractor: HogPyramid) -> Pyramid:
        """The features of one image."""
        given = self.images[i]
        return given if isinstance(given, Pyramid) else extractor.extract(self[i])

    def features(
        self, extractor: HogPyramid, folder: Any, mirror: bool, n_jobs: int, verbose: int
    ) -> Any:
        """Those of all images, each followed by that of its mirror image: a list, or on disk."""
        if isinstance(self.images[0], Pyramid):
            pairs = [[p, p.mirror_image()] if mirror else [p] for p in self.images]
            return [pyramid for pair in pairs for pyramid in pair]
        images: Any = self
        return extract(images, extractor, folder, n_jobs=n_jobs, mirror=mirror, verbose=verbose)


def _no_boxes() -> Boxes:
    return Boxes(np.empty((0, 4)), np.empty(0, dtype=str), np.empty(0, dtype=bool))
