"""Labels of plain structures, told apart by their planes: labels may be any Python objects."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from taut.binding import PythonData
from taut.errors import InvalidStructure
from taut.structures.abilities import bounded_argmax, is_exact


def distinct(
    data: PythonData, i: int, labels: Iterable[Any]
) -> Iterator[tuple[Any, np.ndarray, float]]:
    """Labels with psi and loss, without those that have been seen; the truth's only if first."""
    seen = set()
    again, labels = itertools.tee(labels)
    for label, (psi, loss) in zip(again, data.planes(i, labels), strict=True):
        key = (loss, (psi + 0.0).tobytes())  # -0.0 is 0.0
        if key not in seen:
            yield label, psi, loss
        seen |= {key, (0.0, np.zeros_like(psi).tobytes())}


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
    labels = [label for label, _psi, _loss in distinct(data, i, [best, *labels])]
    return labels[:count], error
