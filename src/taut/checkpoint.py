"""Checkpoints: what a training run needs to go on after a kill, in one file."""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path
from typing import IO, Any, Protocol, Self

import numpy as np

from taut import files
from taut.checks import as_path, check_number
from taut.digest import LEAVE_OUT
from taut.errors import InvalidData, InvalidFile
from taut.notices import warn

if sys.platform != "win32":  # there files are compared before they are replaced, no more
    import fcntl

#: Digests of what a run consists of, by name.
Fingerprint = dict[str, str]

_OWN_PATHS = "give each run a path of its own; fits of one search or cross-validation need none"
_KIND = "checkpoint"


class Checkpoint:
    """Save a run to `path` every `seconds`, and go on from it when it is there.

    The file is replaced as a whole: a kill in the middle of writing leaves the one before. A file
    that belongs to other data or other parameters is refused, never overwritten. While a run uses
    it, a file `path.lock` beside it keeps other runs away; one that a kill leaves is of no harm.

    Parameters
    ----------
    path : str or path
        Of a file in a folder that exists.
    seconds : float, default=30.0
        Time between two savings; 0 saves after each pass.

    Examples
    --------
    >>> import os, tempfile
    >>> from taut import Checkpoint, MulticlassSVM
    >>> X, y = [[0.0], [1.0], [2.0]], [0, 1, 2]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     keep = Checkpoint(os.path.join(folder, "run.taut"), seconds=0.0)
    ...     model = MulticlassSVM(checkpoint=keep, random_state=0).fit(X, y)
    ...     again = MulticlassSVM(checkpoint=keep, random_state=0).fit(X, y)  # nothing left to do
    >>> bool((model.coef_ == again.coef_).all())
    True
    """

    def __init__(self, path: str | os.PathLike, seconds: float = 30.0) -> None:
        as_path("checkpoint", path)
        check_number("seconds", seconds)
        if seconds < 0.0:
            raise InvalidData(f"seconds = {seconds}: give 0 or more between two savings")
        self.path = path
        self.seconds = seconds

    def __repr__(self) -> str:
        return f"Checkpoint({os.fspath(self.path)!r}, seconds={self.seconds:g})"


class Resumable(Protocol):
    """What can go on from what it saved."""

    def resume(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        """Go on from there."""


class CheckpointFile:
    """One run's use of a checkpoint: the file, what it must belong to, and when it was written.

    As a context it is this run's alone.
    """

    def __init__(
        self, checkpoint: Checkpoint | str | os.PathLike, fingerprint: Fingerprint
    ) -> None:
        self.settings = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
        self.path = Path(self.settings.path)
        if not self.path.parent.is_dir():  # else it would show when the first saving is due
            raise InvalidData(
                f"checkpoint = {os.fspath(self.path)!r}: there is no folder {self.path.parent}; "
                "create it, or give another path"
            )
        self.fingerprint = fingerprint
        self.written = time.monotonic()
        self.failed = False
        self._lock: IO[str] | None = None
        self._stamp: tuple[int, int] | None = None  # of the file as this run knows it

    def __enter__(self) -> Self:
        self._lock = _locked(self.path)
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            # Before it is closed: whoever opens it now finds that it is gone, and makes another.
            Path(self._lock.name).unlink(missing_ok=True)
            _unlock(self._lock)
            self._lock = None

    def load(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """The saved run, or None when there is no file."""
        if not self.path.exists():
            return None
        stamp = self._stamp_now()
        arrays, meta = files.read(self.path, _KIND)
        found = meta.get("fingerprint")
        if found != self.fingerprint:
            found = found if isinstance(found, dict) else {}
            differing = [name for name, own in self.fingerprint.items() if found.get(name) != own]
            raise InvalidFile(
                f"{self.path} is the checkpoint of another run: it differs in "
                f"{' and '.join(differing)}. Give another path, or delete the file to start anew; "
                f"{_OWN_PATHS}. {LEAVE_OUT}"
            )
        self._stamp = stamp
        return arrays, meta

    def _stamp_now(self) -> tuple[int, int] | None:
        if not self.path.exists():
            return None
        status = os.stat(self.path)
        return status.st_mtime_ns, status.st_ino

    def resume(self, run: Resumable) -> None:
        """Let a run go on from the file, if there is one."""
        saved = self.load()
        if saved is None:
            return
        try:
            run.resume(*saved)
        except (AttributeError, InvalidData, KeyError, TypeError) as error:
            raise InvalidFile(
                f"{self.path} is no checkpoint of such a run, or one in a form that this version "
                f"of taut does not read ({error}): give another path, or delete the file to start "
                "anew"
            ) from error

    def due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self.written >= self.settings.seconds

    def save(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        """Replace the file, unless it has become that of another run."""
        if self._stamp_now() not in (None, self._stamp):
            self.load()
        files.write(self.path, _KIND, arrays, meta | {"fingerprint": self.fingerprint})
        self.written, self._stamp = time.monotonic(), self._stamp_now()

    def save_if_possible(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        """Replace the file; neither a full disk nor a foreign file is a reason to lose the run.

        The user is told of it once.
        """
        try:
            self.save(arrays, meta)
        except (OSError, InvalidFile) as error:
            if not self.failed:
                warn(
                    f"the checkpoint {self.path} could not be written ({error}): training goes on "
                    "and tries again from time to time; make room or give another path",
                    RuntimeWarning,
                )
            self.failed = True


def _locked(path: Path) -> IO[str] | None:
    """The open lock of a checkpoint; None where the system or the folder has no locks.

    The system lets go of it when the process ends, however it ends.
    """
    if sys.platform == "win32":
        return None
    name = path.with_name(path.name + ".lock")
    while True:
        try:
            lock = open(name, "a+")  # noqa: SIM115
        except OSError:
            return None  # the first saving will say what is wrong with the folder
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(lock, name):
                lock.seek(0)
                lock.truncate()
                lock.write(f"{os.getpid()}\n")
                lock.flush()
                return lock
        except OSError as error:
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            lock.close()
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                return None
            raise InvalidFile(
                f"{path} is the checkpoint of a run that is under way (process {owner}): "
                f"wait for its end, or {_OWN_PATHS}"
            ) from None
        lock.close()  # another run has ended in between, and taken the file with it


def _unlock(lock: IO[str]) -> None:
    if sys.platform != "win32":
        # Closing is not enough where a process was forked in between, and has it open too.
        fcntl.flock(lock, fcntl.LOCK_UN)
    lock.close()


def _is_at(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
