"""What a folder of shards holds: ``header.json`` and plain ``.npy`` files.

Each shard has one file per column, ``X-00000.npy`` and so on. A chunk is a run of blocks within a
shard; its SHA-256 covers its bytes in all columns, in the order of `columns`. The header's own
``sha256`` covers everything else in it, so that between them every byte is covered.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from taut.data.arrays import MAX_FEATURES
from taut.storage import files
from taut.storage.stored import require

FORMAT = "taut-shards"
VERSION = 1
HEADER = "header.json"
UNITS = ("blocks", "rows", "values")
REMEDY = "copy the folder again, or write it again with write_shards"

_NPY_BYTES = 128
_MOST = 2**48  # of anything that is counted
_TARGETS = {"float": "<f8", "int": "<i8", "label": "<i4"}


class Column(NamedTuple):
    """One array of each shard.

    `unit` is what it has one item for; a pointer has one item more, and counts from the beginning
    of the shard.
    """

    name: str
    dtype: np.dtype
    unit: str
    width: int | None = None
    pointer: bool = False

    @property
    def itemsize(self) -> int:
        """Bytes per item."""
        return self.dtype.itemsize * (1 if self.width is None else self.width)

    def count(self, sizes: dict[str, int]) -> int:
        """Items that so many blocks, rows and values take."""
        return sizes[self.unit] + self.pointer

    def shape(self, n: int) -> tuple[int, ...]:
        """The shape of n items."""
        return (n,) if self.width is None else (n, self.width)

    def offset(self, item: int) -> int:
        """Where an item begins in the file."""
        return _NPY_BYTES + item * self.itemsize

    def file(self, shard: int) -> str:
        """The name of the file in a shard."""
        return f"{self.name}-{shard:05}.npy"


def columns(header: dict[str, Any]) -> list[Column]:
    """The columns of shards with this header."""
    dtype = np.dtype(header["dtype"])
    if header["kind"] == "dense":
        found = [Column("X", dtype, "rows", header["n_features"])]
    else:
        found = [
            Column("data", dtype, "values"),
            Column("indices", np.dtype("<i4"), "values"),
            Column("indptr", np.dtype("<i8"), "rows", pointer=True),
        ]
    if header["ragged"]:
        found.append(Column("offsets", np.dtype("<i8"), "blocks", pointer=True))
    if header["y"] is not None:
        found.append(Column("y", np.dtype(_TARGETS[header["y"]]), header["y_per"]))
    found += [
        Column(name, np.dtype("<f8"), "blocks")
        for name in ("sample_weight", "margin")
        if header[name]
    ]
    return found


def check_header(header: dict[str, Any]) -> None:
    """Refuse a header with fields of another type or range, or whose parts do not agree.

    The chunks of a shard follow one another without holes from its beginning to its end.
    """
    require(header["kind"] in ("dense", "csr"), f"kind = {header['kind']!r:.50}")
    require(header["dtype"] in ("<f4", "<f8"), f"dtype = {header['dtype']!r:.50}")
    ragged, sparse = header["ragged"], header["kind"] == "csr"
    for name in ("ragged", "sample_weight", "margin"):
        require(type(header[name]) is bool, f"{name} = {header[name]!r:.50}")
    require(header["y"] is None or header["y"] in _TARGETS, f"y = {header['y']!r:.50}")
    require(header["y_per"] in ("blocks", "rows")[: 1 + ragged], f"y_per = {header['y_per']!r:.50}")
    countable = _is_count(header["n_features"], 1) and header["n_features"] <= MAX_FEATURES
    require(countable, f"n_features = {header['n_features']!r:.50}")
    classes = header["classes"]
    require((header["y"] == "label") == isinstance(classes, list), "targets and classes disagree")
    shards, chunks = header["shards"], header["chunks"]
    require(isinstance(shards, list) and isinstance(chunks, list) and chunks, "there are no chunks")
    totals = [dict.fromkeys(UNITS, 0)]
    number = 0
    for entry in chunks:
        require(entry["shard"] in (number, number + 1), "chunks are not in the order of shards")
        if entry["shard"] != number:
            number += 1
            totals.append(dict.fromkeys(UNITS, 0))
        sizes = {}
        for unit in UNITS:
            start, stop = entry[unit]
            require(_is_count(start) and _is_count(stop), f"{unit} are no counts")
            require(start == totals[-1][unit] <= stop, f"{unit} of chunks overlap or have holes")
            sizes[unit], totals[-1][unit] = stop - start, stop
        require(sizes["blocks"] >= 1, "a chunk has no blocks")
        alike = sizes["rows"] >= sizes["blocks"] if ragged else sizes["rows"] == sizes["blocks"]
        require(alike and (sparse or sizes["values"] == 0), "blocks, rows and values disagree")
    # Not their sums alone: True equals 1, and is no count.
    for counts in shards:
        require([*counts] and all(_is_count(counts[unit]) for unit in UNITS), "no sizes of a shard")
    held = [{unit: counts[unit] for unit in UNITS} for counts in shards]
    require(held == totals, "chunks and shards do not agree")
    for unit in UNITS:
        total, given = sum(counts[unit] for counts in held), header[f"n_{unit}"]
        require(_is_count(given) and given == total, f"n_{unit} = {given!r:.50} instead of {total}")


def _is_count(value: Any, low: int = 0) -> bool:
    return type(value) is int and low <= value <= _MOST


def npy_header(column: Column, n: int) -> bytes:
    """The head of an ``.npy`` file of n items: always as long, so that it can be written last."""
    text = (
        f"{{'descr': '{column.dtype.str}', 'fortran_order': False, 'shape': {column.shape(n)}, }}"
    )
    length = _NPY_BYTES - 10
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + f"{text:{length - 1}}\n".encode()


def sealed(header: dict[str, Any]) -> str:
    """The header as text, with its checksum."""
    return files._canonical(header | {"sha256": _digest(header)})


def read_header(folder: Path) -> dict[str, Any]:
    """Read the header of a folder of shards; refuse what is foreign, damaged or newer."""
    os.stat(folder)
    path = folder / HEADER
    try:
        with files.open_regular(path, REMEDY) as file:
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):
        files._refuse(
            folder,
            f"is no folder of shards: it has no {HEADER}",
            "pass a folder that write_shards has made",
        )
    try:
        header = json.loads(text, parse_constant=files._not_json)
        intact = isinstance(header, dict) and _digest(header) == header.get("sha256")
    except (ValueError, RecursionError) as error:
        files._refuse(path, f"is not complete JSON ({error})", REMEDY)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        files._refuse(path, "was not written by taut", "pass a folder that write_shards has made")
    version = header.get("version")
    if type(version) is not int or version < 1:
        files._refuse(path, f"has the unknown version {version!r}", REMEDY)
    files.refuse_newer(path, version, VERSION)
    if not intact:
        files._refuse(path, "is damaged: its SHA-256 does not match its content", REMEDY)
    return header


def check_file(folder: Path, column: Column, shard: int, n: int) -> None:
    """Refuse a file that does not look as `n` items of a column do."""
    path = folder / column.file(shard)
    try:
        with files.open_regular(path, REMEDY) as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(_NPY_BYTES)
    except OSError as error:
        files._refuse(path, f"cannot be read ({error.strerror})", REMEDY)
    expected = column.offset(n)
    if size != expected:
        fault = "truncated" if size < expected else "too long"
        files._refuse(path, f"is {fault}: {size} bytes instead of {expected}", REMEDY)
    if head != npy_header(column, n):
        files._refuse(path, "has a damaged or foreign .npy header", REMEDY)


def _digest(header: dict[str, Any]) -> str:
    content = {key: value for key, value in header.items() if key != "sha256"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
