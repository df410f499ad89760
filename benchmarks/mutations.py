"""Files that lie: changes to shards, models and checkpoints whose checksums are made right again.

A mutation takes the content of a good file apart, changes one to three things in it, and seals it
again, so that only what the content says can give it away. Others change bytes and leave the seal.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from taut.data import shard_format
from taut.storage import files

NUMBERS = [0, 1, -1, 2, 3, 7, -2, 100, 2**31 - 1, -(2**31), 2**40, 2**62, -(2**62), 2**63 - 1]
REALS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-300, 1e9, -1e9, 1e308, np.nan, np.inf, -np.inf]
DTYPES = ["f4", "f8", "f2", "i8", "i4", "i2", "i1", "u1", "u4", "u8", "?"]
JUNK: list[Any] = [
    None, True, False, 0, 1, -1, 2, 5, 1000, 2**31, 2**70, -(2**63), 0.5, -0.5, 1e308, 1e-308,
    "", "x", "nan", "inf", "-inf", "1e400", "True", "predict", "coef_", "9" * 5000, [], {}, [1],
    {"value": 3}, {"tensor": "coef_"}, {"tensor": "nothing"}, {"labels": [1], "dtype": "O"},
    {"labels": ["a", "b"], "dtype": "<U99999999999"}, {"solver": "one_slack", "settings": {}},
    "MulticlassSVM", "BinarySVM", "dual_coordinate", "<f4", ">f8", "<i8", "O", "<V9", "rows",
]  # fmt: skip
NAMES = [
    "coef_",
    "predict",
    "_state",
    "__class__",
    "save",
    "fit",
    "intercept_",
    "classes_",
    "x",
    "",
]


def change_array(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """A copy that differs: in a value, in all of them, in its shape or in its type."""
    array = np.array(array)
    what = rng.integers(12)
    if what < 6 and array.size:
        flat, count = array.reshape(-1), int(rng.choice([1, 1, 1, 2, 5]))
        for place in rng.integers(0, flat.size, size=count):
            flat[place] = _value_like(rng, flat, place)
    elif what == 6 and array.size:
        with np.errstate(all="ignore"):
            array = np.asarray(array * _factor(rng)).astype(array.dtype)
    elif what == 7:
        array = rng.permutation(array.reshape(-1)).reshape(array.shape)
    elif what == 8:
        array = array.reshape(-1)[: rng.integers(array.size + 1)]
    elif what == 9:
        array = np.concatenate([array.reshape(-1)] * 2)[: array.size + rng.integers(1, 4)]
    elif what == 10:
        with np.errstate(all="ignore"):
            array = array.astype(rng.choice(DTYPES))
    else:
        shapes = [array.reshape(-1), array.reshape(1, -1), array[None], array.T]
        array = np.ascontiguousarray(shapes[rng.integers(len(shapes))])
    return array


def _factor(rng: np.random.Generator) -> float:
    return float(rng.choice([0.0, -1.0, 0.5, 0.99, 1.001, 1.1, 2.0, 10.0, 1e6]))


def _value_like(rng: np.random.Generator, flat: np.ndarray, place: int) -> Any:
    """Another value for one place: something extreme, a neighbour's, or nearly the same."""
    old = flat[place]
    if flat.dtype.kind == "b":
        return not old
    choice = rng.integers(4)
    with np.errstate(all="ignore"):
        if choice == 0:
            return flat[rng.integers(flat.size)]
        if flat.dtype.kind in "iu":
            if choice == 1:
                return (int(old) + int(rng.integers(-3, 4))) % 2**7
            bounds = np.iinfo(flat.dtype)
            return int(np.clip(rng.choice(np.array(NUMBERS)), bounds.min, bounds.max))
        if choice == 1:
            return flat.dtype.type(old * _factor(rng))
        if choice == 2:
            return flat.dtype.type(old + rng.normal() * 10.0 ** rng.integers(-3, 3))
        return flat.dtype.type(rng.choice(REALS))


def change_tensors(rng: np.random.Generator, tensors: dict[str, np.ndarray]) -> None:
    """Change, drop, add or exchange arrays."""
    names = sorted(tensors)
    if not names:
        return
    name, other = rng.choice(names), rng.choice(names)
    what = rng.integers(10)
    if what < 7:
        tensors[name] = change_array(rng, tensors[name])
    elif what == 7:
        del tensors[name]
    elif what == 8:
        tensors[name], tensors[other] = tensors[other], tensors[name]
    else:
        tensors[f"{name}.{rng.integers(3)}"] = tensors[other]


def change_json(rng: np.random.Generator, value: Any) -> Any:
    """A JSON value with one thing in it changed, at a random depth."""
    inside = isinstance(value, dict | list) and len(value) > 0 and rng.random() < 0.93
    if inside and isinstance(value, dict):
        key = sorted(value)[rng.integers(len(value))]
        what = rng.integers(20)
        if what == 0:
            return {k: v for k, v in value.items() if k != key}
        if what == 1:
            return value | {NAMES[rng.integers(len(NAMES))]: value[key]}
        if what == 2:
            other = sorted(value)[rng.integers(len(value))]
            return value | {key: value[other], other: value[key]}
        return value | {key: change_json(rng, value[key])}
    if inside:
        place = int(rng.integers(len(value)))
        what = rng.integers(20)
        if what == 0:
            return value[:place] + value[place + 1 :]
        if what == 1:
            return value[:place] + [value[place]] + value[place:]
        return [*value[:place], change_json(rng, value[place]), *value[place + 1 :]]
    if isinstance(value, int | float) and not isinstance(value, bool) and rng.random() < 0.5:
        return value * _factor(rng) if rng.random() < 0.5 else value + int(rng.integers(-2, 3))
    if isinstance(value, str) and rng.random() < 0.4:
        try:
            return str(type(json.loads(value))(json.loads(value) * _factor(rng)))
        except (ValueError, TypeError, OverflowError):
            pass
    return copy.deepcopy(JUNK[rng.integers(len(JUNK))])


def change_bytes(rng: np.random.Generator, content: bytes) -> bytes:
    """Bytes flipped, cut off, repeated or put in."""
    data = bytearray(content)
    what = rng.integers(4)
    near = min(len(data), 400) if rng.random() < 0.5 else len(data)
    place = int(rng.integers(max(near, 1)))
    if what == 0 and data:
        for _ in range(int(rng.integers(1, 4))):
            data[int(rng.integers(near))] ^= 1 << int(rng.integers(8))
    elif what == 1:
        del data[place:]
    elif what == 2:
        data[place:place] = rng.bytes(int(rng.integers(1, 9)))
    else:
        data[place : place + 8] = rng.bytes(8)
    return bytes(data)


# One file: models and checkpoints


def mutate_file(rng: np.random.Generator, original: Path, kind: str, path: Path) -> None:
    """Write a mutation of a model or checkpoint to `path`."""
    if rng.random() < 0.15:
        path.write_bytes(change_bytes(rng, original.read_bytes()))
        return
    tensors, meta = files.read(original, kind)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        if tensors and rng.random() < 0.6:
            change_tensors(rng, tensors)
        else:
            changed = change_json(rng, meta)
            meta = changed if isinstance(changed, dict) else {"meta": changed}
        if "fingerprint" in meta and rng.random() < 0.98:
            # Another one is refused at once, which tests nothing.
            meta["fingerprint"] = files.read(original, kind)[1]["fingerprint"]
    header = {}
    if rng.random() < 0.05:
        header = {"version": str(rng.choice(["2", "-1", "1.0", "x", "9" * 5000, "\u0661", ""]))}
    dtype = str(rng.choice(["BF16", "F8_E4M3", "F8_E5M2", "F64"])) if rng.random() < 0.05 else None
    write_sealed(path, kind, tensors, meta, header, dtype)


def write_sealed(
    path: Path,
    kind: str,
    tensors: dict[str, np.ndarray],
    meta: dict[str, Any],
    header: dict[str, str],
    dtype: str | None,
) -> None:
    """As `files.write`, with anything in the header, and perhaps a foreign type."""
    arrays = [(name, np.ascontiguousarray(array)) for name, array in tensors.items()]
    arrays.sort(key=lambda item: (-item[1].itemsize, item[0]))
    text = json.dumps(meta, sort_keys=True, separators=(",", ":"))
    head = json.loads(files._header(kind, text, arrays))
    head["__metadata__"] |= header
    if dtype is not None and tensors:
        head[arrays[0][0]]["dtype"] = dtype
        if dtype != "F64":
            size = arrays[0][1].nbytes // (2 if dtype == "BF16" else 1)
            head[arrays[0][0]]["shape"] = [size]
    data = json.dumps(head).encode()
    data += b" " * (-len(data) % 8)
    body = b"".join(array.tobytes() for _, array in arrays)
    path.write_bytes(len(data).to_bytes(8, "little") + data + body)


# A folder: shards


def mutate_shards(rng: np.random.Generator, original: Path, path: Path) -> None:
    """Make a mutation of a folder of shards at `path`."""
    shutil.copytree(original, path)
    names = sorted(p.name for p in path.iterdir())
    if rng.random() < 0.15:
        _break(rng, path / names[rng.integers(len(names))], path)
        return
    header = json.loads((path / shard_format.HEADER).read_text())
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        if rng.random() < 0.6:
            name = rng.choice([name for name in names if name.endswith(".npy")])
            array = change_array(rng, np.load(path / name))
            np.save(path / name, array)
        else:
            changed = change_json(rng, header)
            header = changed if isinstance(changed, dict) else {"header": changed}
    reseal(path, header)


def _break(rng: np.random.Generator, file: Path, folder: Path) -> None:
    """Change bytes of a file, or put something in its place that is none."""
    what = rng.integers(8)
    if what < 5:
        file.write_bytes(change_bytes(rng, file.read_bytes()))
        return
    file.unlink()
    if what == 5:
        os.mkfifo(file)
    elif what == 6:
        file.mkdir()
    elif rng.random() < 0.5:
        file.symlink_to("/dev/zero")


def reseal(folder: Path, header: dict[str, Any]) -> None:
    """Compute the checksums of all chunks and of the header again, as far as they make sense."""
    try:
        columns = shard_format.columns(header)
        sizes: dict[tuple[str, int], int] = {}
        for column in columns:
            for shard in range(len(header["shards"])):
                file = folder / column.file(shard)
                array = np.load(file)
                n = array.size * array.itemsize // column.itemsize
                sizes[column.name, shard] = n
                data = array.tobytes()[: n * column.itemsize]
                file.write_bytes(shard_format.npy_header(column, n) + data)
        for entry in header["chunks"]:
            digest = hashlib.sha256()
            for column in columns:
                start, stop = entry[column.unit]
                data = (folder / column.file(entry["shard"])).read_bytes()
                digest.update(data[column.offset(start) : column.offset(stop + column.pointer)])
            entry["sha256"] = digest.hexdigest()
    except Exception:
        pass  # the header makes no sense, and is sealed as it is
    header.pop("sha256", None)
    text = json.dumps(header, sort_keys=True, separators=(",", ":"))
    header["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (folder / shard_format.HEADER).write_text(json.dumps(header, sort_keys=True))
