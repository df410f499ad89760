"""What a file of labels is for, where nobody says."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.cli.tasks import TASKS, Asked, Rows, Task
from taut.cli.tasks.images import looks_like_boxes
from taut.errors import InvalidData

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
    data = Rows().read(path, asked)
    return TASKS[_task_of_table(data)], data


def _task_of_table(data: Any) -> str:
    if getattr(data, "queries", None) is not None:
        return "ranking"
    if getattr(data, "lengths", None) is not None:
        return "sequence"
    if isinstance(data.y, list) and isinstance(data.y[0], list):
        return "sequence"
    labels = data.classes if hasattr(data, "classes") else np.unique(data.y)
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
