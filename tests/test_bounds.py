"""Bounds that hold whatever the user does: broken laws, rounding, overflow."""

from fractions import Fraction

import numpy as np
import pytest

import taut
from misuses.compiled import CompiledTable
from own_structures import CompiledTags, ListedTags, Tags, tagged
from taut import Problem, Regularizer, StructuredSVM, solve
from taut.data import Stream
from taut.errors import CrossedBounds, InvalidData, InvalidStructure
from taut.result import relative
from taut.solvers import DualCoordinate, FrankWolfe, MultiSample, NSlack, OneSlack, Subgradient
from taut.structures import Scalar

SOLVERS = [DualCoordinate(), FrankWolfe(), MultiSample(), NSlack(), OneSlack(), Subgradient()]


@pytest.fixture(scope="module")
def data():
    return tagged(12, 3, 2, np.random.default_rng(0))


class ForgetsLoss(Tags):
    def argmax(self, x, w, truth=None):
        return super().argmax(x, w)


class SometimesForgets(Tags):
    """On blocks that a spot check does not look at."""

    def argmax(self, x, w, truth=None):
        return super().argmax(x, w, truth if x[0] < 0.5 else None)


class CostlyTruth(Tags):
    def loss(self, truth, label):
        return 1.0 + super().loss(truth, label)


class NegativeLoss(Tags):
    def loss(self, truth, label):
        return -super().loss(truth, label)


class RandomLoss(Tags):
    rng = np.random.default_rng(0)

    def loss(self, truth, label):
        return super().loss(truth, label) * self.rng.uniform(0.5, 1.5)


class RandomFeatures(Tags):
    rng = np.random.default_rng(0)

    def features(self, x, label):
        return super().features(x, label) + self.rng.normal()


class InfiniteFeatures(Tags):
    def features(self, x, label):
        return super().features(x, label) / (0.0 if sum(label) == 2 else 1.0)


class ListsTooFew(ListedTags):
    def labels(self, x):
        return self.subsets[1:]


class RarelySecondBest(ListedTags):
    """Too rarely for a spot check; what it returns is right in all other ways."""

    def argmax(self, x, w, truth=None):
        if x[0] != X_OF_THE_FOURTH or truth is None:
            return super().argmax(x, w, truth)
        values = [w @ self.features(x, y) + self.loss(truth, y) for y in self.subsets]
        return self.subsets[int(np.argsort(values)[-2])]


X_OF_THE_FOURTH = tagged(12, 3, 2, np.random.default_rng(0))[0][3, 0]

BROKEN = [
    ListsTooFew,
    ForgetsLoss,
    CostlyTruth,
    NegativeLoss,
    RandomLoss,
    RandomFeatures,
    InfiniteFeatures,
]


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_spot_check_refuses_a_broken_structure_before_training(kind, data):
    with pytest.raises((InvalidStructure, InvalidData), match=kind.__name__):
        StructuredSVM(kind(3), C=1.0, random_state=0).fit(*data)


@pytest.mark.parametrize("kind", [ForgetsLoss, SometimesForgets], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_argmax_that_forgets_the_loss_is_found_in_training(kind, solver, data):
    model = StructuredSVM(kind(3), C=1.0, solver=solver, random_state=0, check=False, tol=1e-6)
    with pytest.raises(InvalidStructure, match=r"forget the loss|score \+ loss"):
        model.fit(*data)


def test_compiled_argmax_that_forgets_the_loss_is_found(rng):
    X, y = rng.normal(size=(12, 2)), rng.integers(4, size=12)
    for check in (True, False):
        structure = CompiledTable(1.0 - np.eye(4), "forgets_loss", 12)
        model = StructuredSVM(structure, C=1.0, random_state=0, check=check)
        with pytest.raises(InvalidStructure, match=r"CompiledTable\.argmax"):
            model.fit(X, y)


@pytest.mark.parametrize("kind", [CostlyTruth, RandomFeatures])
def test_tripwires_find_broken_laws_in_training(kind, data):
    model = StructuredSVM(kind(3), C=1.0, random_state=0, check=False)
    with pytest.raises(InvalidStructure, match=kind.__name__):
        model.fit(*data)


def test_listed_labels_are_audited(data):
    X, y = (part[:8] for part in data)  # as many as an audit looks at
    model = StructuredSVM(RarelySecondBest(3), C=0.01, random_state=0, check=False)
    with pytest.raises(InvalidStructure, match=r"RarelySecondBest\.argmax of example 3"):
        model.fit(X, y)


@pytest.mark.parametrize("structure", [Tags(3), ListedTags(3), CompiledTags(3)])
def test_spot_check_accepts_what_keeps_the_laws(structure, data):
    assert StructuredSVM(structure, C=1.0, random_state=0).fit(*data).certificate_.exact


def test_spot_check_looks_at_streams(data):
    X, y = data
    with pytest.raises(InvalidStructure, match="ForgetsLoss"):
        StructuredSVM(ForgetsLoss(3), C=1.0).fit(Stream([(list(X), y)], kind="examples"))


def test_spot_check_takes_few_calls(data):
    class Counting(Tags):
        calls = 0

        def argmax(self, x, w, truth=None):
            type(self).calls += 1
            return super().argmax(x, w, truth)

    X, y = data
    solve(Problem(Counting(3), X, y), max_iter=1, tol=10.0, check=False, random_state=0)
    without, Counting.calls = Counting.calls, 0
    solve(Problem(Counting(3), X, y), max_iter=1, tol=10.0, random_state=0)
    assert 0 < Counting.calls - without <= 48


def test_check_is_a_flag_as_others_are(data):
    for check in (np.True_, 1, 0):
        StructuredSVM(Tags(3), check=check, tol=10.0).fit(*data)
    with pytest.raises(InvalidData, match="check = 'no'"):
        StructuredSVM(Tags(3), check="no").fit(*data)


def test_loop_refuses_bounds_that_cross(data, monkeypatch):
    problem = Problem(Scalar(), np.array([[1.0], [-2.0]]), np.array([1.0, -1.0]))
    true = Problem.dual
    monkeypatch.setattr(Problem, "dual", lambda self, *point: 1.5 * true(self, *point))
    with pytest.raises(CrossedBounds, match=r"check_structure.*warm_start and checkpoint"):
        solve(problem, random_state=0)


def exact_primal(w, X, y, C):
    """P(w) of a binary problem, in rational numbers."""
    w = [Fraction(float(v)) for v in w]
    value = sum(v * v for v in w) / 2
    for row, sign in zip(X.tolist(), y.tolist(), strict=True):
        score = Fraction(sign) * sum(Fraction(x) * v for x, v in zip(row, w, strict=True))
        value += Fraction(C) * max(Fraction(0), 1 - score)
    return value


@pytest.mark.parametrize("C", [1.0, 1e6, 1e12, 1e18])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_stated_rounding_covers_the_true_one(C, scale):
    X, y = scale * np.array([[1.0, 0.5], [-1.0, 0.3]]), np.array([1.0, -1.0])
    result = solve(Problem(Scalar(), X, y, C=C), random_state=0, max_iter=300)
    proof, true = result.certificate, exact_primal(result.w, X, y, C)
    assert abs(true - Fraction(proof.primal)) <= proof.rounding
    # The optimum, from weights that fit both rows exactly or are as large as C allows, at most.
    assert proof.dual - proof.rounding <= proof.primal
    if proof.status.name == "CONVERGED":
        assert proof.relative_gap <= 1e-3
    else:
        assert proof.status.name == "STALLED"
        assert "scale the features" in proof.message


@pytest.mark.parametrize("n", [4, 3000])
def test_one_row_whose_score_cancels_is_known(n):
    """Its margin looks kept, but rounding hides that it is not."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 2)), np.ones(n)
    X[n // 2] = [1e20, -1e20]
    w = np.array([1.0 + 2.0**-52, 1.0])
    w[0] += 2.0**-52
    X[n // 2, 0] *= 1.0 - 2.0**-51
    problem = Problem(Scalar(), X, y)
    bound, true = problem.primal_bound(w), exact_primal(w, X, y, 1.0)
    assert abs(true - Fraction(bound.value)) <= bound.rounding
    assert bound.rounding > 1e4


def test_hopeless_scales_end_as_stalled_with_a_warning():
    X, y = 1e8 * np.array([[1.0, 0.5], [-1.0, 0.3]]), [1, -1]
    with pytest.warns(taut.errors.NotConverged, match="scale the features"):
        model = taut.BinarySVM(C=1e12, fit_intercept=False, random_state=0).fit(X, y)
    assert model.certificate_.status is taut.Status.STALLED
    assert model.certificate_.relative_gap == 1.0


def test_gap_includes_rounding():
    proof = taut.Certificate(2.0, 1.0, 1.0, True, taut.Status.CONVERGED, "", 1, 1, 0.0, None)
    assert relative(2.0, 1.0, 0.5) == 0.75
    assert relative(2.0, 0.0, 0.5) == 1.0  # no optimum is below 0
    assert relative(2.0, -1.0, 0.5) == 1.5
    assert (proof.gap, proof.relative_gap) == (1.0, 0.5)


def test_optimum_of_zero_at_the_prior_mean_is_certified():
    problem = Problem(
        Scalar(), np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]),
        regularizer=Regularizer(mean=[2.0]),
    )  # fmt: skip
    proof = solve(problem, random_state=0).certificate
    assert (proof.primal, proof.dual, proof.relative_gap) == (0.0, 0.0, 0.0)


def test_dual_bound_is_never_negative():
    problem = Problem(Scalar(), np.array([[1.0]]), np.array([1.0]))
    assert problem.dual(0.0, np.array([2.0])) == -2.0
    assert problem.dual_bound(0.0, np.array([2.0])) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("dtype", "value"), [(np.float32, 1e19), (np.float64, 1e155), (np.float64, -1e155)]
)
def test_features_that_overflow_are_refused_before_work(dtype, value):
    X = np.ones((3, 2), dtype=dtype)
    X[1, 0] = value
    with pytest.raises(InvalidData, match=r"X contains .* too large .* row 1, column 0.*rescale"):
        taut.BinarySVM().fit(X, [0, 1, 0])


@pytest.mark.parametrize("C", [1e101, 1e308])
def test_weights_that_overflow_are_refused_before_work(C):
    with pytest.raises(InvalidData, match=r"C = 1e.* too large"):
        taut.BinarySVM(C=C).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(InvalidData, match=r"sample_weight.*too large|too large.*sample_weight"):
        Problem(Scalar(), np.eye(2), np.array([1.0, -1.0]), C=1e60, sample_weight=[1e60, 1.0])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_overflow_in_training_end_in_an_error(value, monkeypatch):
    problem = Problem(Scalar(), np.array([[1.0], [-2.0]]), np.array([1.0, -1.0]))
    monkeypatch.setattr(Problem, "dual", lambda self, *point: value)
    with pytest.raises(InvalidData, match="too large to compute with"):
        solve(problem, random_state=0)


def test_targets_that_change_during_a_fit_change_nothing():
    X, y = np.arange(10.0)[:, None], np.arange(10.0)

    def model(*callbacks):
        return taut.RegressionSVM(solver="online_cache", callbacks=callbacks, random_state=0)

    def spoil(record):
        y[:] = 0.0

    still = model().fit(X, y).certificate_
    assert model(spoil).fit(X, y).certificate_.primal == still.primal


def test_limit_far_from_what_rounding_hides_is_the_reason_to_stop():
    rng = np.random.default_rng(0)
    y = np.arange(150) % 3
    X = 0.3 * np.eye(3)[y] @ rng.normal(size=(3, 13)) + rng.normal(size=(150, 13))
    with pytest.warns(taut.errors.NotConverged, match="Stopped after max_iter=5 passes"):
        model = taut.MulticlassSVM(C=1e9, max_iter=5, random_state=0).fit(X, y)
    assert model.certificate_.status is taut.Status.MAX_ITER
