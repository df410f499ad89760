"""What a kernel is: a function of two rows, whose matrix over any rows is positive semidefinite.

A kernel is a few numbers. Bound to rows (`Kernel.prepared`) it computes blocks of its matrix, which
is all that training and prediction ask for; the whole matrix is written down only where a user asks
for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.checks import check_positive
from taut.data.arrays import Matrix, as_matrix
from taut.errors import InvalidData

Places = np.ndarray | slice
EVERY = slice(None)


class KernelRows(ABC):
    """Rows as a kernel reads them, in one precision.

    Attributes
    ----------
    n : int
        How many rows.
    dtype : numpy.dtype
        Of the blocks that are computed.
    """

    n: int
    dtype: np.dtype

    @abstractmethod
    def block(self, own: Places, other: KernelRows, others: Places, out: np.ndarray) -> None:
        """out[p, q] = k(x, z) of row own[p] of these rows and row others[q] of other ones."""

    @abstractmethod
    def diagonal(self) -> np.ndarray:
        """k(x, x) of each row."""

    @abstractmethod
    def take(self, rows: np.ndarray) -> KernelRows:
        """Some of the rows alone."""

    @abstractmethod
    def astype(self, dtype: Any) -> KernelRows:
        """The same rows, with blocks in another precision."""

    @property
    def largest(self) -> float:
        """What |k| of these rows is at most, as computed; infinite where no bound is known."""
        return float("inf")

    @property
    def cheap(self) -> bool:
        """Whether a row is computed sooner than it is written to memory that is new."""
        return False

    @property
    def error(self) -> float:
        """How far a value of a block may be from the true one; infinite where no bound is known."""
        return float("inf")

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory of the rows."""


class Kernel(ABC):
    """A function of two rows; kernels add up, multiply, and take positive factors.

    Attributes
    ----------
    definite : bool or None
        Whether its matrix over any rows is positive semidefinite; None where only the data tell.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import RBF, Linear
    >>> kernel = 0.5 * RBF(gamma=1.0) + Linear()
    >>> kernel(np.array([[0.0], [1.0]])).round(3)
    array([[0.5  , 0.184],
           [0.184, 1.5  ]])
    """

    __array_ufunc__ = None  # arrays leave products with kernels to these

    @property
    def of_matrix(self) -> bool:
        """Whether X is the matrix of the kernel's values instead of rows."""
        return False

    @property
    def definite(self) -> bool | None:
        """Whether its matrix over any rows is positive semidefinite."""
        return None

    @property
    def finite(self) -> bool:
        """Whether it is an inner product of features that can be written down."""
        return False

    def finite_map(self, x: Any) -> np.ndarray:
        """These features of a row, where the kernel is `finite`."""
        raise InvalidData(f"{self!r} has no features that could be written down")

    @abstractmethod
    def prepared(self, X: Matrix, dtype: Any, like: KernelRows | None = None) -> KernelRows:
        """Checked rows, ready to be compared with each other, or with `like`, that were before."""

    def kept(self, vectors: Matrix | None, numbers: np.ndarray, dtype: Any) -> KernelRows:
        """Training rows to compare new ones with; the data had them at these places.

        Where X is a matrix, there are no rows.
        """
        assert vectors is not None
        return self.prepared(vectors, dtype)

    def resolved(self, X: Matrix) -> Kernel:
        """The same kernel with numbers where it has words that stand for numbers of these rows."""
        return self

    def check_rows(self, X: Matrix, like: KernelRows | None = None) -> None:
        """Refuse rows that the kernel is not meant for, before work is done.

        Rows that will be compared with others, `like`, come from prediction.
        """

    def __call__(self, X: Any, Z: Any = None) -> np.ndarray:
        """The matrix of all rows of X with all rows of Z, or with each other, in float64.

        Parameters
        ----------
        X : array or CSR matrix
        Z : array or CSR matrix, optional

        Returns
        -------
        ndarray of shape (n_rows of X, n_rows of Z)
        """
        X = as_matrix(X)
        kernel = self.resolved(X)
        kernel.check_rows(X)
        rows = others = kernel.prepared(X, np.float64)
        if Z is not None:
            Z = as_matrix(Z, "Z")
            check_width(X, Z)
            kernel.check_rows(Z, rows)
            others = kernel.prepared(Z, np.float64, rows)
        out = np.empty((others.n, rows.n))
        others.block(EVERY, rows, EVERY, out)
        return out.T

    def __add__(self, other: Any) -> Kernel:
        from taut.kernels.combined import Sum

        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> Kernel:
        from taut.kernels.combined import Multiple, Product

        if isinstance(other, Kernel):
            return Product(self, other)
        return Multiple(self, other) if isinstance(other, float | int) else NotImplemented

    __rmul__ = __mul__

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{type(self).__name__}({settings})"

    def settings(self) -> dict[str, Any]:
        """What the kernel was made with, by name."""
        return dict(vars(self))

    @classmethod
    def of_settings(cls, settings: dict[str, Any]) -> Kernel:
        """The inverse of `settings`."""
        return cls(**settings)


def check_width(X: Matrix, Z: Matrix) -> None:
    """Refuse rows of different lengths."""
    if X.shape[1] != Z.shape[1]:
        raise InvalidData(
            f"X has {X.shape[1]} columns and Z has {Z.shape[1]}: a kernel compares rows of one "
            "length"
        )


def width_of(gamma: float | str, X: Matrix) -> float:
    """gamma as a number: "scale" is 1 / (n_columns var(X)), "auto" is 1 / n_columns."""
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if gamma != "scale":
        return check_positive("gamma", gamma)
    size = X.shape[0] * X.shape[1]
    values = stored_numbers(X)
    mean = float(values.sum(dtype=np.float64)) / size
    square = float(np.square(values, dtype=np.float64).sum()) / size
    variance = square - mean**2
    return 1.0 / (X.shape[1] * variance) if variance > 1e-12 * square else 1.0


def check_gamma(gamma: Any) -> None:
    """Refuse what is neither a positive number nor one of the two words."""
    if isinstance(gamma, str):
        if gamma not in ("scale", "auto"):
            raise InvalidData(f"gamma = {gamma!r}: give 'scale', 'auto' or a positive number")
    else:
        check_positive("gamma", gamma)


def stored_numbers(X: Any) -> np.ndarray:
    """The numbers of a matrix, of CSR those that are stored."""
    return X.data if sp.issparse(X) else X


def nbytes_of(X: Any) -> int:
    """Memory of a matrix."""
    arrays = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
    return sum(array.nbytes for array in arrays)
