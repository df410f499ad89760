"""Images as arrays of RGB bytes: read from files, listed, resized and mirrored; boxes of masks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from taut.console.notices import warn
from taut.data.arrays import check_unmasked
from taut.errors import InvalidData, InvalidType
from taut.vision.boxes import Boxes
from taut.vision.resizing import check_image, planes_of, resized

# How the names of images end that Pillow reads.
SUFFIXES = frozenset(
    {
        *(".avif", ".bmp", ".gif", ".jfif", ".jp2", ".jpeg", ".jpg", ".pbm", ".pgm", ".png"),
        *(".pnm", ".ppm", ".tif", ".tiff", ".webp"),
    }
)

# What brings an image into the orientation in which it is shown, by its EXIF tag.
_TURNS: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    2: lambda pixels: pixels[:, ::-1],
    3: lambda pixels: pixels[::-1, ::-1],
    4: lambda pixels: pixels[::-1],
    5: lambda pixels: pixels.swapaxes(0, 1),
    6: lambda pixels: pixels[::-1].swapaxes(0, 1),
    7: lambda pixels: pixels[::-1, ::-1].swapaxes(0, 1),
    8: lambda pixels: pixels[:, ::-1].swapaxes(0, 1),
}
UPRIGHT = 1  # the orientation of an image that is shown as it is stored
SIDEWAYS = (5, 6, 7, 8)
_ORIENTATION = 0x0112
_END_OF_JPEG = b"\xff\xd9"


def read_image(source: Any, *, name: str = "the image") -> np.ndarray:
    """Read an image as it is shown.

    The orientation that a camera has noted (EXIF) is applied. Transparent parts are shown on white.
    Grey images get three equal channels. Of several frames or pages the first is read. Numbers of
    16 bits are scaled to 8, with white at 65535; where none is above 255 a warning says so. A file
    that breaks off is read as far as it goes, with a warning.

    Parameters
    ----------
    source : path, array of shape (height, width) or (height, width, channels), or Pillow image
        An array has one channel (grey), two (grey and opacity), three (RGB) or four (RGB and
        opacity), of integers from 0 to 255, of `uint16`, of fractions from 0 to 1 or of bool.
    name : str, default="the image"
        What errors call an array. A file is called by its path.

    Returns
    -------
    image : ndarray of shape (height, width, 3), uint8
        An array that has this form already is returned as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.images import read_image
    >>> read_image(np.array([[0.0, 0.2, 1.0]])).tolist()
    [[[0, 0, 0], [51, 51, 51], [255, 255, 255]]]
    """
    if not _is_stored(source):
        return _as_rgb(_as_array(source, name), name)
    with _opened(source, name) as (image, name):
        turn = _TURNS.get(_orientation(image), np.asarray)
        return _as_rgb(turn(_pixels(image, name)), name)


def image_size(source: Any, *, name: str = "the image") -> tuple[int, int]:
    """Width and height of an image as it is shown.

    Parameters
    ----------
    source : path, array or Pillow image
        Of a file only the header is read.
    name : str, default="the image"
        What errors call an array.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.images import image_size
    >>> image_size(np.zeros((200, 320, 3)))
    (320, 200)
    """
    if not _is_stored(source):
        height, width = _as_array(source, name).shape[:2]
        return width, height
    return header_of(source, name)[0]


def header_of(source: Any, name: str = "the image") -> tuple[tuple[int, int], int]:
    """Width and height of a stored image as it is shown, and its orientation by EXIF."""
    with _opened(source, name) as (image, _):
        (width, height), orientation = image.size, _orientation(image)
        size = (height, width) if orientation in SIDEWAYS else (width, height)
        return size, orientation


def list_images(folder: str | os.PathLike[str]) -> list[Path]:
    """The images in a folder, sorted by name, known by what their names end with.

    Folders in it are not searched, and hidden files are left out.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from taut.vision.images import list_images
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.jpg", "a.PNG", "notes.txt"):
    ...         Path(folder, name).touch()
    ...     [path.name for path in list_images(folder)]
    ['a.PNG', 'b.jpg']
    """
    if not isinstance(folder, str | os.PathLike) or not os.path.isdir(folder):
        raise InvalidData(f"{folder!r} is not a folder: give the path of a folder with images")
    names = sorted(os.listdir(folder))
    return [
        Path(folder, name)
        for name in names
        if os.path.splitext(name)[1].lower() in SUFFIXES
        and not name.startswith(".")
        and os.path.isfile(os.path.join(folder, name))
    ]


def resize(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """An image in another size: means of areas where it shrinks, straight lines where it grows.

    Parameters
    ----------
    image : ndarray of shape (h, w, 3), uint8
        As `read_image` returns it.
    width, height : int
        In pixels, at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.images import resize
    >>> resize(np.full((200, 320, 3), 7, dtype=np.uint8), 2, 1)
    array([[[7, 7, 7],
            [7, 7, 7]]], dtype=uint8)
    """
    for name, length in (("width", width), ("height", height)):
        _check_pixels(name, length)
    image = check_image(image)
    if image.shape[:2] == (height, width):
        return image
    # The functions of pyramids, colours set apart and joined again, take 0.5 to 1.2 of the time of
    # Pillow's bilinear `resize` with reducing_gap=2, from 320 x 205 to 4000 x 3000 pixels.
    planes = resized(planes_of(image), height, width)
    return np.ascontiguousarray(np.moveaxis(planes, 0, 2))


def shrink(image: np.ndarray, boxes: Boxes, longest: int) -> tuple[np.ndarray, Boxes, float]:
    """Make the longest side of an image at most `longest` pixels, and move its boxes along.

    Small images stay as they are.

    Returns
    -------
    image, boxes : ndarray, Boxes
        Both sides have whole numbers of pixels, and edges are scaled by the ratios of these.
    factor : float
        What the longest side was multiplied by, at most 1.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.annotations import as_boxes
    >>> from taut.vision.images import shrink
    >>> image = np.zeros((200, 320, 3), dtype=np.uint8)
    >>> boxes = as_boxes([[(10, 20, 30, 40)]], 1)[0]
    >>> image, boxes, factor = shrink(image, boxes, 160)
    >>> boxes.edges, factor
    (array([[ 5., 10., 15., 20.]]), 0.5)
    """
    _check_pixels("longest", longest)
    height, width = image.shape[:2]
    to_width, to_height = shrunk_size((width, height), longest)
    ratios = np.array([to_width / width, to_height / height])
    edges = boxes.edges * np.tile(ratios, 2)
    factor = min(1.0, longest / max(width, height))
    return resize(image, to_width, to_height), boxes._replace(edges=edges), factor


def shrunk_size(size: Sequence[float], longest: int) -> tuple[int, int]:
    """Width and height of an image of this size after `shrink`, in whole pixels.

    Examples
    --------
    >>> from taut.vision.images import shrunk_size
    >>> shrunk_size((6400, 255), 640)
    (640, 26)
    """
    width, height = (max(1, round(side * min(1.0, longest / max(size)))) for side in size)
    return width, height


def mirrored(image: np.ndarray, boxes: Boxes) -> tuple[np.ndarray, Boxes]:
    """An image and its boxes with left and right exchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.annotations import as_boxes
    >>> from taut.vision.images import mirrored
    >>> boxes = as_boxes([[(10, 20, 30, 40)]], 1)[0]
    >>> mirrored(np.zeros((200, 320, 3), dtype=np.uint8), boxes)[1].edges
    array([[290.,  20., 310.,  40.]])
    """
    return np.ascontiguousarray(image[:, ::-1]), boxes.mirrored(image.shape[1])


def boxes_of_mask(mask: Any, class_name: str = "object", *, above: float = 127) -> Boxes:
    """The box around the foreground of a mask; no box where there is no foreground.

    Parameters
    ----------
    mask : array of shape (height, width), or path of an image
        Foreground is what is true in a mask of bool, and what is larger than `above` in others. In
        a file of several channels one of them must be.
    class_name : str, default="object"
        The class of the box.
    above : float, default=127
        Use 0 for masks of 0 and 1, and for those that number objects or classes.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.images import boxes_of_mask
    >>> mask = np.zeros((200, 320), dtype=bool)
    >>> mask[20:40, 10:30] = True
    >>> boxes_of_mask(mask, "horse").edges
    array([[10., 20., 30., 40.]])
    """
    values = read_image(mask).max(axis=2) if _is_stored(mask) else np.asarray(mask)
    if values.ndim != 2 or values.dtype.kind not in "buif":
        raise InvalidData(
            f"the mask is an array of shape {values.shape} and type {values.dtype}: give numbers "
            "or bool of shape (height, width)"
        )
    foreground = values if values.dtype == bool else values > above
    if values.any() and not foreground.any():
        raise InvalidData(
            f"the largest number of the mask is {values.max()}, and foreground is what is larger "
            f"than {above}: give a smaller `above`, such as 0 for masks of 0 and 1"
        )
    rows, columns = (np.flatnonzero(foreground.any(axis=axis)) for axis in (1, 0))
    edges = [[columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]] if len(rows) else []
    return Boxes(
        np.array(edges, dtype=np.float64).reshape(-1, 4),
        np.array([class_name] * len(edges), dtype=str),
        np.zeros(len(edges), dtype=bool),
    )


def _pillow() -> Any:
    """The module `PIL.Image`."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "files of images are read by Pillow, which is not installed: pip install 'taut[vision]'"
        ) from error
    return Image


def _is_stored(source: Any) -> bool:
    """Whether an image is a file or an image of Pillow, and not an array."""
    return isinstance(source, str | os.PathLike) or hasattr(source, "getexif")


@contextmanager
def _opened(source: Any, name: str) -> Iterator[tuple[Any, str]]:
    """An image of Pillow, of which only the header is read, and what errors call it."""
    if hasattr(source, "getexif"):
        name = getattr(source, "filename", "") or name
        _check_extent(source.size, name)
        yield source, name
        return
    pillow = _pillow()
    name = os.fspath(source)
    if not os.path.isfile(name):
        raise InvalidData(f"{name} is not there, or is no file: give the path of an image")
    if not os.path.getsize(name):
        raise InvalidData(f"{name} is empty: leave it out, or copy it again")
    try:
        image = pillow.open(name)
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        raise _too_large(name, pillow.MAX_IMAGE_PIXELS) from error
    except pillow.UnidentifiedImageError as error:
        raise InvalidData(
            f"{name} is no image that Pillow can read: leave it out, or save it as JPEG or PNG"
        ) from error
    except Exception as error:  # which ones damaged files cause is not documented
        raise _unreadable(name, error) from error
    with image:
        limit = pillow.MAX_IMAGE_PIXELS
        if limit is not None and image.size[0] * image.size[1] > limit:
            raise _too_large(name, limit)
        _check_extent(image.size, name)
        yield image, name


def _orientation(image: Any) -> int:
    """The orientation by EXIF; upright where nothing must be turned or nothing is known."""
    if image.format == "TIFF":  # which Pillow turns itself
        return UPRIGHT
    with suppress(Exception):  # damaged EXIF leaves the image as good as it was
        # PNG's own `getexif` decodes the whole image, to see whether EXIF comes behind it.
        return int(_pillow().Image.getexif(image).get(_ORIENTATION, UPRIGHT))
    return UPRIGHT


def _pixels(image: Any, name: str) -> np.ndarray:
    """The pixels of an image as it is stored, as far as they can be decoded."""
    try:
        image.load()
    except Exception as error:
        part = _decoded_part(image, name)
        if part is None:
            raise _unreadable(name, error) from error
        warn(
            f"{name} is damaged ({error}): the part that could be decoded is used, the rest is "
            "blank",
            UserWarning,
        )
        image = part
    try:
        return _in_channels(image, name)
    except InvalidData:
        raise
    except Exception as error:
        raise _unreadable(name, error) from error


def _decoded_part(image: Any, name: str) -> Any:
    """What was decoded of an image before its file broke off; None if that shows nothing."""
    with suppress(Exception):
        image.tile = []  # nothing is left to be decoded, and Pillow gives what it has
        image.load()
        if image.format == "TIFF":  # which Pillow turns at the end of decoding, if it gets there
            from PIL import ImageOps

            ImageOps.exif_transpose(image, in_place=True)
        if _shows_something(image):
            return image
    with suppress(Exception):
        # Progressive JPEGs come into sight at their end, from all that came before it.
        ended = _pillow().open(BytesIO(Path(name).read_bytes() + _END_OF_JPEG))
        ended.load()
        if ended.format == "JPEG" and _shows_something(ended):
            return ended
    return None


def _shows_something(image: Any) -> bool:
    extrema = np.atleast_2d(image.getextrema())
    return bool((extrema[:, 0] < extrema[:, 1]).any())


def _in_channels(image: Any, name: str) -> np.ndarray:
    """The pixels of an image of any mode, in channels that arrays may have as well."""
    if image.mode.startswith("I") or image.mode == "F":
        pixels = np.asarray(image)
        if image.mode == "I":  # 32 bits, which hold 16 bits in some formats
            _check_range(pixels, 65535, name)
            pixels = pixels.astype(np.uint16)
        return pixels
    translucent = image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info
    return np.asarray(image.convert("RGBA" if translucent else "RGB"))


def _as_array(source: Any, name: str) -> np.ndarray:
    """An array that can be an image by its shape and type."""
    check_unmasked(source, name)
    try:
        pixels = np.asarray(source)
    except ValueError as error:
        raise InvalidType(f"{name} is no array: {error}; give a path or an array") from error
    if pixels.dtype.kind not in "buif":
        raise InvalidType(
            f"{name} is of type {type(source).__name__} with elements of type {pixels.dtype}: give "
            "a path or an array of numbers"
        )
    if pixels.ndim not in (2, 3) or pixels.shape[2:] > (4,):
        raise InvalidData(
            f"{name} has shape {pixels.shape}: give (height, width) or (height, width, channels) "
            "with up to 4 channels; channels that come first are moved by transpose(1, 2, 0)"
        )
    _check_extent(pixels.shape, name)
    return pixels


def _as_rgb(pixels: np.ndarray, name: str) -> np.ndarray:
    channels = _as_bytes(np.atleast_3d(pixels), name)
    if channels.shape[2] in (2, 4):
        opacity = channels[:, :, -1:].astype(np.uint16)
        on_white = channels[:, :, :-1] * opacity + 255 * (255 - opacity)
        channels = ((on_white + 127) // 255).astype(np.uint8)
    if channels.shape[2] == 1:
        channels = np.repeat(channels, 3, axis=2)
    return np.ascontiguousarray(channels)


def _as_bytes(pixels: np.ndarray, name: str) -> np.ndarray:
    if pixels.dtype == np.uint8:
        return pixels
    # By kind and size, since numbers of 16 bits come in either order of bytes.
    kind, n_bytes = pixels.dtype.kind, pixels.dtype.itemsize
    white = 65535 if (kind, n_bytes) == ("u", 2) else 255 if kind in "ui" else 1
    _check_range(pixels, white, name)
    if white == 65535 and 0 < pixels.max() < 256:
        warn(
            f"{name} has numbers of 16 bits, whose white is 65535, and none is above "
            f"{pixels.max()}: if these are bytes, give them as such, by astype(np.uint8)",
            UserWarning,
        )
    return np.rint(pixels * np.float32(255 / white)).astype(np.uint8)


def _check_range(pixels: np.ndarray, white: int, name: str) -> None:
    low, high = pixels.min(), pixels.max()
    if not (low >= 0 and high <= white):  # in this way NaN is refused as well
        raise InvalidData(
            f"{name} has numbers from {low} to {high}: give integers from 0 to 255, uint16, or "
            "fractions from 0 to 1"
        )


def _check_extent(lengths: tuple[int, ...], name: str) -> None:
    if 0 in lengths:
        raise InvalidData(f"{name} has no pixels: its shape is {tuple(lengths)}; leave it out")


def _check_pixels(name: str, length: Any) -> None:
    if not isinstance(length, Integral) or length < 1:
        raise InvalidData(f"{name} = {length!r}: give a whole number of pixels, at least 1")


def _too_large(name: str, limit: int) -> InvalidData:
    return InvalidData(
        f"{name} has more pixels than Pillow's limit of {limit}, which protects from files that "
        "fill the memory: save it smaller, or set PIL.Image.MAX_IMAGE_PIXELS if you trust it"
    )


def _unreadable(name: str, error: Exception) -> InvalidData:
    reason = str(error) or type(error).__name__
    return InvalidData(f"{name} cannot be read: {reason}; leave it out, or copy it again")
