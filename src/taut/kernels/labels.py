"""Kernels on labels: which classes are alike.

A joint kernel is a product of one on features and one on labels. On a finite set of classes the
latter is a matrix M = L L', and phi(x, y) = phi(x) (outer) L[y] is the joint feature map.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from taut.data.class_trees import as_tree, is_tree
from taut.errors import InvalidData

_ROUNDING = 32.0  # units in the last place, for each class


Labels = Sequence[Any] | np.ndarray


class LabelKernel(ABC):
    """A kernel on labels."""

    @property
    def finite(self) -> bool:
        """Whether it is an inner product of features that can be written down."""
        return False

    def finite_map(self, labels: Labels) -> np.ndarray:
        """A row of these features for each label, where the kernel is `finite`."""
        raise InvalidData(f"{self!r} has no features that could be written down")

    @abstractmethod
    def between(self, labels: Labels, others: Labels) -> np.ndarray:
        """The kernel of each label with each of the others."""


class ClassSimilarity(LabelKernel):
    """The similarity of classes 0..K-1, by a matrix or a tree.

    Parameters
    ----------
    similarity : array of shape (K, K) or tree
        Symmetric and positive semidefinite. Of a tree, in a form that `taut.structures.tree_cost`
        takes, two classes are as alike as they have groups in common: the number of nodes below
        the root above both, themselves among them, scaled so that each class is like itself by 1.

    Attributes
    ----------
    matrix : ndarray of shape (K, K)
    map : ndarray of shape (K, r)
        L with L L' = matrix, one column for each eigenvalue that is not 0.

    Examples
    --------
    >>> from taut.kernels import ClassSimilarity
    >>> ClassSimilarity({"fish": ["ray", "trout"], "plants": ["moss"]}).matrix.round(3)
    array([[1. , 0. , 0. ],
           [0. , 1. , 0.5],
           [0. , 0.5, 1. ]])
    """

    def __init__(self, similarity: Any) -> None:
        self.matrix = _tree_similarity(similarity) if is_tree(similarity) else _checked(similarity)
        self.map = _root(self.matrix)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.matrix)} classes)"

    finite = True

    def finite_map(self, labels):
        """Rows of L."""
        return self.map[self._codes(labels)]

    def between(self, labels: Labels, others: Labels) -> np.ndarray:
        """Looked up."""
        return self.matrix[np.ix_(self._codes(labels), self._codes(others))]

    def _codes(self, labels: Labels) -> np.ndarray:
        """Class numbers, or InvalidData."""
        codes, n = np.asarray(labels), len(self.matrix)
        if codes.dtype.kind not in "iu" or codes.ndim != 1:
            raise InvalidData(
                f"ClassSimilarity compares classes 0..{n - 1}, and one is {labels[0]!r}: give "
                "whole numbers as labels, or aspect=, a function of a label that returns one"
            )
        wrong = (codes < 0) | (codes >= n)
        if wrong.any():
            raise InvalidData(
                f"label {codes[wrong.argmax()]} is none of the {n} classes of ClassSimilarity: "
                f"give labels 0..{n - 1}, or the similarity of more classes"
            )
        return codes


def _tree_similarity(tree: Any) -> np.ndarray:
    shared = as_tree(tree, "similarity").shared()
    scale = 1.0 / np.sqrt(np.diagonal(shared))
    return shared * np.outer(scale, scale)


def _checked(similarity: Any) -> np.ndarray:
    """A square symmetric matrix of finite numbers, or InvalidData."""
    try:
        matrix = np.array(similarity, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidData(
            f"similarity is no matrix of numbers ({error}): give the similarity of each two "
            "classes, or a tree"
        ) from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise InvalidData(
            f"similarity has shape {matrix.shape}: give a square matrix, with a row and a column "
            "for each class"
        )
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise InvalidData(f"similarity[{row}, {column}] = {matrix[row, column]}: give numbers")
    difference = np.abs(matrix - matrix.T)
    if difference.max() > _allowed(matrix):
        i, j = np.unravel_index(int(difference.argmax()), difference.shape)
        raise InvalidData(
            f"similarity is not symmetric: [{i}, {j}] is {matrix[i, j]:g} and [{j}, {i}] is "
            f"{matrix[j, i]:g}; give (M + M.T) / 2"
        )
    return matrix


def _allowed(matrix: np.ndarray) -> float:
    scale = max(float(np.abs(matrix).max()), float(np.finfo(float).tiny))
    return _ROUNDING * len(matrix) * float(np.finfo(float).eps) * scale


def _root(matrix: np.ndarray) -> np.ndarray:
    """L with L L' = matrix; refuse a matrix with a negative eigenvalue."""
    values, vectors = np.linalg.eigh(matrix)
    allowed = _allowed(matrix)
    if values[0] < -allowed:
        raise InvalidData(
            f"similarity is not positive semidefinite: its smallest eigenvalue is {values[0]:.3g}, "
            f"so no model can be certified; add {-1.1 * values[0]:.2g} to its diagonal, or use "
            "VonMisesLabels for angles"
        )
    kept = values > allowed
    return vectors[:, kept] * np.sqrt(values[kept])
