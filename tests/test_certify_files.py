"""Model files of LIBSVM and LIBLINEAR: read as their authors write them, refused when damaged."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR, NuSVC

import reference
import taut
from taut.errors import InvalidData, InvalidFile

RNG = np.random.default_rng(1)
X = np.round(RNG.normal(size=(60, 3)), 3)
X[RNG.random((60, 3)) < 0.2] = 0.0
SIGNS = np.where(X[:, 0] + X[:, 1] * X[:, 2] + 0.4 * RNG.normal(size=60) > 0.0, 1, -1)
CODES = (X[:, 0] > 0) * 1 + (X[:, 1] + 0.4 * RNG.normal(size=60) > 0.5)
NUMBERS = X @ [1.0, -2.0, 0.5] + 0.3 * RNG.normal(size=60)


def write(path, lines):
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return path


def libsvm_lines(model, X=X):
    """What `svm_save_model` writes of the same model."""
    classes = getattr(model, "classes_", None)
    lines = ["svm_type " + ("epsilon_svr" if classes is None else "c_svc")]
    if isinstance(model, NuSVC):
        lines = ["svm_type nu_svc"]
    kernel = {"poly": "polynomial"}.get(model.kernel, model.kernel)
    lines.append(f"kernel_type {kernel}")
    if kernel == "polynomial":
        lines.append(f"degree {model.degree}")
    if kernel in ("polynomial", "rbf", "sigmoid"):
        lines.append(f"gamma {model._gamma:.17g}")
    if kernel in ("polynomial", "sigmoid"):
        lines.append(f"coef0 {model.coef0:.17g}")
    lines.append(f"nr_class {2 if classes is None else len(classes)}")
    lines.append(f"total_sv {len(model.support_)}")
    lines.append("rho " + " ".join(f"{-b:.17g}" for b in model._intercept_))
    if classes is not None:
        lines.append("label " + " ".join(map(str, classes)))
        lines.append("nr_sv " + " ".join(map(str, model.n_support_)))
    lines.append("SV")
    for k, row in enumerate(model.support_):
        words = [f"{value:.17g}" for value in model._dual_coef_[:, k]]
        if kernel == "precomputed":
            words.append(f"0:{row + 1}")
        else:
            words += [f"{j + 1}:{value:.8g}" for j, value in enumerate(X[row]) if value != 0.0]
        lines.append(" ".join(words) + " ")
    return lines


def liblinear_lines(solver, W, labels, bias):
    """What LIBLINEAR's `save_model` writes of weights of shape (n_columns, n_machines)."""
    lines = [f"solver_type {solver}", f"nr_class {2 if labels is None else len(labels)}"]
    if labels is not None:
        lines.append("label " + " ".join(map(str, labels)))
    lines += [f"nr_feature {len(W) - (bias >= 0.0)}", f"bias {bias:.17g}", "w"]
    return lines + ["".join(f"{value:.17g} " for value in row) for row in W]


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "precomputed"])
@pytest.mark.parametrize("y", [SIGNS, CODES], ids=["two", "three"])
def test_libsvm_classifiers(tmp_path, kernel, y):
    rows = X @ X.T if kernel == "precomputed" else X
    model = SVC(C=2.0, kernel=kernel, gamma=0.4, coef0=1.0, degree=2).fit(rows, y)
    path = write(tmp_path / "model", libsvm_lines(model))
    report = taut.certify(path, rows, y, C=2.0)
    theirs = taut.certify(model, rows, y)
    assert report.model == "model"
    assert [machine.name for machine in report.machines] == [m.name for m in theirs.machines]
    for own, other in zip(report.machines, theirs.machines, strict=True):
        assert_allclose([own.primal, own.dual], [other.primal, other.dual], rtol=1e-9)
        assert own.n == other.n
    given = sp.csr_array(rows) if kernel != "precomputed" else rows.tolist()
    assert_allclose(taut.certify(path, given, y.tolist(), C=2.0).dual, report.dual, rtol=1e-9)


def test_libsvm_regression_and_weights(tmp_path):
    weight = RNG.choice([0.5, 2.0], size=60)
    model = SVR(C=3.0, epsilon=0.2, gamma=0.4).fit(X, NUMBERS, weight)
    path = write(tmp_path / "model", libsvm_lines(model))
    report = taut.certify(path, X, NUMBERS, weight, C=3.0, epsilon=0.2)
    assert_allclose(report.dual, taut.certify(model, X, NUMBERS, weight).dual, rtol=1e-9)
    assert report.relative_gap < 1e-2
    factors = {-1: 0.5, 1: 3.0}
    model = SVC(C=2.0, gamma=0.4, class_weight=factors).fit(X, SIGNS)
    path = write(tmp_path / "model", libsvm_lines(model))
    report = taut.certify(path, X, SIGNS, C=2.0, class_weight=factors)
    assert_allclose(report.dual, taut.certify(model, X, SIGNS).dual, rtol=1e-9)


def test_rows_that_are_there_several_times(tmp_path):
    rows, y = np.vstack([X, X, X]), np.concatenate([SIGNS, SIGNS, -SIGNS])
    model = SVC(C=0.3, gamma=0.4).fit(rows, y)
    path = write(tmp_path / "model", libsvm_lines(model, rows))
    report = taut.certify(path, rows, y, C=0.3)
    assert_allclose(report.primal, taut.certify(model, rows, y).primal, rtol=1e-9)


def test_what_libsvm_files_do_not_tell(tmp_path):
    model = SVC(C=2.0, gamma=0.4).fit(X, SIGNS)
    path = write(tmp_path / "model", libsvm_lines(model))
    with pytest.raises(InvalidData, match=r"does not store C.* it was at least 2"):
        taut.certify(path, X, SIGNS)
    with pytest.raises(InvalidData, match="C = 0"):
        taut.certify(path, X, SIGNS, C=0.0)
    with pytest.raises(InvalidData, match="more than its weight"):
        taut.certify(path, X, SIGNS, C=1.0)
    with pytest.raises(InvalidData, match="is no row of X with its class"):
        taut.certify(path, X + 0.001, SIGNS, C=2.0)
    with pytest.raises(InvalidData, match="is no row of X with its class"):
        taut.certify(path, X, -SIGNS, C=2.0)
    with pytest.raises(InvalidData, match="is no class of the model"):
        taut.certify(path, X, SIGNS + 3, C=2.0)
    with pytest.raises(InvalidData, match="which no model file needs"):
        taut.certify(path, X, SIGNS, C=2.0, lengths=[60])
    regression = write(tmp_path / "other", libsvm_lines(SVR(gamma=0.4).fit(X, NUMBERS)))
    with pytest.raises(InvalidData, match="does not store epsilon"):
        taut.certify(regression, X, NUMBERS, C=1.0)
    # The bound of another C is true of that objective.
    report = taut.certify(path, X, SIGNS, C=5.0)
    root = np.linalg.cholesky(taut.kernels.RBF(0.4)(X) + 1e-11 * np.eye(60))
    optimum = reference.solve_svm(root, SIGNS, np.full(60, 5.0), free=True)
    assert report.dual <= optimum * (1 + 1e-8) <= report.primal * (1 + 2e-8)


def test_libsvm_models_without_a_bound(tmp_path):
    model = SVC(kernel="sigmoid", gamma=1.0, coef0=1.0).fit(X, SIGNS)
    path = write(tmp_path / "model", libsvm_lines(model))
    assert "not positive definite" in taut.certify(path, X, SIGNS, C=1.0).message
    path = write(tmp_path / "model", libsvm_lines(NuSVC(nu=0.3).fit(X, SIGNS)))
    assert "has svm_type nu_svc" in taut.certify(path, X, SIGNS, C=1.0).message


CLASSIFIERS = {
    "L2R_L2LOSS_SVC_DUAL": {"loss": "squared_hinge", "dual": True},
    "L2R_L2LOSS_SVC": {"loss": "squared_hinge", "dual": False},
    "L2R_L1LOSS_SVC_DUAL": {"loss": "hinge"},
    "MCSVM_CS": {"multi_class": "crammer_singer"},
}


@pytest.mark.parametrize("solver", CLASSIFIERS)
@pytest.mark.parametrize("bias", [-1.0, 2.0])
def test_liblinear_classifiers(tmp_path, solver, bias):
    model = LinearSVC(C=0.7, fit_intercept=bias > 0.0, random_state=0, **CLASSIFIERS[solver])
    if bias > 0.0:
        model.set_params(intercept_scaling=bias)
    for y in (SIGNS, CODES):
        model.fit(X, y)
        W = model.coef_
        if bias > 0.0:
            W = np.hstack([W, model.intercept_[:, None] / bias])
        labels = model.classes_
        if len(labels) == 2 and solver == "MCSVM_CS":
            W = np.vstack([-0.5 * W, 0.5 * W])
        elif len(labels) == 2:  # the label that came first is the positive one
            labels = labels[::-1]
        path = write(tmp_path / "model", liblinear_lines(solver, W.T, labels, bias))
        report, theirs = taut.certify(path, X, y, C=0.7), taut.certify(model, X, y)
        assert_allclose([report.primal, report.dual], [theirs.primal, theirs.dual], rtol=1e-9)
        assert len(report.machines) == len(theirs.machines)


@pytest.mark.parametrize("squared", [False, True])
def test_liblinear_regression(tmp_path, squared):
    loss = "squared_epsilon_insensitive" if squared else "epsilon_insensitive"
    model = LinearSVR(C=0.7, epsilon=0.1, loss=loss, random_state=0).fit(X, NUMBERS)
    W = np.append(model.coef_, model.intercept_)[:, None]
    solver = "L2R_L2LOSS_SVR" if squared else "L2R_L1LOSS_SVR_DUAL"
    path = write(tmp_path / "model", liblinear_lines(solver, W, None, 1.0))
    report = taut.certify(path, X, NUMBERS, C=0.7, epsilon=0.1)
    assert_allclose(report.dual, taut.certify(model, X, NUMBERS).dual, rtol=1e-9)
    with pytest.raises(InvalidData, match="does not store epsilon"):
        taut.certify(path, X, NUMBERS, C=0.7)
    with pytest.raises(InvalidData, match="does not store C"):
        taut.certify(path, X, NUMBERS, epsilon=0.1)


def test_a_bias_of_zero_has_weights_that_count_for_nothing(tmp_path):
    W = np.array([[0.5], [0.25], [0.0], [7.0]])
    path = write(tmp_path / "model", liblinear_lines("L2R_L1LOSS_SVC_DUAL", W, [1, -1], 0.0))
    report = taut.certify(path, X, SIGNS, C=1.0)
    w = W[:3, 0]
    assert_allclose(report.primal, reference.svm_primal(X @ w, w @ w, SIGNS, np.ones(60)))


def test_files_that_liblinear_writes(tmp_path):
    theirs = pytest.importorskip("liblinear.liblinearutil")
    weight = {-1: 2.0, 1: 0.5}
    for number, y in ((1, SIGNS), (2, CODES), (3, -SIGNS), (4, CODES)):
        chosen = weight if y is not CODES else {}
        options = " ".join(f"-w{label} {factor}" for label, factor in chosen.items())
        model = theirs.train(y.tolist(), X, f"-s {number} -c 0.7 -B 1 -e 1e-6 -q {options}")
        path = tmp_path / "model"
        theirs.save_model(str(path), model)
        report = taut.certify(path, X, y, C=0.7, class_weight=chosen or None)
        assert report.relative_gap < 2e-3
    for number in (11, 12, 13):
        model = theirs.train(NUMBERS.tolist(), X, f"-s {number} -c 0.7 -p 0.1 -B 1 -e 1e-6 -q")
        theirs.save_model(str(path), model)
        assert taut.certify(path, X, NUMBERS, C=0.7, epsilon=0.1).relative_gap < 2e-3


def test_liblinear_models_without_a_bound(tmp_path):
    W = np.zeros((3, 1))
    path = write(tmp_path / "model", liblinear_lines("L2R_LR", W, [1, -1], -1.0))
    assert "has solver_type L2R_LR" in taut.certify(path, X, SIGNS, C=1.0).message


SVM = libsvm_lines(SVC(C=2.0, gamma=0.4).fit(X, SIGNS))
LINEAR = liblinear_lines("L2R_L1LOSS_SVC_DUAL", np.ones((4, 1)), [1, -1], 1.0)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "begins with 'nothing'"),
        (["hello"], "begins with 'hello'"),
        (SVM[:3], "damaged or cut short"),
        (SVM[:-1], "support vectors where it says"),
        ([line for line in SVM if "rho" not in line], "damaged or cut short"),
        ([line.replace("nr_sv ", "nr_sv 9") for line in SVM], "damaged or cut short"),
        ([line.replace("rbf", "rbff") for line in SVM], "kernel_type rbff"),
        ([*SVM[:-1], "1.0 1:x"], "damaged or cut short"),
        ([*SVM[:-1], "1.0 word"], "damaged or cut short"),
        ([line.replace("c_svc", "") for line in SVM], "damaged or cut short"),
        (LINEAR[:-1], r"has weights of shape \(3, 1\), expected \(4, 1\)"),
        ([*LINEAR[:-1], "nan"], "weights of shape"),
        ([*LINEAR[:-1], "1 2"], "damaged or cut short"),
        (LINEAR[:2], "damaged or cut short"),
        ([line.replace("label 1", "label 1 2") for line in LINEAR], r"expected \(4, 3\)"),
        ([line.replace("label 1 -1", "") for line in LINEAR], "damaged or cut short"),
        ([line.replace("nr_feature 3", "nr_feature x") for line in LINEAR], "damaged"),
    ],
)
def test_damaged_files(tmp_path, lines, message):
    path = write(tmp_path / "model", lines)
    with pytest.raises(InvalidFile, match=message):
        taut.certify(path, X, SIGNS, C=2.0)


def test_files_that_are_no_text(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidFile, match="cannot be read as text"):
        taut.certify(path, X, SIGNS, C=1.0)
    with pytest.raises(InvalidFile, match="cannot be read as text"):
        taut.certify(tmp_path, X, SIGNS, C=1.0)
    K = X @ X.T
    lines = libsvm_lines(SVC(kernel="precomputed").fit(K, SIGNS))
    for row in (0, 61, 3):  # none, beyond, and one twice
        wrong = [*lines[:-2], *(line.split("0:")[0] + f"0:{row}" for line in lines[-2:])]
        with pytest.raises(InvalidData, match="rows of a matrix twice, or beyond"):
            taut.certify(write(path, wrong), K, SIGNS, C=1.0)
    path = write(tmp_path / "linear", LINEAR)
    with pytest.raises(InvalidData, match="2 columns"):
        taut.certify(path, X[:, :2], SIGNS, C=1.0)
