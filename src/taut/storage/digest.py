"""Digests of values by content: what tells data, structures and settings from others.

Equal content has equal digests in every process. Neither addresses nor the order of sets play a
part, nor how often an object is shared. Functions enter with their code and what it reads; objects
with their state, as they would be pickled: a class leaves out what does not matter, such as caches
and counters, by a `__getstate__` of its own.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import struct
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.errors import InvalidData

#: For errors that tell of a difference, where objects of users' classes are compared.
LEAVE_OUT = (
    ". If an object changes by itself, by a cache or a counter, leave that out by a __getstate__ "
    "of its class"
)

_SLAB = 2**22  # bytes of an array that is not contiguous, to copy at once
_LARGE = 2**12  # bytes of arrays that are looked up before they are hashed again
_MANY = 100_000  # objects to remember at most while examples are gone through


class _Cycle(Exception):
    """An object contains itself."""


def digest_of(*values: Any, code: bool = False) -> bytes:
    """The digest of values, or refuse what cannot be read.

    With `code`, objects enter with the code of their classes.

    Examples
    --------
    >>> digest_of({"a": np.arange(3)}) == digest_of({"a": np.arange(3)})
    True
    >>> digest_of(np.arange(3)) == digest_of(np.arange(3.0))
    False
    """
    digest = Digest(code=code)
    for value in values:
        digest.add(value)
    return digest.strict()


class Digest:
    """A digest of values that are added one after the other.

    `opaque` is the type of an object that could not be read; only its type is in the digest.
    `of_users` tells whether there is an object whose class is neither taut's nor a library's.
    """

    def __init__(self, *, code: bool = False) -> None:
        self.opaque: str | None = None
        self.of_users = False
        self._sum = hashlib.sha256()
        self._code = code
        self._known: dict[int, bytes] = {}  # what was hashed, by its id
        self._seen: dict[int, bytes] = {}  # the same for what contains itself: its number
        self._alive: list[Any] = []  # whatever has its id in these
        self._open: set[int] = set()
        self._cyclic = False

    def add(self, value: Any) -> None:
        """Let a value enter; a list item by item, whatever its size."""
        if type(value) is list:
            self._sum.update(_packed("items", len(value)))
            for item in value:
                self._enter(item)
        else:
            self._enter(value)

    def _enter(self, value: Any) -> None:
        try:
            token = self._whole_token(value)
        except RecursionError:
            token = self._unreadable(value)
        finally:
            self._open.clear()
            self._cyclic = False
        self._sum.update(token)
        if len(self._alive) > _MANY:
            for memory in (self._known, self._seen, self._alive):
                memory.clear()

    def _whole_token(self, value: Any) -> bytes:
        """The token of a value that may contain itself."""
        try:
            return self._token(value)
        except _Cycle:
            self._open.clear()
            self._cyclic = True
            return self._token(value)

    def digest(self) -> bytes:
        """Of all that was added."""
        return self._sum.digest()

    def strict(self) -> bytes:
        """The same, if all of it could be read."""
        if self.opaque is not None:
            raise InvalidData(
                f"an object of type {self.opaque} cannot be read, so that nobody can tell whether "
                "it is the same in another fit: give its class __getstate__ or __reduce__, or fit "
                "without warm_start and checkpoint (solve: keep_state=False)"
            )
        return self.digest()

    # A token ends by itself: those of different values side by side can never be the same bytes.

    def _token(self, value: Any) -> bytes:
        atom = _ATOMS.get(type(value))
        if atom is not None:
            return _packed(type(value).__name__, atom(value))
        if isinstance(value, np.generic) and not value.dtype.hasobject:
            return _packed(f"scalar {value.dtype.str}", value.tobytes())
        key = id(value)
        known = (self._seen if self._cyclic else self._known).get(key)
        if known is not None:
            return known
        if type(value) in (np.ndarray, np.memmap) and not value.dtype.hasobject:
            token = _packed("array", _array_digest(value))
            if value.nbytes >= _LARGE:
                self._keep(self._known, key, token, value)
                self._keep(self._seen, key, token, value)
            return token
        if self._cyclic:
            self._keep(self._seen, key, _packed("seen", len(self._seen)), value)
            return self._node(value)
        if key in self._open:
            raise _Cycle
        self._open.add(key)
        token = self._node(value)
        self._open.discard(key)
        self._keep(self._known, key, token, value)
        return token

    def _keep(self, memory: dict[int, bytes], key: int, token: bytes, value: Any) -> None:
        memory[key] = token
        self._alive.append(value)

    def _node(self, value: Any) -> bytes:
        """What consists of others."""
        tag, parts = _named(type(value)), hashlib.sha256()
        tokens: Iterable[bytes] = map(self._token, self._parts(value))
        try:
            for token in sorted(tokens) if isinstance(value, set | frozenset) else tokens:
                parts.update(token)
        except (_Cycle, RecursionError, MemoryError):
            raise
        except Exception:  # from code of the object's class, which may raise anything
            return self._unreadable(value)
        return _packed(tag, parts.digest())

    def _parts(self, value: Any) -> Iterator[Any]:
        """What a value consists of."""
        if type(value) in (list, tuple, set, frozenset):
            yield from value
        elif type(value) is dict:
            for pair in value.items():
                yield from pair
        elif isinstance(value, types.FunctionType):
            yield from self._function(value)
        elif isinstance(value, types.CodeType):
            yield from (value.co_code, value.co_names, value.co_consts)
        elif isinstance(value, types.ModuleType):
            yield value.__name__
        elif isinstance(value, type):
            yield _named(value)
            if self._code and not _is_library(value):
                yield from self._class(value)
        elif isinstance(value, staticmethod | classmethod):
            yield value.__func__
        elif isinstance(value, property):
            yield from (value.fget, value.fset)
        elif isinstance(value, functools.cached_property):
            yield value.func
        elif (inner := _inner_function(value)) is not None:
            yield inner
        elif isinstance(value, np.ndarray):
            if type(value) in (np.ndarray, np.memmap):  # of objects
                yield from (str(value.dtype), value.shape, list(value.flat))
            else:
                yield from (value.view(np.ndarray), vars(value))
        elif sp.issparse(value):
            # Not its state, in which scipy keeps what it has found out about the order of indices.
            rows = value.tocsr()
            yield from (value.shape, rows.data, rows.indices, rows.indptr)
        else:
            yield from self._object(value)

    def _object(self, value: Any) -> Iterator[Any]:
        """The state of an object, and its class."""
        kind = type(value)
        self.of_users = self.of_users or not (_is_own(kind) or _is_library(kind))
        reduce = copyreg.dispatch_table.get(type(value))
        reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
        if isinstance(reduced, str):
            yield reduced
            return
        make, arguments, state, *items = (*reduced, None, None, None)[:5]
        yield from (type(value), _named(make), arguments)
        if isinstance(state, dict):
            derived = functools.cached_property
            state = {
                name: own
                for name, own in state.items()
                if not isinstance(getattr(type(value), str(name), None), derived)
            }
        yield state
        for iterator in items:
            yield None if iterator is None else list(iterator)

    def _function(self, function: types.FunctionType) -> Iterator[Any]:
        yield _named(function)
        yield from (function.__defaults__, function.__kwdefaults__)
        for cell in function.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not filled yet
                yield None
        if _is_library(function) or _is_own(function):
            return
        yield function.__code__
        names = sorted(set(_names(function.__code__)))
        for name in names:
            if name in function.__globals__:
                yield name
                opaque = self.opaque
                yield self._read(function.__globals__[name], names)
                self.opaque = opaque  # what a module keeps need not be data

    def _read(self, value: Any, names: list[str]) -> Any:
        """What the code that uses these names may read of a global value."""
        if isinstance(value, types.ModuleType):
            if _is_library(value):
                return value.__name__
            inside = (name for name in names if name in vars(value))
            return [(name, self._read(vars(value)[name], [])) for name in inside]
        plain = (*_ATOMS, *_CODE, list, tuple, dict, set, frozenset, np.ndarray, np.generic)
        if isinstance(value, plain) or _inner_function(value) is not None:
            return value
        return _named(type(value))

    def _class(self, kind: type) -> Iterator[Any]:
        """The code of a class, and what it keeps for all objects."""
        for base in kind.__mro__:
            if _is_library(base):
                yield _named(base)
            elif _is_own(base):
                yield _own_code(base)
            else:
                for name, own in _attributes(base):
                    yield name
                    yield self._read(own, [])

    def _unreadable(self, value: Any) -> bytes:
        name = _named(type(value))
        self.opaque = self.opaque or name
        return _packed("opaque", name)


_CODE = (
    types.FunctionType,
    types.BuiltinFunctionType,
    type,
    staticmethod,
    classmethod,
    property,
    functools.cached_property,
)
_SLOTS = (types.GetSetDescriptorType, types.MemberDescriptorType)

_ATOMS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda value: b"",
    type(...): lambda value: b"",
    bool: lambda value: b"1" if value else b"0",
    int: lambda value: hex(value).encode(),
    float: lambda value: struct.pack("<d", value),
    complex: lambda value: struct.pack("<dd", value.real, value.imag),
    str: lambda value: value.encode("utf-8", "surrogatepass"),
    bytes: bytes,
    bytearray: bytes,
    range: lambda value: repr(value).encode(),
    slice: lambda value: repr(value).encode(),
}


def _packed(tag: str, content: bytes | str | int) -> bytes:
    """Tag and content with their lengths before them."""
    if not isinstance(content, bytes):
        content = str(content).encode()
    name = tag.encode()
    return struct.pack("<IQ", len(name), len(content)) + name + content


def _array_digest(array: np.ndarray) -> bytes:
    digest = hashlib.sha256(f"{array.dtype.descr} {array.shape} ".encode())
    if array.nbytes == 0:
        return digest.digest()
    if array.flags.c_contiguous:
        digest.update(array.reshape(-1).view(np.uint8).data)
    else:
        step = max(1, _SLAB * len(array) // array.nbytes)
        for first in range(0, len(array), step):
            slab = np.ascontiguousarray(array[first : first + step])
            digest.update(slab.reshape(-1).view(np.uint8).data)
    return digest.digest()


def _inner_function(value: Any) -> types.FunctionType | None:
    """The function that a library's compiled or wrapped one was made of.

    Looked up without `__getattr__`, which may answer to any name or raise anything.
    """
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    inner = attributes.get("py_func", attributes.get("__wrapped__"))
    if isinstance(inner, types.FunctionType) and _is_library(type(value)):
        return inner
    return None


def _named(value: Any) -> str:
    """Module and name, which have no address in them."""
    name = getattr(value, "__qualname__", None) or _named(type(value))
    return f"{getattr(value, '__module__', '')}.{name}"


def _names(code: types.CodeType) -> Iterator[str]:
    """What code and the functions inside it look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


@functools.cache
def _libraries() -> tuple[str, ...]:
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({str(Path(sysconfig.get_paths()[kind])) for kind in kinds})


def _attributes(kind: type) -> Iterator[tuple[str, Any]]:
    """The functions of a class, and what it keeps for all objects."""
    for name, value in sorted(vars(kind).items()):
        machinery = name.startswith("__") and not isinstance(value, _CODE)
        if not (machinery or name == "_abc_impl" or isinstance(value, _SLOTS)):
            yield name, value


def _is_own(value: Any) -> bool:
    """Whether it is a function or class of this package."""
    return (getattr(value, "__module__", None) or "").partition(".")[0] == "taut"


@functools.cache
def _own_code(kind: type) -> bytes:
    """The code of a class of this package, which does not change while a process runs."""
    digest = Digest()
    for name, value in _attributes(kind):
        function = getattr(value, "fget", None) or getattr(value, "__func__", value)
        digest.add((name, getattr(function, "__code__", None)))
    return digest.digest()


def _is_library(value: Any) -> bool:
    """Whether it is somebody else's code, which its name stands for."""
    name = str(getattr(value, "__module__", None) or getattr(value, "__name__", ""))
    if name == "__main__" or _is_own(value):
        return False
    code = getattr(value, "__code__", None)
    file = getattr(sys.modules.get(name), "__file__", "") if code is None else code.co_filename
    return is_library_file(file)


def is_library_file(file: str) -> bool:
    """Whether code comes from the interpreter or an installed package."""
    return not file or file.startswith(("<frozen", *_libraries())) or "-packages" in file
