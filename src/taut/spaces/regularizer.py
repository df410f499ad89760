"""The regulariser 1/2 (w - mean)' precision (w - mean), with w >= lower where it is asked for.

With precision = R'R and v = R w it is 1/2 |v - R mean|^2 (`taut.spaces.quadratic`), and a plane's
psi becomes R^-1' psi. Solvers see v, and structures the potentials of w (`taut.spaces.scaled`). A
prior mean alone needs none of that: passes then only begin elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from taut.data.arrays import as_numbers, check_finite
from taut.errors import InvalidData
from taut.spaces.labels import products_of
from taut.spaces.quadratic import BoundedQuadratic, Quadratic
from taut.spaces.scaling import Diagonal, Full
from taut.storage.stored import LARGEST

_NO_BOUND = -1e300  # below any weight; not infinite: compiled code may assume that no number is
#: Labels up to which the curvatures of all of them are computed before the first pass.
FEW_LABELS = 32


class Regularizer:
    """A Gaussian prior on the weights, and weights that must not be below a bound.

    Parameters
    ----------
    mean : array of shape (n_features,), optional
        What w is drawn to; 0 by default.
    precision : array of shape (n_features,) or (n_features, n_features), optional
        The inverse of the prior's covariance: its diagonal, or a symmetric positive definite
        matrix. 1 by default.
    nonneg : bool or array of bool of shape (n_features,), default=False
        Which weights must not be negative. Together with a full matrix it is refused.
    lower : float or array of shape (n_features,), optional
        What weights must not be below, minus infinity where there is no bound. Together with a full
        matrix it is refused. A weight that `nonneg` names has the larger of its bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, Regularizer, solve
    >>> from taut.structures import Scalar
    >>> X, y = np.array([[1.0, -1.0], [-1.0, -1.0]]), np.array([1.0, -1.0])
    >>> prior = Regularizer(nonneg=True)
    >>> solve(Problem(Scalar(), X, y, regularizer=prior), tol=1e-8, random_state=0).w.round(3)
    array([1., 0.])
    """

    def __init__(
        self, mean: Any = None, precision: Any = None, nonneg: Any = False, lower: Any = None
    ) -> None:
        self.mean = mean
        self.precision = precision
        self.nonneg = nonneg
        self.lower = lower

    def check(self, n: int) -> Prior:
        """The prior of n weights."""
        mean = _vector("prior_mean", 0.0 if self.mean is None else self.mean, n)
        signs = np.where(_mask(self.nonneg, n), 0.0, -np.inf)
        lower = np.broadcast_to(np.maximum(_least(self.lower, n), signs), n)
        if self.precision is None or np.ndim(self.precision) < 2:
            given = 1.0 if self.precision is None else self.precision
            scale = np.sqrt(_positive(given, n)) if np.ndim(given) else np.sqrt(_positive(given, 1))
            return Prior(mean, lower, scale=np.broadcast_to(scale, n))
        if (lower > -np.inf).any():
            name = "nonneg" if self.lower is None else "lower"
            raise InvalidData(
                f"prior_precision is a full matrix and {name} is set: the weights cannot be "
                f"bounded one by one then; give the diagonal of the precision, or drop {name}"
            )
        return Prior(mean, lower, root=_root(self.precision, n))


class Prior:
    """A checked regulariser of n weights: R, the prior mean, and the bounds `lower` of w.

    R is the diagonal `scale` or the upper triangular matrix `root`. Arrays whose numbers are all
    the same have that number in memory once, and are read-only.
    """

    def __init__(
        self,
        mean: np.ndarray,
        lower: np.ndarray,
        scale: np.ndarray | None = None,
        root: np.ndarray | None = None,
    ) -> None:
        self.mean = mean
        self.lower = lower
        self.scale = scale
        self.root = root
        # Whether R is not the identity, and whether v itself is w
        self.rescales = scale is None or bool((scale != 1.0).any())
        self.trivial = not (self.rescales or self.is_bounded)

    @property
    def is_bounded(self) -> bool:
        """Whether any weight has a bound."""
        return bool((self.lower > -np.inf).any())

    def check(self, n: int) -> Prior:
        """Itself: where many data are bound to one prior, it is checked once."""
        return self

    def above(self, lower: np.ndarray) -> Prior:
        """The same where weights are not below these bounds either."""
        if (self.lower >= lower).all():
            return self
        if self.scale is None:
            raise InvalidData(
                "prior_precision is a full matrix, and the structure needs weights above a bound: "
                "they cannot be bounded one by one then; give the diagonal of the precision"
            )
        return Prior(self.mean, np.maximum(self.lower, lower), self.scale)

    def scaled(self, w: np.ndarray) -> np.ndarray:
        """v = R w."""
        return self.root @ w if self.scale is None else self.scale * w

    def weights(self, v: np.ndarray) -> np.ndarray:
        """w = max(R^-1 v, lower), in an array of its own."""
        if self.trivial:
            return v.astype(np.float64)
        if self.scale is None:
            return scipy.linalg.solve_triangular(self.root, v)
        return np.maximum(v / self.scale, self.lower)

    def plane(self, psi: np.ndarray) -> np.ndarray:
        """R^-1' psi."""
        if self.trivial:
            return psi
        if self.scale is None:
            return scipy.linalg.solve_triangular(self.root, psi, trans="T")
        return psi / self.scale

    def covariance(self, psi: np.ndarray) -> np.ndarray:
        """R^-1 R^-1' psi: what a dual vector adds to the weights where they have no bounds."""
        plane = self.plane(psi)
        if self.scale is None:
            return scipy.linalg.solve_triangular(self.root, plane)
        return plane / self.scale

    def bounds(self) -> np.ndarray:
        """The bounds of v, R lower where R is diagonal; with a full matrix there are none."""
        if self.scale is None:
            return np.full(len(self.mean), _NO_BOUND)
        return np.maximum(self.scale * self.lower, _NO_BOUND)

    def quadratic(self, pad: Any) -> Quadratic:
        """The regulariser of v with the padding that compiled code sees."""
        if self.trivial and not self.mean.any():
            return Quadratic()
        return BoundedQuadratic(pad(self.scaled(self.mean)), pad(self.bounds()))

    def scaling(self, pad: Callable[[np.ndarray], np.ndarray], bounds: bool) -> Diagonal | Full:
        """What compiled code needs to turn v into w, still without room."""
        none = np.empty(0)
        if self.scale is not None:
            lower = self.bounds() if bounds else np.full(len(self.mean), _NO_BOUND)
            return Diagonal(pad(1.0 / self.scale), pad(lower), none, none)
        inverse = scipy.linalg.solve_triangular(self.root, np.eye(len(self.mean)))
        columns = np.array([pad(column) for column in inverse.T])
        return Full(np.array([pad(row) for row in columns.T]), none, none)


def gram_sizes(operations: Any) -> Any:
    """A loop over blocks, in any space."""
    products = products_of(operations)

    def sizes(data, listed, room, row, out):
        """out[i] = the largest sum of a row of the Gram matrix of block i's phi, without signs.

        It bounds the curvature of a step over all labels, and is exact where labels have no
        features in common.
        """
        for i in range(out.shape[0]):
            out[i] = 0.0
            first, last = listed.starts[listed.step * i], listed.starts[listed.step * i + 1]
            for a in range(first, last):
                products(data, i, listed.rows[a], listed.rows[first:last], room, row)
                total = 0.0
                for b in range(last - first):
                    total += abs(row[b])
                out[i] = max(out[i], total)

    return sizes


def _vector(name: str, values: Any, n: int) -> np.ndarray:
    vector = np.array(as_numbers(values, name), dtype=np.float64)
    if vector.ndim == 0:
        check_finite(vector, name)
        return np.broadcast_to(vector, n)
    if vector.shape != (n,):
        raise InvalidData(
            f"{name} has shape {vector.shape}, the problem has {n} weights: give one number to each"
        )
    check_finite(vector, name)
    return vector


def _positive(values: Any, n: int) -> np.ndarray:
    precision = _vector("prior_precision", values, n)
    if not (precision * LARGEST >= 1.0).all():
        k = int(np.argmin(precision))
        raise InvalidData(
            f"prior_precision[{k}] = {precision[k]}: it must be positive, at least "
            f"{1.0 / LARGEST:g}; for a weight that is hardly regularised give a small number"
        )
    return precision


def _mask(nonneg: Any, n: int) -> np.ndarray:
    mask = np.asarray(nonneg)
    if mask.dtype != bool or mask.shape not in ((), (n,)):
        raise InvalidData(
            f"nonneg has dtype {mask.dtype} and shape {mask.shape}: give True, False, or one of "
            f"them for each of the {n} weights"
        )
    return mask


def _least(lower: Any, n: int) -> np.ndarray:
    """The bound of each weight or of all, minus infinity where there is none."""
    if lower is None:
        return np.array(-np.inf)
    bounds = np.array(as_numbers(lower, "lower"), dtype=np.float64)
    if bounds.shape not in ((), (n,)):
        raise InvalidData(
            f"lower has shape {bounds.shape}: give one number, or one for each of the {n} weights"
        )
    bounds = np.atleast_1d(bounds)
    wrong = ~((bounds == -np.inf) | (np.abs(bounds) <= LARGEST))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise InvalidData(
            f"lower[{k}] = {bounds[k]:g}: give a finite number of at most {LARGEST:g}, or minus "
            "infinity where there is no bound"
        )
    return bounds


def _root(precision: Any, n: int) -> np.ndarray:
    """The upper triangular R with R'R = precision."""
    matrix = np.array(as_numbers(precision, "prior_precision"), dtype=np.float64)
    if matrix.shape != (n, n):
        raise InvalidData(
            f"prior_precision has shape {matrix.shape}, the problem has {n} weights: give an array "
            f"of shape ({n},) or ({n}, {n})"
        )
    check_finite(matrix, "prior_precision")
    if not np.allclose(matrix, matrix.T, rtol=1e-8, atol=1e-10 * np.abs(matrix).max()):
        raise InvalidData("prior_precision is not symmetric: give (A + A.T) / 2")
    try:
        return scipy.linalg.cholesky(matrix)
    except np.linalg.LinAlgError as error:
        raise InvalidData(
            f"prior_precision is not positive definite ({error}): add a small multiple of the "
            "identity matrix"
        ) from error
