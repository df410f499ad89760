"""Slack rescaling around any structure that can enumerate its labels.

Margin rescaling asks for a margin that grows with the loss, max_y [loss(y) - <w, psi(y)>]; slack
rescaling asks for a margin of 1 and lets the loss multiply what is missing of it,

    max_y loss(y) (1 - <w, psi(y)>).

It is the ordinary problem with psi'(y) = loss(y) psi(y) and the same losses, so that solvers and
certificates are the same. Its argmax does not decompose as that of the structure does, hence the
enumeration.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from taut.compiled.jit import helper
from taut.compiled.label_rows import Listed, listed_labels
from taut.errors import InvalidStructure
from taut.spaces.labels import Gather, Times
from taut.spaces.linear import OwnMap
from taut.structures._listed_laws import labels_of
from taut.structures.abilities import ability, loss_of
from taut.structures.base import Blocks, CompiledStructure, Oracles, Structure


class SlackRescaled:
    """A structure with its slacks rescaled; predictions stay those of the structure itself.

    Parameters
    ----------
    structure : Structure or CompiledStructure
        A compiled one has `all_labels`, a plain one a method `labels(x)` that returns all labels
        of an example.

    Raises
    ------
    InvalidStructure
        The structure cannot enumerate its labels.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.structures import Multiclass, SlackRescaled
    >>> cost = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [4.0, 1.0, 0.0]])
    >>> X, y = 2.0 * np.eye(3) - 1.0, np.array([0, 1, 2])
    >>> classes = Multiclass(3, cost, bias=1.0)
    >>> for structure in (classes, SlackRescaled(classes)):
    ...     solve(Problem(structure, X, y, C=9.0), tol=1e-6, random_state=0).w[:3].round(2)
    array([ 1.08, -0.17, -0.92])
    array([ 0.33, -0.17, -0.17])
    """

    structure: Any

    def __new__(cls, structure: Any = None) -> Any:
        """The form that the structure has; a copy knows its own already."""
        if cls is not SlackRescaled:
            return super().__new__(cls)
        compiled = isinstance(structure, CompiledStructure)
        return super().__new__(RescaledCompiled if compiled else RescaledPlain)

    def __init__(self, structure: Structure | CompiledStructure) -> None:
        self.structure = structure

    #: The features depend on the truth, which predictions do not have.
    scores_predict = False


class RescaledPlain(SlackRescaled, Structure):
    """The plain form: examples are pairs of x and truth, and phi'(truth) = phi(truth)."""

    def __init__(self, structure: Structure) -> None:
        super().__init__(structure)
        if ability(structure, "labels") is None:
            raise InvalidStructure(
                f"{type(structure).__name__} has no labels(x), and slack rescaling needs all "
                "labels of an example: write it, or rescale margins, without SlackRescaled"
            )

    def examples(self, X: Any, y: Any = None) -> Sequence[Any]:
        """Pairs of x and truth."""
        return list(zip(X, [None] * len(X) if y is None else y, strict=True))

    def features(self, x: Any, label: Any) -> np.ndarray:
        """phi(truth) - loss(label) psi(label)."""
        x, truth = x
        right = np.asarray(self.structure.features(x, truth), dtype=np.float64)
        loss = loss_of(self.structure)(x, truth, label)
        return right + loss * (self.structure.features(x, label) - right)

    def loss(self, truth: Any, label: Any, x: Any) -> float:  # type: ignore[override]
        """As it is."""
        return loss_of(self.structure)(x[0], truth, label)

    def argmax(self, x: Any, w: np.ndarray, truth: Any = None) -> Any:
        """The best of all labels; the structure's own prediction without a truth."""
        x, _ = x
        if truth is None:
            return self.structure.argmax(x, w)
        base, loss = w @ self.structure.features(x, truth), loss_of(self.structure)

        def value(label: Any) -> float:
            missing = 1.0 + w @ self.structure.features(x, label) - base
            return loss(x, truth, label) * missing

        return max((truth, *self.structure.labels(x)), key=value)

    def labels(self, x: Any) -> Sequence[Any]:
        """All labels of the structure."""
        return self.structure.labels(x[0])


class RescaledData(NamedTuple):
    """What the oracles read: the data of the structure, and all labels."""

    inside: tuple
    offsets: np.ndarray
    truth: np.ndarray
    listed: Listed


class RescaledCompiled(SlackRescaled, CompiledStructure):
    """The compiled form: phi'(truth) = 0 and phi'(y) = -loss(y) psi(y).

    Inner products of phi' are then those of psi', and nothing cancels where losses are small.
    """

    def __init__(self, structure: CompiledStructure) -> None:
        super().__init__(structure)
        self.allocates = structure.allocates  # type: ignore[misc]
        self.takes_checked = structure.takes_checked  # type: ignore[misc]
        # Here and not in `encode`: a structure without them says so at once.
        if not structure.lists_labels:
            raise structure.has_no_list()

    def listed(self, blocks: Blocks) -> Listed:
        """All labels of the structure."""
        return blocks.data.listed  # type: ignore[attr-defined]

    @property
    def oracles(self) -> Oracles:
        """The oracles, built around those of the structure."""
        return _rescaled(self.structure.oracles, self.structure.allocates)

    @property
    def own_map(self) -> OwnMap | None:
        """That of the structure."""
        own = self.structure.own_map
        return own and _inside(own, self.structure.allocates)

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """The blocks of the structure, with all labels."""
        blocks = self.structure.encode(X, y)
        sizes = np.diff(blocks.offsets)
        listed = labels_of(self.structure, blocks)
        if listed.rows.shape[1:] != (sizes[0],) or (sizes != sizes[0]).any():
            raise InvalidStructure(
                f"{type(self.structure).__name__}.all_labels has shape {listed.rows.shape}, the "
                f"labels of the blocks have {sizes.min()} to {sizes.max()} integers: slack "
                "rescaling needs all labels as rows of one size"
            )
        data = RescaledData(blocks.data, blocks.offsets, blocks.truth, listed)
        # Scores of labels are products with losses, not what is in `work`.
        return dataclasses.replace(blocks, data=data, n_labels=0, mean_offsets=None)

    def decode(self, labels: np.ndarray, offsets: np.ndarray) -> Sequence[Any]:
        """Labels of the structure."""
        return self.structure.decode(labels, offsets)


@functools.cache
def _rescaled(oracles: Oracles, allocates: bool) -> Oracles:
    """Oracles of the rescaled structure; cached, because kernels are found by them."""
    inside: Any = Oracles._make(oracle and helper(oracle, allocates) for oracle in oracles)
    own_prefetch, own_argmax, own_loss, own_parts = (
        inside.prefetch, inside.argmax, inside.loss, inside.parts
    )  # fmt: skip

    def prefetch(data, i):
        own_prefetch(data.inside, i)

    def loss(data, i, label):
        return own_loss(data.inside, i, label)

    def parts(data, i, label, each):
        """The loss times what the label has more than the truth."""
        right = data.truth[data.offsets[i] : data.offsets[i + 1]]
        size = own_loss(data.inside, i, label)
        if size == 0.0:
            return 0.0
        own = own_parts(data.inside, i, label, Times(each, size))
        return own + own_parts(data.inside, i, right, Times(each, -size))

    def argmax(data, i, work, loss_weight, label):
        """The best of all labels; the structure's own prediction where losses do not count."""
        if loss_weight == 0.0:
            return own_argmax(data.inside, i, work, 0.0, label)
        right = data.truth[data.offsets[i] : data.offsets[i + 1]]
        base = own_parts(data.inside, i, right, Gather(work))
        labels = listed_labels(data.listed, i)
        best = -1
        highest = 0.0
        for k in range(labels.shape[0]):
            lead = own_parts(data.inside, i, labels[k], Gather(work)) - base
            value = own_loss(data.inside, i, labels[k]) * (loss_weight + lead)
            if value > highest:
                best = k
                highest = value
        for t in range(label.shape[0]):
            label[t] = labels[best, t] if best >= 0 else right[t]
        return highest

    return Oracles(argmax, loss, parts, prefetch)


@functools.cache
def _inside(own: OwnMap, allocates: bool) -> OwnMap:
    """What reads and adds to w, for data that hold those of the structure."""
    own_pull, own_push = helper(own.pull, allocates), helper(own.push, allocates)

    def pull_inside(data, i, w, work):
        own_pull(data.inside, i, w, work)

    def push_inside(data, i, statistics, w):
        own_push(data.inside, i, statistics, w)

    return OwnMap(pull_inside, push_inside)
