"""What the command knows of each kind of labels: a new one is a class and an entry in `TASKS`."""

from __future__ import annotations

from typing import Any

from taut.cli.tasks.base import Asked, Task
from taut.cli.tasks.graphs import Graphs
from taut.cli.tasks.images import BoxesInImages, PartsInImages
from taut.cli.tasks.tables import (
    Binary,
    Multiclass,
    Online,
    Ranking,
    Regression,
    Sequences,
)
from taut.errors import InvalidData

#: Tasks by name.
TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Binary(), Multiclass(), Regression(), Ranking(), Sequences(), Graphs(), BoxesInImages(),
        PartsInImages(), Online(),
    )
}  # fmt: skip

__all__ = ["TASKS", "Asked", "Task", "task_of"]


def task_of(model: Any) -> Task:
    """The task that a fitted model is for."""
    name = type(model).__name__
    for task in TASKS.values():
        if name in task.estimators:
            return task
    raise InvalidData(
        f"the command line has no task for models of class {name}: load it in Python with taut.load"
    )
