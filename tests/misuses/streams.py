"""Streams whose passes differ."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from misuses.judge import Verdict
from misuses.tasks import Control, Task, chosen, draw
from taut.data import Stream


def reshuffled(task, rng):
    return task.take(rng.permutation(task.n_blocks))


def noisy(task, rng):
    other = task.copy()
    for x in other.X:
        x += 0.2 * rng.normal(size=x.shape)
    return other


def one_value(task, rng):
    other = task.copy()
    other.X[-1][..., 0] += 0.5
    return other


def other_weights(task, rng):
    return task.copy(sample_weight=rng.uniform(0.1, 3.0, size=task.n_blocks))


def other_labels(task, rng):
    other = task.copy()
    a, b = (0, task.n_blocks - 1)
    other.y[a], other.y[b] = task.y[b], task.y[a]
    if task.kind == "chain" and len(task.y[a]) != len(task.y[b]):
        return reshuffled(task, rng)
    return other


def missing(task, rng):
    return task.copy(cuts=task.cuts[:-1]).take(np.arange(task.cuts[-1]))


def one_more(task, rng):
    extra = np.append(np.arange(task.n_blocks), 0)
    other = task.take(extra)
    other.cuts = (*task.cuts, task.n_blocks)
    return other


def exchanged(task, rng):
    """One part instead of another of the same length."""
    half = task.n_blocks // 2
    other = task.take(np.tile(np.arange(half), 2))
    other.cuts = (half,)
    return other


def cut_elsewhere(task, rng):
    return task.copy(cuts=(int(rng.integers(1, task.n_blocks)),))


def other_margin(task, rng):
    if task.kind != "binary":
        return other_weights(task, rng)
    return task.copy(margin=rng.uniform(0.0, 2.0, size=task.n_blocks))


def other_dtype(task, rng):
    """Later passes give single precision: nearly the same numbers."""
    if task.kind in ("chain", "table"):
        return task.copy(X=[x.astype(np.float32).astype(float) for x in task.X])
    return task.copy(X=task.X.astype(np.float32))


WAYS = {
    function.__name__: function
    for function in (
        reshuffled, noisy, one_value, other_weights, other_labels, missing, one_more, exchanged,
        cut_elsewhere, other_margin, other_dtype,
    )
}  # fmt: skip


def run(rng: np.random.Generator, few: bool, control: Control) -> Verdict:
    """Fit a stream that changes from some reading on, or between two fits of the same object."""
    task = draw(rng, few, "stream")
    control.note = f"{task}"
    others = ["same", "once", "in_place", "list_in_place", "buffer", "files"]
    way = chosen(rng, [*others, *WAYS, *WAYS])
    model = task.model()
    classes = np.arange(task.n_labels) if task.kind != "regression" else None
    if task.kind == "table" or rng.random() < 0.3:
        classes = None
    options: dict[str, Any] = {"kind": task.parts_of}
    if classes is not None:
        options["classes"] = classes
    if way == "same":
        model.fit(Stream(lambda: iter(task.parts()), **options))
        return task.verdict(model, f"same: {task}")
    control.expected = False
    control.note = f"{way}: {task}"
    if way == "buffer":
        control.expected = task.kind != "table"
        model.fit(Stream(lambda: _in_one_place(task), **options))
        return task.verdict(model, control.note)
    if way == "files" and task.kind != "table":
        return _files(task, model, rng, control)
    if way == "once":
        task.solver = "online_cache"
        model = task.model()
        if task.kind not in ("regression", "table"):
            options["classes"] = np.arange(task.n_labels)
        control.expected = True
        model.fit(Stream(iter(task.parts()), **options))
        assert not model.certificate_.exact
        return task.verdict(model, control.note)
    if way in ("in_place", "list_in_place", "files"):
        return _in_place(task, model, way, options, rng, control)
    other = WAYS[way](task, rng)
    every = rng.random() < 0.3  # whether passes alternate
    change = int(rng.integers(1, 6))
    count = 0

    def parts():
        nonlocal count
        count += 1
        changed = count > change and (not every or count % 2 == 0)
        return iter((other if changed else task).parts())

    control.note = f"{way} from reading {change + 1}{' on and off' if every else ''}: {task}"
    model.fit(Stream(parts, **options))
    return task.verdict(model, f"{control.note} ({count} readings)", other)


def _in_place(
    task: Task, model: Any, way: str, options: dict, rng: np.random.Generator, control: Control
) -> Verdict:
    """A callback changes the arrays that the stream gives, during the fit."""
    before, parts = task.copy(), task.parts()
    passes = int(rng.integers(1, 4))

    def meddle(record):
        if record.iteration == passes:
            x = task.X[int(rng.integers(task.n_blocks))]
            x[...] = x + 0.5

    model.set_params(callbacks=[meddle])
    source = (
        Stream(parts, **options)
        if way == "list_in_place"
        else Stream(lambda: iter(task.parts()), **options)
    )
    model.fit(source)
    return task.verdict(model, control.note, before)


def _in_one_place(task: Task) -> Iterator[tuple]:
    """Parts that come one after the other in the same memory."""
    room: list[np.ndarray] = []
    for X, *others in task.parts():
        if isinstance(X, list):
            # Examples of one shape share their memory with those of the part before.
            room += [np.empty_like(x) for x in X[len(room) :]]
            for k, x in enumerate(X):
                if room[k].shape != x.shape:
                    room[k] = np.empty_like(x)
                room[k][...] = x
            yield room[: len(X)], *others
        else:
            if not room:
                room.append(np.empty((task.n_blocks, X.shape[1])))
            room[0][: len(X)] = X
            yield room[0][: len(X)], *others


def _files(task: Task, model: Any, rng: np.random.Generator, control: Control) -> Verdict:
    """Shards that another program writes to while they are read."""
    before, at = task.copy(), int(rng.integers(0, 3))
    with tempfile.TemporaryDirectory() as folder:
        shards = task.shards(Path(folder) / "shards")

        def write() -> None:
            rows = np.load(Path(folder) / "shards" / "X-00000.npy", mmap_mode="r+")
            rows[-1, 0] += 0.5
            rows.flush()
            last = task.X[-1] if task.kind != "chain" else task.X[-1][-1]
            last[0] += 0.5

        if at == 0:
            write()
        model.set_params(callbacks=[lambda record: write() if record.iteration == at else None])
        model.fit(shards)
        return task.verdict(model, control.note, before)
