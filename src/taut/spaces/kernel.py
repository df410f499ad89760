"""The space of a kernel: w = sum_r A_r b_r over the rows of the data, and a tail as it is.

A point has three parts: the *potentials* of all rows, sum_r k(x_u, x_r) b_r, column by column; the
*coefficients* b of all rows, in the same layout; and the tail of w, which stays linear. The first
two belong together and are linear in each other, so that adding, scaling and averaging points as
arrays is right. `pull` copies potentials; `push` adds a row of the kernel matrix to them, and to
the coefficients; inner products are those of coefficients with potentials.

While passes run, the matrix may have single precision; points have the precision of the data, whose
registers the layout of potentials is made for. Where bounds are computed, potentials are
made afresh from the coefficients in float64 (`KernelFeatures.settle`).
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from taut.compiled.lanes import aligned_zeros, prefetch
from taut.compiled.threads import in_threads
from taut.data.arrays import Matrix, ranges, take_runs
from taut.data.memory import as_bytes
from taut.errors import InvalidData
from taut.kernels import Kernel, check_definite
from taut.spaces.features import Features, RowFeatures, counted
from taut.spaces.given_rows import given_rows, rows_alone, stacked
from taut.spaces.kernel_rows import RowCache, WorkingMatrix
from taut.spaces.linear import SpaceFunctions, spill_tail
from taut.spaces.quadratic import InnerQuadratic, Quadratic

_HEIGHT = 512  # rows whose potentials are computed at a time,
_WIDTH = 1024  # from so many others
_MATRIX = 0.4  # of the cache, for the matrix of a working set
_WHOLE = 1000  # rows whose matrix is no matter
_COARSE = 0.01  # of the largest value: rows whose error may be larger have double precision
_DRIFT = 1e-3  # relative, by which sums of rows of single precision may be off


class KernelView(NamedTuple):
    """What compiled code sees: block i has the rows places[i, 0] to places[i, 1] of the matrix.

    The matrix may have more columns than rows, those of rows that are not there.

    `overlaps` has the kernel of each block's rows with each other, from places[i, 2] on.
    """

    gram: np.ndarray  # without columns where rows are not at hand: coefficients alone are added to
    overlaps: np.ndarray
    places: np.ndarray
    columns: int
    stride: int
    tail_at: int
    tail: int


def ask(space, i):
    """The first row of the block."""
    first = space.places[i, 0]
    prefetch(space.gram, first * space.gram.shape[1])


def pull(space, i, w, theta):
    """The potentials of the block's rows, and the tail."""
    n = space.gram.shape[0]
    at = 0
    for r in range(space.places[i, 0], space.places[i, 1]):
        for k in range(space.columns):
            theta[at + k] = w[k * n + r]
        for k in range(space.columns, space.stride):
            theta[at + k] = 0.0
        at += space.stride
    for p in range(space.tail):
        theta[at + p] = w[space.tail_at + p]


def push(space, i, s, size, least, w):
    """Rows of the matrix to the potentials, numbers to the coefficients and to the tail."""
    n = space.gram.shape[0]
    at = 0
    for r in range(space.places[i, 0], space.places[i, 1]):
        row = space.gram[r]
        for k in range(space.columns):
            amount = w.dtype.type(s[at + k])
            if abs(amount) > least:
                w[(space.columns + k) * n + r] += amount
                potentials = w[k * n : (k + 1) * n]
                for u in range(min(n, row.shape[0])):
                    potentials[u] += amount * row[u]
        at += space.stride
    for p in range(size - at):
        w[space.tail_at + p] += s[at + p]


def lift(space, i, s, size, scratch, theta):
    """Rows of the block with each other; the tail is left as it is in s."""
    length, stride = space.places[i, 1] - space.places[i, 0], space.stride
    for p in range(length * stride):
        theta[p] = 0.0
    for t in range(length):
        start = space.places[i, 2] + t * length
        for k in range(space.columns):
            amount = s[t * stride + k]
            if amount != 0.0:
                for u in range(length):
                    theta[u * stride + k] += amount * space.overlaps[start + u]
    return length * stride, 1.0


def square(space, i):
    """k(x, x) of a block of one row."""
    return space.overlaps[space.places[i, 2]]


def n_own(space, i, s):
    """Those of the rows."""
    return (space.places[i, 1] - space.places[i, 0]) * space.stride


def n_all(space, i, s):
    """And of the tail."""
    return (space.places[i, 1] - space.places[i, 0]) * space.stride + space.tail


def touch(space, i, action):
    """Nothing: there is no prior."""


FUNCTIONS = SpaceFunctions(ask, pull, push, lift, square, n_own, n_all, touch, spill_tail)


class KernelFeatures(Features):
    """Rows through a kernel, in the columns and with the tail that linear features have.

    A bias b is a constant feature of each row, as in linear models: the kernel is k + b^2. Few rows
    have their whole matrix. For others, rows are computed and kept in a cache, and blocks are
    worked on some at a time (`taut.engines.working`).

    Parameters
    ----------
    linear : RowFeatures
        The rows as a structure lays them out.
    kernel : Kernel
        Resolved.
    X : array or CSR matrix
        The same rows.
    dtype : type
        Of the matrix while passes run.
    cache : int
        Bytes for rows of the matrix, and the matrix of a working set.
    whole : int
        Rows up to which there is the whole matrix.
    n_jobs : int
        Threads that compute rows.
    """

    lifts = True
    #: Numbers of the rows among those of the features that these were taken from.
    members: np.ndarray

    def __init__(
        self,
        linear: RowFeatures,
        kernel: Kernel,
        X: Matrix,
        dtype: Any,
        cache: int,
        whole: int,
        n_jobs: int,
    ) -> None:
        self._linear, self.kernel, self.X, self.n_jobs = linear, kernel, X, n_jobs
        # Users' functions get rows of float64 as well: of others, values depend on the block that
        # they are asked in, and bounds would not be exact.
        self.exact_rows = self.rows = kernel.prepared(X.astype(np.float64, copy=False), np.float64)
        tested = check_definite(kernel, self.exact_rows, np.random.default_rng(0))
        if tested < self.rows.n:
            self.condition = (
                f", if the kernel is positive definite, as it is on {tested} of {self.rows.n} rows"
            )
        self.constant = linear.bias**2
        self.columns, self.stride, self.tail = linear.columns, linear.stride, linear.tail
        n = self.rows.n
        places, norms = linear.places, self.exact_rows.diagonal() + self.constant
        if np.dtype(dtype) != np.float64:
            self._narrow(dtype, float(norms.max(initial=0.0)))
        #: Two solves at once take turns: the cache is one for both.
        self.turns = threading.Lock()
        if places is None:
            own = np.arange(len(linear.norms))
            places, overlaps = np.column_stack([own, own + 1]), norms
        else:
            overlaps = self._overlaps(places)
        size = n if n <= whole else 0
        self._lay_out(self._gram(slice(0, n), slice(0, size)), norms, places, overlaps)
        self._cache_size = cache
        self._begin_cache()

    def __getstate__(self) -> dict[str, Any]:
        # What the features are made of; the rest follows, and changes as it is computed.
        form = self.rows.dtype.str, self._linear.sparse
        return {"linear": self._linear, "kernel": self.kernel, "form": form}

    def _narrow(self, dtype: Any, largest: float) -> None:
        """Have rows of less precision for passes, unless they would not know the values."""
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = self.exact_rows.astype(dtype)
            error = narrow.error
        if not (np.isfinite(error) and error > _COARSE * largest):
            self.rows = narrow

    def _begin_cache(self) -> None:
        nbytes = self._cache_size - int(_MATRIX * self._cache_size)
        self.cache = RowCache(self.rows, self.constant, nbytes, self.n_jobs)
        self.matrix = self.working_matrix(np.ones(self.rows.n))

    def working_matrix(self, scale: np.ndarray, share: float = 1.0) -> WorkingMatrix:
        """The matrix of a working set, with rows and columns times `scale`.

        In this share of the memory that there is for one.
        """
        return WorkingMatrix(self.cache, scale, int(share * _MATRIX * self._cache_size))

    def second_matrix(self) -> WorkingMatrix:
        """Another one beside `matrix`: both together have the memory of one."""
        ones = np.ones(self.rows.n)
        self.matrix = self.working_matrix(ones, 0.5)
        return self.working_matrix(ones, 0.5)

    @property
    def most_rows(self) -> int:
        """Rows of a working set that there is memory for."""
        # Where blocks have several rows, the matrix is copied into their order.
        return self.matrix.most if self.one_row_each else int(self.matrix.most / np.sqrt(2.0))

    def _gram(self, own: Any, others: Any) -> np.ndarray:
        """The kernel of some rows with others."""
        rows = np.arange(self.rows.n)
        gram = np.empty((len(rows[own]), len(rows[others])), dtype=self.rows.dtype)
        if gram.size:
            self.rows.block(own, self.rows, others, gram)
            gram += gram.dtype.type(self.constant)
        return gram

    def _overlaps(self, places: np.ndarray) -> np.ndarray:
        """The kernel of the rows of each block with each other, one block after the other."""
        found = []
        for first, last in places.tolist():
            block = np.empty((last - first, last - first))
            self.exact_rows.block(slice(first, last), self.exact_rows, slice(first, last), block)
            found.append(block.ravel() + self.constant)
        return np.concatenate(found)

    def _lay_out(
        self, gram: np.ndarray, norms: np.ndarray, places: np.ndarray, overlaps: np.ndarray
    ) -> None:
        """Have these rows, whose blocks are at these places."""
        n, linear = len(gram), self._linear
        self.comes_as = "whole" if gram.shape[1] else "rows"
        self.n_rows, self.dtype = n, linear.dtype
        #: k(x, x) of each row.
        self.norms = norms
        self.places = places
        self.one_row_each = np.array_equal(places[:, 0], np.arange(n))
        tail = linear.size - linear.n_rows * linear.stride
        self._tail_at = 2 * self.columns * n
        self.n_features = self.columns * n + linear.tail[0] * linear.tail[1]
        self.size = self._tail_at + tail
        self.reads = self.columns * n
        self.n_potentials = int((places[:, 1] - places[:, 0]).max()) * self.stride + tail
        self._view = KernelView(
            gram, overlaps, counted(places), self.columns, self.stride, self._tail_at, tail
        )
        self._settled: tuple[np.ndarray, np.ndarray] | None = None
        self._vouched: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def view(self, data):
        """The matrix, and which rows are whose."""
        return self._view

    def functions(self, structure):
        """Those above, whatever the structure."""
        return FUNCTIONS

    def take(self, blocks):
        """Blocks that share rows, as mined labels do."""
        raise InvalidData(
            "hard_negatives mines labels of linear features: use solver='dual_coordinate' with a "
            "kernel"
        )

    def compacted(self, blocks, offsets=None):
        """These blocks with the matrix of their rows, which are `members` here."""
        taken = copy.copy(self)
        bounds = np.arange(self.n_rows + 1) if offsets is None else offsets
        taken.members, moved = take_runs(bounds, blocks)
        places = self.places[blocks]
        sizes = (places[:, 1] - places[:, 0]) ** 2
        overlaps = self._view.overlaps[ranges(self._view.places[blocks, 2], sizes)]
        places = places + (moved[:-1] - bounds[blocks])[:, None]
        members, matrix = self.matrix.hold(np.sort(taken.members))
        if np.array_equal(members, taken.members):
            gram = matrix[: len(members)]
        else:
            place = np.empty(self.n_rows, dtype=np.int64)
            place[members] = np.arange(len(members))
            own = place[taken.members]
            gram = matrix[np.ix_(own, own)]
        taken._lay_out(gram, self.norms[taken.members], places, overlaps)
        return taken

    def at_hand(self, blocks: np.ndarray) -> np.ndarray:
        """These blocks and others, in the order in which the matrix of their rows is at hand.

        Where blocks have several rows, these blocks as they are.
        """
        return self.matrix.hold(blocks)[0] if self.one_row_each else blocks

    def widen(self) -> None:
        """Have rows and working sets in float64 from now on."""
        with self.turns:
            if self.rows is not self.exact_rows:
                before, self.rows = self.cache, self.exact_rows
                self._begin_cache()
                self.cache.drifts, self.cache.evaluations = before.drifts, before.evaluations

    def summed_lengths(self, offsets: np.ndarray) -> np.ndarray:
        """The summed lengths of the rows of each block."""
        return np.add.reduceat(np.sqrt(self.norms), offsets[:-1])

    def quadratic(self, prior: Any) -> Quadratic:
        """In which points have inner products by coefficients and potentials."""
        return KernelQuadratic(self.columns * self.n_rows)

    def shares(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Potentials, coefficients, each with a row for each column, and the tail: views."""
        n = self.columns * self.n_rows
        shape = (self.columns, self.n_rows)
        return w[:n].reshape(shape), w[n : 2 * n].reshape(shape), w[2 * n :]

    def local(self, part, w):
        """Potentials of their rows and the tail, without coefficients."""
        assert isinstance(part, KernelFeatures)
        out = aligned_zeros(part.size, part.dtype)
        potentials, _moves, tail = part.shares(out)
        all_potentials, _coefficients, own_tail = self.shares(w)
        potentials[:] = all_potentials[:, part.members]
        tail[:] = own_tail
        return out

    def absorb(self, part, U, w):
        """By the rows of the kernel matrix whose coefficients change."""
        assert isinstance(part, KernelFeatures)
        _potentials, more, tail = part.shares(U)
        self.shares(w)[2][:] += tail
        self.set_coefficients(part.members, self.shares(w)[1][:, part.members] + more, w)

    def set_coefficients(self, rows: np.ndarray, new: np.ndarray, w: np.ndarray) -> None:
        """Let some rows have these coefficients, and bring the potentials of all up to date."""
        potentials, coefficients, _tail = self.shares(w)
        change = new - coefficients[:, rows]
        coefficients[:, rows] = new
        moved = np.flatnonzero(change.any(axis=0))
        keep = np.ones(len(moved), dtype=bool)
        self.cache.add(rows[moved], np.ascontiguousarray(change[:, moved]), potentials, keep)

    def assign(self, w, given):
        """By the rows of the matrix of those that have coefficients."""
        end = self.n_rows * self.columns
        b = given[:end].reshape(self.n_rows, self.columns).T
        rows = np.flatnonzero(b.any(axis=0))
        w[self._tail_at :] = 0.0
        place_from, place = self._linear.tail_shares(given[end:], w[self._tail_at :])
        place[:] = place_from
        self.set_coefficients(rows, b[:, rows], w)

    @property
    def evaluations(self) -> int:  # type: ignore[override]
        """Of the whole matrix, or of rows and of matrices of working sets."""
        return self._view.gram.size + self.cache.evaluations

    def n_support(self, w):
        """Those that are not zero in all columns."""
        return int(np.count_nonzero(self.shares(w)[1].any(axis=0)))

    def vouch(self, w: np.ndarray, certain: np.ndarray) -> None:
        """Let `settle` at this w leave the potentials of `certain` rows as they are.

        These have no coefficients, and no hinge even if their potentials are off by the drift: the
        bounds are the same whatever rounding did to them.
        """
        potentials, coefficients, _tail = self.shares(w)
        self._vouched = coefficients.copy(), potentials.copy(), certain

    def settle(self, w: np.ndarray) -> None:
        """Potentials afresh, from the coefficients, by rows of the kernel in float64."""
        potentials, coefficients, _tail = self.shares(w)
        # Another thread may put its own in their place at any time.
        settled, vouched = self._settled, self._vouched
        if settled is None or not np.array_equal(settled[0], coefficients):
            b = np.ascontiguousarray(coefficients.T, dtype=np.float64)
            used = np.flatnonzero(b.any(axis=1))
            others = np.setdiff1d(np.arange(self.n_rows), used, assume_unique=True)
            values = np.empty((self.n_rows, self.columns))
            if vouched is not None and np.array_equal(vouched[0], coefficients):
                _same, known, certain = vouched
                values[:] = known.T
                others = others[~certain[others]]
            values[used] = self._own_potentials(used, b[used])
            values[others] = self._potentials(others, used, b[used])
            settled = self._settled = coefficients.copy(), values
        potentials[:] = settled[1].T

    def inexactness(self, w: np.ndarray, weight: np.ndarray) -> float:
        """By the error of float64 values, whose sums over rows are random walks."""
        coefficients = self.shares(w)[1]
        error = self.exact_rows.error
        if not np.isfinite(error):  # a user's function: as if its values were rounded once
            error = float(np.finfo(np.float64).eps) * float(self.norms.max(initial=0.0))
        length = float(np.sqrt(np.square(coefficients).sum(axis=1).max(initial=0.0)))
        rows = self.places[:, 1] - self.places[:, 0]
        hinges = 2.0 * float(np.sqrt((weight**2) @ rows))
        return error * length * (0.5 * len(coefficients) * length + hinges)

    def _own_potentials(self, used: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Potentials of rows from the coefficients of the same rows: half of the matrix tells."""
        parts = [slice(k, min(k + _HEIGHT, len(used))) for k in range(0, len(used), _HEIGHT)]
        pairs = [(p, q) for k, p in enumerate(parts) for q in parts[: k + 1]]

        def share(number: int) -> np.ndarray:
            out = np.zeros(b.shape)
            for p, q in pairs[number :: self.n_jobs]:
                block = self._exact(used[p], used[q])
                out[p] += block @ b[q]
                if p is not q:
                    out[q] += block.T @ b[p]
            return out

        return sum(in_threads(share, range(self.n_jobs)))

    def _potentials(self, rows: np.ndarray, used: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Potentials of some rows from the coefficients of others."""
        out = np.zeros((len(rows), self.columns))

        def share(number: int) -> None:
            for first in range(number * _HEIGHT, len(rows), self.n_jobs * _HEIGHT):
                own = slice(first, first + _HEIGHT)
                for start in range(0, len(used), _WIDTH):
                    some = slice(start, start + _WIDTH)
                    out[own] += self._exact(rows[own], used[some]) @ b[some]

        in_threads(share, range(self.n_jobs))
        return out

    def _exact(self, own: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Values of some rows with others in float64."""
        block = np.empty((len(own), len(others)))
        self.exact_rows.block(own, self.exact_rows, others, block)
        block += self.constant
        return block

    def is_point(self, w):
        """Whether potentials are those of the coefficients, in the precision of passes."""
        settled = self.pad(self.unpad(w))
        size = np.abs(settled).max(initial=0.0)
        exact = w[self._tail_at :] == settled[self._tail_at :]
        return bool((np.abs(settled - w) <= _DRIFT * (1.0 + size)).all() and exact.all())

    def pad(self, w: np.ndarray) -> np.ndarray:
        """A point from the coefficients of all rows and the tail."""
        padded = aligned_zeros(self.size, w.dtype)
        end = self.n_rows * self.columns
        _potentials, coefficients, _tail = self.shares(padded)
        coefficients[:] = w[:end].reshape(self.n_rows, self.columns).T
        given, place = self._linear.tail_shares(w[end:], padded[self._tail_at :])
        place[:] = given
        self.settle(padded)
        return padded

    def unpad(self, w: np.ndarray) -> np.ndarray:
        """The coefficients of all rows, row by row, and the tail."""
        out = np.empty(self.n_features)
        end = self.n_rows * self.columns
        out[:end].reshape(self.n_rows, self.columns)[:] = self.shares(w)[1].T
        place, given = self._linear.tail_shares(out[end:], w[self._tail_at :])
        place[:] = given
        return out


def through_kernel(
    kernel: Kernel,
    dtype: Any = np.float32,
    cache: int | str = "500MB",
    whole: int | str = _WHOLE,
    n_jobs: int = 1,
    support: Any = None,
) -> Callable[[Features], KernelFeatures]:
    """What turns the linear features of blocks into those of a kernel, for `taut.Problem`.

    Parameters
    ----------
    kernel : Kernel
    dtype : type, default=float32
        Of the kernel matrix while passes run; bounds are computed in float64.
    cache : int or str, default="500MB"
        Bytes for rows of the matrix, and the matrix of a working set.
    whole : int or "cache", default=1000
        Rows up to which the whole matrix is computed at first, as most solvers need it; "cache" for
        as many as `cache` has room for. 0 lets DualCoordinate work on working sets however few rows
        there are, which takes fewer passes where C is large; estimators do so.
    n_jobs : int, default=1
        Threads that compute rows.
    support : array or CSR matrix, optional
        Further rows, which come after those of the blocks: w may have coefficients of theirs, for
        training that goes on from a model of other data.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.kernels import RBF
    >>> from taut.spaces.kernel import through_kernel
    >>> from taut.structures import Scalar
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, -1.0, 1.0])
    >>> problem = Problem(Scalar(), X, y, C=10.0, space=through_kernel(RBF(gamma=1.0)))
    >>> solve(problem, tol=1e-3, random_state=0).certificate.status.name
    'CONVERGED'
    """
    nbytes = as_bytes(cache, "cache")
    most = int(np.sqrt(nbytes / np.dtype(dtype).itemsize)) if whole == "cache" else int(whole)

    def features(linear: Features) -> KernelFeatures:
        linear = rows_alone(linear)
        X = given_rows(linear)
        own = kernel.resolved(X)
        own.check_rows(X)
        # A copy: bounds are made of rows computed afresh, whatever the caller does to X meanwhile.
        if support is not None and not kernel.of_matrix:
            X = X.astype(np.result_type(X.dtype, support.dtype), copy=False)
        X = X.copy() if support is None else stacked(X, support)
        return KernelFeatures(linear, own, X, dtype, nbytes, most, n_jobs)

    return features


class KernelQuadratic(InnerQuadratic):
    """1/2 |w|^2 of points whose first `n` numbers are potentials, the next `n` coefficients."""

    def __init__(self, n: int) -> None:
        self.n = n

    def covector(self, v):
        """Potentials where coefficients are, and the tail."""
        out = np.zeros_like(v)
        out[self.n : 2 * self.n] = v[: self.n]
        out[2 * self.n :] = v[2 * self.n :]
        return out

    def dot(self, a, b):
        """Coefficients with potentials, and the tails."""
        n = self.n
        return float(a[n : 2 * n] @ b[:n]) + float(a[2 * n :] @ b[2 * n :])

    def value(self, v):
        """1/2 <v, v>, which no kernel makes negative but by rounding."""
        value = super().value(v)
        if value < 0.0 and value < -_DRIFT * self.magnitude(v):
            raise InvalidData(
                f"the kernel is not positive definite: |w|^2 is {2.0 * value:.3g} at some w, so no "
                "model can be certified; use a kernel that is, such as RBF, or sums and products "
                "of such kernels"
            )
        return value

    def magnitude(self, U):
        """The terms of <U, U>, without signs."""
        n = self.n
        return float(np.abs(U[n : 2 * n]) @ np.abs(U[:n])) + float(U[2 * n :] @ U[2 * n :])
