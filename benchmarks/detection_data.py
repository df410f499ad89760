"""Photographs with boxes for `detection.py`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from taut.vision import Boxes, boxes_of_mask, list_images, read_boxes


class Photographs(NamedTuple):
    """Files of images and what is in them, for training and for testing."""

    images: list[Any]
    boxes: list[Boxes]
    test_images: list[Any]
    test_boxes: list[Boxes]


def _listed(folder: Path, splits: tuple[str, str]) -> Photographs:
    """A set with a list of boxes, which says itself what is for training and what for testing."""
    train, test = (read_boxes(folder, split=split) for split in splits)
    return Photographs(train.images, train.boxes, test.images, test.boxes)


def raccoon(folder: Path) -> Photographs:
    """Photographs of raccoons from the web."""
    return _listed(folder / "raccoon", ("train", "test"))


def faces(folder: Path) -> Photographs:
    """Groups of people, with their faces, that come with dlib."""
    return _listed(folder / "dlib_faces", ("training", "testing"))


def horses(folder: Path) -> Photographs:
    """Horses seen from the side, with masks: even files are for training, odd ones for testing."""
    images: list[Any] = list(list_images(folder / "weizmann_horses" / "images"))
    masks = [folder / "weizmann_horses" / "masks" / f"{image.stem}.png" for image in images]
    boxes = [boxes_of_mask(mask, "horse", above=127) for mask in masks]
    return Photographs(images[::2], boxes[::2], images[1::2], boxes[1::2])


SETS = {"raccoon": raccoon, "horses": horses}


def folds(data: Photographs, count: int) -> list[Photographs]:
    """The training images divided into parts, each of which is tested in turn."""
    which = np.random.default_rng(0).permutation(len(data.images)) % count
    return [
        Photographs(
            *_chosen(data, np.flatnonzero(which != k)), *_chosen(data, np.flatnonzero(which == k))
        )
        for k in range(count)
    ]


def _chosen(data: Photographs, which: Sequence[int] | np.ndarray) -> tuple[list[Any], list[Boxes]]:
    return [data.images[i] for i in which], [data.boxes[i] for i in which]


def joined(first: Photographs, second: Photographs) -> Photographs:
    """The images of two sets."""
    return Photographs(*(a + b for a, b in zip(first, second, strict=True)))
