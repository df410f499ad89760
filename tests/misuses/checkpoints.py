"""Fits that are cut short and resumed from a checkpoint after one thing has changed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import numpy as np

import taut
from misuses.changes import HARMLESS, changed
from misuses.judge import Verdict
from misuses.tasks import Control, Task, chosen, draw


class Killed(Exception):
    """What a callback raises in the place of a kill."""


def run(rng: np.random.Generator, few: bool, control: Control) -> Verdict:
    """Fit in part, change, fit again with the same file."""
    task = draw(rng, few)
    ends = ["max_iter", "callback", "interrupt", "raises", "whole"] + ["exits"] * (not few)
    way = chosen(rng, ends)
    with tempfile.TemporaryDirectory() as folder:
        keep = taut.Checkpoint(Path(folder) / "run.taut", seconds=0.0)
        control.note = f"{way}: {task}"
        _first(task, way, keep, int(rng.integers(1, 4)))
        if rng.random() < 0.1:
            return _damaged(task, keep, rng, control)
        before = task.copy()
        name, after = changed(task, rng, few)
        # Another C is another problem to a checkpoint.
        control.note = f"{name} after {way}: {before}"
        control.expected = name in HARMLESS and name != "factor"
        model = after.model(checkpoint=keep)
        after.fit(model)
        return after.verdict(model, control.note)


def _first(task: Task, way: str, keep: taut.Checkpoint, passes: int) -> None:
    """A fit that does not come to its end, but leaves its file."""
    if way == "max_iter":
        task.fit(task.model(checkpoint=keep, max_iter=passes))
    elif way == "whole":
        task.fit(task.model(checkpoint=keep))
    elif way == "callback":
        task.fit(task.model(checkpoint=keep, callbacks=[lambda record: record.iteration >= passes]))
    elif way in ("raises", "interrupt"):

        def stop(record):
            if record.iteration > passes:
                raise Killed if way == "raises" else KeyboardInterrupt

        with contextlib.suppress(Killed):
            task.fit(task.model(checkpoint=keep, callbacks=[stop]))
    else:
        child = os.fork()
        if child == 0:
            try:
                leave = [lambda record: record.iteration > passes and os._exit(0)]
                task.fit(task.model(checkpoint=keep, callbacks=leave))
            finally:
                os._exit(0)
        os.waitpid(child, 0)


def _damaged(
    task: Task, keep: taut.Checkpoint, rng: np.random.Generator, control: Control
) -> Verdict:
    """A file of which a byte is another, or the end is missing."""
    path = Path(keep.path)
    content = bytearray(path.read_bytes())
    at = int(rng.integers(len(content)))
    how = chosen(rng, ["flipped", "cut"])
    if how == "flipped":
        content[at] ^= 1 << int(rng.integers(8))
    else:
        del content[at:]
    path.write_bytes(content)
    control.note, control.expected = f"{how} file: {task}", False
    model = task.model(checkpoint=keep)
    task.fit(model)
    return task.verdict(model, control.note)
