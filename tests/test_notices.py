"""Warnings that repeat come once, and point to the user's own line."""

import warnings

import pytest

from taut.console.notices import one_of_each_kind, warn, warn_once
from taut.errors import CacheOverflow, NotConverged


@pytest.fixture
def caught():
    """The warnings of a test, as they come."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def texts(caught):
    return [str(warning.message) for warning in caught]


def test_the_last_of_each_class_comes_in_the_end(caught):
    with one_of_each_kind():
        for k in range(3):
            with one_of_each_kind():  # a solve within a solve
                warn_once(f"overflow {k}", CacheOverflow)
        warn_once("not converged", NotConverged)
        assert texts(caught) == []
    assert texts(caught) == ["overflow 2 (The last of 3 such warnings.)", "not converged"]
    assert {warning.filename for warning in caught} == {__file__}


def test_what_cannot_wait_comes_at_once(caught):
    with one_of_each_kind():
        warn("disk full", RuntimeWarning)
        assert texts(caught) == ["disk full"]


def test_outside_of_a_fit_of_many_solves_all_come(caught):
    warn_once("first", CacheOverflow)
    warn_once("second", CacheOverflow)
    assert texts(caught) == ["first", "second"]


def fail_after_a_warning():
    with one_of_each_kind():
        warn_once("overflow", CacheOverflow)
        raise ValueError("failed")


def test_an_error_is_not_replaced_by_warnings(caught):
    with pytest.raises(ValueError, match="failed"):
        fail_after_a_warning()
    warn_once("later", CacheOverflow)
    assert texts(caught) == ["later"]
