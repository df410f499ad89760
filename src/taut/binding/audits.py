"""Compiled structures of users, held against labels that they did not choose.

Bounds rest on an argmax that returns the best label. Some blocks are looked at whenever P is
evaluated, and more of them, with labels from elsewhere (`other_labels`), when a run ends.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from taut.binding.kernels import (
    make_argmaxes,
    make_audit,
    make_features,
    make_hinges,
)
from taut.binding.other_labels import (
    CLOSELY,
    CLOSELY_SHARE,
    MOST_DOUBTS,
    Doubt,
    Findings,
    favouring,
    worse,
)
from taut.binding.witness import audited
from taut.compiled.lanes import aligned_zeros
from taut.errors import InvalidStructure
from taut.spaces.labels import part
from taut.structures._listed_laws import MISSED_OR_FOREIGN, in_words, make_values

_AUDITED = 64  # blocks of which the argmax is looked at more closely, at least
_OTHERS = 1024  # blocks whose truths are tried there
_RIVALS = 32  # labels of each
_LISTS = 256  # times that all listed labels of some block are tried, at least
_MOST_LISTED = 1 << 15  # labels that are tried then, at most, unless a block has more
_MOVES = 10.0, 0.0, 1.0, 0.1  # lengths of random moves away from w, relative to its own
_TURNS = 16  # moves of w, each for some of the blocks
_EXCESS = 1e-6  # relative excess of a label over the argmax that is no rounding


class Auditor:
    """Tests of the argmax of data bound to a user's structure, on blocks drawn by `rng`."""

    def __init__(self, data: Any, rng: np.random.Generator) -> None:
        self.data = data
        self.rng = rng

    def audit(self, v: np.ndarray) -> None:
        """Refuse an argmax that is not what it must be on some blocks."""
        blocks, doubts = self.data.blocks, np.zeros(1, dtype=np.int64)
        self.data.kernel(make_audit)(
            self.data.space(v.dtype), blocks.data, blocks.offsets, blocks.truth, v,
            aligned_zeros(blocks.work_size, v.dtype),
            audited(self.data.n_blocks, self.rng, _AUDITED), np.array([1.0, 0.0, 0.5, 2.0, 100.0]),
            np.empty(blocks.label_size, dtype=np.int32), doubts,
        )  # fmt: skip
        if doubts[0]:
            self.refuse(int(doubts[0]) - 1)

    def refuse(self, i: int) -> NoReturn:
        """Refuse the argmax of block i."""
        raise InvalidStructure(
            f"{type(self.data.structure).__name__}.argmax of block {i} returns another value than "
            "score + loss_weight * loss of its label, or less than that of another one: return the "
            "highest, and its label; taut.check_structure tests it"
        )

    def closing(self, v: np.ndarray, weight: np.ndarray) -> Findings:
        """What is left in doubt when the argmax of some blocks at v is held against all labels."""
        short: dict[int, float] = {}
        blocks = self.data.blocks
        w = self.data.pad(self.data.prior.weights(self.data.unpad(v)))
        chosen = audited(self.data.n_blocks, self.rng, CLOSELY, CLOSELY_SHARE).tolist()
        labels, hinges = np.zeros_like(blocks.truth), np.empty(self.data.n_blocks)
        work = aligned_zeros(blocks.work_size, w.dtype)
        for i in chosen:
            self.data.own_kernel(make_hinges)(
                self.data.own_space, blocks.data, blocks.offsets, w, work, i, i + 1,
                blocks.truth, 1.0, labels, hinges,
            )  # fmt: skip
        doubt, open_doubts, others = None, 0, self._others(chosen, labels)
        for i in chosen:
            own = slice(*blocks.offsets[i : i + 2])
            found, truth = labels[own], blocks.truth[own]
            certain, rivals = self._rivals(i, found, others[len(found)])
            values = self._values(i, w, np.vstack([found, truth, rivals]))
            if not np.isfinite(values[:2]).all():
                continue
            slack = _EXCESS * (1.0 + np.abs(values[:2]).max() + np.abs(values))
            excess = np.where(values > values[0] + slack, values - values[0], 0.0)
            if excess[1] > 0.0 or (certain and excess.any()):
                self.refuse(i)
            short[i] = float((values if certain else values[:2]).max() - values[0])
            for place in np.argsort(-excess)[: np.count_nonzero(excess)].tolist():
                if open_doubts == MOST_DOUBTS:
                    break
                rival, above = rivals[place - 2], float(excess[place])
                if self._returns(i, rival, found):
                    self.refuse(i)
                doubt = worse(doubt, Doubt.of(self.data.structure, i, rival.tolist(), above))
                open_doubts += 1
        if self.data.lists_labels:
            self._hold_lists(w)
        return Findings.of(doubt, short, weight)

    def _hold_lists(self, w: np.ndarray) -> None:
        """Refuse lists with labels that the argmax does not know, at w and beside it.

        Dual weight drives a label to where it ties with the argmax: a small move of w tells them
        apart. Blocks take turns in the moves, so that many of them are looked at; few of them have
        several turns.
        """
        blocks, listed = self.data.blocks, self.data.listed
        if listed.rows.shape[1:] != (blocks.label_size,):
            return
        chosen = audited(self.data.n_blocks, self.rng, _LISTS, CLOSELY_SHARE)
        chosen = np.tile(chosen, -(-_LISTS // len(chosen)))
        sizes = (listed.starts[1:] - listed.starts[:-1])[listed.step * chosen]
        chosen = chosen[: max(1, np.searchsorted(np.cumsum(sizes), _MOST_LISTED))]
        labels, hinges = np.zeros_like(blocks.truth), np.empty(self.data.n_blocks)
        work = aligned_zeros(blocks.work_size, w.dtype)
        for turn, tried in enumerate(np.array_split(chosen, _TURNS)):
            point = self._beside(w, _MOVES[turn % len(_MOVES)])
            for i in tried.tolist():
                self.data.own_kernel(make_hinges)(
                    self.data.own_space, blocks.data, blocks.offsets, point, work, i, i + 1,
                    blocks.truth, 1.0, labels, hinges,
                )  # fmt: skip
                found, own = labels[slice(*blocks.offsets[i : i + 2])], listed.own(i)
                values = self._values(i, point, np.vstack([found, own]))
                slack = _EXCESS * (1.0 + abs(values[0]) + np.abs(values))
                wrong = np.flatnonzero((values > values[0] + slack) | (values == -np.inf))
                if len(wrong) and np.isfinite(values[0]):
                    raise InvalidStructure(
                        f"{type(self.data.structure).__name__}.argmax of block {i} returns "
                        f"{found.tolist()}, whose score + loss is {values[0]:.9g}, while "
                        f"{own[wrong[0] - 1].tolist()}, which is listed, has "
                        f"{in_words(values[wrong[0]])}; {MISSED_OR_FOREIGN}"
                    )

    def _beside(self, w: np.ndarray, length: float) -> np.ndarray:
        """Weights at a distance from w in a random direction, within their bounds."""
        v = self.data.unpad(w)
        step = self.rng.normal(size=len(v))
        v = v + length * (np.linalg.norm(v) / np.linalg.norm(step)) * step
        return self.data.pad(np.maximum(v, self.data.prior.lower))

    def _others(self, chosen: list[int], labels: np.ndarray) -> dict[int, np.ndarray]:
        """Truths of some blocks and labels of the chosen ones, each once, by their size."""
        offsets, sizes = self.data.blocks.offsets, np.diff(self.data.blocks.offsets)
        some, others = self.rng.permutation(self.data.n_blocks)[:_OTHERS], {}
        for size in np.unique(sizes[chosen]).tolist():
            rows = [
                flat[offsets[of][sizes[of] == size, None] + np.arange(size)]
                for flat, of in ((self.data.blocks.truth, some), (labels, np.array(chosen)))
            ]
            others[size] = np.unique(np.vstack(rows), axis=0)
        return others

    def _rivals(self, i: int, found: np.ndarray, others: np.ndarray) -> tuple[bool, np.ndarray]:
        """Labels that block i may have, and whether it surely has them."""
        structure, blocks = self.data.structure, self.data.blocks
        rivals = others[self.rng.permutation(len(others))[: _RIVALS // 2]]
        if blocks.n_labels:
            changed = np.repeat(found[None], _RIVALS // 2, axis=0)
            where = self.rng.integers(len(found), size=len(changed))
            changed[np.arange(len(changed)), where] = self.rng.integers(
                blocks.n_labels, size=len(changed)
            )
            rivals = np.vstack([rivals, changed])
        elif structure.lists_labels:
            listed = self.data.listed.own(i)
            if listed.shape[1:] == found.shape:
                some = self.rng.permutation(len(listed))[: _RIVALS // 2]
                rivals = np.vstack([rivals, listed[some]])
        if not structure.knows_labels(blocks):
            return False, rivals if self._stands_alone() else rivals[:0]
        return True, rivals[structure.valid_labels(blocks, np.full(len(rivals), i), rivals.ravel())]

    def _values(self, i: int, w: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Score + loss of what may be labels of block i; -inf where an oracle cannot say."""
        out = np.empty(len(labels))
        # What a label reads that `pull` has not written is none of its block's potentials.
        work = np.full(self.data.blocks.work_size, np.nan, dtype=w.dtype)
        try:
            self.data.own_kernel(make_values, bounded=True)(
                self.data.own_space, self.data.blocks.data, i, w, work, labels, out
            )
        except Exception:
            if len(labels) == 1:
                return np.array([-np.inf])
            return np.concatenate([self._values(i, w, row[None]) for row in labels])
        return np.where(np.isnan(out), -np.inf, out)

    def _returns(self, i: int, label: np.ndarray, found: np.ndarray) -> bool:
        """Whether the argmax returns a label for block i at weights that favour it."""
        blocks, answer = self.data.blocks, np.empty_like(found)
        phi = np.zeros((2, self.data.size))
        try:
            for row, part in zip((label, found), phi, strict=True):
                self.data.own_kernel(make_features, bounded=True)(
                    self.data.own_space, blocks.data, i, row[None], np.ones(1),
                    self.data.statistics(np.float64), part,
                )  # fmt: skip
        except Exception:
            return False
        loss = self._values(i, np.zeros(self.data.size), np.vstack([label, found])).max()
        if not np.isfinite(loss):
            return False
        w = self.data.unpad(favouring(phi[0], phi[1], float(loss)))
        w = self.data.pad(np.maximum(w, self.data.prior.lower))
        labels = np.zeros_like(blocks.truth)
        self.data.own_kernel(make_argmaxes)(
            self.data.own_space, blocks.data, blocks.offsets, w,
            aligned_zeros(blocks.work_size, w.dtype), i, i + 1, labels,
        )  # fmt: skip
        answer[:] = labels[slice(*blocks.offsets[i : i + 2])]
        return np.array_equal(answer, label)

    def _stands_alone(self) -> bool:
        """Whether bounds checks reach all that the oracles do: no function that they call has any.

        Labels of other blocks may lead out of arrays.
        """
        structure = self.data.structure
        called = (structure.oracles.parts, structure.oracles.loss, *(structure.own_map or ()))
        return not any(_functions_in(oracle) for oracle in called)


def _functions_in(function: Any) -> list[Any]:
    """Functions, compiled or not, that a function may call by a name of its own."""
    code, cells = function.__code__, function.__closure__ or ()
    known = [function.__globals__[name] for name in code.co_names if name in function.__globals__]
    enclosed = [cell.cell_contents for cell in cells]
    found = [item for item in known + enclosed if callable(item) and not isinstance(item, type)]
    return [item for item in found if item is not part]  # which looks at bounds by itself
