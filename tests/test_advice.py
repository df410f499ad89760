"""What a fit that did not converge says, and what results look like when they are shown."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import taut
from taut import Certificate, History, Record, Round, Rounds, Status
from taut.errors import NotConverged
from taut.training.advice import advice


def history(gaps, seconds=0.5):
    """Records of these relative gaps, of passes that take some time each."""
    return History(
        [
            Record(k + 1, seconds * (k + 1), 1.0, 1.0 - gap, False, k + 1, 1.0)
            for k, gap in enumerate(gaps)
        ]
    )


def said(gaps=(), tol=1e-3, curvature=1.0, X=None, status=Status.MAX_ITER):
    return advice(status, history(gaps), tol, lambda: curvature, X)


def test_nothing_is_said_unless_a_limit_ended_the_run():
    for status in set(Status) - {Status.MAX_ITER, Status.TIME_LIMIT}:
        assert said(status=status, curvature=1e9) == ""


@pytest.mark.parametrize("as_given", [lambda X: X, lambda X: ((X,), np.arange(4)), sp.csr_array])
def test_sizes_of_columns_are_measured(as_given):
    X = as_given(np.array([[1e-3, 2e4, 0.0], [1e-3, 0.0, 0.0], [1e-3, 2e4, 0.0]]))
    scaler = "MaxAbsScaler" if sp.issparse(X) else "StandardScaler"
    assert said(X=X, curvature=1e7) == (
        "the features have sizes from 0.001 to 2e+04: scale them, e.g. with "
        f"sklearn.preprocessing.{scaler}"
    )
    assert said(X=X, curvature=10.0) == "raise max_iter, or tol"


@pytest.mark.parametrize("X", [None, [[1.0], [1e9]], np.zeros((2, 2)), np.eye(3), np.ones(3)])
def test_a_large_factor_is_told_from_columns_of_many_sizes(X):
    assert said(X=X, curvature=2e7) == (
        "C times the squared length of the features is 2e+07 on average, and training is fast "
        "below 100: lower C, or scale the features"
    )


def test_a_steady_fall_is_extrapolated():
    gaps = 0.9 ** np.arange(50)  # 0.0057 at the end: 17 passes short of 1e-3
    assert said(gaps) == "raise max_iter, or tol; at this rate about 17 more passes are needed"
    assert said(gaps, status=Status.TIME_LIMIT) == (
        "raise time_limit, or tol; at this rate about 8.5 more seconds are needed"
    )


def test_a_fall_that_slows_down_is_extrapolated_as_such():
    # 1 / k is 0.01 at pass 100, where a steady fall would be there in some 40 passes.
    assert said(1.0 / np.arange(1, 61), tol=0.01) == (
        "raise max_iter, or tol; at this rate about 40 more passes are needed"
    )
    assert said(1.0 / np.arange(1, 101), tol=0.004) == (
        "raise max_iter, or tol; at this rate about 150 more passes are needed"
    )


@pytest.mark.parametrize(
    "gaps",
    [
        0.9 ** np.arange(10),  # too few to tell
        np.concatenate([0.5 ** np.arange(20), 0.5**20 * 0.99 ** np.arange(10)]),  # no steady fall
        0.99999 ** np.arange(50),  # too slow for a forecast
        1.0 / np.arange(1, 51),  # slows down
    ],
)
def test_nothing_is_extrapolated_without_a_steady_fall(gaps):
    assert said(gaps, tol=1e-9) == "raise max_iter, or tol"


def test_a_gap_that_no_longer_falls():
    gaps = np.concatenate([0.9 ** np.arange(20), np.full(40, 0.1)])
    assert said(gaps).startswith("the gap has stopped falling: raise tol, or try another solver")


def test_the_warning_has_the_measured_reason():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)) * [1e-2, 1.0, 1e3], np.arange(30) % 3
    with pytest.warns(NotConverged, match=r"max_iter=5 passes .*sizes from 0.012 to .*Standard"):
        taut.MulticlassSVM(max_iter=5, random_state=0).fit(X, y)
    with pytest.warns(NotConverged, match=r"on average, and training is fast .*: lower C, or"):
        taut.MulticlassSVM(C=1e6, max_iter=5, random_state=0).fit(X / [1e-2, 1.0, 1e3], y)


def certificate(primal=10.0, dual=9.9, exact=True, **changes):
    return Certificate(primal, dual, 4.0, exact, Status.MAX_ITER, "", 5, 34, 1.234, None, **changes)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        # 0.1 / 9.9 = 1.0101 %: a bound is rounded upwards.
        (certificate(), "objective 10, at most 1.1 % above the optimum, 34 passes, 1.2 s"),
        (certificate(exact=False), "objective 10, about 1.1 % above the optimum, 34 passes, 1.2 s"),
        (certificate(5.0, 5.0), "objective 5, at most 0 % above the optimum, 34 passes, 1.2 s"),
        (certificate(5.0, 4.0), "objective 5, at most 25 % above the optimum, 34 passes, 1.2 s"),
        (certificate(5.0, -1.0), "objective 5, at most 6 above the optimum, 34 passes, 1.2 s"),
        (
            certificate(5.0, 0.0),
            "objective 5, at most 5 above the optimum, of which 0 is the only lower bound so far, "
            "34 passes, 1.2 s",
        ),
        (certificate(5.0, -np.inf), "objective 5, no lower bound yet, 34 passes, 1.2 s"),
        (
            certificate(5.0, 5.0, of="a relaxation", compile_seconds=12.0),
            "objective 5 of a relaxation, at most 0 % above the optimum, 34 passes, 1.2 s, "
            "and 12 s of compilation",
        ),
    ],
)
def test_certificates_in_words(shown, text):
    assert repr(shown) == f"Certificate: MAX_ITER, {text}"


def test_a_lower_bound_of_0_is_explained():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 3
    model = taut.MulticlassSVM(C=1e5, max_iter=3, random_state=0)
    message = r"relative gap 1 > .*The lower bound is still 0, .*however good the model is\.$"
    with pytest.warns(NotConverged, match=message):
        model.fit(X, y)
    assert model.certificate_.dual == 0.0
    assert "0 is the only lower bound so far" in repr(model.certificate_)


def test_histories_in_words():
    passes = history([0.5, 0.25, 0.125])
    assert repr(passes) == "History: 3 passes in 1.5 s, relative gap from 0.5 to 0.12"
    assert repr(History()) == "History: no passes"
    rounds = Rounds([Round(1, 9.0, 9.5, 9.0, 3, 7, 0.5), Round(2, 8.0, 8.5, 8.0, 0, 7, 2.0)])
    assert repr(rounds) == (
        "Rounds: 2 rounds in 2 s, objective from 9 to 8, 0 latent values changed in the last"
    )
    assert repr(Rounds()) == "Rounds: no rounds"


def test_histories_are_lists_of_records_and_columns():
    passes = history([0.5, 0.25, 0.125])
    assert passes[-1].relative_gap == 0.125
    assert passes[np.int64(0)] is passes.records[0]
    assert isinstance(passes[1:], History)
    assert passes[1:]["relative_gap"].tolist() == [0.25, 0.125]
    assert isinstance(Rounds()[:1], Rounds)
    with pytest.raises(IndexError):
        passes[3]


def test_dir_lists_what_users_name():
    names = set(dir(taut))
    assert set(taut.__all__) <= names
    assert not {"annotations", "importlib", "Any", "TYPE_CHECKING"} & names
    assert {name for name in names if name.startswith("_")} == {"__version__"}


def test_every_status_is_documented():
    text = (Path(__file__).parents[1] / "docs" / "certificates.md").read_text()
    assert [status.name for status in Status if f"`{status.name}`" not in text] == []
