"""What files of boxes are made of: pictures, boxes, numbers and names, and where images are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PureWindowsPath
from reprlib import repr as brief
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import numpy as np

from taut.checks import as_path
from taut.errors import InvalidData, InvalidType
from taut.vision.images import SIDEWAYS, SUFFIXES, UPRIGHT, header_of

ORDER = "(left, top, right, bottom)"


class GivenBox(NamedTuple):
    """A box as a file gives it."""

    where: str  # what errors call it
    name: str
    edges: tuple[float, ...]
    ignored: bool = False


class Picture(NamedTuple):
    """An image with the boxes that a file gives of it."""

    where: str  # the place that says what is in the image
    path: Path
    size: tuple[int, int]
    boxes: list[GivenBox]
    named: str  # what the file calls the image; nothing where its own name is that of the boxes
    turned: bool  # by its EXIF orientation, and nothing tells whether boxes are as well


class Place(NamedTuple):
    """Where boxes are read from, and what to read of them."""

    path: Path
    folders: list[Path]  # where images may be
    names: tuple[str, ...] | None
    split: str | None


def as_row(row: Any, where: str) -> GivenBox:
    """A box with or without its class in front."""
    values = row.tolist() if hasattr(row, "tolist") else row
    if not isinstance(values, list | tuple) or len(values) not in (4, 5):
        raise InvalidData(
            f"{where} is {brief(values)}: give a list of boxes to each image, each {ORDER} or "
            "(class, left, top, right, bottom)"
        )
    name = as_name(values[0], where) if len(values) == 5 else "object"
    return GivenBox(where, name, as_edges(values[-4:], where))


def brackets(edges: tuple[float, ...]) -> str:
    """Edges as errors show them."""
    return f"({', '.join(f'{edge:g}' for edge in edges)})"


def as_edges(values: Any, where: str) -> tuple[float, ...]:
    """Four finite numbers."""
    if not isinstance(values, list | tuple) or len(values) != 4:
        raise InvalidData(f"{where} is {brief(values)}: give four numbers")
    return tuple(as_number(value, where) for value in values)


def as_number(value: Any, where: str) -> float:
    """A finite number, which may be written as text."""
    try:
        number = float("bool" if isinstance(value, bool) else value)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if not np.isfinite(number):
        raise InvalidData(f"{where} has {brief(value)}, which is no finite number: mend or drop it")
    return number


def as_flag(value: Any, name: str, where: str) -> bool:
    """A mark of 0 or 1; what is not said is 0."""
    text = "0" if value is None else str(value).strip().lower()
    if text not in ("0", "1", "false", "true", "", "unspecified"):
        raise InvalidData(f"{where}: {name} is {brief(value)}: give 0 or 1")
    return text in ("1", "true")


def as_name(value: Any, where: str, names: tuple[str, ...] | None = None) -> str:
    """The name of a class, which is among `names` if these are known."""
    name = value.strip() if isinstance(value, str) else ""
    if not name:
        raise InvalidData(f"{where}: the class is {brief(value)}: give a name as text, in front")
    if names is not None and name not in names:
        raise InvalidData(f"{where}: class {name!r} is not among names: {brief(list(names))}")
    return name


def distinct_names(names: Any, where: str) -> tuple[str, ...]:
    """Names of classes, none twice."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidType(f"{where} = {brief(names)}: give a list of names")
    found = tuple(as_name(name, f"{where}[{k}]") for k, name in enumerate(names))
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise InvalidData(f"{where} has {twice!r} twice: give each class a name of its own")
    return found


def members(content: Any, member: str, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a list in JSON, and what errors call each."""
    items = content.get(member) if isinstance(content, dict) else None
    if not isinstance(items, list):
        raise InvalidData(
            f"{path}: {member or 'the file'} is {brief(items)}: a list is needed there"
        )
    for k, item in enumerate(items):
        where = f"{path}: {member}[{k}]"
        if not isinstance(item, dict):
            raise InvalidData(f"{where} is {brief(item)}: give an object with named members")
        yield where, item


def as_key(
    item: dict[str, Any], member: str, where: str, known: dict[Any, Any], new: bool = False
) -> Any:
    """A number or text that stands for an image or a class."""
    key = item.get(member)
    if isinstance(key, bool) or not isinstance(key, int | float | str):
        raise InvalidData(f"{where}: {member!r} is {brief(key)}: give a number")
    if new and key in known:
        raise InvalidData(f"{where}: {member!r} {brief(key)} is there twice: number them anew")
    if not new and key not in known:
        raise InvalidData(f"{where}: {member!r} {brief(key)} is unknown: add it, or drop the box")
    return key


def read_bytes(path: Path) -> bytes:
    """The content of a file."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise InvalidData(
            f"{path} cannot be read: {error}; give the path of a file or folder of boxes"
        ) from error


def read_text(path: Path) -> str:
    """The text of a file in UTF-8."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidData(f"{path} is no text in UTF-8: {error}; save it as such") from error


def read_json(path: Path) -> Any:
    """What a file of JSON holds."""
    content = read_bytes(path)
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        raise InvalidData(f"{path}, line {error.lineno}: this is no JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidData(f"{path} is no JSON of boxes: {error}") from error


def read_xml(path: Path) -> tuple[Element, dict[Element, int]]:
    """The root of an XML file, and the line where each element begins."""
    content = read_bytes(path)
    lines: dict[Element, int] = {}
    builder = TreeBuilder()
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        lines[builder.start(tag, attributes)] = parser.CurrentLineNumber

    def refuse(*declaration: Any) -> None:
        # Entities of a few lines may expand to gigabytes, and may name files.
        raise InvalidData(f"{path} declares a document type, which may be unsafe: remove <!DOCTYPE")

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(content, True)
        return builder.close(), lines
    except expat.ExpatError as error:
        raise InvalidData(f"{path}, line {error.lineno}: this is no XML: {error}") from error
    except (LookupError, ValueError) as error:
        if isinstance(error, InvalidData):
            raise
        raise InvalidData(f"{path} is no XML: {error}") from error


def files_in(folder: Path, suffix: str) -> list[Path]:
    """The files in a folder whose names end so, sorted."""
    names = sorted(os.listdir(folder))
    return [
        folder / name
        for name in names
        if name.lower().endswith(suffix) and not name.startswith(".")
    ]


def only_json(path: Path) -> Path:
    """A file, or the only one of JSON in a folder."""
    if not path.is_dir():
        return path
    files = files_in(path, ".json")
    if len(files) != 1:
        raise InvalidData(f"{path} has {len(files)} files of JSON: give the path of one of them")
    return files[0]


def looks_like_yolo(path: Path) -> bool:
    """Whether a text can be one of boxes, or of none, and not notes or names."""
    lines = read_bytes(path).split(b"\n")
    fields = next(filter(None, map(bytes.split, lines)), [])
    try:
        return not fields or len(list(map(float, fields))) >= 5
    except ValueError:
        return False


def labels_of(folder: Path) -> Path:
    """The folder of labels in one that has them beside its images, as YOLO's; else itself."""
    labels = folder / "labels"
    own = [*files_in(folder, ".xml"), *files_in(folder, ".json")]
    own += filter(looks_like_yolo, files_in(folder, ".txt"))
    return labels if not own and labels.is_dir() else folder


def names_near(folder: Path) -> tuple[str, ...] | None:
    """Names of classes, one in each line of a file in a folder or above it."""
    for place in (folder, folder.parent, folder.parent.parent):
        for name in ("classes.txt", "obj.names"):
            if (place / name).is_file():
                return distinct_names(
                    read_text(place / name).rstrip().splitlines(), str(place / name)
                )
    return None


def image_folders(place: Path, images: str | os.PathLike[str] | None) -> list[Path]:
    """Where images may be: where the user says, or around the file of boxes."""
    if images is not None:
        folder = as_path("images", images)
        if not folder.is_dir():
            raise InvalidData(f"images = {str(folder)!r} is not a folder: give one with images")
        return [folder]
    above = place.absolute().parent
    around = [root / name for root in (place, above) for name in ("images", "JPEGImages")]
    # Labels of YOLO in labels/train belong to images in images/train.
    around.append(above.parent / "images" / place.name)
    return [folder for folder in (place, *around) if folder.is_dir()]


def find_image(name: Any, where: str, source: Place) -> Path:
    """The file of an image that is named."""
    if not isinstance(name, str) or not name:
        raise InvalidData(f"{where} names its image {brief(name)}: give the name of a file")
    found = located(name, source.folders)
    if found is None:
        raise missing_image(name, where, source)
    return found


def located(name: str, folders: list[Path]) -> Path | None:
    """A file by its name, with the folders that the name has or, if it is not there, without."""
    names = dict.fromkeys((name, PureWindowsPath(name).name))
    candidates = (folder / each for folder in folders for each in names if each)
    return next(filter(os.path.isfile, candidates), None)


def without_folders(picture: Picture) -> bool:
    """Whether an image was found by its bare name, where the file says in which folder it is.

    Names that begin at a root are those of the machine that the file was made on.
    """
    named = PureWindowsPath(picture.named)
    parts = [] if named.root else named.parts
    return len(parts) > 1 and picture.path.parts[-len(parts) :] != parts


def image_of_stem(stem: str, folders: list[Path]) -> Path | None:
    """The image whose name is this but for its ending."""
    names = (stem + suffix for suffix in sorted(SUFFIXES))
    return next(filter(None, (located(name, folders) for name in names)), None)


def missing_image(name: str, where: str, source: Place) -> InvalidData:
    """The error of an image that is not there."""
    places = ", ".join(map(str, source.folders)) or "any folder"
    return InvalidData(
        f"{where} is about the image {brief(name)}, which is not in {places}: give the folder of "
        "the images by images="
    )


def checked_size(
    image: Path, declared: tuple[Any, Any], where: str
) -> tuple[tuple[int, int], bool]:
    """The size of an image as it is shown, which must be the one that boxes were drawn on.

    And whether nobody can tell that: EXIF turns the image, and there is no size, or it is that of
    the image before and after.
    """
    size, orientation = header_of(image)
    turned = orientation != UPRIGHT
    # Some tools write 0 for what they do not know.
    if any(value in (None, 0, "0") for value in declared):
        return size, turned
    width, height = (as_number(value, f"{where}: the size") for value in declared)
    if width != size[0] or height != size[1]:
        happened = " (turned by its EXIF orientation)" if (height, width) == size else ""
        raise InvalidData(
            f"{where}: boxes are those of an image of {width:g} x {height:g} pixels, and {image} "
            f"is shown with {size[0]} x {size[1]}{happened}: bring both into agreement"
        )
    return size, turned and (orientation not in SIDEWAYS or width == height)
