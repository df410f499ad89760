"""What a file of labels is for, where nobody says."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.cli.tasks import TASKS, Asked, Task
from taut.cli.tasks.images import looks_like_boxes
from taut.cli.tasks.tables import read_rows
from taut.errors import InvalidData
from taut.readers.sources import FileSource

_MANY = 50  # different whole numbers from which they may be quantities


def guessed(path: str, asked: Asked) -> tuple[Task, Any]:
    """The task that data suggest, and the data.

    Parameters
    ----------
    path : str
    asked : Asked

    Returns
    -------
    task : Task
    data
        As the task reads them.

    Raises
    ------
    InvalidData
        It cannot be told.
    """
    if looks_like_boxes(path, asked):
        return TASKS["boxes"], TASKS["boxes"].read(path, asked)
    data = read_rows(path, asked)
    return TASKS[_task_of_table(data)], data


def _task_of_table(data: Any) -> str:
    if getattr(data, "queries", None) is not None:
        return "ranking"
    if getattr(data, "lengths", None) is not None:
        return "sequence"
    if isinstance(data, FileSource):
        return _task_of_classes(_classes_of_rows(data))
    if data.y is None:
        raise InvalidData(
            f"{data.name} was read without labels: --target names the column of a table that is "
            "to be predicted"
        )
    if isinstance(data.y, list) and isinstance(data.y[0], list):
        return "sequence"
    return _task_of_classes(np.unique(data.y))


def _classes_of_rows(source: FileSource) -> np.ndarray | None:
    if source.kind != "rows":
        raise InvalidData(
            f"{source.file.name} has more than single rows, and is read part by part: give --task "
            "ranking or sequence"
        )
    if next(source.chunks()).y is None:
        raise InvalidData(
            f"{source.file.name} was read without labels: --target names the column of a table "
            "that is to be predicted"
        )
    return source.classes


def _task_of_classes(labels: np.ndarray | None) -> str:
    if labels is None:
        return "regression"
    if labels.dtype.kind == "f" and (labels % 1.0 != 0.0).any():
        return "regression"
    if labels.dtype.kind in "iuf" and len(labels) > _MANY:
        raise InvalidData(
            f"the targets are {len(labels)} different whole numbers, which may be classes or "
            "quantities: give --task multiclass, regression or ranking"
        )
    return "binary" if len(labels) == 2 else "multiclass"
