"""Models and checkpoints on disk: one safetensors file with a checksum, never pickle.

The header's ``__metadata__`` holds ``format``, ``version``, ``kind``, ``meta`` (canonical JSON) and
``sha256``, which covers kind, version, meta and each tensor's name, dtype, shape and bytes.
"""

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, NoReturn

import numpy as np
from safetensors import SafetensorError, safe_open

from taut.checks import as_path
from taut.errors import InvalidData, InvalidFile, InvalidType, MissingFolder

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # not a Unix system
    fcntl = None

FORMAT = "taut"
VERSION = 1
#: What reading a file that lies may raise.
NONSENSE = (ArithmeticError, AttributeError, LookupError, SyntaxError, TypeError, ValueError)

_DTYPES = {"bool": "BOOL"} | {
    f"{long}{bits}": f"{short}{bits}"
    for long, short, widths in (
        ("int", "I", (8, 16, 32, 64)),
        ("uint", "U", (8, 16, 32, 64)),
        ("float", "F", (16, 32, 64)),
    )
    for bits in widths
}


def write(
    path: str | os.PathLike[str], kind: str, tensors: dict[str, np.ndarray], meta: dict[str, Any]
) -> None:
    """Write tensors and JSON metadata to one file, atomically; a link is followed.

    The file appears complete or not at all, and a file already at `path` stays intact on failure.
    Equal content gives equal bytes. `kind` says what the file holds, e.g. ``"model"``, and `read`
    asks for the same. Tensors are boolean, integer or float arrays of any shape and memory order.
    NaN and infinity in `meta` are refused.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "w.taut"
    >>> write(path, "model", {"w": np.arange(3.0)}, {"C": 1.0})
    >>> read(path, "model")
    ({'w': array([0., 1., 2.])}, {'C': 1.0})
    """
    arrays = [(name, _storable(name, array)) for name, array in tensors.items()]
    # Wide items first: every tensor then starts at a multiple of its item size.
    arrays.sort(key=lambda item: (-item[1].itemsize, item[0]))
    header = _header(kind, _canonical(meta), arrays)
    # Not safetensors.numpy.save_file: it orders the header at random, so that equal models
    # differ in bytes, and turns a full disk or a missing folder into its own exception.
    with whole_file(path) as file:
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        for _, array in arrays:
            file.write(array.data)


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file that appears at `path` once it is written as a whole; a link is followed.

    A file already there stays intact on failure.
    """
    path = as_path("path", path).resolve()
    if not path.parent.is_dir():
        raise MissingFolder(
            f"path = {str(path)!r}: there is no folder {path.parent}; create it, or give another "
            "path"
        )
    with temporary_for(path, lambda temporary: temporary.open("xb").close()) as temporary:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    _sync_folder(path.parent)


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read the tensors and the metadata that `write` wrote.

    A file that is empty, truncated, damaged, foreign, of another kind or from a newer version is
    refused as `InvalidFile`.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> _ = path.write_text("not a model")
    >>> read(path, "model")
    Traceback (most recent call last):
        ...
    taut.errors.InvalidFile: ...notes.txt is not a complete safetensors file...
    """
    path = as_path("path", path)
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        _refuse(path, "is not a regular file", f"pass the path of a {kind} file")
    if status.st_size == 0:
        _refuse(path, "is empty", "copy or save it again")
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            text = _check_header(path, kind, header)
            for name in file.keys():  # noqa: SIM118
                dtype = file.get_slice(name).get_dtype()
                if dtype not in _DTYPES.values():
                    _refuse(path, f"has a tensor of type {dtype}", "save it again with taut")
            tensors = {name: file.get_tensor(name) for name in sorted(file.keys())}
    except SafetensorError as error:
        _refuse(
            path,
            f"is not a complete safetensors file ({error})",
            "it may be truncated or from another program: copy or save it again",
        )
    if _digest(kind, text, tensors.items()) != header.get("sha256"):
        _refuse(path, "is damaged: its SHA-256 does not match its content", "copy or save it again")
    try:
        meta = json.loads(text, parse_constant=_not_json)
        if not isinstance(meta, dict):
            raise ValueError(f"{type(meta).__name__} instead of an object")
    except (ValueError, RecursionError) as error:
        _refuse(path, f"has metadata that is not JSON ({error})", "save it again with taut")
    return tensors, meta


def encode_label(value: Any) -> Any:
    """Turn a label into a JSON value from which `decode_label` restores it exactly.

    Labels are str, int, bool, float, None or (nested) tuples of these; numpy scalars become their
    Python value, and others are refused.

    Examples
    --------
    >>> encode_label(("left", 1, True))
    {'tuple': ['left', 1, True]}
    >>> decode_label(encode_label(("left", 1, True)))
    ('left', 1, True)
    """
    if isinstance(value, np.generic):
        value = value.item()
    # Exact types: a subclass (an Enum, a named tuple) would come back as its base.
    if type(value) is tuple:
        return {"tuple": [encode_label(item) for item in value]}
    if type(value) is float and not np.isfinite(value):
        return {"float": repr(value)}
    if value is None or type(value) in (str, bool, int, float):
        return value
    raise InvalidType(
        f"label {value!r} of type {type(value).__name__} cannot be stored; use str, int, bool, "
        "float, None or tuples of these as labels"
    )


def decode_label(value: Any) -> Any:
    """Restore a label from what `encode_label` made of it; other values are refused."""
    match value:
        case {"tuple": list(items), **rest} if not rest:
            return tuple(decode_label(item) for item in items)
        case {"float": "nan" | "inf" | "-inf" as text, **rest} if not rest:
            return float(text)
        case None | str() | bool() | int() | float():
            return value
    raise InvalidFile(f"{value!r} is not a stored label; save the file again with taut")


def encode_nested(value: Any) -> Any:
    """As `encode_label`, for labels in dicts, lists and sets that may be nested.

    Examples
    --------
    >>> encode_nested({"fish": ["ray", "trout"]})
    {'dict': [['fish', {'list': ['ray', 'trout']}]]}
    >>> decode_nested(encode_nested({"fish": ["ray", "trout"]}))
    {'fish': ['ray', 'trout']}
    """
    if isinstance(value, Mapping):
        return {"dict": [[encode_label(key), encode_nested(item)] for key, item in value.items()]}
    if isinstance(value, list | set):
        kind = "list" if isinstance(value, list) else "set"
        return {kind: [encode_nested(item) for item in value]}
    return encode_label(value)


def decode_nested(value: Any) -> Any:
    """Restore what `encode_nested` was given."""
    match value:
        case {"dict": list(pairs), **rest} if not rest:
            return {decode_label(key): decode_nested(item) for key, item in pairs}
        case {"list": list(items), **rest} if not rest:
            return [decode_nested(item) for item in items]
        case {"set": list(items), **rest} if not rest:
            return {decode_nested(item) for item in items}
    return decode_label(value)


def _storable(name: str, array: np.ndarray) -> np.ndarray:
    if not isinstance(name, str) or name == "__metadata__":
        raise InvalidData(f"tensor name {name!r} cannot be stored; use another string")
    array = np.asarray(array)
    if array.dtype.name not in _DTYPES:
        raise InvalidType(
            f"tensor {name!r} of dtype {array.dtype} cannot be stored; convert it to one of "
            f"{', '.join(_DTYPES)}"
        )
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _canonical(meta: dict[str, Any]) -> str:
    try:
        return json.dumps(meta, sort_keys=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidData(
            f"meta cannot be stored as JSON: {error}; use finite numbers, text, lists and dicts, "
            "and encode_label for labels"
        ) from error


def _header(kind: str, text: str, arrays: list[tuple[str, np.ndarray]]) -> bytes:
    metadata = {"format": FORMAT, "version": str(VERSION), "kind": kind, "meta": text}
    metadata["sha256"] = _digest(kind, text, arrays)
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, array in arrays:
        start, end = end, end + array.nbytes
        header[name] = {
            "dtype": _DTYPES[array.dtype.name],
            "shape": array.shape,
            "data_offsets": [start, end],
        }
    data = json.dumps(header, separators=(",", ":")).encode()
    return data + b" " * (-len(data) % 8)


def _digest(kind: str, text: str, arrays: Iterable[tuple[str, np.ndarray]]) -> str:
    # Each part is JSON text, whose end is unambiguous: no two contents give the same bytes.
    digest = hashlib.sha256(json.dumps([kind, str(VERSION), text]).encode())
    for name, array in sorted(arrays, key=lambda item: item[0]):
        array = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(array.data)
    return digest.hexdigest()


def _check_header(path: str | os.PathLike[str], kind: str, header: dict[str, str]) -> str:
    if header.get("format") != FORMAT:
        _refuse(path, "was not written by taut", f"pass a {kind} file that taut has saved")
    version = header.get("version", "")
    if not re.fullmatch("[1-9][0-9]{0,8}", version):
        _refuse(path, f"has the unknown version {version!r:.50}", "save it again with taut")
    refuse_newer(path, int(version), VERSION)
    if header.get("kind") != kind:
        _refuse(path, f"holds a {header.get('kind')}, not a {kind}", f"pass a {kind} file")
    if "meta" not in header:
        _refuse(path, "has no metadata", "save it again with taut")
    return header["meta"]


def refuse_newer(path: str | os.PathLike[str], version: int, known: int) -> None:
    """Refuse what a later version of the library has written."""
    if version > known:
        _refuse(
            path,
            f"has version {version}, and this taut reads up to {known}",
            "upgrade taut: pip install -U taut",
        )


def _refuse(path: str | os.PathLike[str], fault: str, remedy: str) -> NoReturn:
    raise InvalidFile(f"{os.fspath(path)} {fault}; {remedy}")


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


@contextmanager
def locked(path: Path, kind: str, remedy: str) -> Iterator[None]:
    """Keep other runs away from a file, in this process too, by a lock at `path.lock`.

    The system lets go of it when the process ends, however it ends. Where the system or the folder
    has no locks, nobody is kept away.
    """
    name = path.with_name(f"{path.name}.lock")
    lock = _lock_at(name)
    if isinstance(lock, str):
        _refuse(path, f"is the {kind} of a run that is under way (process {lock})", remedy)
    try:
        yield
    finally:
        if lock is not None:
            with suppress(OSError):
                # Before it is let go: whoever opens it now finds that it is gone, makes another.
                name.unlink(missing_ok=True)
            _let_go(lock)


def _lock_at(name: Path) -> int | str | None:
    """The descriptor that holds a lock, or which process does; None where there are no locks."""
    while fcntl is not None:
        try:
            lock = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            return None  # writing will say what is wrong with the folder
        mine = _lock(lock)
        if mine and _is_at(lock, name):
            with suppress(OSError):  # on a full disk the process stays unknown, no more
                os.ftruncate(lock, 0)
                os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            return lock
        owner = os.pread(lock, 20, 0).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        if mine is None:
            return None
        if not mine:
            return owner
        # Another run has ended in between, and taken the file with it.
    return None


def _lock(descriptor: int, *, wait: bool = False) -> bool | None:
    """Lock an open file; whether that was possible, or None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        return False if error.errno in (errno.EAGAIN, errno.EACCES) else None
    return True


def _let_go(lock: int) -> None:
    if fcntl is not None:
        # Closing is not enough where a process was forked in between, and has it open too.
        fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


@contextmanager
def temporary_for(path: Path, make: Callable[[Path], object]) -> Iterator[Path]:
    """A file or folder next to `path` in which to write what shall appear there as a whole.

    `make` makes an empty one at the path that it is given. It is locked while this process works on
    it, and removed if that fails. What processes that were killed have left is not locked any more,
    and is removed first.
    """
    _remove_left(path)
    temporary, lock = _new_temporary(path, make)
    try:
        yield temporary
    except BaseException:
        _remove(temporary)
        raise
    finally:
        if lock is not None:
            os.close(lock)


def _new_temporary(path: Path, make: Callable[[Path], object]) -> tuple[Path, int | None]:
    """A new temporary, and the descriptor that holds its lock, where there are locks."""
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        make(temporary)
        if fcntl is None:
            return temporary, None
        try:
            lock = os.open(temporary, os.O_RDONLY)
        except FileNotFoundError:
            continue  # another process took it for one that was left, before it was locked
        _lock(lock, wait=True)  # without locks, nobody will take it for one that was left
        if temporary.exists():
            return temporary, lock
        os.close(lock)


def _remove_left(path: Path) -> None:
    """Remove the temporaries of `path` that no process holds."""
    if fcntl is None:
        return
    name = re.compile(re.escape(f".{path.name}.") + r"[0-9a-f]{16}\.tmp")
    for other in [entry for entry in os.listdir(path.parent) if name.fullmatch(entry)]:
        temporary = path.with_name(other)
        try:
            lock = os.open(temporary, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            if _lock(lock):
                _remove(temporary)
        except OSError:
            pass  # it is somebody else's
        finally:
            os.close(lock)


def _remove(temporary: Path) -> None:
    if temporary.is_dir():
        shutil.rmtree(temporary, ignore_errors=True)
    else:
        temporary.unlink(missing_ok=True)


def open_regular(path: Path, remedy: str) -> BinaryIO:
    """Open a file for reading, unbuffered; what is none, such as a pipe, is refused at once."""
    flags = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, os.O_RDONLY | flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        _refuse(path, "is not a regular file", remedy)
    return open(descriptor, "rb", buffering=0)


def _sync_folder(folder: Path) -> None:
    # The new name itself survives a power failure only once its folder is on disk; folders
    # cannot be opened on Windows.
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
