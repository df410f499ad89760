"""Detectors that `detection.py` compares: fit on files with boxes of one class, then detect."""

from __future__ import annotations

import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from taut import BoxSVM
from taut.vision import Boxes, Detections, HogPyramid, Pyramid, image_size, read_image
from taut.vision.templates import scales_of, templates_of

#: What the templates of all methods have in common, as in BoxSVM's defaults.
CELL, CELLS, SHAPES, BORDER, STEP, MARGIN = 8, 64, 3, 1, 2.0**0.25, 4


class Detector(ABC):
    """A method of finding objects of one class."""

    gap: float | None = None  # certified, relative

    @abstractmethod
    def fit(self, images: Sequence[Any], boxes: Sequence[Boxes]) -> None:
        """Learn from files."""

    @abstractmethod
    def detect(self, images: Sequence[Any]) -> list[Detections]:
        """What is found in files or arrays, at any score."""


class Taut(Detector):
    """BoxSVM with its defaults."""

    def __init__(self) -> None:
        self.model = BoxSVM(random_state=0)

    def fit(self, images, boxes):
        self.model.fit(images, boxes)
        self.gap = self.model.certificate_.relative_gap

    def detect(self, images):
        return self.model.detect(images, threshold=-np.inf)


class Geometry(Taut):
    """BoxSVM whose features are zero, but for the place and the size of windows."""

    def fit(self, images, boxes):
        self.features = features_for(boxes)
        super().fit([self._blank(image) for image in images], boxes)

    def detect(self, images):
        return super().detect([self._blank(image) for image in images])

    def _blank(self, image: Any) -> Pyramid:
        pyramid = self.features.extract(read_image(image))
        return pyramid._replace(cells=np.zeros_like(pyramid.cells))


class MeanBox(Detector):
    """In each image the mean of the training boxes, which are measured in parts of their image."""

    def fit(self, images, boxes):
        parts = [
            truth.edges / np.tile(image_size(image), 2)
            for image, truth in zip(images, boxes, strict=True)
        ]
        self.box = np.concatenate(parts).mean(axis=0)
        self.name = _class_of(boxes)

    def detect(self, images):
        return [
            Detections(
                self.box[None] * np.tile(image_size(image), 2), np.array([self.name]), np.ones(1)
            )
            for image in images
        ]


class Dlib(Detector):
    """dlib's own training of HOG templates, one for each shape, which work together.

    Its trainer refuses boxes that none of its windows overlaps enough, and says in which images
    they are. These boxes are then marked as ignored, as its documentation asks.
    """

    def __init__(self, C: float, shapes: int) -> None:
        self.C, self.shapes = C, shapes

    def fit(self, images, boxes):
        import dlib

        options = dlib.simple_object_detector_training_options()
        options.C = self.C
        options.add_left_right_image_flips = True
        options.num_threads = 1
        options.be_verbose = False
        # Enlarging all images to reach a few boxes takes four times as long.
        options.upsample_limit = 0
        self.name = _class_of(boxes)
        self.detectors = []
        edges = np.concatenate([truth.edges for truth in boxes])
        shapes = templates_of(edges, np.zeros(len(edges), dtype=int), self.shapes, CELLS, 0)
        centres = np.log(shapes.columns / shapes.rows)
        with tempfile.TemporaryDirectory() as folder:
            for k in range(len(centres)):
                ignored = [
                    np.abs(_ratios(truth.edges)[:, None] - centres).argmin(axis=1) != k
                    for truth in boxes
                ]
                self.detectors.append(_trained(dlib, Path(folder), images, boxes, ignored, options))

    def detect(self, images):
        import dlib

        found = []
        for image in images:
            pixels = image if isinstance(image, np.ndarray) else dlib.load_rgb_image(str(image))
            places, scores, _ = dlib.fhog_object_detector.run_multiple(
                self.detectors, pixels, upsample_num_times=0, adjust_threshold=-1.0
            )
            edges = [(p.left(), p.top(), p.right() + 1, p.bottom() + 1) for p in places]
            found.append(
                Detections(
                    np.array(edges, dtype=float).reshape(-1, 4),
                    np.array([self.name] * len(edges), dtype=str),
                    np.array(scores, dtype=float),
                )
            )
        return found


def _trained(
    dlib: Any,
    folder: Path,
    images: Sequence[Any],
    boxes: Sequence[Boxes],
    ignored: list[np.ndarray],
    options: Any,
) -> Any:
    """A detector of the boxes that are not ignored, as far as dlib's windows reach them."""
    listed, written = folder / "images.xml", folder / "detector.svm"
    while True:
        listed.write_text(_as_xml(images, boxes, ignored))
        try:
            dlib.train_simple_object_detector(str(listed), str(written), options)
        except RuntimeError as error:
            refused = _refused(str(error), images)
            if not any((~ignored[i]).any() for i in refused):
                raise
            for i in refused:
                ignored[i] = np.ones_like(ignored[i])
        else:
            return dlib.fhog_object_detector(str(written))


def _refused(message: str, images: Sequence[Any]) -> list[int]:
    """The images that dlib says it cannot train on, by path or by number, mirrored ones last."""
    numbers = re.findall(r"image index\s+(\d+)", message)
    named = [i for i, image in enumerate(images) if f" {image}\n" in f"{message}\n"]
    return named + [int(number) % len(images) for number in numbers]


def _as_xml(images: Sequence[Any], boxes: Sequence[Boxes], ignored: Sequence[np.ndarray]) -> str:
    """What dlib reads."""
    lines = ["<dataset><images>"]
    for image, truth, left_out in zip(images, boxes, ignored, strict=True):
        lines.append(f"<image file={quoteattr(str(image))}>")
        for (left, top, right, bottom), mark in zip(
            truth.edges.round().astype(int), left_out, strict=True
        ):
            lines.append(
                f"<box left='{left}' top='{top}' width='{right - left}' height='{bottom - top}' "
                f"ignore='{int(mark)}'/>"
            )
        lines.append("</image>")
    return "\n".join([*lines, "</images></dataset>"])


def features_for(boxes: Sequence[Boxes]) -> HogPyramid:
    """The pyramids in which windows as large as these boxes are found."""
    edges = np.concatenate([truth.edges for truth in boxes])
    scales = scales_of(edges, CELLS, CELL, STEP)
    return HogPyramid(cell=CELL, scales=scales, margin=MARGIN, fewest=2)


def _ratios(edges: np.ndarray) -> np.ndarray:
    """Logarithms of width by height."""
    return np.log((edges[:, 2] - edges[:, 0]) / (edges[:, 3] - edges[:, 1]))


def _class_of(boxes: Sequence[Boxes]) -> str:
    return str(np.concatenate([truth.classes for truth in boxes])[0])
