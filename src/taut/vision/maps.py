"""Feature pyramids on disk: some images to a file, read image by image or file by file."""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from taut.checks import as_path, check_flag
from taut.data.arrays import offsets_of
from taut.data.chunks import Chunk
from taut.data.source import Source, read_ahead
from taut.errors import InvalidContent, InvalidData, InvalidFile
from taut.storage import files
from taut.storage.digest import digest_of
from taut.storage.stored import Stored, check, require
from taut.vision.boxes import Boxes
from taut.vision.pyramid import Pyramid

_KIND = "feature maps"
_INDEX_KIND = "index of feature maps"
_INDEX = "index.taut"
_LARGEST = 2**15  # rows and columns of a level: sums of cells stay exact
_REMEDY = "delete it and extract the features again"

Stamp = tuple[int, int, int]  # of a file: time of the last change, size, inode


def write_maps(path: Path, pyramids: Sequence[Pyramid], first: int = 0) -> None:
    """Write pyramids that are alike to one file; `first` is the number of the first image."""
    head = pyramids[0]
    for number, pyramid in enumerate(pyramids, first):
        fault = _fault(pyramid, head)
        if fault:
            raise InvalidData(
                f"image {number}: {fault}; extract the same kind of features of all images"
            )
    tensors = {
        "cells": np.concatenate([pyramid.cells for pyramid in pyramids]),
        "shapes": np.concatenate([pyramid.shapes for pyramid in pyramids]).astype(np.int32),
        "steps": np.concatenate([pyramid.steps for pyramid in pyramids]).astype(np.float64),
        "sizes": np.stack([pyramid.size for pyramid in pyramids]).astype(np.float64),
        "levels": np.array([len(pyramid.shapes) for pyramid in pyramids], dtype=np.int64),
        "mirror": np.asarray(head.mirror, dtype=np.int32),
    }
    try:
        _check(tensors, head.margin, head.unit)
    except InvalidContent as error:
        raise InvalidData(
            f"features of images {first} to {first + len(pyramids) - 1}: {error}"
        ) from error
    files.write(path, _KIND, tensors, {"margin": int(head.margin), "unit": float(head.unit)})


def _fault(pyramid: Pyramid, head: Pyramid) -> str:
    """How a pyramid differs from another that it should be alike."""
    if pyramid.mirrored:
        return "its pyramid is mirrored, and only those of images themselves can be stored"
    if pyramid.cells.dtype != head.cells.dtype:
        return f"its cells are {pyramid.cells.dtype}, and others are {head.cells.dtype}"
    if pyramid.cells.shape[1:] != head.cells.shape[1:]:
        return f"it has {pyramid.cells.shape[1:]} channels, and others have {head.cells.shape[1:]}"
    if (pyramid.margin, pyramid.unit) != (head.margin, head.unit):
        return "its margin or unit is not that of others"
    if not np.array_equal(pyramid.mirror, head.mirror):
        return "its mirror is not that of others"
    return ""


def _check(tensors: dict[str, np.ndarray], margin: Any, unit: Any) -> None:
    """Refuse arrays that are not those of pyramids: compiled code has no bounds checks."""
    require(isinstance(margin, int) and 0 <= margin < _LARGEST, f"margin is {margin!r:.50}")
    require(isinstance(unit, float) and 0.0 < unit < math.inf, f"unit is {unit!r:.50}")
    check(tensors, {"levels": Stored("i8", (None,), 1, 2**31)})
    images, levels = len(tensors["levels"]), int(tensors["levels"].sum())
    check(
        tensors,
        {
            "cells": Stored("u1 f4", (None, None)),
            "shapes": Stored("i4", (levels, 2), 2 * margin + 1, _LARGEST),
            "steps": Stored("f8", (levels, 2), 0.0),
            "sizes": Stored("f8", (images, 2), 0.0),
            "mirror": Stored("i4", (None,), 0),
        },
    )
    require(images > 0, "there is no image")
    require(tensors["steps"] > 0.0, "steps are not above 0")
    require(tensors["sizes"] > 0.0, "sizes are not above 0")
    cells, mirror = tensors["cells"], tensors["mirror"]
    n_cells = tensors["shapes"].prod(axis=1, dtype=np.int64).sum()
    require(n_cells == len(cells), f"there are {len(cells)} cells instead of {n_cells}")
    order = np.arange(cells.shape[1])
    require(
        cells.shape[1] > 0 and (not len(mirror) or np.array_equal(np.sort(mirror), order)),
        "mirror is no order of the channels",
    )


def write_index(folder: Path, names: Sequence[str], sizes: np.ndarray) -> None:
    """Write which files a folder has the maps in, and of how many images each is."""
    files.write(
        folder / _INDEX,
        _INDEX_KIND,
        {"sizes": np.asarray(sizes, dtype=np.int64)},
        {"files": list(names)},
    )


def open_maps(
    path: str | os.PathLike[str], y: Sequence[Any] | None = None, *, mirror: bool = False
) -> MapShards:
    """Open the maps that the last `extract` with this folder for a cache gave.

    Parameters
    ----------
    path : path-like
    y : sequence of Boxes, optional
        The boxes of each image.
    mirror : bool, default=False
        Whether each image is followed by its mirror image.

    Returns
    -------
    MapShards

    Raises
    ------
    FileNotFoundError
        There is no such folder, or no extraction into it has come to its end.
    InvalidFile
        A file is damaged, foreign or missing; the message names it.
    """
    folder = as_path("path", path).absolute()
    tensors, meta = files.read(folder / _INDEX, _INDEX_KIND)
    names: Any = meta.get("files")
    try:
        require(isinstance(names, list) and len(names) > 0, "it names no files")
        plain = [isinstance(n, str) and Path(n).name == n for n in names]
        require(plain, "a name in it is that of no file in the folder")
        check(tensors, {"sizes": Stored("i8", (len(names),), 1)})
    except InvalidContent as error:
        raise InvalidFile(f"{folder / _INDEX}: {error}; {_REMEDY}") from error
    return MapShards(folder, names, tensors["sizes"], y=y, mirror=mirror)


class MapShards(Source):
    """Pyramids in files, of which nothing is in memory but what is asked for.

    It can be indexed like a list, and is a source of training data: ``chunks`` reads file by file,
    with a list of pyramids as ``X`` and one of `Boxes` as ``y``. Each file is compared with its
    checksum when it is used for the first time, and again if it has changed since. Made by
    `extract` and `open_maps`.

    Parameters
    ----------
    path : Path
        The folder.
    names : sequence of str
        Its files, in order.
    sizes : ndarray of int
        How many images each has.
    y : sequence of Boxes, optional
        The boxes of each image.
    mirror : bool, default=False
        Whether each image is followed by its mirror image.

    Attributes
    ----------
    n_blocks : int
        How many pyramids there are, mirror images among them.
    n_chunks : int
        How many files.
    """

    n_blocks: int
    n_chunks: int
    n_features = None
    dtype = None
    repeatable = True
    random_access = True

    def __init__(
        self,
        path: Path,
        names: Sequence[str],
        sizes: np.ndarray,
        *,
        y: Sequence[Any] | None = None,
        mirror: bool = False,
    ) -> None:
        check_flag("mirror", mirror)
        self.path = path
        self.mirror = bool(mirror)
        self._firsts = offsets_of(sizes)
        n_images = int(self._firsts[-1])
        self.n_blocks, self.n_chunks = n_images * (1 + self.mirror), len(names)
        self.y = None if y is None else _check_targets(y, n_images)
        self._files = [_MapFile(path / name, int(size)) for name, size in zip(names, sizes)]

    def __repr__(self) -> str:
        return (
            f"MapShards({str(self.path)!r}, n_blocks={self.n_blocks}, {self.n_chunks} "
            f"file{'s' * (self.n_chunks != 1)}{', with mirror images' * self.mirror})"
        )

    def with_targets(self, y: Sequence[Any] | None) -> MapShards:
        """The same maps with these boxes of each image."""
        names = [file.path.name for file in self._files]
        return MapShards(self.path, names, np.diff(self._firsts), y=y, mirror=self.mirror)

    def __len__(self) -> int:
        return self.n_blocks

    def __getitem__(self, number: int) -> Pyramid:
        block = number + self.n_blocks if number < 0 else number
        if not 0 <= block < self.n_blocks:
            raise IndexError(f"pyramid {number} is asked for, and there are {self.n_blocks}")
        image, turned = divmod(block, 1 + self.mirror)
        shard = int(np.searchsorted(self._firsts, image, side="right")) - 1
        first = image - int(self._firsts[shard])
        (pyramid,) = self._files[shard].read(first, first + 1)
        return pyramid.mirror_image() if turned else pyramid

    def __iter__(self) -> Iterator[Pyramid]:
        for chunk in self.chunks():
            yield from chunk.X

    @property
    def classes(self) -> None:
        """Not known: boxes are in the form that the structure takes."""
        return None

    @functools.cached_property
    def digest(self) -> bytes:  # type: ignore[override]
        """Of the names of the files, which stand for images and settings, and of the boxes."""
        return digest_of([file.path.name for file in self._files], self.mirror, self.y)

    def chunks(self, order: ArrayLike | None = None) -> Generator[Chunk]:
        """Read file by file; the next one is read by a thread while one is in use."""
        numbers = np.arange(self.n_chunks)
        if order is not None:
            numbers = np.asarray(order, dtype=np.int64).reshape(-1)
            inside = (numbers >= 0) & (numbers < self.n_chunks)
            if not inside.all() or len(np.unique(numbers)) < len(numbers):
                raise InvalidData(
                    f"order must have numbers of chunks from 0 to {self.n_chunks - 1}, each at "
                    "most once"
                )
        return read_ahead(map(self._chunk, numbers.tolist()))

    def _chunk(self, number: int) -> Chunk:
        first, end = self._firsts[number : number + 2].tolist()
        X = self._files[number].read(0, end - first)
        y = None if self.y is None else self.y[first:end]
        if self.mirror:
            if y is not None:
                y = [each for truth, p in zip(y, X) for each in (truth, truth.mirrored(p.size[0]))]
            X = [each for pyramid in X for each in (pyramid, pyramid.mirror_image())]
        return Chunk(number, first * (1 + self.mirror), X, y=y)


def _check_targets(y: Sequence[Any], n_images: int) -> list[Boxes]:
    targets = list(y)
    if len(targets) != n_images:
        raise InvalidData(f"y has {len(targets)} entries for {n_images} images; give one for each")
    for number, truth in enumerate(targets):
        if not isinstance(truth, Boxes):
            raise InvalidData(f"y[{number}] is of type {type(truth).__name__}; give Boxes")
    return targets


class _Small(NamedTuple):
    """What stays in memory of a file."""

    stamp: Stamp
    shapes: np.ndarray
    steps: np.ndarray
    sizes: np.ndarray
    levels: np.ndarray  # the first one of each image, and the end
    cells: np.ndarray  # the first one of each level, and the end
    mirror: np.ndarray
    margin: int
    unit: float
    place: int  # of the first cell in the file
    width: int  # channels
    dtype: np.dtype


@dataclass
class _MapFile:
    """One file of pyramids."""

    path: Path
    n_images: int
    small: _Small | None = None

    def read(self, first: int, end: int) -> list[Pyramid]:
        """The pyramids of some consecutive images, on one array of cells."""
        try:
            with files.open_regular(self.path, _REMEDY) as file:
                stamp = _stamp(os.fstat(file.fileno()))
                if self.small is None or self.small.stamp != stamp:
                    self.small = self._verify(stamp)
                small = self.small
                start, stop = small.cells[small.levels[[first, end]]].tolist()
                cells = np.empty((stop - start, small.width), dtype=small.dtype)
                file.seek(small.place + start * small.width * small.dtype.itemsize)
                rest = cells.reshape(-1).view(np.uint8).data
                while len(rest):
                    n = file.readinto(rest)  # type: ignore[attr-defined]
                    if not n:
                        raise OSError(0, "it has become shorter since it was opened")
                    rest = rest[n:]
        except OSError as error:
            raise InvalidFile(
                f"{self.path} cannot be read ({error.strerror}); extract the features again"
            ) from error
        pyramids = []
        for image in range(first, end):
            levels = slice(small.levels[image], small.levels[image + 1])
            own = slice(small.cells[levels.start] - start, small.cells[levels.stop] - start)
            pyramids.append(
                Pyramid(
                    cells[own], small.shapes[levels], small.steps[levels], small.sizes[image],
                    small.margin, small.unit, small.mirror,
                )
            )  # fmt: skip
        return pyramids

    def _verify(self, stamp: Stamp) -> _Small:
        try:
            tensors, meta = files.read(self.path, _KIND)
        except InvalidFile as error:
            raise InvalidFile(f"{error}; or {_REMEDY}") from error
        try:
            _check(tensors, meta.get("margin"), meta.get("unit"))
            n_images = len(tensors["levels"])
            require(n_images == self.n_images, f"it has {n_images} images, not {self.n_images}")
        except InvalidContent as error:
            raise InvalidFile(f"{self.path}: {error}; {_REMEDY}") from error
        if _stamp(os.stat(self.path)) != stamp:
            raise InvalidFile(f"{self.path} is being changed while it is read; read it again")
        cells = tensors["cells"]
        return _Small(
            stamp,
            tensors["shapes"],
            tensors["steps"],
            tensors["sizes"],
            offsets_of(tensors["levels"]),
            offsets_of(tensors["shapes"].prod(axis=1, dtype=np.int64)),
            tensors["mirror"],
            meta["margin"],
            meta["unit"],
            _place_of_cells(self.path),
            cells.shape[1],
            cells.dtype,
        )


def _place_of_cells(path: Path) -> int:
    """Where the cells begin in a file that has been verified."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    return 8 + length + int(header["cells"]["data_offsets"][0])


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_size, status.st_ino
