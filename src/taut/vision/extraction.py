"""Features of many images, extracted once and kept on disk.

A cache is a folder of files, each with the pyramids of some consecutive images. The name of a file
is made of the settings and of the bytes of these images, so that what changes is extracted again,
and what was extracted before is found. A file appears complete or not at all.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from taut.checks import as_path, check_flag, check_number
from taut.console.progress import Line
from taut.errors import InvalidData, InvalidType
from taut.storage.digest import Digest, digest_of
from taut.vision.hog import check_count
from taut.vision.images import read_image
from taut.vision.maps import MapShards, write_index, write_maps
from taut.vision.pyramid import Pyramid

if TYPE_CHECKING:
    from rich.text import Text

_VERSION = 1  # of what is extracted: files of another are not found
_PER_FILE = 32  # images


class Features(Protocol):
    """What turns an image into a pyramid, such as `HogPyramid`."""

    def extract(self, image: np.ndarray) -> Pyramid:
        """Extract the features of an image."""
        ...


def extract(
    images: Sequence[Any],
    features: Features,
    cache: str | os.PathLike[str] | None = None,
    *,
    n_jobs: int = 1,
    mirror: bool = False,
    verbose: int = 0,
) -> list[Pyramid] | MapShards:
    """Extract the features of images, or find those that were extracted before.

    Parameters
    ----------
    images : sequence of ndarray, paths or whatever else `read_image` takes
        A few are in memory at a time.
    features : object with a method ``extract``
        Such as `HogPyramid`; or your own, which takes an image and returns a `Pyramid`.
    cache : path-like, optional
        A folder to keep the features in. What is there already is not extracted again: after a run
        that was killed the next one goes on, and where images, settings or the code of `features`
        have changed their features are extracted anew. It may be shared by several sets of images,
        and deleted while nothing reads it: neither a fit nor what this function returned. By
        default all features stay in memory.
    n_jobs : int, default=1
        Threads.
    mirror : bool, default=False
        Whether each image is followed by its mirror image. That takes no memory: the cells are
        those of the image.
    verbose : int, default=0
        From 1 on, a line on standard error tells how far it is.

    Returns
    -------
    list of Pyramid, or MapShards
        The features in the order of the images; with `cache`, as they are on disk.

    Raises
    ------
    InvalidData
        An image cannot be used; the message says which. Or the cache is a file.
    InvalidFile
        A file of the cache is damaged; the message names it.

    Examples
    --------
    >>> from taut.vision.hog import HogPyramid
    >>> images = [np.zeros((32, 40, 3), dtype=np.uint8) for _ in range(3)]
    >>> maps = extract(images, HogPyramid(), mirror=True)
    >>> len(maps), maps[1].mirrored
    (6, True)
    """
    _check(images, features, n_jobs)
    check_flag("mirror", mirror)
    check_number("verbose", verbose)
    settings = b""
    if cache is not None:
        cache = as_path("cache", cache).absolute()
        settings = _digest_of_settings(features)
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise InvalidData(
                f"features are to be kept in {str(cache)!r}, which is a file or lies in one: give "
                "the path of a folder"
            ) from error
    found: list[Pyramid] = []
    names: list[str] = []
    line = ExtractionLine(title="features", visible=verbose >= 1)
    began = time.perf_counter()
    with closing(line), ThreadPoolExecutor(n_jobs, thread_name_prefix="taut") as threads:
        for first in range(0, len(images), _PER_FILE):
            numbers = range(first, min(first + _PER_FILE, len(images)))
            given = [images[number] for number in numbers]
            group = list(threads.map(_read, numbers, given))
            described = functools.partial(threads.map, _describe, numbers, group, repeat(features))
            if cache is None:
                found += described()
            else:
                content = list(threads.map(digest_of, group))
                name = f"{digest_of(_VERSION, settings, content).hex()[:40]}.maps"
                if not (cache / name).exists():
                    write_maps(cache / name, list(described()), first)
                names.append(name)
            line(Extracted(numbers.stop, len(images), time.perf_counter() - began))
    if cache is None:
        found = _in_one_array(found)
        return [each for pyramid in found for each in _with_mirror(pyramid, mirror)]
    sizes = np.minimum(_PER_FILE, len(images) - np.arange(0, len(images), _PER_FILE))
    write_index(cache, names, sizes)
    return MapShards(cache, names, sizes, mirror=mirror)


def _check(images: Any, features: Any, n_jobs: int) -> None:
    if not hasattr(images, "__len__") or not hasattr(images, "__getitem__"):
        raise InvalidType(f"images is of type {type(images).__name__}: give a list of arrays")
    if not len(images):
        raise InvalidData("images is empty: give at least one image")
    if not callable(getattr(features, "extract", None)):
        raise InvalidType(
            f"features is of type {type(features).__name__}, which has no method extract: give "
            "HogPyramid(), or an object whose extract(image) returns a Pyramid"
        )
    check_count("n_jobs", n_jobs, 1)


def _digest_of_settings(features: Features) -> bytes:
    digest = Digest(code=True)
    digest.add(features)
    if digest.opaque is not None:
        raise InvalidData(
            f"features holds an object of type {digest.opaque}, which cannot be read, so that "
            "nobody can tell whether the cache is of the same features: give its class "
            "__getstate__, or extract without cache"
        )
    return digest.digest()


def _read(number: int, image: Any) -> np.ndarray:
    return read_image(image, name=f"image {number}")


def _describe(number: int, image: np.ndarray, features: Features) -> Pyramid:
    try:
        pyramid = features.extract(image)
    except InvalidData as error:
        raise InvalidData(f"image {number}: {error}") from error
    if not isinstance(pyramid, Pyramid):
        raise InvalidType(
            f"image {number}: features.extract returned {type(pyramid).__name__}; return a "
            "Pyramid, such as pyramid_of makes of arrays"
        )
    return pyramid


def _in_one_array(found: list[Pyramid]) -> list[Pyramid]:
    """The same with all cells in one array, which training then need not copy."""
    cells = np.concatenate([pyramid.cells for pyramid in found])
    ends = np.cumsum([len(pyramid.cells) for pyramid in found])[:-1]
    return [p._replace(cells=own) for p, own in zip(found, np.split(cells, ends), strict=True)]


def _with_mirror(pyramid: Pyramid, mirror: bool) -> Iterator[Pyramid]:
    yield pyramid
    if mirror:
        yield pyramid.mirror_image()


class Extracted(NamedTuple):
    """How far an extraction has come."""

    done: int
    total: int
    seconds: float


class ExtractionLine(Line[Extracted]):
    """One line that tells how many images have their features."""

    def _line(self, record: Extracted) -> Text:
        from rich.text import Text

        rate = record.done / max(record.seconds, 1e-9)
        return Text(
            f"{record.done} of {record.total} images  {record.done / record.total:.0%}  "
            f"{rate:.3g} images/s  {record.seconds:.1f} s",
            no_wrap=True,
            overflow="crop",
        )
