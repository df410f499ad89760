"""Partial linearisation and its limits: the worked example, the steps, what they refuse."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cases import STRUCTURES, long_if
from reference import solve_qp
from taut import CompiledStructure, MulticlassSVM, Problem, Status, solve
from taut.errors import InvalidData, MissingOracle
from taut.solvers import SOLVERS, ExponentiatedGradient, FrankWolfe, PartialLinearization
from taut.structures import Blocks, OwnFeatures, part


class Diagonal(CompiledStructure):
    """Labels 0..K-1 with psi(k) = A_k e_k and loss b_k; the truth, label K, has no features."""

    allocates = False

    def __init__(self, A, b):
        self.A, self.b = np.array(A, float), np.array(b, float)

    def encode(self, X, y=None):
        K = len(self.A)
        return Blocks(
            data=(self.A, self.b),
            features=OwnFeatures(K, K),
            offsets=np.arange(2),
            truth=np.array([K], dtype=np.int32),
            mean_offsets=np.array([0, K]),
        )

    def decode(self, labels, offsets):
        return labels

    @staticmethod
    def pull(data, i, w, work):
        for k in range(w.shape[0]):
            work[k] = -data[0][k] * w[k]

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        label[0] = data[0].shape[0]
        best = 0.0
        for k in range(data[0].shape[0]):
            value = work[k] + loss_weight * data[1][k]
            if value > best:
                label[0], best = k, value
        return best

    @staticmethod
    def loss(data, i, label):
        return data[1][label[0]] if label[0] < data[1].shape[0] else 0.0

    @staticmethod
    def parts(data, i, label, each):
        return part(each, label[0], 1.0) if label[0] < data[0].shape[0] else 0.0

    @staticmethod
    def push(data, i, statistics, w):
        for k in range(w.shape[0]):
            w[k] -= statistics[k] * data[0][k]

    @staticmethod
    def expect(data, i, work, temperature, loss_weight, base, mean):
        total = 0.0
        highest = max(work[0] + loss_weight * data[1][0], work[1] + loss_weight * data[1][1])
        for k in range(mean.shape[0]):
            mean[k] = np.exp((work[k] + loss_weight * data[1][k] - highest) / temperature)
            if base.shape[0] > 0:
                mean[k] *= base[k]
            total += mean[k]
        for k in range(mean.shape[0]):
            mean[k] /= total
        return highest + temperature * np.log(total)

    @staticmethod
    def normalise(data, i, mean):
        pass

    @staticmethod
    def mean_of(data, i, label, mean):
        for k in range(mean.shape[0]):
            mean[k] = 1.0 if k == label[0] else 0.0

    @staticmethod
    def mean_loss(data, i, mean):
        total = 0.0
        for k in range(mean.shape[0]):
            total += mean[k] * data[1][k]
        return total

    @staticmethod
    def spread(data, i, mean, statistics):
        for k in range(mean.shape[0]):
            statistics[k] = mean[k]


class TestWorkedExample:
    """n = 1, lambda = 1, A = diag(2, 1, 3), b = (1, 1, 0), at a = (0.125, 0.5, 0.5).

    a sums to 1.125 as it is printed, so the step is taken by hand from that point.
    """

    A, b, a = np.array([2.0, 1.0, 3.0]), np.array([1.0, 1.0, 0.0]), np.array([0.125, 0.5, 0.5])

    def after(self, solver):
        """The mean after one pass from a, and by how much the minimised dual fell."""
        problem = Problem(Diagonal(self.A, self.b), None, np.zeros(1))
        state = solver.init(problem, np.random.default_rng(0))
        state.part.duals.means[:] = self.a
        state.w[:] = self.A * self.a
        solver.pass_(problem, state, 1.0, lambda: True)
        mean = state.part.duals.means
        assert_allclose(state.w, self.A * mean, atol=1e-14)
        return mean.copy(), self.objective(self.a) - self.objective(mean)

    def objective(self, a):
        return -self.b @ a + 0.5 * (self.A * a) @ (self.A * a)

    @pytest.mark.parametrize("update", ["block", "batch"])
    def test_temperature_one(self, update):
        mean, decrease = self.after(PartialLinearization(1.0, update=update))
        # The step is longer than 1 and clipped: a becomes the direction itself.
        assert_allclose(mean, [0.199, 0.796, 0.005], atol=5e-4)
        assert decrease == pytest.approx(1.2550, abs=5e-5)

    def test_temperature_zero(self):
        mean, decrease = self.after(PartialLinearization(0.0, update="batch"))
        step = (mean[0] - self.a[0]) / (1.0 - self.a[0])
        assert_allclose(mean, (1.0 - step) * self.a + step * np.array([1.0, 0.0, 0.0]), atol=1e-12)
        assert decrease == pytest.approx(0.5341, abs=5e-5)

    def test_zero_is_the_limit(self):
        zero = self.after(FrankWolfe(update="batch"))
        # The first two labels tie, and entropy would share between them: a hair more loss decides.
        self.b = np.array([1.0 + 1e-3, 1.0, 0.0])
        cold = self.after(PartialLinearization(1e-5))
        assert_allclose(cold[0], zero[0], atol=2e-3)
        assert cold[1] == pytest.approx(zero[1], abs=2e-3)

    def test_exponentiated_gradient_takes_the_whole_step(self):
        mean, _ = self.after(ExponentiatedGradient(10.0))
        s = self.a * np.exp((self.b - self.A**2 * self.a) / 10.0)
        assert_allclose(mean, s / s.sum(), rtol=1e-12)


MEANS = ["multiclass-cost-bias", "chain"]


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        long_if(name == "chain" and alike, name, solver, id=f"{solver}-{name}")
        for name in MEANS
        for solver, alike in (
            (PartialLinearization(recentring=0.0), False),
            (PartialLinearization(0.1, update="batch", recentring=0.0), True),
            (FrankWolfe(recentring=0.0), False),
            (FrankWolfe("away", recentring=0.0), True),
            (FrankWolfe("pairwise", recentring=0.0), True),
            (FrankWolfe(update="batch", recentring=0.0), False),
        )
    ],
)
def test_dual_never_falls(name, solver):
    result = solve(STRUCTURES[name].problem(), solver, tol=1e-4, max_iter=300, random_state=0)
    duals = result.history["dual"]
    assert (np.diff(duals) >= -1e-12 * np.abs(duals[1:])).all()
    assert duals[-1] > duals[0]


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("update", ["block", "batch"])
def test_dual_of_each_pass_is_that_of_the_means(name, update):
    """From the first pass on, although the first means are not quite those of the truths."""
    problem, solver = STRUCTURES[name].problem(), PartialLinearization(update=update)
    for passes in (1, 3):
        result = solve(problem, solver, tol=0.0, max_iter=passes, random_state=0)
        assert_allclose(result.history["dual"][-1], result.certificate.dual, rtol=1e-10)


@pytest.mark.parametrize("name", MEANS)
def test_starts_near_zero(name):
    problem = STRUCTURES[name].problem()
    state = PartialLinearization().init(problem, np.random.default_rng(0))
    U = np.zeros(problem.data.size)
    state.dual_vector(U)
    largest = max(np.abs(psi).max() for psi in STRUCTURES[name].reference[0])
    assert 0.0 < np.abs(U).max() < 5e-3 * problem.n_blocks * largest


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("temperature", [1e-3, 1e3])
def test_extreme_temperatures_stay_certified(name, temperature):
    case = STRUCTURES[name]
    solver = PartialLinearization(temperature)
    certificate = solve(case.problem(), solver, tol=1e-3, max_iter=50, random_state=0).certificate
    best = solve_qp(*case.reference, np.ones(case.n_blocks), rtol=1e-7)[0]
    assert np.isfinite(certificate.dual)
    assert certificate.dual <= best * (1.0 + 1e-7)
    assert certificate.primal >= best * (1.0 - 1e-7)


@pytest.mark.parametrize("name", MEANS)
class TestHotStart:
    solver = PartialLinearization(0.1)

    def run(self, problem, **options):
        return solve(problem, self.solver, tol=1e-3, max_iter=3000, random_state=0, **options)

    def test_own_result_is_converged_at_once(self, name):
        case = STRUCTURES[name]
        first = self.run(case.problem())
        again = self.run(case.problem(), start=first.state)
        assert again.certificate.passes <= 2

    @pytest.mark.parametrize("C", [0.5, 2.0])
    def test_from_other_weights(self, name, C):
        case = STRUCTURES[name]
        result = self.run(case.problem(C), start=self.run(case.problem()).state)
        best = solve_qp(*case.reference, np.full(case.n_blocks, C), rtol=1e-7)[0]
        assert result.certificate.status is Status.CONVERGED
        assert_allclose(result.certificate.primal, best, rtol=2e-3)

    def test_blocks_take_their_means_along(self, name):
        data = STRUCTURES[name].problem()
        state = self.solver.init(data, np.random.default_rng(0))
        blocks, before = np.array([0, 2]), state.part.duals.means.copy()
        taken = state.part.duals.take(blocks)
        state.part.duals.means[:] = 0.0
        state.part.duals.put(blocks, taken)
        for i in range(data.n_blocks):
            part = slice(*state.part.duals.offsets[i : i + 2])
            assert_array_equal(state.part.duals.means[part], before[part] * (i in blocks))


def test_resumed_is_uninterrupted(tmp_path):
    problem, solver = STRUCTURES["chain"].problem(), PartialLinearization()
    whole = solve(problem, solver, tol=0.0, max_iter=20, random_state=0)
    solve(problem, solver, tol=0.0, max_iter=7, random_state=0, checkpoint=tmp_path / "run")
    rest = solve(problem, solver, tol=0.0, max_iter=20, random_state=0, checkpoint=tmp_path / "run")
    assert_array_equal(whole.history["dual"], rest.history["dual"])
    assert_array_equal(whole.w, rest.w)


def test_planes_of_frank_wolfe_stay_few():
    problem = STRUCTURES["chain"].problem(C=30.0)
    result = solve(problem, FrankWolfe(), tol=0.0, max_iter=500, random_state=0)
    assert result.state["places"][:, 0].max() <= 81 + 1  # all labels of the longest sequence


def test_threads_reach_the_same_optimum(rng):
    X = rng.normal(size=(600, 5))
    y = (X @ rng.normal(size=(5, 3))).argmax(axis=1)
    primals = [
        MulticlassSVM(C=0.1, solver="partial_linearization", n_jobs=n, tol=1e-2, random_state=0)
        .fit(X, y)
        .certificate_.primal
        for n in (1, 2)
    ]
    assert_allclose(primals[0], primals[1], rtol=1e-2)


@pytest.mark.parametrize("name", ["partial_linearization", "frank_wolfe", "exponentiated_gradient"])
def test_names(name, rng):
    assert SOLVERS[name].name == name
    X = rng.normal(size=(60, 4))
    y = X.argmax(axis=1)
    model = MulticlassSVM(C=0.01, solver=name, tol=1e-2, random_state=0).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-2


@pytest.mark.parametrize(
    "solver",
    [PartialLinearization(), ExponentiatedGradient(), FrankWolfe(update="batch")],
    ids=lambda solver: solver.name,
)
@pytest.mark.parametrize("name", ["tags-plain", "tags-compiled", "pairwise"])
def test_structures_without_means_are_refused(name, solver):
    message = rf"{solver.name} needs the means of labels, and \w+ has no expect\(data, i, w"
    with pytest.raises(MissingOracle, match=message):
        solve(STRUCTURES[name].problem(), solver)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PartialLinearization(-1.0), r"temperature = -1.0: it must be 0 or more"),
        (lambda: PartialLinearization(np.nan), r"temperature = nan"),
        (lambda: PartialLinearization(step="line"), r"step = 'line': give 'exact' or"),
        (lambda: PartialLinearization(update="all"), r"update = 'all': give 'block' or 'batch'"),
        (lambda: PartialLinearization(order="no"), r"order = 'no'"),
        (lambda: ExponentiatedGradient(0.0), r"at temperature 0 would jump"),
        (lambda: FrankWolfe("best"), r"variant = 'best': give one of \['away', 'pairwise'"),
        (lambda: FrankWolfe("away", update="batch"), r"update = 'batch' with variant = 'away'"),
        (lambda: FrankWolfe(update="batch", order="gap"), r"visits every block"),
    ],
)
def test_bad_options_are_refused(make, message):
    with pytest.raises(InvalidData, match=message):
        make()


def test_means_are_of_a_distribution_whatever_rounding_did(rng):
    """Certificates rest on it: the dual of perturbed marginals is that of some feasible point."""
    case = STRUCTURES["chain"]
    problem = case.problem()
    state = PartialLinearization(0.1).init(problem, rng)
    best = solve_qp(*case.reference, np.ones(case.n_blocks), rtol=1e-7)[0]
    for _ in range(20):
        state.part.duals.means[:] *= rng.uniform(0.0, 2.0, size=len(state.part.duals.means))
        U = np.zeros(problem.data.size)
        state.dual_vector(U)
        assert problem.dual(state.loss_sum, U) <= best * (1.0 + 1e-9)
