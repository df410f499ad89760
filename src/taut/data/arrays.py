"""User input as plain contiguous arrays, checked before any work is done.

Every error names the argument, the row and the remedy.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from taut.data.sequences import Sequences
from taut.errors import InvalidData, InvalidType
from taut.storage.stored import largest

Matrix: TypeAlias = np.ndarray | sp.csr_array | sp.csr_matrix

_FLOATS = [np.float64, np.float32]
MAX_FEATURES = 2**31 - 1


class Checked(NamedTuple):
    """A matrix that `as_matrix` returned: on the way into a structure it is not checked again."""

    matrix: Matrix


def as_matrix(X: Any, name: str = "X", *, finite: bool = True) -> Matrix:
    """Check a matrix of numbers and give it the layout that compiled code reads.

    Parameters
    ----------
    X : array-like or scipy sparse of shape (n_rows, n_features)
        Sparse input of any format.
    name : str
        What errors call it.
    finite : bool, default=True
        Whether to look for NaN and infinity.

    Returns
    -------
    ndarray or CSR
        float32 if `X` is, else float64. Dense: C-contiguous. Sparse: matrix or array as given,
        sorted, duplicates summed, int32 ``indices`` and ``indptr`` (int64 ``indptr`` from 2**31
        stored values on). Shares memory with `X` wherever that is already so; `X` stays as it is.

    Raises
    ------
    InvalidData
        `X` has NaN or infinity, the wrong shape, something else than real numbers, or broken sparse
        indices.

    Examples
    --------
    >>> as_matrix([[1, 2], [3, 4]])
    array([[1., 2.],
           [3., 4.]])
    >>> as_matrix([[1, 2], [3, float("nan")]])
    Traceback (most recent call last):
        ...
    taut.errors.InvalidData: X contains NaN at row 1, column 1; drop or impute such rows
    """
    if isinstance(X, Checked):
        return X.matrix
    matrix = _as_layout(X, name)
    if finite:
        check_finite(matrix, name)
    return matrix


def as_sequences(
    X: Any, lengths: ArrayLike | None = None, name: str = "X", *, first: int = 0
) -> tuple[Matrix, np.ndarray]:
    """Stack sequences of rows into one matrix, as from `as_matrix`, and the offsets of each.

    A list, tuple, 1-D object array or 3-D array holds one matrix per sequence, all dense or all
    sparse; `Sequences` are stacked already. With `lengths`, or as one 2-D array or sparse matrix,
    `X` is already stacked; without `lengths` that is one sequence. Sequence i has the rows
    ``offsets[i]:offsets[i + 1]``. Errors call the first sequence of a list by the number `first`.
    Sequences without rows or of different widths are refused, dense ones beside sparse ones, and
    `lengths` that do not fit.

    Examples
    --------
    >>> as_sequences([[[1, 2]], [[3, 4], [5, 6]]])
    (array([[1., 2.],
           [3., 4.],
           [5., 6.]]), array([0, 1, 3]))
    """
    if isinstance(X, Sequences) and lengths is None:
        matrix, offsets = _as_layout(X.matrix, name), X.offsets
    elif holds_sequences(X, lengths):
        matrix, offsets = _stack(X, name, first)
    else:
        matrix = _as_layout(X, name)
        offsets = as_offsets(lengths, matrix.shape[0], name)
    check_finite(matrix, name, offsets, first=first)
    return matrix, offsets


def holds_sequences(X: Any, lengths: ArrayLike | None = None) -> bool:
    """Whether `as_sequences` takes the items of `X` as sequences, not `X` as one stacked matrix."""
    if lengths is not None:
        return False
    return isinstance(X, list | tuple | Sequences) or (
        isinstance(X, np.ndarray) and (X.ndim == 3 or (X.ndim == 1 and X.dtype == object))
    )


def _as_layout(X: Any, name: str) -> Matrix:
    if not sp.issparse(X):
        X = as_numbers(X, name)
    _check_shape(X.shape, name)
    return _as_csr(X, name) if sp.issparse(X) else X


def as_numbers(X: Any, name: str, order: Literal["C"] | None = "C") -> np.ndarray:
    """Real numbers of any shape as float32 or float64, finite or not."""
    # The overhead of check_array would add up over many short sequences.
    if type(X) is np.ndarray and X.dtype in _FLOATS:
        return np.asarray(X, order=order)
    check_unmasked(X, name)
    if X is None:
        raise InvalidType(f"{name} is None: give numbers, as an array or in lists")
    kind = getattr(getattr(X, "dtype", None), "kind", None)
    if kind == "c":
        raise _complex(name)
    if kind in ("m", "M"):
        raise InvalidType(
            f"{name} holds dates or durations ({X.dtype}); convert them to numbers, e.g. days "
            "since the first"
        )
    try:
        return check_array(
            X,
            accept_sparse="csr",
            dtype=_FLOATS,
            order=order,
            ensure_all_finite=False,
            ensure_2d=False,
            allow_nd=True,
            ensure_min_samples=0,
            ensure_min_features=0,
            input_name=name,
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise _explain(X, name, error) from error


def _explain(X: Any, name: str, error: Exception) -> InvalidData:
    """Find what keeps `X` from being an array of numbers."""
    try:
        cells = np.asarray(X, dtype=object)
    except ValueError:
        return InvalidData(f"{name} is ragged: {error}; give all rows the same length")
    sizes = [np.size(row) for row in cells] if cells.ndim == 1 else []
    for row, size in enumerate(sizes):
        if size != sizes[0]:
            return InvalidData(
                f"{name} is ragged: row {row} has {size} values, row 0 has {sizes[0]}; "
                "give all rows the same length"
            )
    if cells.ndim == 0 and isinstance(X, Iterable) and not isinstance(X, str | bytes):
        later = "; data that come part by part are a taut.data.Stream" * isinstance(X, Iterator)
        return InvalidType(
            f"{name} is a {type(X).__name__}: give an array, a sparse matrix, a data frame or a "
            f"list{later}"
        )
    for index, value in np.ndenumerate(cells):
        place = f"{name}[{', '.join(map(str, index))}]" if index else name
        if isinstance(value, complex | np.complexfloating):
            return _complex(place)
        try:
            float(value)
        except (ValueError, OverflowError):
            return InvalidData(
                f"{place} = {show(value)} cannot be read as a number; encode text as numbers, "
                "e.g. with sklearn.preprocessing.OneHotEncoder"
            )
        except TypeError:
            return InvalidType(
                f"{place} is of type {type(value).__name__}: each argument must be a string or a "
                "real number; convert it to numbers"
            )
    kind = InvalidType if isinstance(error, TypeError) else InvalidData
    return kind(f"{name} cannot be read as numbers: {error}; pass a numeric array")


def _complex(place: str) -> InvalidData:
    return InvalidData(
        f"Complex data not supported: {place} is complex; pass real and imaginary parts as "
        "separate features"
    )


def check_unmasked(X: Any, name: str) -> None:
    """Refuse arrays of which values are masked."""
    if np.ma.is_masked(X):
        row = int(np.nonzero(np.ma.getmaskarray(X))[0][0])
        raise InvalidData(
            f"{name} has masked values, the first at row {row}; drop or impute such rows"
        )


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    if len(shape) < 2:
        raise InvalidData(
            f"Expected 2D array for {name}, got {len(shape)}D array of shape {shape}. Reshape your "
            f"data using {name}.reshape(-1, 1) if it has a single feature or "
            f"{name}.reshape(1, -1) if it has a single row"
        )
    if len(shape) > 2:
        raise InvalidData(
            f"{name} has {len(shape)} dimensions (shape={shape}), expected 2; flatten the features "
            f"of a row, e.g. {name}.reshape(len({name}), -1)"
        )
    for axis, unit in enumerate(("sample(s)", "feature(s)")):
        if shape[axis] == 0:
            raise InvalidData(
                f"Found {name} with 0 {unit} (shape={shape}) while a minimum of 1 is required; "
                "check the selection or the file that it comes from"
            )


def _as_csr(X: Any, name: str) -> sp.csr_array | sp.csr_matrix:
    if X.shape[1] > MAX_FEATURES:
        raise InvalidData(
            f"{name} has {X.shape[1]} features, more than {MAX_FEATURES}; renumber or hash them"
        )
    given = X.format
    # Numbers first: small integers would wrap around where duplicates are summed.
    data = as_numbers(X.data, f"{name}.data") if given in ("csr", "csc", "bsr", "coo") else None
    # A new object on the same memory: the caller's stays as it is, flags that scipy has stored
    # about the order of indices are not believed, and scipy checks the lengths of the arrays.
    try:
        if given == "coo":
            X = type(X)((data, (X.row, X.col)), shape=X.shape)
        elif data is not None:
            X = type(X)((data, X.indices, X.indptr), shape=X.shape)
            if given != "csr":
                X.check_format()
        X = X.tocsr()
    except ValueError as error:
        raise InvalidData(f"{name} is not valid {given.upper()}: {error}; rebuild it") from error
    _check_indices(X, name)
    X.data = as_numbers(X.data, f"{name}.data")
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return _with_plain_indices(X)


def _check_indices(X: sp.csr_array | sp.csr_matrix, name: str) -> None:
    indptr, indices = X.indptr, X.indices
    falling = indptr[1:] < indptr[:-1]
    if falling.any():
        raise InvalidData(
            f"{name} is not valid CSR: indptr decreases at row {np.argmax(falling)}; rebuild it"
        )
    if X.nnz and (indices.min() < 0 or indices.max() >= X.shape[1]):
        k = int(np.argmax((indices < 0) | (indices >= X.shape[1])))
        raise InvalidData(
            f"{name} has the column index {indices[k]} at row {_row_of(k, indptr)}, outside "
            f"0..{X.shape[1] - 1}; count columns from 0 and give {name} a shape that holds them"
        )


def _with_plain_indices(X: sp.csr_array | sp.csr_matrix) -> sp.csr_array | sp.csr_matrix:
    X.indices = np.ascontiguousarray(X.indices, dtype=np.int32)
    X.indptr = np.ascontiguousarray(X.indptr)
    return X


def _row_of(k: int, offsets: np.ndarray) -> int:
    return int(np.searchsorted(offsets, k, side="right")) - 1


def check_finite(X: Any, name: str, offsets: np.ndarray | None = None, *, first: int = 0) -> None:
    """Refuse NaN, infinity and what would soon overflow.

    With offsets, errors name the sequence that it is in. `first` is what errors call the first row,
    or the first sequence if there are offsets.
    """
    sparse = sp.issparse(X)
    values = (X.data if sparse else X).reshape(-1)
    limit = largest(values.dtype)
    # The sum of squares is read off faster than the two ends, and a mask would take memory.
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.dot(values, values) if values.dtype.kind == "f" else np.inf
    if squares <= limit * limit:
        return
    if len(values) == 0 or (values.max() <= limit and values.min() >= -limit):
        return
    k = _first_beyond(values, limit)
    if sparse:
        row, place = _row_of(k, X.indptr), f", column {X.indices[k]}"
    elif X.ndim == 2:
        row, column = divmod(k, X.shape[1])
        place = f", column {column}"
    else:
        row, place = k, ""
    if offsets is None:
        place = f"row {first + row}{place}"
    else:
        i = _row_of(row, offsets)
        place = f"sequence {first + i}, row {row - offsets[i]}{place}"
    if np.isnan(values[k]):
        raise InvalidData(f"{name} contains NaN at {place}; drop or impute such rows")
    if np.isfinite(values[k]):
        raise InvalidData(
            f"{name} contains {values[k]:g}, too large to compute with in {values.dtype}, at "
            f"{place}; at most {limit:g}: drop, clip or rescale such rows"
        )
    raise InvalidData(
        f"{name} contains infinity or a value too large for {values.dtype} at {place}; "
        "drop, clip or rescale such rows"
    )


def _first_beyond(values: np.ndarray, largest: float, chunk: int = 1 << 16) -> int:
    """Where the first value is that is not within bounds; there is one."""
    starts = range(0, len(values), chunk)
    masks = (~(np.abs(values[start : start + chunk]) <= largest) for start in starts)
    return next(start + int(np.argmax(mask)) for start, mask in zip(starts, masks) if mask.any())


def _stack(X: Sequence[Any], name: str, start: int) -> tuple[Matrix, np.ndarray]:
    if len(X) == 0:
        raise InvalidData(f"{name} has no sequences; pass at least one")
    parts = [_as_sequence(x, f"{name}[{i}]") for i, x in enumerate(X, start)]
    first = parts[0]
    for i, part in enumerate(parts, start):
        if sp.issparse(part) != sp.issparse(first):
            kinds = ["sparse" if sp.issparse(x) else "dense" for x in (part, first)]
            raise InvalidData(
                f"{name}[{i}] is {kinds[0]}, {name}[{start}] is {kinds[1]}; "
                "make all dense or all sparse"
            )
        if part.shape[1] != first.shape[1]:
            raise InvalidData(
                f"{name}[{i}] has {part.shape[1]} features, {name}[{start}] has {first.shape[1]}; "
                "give all sequences the same features"
            )
    offsets = offsets_of([part.shape[0] for part in parts])
    if sp.issparse(first):
        return _with_plain_indices(sp.vstack(parts, format="csr")), offsets
    dtype = np.result_type(*{part.dtype for part in parts})
    # Left alone, concatenate would keep Fortran order where all parts have it.
    stacked = np.empty((offsets[-1], first.shape[1]), dtype)
    return np.concatenate(parts, out=stacked), offsets


def _as_sequence(x: Any, name: str) -> Matrix:
    if not sp.issparse(x):
        x = as_numbers(x, name, order=None)
    if x.ndim and x.shape[0] == 0:
        raise InvalidData(f"{name} has zero length; drop it and its labels")
    if x.ndim < 2:
        raise InvalidData(
            f"{name} has shape {x.shape}, expected (length, n_features); pass a list of matrices, "
            "or one stacked array with lengths"
        )
    _check_shape(x.shape, name)
    return _as_csr(x, name) if sp.issparse(x) else x


def as_offsets(lengths: ArrayLike | None, n_rows: int, name: str = "X") -> np.ndarray:
    """Where each sequence of a stacked matrix begins, and the last one ends."""
    if lengths is None:
        lengths = [n_rows]
    try:
        sizes = np.asarray(lengths)
    except ValueError as error:
        raise InvalidData(f"lengths is ragged: {error}; pass one integer per sequence") from error
    if sizes.ndim != 1 or len(sizes) == 0 or sizes.dtype.kind not in "iu":
        raise InvalidData(
            f"lengths has dtype {sizes.dtype} and shape {sizes.shape}; pass one integer per "
            "sequence in one dimension"
        )
    if sizes.min() < 1:
        i = int(np.argmax(sizes < 1))
        raise InvalidData(
            f"lengths[{i}] = {sizes[i]}, but a sequence has at least one row; drop it"
        )
    # Python's integers: a sum that wraps around could agree by accident.
    total = sum(sizes.tolist())
    if total != n_rows:
        raise InvalidData(f"lengths sum to {total}, {name} has {n_rows} rows; make them agree")
    return offsets_of(sizes)


def offsets_of(sizes: ArrayLike) -> np.ndarray:
    """Where each of some runs of these sizes begins, and the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """All positions starts[i], ..., starts[i] + sizes[i] - 1, one range after the other."""
    if len(sizes) == 0:
        return np.empty(0, dtype=np.int64)
    ends = np.cumsum(sizes)
    return np.arange(ends[-1]) + np.repeat(starts - ends + sizes, sizes)


def one_array(parts: Sequence[np.ndarray]) -> np.ndarray:
    """All rows of some arrays, without a copy where they lie one behind the other in memory."""
    first, base = parts[0], parts[0].base
    starts = [part.ctypes.data for part in parts]
    ends = [part.ctypes.data + part.nbytes for part in parts]
    of_one = base is not None and base.flags.c_contiguous and base.dtype == first.dtype
    in_row = starts[1:] == ends[:-1] and all(part.base is base for part in parts)
    if base is None or not (of_one and in_row):
        return first if len(parts) == 1 else np.concatenate(parts)
    begin = (starts[0] - base.ctypes.data) // first.itemsize
    size = sum(part.size for part in parts)
    return base.reshape(-1)[begin : begin + size].reshape(-1, *first.shape[1:])


def show(value: Any) -> str:
    """A value as it is typed: numpy scalars without their wrapping."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def take_runs(offsets: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the members of some runs, and the offsets of these runs alone."""
    sizes = np.diff(offsets)[which]
    return ranges(offsets[which], sizes), offsets_of(sizes)


def take_rows(rows: tuple[np.ndarray, ...], which: np.ndarray) -> tuple[np.ndarray, ...]:
    """A copy of some rows of a dense matrix, `(X,)`, or of CSR, `(data, indices, indptr)`."""
    if len(rows) == 1:
        return (np.take(rows[0], which, axis=0),)
    members, indptr = take_runs(rows[2], which)
    return rows[0][members], rows[1][members], indptr
