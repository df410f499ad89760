"""scikit-learn's own checks, with declared exceptions that carry a reason."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from taut import (
    BinarySVM,
    ChainSVM,
    LatentMulticlassSVM,
    LatentStructure,
    LatentStructuredSVM,
    LatentSVM,
    MulticlassSVM,
    OnlineSVM,
    RankSVM,
    RegressionSVM,
    Structure,
    StructuredSVM,
)


class Sign(Structure):
    """Whether a number is positive: a structure that takes whatever the checks come up with."""

    def __repr__(self):
        return "Sign()"

    def features(self, x, label):
        return np.asarray(x, dtype=float) * (1.0 if label > 0 else -1.0)

    def loss(self, truth, label):
        return float((truth > 0) != (label > 0))

    def argmax(self, x, w, truth=None):
        def value(label):
            return w @ self.features(x, label) + (0.0 if truth is None else self.loss(truth, label))

        return max((-1, 1), key=value)


class LatentSign(Sign, LatentStructure):
    """The same with nothing latent in it."""

    def complete(self, x, truth, w=None):
        return truth


# Repeated rows and doubled weights are the same problem; how close two solutions of it are is what
# tol says, and the checks ask for seven digits.
TIGHT = {"tol": 1e-9, "max_iter": 3000}

PER_SEQUENCE = "weights belong to sequences, and one stacked array without lengths is one sequence"
PER_QUERY = "weights belong to queries, and one stacked array without lengths is one query"
LISTS = "a list holds bags, not rows"
NEIGHBOURS = "a label depends on its neighbours, so rows cannot be reordered or left out"

ANYTHING = "examples are whatever the structure takes, not rows of a matrix"

STRUCTURED = {
    "check_complex_data": ANYTHING,
    "check_estimators_empty_data_messages": ANYTHING,
    "check_estimators_nan_inf": ANYTHING,
    "check_sample_weights_not_an_array": ANYTHING,
    "check_estimator_sparse_array": ANYTHING,
    "check_estimator_sparse_matrix": ANYTHING,
    "check_fit2d_predict1d": ANYTHING,
    "check_n_features_in": ANYTHING,
    "check_n_features_in_after_fitting": ANYTHING,
}

# Of estimators that hold out rows to find a temperature.
IN_MEMORY = "parts have no rows to hold out: partial_fit refuses"
CALIBRATED = {
    "check_fit_score_takes_y": IN_MEMORY,
    "check_n_features_in_after_fitting": IN_MEMORY,
    "check_estimators_partial_fit_n_features": IN_MEMORY,
}

SUBSETS = "subsets have so many rows, whatever their weights"

EXPECTED = {
    OnlineSVM: {
        "check_sample_weight_equivalence_on_dense_data": SUBSETS,
        "check_sample_weight_equivalence_on_sparse_data": SUBSETS,
    },
    StructuredSVM: STRUCTURED,
    LatentStructuredSVM: STRUCTURED,
    LatentSVM: {"check_classifiers_train": LISTS},
    LatentMulticlassSVM: {"check_classifiers_train": LISTS},
    RankSVM: {
        "check_sample_weights_pandas_series": PER_QUERY,
        "check_sample_weights_not_an_array": PER_QUERY,
        "check_sample_weights_list": PER_QUERY,
        "check_sample_weights_shape": PER_QUERY,
        "check_sample_weights_not_overwritten": PER_QUERY,
        "check_all_zero_sample_weights_error": PER_QUERY,
        "check_sample_weight_equivalence_on_dense_data": PER_QUERY,
        "check_sample_weight_equivalence_on_sparse_data": PER_QUERY,
    },
    ChainSVM: {
        "check_sample_weights_pandas_series": PER_SEQUENCE,
        "check_sample_weights_not_an_array": PER_SEQUENCE,
        "check_sample_weights_list": PER_SEQUENCE,
        "check_sample_weights_shape": PER_SEQUENCE,
        "check_sample_weights_not_overwritten": PER_SEQUENCE,
        "check_all_zero_sample_weights_error": PER_SEQUENCE,
        "check_sample_weight_equivalence_on_dense_data": PER_SEQUENCE,
        "check_sample_weight_equivalence_on_sparse_data": PER_SEQUENCE,
        "check_methods_sample_order_invariance": NEIGHBOURS,
        "check_methods_subset_invariance": NEIGHBOURS,
    },
}


# Kernels are compiled for each precision and each way in which rows are stored. What becomes of the
# data is one code for all estimators, so that some come in all forms in long tests alone.
OTHER_FORMS = ("check_estimators_dtypes", "X_dtype=float32", "sparse")
IN_ONE_FORM = (OnlineSVM, RegressionSVM, RankSVM, ChainSVM, LatentSVM, LatentMulticlassSVM)


def with_long_tests(parametrize):
    """The same parameters, some of them for long tests."""
    arguments, parameters = parametrize.args
    marked = []
    for parameter in parameters:
        (estimator, check), marks = getattr(parameter, "values", parameter), []
        name = parametrize.kwargs["ids"](check)
        in_one_form = isinstance(estimator, IN_ONE_FORM) or (
            isinstance(estimator, MulticlassSVM) and estimator.calibrate is not None
        )
        if in_one_form and any(form in name for form in OTHER_FORMS):
            marks = [pytest.mark.long]
        marks += getattr(parameter, "marks", ())
        marked.append(pytest.param(estimator, check, marks=marks))
    return pytest.mark.parametrize(arguments, marked, **parametrize.kwargs)


@pytest.mark.filterwarnings("ignore::taut.errors.NotConverged")  # some checks set max_iter to 5
@pytest.mark.filterwarnings("ignore::taut.errors.TemperatureAtBound")  # some draw labels at random
@with_long_tests(
    parametrize_with_checks(
        [
            BinarySVM(),
            MulticlassSVM(),
            BinarySVM(calibrate=0.3),
            MulticlassSVM(calibrate=0.3),
            RegressionSVM(),
            RankSVM(),
            ChainSVM(),
            StructuredSVM(Sign(), max_iter=30),  # plain Python takes long
            LatentSVM(),
            LatentMulticlassSVM(),
            LatentStructuredSVM(LatentSign(), max_iter=30),
            OnlineSVM(),
        ],
        expected_failed_checks=lambda estimator: (
            CALIBRATED
            if getattr(estimator, "calibrate", None)
            else EXPECTED.get(type(estimator), {})
        ),
    )
)
def test_scikit_learn(estimator, check):
    if "sample_weight_equivalence" in str(check) and not isinstance(estimator, OnlineSVM):
        estimator = clone(estimator).set_params(**TIGHT)
    check(estimator)
