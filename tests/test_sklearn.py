"""scikit-learn's own checks, with declared exceptions that carry a reason."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from taut import BinarySVM, ChainSVM, MulticlassSVM, StructuredSVM
from taut.structures import Structure


def expected_failures(estimator):
    return {}


@parametrize_with_checks(
    [BinarySVM(), MulticlassSVM(), ChainSVM()], expected_failed_checks=expected_failures
)
def test_scikit_learn(estimator, check):
    check(estimator)
