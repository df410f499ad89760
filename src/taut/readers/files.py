"""Files as users name them: their bytes, decompressed, and where faults are."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import os
import stat
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from taut.checks import as_path
from taut.errors import InvalidFile, TautError
from taut.storage.files import NONSENSE

STANDARD_INPUT = "-"

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
_LONGEST_LINE = 2**27  # bytes
_SLAB = 1 << 13  # compressed bytes to take at once: they may become many
_HEAD = 4096  # bytes that tell a format


class DataFile:
    r"""A file of data or a folder, or standard input for the path "-".

    Files that gzip, bzip2, xz or zstd has compressed are known by their first bytes, whatever their
    names.

    Parameters
    ----------
    path : path-like

    Attributes
    ----------
    name : str
        What errors call it.
    path : Path or None
        None for standard input.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "notes.txt.gz"
    >>> _ = path.write_bytes(gzip.compress(b"first\nsecond\n"))
    >>> file = DataFile(path)
    >>> list(file.lines())
    [(1, 'first'), (2, 'second')]
    >>> file.suffix
    '.txt'
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        given = as_path("path", path)
        self.path = None if os.fspath(given) == STANDARD_INPUT else given
        self.name = "standard input" if self.path is None else given.name or str(given)
        self._kept: bytes | None = None
        self._used = False
        if self.path is not None:
            self._mode = os.stat(self.path).st_mode

    def __repr__(self) -> str:
        return f"DataFile({STANDARD_INPUT if self.path is None else str(self.path)!r})"

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.path is not None and stat.S_ISDIR(self._mode)

    @property
    def repeatable(self) -> bool:
        """Whether it can be read more than once: it is no pipe, or was kept in memory."""
        return self._kept is not None or (self.path is not None and stat.S_ISREG(self._mode))

    @property
    def suffix(self) -> str:
        """That of its name, in lower case, without that of the compression."""
        suffixes = [] if self.path is None else self.path.suffixes
        if suffixes and suffixes[-1].lower() in _COMPRESSED:
            suffixes.pop()
        return suffixes[-1].lower() if suffixes else ""

    def fault(
        self,
        message: str,
        line: int | None = None,
        column: int | None = None,
        *,
        row: int | None = None,
    ) -> InvalidFile:
        """What is wrong with the file, and where: lines, columns and rows are counted from 1."""
        place = self.name
        if row is not None:
            place += f", row {row}"
        if line is not None:
            place += f", line {line}"
        if column is not None:
            place += f", column {column}"
        return InvalidFile(f"{place}: {message}")

    def keep(self) -> None:
        """Let what can be read only once be read again: from memory."""
        if not self.repeatable:
            with self.open() as file:
                self._kept = file.read()

    def head(self) -> bytes:
        """The first bytes, decompressed; what can be read only once is kept in memory."""
        self.keep()
        with self.open() as file:
            return file.read(_HEAD)

    def open(self) -> BinaryIO:
        """Its bytes, decompressed, from the beginning; damage is raised as `InvalidFile`."""
        if self._kept is not None:
            return io.BytesIO(self._kept)
        if self.is_folder:
            raise self.fault("is a folder; give the path of a file")
        if not self.repeatable:
            if self._used:
                raise self.fault(
                    "can be read only once, and has been; save it to a file and read that"
                )
            self._used = True
        raw: Any = sys.stdin.buffer if self.path is None else open(self.path, "rb")  # noqa: SIM115
        try:
            decompressed = self._decompressed(raw)
        except BaseException:
            raw.close()
            raise
        return cast(BinaryIO, io.BufferedReader(_Reading(self, raw, decompressed), 1 << 17))

    def open_seekable(self) -> BinaryIO:
        """The same, where any place can be gone to; what is compressed is kept in memory."""
        if self._kept is None and self.repeatable and self.path is not None:
            raw = open(self.path, "rb")  # noqa: SIM115
            if not raw.peek(6).startswith(tuple(_OPENERS)):
                return raw
            raw.close()
        with self.open() as file:
            return io.BytesIO(file.read())

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise what packages raise while they read a damaged file as `InvalidFile`."""
        try:
            yield
        except TautError:
            raise
        except (
            *NONSENSE,
            EOFError,
            MemoryError,
            NotImplementedError,
            OSError,
            RuntimeError,
            tokenize.TokenError,  # numpy reads its headers as source code
            zipfile.BadZipFile,
            zlib.error,
        ) as error:
            raise self.fault(f"cannot be read ({error}); copy or save it again") from error

    def _decompressed(self, raw: Any) -> Any:
        head = raw.peek(6)[:6]
        for magic, opened in _OPENERS.items():
            if head.startswith(magic):
                return opened(self, raw)
        return raw

    def blocks(self, size: int) -> Iterator[tuple[bytearray, int]]:
        """Whole lines, about `size` bytes at a time: a buffer that is used again, and its end.

        The last line ends in a newline even where that of the file does not.
        """
        buffer = bytearray(max(size, 1 << 12))
        filled = 0
        with self.open() as file:
            while True:
                with memoryview(buffer) as view:
                    n = file.readinto(view[filled:-1])  # type: ignore[attr-defined]
                filled += n
                if n == 0:
                    break
                end = buffer.rfind(b"\n", filled - n, filled) + 1
                if end:
                    yield buffer, end
                    rest = filled - end
                    buffer[:rest] = buffer[end:filled]
                    filled = rest
                elif filled == len(buffer) - 1:
                    if len(buffer) > _LONGEST_LINE:
                        raise self.fault(
                            f"has a line of more than {_LONGEST_LINE} bytes; it is probably of "
                            "another format"
                        )
                    # Not `extend`, since what has read the block before may still look at it.
                    buffer = buffer + bytearray(len(buffer))
        if filled:
            buffer[filled] = 10
            yield buffer, filled + 1

    def lines(self, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
        """Numbers and text of lines, counted from 1, without their ends.

        The encoding is one whose line ends are those of ASCII.
        """
        number = 0
        for buffer, end in self.blocks(1 << 20):
            for line in bytes(buffer[: end - 1]).split(b"\n"):
                number += 1
                try:
                    text = line.removesuffix(b"\r").decode(encoding)
                except UnicodeDecodeError as error:
                    raise self.fault(
                        f"byte {line[error.start]:#04x} is not {encoding.upper()}; convert the "
                        "file to UTF-8, or name its encoding where the format has that option",
                        number, error.start + 1,
                    ) from error  # fmt: skip
                yield number, text.removeprefix("\ufeff") if number == 1 else text


class _Reading(io.RawIOBase):
    """Bytes of a file, whose damage is raised as what the library raises."""

    def __init__(self, file: DataFile, raw: Any, decompressed: Any) -> None:
        self._file, self._raw, self._decompressed = file, raw, decompressed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            return self._decompressed.readinto(buffer)
        except (EOFError, OSError, ValueError, RuntimeError, zlib.error, lzma.LZMAError) as error:
            raise self._file.fault(
                f"cannot be read ({error}); copy or compress it again"
            ) from error
        except Exception as error:  # those of the packages that know zstd
            if "zst" not in type(error).__module__.lower():
                raise
            raise self._file.fault(
                f"cannot be read ({error}); copy or compress it again"
            ) from error

    def close(self) -> None:
        if not self.closed:
            if self._decompressed is not self._raw:
                self._decompressed.close()
            if self._raw is not sys.stdin.buffer:
                self._raw.close()
        super().close()


class _Frames(io.RawIOBase):
    """What the package zstandard decompresses; its own readers pass over an end that is missing."""

    def __init__(self, zstandard: Any, raw: Any) -> None:
        self._new = zstandard.ZstdDecompressor().decompressobj
        self._raw, self._frame = raw, self._new()
        self._waiting = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._waiting:
            if self._frame.eof:
                given = self._frame.unused_data or self._raw.read(_SLAB)
                if not given:
                    return 0
                self._frame = self._new()
            else:
                given = self._raw.read(_SLAB)
                if not given:
                    raise EOFError("it ends before its last frame does")
            self._waiting = memoryview(self._frame.decompress(given))
        n = min(len(buffer), len(self._waiting))
        buffer[:n], self._waiting = self._waiting[:n], self._waiting[n:]
        return n


def _open_zstd(file: DataFile, raw: Any) -> Any:
    """By Python itself from 3.14 on, or by whichever package is installed."""
    openers: dict[str, Callable[[Any], Any]] = {
        "compression.zstd": lambda zstd: zstd.ZstdFile(raw),
        "zstandard": lambda zstd: _Frames(zstd, raw),
        "pyzstd": lambda zstd: zstd.ZstdFile(raw),
    }
    for module, opened in openers.items():
        try:
            return opened(importlib.import_module(module))
        except ModuleNotFoundError:
            continue
    raise file.fault(
        "is compressed by zstd, which this Python cannot read: pip install zstandard, or "
        "decompress it first"
    )


_OPENERS: dict[bytes, Callable[[DataFile, Any], Any]] = {
    b"\x1f\x8b": lambda file, raw: gzip.GzipFile(fileobj=raw),
    b"BZh": lambda file, raw: bz2.BZ2File(raw),
    b"\xfd7zXZ\x00": lambda file, raw: lzma.LZMAFile(raw),  # noqa: SIM115
    b"\x28\xb5\x2f\xfd": _open_zstd,
}
