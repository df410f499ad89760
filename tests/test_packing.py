"""Models in single precision and without zeros: what comes back, and what is still certified."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

import taut
from estimator_cases import CASES, CODES, SIGNS, X
from taut.errors import InvalidData, InvalidFile
from taut.estimators.packing import Packing, rounding_of, unpacked, widened
from taut.storage import files
from taut.structures import Multiclass

#: Columns that no row has keep weights of zero.
WIDE = np.hstack([X, np.zeros((len(X), 40))])
WEIGHTS = ("coef_", "intercept_", "transition_", "start_", "end_", "pairwise_", "dual_coef_")


@pytest.fixture(scope="module")
def models():
    of_kernel = taut.BinarySVM(kernel="rbf", gamma=0.7, random_state=0)
    online = taut.OnlineSVM(C=1.0, random_state=0)
    chain, X_chain, y_chain = CASES["chain"]
    return {
        "multiclass": (taut.MulticlassSVM(random_state=0).fit(WIDE, CODES), WIDE),
        "kernel": (of_kernel.fit(X, SIGNS), X),
        "chain": (chain.set_params(random_state=0).fit(X_chain, y_chain), X_chain),
        "online": (online.fit(X, SIGNS), X),
    }


def stored(model, path, **how):
    model.save(path, **how)
    return taut.load(path)


def all_equal(one, other):
    return all(map(np.array_equal, one, other))


@pytest.mark.parametrize("sparse", [True, "auto"])
@pytest.mark.parametrize("name", ["multiclass", "kernel", "chain", "online"])
def test_zeros_are_left_out_and_come_back(models, name, sparse, tmp_path):
    model, rows = models[name]
    again = stored(model, tmp_path / "m", sparse=sparse)
    for weights in WEIGHTS:
        assert hasattr(again, weights) == hasattr(model, weights)
        if hasattr(model, weights):
            assert_array_equal(getattr(again, weights), getattr(model, weights))
            assert getattr(again, weights).dtype == getattr(model, weights).dtype
    assert all_equal(again.predict(rows), model.predict(rows))
    assert getattr(again, "certificate_", None) == getattr(model, "certificate_", None)
    assert getattr(again, "primal_", None) == getattr(model, "primal_", None)


def test_auto_is_the_smallest_of_all(models, tmp_path):
    sizes = {}
    for name in ("multiclass", "chain"):
        for sparse in (False, True, "auto"):
            models[name][0].save(tmp_path / "m", sparse=sparse)
            tensors, _ = files.read(tmp_path / "m", "model")
            sizes[name, sparse] = sum(tensor.nbytes for tensor in tensors.values())
    assert sizes["multiclass", True] < sizes["multiclass", False]
    assert sizes["chain", False] < sizes["chain", True]
    for name in ("multiclass", "chain"):
        assert sizes[name, "auto"] <= min(sizes[name, True], sizes[name, False])


@pytest.mark.parametrize("sparse", [False, "auto"])
@pytest.mark.parametrize("name", ["multiclass", "kernel", "chain", "online"])
def test_single_precision_is_rounding_and_nothing_else(models, name, sparse, tmp_path):
    model, rows = models[name]
    before = {weights: np.copy(getattr(model, weights, 0)) for weights in WEIGHTS}
    again = stored(model, tmp_path / "m", dtype="float32", sparse=sparse)
    tensors, _ = files.read(tmp_path / "m", "model")
    for weights in WEIGHTS:
        if hasattr(model, weights):
            rounded = before[weights].astype(np.float32).astype(np.float64)
            assert_array_equal(getattr(again, weights), rounded)
            assert getattr(again, weights).dtype == np.float64
            assert not any(
                tensor.dtype == np.float64 for key, tensor in tensors.items() if weights in key
            )
            assert_array_equal(getattr(model, weights), before[weights])
    if name == "kernel":
        rounded = model.support_vectors_.astype(np.float32)
        assert_array_equal(again.support_vectors_, rounded.astype(np.float64))
    assert all_equal(again.predict(rows), model.predict(rows))


@pytest.mark.parametrize("name", ["multiclass", "kernel", "chain"])
def test_the_certificate_tells_of_rounding(models, name, tmp_path):
    model, _ = models[name]
    found = stored(model, tmp_path / "m", dtype="float32").certificate_
    given = model.certificate_
    assert given.exact
    assert not given.is_of_rounded
    assert found.is_of_rounded
    assert not found.exact
    assert (found.dual, found.primal, found.status) == (given.dual, given.primal, given.status)
    assert found.message.startswith(given.message)
    assert "rounded to float32" in found.message
    assert "about" in repr(found)
    assert "before they were rounded" in repr(found)
    # Whoever stores it again, in whatever precision, does not make it true again.
    again = taut.load(tmp_path / "m")
    assert stored(again, tmp_path / "n").certificate_ == found
    assert stored(again, tmp_path / "n", dtype="float32").certificate_ == found


def test_the_lower_bound_holds_for_rounded_weights(models, tmp_path):
    model, _ = models["multiclass"]
    again = stored(model, tmp_path / "m", dtype="float32")
    problem = taut.Problem(Multiclass(3, bias=1.0), WIDE, CODES, model.C)
    primal = problem.primal(again._joint_weights())
    assert again.certificate_.dual <= primal
    assert primal == pytest.approx(again.certificate_.primal, rel=1e-5)
    assert primal != again.certificate_.primal
    proved = taut.certify(again, WIDE, CODES)
    assert proved.primal == pytest.approx(primal, rel=1e-12)
    assert proved.dual <= primal


def test_weights_that_rounding_leaves_alone_keep_their_certificate(models, tmp_path):
    again = stored(models["multiclass"][0], tmp_path / "m", dtype="float32")
    again.certificate_ = models["multiclass"][0].certificate_  # as if these were the fitted ones
    found = stored(again, tmp_path / "n", dtype="float32").certificate_
    assert found == again.certificate_
    assert found.exact


def test_an_objective_of_other_weights_is_left_out(models, tmp_path):
    model, _ = models["online"]
    assert model.primal_ > 0.0
    assert not hasattr(stored(model, tmp_path / "m", dtype="float32"), "primal_")


def test_rounded_models_are_not_compressed(models, tmp_path):
    again = stored(models["kernel"][0], tmp_path / "m", dtype="float32")
    with pytest.raises(InvalidData, match="were rounded when it was saved"):
        again.compress(X, SIGNS, n_support=0.5)


def test_support_rows_may_be_sparse(tmp_path):
    rows = sp.csr_array(np.where(np.abs(X) > 1.0, X, 0.0))
    model = taut.BinarySVM(kernel="rbf", gamma=0.7, random_state=0).fit(rows, SIGNS)
    again = stored(model, tmp_path / "m", dtype=np.float32, sparse=True)
    rounded = model.support_vectors_.astype(np.float32).astype(np.float64)
    assert (again.support_vectors_ != rounded).nnz == 0
    assert again.support_vectors_.dtype == np.float64


FINITE = st.floats(-1e30, 1e30)


@given(hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, min_side=0), elements=FINITE))
def test_any_array_comes_back(values):
    for narrow in (False, True):
        for sparse in (False, True, "auto"):
            tensors = {}
            item = Packing(narrow, sparse).item("coef_", values, tensors)
            whole = unpacked if "sparse" in item else _of_tensor
            wanted = values.astype(np.float32).astype(np.float64) if narrow else values
            found = whole(item, tensors)
            assert_array_equal(found, wanted)
            assert found.dtype == np.float64


def _of_tensor(item, tensors):
    return widened(item, tensors[item["tensor"]])


@given(st.lists(hnp.arrays(np.float64, 3, elements=st.floats(-1e38, 1e38)), max_size=3))
def test_rounding_is_none_only_where_nothing_changes(weights):
    changed = any((values.astype(np.float32) != values).any() for values in weights)
    share = rounding_of(weights)
    assert (share is None) == (not changed)
    assert share is None or 0.0 <= share <= 1.0


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"dtype": "float16"}, "dtype = 'float16': give 'float32'"),
        ({"dtype": "small"}, "dtype = 'small': give 'float32'"),
        ({"sparse": "yes"}, "sparse = 'yes': give True, False or 'auto'"),
        ({"sparse": 1.5}, r"sparse = 1\.5: give True"),
    ],
)
def test_other_ways_are_refused(models, how, words, tmp_path):
    with pytest.raises(InvalidData, match=words):
        models["multiclass"][0].save(tmp_path / "m", **how)
    assert not list(tmp_path.iterdir())


def test_numbers_too_large_are_refused():
    with pytest.raises(InvalidData, match="weights of up to 1e\\+39 do not fit into float32"):
        rounding_of([np.array([1e39])])


# Files


def changed(models, path, change):
    models["multiclass"][0].save(path, dtype="float32", sparse=True)
    tensors, meta = files.read(path, "model")
    change(tensors, meta)
    files.write(path, "model", tensors, meta)
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t, m: t["coef_.indices"].__setitem__(-1, 10_000), "places of sparse weights"),
        (lambda t, m: t["coef_.indices"].__setitem__(0, 9), "do not rise"),
        (lambda t, m: t.update({"coef_.indices": t["coef_.indices"].astype(np.int64)}), "places"),
        (lambda t, m: t.update({"coef_.values": t["coef_.values"][:-1]}), "sparse weights"),
        (lambda t, m: m["fitted"]["coef_"].update(shape=[3, -1]), "no shape of weights"),
        (lambda t, m: m["fitted"]["coef_"].update(shape=[3, 42.0]), "no shape of weights"),
        (lambda t, m: m["fitted"]["coef_"].update(shape=[2**31, 2**31]), "places of sparse"),
        (lambda t, m: m["fitted"]["coef_"].update(shape=[3, 44]), "'features': 44"),
        (lambda t, m: m["fitted"]["coef_"].update(dtype="float16"), "type of packed weights"),
        (lambda t, m: t.pop("coef_.values"), "coef_.values"),
    ],
)  # fmt: skip
def test_files_that_lie_are_refused(models, change, words, tmp_path):
    with pytest.raises(InvalidFile, match=words):
        taut.load(changed(models, tmp_path / "m", change))


def test_files_name_the_versions_that_wrote_them(models, tmp_path):
    models["multiclass"][0].save(tmp_path / "m")
    _, meta = files.read(tmp_path / "m", "model")
    assert meta["versions"] == {"taut": taut.__version__, "numpy": np.__version__}
    path = changed(models, tmp_path / "n", lambda t, m: m["fitted"].pop("coef_"))
    with pytest.raises(InvalidFile, match=r"save it again \(written by numpy .*, taut 0\.1"):
        taut.load(path)


def test_files_of_before_versions_were_noted_are_read(models, tmp_path):
    model, rows = models["multiclass"]
    model.save(tmp_path / "m")
    tensors, meta = files.read(tmp_path / "m", "model")
    assert all("dtype" not in item and "sparse" not in item for item in meta["fitted"].values())
    meta.pop("versions")
    files.write(tmp_path / "m", "model", tensors, meta)
    again = taut.load(tmp_path / "m")
    assert_array_equal(again.predict(rows), model.predict(rows))
    assert again.certificate_ == model.certificate_
