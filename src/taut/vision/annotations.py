"""Boxes from files (PASCAL VOC, COCO, YOLO, plain lists) and from what users hand to estimators."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as brief
from typing import Any

import numpy as np

from taut.checks import as_path, check_choice
from taut.console.notices import warn
from taut.data.arrays import check_unmasked
from taut.errors import InvalidData, InvalidType
from taut.vision.annotation_formats import READERS, recognised
from taut.vision.annotation_items import (
    ORDER,
    GivenBox,
    Picture,
    Place,
    as_flag,
    as_name,
    as_row,
    brackets,
    distinct_names,
    image_folders,
    labels_of,
    without_folders,
)
from taut.vision.boxes import Boxes

# Boxes that reach out of the image by less are rounded ones, of which nobody is told.
_ROUNDING = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class Annotated:
    """Images and the boxes in them, from `read_boxes`.

    A slice, a number, numbers or a mask of bool choose some of the images, which are again an
    `Annotated`. Iteration gives pairs of an image and its boxes.

    Attributes
    ----------
    images : list of Path
    boxes : list of Boxes
        As many, each with coordinates of the image as it is shown.
    classes : list of str
        The names of all classes that the file has boxes of, sorted; the same in all choices.
    """

    images: list[Path]
    boxes: list[Boxes]
    classes: list[str]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, which: Any) -> Annotated:
        chosen = np.atleast_1d(np.arange(len(self))[which]).tolist()
        return Annotated(
            [self.images[i] for i in chosen], [self.boxes[i] for i in chosen], self.classes
        )

    def __iter__(self) -> Iterator[tuple[Path, Boxes]]:
        return zip(self.images, self.boxes, strict=True)

    def __repr__(self) -> str:
        n_boxes = sum(len(boxes.edges) for boxes in self.boxes)
        return f"Annotated(images={len(self)}, boxes={n_boxes}, classes={brief(self.classes)})"


def read_boxes(
    path: str | os.PathLike[str],
    format: str | None = None,
    images: str | os.PathLike[str] | None = None,
    *,
    names: Sequence[str] | None = None,
    split: str | None = None,
    on_error: str = "raise",
) -> Annotated:
    """Read boxes and find the images that they are in. Needs Pillow.

    Images without boxes are kept. Boxes that reach out of their image are clipped, with one
    warning. The headers of all images are read: an annotation that declares another size than that
    of the image as it is shown, turned by its EXIF orientation, is refused. Where an image is shown
    turned and no size tells whether boxes were drawn before or after, one warning counts them.

    Parameters
    ----------
    path : str or path object
        The file, or the folder that holds it, or has it in a folder `labels`.
    format : {"voc", "coco", "yolo", "plain"}, default=None
        By default it is recognised by the content.

        - "voc": one XML file of PASCAL VOC per image, or a folder of them. Its pixels are counted
          from 1 and the last one belongs to the box, so edges are (xmin - 1, ymin - 1, xmax, ymax).
          Boxes marked as difficult are `ignored`.
        - "coco": the JSON file of instances of COCO. Crowds are `ignored`.
        - "yolo": a folder of text files, each named like its image, with a line
          ``class centre_x centre_y width height`` for each box, in fractions of the image. All
          images of the images' folder are kept.
        - "plain": a JSON list with ``{"file": "a.jpg", "boxes": [["cat", 10, 20, 30, 40]]}`` for
          each image, boxes by class, left, top, right and bottom edge; "width", "height" and
          "split" may be added.
    images : str or path object, default=None
        The folder of the images. By default they are searched for in the folder of the file, and in
        folders `images` or `JPEGImages` in it or beside it. One that is not in the folder that the
        file names is taken by its bare name; one warning counts these.
    names : list of str, default=None
        Names of classes. YOLO counts them from 0; by default they are the lines of `classes.txt` or
        `obj.names` in the folder of the labels or above it. Other formats name classes themselves,
        and those that are not among `names` are refused.
    split : str, default=None
        Read only images of this split, such as "train", of plain lists.
    on_error : {"raise", "drop"}, default="raise"
        What happens to a box outside of its image or without area: it is refused by its name, or
        left out with a warning.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from taut.vision.annotations import read_boxes
    >>> with TemporaryDirectory() as folder:  # doctest: +SKIP
    ...     _ = Path(folder, "a.ppm").write_bytes(b"P6 8 6 255 " + bytes(8 * 6 * 3))
    ...     boxes = '[{"file": "a.ppm", "boxes": [["cat", 1, 2, 5, 6]]}]'
    ...     _ = Path(folder, "boxes.json").write_text(boxes)
    ...     data = read_boxes(folder)
    >>> data  # doctest: +SKIP
    Annotated(images=1, boxes=1, classes=['cat'])
    >>> data.boxes[0].edges  # doctest: +SKIP
    array([[1., 2., 5., 6.]])
    """
    path = as_path("path", path)
    check_choice("on_error", on_error, ("raise", "drop"))
    path = labels_of(path) if path.is_dir() else path
    if format is None:
        format = recognised(path)
    check_choice("format", format, tuple(READERS))
    if split is not None and format != "plain":
        raise InvalidData(
            f"split = {split!r}: only plain lists say which split an image is of; give the file or "
            f"folder of one split of {format!r}"
        )
    folders = image_folders(path if path.is_dir() else path.parent, images)
    source = Place(path, folders, None if names is None else distinct_names(names, "names"), split)
    return _annotated(list(READERS[format](source)), drops=on_error == "drop")


def as_boxes(given: Any, n_images: int) -> list[Boxes]:
    """Check the boxes of some images and bring them into one form.

    Parameters
    ----------
    given : list with one item per image
        Each is a `Boxes`, an array of shape (n, 4), a list of ``(left, top, right, bottom)`` or of
        ``(class, left, top, right, bottom)``, or an empty list. Boxes without a class get the class
        "object".
    n_images : int
        How many items there must be.

    Examples
    --------
    >>> from taut.vision.annotations import as_boxes
    >>> first, second = as_boxes([[("cat", 10, 20, 30, 40)], []], 2)
    >>> first.classes, first.edges
    (array(['cat'], dtype='<U3'), array([[10., 20., 30., 40.]]))
    >>> second.edges.shape
    (0, 4)
    """
    if isinstance(given, str | bytes | dict | Boxes) or not isinstance(given, Iterable):
        raise InvalidType(
            f"the boxes are of type {type(given).__name__}: give a list with one item per image, "
            f"such as a list of boxes {ORDER}"
        )
    items = list(given)
    if len(items) != n_images:
        raise InvalidData(
            f"there are {n_images} images, and boxes of {len(items)}: give one item to each image, "
            "an empty list to images without boxes"
        )
    return [_item(item, f"image {i}") for i, item in enumerate(items)]


def _item(item: Any, where: str) -> Boxes:
    """The boxes of one image, as a user may give them."""
    whole = isinstance(item, Boxes)
    boxes = [
        as_row(row, f"{where}, box {k}")
        for k, row in enumerate(_rows(item[0] if whole else item, where))
    ]
    if whole:
        n_classes, n_marks = (np.size(part) for part in (item.classes, item.ignored))
        if not len(boxes) == n_classes == n_marks:
            raise InvalidData(
                f"{where}: {len(boxes)} boxes have {n_classes} classes and {n_marks} marks of "
                "being ignored: give one to each box"
            )
        boxes = [
            box._replace(name=as_name(name, box.where), ignored=as_flag(mark, "ignored", box.where))
            for box, name, mark in zip(boxes, item.classes, item.ignored)
        ]
    for box in boxes:
        fault = _fault(box.edges)
        if fault:
            raise InvalidData(f"{box.where} {fault}: give {ORDER}, not widths and heights")
    return _as_boxes(boxes)


def _rows(item: Any, where: str) -> list[Any]:
    check_unmasked(item, where)
    rows = np.asarray(item).tolist() if hasattr(item, "__array__") else item
    if isinstance(rows, str | bytes | dict) or not isinstance(rows, Iterable):
        raise InvalidType(f"{where}: {brief(rows)} is no list of boxes: give a list of {ORDER}")
    return list(rows)


def _annotated(pictures: list[Picture], drops: bool) -> Annotated:
    """Boxes within their images; what is not in order is clipped, dropped or refused."""
    if not pictures:
        raise InvalidData("there are no images to read boxes of: give another path or split")
    seen: dict[str, str] = {}
    clipped: list[str] = []
    dropped: list[str] = []
    boxes = []
    for picture in pictures:
        image = os.path.realpath(picture.path)
        if image in seen:
            raise InvalidData(
                f"{picture.where} and {seen[image]} are both about the image {picture.path}: keep "
                "one"
            )
        seen[image] = picture.where
        inside = []
        for box in picture.boxes:
            edges, fault = _within(box.edges, *picture.size)
            if fault and not drops:
                raise InvalidData(
                    f"{box.where} {fault}: mend it, or leave such boxes out by on_error='drop'"
                )
            if fault:
                dropped.append(f"{box.where} {fault}")
                continue
            if max(abs(a - b) for a, b in zip(edges, box.edges)) > _ROUNDING:
                clipped.append(f"{box.where} {brackets(box.edges)}")
            inside.append(box._replace(edges=edges))
        boxes.append(_as_boxes(inside))
    for happened, found in (
        ("reached out of their images and were clipped", clipped),
        ("were left out", dropped),
    ):
        if found:
            warn(f"boxes that {happened}: {len(found)}; the first is {found[0]}", UserWarning)
    moved = [picture for picture in pictures if without_folders(picture)]
    if moved:
        warn(
            f"images that are not in the folders that they are said to be in, and were taken by "
            f"their bare names: {len(moved)}; the first is {moved[0].named}, taken from "
            f"{moved[0].path}: give the folder above by images= if they are others",
            UserWarning,
        )
    turned = [picture.path for picture in pictures if picture.turned and picture.boxes]
    if turned:
        warn(
            f"images that are shown turned by their EXIF orientation, where no size tells whether "
            f"boxes were drawn on what is shown: {len(turned)}; the first is {turned[0]}. Boxes "
            "are taken to be those of the image as it is shown: declare sizes, or look at some",
            UserWarning,
        )
    classes = sorted({name for of_one in boxes for name in of_one.classes.tolist()})
    return Annotated([picture.path for picture in pictures], boxes, classes)


def _within(edges: tuple[float, ...], width: int, height: int) -> tuple[tuple[float, ...], str]:
    """The part of a box that is in the image, and what is wrong with it."""
    inside = tuple(min(max(edge, 0.0), side) for edge, side in zip(edges, (width, height) * 2))
    fault = _fault(edges)
    if not fault and _fault(inside):
        fault = f"{brackets(edges)} is outside of the image, which has {width} x {height} pixels"
    return inside, fault


def _fault(edges: tuple[float, ...]) -> str:
    left, top, right, bottom = edges
    if right < left or bottom < top:
        return f"{brackets(edges)} has its right edge left of the left, or the bottom above the top"
    # So written that edges too close to tell their area from nothing are refused as well.
    return "" if (right - left) * (bottom - top) > 0.0 else f"{brackets(edges)} has no area"


def _as_boxes(boxes: list[GivenBox]) -> Boxes:
    return Boxes(
        np.array([box.edges for box in boxes], dtype=np.float64).reshape(-1, 4),
        np.array([box.name for box in boxes], dtype=str),
        np.array([box.ignored for box in boxes], dtype=bool),
    )
