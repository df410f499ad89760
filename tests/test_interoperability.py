"""taut inside scikit-learn: each way of use that docs/scikit_learn.md lists, and its outcome."""

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    RandomTreesEmbedding,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.feature_selection import (
    RFE,
    RFECV,
    GenericUnivariateSelect,
    SelectFromModel,
    SelectKBest,
    SelectPercentile,
    SequentialFeatureSelector,
    VarianceThreshold,
    chi2,
    f_classif,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    PredefinedSplit,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import (
    ClassifierChain,
    MultiOutputClassifier,
    MultiOutputRegressor,
    RegressorChain,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MaxAbsScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import SparseRandomProjection
from sklearn.semi_supervised import SelfTrainingClassifier

from cases import long_if
from taut import BinarySVM, ChainSVM, MulticlassSVM, RankSVM, RegressionSVM, Status
from taut.solvers import DualCoordinate

PAGE = Path(__file__).parents[1] / "docs" / "scikit_learn.md"

N = 90
_rng = np.random.default_rng(0)
X = _rng.normal(size=(N, 4))
_scores = np.column_stack([X[:, 0], X[:, 1], 0.3 * X[:, 2]]) + 0.6 * _rng.normal(size=(N, 3))
THREE = np.array(["ant", "bee", "cat"])[_scores.argmax(axis=1)]
TWO = np.array(["no", "yes"])[(_scores[:, 0] > 0).astype(int)]
NUMBERS = X @ [1.0, -1.0, 0.5, 0.0] + 0.1 * _rng.normal(size=N)
BOTH = np.column_stack([TWO == "yes", THREE == "ant"]).astype(int)
WEIGHT = np.linspace(0.5, 2.0, N)
QUERIES = np.repeat(np.arange(15), 6)
RELEVANCE = np.digitize(X[:, 0] + 0.3 * _rng.normal(size=N), [-0.5, 0.5])
GRID = {"C": [0.1, 1.0]}
COLUMNS = list("abcd")


# Steps before an estimator

WORDS = [
    "the ant eats sugar", "an ant and an ant", "ants carry sugar away", "small ant small sugar",
    "the bee likes honey", "a bee makes honey", "bees and honey and bees", "big bee sweet honey",
    "the cat drinks milk", "a cat sleeps well", "cats like milk and sleep", "old cat warm milk",
] * 2  # fmt: skip
ANIMAL = np.repeat(["ant", "bee", "cat"], 4).tolist() * 2
PAIRS = [{"word": text.split()[1], "length": len(text)} for text in WORDS]
TABLE = [[text.split()[1], len(text) % 3] for text in WORDS]
FRAME = pd.DataFrame({"text": WORDS, "length": [len(text) for text in WORDS]})
GAPS = np.where(_rng.uniform(size=(24, 3)) < 0.1, np.nan, _rng.normal(size=(24, 3)))
SMALL = _rng.normal(size=(24, 3))


def words(*steps):
    return [TfidfVectorizer(), *steps], WORDS


STEPS = {
    "CountVectorizer": ([CountVectorizer()], WORDS),
    "TfidfVectorizer": words(),
    "TfidfVectorizer of pairs": ([TfidfVectorizer(ngram_range=(1, 2))], WORDS),
    "HashingVectorizer": ([HashingVectorizer(n_features=64)], WORDS),
    "TfidfTransformer": ([CountVectorizer(), TfidfTransformer()], WORDS),
    "DictVectorizer": ([DictVectorizer(), MaxAbsScaler()], PAIRS),
    "FeatureHasher": ([FeatureHasher(32), MaxAbsScaler()], PAIRS),
    "OneHotEncoder": ([OneHotEncoder()], TABLE),
    "OrdinalEncoder": ([OrdinalEncoder(), StandardScaler()], TABLE),
    "SelectKBest": words(SelectKBest(chi2, k=8)),
    "SelectPercentile": words(SelectPercentile(chi2, percentile=50)),
    "GenericUnivariateSelect": words(GenericUnivariateSelect(chi2, mode="k_best", param=8)),
    "VarianceThreshold": words(VarianceThreshold(0.001)),
    "SelectFromModel": words(SelectFromModel(MulticlassSVM(C=1.0, random_state=0))),
    "RFE": words(RFE(MulticlassSVM(C=1.0, random_state=0), n_features_to_select=8, step=0.5)),
    "SequentialFeatureSelector": (
        [SequentialFeatureSelector(MulticlassSVM(random_state=0), n_features_to_select=2, cv=2)],
        SMALL,
    ),
    "TruncatedSVD": words(TruncatedSVD(5, random_state=0)),
    "Normalizer": words(Normalizer()),
    "SparseRandomProjection": words(SparseRandomProjection(8, random_state=0)),
    "Nystroem": ([Nystroem(n_components=8, random_state=0)], SMALL),
    "PolynomialFeatures": ([PolynomialFeatures(2)], SMALL),
    "SplineTransformer": ([SplineTransformer(n_knots=3, sparse_output=True)], SMALL),
    "KBinsDiscretizer": ([KBinsDiscretizer(3, strategy="uniform")], SMALL),
    "RandomTreesEmbedding": ([RandomTreesEmbedding(3, random_state=0)], SMALL),
    "SimpleImputer": ([SimpleImputer(add_indicator=True)], GAPS),
    "FeatureUnion": ([FeatureUnion([("a", CountVectorizer()), ("b", TfidfVectorizer())])], WORDS),
    "ColumnTransformer": (
        [
            ColumnTransformer(
                [("text", TfidfVectorizer(), "text"), ("rest", StandardScaler(), ["length"])]
            )
        ],
        FRAME,
    ),
}  # fmt: skip
BEES = np.array(ANIMAL) == "bee"
TARGETS = {
    BinarySVM: BEES,
    MulticlassSVM: np.array(ANIMAL),
    RegressionSVM: BEES.astype(float),
    RankSVM: BEES.astype(int),
}


def test_vectorisers_do_not_sort_indices():
    """Which is why the steps below are worth trying."""
    assert not TfidfVectorizer().fit_transform(WORDS).has_sorted_indices


@pytest.mark.parametrize("kind", [long_if(kind is RankSVM, kind) for kind in TARGETS])
@pytest.mark.parametrize("name", STEPS)
def test_steps_before_an_estimator(name, kind):
    steps, data = STEPS[name]
    y, last = TARGETS[kind], kind.__name__.lower()
    pipeline = make_pipeline(*clone(steps), kind(C=10.0, tol=0.05, random_state=0))
    more = {f"{last}__groups": np.arange(24) % 2} if kind is RankSVM else {}
    pipeline.fit(data, y, **more)
    assert pipeline[-1].certificate_.status is Status.CONVERGED
    assert len(pipeline.predict(data)) == len(y)
    if data is WORDS:
        assert pipeline.score(data, y) > 0.5
    rows = pipeline[:-1].transform(data)
    if not sp.issparse(rows):
        return
    # Whatever the order of its indices, it is the same matrix.
    again = pipeline[-1].predict(sp.csr_array(rows.toarray()))
    assert_array_equal(pipeline.predict(data), again)


# Ways of use


def binary(**parameters):
    return BinarySVM(C=0.5, random_state=0, **parameters)


def multiclass(**parameters):
    return MulticlassSVM(C=0.5, random_state=0, **parameters)


def calibrated(new):
    return new(calibrate=0.3)


def regression():
    return RegressionSVM(C=0.5, random_state=0)


def right(model, X, y):
    """The share of right predictions of a model that is not fitted yet."""
    return np.mean(model.fit(X, y).predict(X) == y)


def sure(model, X, y):
    """The mean probability of the truths, of a model that is not fitted yet."""
    model.fit(X, y)
    found = model.predict_proba(X)
    assert_allclose(found.sum(axis=1), 1.0)
    return found[np.arange(len(y)), np.searchsorted(model.classes_, y)].mean()


def pandas_frame(X):
    return pd.DataFrame(X, columns=COLUMNS)


def polars_frame(X):
    return pl.DataFrame(X, schema=COLUMNS)


def mixed(X):
    return pandas_frame(X).assign(kind=THREE)


def by_columns(new):
    parts = [("numbers", StandardScaler(), COLUMNS), ("kinds", OneHotEncoder(), ["kind"])]
    return make_pipeline(ColumnTransformer(parts), new())


def in_threads(search, X, y):
    with joblib.parallel_backend("threading"):
        return search.fit(X, y).best_score_


def stored(model, X, dump, load):
    file = io.BytesIO()
    dump(model, file)
    file.seek(0)
    again = load(file)
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    return 1.0


@dataclass(frozen=True)
class Use:
    """A way of use: a function of (constructor, X, y) whose result is at least `least`."""

    name: str
    call: Callable[[Any, Any, Any], Any]
    least: float = 0.6


USES = [
    # searches
    Use("GridSearchCV", lambda new, X, y: GridSearchCV(new(), GRID, cv=3).fit(X, y).best_score_),
    Use("GridSearchCV over steps", lambda new, X, y: GridSearchCV(
        Pipeline([("scale", StandardScaler()), ("svm", new())]),
        {"scale": [StandardScaler(), "passthrough"], "svm__C": [0.1, 1.0]}, cv=3,
    ).fit(X, y).best_score_),
    Use("GridSearchCV over solvers", lambda new, X, y: GridSearchCV(
        new(), {"solver": ["auto", DualCoordinate(recentring=0.0)]}, cv=3).fit(X, y).best_score_),
    Use("GridSearchCV with scoring=\"neg_log_loss\"", lambda new, X, y: GridSearchCV(
        calibrated(new), GRID, cv=3, scoring="neg_log_loss").fit(X, y).best_score_, -1.0),
    Use("GridSearchCV with several metrics", lambda new, X, y: GridSearchCV(
        calibrated(new), GRID, cv=3, scoring=["accuracy", "f1_macro", "neg_log_loss"],
        refit="accuracy").fit(X, y).best_score_),
    Use("GridSearchCV with n_jobs", lambda new, X, y: in_threads(
        GridSearchCV(new(), GRID, cv=3, n_jobs=2), X, y)),
    Use("RandomizedSearchCV", lambda new, X, y: RandomizedSearchCV(
        new(), {"C": [0.1, 0.5, 1.0]}, n_iter=2, cv=3, random_state=0).fit(X, y).best_score_),
    Use("HalvingGridSearchCV", lambda new, X, y: HalvingGridSearchCV(
        new(), GRID, cv=3, random_state=0).fit(X, y).best_score_),
    # cross-validation and inspection
    Use("cross_val_score", lambda new, X, y: cross_val_score(new(), X, y, cv=3).mean()),
    Use("cross_validate", lambda new, X, y: cross_validate(
        new(), X, y, cv=3, return_estimator=True)["test_score"].mean()),
    Use("cross_val_predict", lambda new, X, y: (
        cross_val_predict(new(), X, y, cv=3) == y).mean()),
    Use("cross_val_predict with method=\"predict_proba\"", lambda new, X, y: cross_val_predict(
        calibrated(new), X, y, cv=3, method="predict_proba").max(axis=1).mean(), 0.5),
    Use("cross_val_predict with method=\"decision_function\"", lambda new, X, y: len(
        cross_val_predict(new(), X, y, cv=3, method="decision_function")) == N, 1.0),
    Use("learning_curve", lambda new, X, y: learning_curve(
        new(), X, y, cv=3, train_sizes=[0.5, 1.0])[2].mean()),
    Use("learning_curve with exploit_incremental_learning", lambda new, X, y: learning_curve(
        new(), X, y, cv=3, train_sizes=[0.5, 1.0], exploit_incremental_learning=True)[2].mean()),
    Use("validation_curve", lambda new, X, y: validation_curve(
        new(), X, y, param_name="C", param_range=[0.1, 1.0], cv=3)[1].mean()),
    Use("permutation_test_score", lambda new, X, y: permutation_test_score(
        new(), X, y, n_permutations=3, cv=3, random_state=0)[0]),
    Use("permutation_importance", lambda new, X, y: permutation_importance(
        new().fit(X, y), X, y, n_repeats=2, random_state=0).importances_mean.argmax() == 0, 1.0),
    Use("partial_dependence", lambda new, X, y: np.ptp(
        partial_dependence(new().fit(X, y), X, [0])["average"]), 0.1),
    # models of models
    Use("CalibratedClassifierCV", lambda new, X, y: sure(
        CalibratedClassifierCV(new(), cv=3), X, y), 0.45),
    Use("CalibratedClassifierCV with method=\"isotonic\"", lambda new, X, y: sure(
        CalibratedClassifierCV(new(), method="isotonic", cv=3), X, y), 0.45),
    Use("CalibratedClassifierCV with a FrozenEstimator", lambda new, X, y: sure(
        CalibratedClassifierCV(FrozenEstimator(new().fit(X, y)), cv=3), X, y), 0.45),
    Use("VotingClassifier", lambda new, X, y: right(
        VotingClassifier([("a", new()), ("b", new(fit_intercept=False))]), X, y)),
    Use("VotingClassifier with voting=\"soft\"", lambda new, X, y: sure(
        VotingClassifier([("a", calibrated(new)), ("b", calibrated(new))], voting="soft"), X, y),
        0.45),
    Use("StackingClassifier", lambda new, X, y: right(
        StackingClassifier([("a", new()), ("b", new(fit_intercept=False))], new(), cv=3), X, y)),
    Use("BaggingClassifier", lambda new, X, y: right(
        BaggingClassifier(new(), n_estimators=2, random_state=0), X, y)),
    Use("AdaBoostClassifier", lambda new, X, y: right(
        AdaBoostClassifier(new(), n_estimators=2, random_state=0), X, y)),
    Use("OneVsRestClassifier", lambda new, X, y: right(OneVsRestClassifier(new()), X, THREE)),
    Use("OneVsRestClassifier of several labels", lambda new, X, y: (
        OneVsRestClassifier(new()).fit(X, BOTH).predict(X) == BOTH).mean()),
    Use("OneVsRestClassifier with partial_fit", lambda new, X, y: OneVsRestClassifier(
        new()).partial_fit(X, THREE, classes=np.unique(THREE)).score(X, THREE)),
    Use("OneVsOneClassifier", lambda new, X, y: right(OneVsOneClassifier(new()), X, THREE)),
    Use("OutputCodeClassifier", lambda new, X, y: right(
        OutputCodeClassifier(new(), random_state=0), X, THREE), 0.5),
    Use("MultiOutputClassifier", lambda new, X, y: (
        MultiOutputClassifier(new()).fit(X, BOTH).predict(X) == BOTH).mean()),
    Use("MultiOutputClassifier with predict_proba", lambda new, X, y: len(
        MultiOutputClassifier(calibrated(new)).fit(X, BOTH).predict_proba(X)) == 2, 1.0),
    Use("ClassifierChain", lambda new, X, y: (
        ClassifierChain(new(), cv=3).fit(X, BOTH).predict(X) == BOTH).mean()),
    Use("SelfTrainingClassifier", lambda new, X, y: SelfTrainingClassifier(calibrated(new)).fit(
        X, np.where(np.arange(N) < 70, np.unique(y, return_inverse=True)[1], -1)
    ).score(X, np.unique(y, return_inverse=True)[1])),
    Use("TunedThresholdClassifierCV", lambda new, X, y: right(
        TunedThresholdClassifierCV(new(), cv=3), X, TWO)),
    Use("FixedThresholdClassifier", lambda new, X, y: right(
        FixedThresholdClassifier(new(), threshold=0.1, pos_label="yes"), X, TWO)),
    # selections of features
    Use("RFECV", lambda new, X, y: RFECV(new(), cv=3).fit(X, y).support_[0], 1.0),
    Use("SelectFromModel of the same model", lambda new, X, y: right(
        make_pipeline(SelectFromModel(new()), new()), X, y)),
    Use("SelectKBest in a pipeline", lambda new, X, y: right(
        make_pipeline(SelectKBest(f_classif, k=2), new()), X, y)),
    # frames and names of columns
    Use("frames of pandas", lambda new, X, y: right(new(), pandas_frame(X), pd.Series(y))),
    Use("frames of polars", lambda new, X, y: cross_val_score(
        new(), polars_frame(X), pl.Series(y), cv=3).mean()),
    Use("names of columns", lambda new, X, y: new().fit(
        pandas_frame(X), y).feature_names_in_.tolist() == new().fit(
        polars_frame(X), y).feature_names_in_.tolist() == COLUMNS, 1.0),
    Use("set_output(transform=\"pandas\")", lambda new, X, y: make_pipeline(
        StandardScaler(), new()).set_output(transform="pandas").fit(
        pandas_frame(X), y)[-1].feature_names_in_.tolist() == COLUMNS, 1.0),
    Use("set_output(transform=\"polars\")", lambda new, X, y: make_pipeline(
        StandardScaler(), new()).set_output(transform="polars").fit(
        polars_frame(X), y)[-1].feature_names_in_.tolist() == COLUMNS, 1.0),
    Use("ColumnTransformer of mixed columns", lambda new, X, y: right(
        by_columns(new), mixed(X), y)),
    # objects
    Use("clone", lambda new, X, y: clone(new().fit(X, y)).get_params() == new().get_params(), 1.0),
    Use("pickle", lambda new, X, y: stored(
        calibrated(new).fit(X, y), X, pickle.dump, pickle.load), 1.0),
    Use("joblib.dump", lambda new, X, y: stored(
        calibrated(new).fit(X, y), X, joblib.dump, joblib.load), 1.0),
    Use("pictures of estimators in notebooks", lambda new, X, y: len(
        new().fit(X, y)._repr_html_()), 100),
    # metadata without routing
    Use("sample_weight by step", lambda new, X, y: Pipeline(
        [("scale", StandardScaler()), ("svm", new())]).fit(
        X, y, svm__sample_weight=WEIGHT).score(X, y)),
    Use("sample_weight of VotingClassifier", lambda new, X, y: VotingClassifier(
        [("a", new())]).fit(X, y, sample_weight=WEIGHT).score(X, y)),
]  # fmt: skip


@pytest.mark.parametrize("new", [binary, multiclass], ids=["binary", "multiclass"])
@pytest.mark.parametrize("use", USES, ids=lambda use: use.name)
def test_ways_of_use(use, new):
    assert use.call(new, X, TWO if new is binary else THREE) >= use.least


def arrow_table(X):
    arrow = pytest.importorskip("pyarrow")
    return arrow.table({name: X[:, j] for j, name in enumerate(COLUMNS)})


def arrow_array(values):
    return pytest.importorskip("pyarrow").array(values)


FRAMES = {
    "pandas": (pandas_frame, pd.Series),
    "pandas, types that may miss": (
        lambda X: pandas_frame(X).convert_dtypes(), lambda y: pd.Series(y).convert_dtypes(),
    ),
    "pandas, categories": (pandas_frame, lambda y: pd.Series(y).astype("category")),
    "polars": (polars_frame, pl.Series),
    "pyarrow": (arrow_table, arrow_array),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_frames_of_any_library_are_the_same_data(name):
    frame, column = FRAMES[name]
    plain = multiclass().fit(X, THREE, WEIGHT)
    weight = WEIGHT if "categories" in name else column(WEIGHT)
    model = multiclass().fit(frame(X), column(THREE), weight)
    assert_array_equal(model.coef_, plain.coef_)
    assert model.classes_.tolist() == plain.classes_.tolist()
    assert model.feature_names_in_.tolist() == COLUMNS
    assert_array_equal(model.predict(frame(X)), plain.predict(X))
    assert model.score(frame(X), column(THREE), weight) == plain.score(X, THREE, WEIGHT)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(
            frame(X)[COLUMNS[::-1]] if name != "pyarrow" else frame(X).select(COLUMNS[::-1])
        )


@pytest.mark.parametrize("name", FRAMES)
def test_sequences_may_be_frames(name):
    frame, column = FRAMES[name]
    rows, labels = (np.split(values, [7, 20, 50]) for values in (X, THREE))
    plain = ChainSVM(tol=0.1, random_state=0).fit(rows, labels)
    model = ChainSVM(tol=0.1, random_state=0).fit([*map(frame, rows)], [*map(column, labels)])
    assert_array_equal(model.coef_, plain.coef_)
    assert model.classes_.tolist() == plain.classes_.tolist()
    assert model.score([*map(frame, rows)], [*map(column, labels)]) == plain.score(rows, labels)


OF_NUMBERS = [
    Use("GridSearchCV of numbers", lambda new, X, y: GridSearchCV(
        new(), GRID, cv=3).fit(X, y).best_score_),
    Use("TransformedTargetRegressor", lambda new, X, y: TransformedTargetRegressor(
        new(), transformer=StandardScaler()).fit(X, y).score(X, y)),
    Use("MultiOutputRegressor", lambda new, X, y: MultiOutputRegressor(new()).fit(
        X, np.column_stack([y, -y])).score(X, np.column_stack([y, -y]))),
    Use("RegressorChain", lambda new, X, y: RegressorChain(new()).fit(
        X, np.column_stack([y, -y])).score(X, np.column_stack([y, -y]))),
    Use("VotingRegressor", lambda new, X, y: VotingRegressor(
        [("a", new()), ("b", new())]).fit(X, y).score(X, y)),
    Use("StackingRegressor", lambda new, X, y: StackingRegressor(
        [("a", new())], new(), cv=3).fit(X, y).score(X, y)),
    Use("BaggingRegressor", lambda new, X, y: BaggingRegressor(
        new(), n_estimators=2, random_state=0).fit(X, y).score(X, y)),
]  # fmt: skip


@pytest.mark.parametrize("use", OF_NUMBERS, ids=lambda use: use.name)
def test_ways_of_use_of_numbers(use):
    assert use.call(regression, X, NUMBERS) >= use.least


# Metadata routing


def ranking():
    model = RankSVM(C=0.5, random_state=0)
    return model.set_fit_request(groups=True).set_score_request(groups=True)


def weighted(new):
    return new().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)


ROUTED = [
    Use("sample_weight of GridSearchCV", lambda new, X, y: GridSearchCV(
        weighted(new), GRID, cv=3).fit(X, y, sample_weight=WEIGHT).best_score_),
    Use("sample_weight through a pipeline", lambda new, X, y: cross_validate(
        make_pipeline(StandardScaler().set_fit_request(sample_weight=False), weighted(new)), X, y,
        cv=3, params={"sample_weight": WEIGHT})["test_score"].mean()),
    Use("margin of BinarySVM", lambda new, X, y: cross_validate(
        binary().set_fit_request(margin=True), X, TWO, cv=3,
        params={"margin": WEIGHT})["test_score"].mean()),
    Use("metric of MulticlassSVM", lambda new, X, y: cross_validate(
        multiclass().set_score_request(metric=True), X, THREE, cv=3,
        params={"metric": "cost"})["test_score"].mean(), -0.5),
    Use("groups of RankSVM", lambda new, X, y: cross_val_score(
        ranking(), X, RELEVANCE, cv=GroupKFold(3), params={"groups": QUERIES}).mean(), 0.8),
    Use("groups of RankSVM in GridSearchCV", lambda new, X, y: GridSearchCV(
        make_pipeline(StandardScaler(), ranking()), {"ranksvm__C": [0.1, 1.0]},
        cv=GroupKFold(3)).fit(X, RELEVANCE, groups=QUERIES).best_score_, 0.8),
]  # fmt: skip


@pytest.mark.parametrize("use", ROUTED, ids=lambda use: use.name)
def test_metadata_is_routed(use):
    with sklearn.config_context(enable_metadata_routing=True):
        assert use.call(binary, X, TWO) >= use.least


def test_queries_as_lists_need_no_routing():
    X_lists, y_lists = (np.split(values, 15) for values in (X, RELEVANCE))
    found = cross_val_score(RankSVM(C=0.5, random_state=0), X_lists, y_lists, cv=3)
    with sklearn.config_context(enable_metadata_routing=True):
        folds = PredefinedSplit(QUERIES // 5)
        routed = cross_val_score(ranking(), X, RELEVANCE, cv=folds, params={"groups": QUERIES})
    assert_allclose(found, routed)


# What does not work, and why


@dataclass(frozen=True)
class Refusal:
    """A way of use that fails, with words of scikit-learn's or of taut's."""

    name: str
    call: Callable[[], Any]
    words: str


def ragged():
    ends = [2, 5, 6, 10, 12]
    model = RankSVM(C=0.5, random_state=0)
    return cross_val_predict(model, np.split(X[:15], ends), np.split(RELEVANCE[:15], ends), cv=2)


REFUSED = [
    Refusal("StackingClassifier with stack_method=\"predict_proba\"", lambda: StackingClassifier(
        [("a", calibrated(binary))], stack_method="predict_proba").fit(X, TWO),
        "does not implement the method predict_proba"),
    Refusal("cross_val_predict of sequences", ragged, "inhomogeneous"),
    Refusal("columns in another order", lambda: binary().fit(pandas_frame(X), TWO).predict(
        pandas_frame(X)[COLUMNS[::-1]]), "must be in the same order"),
    Refusal("predict_proba without a temperature", lambda: VotingClassifier(
        [("a", binary())], voting="soft").fit(X, TWO).predict(X),
        "no predict_proba before a temperature is known: call fit_temperature"),
]  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: refusal.name)
def test_what_does_not_work_says_so(refusal):
    with pytest.raises((ValueError, AttributeError), match=refusal.words):
        refusal.call()


def test_pictures_of_decisions():
    pytest.importorskip("matplotlib").use("Agg")
    from sklearn.inspection import DecisionBoundaryDisplay

    model = multiclass().fit(X[:, :2], THREE)
    found = DecisionBoundaryDisplay.from_estimator(
        model, X[:, :2], grid_resolution=10, response_method="predict"
    )
    assert found.response.shape == (10, 10)


def test_the_page_lists_them_all():
    page = PAGE.read_text(encoding="utf-8")
    names = [*STEPS, *(case.name for case in [*USES, *OF_NUMBERS, *ROUTED, *REFUSED])]
    assert [name for name in names if name not in page] == []
