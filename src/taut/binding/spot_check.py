"""The laws of a user's structure, tested on a few blocks before training rests on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from taut.binding.compiled import CompiledData
from taut.binding.plain import PythonData
from taut.structures._compiled_examples import CompiledExample
from taut.structures._examples import Example
from taut.structures._plain_examples import PlainExample
from taut.structures.abilities import ability, is_users
from taut.structures.check import check_laws

_EXAMPLES = 2
_COMPILED_EXAMPLES = 12  # which take less time
_SEARCHES = 3  # random weights that candidates are found under, where nobody lists them
_LISTED = 32  # candidates, where somebody does
_MOST_LISTED = 256  # labels that an argmax is looked for among
_WEIGHTS = 2


def spot_check(data: CompiledData | PythonData) -> None:
    """Raise the first law that a user's structure breaks on a few blocks; cheap, hence weak.

    `taut.check_structure` looks at more blocks, weights and labels. The library's own structures
    are tested elsewhere.
    """
    if is_users(data.structure):
        rng = np.random.default_rng(0)
        check_laws(_examples(data, rng), _WEIGHTS, rng)


def _examples(data: CompiledData | PythonData, rng: np.random.Generator) -> Iterator[Example]:
    most = _COMPILED_EXAMPLES if isinstance(data, CompiledData) else _EXAMPLES
    blocks = np.linspace(0, data.n_blocks - 1, min(most, data.n_blocks)).astype(int)
    for i in blocks.tolist():
        example: Example
        if isinstance(data, CompiledData):
            listed = data.listed if data.structure.lists_labels else None
            example = CompiledExample(data.structure, i, data.blocks, None, listed=listed)
        else:
            some = _some(data.structure, rng)
            x, truth = data.X[i], data.truth[i]
            example = PlainExample(data.structure, i, x, truth, some, watched=False)
        example.searches, example.most_listed = _SEARCHES, _MOST_LISTED
        example.lower = data.prior.lower
        yield example
        if isinstance(data, PythonData):
            for label in example.labels:
                data.witness.know(label)


def _some(structure: Any, rng: np.random.Generator) -> Callable[[Any], list[Any]] | None:
    """Some of the labels that a structure lists."""
    if ability(structure, "labels") is None:
        return None

    def candidates(x: Any) -> list[Any]:
        listed = list(structure.labels(x))
        chosen = rng.permutation(len(listed))[:_LISTED]
        return [listed[k] for k in chosen.tolist()]

    return candidates
