"""Checkpoints: what a training run needs to go on after a kill, in one file."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from taut import files
from taut.checks import as_path, check_number
from taut.errors import InvalidData, InvalidFile
from taut.notices import warn

_KIND = "checkpoint"


class Checkpoint:
    """Save a run to `path` every `seconds`, and go on from it when it is there.

    The file is replaced as a whole: a kill in the middle of writing leaves the one before. A file
    that belongs to other data or other parameters is refused, never overwritten.

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
    """One run's use of a checkpoint: the file, what it must belong to, and when it was written."""

    def __init__(self, checkpoint: Checkpoint | str | os.PathLike, fingerprint: str) -> None:
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

    def load(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """The saved run, or None when there is no file."""
        if not self.path.exists():
            return None
        arrays, meta = files.read(self.path, _KIND)
        if meta.get("fingerprint") != self.fingerprint:
            raise InvalidFile(
                f"{self.path} is the checkpoint of another run: the data, the weights or the "
                "solver differ. Give another path, or delete the file to start anew."
            )
        return arrays, meta

    def resume(self, run: Resumable) -> None:
        """Let a run go on from the file, if there is one."""
        saved = self.load()
        if saved is None:
            return
        try:
            run.resume(*saved)
        except (KeyError, TypeError) as error:
            raise InvalidFile(
                f"{self.path} is a checkpoint in a form that this version of taut does not read "
                f"({error!r}): give another path, or delete the file to start anew"
            ) from error

    def due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self.written >= self.settings.seconds

    def save(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        """Replace the file."""
        files.write(self.path, _KIND, arrays, meta | {"fingerprint": self.fingerprint})
        self.written = time.monotonic()

    def save_if_possible(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        """Replace the file; a full disk is no reason to lose the run, and is told of once."""
        try:
            self.save(arrays, meta)
        except OSError as error:
            if not self.failed:
                warn(
                    f"the checkpoint {self.path} could not be written ({error}): training goes on "
                    "and tries again from time to time; make room or give another path",
                    RuntimeWarning,
                )
            self.failed = True
