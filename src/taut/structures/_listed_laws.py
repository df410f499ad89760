"""The laws of a list of labels: none beats the argmax, and what argmax returns is listed."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.compiled.jit import specialise
from taut.compiled.label_rows import Listed
from taut.errors import InvalidStructure
from taut.spaces.labels import Checked
from taut.structures._examples import PRECISION
from taut.structures.base import Blocks, CompiledStructure

#: What to do about a listed label that beats the argmax.
MISSED_OR_FOREIGN = (
    "argmax misses it, or the list names a label that the example does not have: correct the one "
    "or the other"
)


def make_values(operations):
    """Scores with losses of what need be no label of the block."""
    pull, parts, loss_of = operations.pull, operations.parts, operations.loss

    def values(space, data, i, w, work, labels, out):
        """out[q] = score + loss of each label of block i; NaN for what cannot be one."""
        pull(space, i, w, work)
        for q in range(labels.shape[0]):
            out[q] = parts(data, i, labels[q], Checked(work)) + loss_of(data, i, labels[q])

    return values


def in_words(value: float) -> str:
    """The score + loss of what is listed as a label, if it has any."""
    return f"{value:.9g}" if np.isfinite(value) else "potentials that the example does not have"


def labels_of(structure: CompiledStructure, blocks: Blocks) -> Listed:
    """What a structure lists for blocks, if it has the form of a list."""
    listed, name = structure.listed(blocks), type(structure).__name__
    if not isinstance(listed, Listed):
        raise InvalidStructure(
            f"{name}.listed returns {type(listed).__name__}: return "
            "taut.structures.Listed.of_blocks(labels), with an int32 array of labels, one per row, "
            "for each block"
        )
    if listed.step and len(listed.starts) != blocks.n_blocks + 1:
        raise InvalidStructure(
            f"{name}.listed has labels of {len(listed.starts) - 1} blocks, and there are "
            f"{blocks.n_blocks}: list those of each block"
        )
    return listed


def check_listed(example: Any, weights: np.ndarray) -> None:
    """Hold the argmax of an example of a compiled structure against all labels that are listed."""
    listed = example.all_labels()
    known = {label.tobytes() for label in listed} | {example.truth.tobytes()}
    for w in weights:
        found, value, _error = example.argmax(w, with_loss=True)
        if found.tobytes() not in known:
            example.fail(
                "listed" if example.lists_by_block else "all_labels",
                f"{example.name(found)} is missing, which argmax returns",
                "list all labels",
            )
        values = _values(example, w, listed)
        slack = PRECISION * (1.0 + abs(value) + np.abs(values))
        wrong = np.flatnonzero(~(values <= value + slack))
        if len(wrong):
            worst = wrong[np.nan_to_num(values[wrong], nan=np.inf).argmax()]
            example.fail(
                "argmax",
                f"with the truth it returns {example.name(found)}, whose score + loss is "
                f"{value:.9g}, while {example.name(listed[worst])}, which is listed, has "
                f"{in_words(values[worst])}",
                MISSED_OR_FOREIGN,
            )


def _values(example: Any, w: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Score + loss of labels that are said to be the example's; NaN where there is none."""
    out, blocks = np.empty(len(labels)), example.blocks
    # What a label reads that `pull` has not written is none of its block's potentials.
    work = np.full(blocks.work_size, np.nan)
    kernel = specialise(make_values, example.operations, example.structure.allocates, True)
    try:
        kernel(example.space, blocks.data, example.i, example.map.pad(w), work, labels, out)
    except IndexError:
        if len(labels) == 1:
            return np.array([np.nan])
        return np.concatenate([_values(example, w, row[None]) for row in labels])
    return out
