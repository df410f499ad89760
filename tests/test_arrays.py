"""Input becomes the promised arrays, or an error that names argument, row and remedy."""

import tracemalloc
from collections import namedtuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import DataConversionWarning

from taut.data.arrays import as_matrix, as_sequences
from taut.data.labels import as_label_sequences, class_index
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData, InvalidType
from taut.storage.stored import LARGEST

NAN, INF = float("nan"), float("inf")
FOUR = [[1, 2], [3, 4]]
FORMATS = ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"]
NUMBERS = st.floats(-1e6, 1e6) | st.just(0.0)
DENSE = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2), elements=NUMBERS)


def csr(data, indices, indptr, shape, kind=sp.csr_array):
    """CSR with these very arrays, however wrong."""
    X = kind(shape)
    X.data, X.indices, X.indptr = map(np.array, (data, indices, indptr))
    return X


def assert_csr(X):
    assert X.format == "csr"
    assert X.indices.dtype == np.int32
    assert X.data.dtype in (np.float32, np.float64)
    fresh = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    fresh.check_format()
    assert fresh.has_canonical_format


# as_matrix


@pytest.mark.parametrize(
    "X",
    [
        [[1, 2], [3, 4]],
        ((1, 2), (3, 4)),
        np.array([[1, 2], [3, 4]], dtype=np.uint8),
        np.array([[1, 2], [3, 4]], dtype=np.float16),
        np.array([[1, 2], [3, 4]], dtype=object),
        np.array([["1", "2"], ["3", "4"]]),
        np.asfortranarray([[1.0, 2], [3, 4]]),
        np.array([[1.0, 2], [3, 4]], dtype=">f8"),
        np.arange(1.0, 9).reshape(2, 4)[:, :2] * 0 + [[1, 2], [3, 4]],
        np.ma.masked_array([[1, 2], [3, 4]]),
    ],
)
def test_numbers_become_contiguous_float64(X):
    found = as_matrix(X)
    assert type(found) is np.ndarray
    assert found.dtype == np.float64
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, FOUR)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_right_arrays_are_not_copied(dtype, tmp_path):
    X = np.ones((3, 2), dtype)
    assert as_matrix(X) is X
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    found = as_matrix(mapped)
    assert np.shares_memory(found, mapped)
    assert found.dtype == dtype
    for kind in (sp.csr_array, sp.csr_matrix):
        S = kind(X)
        found = as_matrix(S)
        assert type(found) is kind
        assert found.dtype == dtype
        for part in ("data", "indices", "indptr"):
            assert np.shares_memory(getattr(found, part), getattr(S, part))


@given(DENSE, st.sampled_from(FORMATS), st.booleans(), st.booleans(), st.booleans())
def test_sparse_equals_dense(X, form, matrix, wide, single):
    X = X.astype(np.float32) if single else X
    S = (sp.coo_matrix if matrix else sp.coo_array)(X).asformat(form)
    if wide and form in ("csr", "csc", "bsr"):
        S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    found = as_matrix(S)
    assert_csr(found)
    assert isinstance(found, sp.csr_matrix if matrix else sp.csr_array)
    assert found.dtype == X.dtype
    np.testing.assert_array_equal(found.toarray(), as_matrix(X))


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64])
def test_sparse_integers_become_float64(dtype):
    assert as_matrix(sp.csr_array(np.eye(2, dtype=dtype))).dtype == np.float64


def test_the_callers_sparse_matrix_stays_as_it_is():
    S = csr([1, 1, 9], [0, 1, 7], [0, 1, 2], (2, 2))
    S.indices = S.indices.astype(np.int64)
    data, indices, indptr = S.data, S.indices, S.indptr
    found = as_matrix(S)
    assert_csr(found)
    assert found.nnz == 2
    assert S.data is data
    assert S.indices is indices
    assert S.indptr is indptr


def test_strided_parts_become_contiguous():
    S = sp.csr_array(np.eye(3))
    for part in ("data", "indices", "indptr"):
        setattr(S, part, np.repeat(getattr(S, part), 2)[::2])
    found = as_matrix(S)
    assert all(getattr(found, part).flags.c_contiguous for part in ("data", "indices", "indptr"))
    np.testing.assert_array_equal(found.toarray(), np.eye(3))


def test_duplicates_of_coo_are_summed():
    found = as_matrix(sp.coo_array(([1, 2], ([0, 0], [1, 1])), shape=(1, 2)))
    np.testing.assert_array_equal(found.toarray(), [[0, 3]])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1, 2], [3, NAN]], r"Z contains NaN at row 1, column 1; drop or impute"),
        ([[1, 2], [-INF, NAN]], r"Z contains infinity .* at row 1, column 0; drop, clip"),
        (np.array([[1, INF], [-INF, 0]]), r"infinity .* at row 0, column 1"),
        (np.float32([[1, 2], [3, NAN]]), r"NaN at row 1, column 1"),
        ([[None, 1]], r"NaN at row 0, column 0"),
        (sp.csr_array([[0, 1], [0, NAN]]), r"NaN at row 1, column 1"),
        (sp.csc_array([[0, 1], [INF, 0]]), r"infinity .* at row 1, column 0"),
        (np.longdouble([[1, 2]]) * np.longdouble("1e4000"), r"infinity|too large"),
        ([[1, 10**400]], r"Z\[0, 1\] = 1000.* cannot be read as a number"),
        (np.ones((2, 2)) * 1j, r"Complex data not supported: Z"),
        ([[1, 2j]], r"Complex data not supported: Z\[0, 1\]"),
        (sp.csr_array([[1j]]), r"Complex data not supported: Z"),
        ([["a", "b"]], r"Z\[0, 0\] = 'a' cannot be read as a number; encode"),
        (np.array([[1, 2], [3, "x"]], dtype=object), r"Z\[1, 1\] = 'x'"),
        (np.array([["2020"]], dtype="M8[D]"), r"Z holds dates"),
        (np.ma.masked_array([[1, 2], [3, 4]], [[0, 0], [0, 1]]), r"masked .* row 1; drop"),
        (np.empty((0, 3)), r"Z with 0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1"),
        (np.empty((12, 0)), r"0 feature\(s\) \(shape=\(\d*, 0\)\) while a minimum of \d* is req"),
        (sp.csr_array((0, 3)), r"0 sample\(s\)"),
        (sp.csr_array((3, 0)), r"0 feature\(s\)"),
        ([], r"Reshape your data"),
        (3, r"Expected 2D array for Z, got 0D .* Reshape your data"),
        ([1, 2], r"Expected 2D array for Z, got 1D .* Reshape your data"),
        (sp.coo_array(np.ones(3)), r"got 1D .* Reshape your data"),
        (np.ones((2, 2, 2)), r"Z has 3 dimensions .*Z\.reshape\(len\(Z\), -1\)"),
        ([[1, 2], [3]], r"Z is ragged: row 1 has 1 values, row 0 has 2; give all rows"),
        ([[1, 2], 3], r"Z is ragged: row 1"),
        ([np.ones((2, 3)), np.ones((2, 4))], r"Z is ragged"),
        (np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), r"Z"),
        (np.asmatrix(np.eye(2)), r"Z.* np.matrix is not supported"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_bad_matrices_are_refused(X, message):
    with pytest.raises(InvalidData, match=message):
        as_matrix(X, "Z")


def test_objects_are_refused_as_scikit_learn_expects():
    X = np.ones((4, 2)).astype(object)
    X[2, 1] = {"foo": "bar"}
    with pytest.raises(TypeError, match=r"argument must be .* string.* number") as caught:
        as_matrix(X)
    assert "X[2, 1]" in str(caught.value)
    assert isinstance(caught.value, InvalidData)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([1.0, 1, 1], [2, 0, 3], [0, 1, 3]), r"column index 3 at row 1, outside 0\.\.2; count"),
        (([1.0, 1, 1], [2, -1, 1], [0, 1, 3]), r"column index -1 at row 1"),
        (([1.0, 1, 1], [0, 2**40, 1], [0, 1, 3]), r"column index 1099511627776 at row 1"),
        (([1.0, 1, 1], [0, 1, 2], [0, 4, 3]), r"indptr decreases at row 1; rebuild"),
        (([1.0, 1, 1], [0, 1, 2], [0, -1, 3]), r"indptr decreases at row 0"),
        (([1.0, 1, 1], [0, 1, 2], [0, 1, 4]), r"Z is not valid CSR"),
        (([1.0, 1, 1], [0, 1, 2], [1, 1, 3]), r"Z is not valid CSR"),
        (([1.0, 1, 1], [0, 1, 2], [0, 3]), r"Z is not valid CSR"),
        (([1.0, 1], [0, 1, 2], [0, 1, 2]), r"Z is not valid CSR"),
    ],
)
def test_bad_csr_is_refused(kind, arrays, message):
    with pytest.raises(InvalidData, match=message):
        as_matrix(csr(*arrays, shape=(2, 3), kind=kind), "Z")


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("believed", [False, True])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
def test_unsorted_and_duplicate_indices_are_put_in_order(kind, believed, dtype):
    arrays = [200, 100, 7, 3], [2, 2, 0, 1], [0, 0, 3, 3, 4]
    S = csr(*arrays, (4, 3), kind)
    S.data = S.data.astype(dtype)
    if believed:
        S.has_sorted_indices = S.has_canonical_format = True
    found = as_matrix(S)
    assert_csr(found)
    assert isinstance(found, kind)
    expected = [[0, 0, 0], [7, 0, 300], [0, 0, 0], [0, 3, 0]]
    np.testing.assert_array_equal(found.toarray(), expected)
    for part, before in zip((S.data, S.indices, S.indptr), arrays, strict=True):
        np.testing.assert_array_equal(part, before)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_duplicates_are_summed_in_any_format(form):
    S = sp.coo_array(([200, 100, 1], ([1, 1, 0], [0, 0, 1])), shape=(2, 2), dtype=np.uint8)
    if form != "coo":
        kind = sp.csr_array if form == "csr" else sp.csc_array
        indices, indptr = ([1, 0, 0], [0, 1, 3]) if form == "csr" else ([1, 1, 0], [0, 2, 3])
        data = [1, 200, 100] if form == "csr" else [200, 100, 1]
        S = kind((np.array(data, np.uint8), indices, indptr), shape=(2, 2))
    np.testing.assert_array_equal(as_matrix(S).toarray(), [[0, 1], [300, 0]])


@pytest.mark.parametrize("form", ["csc", "bsr", "coo"])
def test_bad_indices_of_other_formats_are_refused_before_conversion(form):
    S = sp.coo_array(np.eye(3)).asformat(form)
    if form == "coo":
        S.coords = (np.array([0, 1, 2]), np.array([0, 1, 10**6]))
    else:
        S.indices[0] = 10**6
    with pytest.raises(InvalidData, match=f"X is not valid {form.upper()}"):
        as_matrix(S)


def test_too_many_features_are_refused():
    wide = sp.coo_array(([1.0], ([0], [2**31])), shape=(1, 2**31 + 1))
    with pytest.raises(InvalidData, match="renumber or hash"):
        as_matrix(wide)
    widest = sp.coo_array(([1.0], ([0], [2**31 - 2])), shape=(1, 2**31 - 1))
    assert_csr(as_matrix(widest))


def test_the_largest_values_that_can_be_computed_with_pass():
    X = np.full((2, 2), LARGEST)
    assert as_matrix(X) is X


def test_the_check_of_values_takes_little_memory():
    X = np.zeros((1 << 12, 1 << 10), dtype=np.float32)
    X[-1, -1] = np.nan
    tracemalloc.start()
    with pytest.raises(InvalidData, match="row 4095, column 1023"):
        as_matrix(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < X.nbytes / 16


# as_sequences


SEQUENCES = st.tuples(
    st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(1, 3), st.integers(0, 99)
)


@given(SEQUENCES, st.booleans(), st.sampled_from(["C", "F"]))
def test_a_list_equals_its_stack(case, sparse, order):
    lengths, width, seed = case
    stacked = np.random.default_rng(seed).integers(0, 3, (sum(lengths), width)).astype(float)
    parts = [np.array(x, order=order) for x in np.split(stacked, np.cumsum(lengths)[:-1])]
    if sparse:
        parts, stacked = [sp.csr_array(x) for x in parts], sp.csr_array(stacked)
    matrix, offsets = as_sequences(parts)
    other, same = as_sequences(stacked, lengths)
    assert offsets.dtype == np.int64
    np.testing.assert_array_equal(offsets, [0, *np.cumsum(lengths)])
    np.testing.assert_array_equal(offsets, same)
    if sparse:
        assert_csr(matrix)
        matrix, other = matrix.toarray(), other.toarray()
    assert matrix.flags.c_contiguous
    np.testing.assert_array_equal(matrix, other)


def test_containers_of_sequences():
    parts = [np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)]
    objects = np.empty(2, dtype=object)
    objects[:] = parts
    for X in (parts, tuple(parts), objects, np.stack(parts), np.stack(parts).astype(object)):
        matrix, offsets = as_sequences(X)
        np.testing.assert_array_equal(matrix, np.ones((4, 3)))
        np.testing.assert_array_equal(offsets, [0, 2, 4])
    assert as_sequences(parts)[0].dtype == np.float32
    assert as_sequences([parts[0], [[1, 2, 3]]])[0].dtype == np.float64
    rows = [[1, 2], [3, 4], [5, 6]]
    np.testing.assert_array_equal(as_sequences(rows, [1, 2])[1], [0, 1, 3])
    np.testing.assert_array_equal(as_sequences(np.array(rows))[1], [0, 3])


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
def test_sparse_sequences_keep_their_kind(kind):
    matrix, _ = as_sequences([kind(np.eye(2, dtype=np.float32)), kind(np.eye(2))])
    assert type(matrix) is kind
    assert matrix.dtype == np.float64


@pytest.mark.parametrize(
    ("X", "lengths", "message"),
    [
        ([], None, r"X has no sequences"),
        ([np.ones((2, 3)), np.ones((0, 3))], None, r"X\[1\] has zero length; drop it"),
        ([[[1, 2]], []], None, r"X\[1\] has zero length"),
        ([sp.csr_array((2, 3)), sp.csr_array((0, 3))], None, r"X\[1\] has zero length"),
        ([np.ones((2, 3)), np.ones((2, 4))], None, r"X\[1\] has 4 features, X\[0\] has 3; give"),
        ([np.ones((2, 3)), sp.csr_array((2, 3))], None, r"X\[1\] is sparse, X\[0\] is dense; make"),
        ([np.ones((2, 0))], None, r"X\[0\] with 0 feature"),
        ([np.ones((2, 2)), [[1, 2], [3]]], None, r"X\[1\] is ragged: row 1"),
        ([np.ones((2, 2)), [["a", 1]]], None, r"X\[1\]\[0, 0\] = 'a'"),
        ([np.ones((2, 2)), [[1, 2], [NAN, 1]]], None, r"X .*NaN at sequence 1, row 1, column 0"),
        ([sp.eye_array(2), sp.csr_array([[0, INF]])], None, r"sequence 1, row 0, column 1"),
        ([[1, 2], [3, 4]], None, r"X\[0\] has shape \(2,\), expected \(length, n_features\)"),
        ([1, 2], None, r"X\[0\] has shape \(\)"),
        ([csr([1.0, 1], [1, 5], [0, 2], (1, 2))], None, r"X\[0\] has the column index 5"),
        (np.array([[1], [2], [NAN]]), [1, 2], r"NaN at sequence 1, row 1, column 0"),
        (np.ones((3, 1)), [1, 1], r"lengths sum to 2, X has 3 rows"),
        (np.ones((3, 1)), [2**62] * 3 + [2**62 + 3], r"lengths sum to"),
        (np.ones((3, 1)), [3, 0], r"lengths\[1\] = 0, .* drop it"),
        (np.ones((3, 1)), [4, -1], r"lengths\[1\] = -1"),
        (np.ones((3, 1)), [1.0, 2.0], r"lengths has dtype float64 .* one integer per sequence"),
        (np.ones((3, 1)), [True, True, True], r"lengths has dtype bool"),
        (np.ones((3, 1)), [], r"lengths has"),
        (np.ones((3, 1)), np.array([], int), r"lengths has"),
        (np.ones((3, 1)), 3, r"lengths has .* shape \(\)"),
        (np.ones((3, 1)), [[1], [1, 1]], r"lengths is ragged"),
        (np.ones(3), None, r"Reshape your data"),
    ],
)
def test_bad_sequences_are_refused(X, lengths, message):
    with pytest.raises(InvalidData, match=message):
        as_sequences(X, lengths)


# as_label_sequences


@pytest.mark.parametrize(
    ("y", "flat"),
    [
        ([["a", "b"], ["c"]], ["a", "b", "c"]),
        ((("a", "b"), ("c",)), ["a", "b", "c"]),
        (["a", "b", "c"], ["a", "b", "c"]),
        ([("a", 1), ("b", 2), ("c", 3)], [("a", 1), ("b", 2), ("c", 3)]),
        ([[("a", 1), ("b", 2)], [("c", 3)]], [("a", 1), ("b", 2), ("c", 3)]),
        ([["a", 1], [None]], ["a", 1, None]),
        ([np.array([1, 2]), np.array(["a"])], [1, 2, "a"]),
        ([np.array([1, 2]), [3]], [1, 2, 3]),
    ],
)
def test_labels_are_flattened(y, flat):
    found = as_label_sequences(y, np.array([0, 2, 3]))
    assert found.shape == (3,)
    assert found.tolist() == flat
    objects = np.empty(len(y), dtype=object)
    for i, item in enumerate(y):
        objects[i] = item
    assert as_label_sequences(objects, np.array([0, 2, 3])).tolist() == flat


def test_typed_labels_stay_typed():
    offsets = np.array([0, 2, 4])
    y = np.array([1, 2, 3, 4], dtype=np.int16)
    for form in (y, y.reshape(2, 2), [y[:2], y[2:]]):
        found = as_label_sequences(form, offsets)
        assert found.dtype == np.int16
        np.testing.assert_array_equal(found, y)
    assert as_label_sequences([np.array(["a"] * 2), np.array(["bb"] * 2)], offsets).dtype == "U2"


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([["a"], ["c"]], r"y\[0\] has 1 labels, X\[0\] has 2 rows"),
        ([["a", "b"], []], r"y\[1\] has 0 labels, X\[1\] has 1 rows"),
        ([["a", "b"]], r"y has 1 entries, X has 3 rows in 2 sequences; pass"),
        (["a", "b"], r"y has 2 entries"),
        (["ab", "c"], r"y has 2 entries"),
        ([], r"y has 0 entries"),
        ([["a", "b"], "c"], r"y\[1\] is 'c'; pass a list of 1 labels, one per row of X\[1\]"),
        ([["a", "b"], 3], r"y\[1\] is 3; pass a list"),
        ([np.ones((2, 1)), np.ones((1, 1))], r"y\[0\] has shape \(2, 1\)"),
        (np.ones((3, 2)), r"y: .*1d array"),
        (None, r"Expected array-like .*, got None for y"),
        ("abc", r"Expected array-like"),
    ],
)
def test_labels_that_do_not_fit_are_refused(y, message):
    with pytest.raises(InvalidData, match=message):
        as_label_sequences(y, np.array([0, 2, 3]))


# class_index


WHOLE = st.integers(-(2**53), 2**53).map(float)
LABELS = st.recursive(
    st.none() | st.booleans() | st.integers() | WHOLE | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)


@given(st.lists(LABELS) | st.lists(st.text(max_size=2)) | st.lists(st.integers()) | st.lists(WHOLE))
def test_classes_of_any_labels(y):
    if len(set(y)) < 2:
        with pytest.raises(InvalidData, match=rf"at least 2 classes, got {len(set(y))} class"):
            class_index(y)
        return
    classes, codes = class_index(y)
    assert codes.dtype == np.int32
    assert len(classes) == len(set(y))
    assert [classes.tolist()[code] for code in codes] == y
    try:
        assert classes.tolist() == sorted(set(y))
    except TypeError:
        assert classes.tolist() == list(dict.fromkeys(y))


@given(hnp.arrays(st.sampled_from([np.int8, np.int64, np.uint64, "U3", bool]), 9))
def test_arrays_keep_their_dtype(y):
    if len(np.unique(y)) > 1:
        classes, codes = class_index(y)
        assert classes.dtype == y.dtype
        np.testing.assert_array_equal(classes, np.unique(y))
        np.testing.assert_array_equal(classes[codes], y)


@pytest.mark.parametrize(
    ("least", "dtype"),
    [(-128, np.int8), (200, np.uint8), (-(2**63), np.int64), (2**64 - 60, np.uint64), (7, ">i4")],
)
def test_integers_close_together_are_numbered_as_by_sorting(least, dtype):
    """At the ends of their ranges too, where differences wrap around."""
    places = np.delete(np.arange(56), 3)[np.arange(110) * 7 % 55]
    y = np.array([least + int(place) for place in places], dtype=dtype)
    classes, codes = class_index(y)
    assert classes.dtype == y.dtype
    assert classes.tolist() == np.unique(y).tolist()
    assert classes[codes].tolist() == y.tolist()


@pytest.mark.parametrize(
    ("y", "dtype"),
    [
        (["b", "a"], "U1"),
        ([2, 1], np.int64),
        ([True, False], bool),
        ([np.int8(1), np.int8(0)], np.int8),
        (np.array(["b", "a"], dtype=object), "U1"),
        (["a\0", "a"], object),
        ([2**70, 1], object),
        ([-1, 2**63], object),
        ([1, 2.0], object),
        ([1, "a"], object),
        ([(1, 2), (0, 1)], object),
        ([namedtuple("Point", "x y")(1, 2), (0, 1)], object),
    ],
)
def test_classes_are_typed_where_that_is_exact(y, dtype):
    classes, codes = class_index(y)
    assert classes.dtype == dtype
    assert classes.shape == (2,)
    assert [classes[code] for code in codes] == list(y)


@pytest.mark.parametrize(
    "y",
    [
        [0.0, NAN, 1.0],
        np.array([0.0, NAN]),
        np.array([0, NAN], dtype=object),
        [("a", 1), ("a", NAN)],
        np.array(["2020-01-01", "NaT"], dtype="M8[D]"),
    ],
)
def test_missing_labels_are_refused(y):
    with pytest.raises(InvalidData, match=r"t\[1\] is or contains NaN; drop"):
        class_index(y, "t")


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a", "a"], r"t needs at least 2 classes, got 1 class: 'a'; add"),
        (np.ones(3), r"got 1 class: 1\.0"),
        (np.array([0.0, INF]), r"Input t contains infinity at row 1"),
        ([0, 1, 0.25], r"Unknown label type: t\[2\] = 0.25 is continuous"),
        (np.array([0.5, 1], np.float32), r"Unknown label type: t\[0\] = 0.5"),
        ([], r"got 0 classes"),
        (None, r"Expected array-like \(array or non-string sequence\), got None"),
        ("abc", r"Expected array-like"),
        (3, r"Expected array-like"),
        (np.array(3), r"Expected array-like"),
        ({1, 2}, r"Expected array-like"),
        ({1: 2}, r"Expected array-like"),
        (np.ones((2, 2)), r"t: .*1d array"),
        (["a", ["b"]], r"t\[1\] is of type list, which is not hashable; use tuples"),
        (np.ma.masked_array([1, 2, 3], [0, 0, 1]), r"t has masked values, the first at row 2"),
    ],
)
def test_bad_labels_are_refused(y, message):
    with pytest.raises(InvalidData, match=message):
        class_index(y, "t")


def test_unhashable_labels_are_type_errors():
    with pytest.raises(InvalidType, match=r"y\[0\]"):
        class_index([{}])


def test_labels_need_only_be_array_like():
    class Labels:
        def __array__(self, dtype=None, copy=None):
            return np.array([2, 1, 2])

    assert class_index(Labels())[1].tolist() == [1, 0, 1]
    assert as_label_sequences(Labels(), np.array([0, 3])).tolist() == [2, 1, 2]
    assert class_index(range(3))[0].dtype == np.int64


def test_a_column_of_labels_is_raveled_with_a_warning():
    with pytest.warns(DataConversionWarning, match="A column-vector y"):
        _, codes = class_index(np.array([[1], [2]]))
    assert codes.shape == (2,)


# check_sample_weight


@pytest.mark.parametrize(
    ("weight", "expected"),
    [(None, [1, 1]), (3, [3, 3]), (np.float32(0.5), [0.5, 0.5]), ([0, 2], [0, 2])],
)
def test_weights(weight, expected):
    found = check_sample_weight(weight, 2)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, 2, 3], r"cost has shape \(3,\), expected \(2,\); pass one weight per row"),
        ([[1, 2]], r"cost has shape \(1, 2\)"),
        ([1, NAN], r"cost contains NaN at row 1"),
        ([INF, 1], r"cost contains infinity .* at row 0"),
        (NAN, r"cost contains NaN"),
        ([1, -1], r"cost\[1\] = -1\.0 is negative; pass weights >= 0"),
        (-1, r"cost\[0\] = -1\.0 is negative"),
        ([0, 0], r"cost is zero everywhere"),
        (0, r"cost is zero everywhere"),
        (["a", 1], r"cost\[0\] = 'a' cannot be read"),
        ("a", r"cost = 'a' cannot be read"),
        ([1, 1j], r"Complex data not supported: cost\[1\]"),
    ],
)
def test_bad_weights_are_refused(weight, message):
    with pytest.raises(InvalidData, match=message):
        check_sample_weight(weight, 2, "cost")


# pandas


def test_pandas_frames_and_series():
    pd = pytest.importorskip("pandas")
    for frame in (
        pd.DataFrame({"a": [1, 3], "b": [2.0, 4.0]}),
        pd.DataFrame({"a": pd.array([1, 3], dtype="Int64"), "b": [2, 4]}),
        pd.DataFrame({"a": pd.arrays.SparseArray([1, 3], fill_value=0), "b": [2, 4]}).astype(
            pd.SparseDtype(float, 0)
        ),
    ):
        found = as_matrix(frame)
        np.testing.assert_array_equal(found.toarray() if sp.issparse(found) else found, FOUR)
    y = pd.Series(["b", "a", "b"])
    assert class_index(y)[0].dtype == "U1"
    assert as_label_sequences(y, np.array([0, 1, 3])).tolist() == ["b", "a", "b"]
    assert as_label_sequences([y[:1], y[1:]], np.array([0, 1, 3])).tolist() == ["b", "a", "b"]
    np.testing.assert_array_equal(check_sample_weight(pd.Series([1, 2]), 2), [1, 2])


def test_missing_values_of_pandas_are_refused():
    pd = pytest.importorskip("pandas")
    with pytest.raises(InvalidData, match="NaN at row 1, column 0"):
        as_matrix(pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}))
    with pytest.raises(InvalidData, match=r"X\[0, 0\] is of type Timestamp"):
        as_matrix(pd.DataFrame({"a": pd.to_datetime(["2020-01-01"]), "b": [1.0]}))
    for y in (pd.Series(["a", pd.NA]), [0, pd.NA], pd.Series(["a", None], dtype="string")):
        with pytest.raises(InvalidData, match=r"y\[1\] is or contains NaN"):
            class_index(y)
