"""The formats of files of boxes: PASCAL VOC, COCO, YOLO and plain lists."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from pathlib import Path, PureWindowsPath
from reprlib import repr as brief
from typing import Any

from taut.errors import InvalidData
from taut.vision.annotation_items import (
    GivenBox,
    Picture,
    Place,
    as_edges,
    as_flag,
    as_key,
    as_name,
    as_number,
    as_row,
    checked_size,
    files_in,
    find_image,
    image_of_stem,
    located,
    looks_like_yolo,
    members,
    missing_image,
    names_near,
    only_json,
    read_bytes,
    read_json,
    read_text,
    read_xml,
)
from taut.vision.images import list_images


def recognised(path: Path) -> str:
    """The format, by what is in a file or in the files of a folder."""
    if not path.is_dir():
        head = read_bytes(path)[:4096]
        for mark in (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            head = head.removeprefix(mark)
        first = head.replace(b"\0", b"").lstrip()[:1]
        found_in = {b"<": "voc", b"{": "coco", b"[": "plain"}
        if first in found_in:
            return found_in[first]
        if path.suffix.lower() == ".txt" and looks_like_yolo(path):
            return "yolo"
        raise InvalidData(
            f"{path} is in no format that is recognised: give another file, or its format, one of "
            f"{tuple(READERS)}"
        )
    kinds = {
        "voc": bool(files_in(path, ".xml")),
        "yolo": any(map(looks_like_yolo, files_in(path, ".txt"))),
    }
    found = [kind for kind, there in kinds.items() if there]
    if files_in(path, ".json"):
        found.append(recognised(only_json(path)))
    if len(found) != 1:
        raise InvalidData(
            f"{path} holds {' and '.join(found) or 'no'} files of boxes: give the path of a file, "
            f"or its format, one of {tuple(READERS)}"
        )
    return found[0]


def _read_voc(source: Place) -> Iterator[Picture]:
    for path in files_in(source.path, ".xml") if source.path.is_dir() else [source.path]:
        root, lines = read_xml(path)
        if root.tag != "annotation":
            raise InvalidData(f"{path} is about <{root.tag}>: PASCAL VOC begins with <annotation>")
        name = (root.findtext("filename") or "").strip()
        image = located(name, source.folders) or image_of_stem(path.stem, source.folders)
        if image is None:
            raise missing_image(name or path.stem, str(path), source)
        declared = root.findtext("size/width"), root.findtext("size/height")
        objects = root.findall("object")
        boxes = []
        for k, item in enumerate(objects, start=1):
            where = f"{path}, line {lines[item]}: box {k} of {len(objects)}"
            corners = [item.findtext(f"bndbox/{key}") for key in ("xmin", "ymin", "xmax", "ymax")]
            left, top, right, bottom = as_edges(corners, where)
            kind = as_name(item.findtext("name"), where, source.names)
            difficult = as_flag(item.findtext("difficult"), "difficult", where)
            boxes.append(GivenBox(where, kind, (left - 1.0, top - 1.0, right, bottom), difficult))
        size, turned = checked_size(image, declared, str(path))
        named = name if image.name == PureWindowsPath(name).name else ""
        yield Picture(str(path), image, size, boxes, named, turned)


def _read_coco(source: Place) -> Iterator[Picture]:
    path = only_json(source.path)
    content = read_json(path)
    kinds: dict[Any, str] = {}
    for where, item in members(content, "categories", path):
        kinds[as_key(item, "id", where, kinds, new=True)] = as_name(
            item.get("name"), where, source.names
        )
    boxes: dict[Any, list[GivenBox]] = {}
    pictures = list(members(content, "images", path))
    for where, item in pictures:
        boxes[as_key(item, "id", where, boxes, new=True)] = []
    for where, item in members(content, "annotations", path):
        image = as_key(item, "image_id", where, boxes)
        kind = kinds[as_key(item, "category_id", where, kinds)]
        left, top, width, height = as_edges(item.get("bbox"), f"{where}: bbox")
        edges = (left, top, left + width, top + height)
        crowd = as_flag(item.get("iscrowd"), "iscrowd", where)
        boxes[image].append(GivenBox(where, kind, edges, crowd))
    for where, item in pictures:
        image = find_image(item.get("file_name"), where, source)
        size, turned = checked_size(image, (item.get("width"), item.get("height")), where)
        yield Picture(where, image, size, boxes[item["id"]], item["file_name"], turned)


def _read_plain(source: Place) -> Iterator[Picture]:
    path = only_json(source.path)
    items = list(members({"": read_json(path)}, "", path))
    splits = {brief(item.get("split")): item.get("split") for _, item in items}
    if source.split is not None and source.split not in splits.values():
        raise InvalidData(
            f"{path} has no images of split = {source.split!r}, but of {sorted(splits)}"
        )
    for where, item in items:
        if source.split is not None and item.get("split") != source.split:
            continue
        image = find_image(item.get("file"), where, source)
        rows = item.get("boxes")
        if not isinstance(rows, list):
            raise InvalidData(f"{where}: 'boxes' is {brief(rows)}: give a list, empty if need be")
        boxes = []
        for k, row in enumerate(rows, start=1):
            place = f"{where} ({image.name}), box {k} of {len(rows)}"
            box = as_row(row, place)
            boxes.append(box._replace(name=as_name(box.name, place, source.names)))
        size, turned = checked_size(image, (item.get("width"), item.get("height")), where)
        yield Picture(where, image, size, boxes, item["file"], turned)


def _read_yolo(source: Place) -> Iterator[Picture]:
    alone = not source.path.is_dir()
    files = [source.path] if alone else files_in(source.path, ".txt")
    labels = {path.stem: path for path in files}
    names = source.names or names_near(source.path.parent if alone else source.path)
    images = next(filter(None, map(list_images, source.folders)), [])
    used: dict[str, Path] = {}
    for image in images:
        if alone and image.stem not in labels:
            continue
        if image.stem in used:
            raise InvalidData(
                f"{image} and {used[image.stem]} would share the boxes of {image.stem}.txt: rename "
                "one of them"
            )
        used[image.stem] = image
        label = labels.pop(image.stem, None)
        size, turned = checked_size(image, (None, None), str(label))
        boxes = [] if label is None else list(_yolo_lines(label, names, size))
        yield Picture(str(label or image), image, size, boxes, "", turned)
    for path in labels.values():
        if alone or looks_like_yolo(path):
            raise missing_image(path.stem, str(path), source)


def _yolo_lines(
    path: Path, names: tuple[str, ...] | None, size: tuple[int, int]
) -> Iterator[GivenBox]:
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        fields = line.split()
        where = f"{path}, line {number}:"
        if not fields:
            continue
        if len(fields) != 5:
            raise InvalidData(
                f"{where} {brief(line)} has {len(fields)} fields: boxes have 5, class, centre x, "
                "centre y, width and height; polygons and scores are not read"
            )
        kind = as_number(fields[0], f"{where} the class")
        if names is None:
            raise InvalidData(
                f"{where} classes are numbers, and there is no classes.txt nor obj.names: give "
                "their names by names="
            )
        if not kind.is_integer() or not 0 <= kind < len(names):
            raise InvalidData(
                f"{where} class {fields[0]} is unknown: there are {len(names)} names, counted "
                f"from 0: {brief(names)}"
            )
        fractions = as_edges(fields[1:], where)
        if min(fractions) < -1e-3 or max(fractions) > 1.0 + 1e-3:  # a little is rounding
            raise InvalidData(
                f"{where} {brief(line)} is not in fractions of the image, which are from 0 to 1"
            )
        x, y, width, height = (value * side for value, side in zip(fractions, size * 2))
        edges = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        yield GivenBox(f"{where} the box", names[int(kind)], edges)


READERS: dict[str, Callable[[Place], Iterator[Picture]]] = {
    "voc": _read_voc,
    "coco": _read_coco,
    "yolo": _read_yolo,
    "plain": _read_plain,
}
