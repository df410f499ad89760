"""Models in the formats of other programs, read and run by these or by a few lines of our own."""

import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import taut
from estimator_cases import CASES, CODES, LABELS, NEW, NUMBERS, SEQUENCES, SIGNS, X
from taut.errors import InvalidData, InvalidType
from taut.exports import to_crfsuite, to_liblinear, to_onnx

TARGETS = {
    "binary": (taut.BinarySVM(C=0.5), SIGNS.astype(int)),
    "binary of words": (taut.BinarySVM(C=0.5), np.where(SIGNS > 0, "yes", "no")),
    "multiclass": (taut.MulticlassSVM(C=0.5), CODES + 3),
    "multiclass of two": (taut.MulticlassSVM(C=0.5), SIGNS > 0),
    "regression": (taut.RegressionSVM(), NUMBERS),
    "online": (taut.OnlineSVM(), CODES),
    "online of two": (taut.OnlineSVM(), SIGNS),
}
LIBLINEAR = [name for name in TARGETS if name != "binary of words"]


@pytest.fixture(scope="module")
def models():
    fitted = {}
    for name, (model, y) in TARGETS.items():
        fitted[name] = model.set_params(random_state=0).fit(X, y)
    for name in ("binary", "multiclass", "multiclass of two"):
        fitted[name].temperature_ = 0.7
    chain = taut.ChainSVM(boundary=True, random_state=0).fit(
        SEQUENCES, [np.array(["a-b", "b c", "d"])[codes] for codes in LABELS]
    )
    return fitted | {"chain": chain}


@pytest.fixture(scope="module")
def kernel_model():
    return taut.BinarySVM(kernel="rbf", gamma=0.7, random_state=0).fit(X, SIGNS)


# LIBLINEAR


def liblinear_answers(path, rows):
    """What LIBLINEAR's `predict` answers, from its description of the format."""
    head, _, tail = path.read_text().partition("\nw\n")
    header = {line.split()[0]: line.split()[1:] for line in head.splitlines()}
    W = np.array([[float(word) for word in line.split()] for line in tail.splitlines()])
    (solver,), n = header["solver_type"], int(header["nr_feature"][0])
    bias, labels = float(header["bias"][0]), header.get("label")
    assert W.shape[0] == n + (bias >= 0.0)
    if bias >= 0.0:
        rows = np.column_stack([rows, np.full(len(rows), bias)])
    scores = rows @ W
    if solver == "L2R_L1LOSS_SVR_DUAL":
        return scores[:, 0]
    labels = np.array([int(label) for label in labels])
    assert len(labels) == int(header["nr_class"][0])
    if len(labels) == 2:
        return labels[np.where(scores[:, 0] > 0.0, 0, 1)]
    return labels[scores.argmax(axis=1)]


@pytest.mark.parametrize("name", LIBLINEAR)
def test_liblinear_predicts_the_same(models, name, tmp_path):
    to_liblinear(models[name], tmp_path / "m")
    assert_allclose(liblinear_answers(tmp_path / "m", NEW), models[name].predict(NEW), rtol=1e-12)


@pytest.mark.parametrize("name", LIBLINEAR)
def test_liblinear_itself_reads_the_file(models, name, tmp_path):
    pytest.importorskip("liblinear")
    from liblinear.liblinearutil import load_model, predict

    to_liblinear(models[name], tmp_path / "m")
    answers, _, _ = predict([], NEW, load_model(str(tmp_path / "m")), "-q")
    assert_allclose(answers, models[name].predict(NEW), rtol=1e-12)


def test_liblinear_reads_the_same_numbers(models, tmp_path):
    to_liblinear(models["multiclass"], tmp_path / "m")
    lines = (tmp_path / "m").read_text().splitlines()
    W = np.array([[float(word) for word in line.split()] for line in lines[6:]])
    assert_array_equal(W[:-1].T, models["multiclass"].coef_)
    assert_array_equal(W[-1], models["multiclass"].intercept_)


@pytest.mark.parametrize(
    ("name", "epsilon"), [("binary", None), ("multiclass", None), ("regression", 0.0)]
)
def test_the_file_is_certified_as_the_model(models, name, epsilon, tmp_path):
    model, y = models[name], TARGETS[name][1]
    to_liblinear(model, tmp_path / "m")
    found = taut.certify(tmp_path / "m", X, y, C=model.C, epsilon=epsilon)
    assert found.primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert model.certificate_.dual <= found.primal * (1.0 + 1e-9)


@pytest.mark.parametrize("parameters", [{"fit_intercept": False}, {"intercept_scaling": 4.0}])
def test_liblinear_knows_the_intercept(parameters, tmp_path):
    model = taut.BinarySVM(random_state=0, **parameters).fit(X + 1.0, SIGNS)
    to_liblinear(model, tmp_path / "m")
    bias = "bias -1\n" if "fit_intercept" in parameters else "bias 4.0\n"
    assert bias in (tmp_path / "m").read_text()
    assert_array_equal(liblinear_answers(tmp_path / "m", NEW), model.predict(NEW))
    # Predictions rest on fitted attributes.
    before = model.predict(NEW)
    to_liblinear(model.set_params(fit_intercept=False), tmp_path / "m")
    assert_array_equal(liblinear_answers(tmp_path / "m", NEW), before)


def test_equal_scores_are_the_first_class(models, tmp_path):
    for name in ("binary", "multiclass of two"):
        to_liblinear(models[name], tmp_path / "m")
        model, zero = models[name], np.zeros((1, 3))
        text = (tmp_path / "m").read_text()
        head, _, tail = text.partition("\nw\n")
        (tmp_path / "m").write_text(head + "\nw\n" + "\n".join(["0 0"] * len(tail.splitlines())))
        assert liblinear_answers(tmp_path / "m", zero)[0] == int(model.classes_[0])


# CRFsuite


def parsed_dump(path):
    """The sections of a dump."""
    sections = dict(
        re.findall(r"^(\w+) = \{\n(.*?)^\}", path.read_text(), re.DOTALL | re.MULTILINE)
    )
    numbered = {
        title: dict(re.findall(r"^ +(\d+): (.*)$", sections[title], re.MULTILINE))
        for title in ("LABELS", "ATTRIBUTES")
    }
    weighted = {
        title: {
            (row, column): float(weight)
            for kind, row, column, weight in re.findall(
                r"^  \((\d)\) (.+) --> (.+): (-?\d+\.\d+)$", sections[title], re.MULTILINE
            )
            if kind == known
        }
        for title, known in (("TRANSITIONS", "1"), ("STATE_FEATURES", "0"))
    }
    assert list(sections) == ["LABELS", "ATTRIBUTES", "TRANSITIONS", "STATE_FEATURES"]
    for title, table in weighted.items():
        assert len(table) == sections[title].count("\n")
    return numbered | weighted


def test_a_dump_has_all_weights(models, tmp_path):
    model = models["chain"]
    to_crfsuite(model, tmp_path / "m")
    dump = parsed_dump(tmp_path / "m")
    labels, attributes = (list(dump[title].values()) for title in ("LABELS", "ATTRIBUTES"))
    assert labels == model.classes_.tolist()
    assert attributes == ["x0", "x1", "x2", "__BOS__", "__EOS__"]
    rows = [*model.coef_.T, model.start_, model.end_]
    for title, names, weights in (
        ("TRANSITIONS", labels, model.transition_),
        ("STATE_FEATURES", attributes, np.stack(rows)),
    ):
        found = [[dump[title].get((row, column), 0.0) for column in labels] for row in names]
        assert_array_equal(found, weights)


def test_python_crfsuite_reads_the_dump(models, tmp_path):
    pytest.importorskip("pycrfsuite")
    from pycrfsuite._dumpparser import CRFsuiteDumpParser

    to_crfsuite(models["chain"], tmp_path / "m")
    parser = CRFsuiteDumpParser()
    for line in (tmp_path / "m").read_text().splitlines():
        parser.feed(line)
    own = parsed_dump(tmp_path / "m")
    assert parser.result.transitions == own["TRANSITIONS"]
    assert parser.result.state_features == own["STATE_FEATURES"]
    assert list(parser.result.labels) == list(own["LABELS"].values())


def test_small_weights_keep_their_digits_and_zeros_are_left_out(models, tmp_path):
    model = taut.ChainSVM()
    model.__dict__.update(vars(models["chain"]))
    model.coef_ = np.array([[1e-9, 0.0, -1 / 3], [0.0, 1e20, 2.0], [0.0, 0.0, 1e-300]])
    model.start_ = model.end_ = np.zeros(3)
    model.feature_names_in_ = np.array(["shape=Xx", "w:the", "end"], dtype=object)
    to_crfsuite(model, tmp_path / "m")
    dump = parsed_dump(tmp_path / "m")
    assert list(dump["ATTRIBUTES"].values()) == ["shape=Xx", "w:the", "end"]
    assert dump["STATE_FEATURES"] == {
        ("shape=Xx", "a-b"): 1e-9, ("end", "a-b"): -1 / 3, ("w:the", "b c"): 1e20,
        ("end", "b c"): 2.0, ("end", "d"): 1e-300,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a", "b", "a"], "two features are called 'a' in writing"),
        (["a", "b\nc", "d"], r"the feature 'b\\nc' cannot be written"),
        (["a", "b --> c", "d"], "the feature 'b --> c' cannot be written"),
        (["a", "", "d"], "the feature '' cannot be written: it is empty"),
        (["a", "b", "__BOS__"], "two features are called '__BOS__'"),
    ],
)
def test_names_that_a_dump_cannot_hold_are_refused(models, names, words, tmp_path):
    model = taut.ChainSVM()
    model.__dict__.update(vars(models["chain"]))
    model.feature_names_in_ = np.array(names, dtype=object)
    with pytest.raises(InvalidData, match=words):
        to_crfsuite(model, tmp_path / "m")
    assert not list(tmp_path.iterdir())


# ONNX


def run(path, rows):
    """The outputs of a graph by name, in a runtime that shares no code with taut."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    facts = session.get_modelmeta().custom_metadata_map
    return dict(zip(names, session.run(names, {"X": rows}), strict=True)), facts


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", TARGETS)
def test_another_runtime_predicts_the_same(models, name, dtype, tmp_path):
    onnx = pytest.importorskip("onnx")
    model, path, rows = models[name], tmp_path / "m.onnx", NEW.astype(dtype)
    to_onnx(model, path, dtype=dtype)
    onnx.checker.check_model(path, full_check=True)
    found, facts = run(path, rows)
    known = {"scores", "label"} | ({"probabilities"} if hasattr(model, "temperature_") else set())
    assert found.keys() == known
    expected = NEW @ np.atleast_2d(model.coef_).T + model.intercept_
    rounding = 1e-12 if dtype == "float64" else 1e-5
    assert found["scores"].dtype == dtype
    assert_allclose(found["scores"], expected, rtol=rounding, atol=rounding)
    answers = model.predict(NEW)
    if name == "regression":
        assert_allclose(found["label"], answers, rtol=rounding, atol=rounding)
    else:
        assert found["label"].tolist() == answers.tolist()
    if "probabilities" in known:
        assert_allclose(found["probabilities"], model.predict_proba(NEW), atol=rounding)
    assert facts["taut_version"] == taut.__version__
    assert ("certificate" in facts) == hasattr(model, "certificate_")
    if "certificate" in facts:
        certificate = taut.Certificate.from_dict(json.loads(facts["certificate"]))
        assert certificate.is_of_rounded == (dtype == "float32")
        assert certificate.exact == (dtype == "float64")
        assert certificate.dual == model.certificate_.dual


def test_a_graph_takes_any_number_of_rows(models, tmp_path):
    pytest.importorskip("onnx")
    to_onnx(models["multiclass"], tmp_path / "m.onnx", dtype="float64")
    for n in (0, 1, 5):
        found, _ = run(tmp_path / "m.onnx", NEW[:n])
        assert_array_equal(found["label"], models["multiclass"].classes_[found["scores"].argmax(1)])
        assert len(found["label"]) == n


def test_onnx_that_is_not_there_is_named(models, monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'taut\[onnx\]'"):
        to_onnx(models["binary"], tmp_path / "m.onnx")


# Refusals


def named(classes):
    model = taut.MulticlassSVM()
    model.coef_, model.intercept_ = np.eye(3), np.zeros(3)
    model.classes_ = np.fromiter(classes, dtype=object)
    return model


@pytest.mark.parametrize(
    ("write", "make", "words"),
    [
        (to_liblinear, lambda m, k: k, "has kernel_ = .* sums over support rows"),
        (to_onnx, lambda m, k: k, "has kernel_ = .* sums over support rows"),
        (to_crfsuite, lambda m, k: k, "is of type BinarySVM: weights of labels and of pairs"),
        (to_liblinear, lambda m, k: m["chain"], "is of type ChainSVM: scores of single rows"),
        (to_onnx, lambda m, k: {"a": 1}, "is of type dict: .*; of a pipeline or a search"),
        (to_onnx, lambda m, k: taut.BinarySVM, "BinarySVM is a class: give a fitted model"),
        (to_onnx, lambda m, k: taut.BinarySVM(), "not fitted yet"),
        (to_liblinear, lambda m, k: taut.RegressionSVM(), "not fitted yet"),
        (to_crfsuite, lambda m, k: taut.ChainSVM(), "not fitted yet"),
        (to_liblinear, lambda m, k: m["binary of words"], "has the class 'no', and LIBLINEAR"),
        (to_liblinear, lambda m, k: named([0, 1.5, 2]), r"has the class 1\.5"),
        (to_liblinear, lambda m, k: named([0, 2**31, 2]), "has the class 2147483648"),
        (to_liblinear, lambda m, k: named([0, None, 2]), "has the class None"),
    ],
)  # fmt: skip
def test_what_a_format_cannot_hold_is_refused(models, kernel_model, write, make, words, tmp_path):
    with pytest.raises((InvalidData, InvalidType, ValueError), match=words):
        write(make(models, kernel_model), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_structures_and_sequences_through_a_kernel_are_refused(tmp_path):
    _chain, rows, labels = CASES["chain"]
    with_kernel = taut.ChainSVM(kernel="rbf", gamma=0.5, random_state=0).fit(rows, labels)
    with pytest.raises(InvalidData, match="its features have no weights"):
        to_crfsuite(with_kernel, tmp_path / "m")
    online = taut.OnlineSVM(structure=taut.structures.Multiclass(3), random_state=0).fit(X, CODES)
    with pytest.raises(InvalidData, match="has learned Multiclass"):
        to_liblinear(online, tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("classes", [[0, "a", 1], [(0, 1), (1, 0), (1, 1)], [None, "a", "b"]])
def test_classes_that_a_graph_cannot_give_out_are_refused(classes, tmp_path):
    pytest.importorskip("onnx")
    with pytest.raises(InvalidData, match="are of different types"):
        to_onnx(named(classes), tmp_path / "m.onnx")
    with pytest.raises(InvalidData, match="dtype = 'float16'"):
        to_onnx(named([0, 1, 2]), tmp_path / "m.onnx", dtype="float16")
    assert not list(tmp_path.iterdir())
