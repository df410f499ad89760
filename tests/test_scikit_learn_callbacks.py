"""Fits that callbacks of scikit-learn watch, and what notebooks show of them."""

import inspect
import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import taut
from estimator_cases import CASES, CODES, NEW, SIGNS, X
from taut.estimators import ESTIMATORS, scikit_learn

callbacks = pytest.mark.skipif(
    not hasattr(taut.BinarySVM, "set_callbacks"), reason="callbacks are of scikit-learn 1.9"
)


class Recorder:
    """Keeps what it is told, and asks for the end of training after some passes."""

    def __init__(self, passes=None):
        self.passes, self.told, self.ends = passes, [], []

    def setup(self, estimator, context):
        self.told.append("setup")

    def teardown(self, estimator, context):
        self.told.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        self.told.append(f"begin {context.task_name}")

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        self.told.append(f"end {context.task_name}")
        self.ends.append((X, y, metadata, fitted_estimator))
        return self.passes is not None and len(self.ends) >= self.passes


def new(name):
    model, rows, targets = CASES[name]
    return clone(model).set_params(random_state=0), rows, targets


@callbacks
@pytest.mark.filterwarnings("ignore::taut.errors.NotConverged")  # rounds end early
@pytest.mark.parametrize("name", CASES)
def test_each_pass_has_a_model_that_is_the_fitted_one_in_the_end(name):
    model, rows, targets = new(name)
    recorder = Recorder()
    plain = new(name)[0].fit(rows, targets)
    model.set_callbacks(recorder).fit(rows, targets)
    assert model.n_iter_ == plain.n_iter_
    passes = ["begin pass", "end pass"] * model.n_iter_
    assert recorder.told == ["setup", "begin fit", *passes, "end fit", "teardown"]
    scores = [fitted.score(given, y) for given, y, _, fitted in recorder.ends]
    assert len(scores) == model.n_iter_ + 1
    assert scores[-1] == model.score(rows, targets) == plain.score(rows, targets)
    assert recorder.ends[0][3] is not model
    assert not [name for name in vars(model) if name in ("_tasks", "_callback_fit_ctx")]
    if hasattr(model, "certificate_") and name not in ("bags", "frames", "latent"):
        weights = [fitted._joint_weights() for *_, fitted in recorder.ends]
        assert not np.array_equal(weights[0], weights[-1])  # copies, each of its own pass


@callbacks
def test_kernels_and_epochs_are_watched():
    for model in (
        taut.BinarySVM(kernel="rbf", gamma=0.7, random_state=0),
        taut.OnlineSVM(epochs=3, random_state=0),
    ):
        recorder = Recorder()
        model.set_callbacks(recorder).fit(X, SIGNS)
        passes = recorder.told.count("end pass")
        assert passes == (3 if isinstance(model, taut.OnlineSVM) else model.n_iter_)
        for *_, fitted in recorder.ends:
            assert fitted.predict(NEW).shape == (len(NEW),)
        assert recorder.ends[-1][3].score(X, SIGNS) == model.score(X, SIGNS)


@callbacks
@pytest.mark.parametrize(
    "model", [taut.BinarySVM(tol=1e-9, random_state=0), taut.OnlineSVM(epochs=9, random_state=0)]
)
def test_a_callback_ends_training(model):
    recorder = Recorder(passes=2)
    model = clone(model).set_callbacks(recorder).fit(X, SIGNS)
    assert recorder.told.count("end pass") == 2
    assert recorder.told[-2:] == ["end fit", "teardown"]
    if hasattr(model, "certificate_"):
        assert model.certificate_.status is taut.Status.CALLBACK
        assert model.n_iter_ == 2


@callbacks
def test_a_fit_that_fails_tears_down_and_leaves_nothing():
    recorder = Recorder()
    model = taut.BinarySVM().set_callbacks(recorder)
    with pytest.raises(ValueError, match="y"):
        model.fit(X, SIGNS[:-1])
    assert recorder.told[-1] == "teardown"
    assert "_tasks" not in vars(model)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full_like(X, np.nan), SIGNS)
    model.fit(X, SIGNS)
    assert model.score(X, SIGNS) > 0.5


@callbacks
def test_metadata_are_those_that_scores_take():
    recorder, weight = Recorder(), np.linspace(0.5, 2.0, len(X))
    model = taut.BinarySVM(random_state=0).set_callbacks(recorder)
    model.fit(X, SIGNS, sample_weight=weight, margin=weight)
    _, _, metadata, fitted = recorder.ends[-1]
    assert list(metadata) == ["sample_weight"]
    assert fitted.score(X, SIGNS, **metadata) == model.score(X, SIGNS, sample_weight=weight)


@callbacks
def test_a_second_fit_of_other_rows_is_not_watched():
    recorder = Recorder()
    model = taut.MulticlassSVM(calibrate=0.4, random_state=0).set_callbacks(recorder).fit(X, CODES)
    assert recorder.told.count("end pass") == model.n_iter_
    assert model.predict_proba(NEW).shape == (len(NEW), 3)


@callbacks
def test_data_that_a_callback_changes_are_noticed():
    class Meddler(Recorder):
        def on_fit_task_end(self, estimator, context, *, X=None):
            X[0] += 1.0

    with pytest.raises(ValueError, match="has changed while the fit ran"):
        taut.BinarySVM(random_state=0).set_callbacks(Meddler()).fit(X.copy(), SIGNS)


@callbacks
def test_monitors_and_bars_of_scikit_learn(capsys):
    from sklearn.callback import ProgressBar, ScoringMonitor

    monitor = ScoringMonitor(scoring=["accuracy", "f1_macro"])
    model = taut.MulticlassSVM(tol=0.05, random_state=0).set_callbacks(monitor, ProgressBar())
    model.fit(X, CODES)
    log = monitor.get_logs().data
    assert len(log) == model.n_iter_ + 1
    assert log[0]["accuracy"] == model.score(X, CODES)  # the fit as a whole comes first
    assert "MulticlassSVM - fit" in capsys.readouterr().out

    search = GridSearchCV(
        make_pipeline(StandardScaler(), taut.MulticlassSVM(tol=0.1, random_state=0)),
        {"multiclasssvm__C": [0.1, 1.0]}, cv=2,
    ).set_callbacks(ProgressBar(max_propagation_depth=None))  # fmt: skip
    search.fit(X, CODES)
    assert "MulticlassSVM - fit" in capsys.readouterr().out


@callbacks
def test_warnings_point_to_the_line_that_called_fit():
    model = taut.BinarySVM(max_iter=1, tol=1e-9, random_state=0).set_callbacks(Recorder())
    with pytest.warns(taut.errors.NotConverged) as found:
        model.fit(X, SIGNS)
    assert [warning.filename for warning in found] == [__file__]


@callbacks
def test_watched_models_are_cloned_pickled_and_saved(tmp_path):
    model = taut.BinarySVM(random_state=0).set_callbacks(Recorder()).fit(X, SIGNS)
    assert clone(model)._skl_callbacks is model._skl_callbacks
    pickle.loads(pickle.dumps(model)).fit(X, SIGNS)
    model.save(tmp_path / "m")
    assert not hasattr(taut.load(tmp_path / "m"), "_skl_callbacks")


def test_fits_keep_their_signatures():
    for name, cls in ESTIMATORS.items():
        taken = list(inspect.signature(cls.fit).parameters)
        assert taken[0] == "self", name
        assert "args" not in taken, name
        assert cls.fit.__doc__, name
        requests = cls.__dict__.get("set_fit_request") or getattr(cls, "set_fit_request", None)
        if set(taken) - {"self", "X", "y", "images", "boxes", "joints", "validation"}:
            assert requests is not None, name


def test_where_scikit_learn_has_no_callbacks_fits_are_left_alone(monkeypatch):
    monkeypatch.setattr(scikit_learn, "with_callbacks", None)

    def fit(self, X, y=None):
        return self

    assert scikit_learn.watched(fit) is fit


# Notebooks


@pytest.fixture(scope="module")
def fitted():
    return taut.BinarySVM(random_state=0).fit(X, SIGNS)


def test_notebooks_show_the_certificate(fitted):
    table = fitted.certificate_._repr_html_()
    assert f"{fitted.certificate_.primal:.6g}" in table
    assert "CONVERGED: The relative gap" in table
    assert "proven, of the objective" in table
    for shown in (fitted._repr_html_(), fitted._repr_mimebundle_()["text/html"]):
        assert shown.endswith(table)
        assert shown.count("<caption>Certificate</caption>") == 1
        assert "BinarySVM" in shown
    assert "<caption>" not in taut.BinarySVM()._repr_html_()
    with sklearn.config_context(display="text"):
        assert not hasattr(fitted, "_repr_html_")
        assert list(fitted._repr_mimebundle_()) == ["text/plain"]


def test_tables_say_what_is_not_proven_and_escape(fitted, tmp_path):
    table = fitted.certificate_.of_rounded("<float32>", 1e-8)._repr_html_()
    assert "estimates, of the objective, at the weights before they were rounded" in table
    assert "&lt;float32&gt;" in table
    assert "<float32>" not in table
