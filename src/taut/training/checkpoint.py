"""Checkpoints: what a training run needs to go on after a kill, in one file."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from taut.checks import as_path, check_number
from taut.console.notices import warn
from taut.errors import InvalidContent, InvalidData, InvalidFile, TautError
from taut.problem import OF_STRUCTURE, known_to_differ
from taut.storage import files
from taut.storage.digest import LEAVE_OUT, is_library_file

#: Digests of what a run consists of, by name.
Fingerprint = dict[str, str]

_OWN_PATHS = "give each run a path of its own; fits of one search or cross-validation need none"
_KIND = "checkpoint"
_AT_LEAST = 1.0  # seconds that savings may take together, however short the passes are


class Checkpoint:
    """Save a run to `path` every `seconds`, and go on from it when it is there.

    The file is replaced as a whole: a kill in the middle of writing leaves the one before. A file
    that belongs to other data or other parameters is refused, never overwritten. While a run uses
    it, a file `path.lock` in the same folder keeps other runs away; a leftover one is harmless.

    Parameters
    ----------
    path : str or path
        Of a file in a folder that exists.
    seconds : float, default=30.0
        Time between two savings; 0 saves after each pass. Beyond the first second, savings take at
        most half the time of a run: where passes are shorter than they are, some are left out.

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

    As a context it is this run's alone. `of_users` says whether objects of users' classes may be
    what differs.
    """

    def __init__(
        self,
        checkpoint: Checkpoint | str | os.PathLike,
        fingerprint: Fingerprint,
        of_users: bool = True,
    ) -> None:
        self.settings = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
        self.path = Path(self.settings.path)
        if not self.path.parent.is_dir():  # else it would show when the first saving is due
            raise InvalidData(
                f"checkpoint = {os.fspath(self.path)!r}: there is no folder {self.path.parent}; "
                "create it, or give another path"
            )
        self.fingerprint = fingerprint
        self.hint = LEAVE_OUT if of_users else ""
        self.began = self.written = time.monotonic()
        self.spent = 0.0  # seconds of saving
        self.failed = False
        self._held = ExitStack()
        self._stamp: tuple[int, int] | None = None  # of the file as this run knows it

    def __enter__(self) -> Self:
        remedy = f"wait for its end, or {_OWN_PATHS}"
        self._held.enter_context(files.locked(self.path, _KIND, remedy))
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def load(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """The saved run, or None when there is no file."""
        if not self.path.exists():
            return None
        stamp = self._stamp_now()
        arrays, meta = files.read(self.path, _KIND)
        found = meta.get("fingerprint")
        if found != self.fingerprint:
            found = found if isinstance(found, dict) else {}
            names = [name for name, own in self.fingerprint.items() if found.get(name) != own]
            differing = [
                OF_STRUCTURE if name == "structure" else name for name in known_to_differ(names)
            ]
            raise InvalidFile(
                f"{self.path} is the checkpoint of another run: it differs in "
                f"{' and '.join(differing)}. Give another path, or delete the file to start anew; "
                f"{_OWN_PATHS}{self.hint}"
            )
        self._stamp = stamp
        return arrays, meta

    def _stamp_now(self) -> tuple[int, int] | None:
        if not self.path.exists():
            return None
        status = os.stat(self.path)
        return status.st_mtime_ns, status.st_ino

    def resume(self, run: Resumable) -> None:
        """Let a run go on from the file, if there is one.

        Errors of data and of users' code, which come to light while bounds are proved again, are
        not blamed on the file.
        """
        saved = self.load()
        if saved is None:
            return
        try:
            run.resume(*saved)
        except files.NONSENSE as error:
            elsewhere = isinstance(error, TautError) or _passed_users_code(error)
            if elsewhere and not isinstance(error, InvalidContent):
                raise
            raise InvalidFile(
                f"{self.path} is not a checkpoint of this run, or has a form that this version of "
                f"taut does not read ({error}): give another path, or delete the file to start anew"
            ) from error

    def due(self) -> bool:
        """Whether it is time to save, and passes have taken as long as savings.

        A file has the whole history, so that savings take longer and longer: one after each of many
        short passes would let the time of a run grow with the square of their number.
        """
        now = time.monotonic()
        passes = now - self.began - self.spent
        return now - self.written >= self.settings.seconds and self.spent <= _AT_LEAST + passes

    def save(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        """Replace the file, unless it has become that of another run."""
        if self._stamp_now() not in (None, self._stamp):
            self.load()
        files.write(self.path, _KIND, arrays, meta | {"fingerprint": self.fingerprint})
        self.written, self._stamp = time.monotonic(), self._stamp_now()

    def remove(self) -> None:
        """Delete the file: what it has is of no use, and would do harm."""
        self.path.unlink(missing_ok=True)

    def save_if_possible(
        self, snapshot: Callable[[], tuple[dict[str, np.ndarray], dict[str, Any]]]
    ) -> None:
        """Replace the file; neither a full disk nor a foreign file is a reason to lose the run.

        The user is told of it once.
        """
        began = time.monotonic()
        try:
            self.save(*snapshot())
        except (OSError, InvalidFile) as error:
            if not self.failed:
                warn(
                    f"the checkpoint {self.path} could not be written ({error}): training goes on "
                    "and tries again from time to time; make room or give another path",
                    RuntimeWarning,
                )
            self.failed = True
        finally:
            self.spent += time.monotonic() - began


def _passed_users_code(error: Exception) -> bool:
    """Whether an exception came through a function that is neither taut's nor a library's."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package != "taut" and not is_library_file(frame.f_code.co_filename):
            return True
    return False
