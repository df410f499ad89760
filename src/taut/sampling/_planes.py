"""Labels that methods of plain structures choose."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.binding import PythonData
from taut.errors import InvalidStructure
from taut.structures.abilities import bounded_argmax, is_exact


def led_by_argmax(
    data: PythonData, i: int, w: np.ndarray, labels: list[Any], count: int, method: str
) -> tuple[list[Any], float]:
    """Up to `count` of the labels that a method returned, and the error of the first.

    Where the argmax has an error, it alone knows it, and its label comes first.
    """
    if len(labels) == 0:
        raise InvalidStructure(
            f"{type(data.structure).__name__}: {method} returns no labels of example {i}: return "
            "at least the label of highest score + loss"
        )
    if is_exact(data.structure):
        return labels[:count], 0.0
    best, error = bounded_argmax(data.structure, data.X[i], w, data.truth[i])
    labels = [label for label, _psi, _loss in data.distinct(i, [best, *labels])]
    return labels[:count], error
