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
from taut.vision.images import SUFFIXES, image_size, list_images, read_image, resize, shrunk_size
from taut.vision.pyramid import Pyramid


class Photographs:
    """Images as they are given, read one by one when they are asked for."""

    def __init__(self, images: Any, longest: int) -> None:
        if isinstance(images, str | os.PathLike):
            folder, images = images, list_images(images)
            if not images:
                raise InvalidData(
                    f"images = {os.fspath(folder)!r}: there are no images in this folder; give "
                    f"one with files whose names end with {', '.join(sorted(SUFFIXES))}"
                )
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
        height, width = pixels.shape[:2]
        known = self._sizes.setdefault(i, (width, height))
        if known != (width, height):
            raise InvalidData(
                f"image {i} has {width} x {height} pixels, and had {known[0]} x {known[1]} when "
                "its boxes were read: leave files as they are in the meantime"
            )
        return resize(pixels, *shrunk_size(known, self.longest))

    def size(self, i: int) -> tuple[float, float]:
        """Width and height of an image as it is given: of its pixels, if they have been read."""
        given = self.images[i]
        if isinstance(given, Pyramid):
            width, height = given.size.tolist()
            return width, height
        if i not in self._sizes:
            self._sizes[i] = image_size(given, name=f"image {i}")
        return self._sizes[i]

    def ratios(self, i: int) -> np.ndarray:
        """By what left, top, right and bottom edge are multiplied where an image is shrunk."""
        if isinstance(self.images[i], Pyramid):
            return np.ones(4)
        size = self.size(i)
        return np.tile(np.divide(shrunk_size(size, self.longest), size), 2)

    def as_given(self, edges: np.ndarray, i: int) -> np.ndarray:
        """Boxes of the image that was shrunk, in the image as it is given."""
        return np.clip(edges / self.ratios(i), 0.0, np.tile(self.size(i), 2))

    def truths(self, boxes: Any) -> list[Boxes]:
        """An item for each image, as it is given; boxes end where their image does."""
        return [
            truth._replace(edges=within(truth.edges, self.size(i), f"image {i}"))
            for i, truth in enumerate(as_boxes(boxes, len(self)))
        ]

    def pyramid(self, i: int, extractor: HogPyramid) -> Pyramid | None:
        """The features of one image; None of one that is too small to have any."""
        given = self.images[i]
        if isinstance(given, Pyramid):
            return given
        pixels = self[i]
        return extractor.extract(pixels) if extractor.has_cells(*pixels.shape[:2]) else None

    def features(
        self, extractor: HogPyramid, folder: Any, mirror: bool, n_jobs: int, verbose: int
    ) -> Any:
        """Those of all images, each followed by that of its mirror image: a list, or on disk."""
        if isinstance(self.images[0], Pyramid):
            if folder is not None:
                raise InvalidData(
                    f"folder = {os.fspath(folder)!r} keeps features that are extracted, and images "
                    "are features of your own: leave folder out"
                )
            pairs = [[p, p.mirror_image()] if mirror else [p] for p in self.images]
            return [pyramid for pair in pairs for pyramid in pair]
        images: Any = self
        return extract(images, extractor, folder, n_jobs=n_jobs, mirror=mirror, verbose=verbose)
