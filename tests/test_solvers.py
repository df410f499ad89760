"""Every solver on every structure: the optimum, the certificate, the dual point behind it."""

import dataclasses
import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import nnls

from cases import REACH, SOLVERS, STRUCTURES, names, pairs
from reference import dual, primal, solve_qp
from taut import Problem, Status, solve
from taut.duals.planes import LABEL_SIZE, N_PLANES, SLOT, TEXT
from taut.engines import turns
from taut.engines.naming import of_parts
from taut.errors import InvalidData
from taut.solvers import DualCoordinate
from taut.structures import Multiclass, Regression, Scalar

# One structure for each form of the dual variables.
FORMS = [
    "scalar-bias",
    "regression-bias",
    "multiclass-cost-bias",
    "chain",
    "tags-plain",
    "tags-compiled",
]


def run(problem, solver=None, **options):
    return solve(problem, solver, **{"tol": 1e-8, "max_iter": 5000, "random_state": 0} | options)


@functools.cache
def solved(structure, solver="default"):
    return run(STRUCTURES[structure].problem(), SOLVERS[solver], tol=REACH.get(solver, 1e-8))


def optimum(case, weights):
    return solve_qp(*case.reference, weights, rtol=1e-7)[0]


def dual_point(case, state):
    """The weights of all enumerated labels, read off a solver's state."""
    if "alpha" in state:
        return list(state["alpha"])
    if "mean" in state:
        return mean_points(case, state)
    if "lowest_w" in state:
        return cut_points(case, state)
    if "late" in state:
        return summed_points(case, state)
    if "mined.alpha" in state:
        return mined_points(case, state)
    if "places" in state:
        return [block_point(case, state, i, i) for i in range(case.n_blocks)]
    alphas = [truth_point(case, i) for i in range(case.n_blocks)]
    for part in kept_parts(state):
        for q, i in enumerate(part["ids"]):
            alphas[i] = part["alpha"][q] if "alpha" in part else block_point(case, part, i, q)
    return alphas


def mined_points(case, state):
    """Weights of mined labels, scaled to share slacks, then by the factor of the largest dual."""
    psi, losses = case.reference
    alphas = [np.zeros(len(loss)) for loss in losses]
    for i, label, weight in zip(state["mined.owner"], *mined_labels(case, state), strict=True):
        alphas[i][label] += weight
    weights = state["block_weight"]
    pairs = list(zip(alphas, weights, strict=True))
    alphas = [a * min(1.0, C / a.sum()) if a.any() else a for a, C in pairs]
    U = sum(a @ p for a, p in zip(alphas, psi, strict=True))
    loss_sum = sum(a @ loss for a, loss in zip(alphas, losses, strict=True))
    factor = min(1.0, loss_sum / (U @ U)) if U.any() else 1.0
    rest = [max(C - factor * a.sum(), 0.0) for a, C in zip(alphas, weights, strict=True)]
    return [factor * a + rest[i] * truth_point(case, i) for i, a in enumerate(alphas)]


def mined_labels(case, state):
    """The number of each mined label among those of its block, and its weight."""
    numbers, ends = [], state["mined.row_indptr"]
    for j, i in enumerate(state["mined.owner"]):
        stored = slice(*ends[j : j + 2])
        values = state["mined.row_data"][stored]
        if values.dtype == np.float64:  # the psi of a plain structure
            row = np.zeros(case.reference[0][i].shape[1])
            row[state["mined.row_indices"][stored]] = values
            differs = np.abs(case.reference[0][i] - row).sum(axis=1)
            differs += np.abs(case.reference[1][i] - state["mined.points"][j])
        else:
            differs = np.abs(case.labels(i) - values[len(values) // 2 :]).sum(axis=1)
        assert differs.min() < 1e-12
        numbers.append(differs.argmin())
    return numbers, state["mined.alpha"]


def _means_of(oracles):
    mean_of = oracles.mean_of

    def means_of(data, i, labels, out):
        for q in range(labels.shape[0]):
            mean_of(data, i, labels[q], out[q])

    return means_of


def mean_points(case, state):
    """Weights of the enumerated labels whose mean is the stored one, for each block."""
    data = case.problem().data
    offsets = data.blocks.mean_offsets
    alphas = []
    for i in range(case.n_blocks):
        mean = state["mean"][offsets[i] : offsets[i + 1]].astype(np.float64)
        labels = np.ascontiguousarray(case.labels(i), dtype=np.int32)
        means = np.empty((len(labels), len(mean)))
        data.kernel(_means_of)(data.blocks.data, i, labels, means)
        alpha, error = nnls(np.vstack([means.T, np.ones(len(labels))]), np.append(mean, 1.0))
        assert error < 10 * np.sqrt(np.finfo(data.dtype).eps)
        alphas.append(alpha / alpha.sum())
    return alphas


def cut_points(case, state):
    """Those of planes that span all blocks."""
    U, loss_sum = sum_of_cuts(state)
    return points_with(case, U, loss_sum, state["weight"])


def summed_points(case, state):
    """Those of a sum that is kept in the place of dual variables."""
    scale, share, *_ = state["scales"]
    U = share / scale * state["w"]
    return points_with(case, U, share * state["sums"][0], np.ones(case.n_blocks))


def points_with(case, U, loss_sum, weight):
    """Feasible weights of the enumerated labels with this sum of psi and of losses.

    The solver has kept none: any show that its dual point is feasible.
    """
    psi, losses = case.reference
    ends = np.cumsum([len(block) for block in losses])
    owner = np.searchsorted(ends, np.arange(ends[-1]), side="right")
    member = owner == np.arange(len(ends))[:, None]
    # One more candidate for each block, without psi and loss: what its others leave of its weight.
    rest = np.vstack([np.zeros((len(psi[0][0]) + 1, len(ends))), np.eye(len(ends))])
    A = np.hstack([np.vstack([np.vstack(psi).T, np.concatenate(losses), member]), rest])
    U = case.problem().data.unpad(U)
    x, error = nnls(A, np.concatenate([U, [loss_sum], weight]))
    assert error < 1e-11 * (1.0 + weight.max())
    *alphas, unused = np.split(x, ends)
    for i, alpha in enumerate(alphas):
        alpha += unused[i] * truth_point(case, i)
        alpha *= min(1.0, weight[i] / max(alpha.sum(), 1e-300))
    return alphas


def sum_of_cuts(state):
    """U and the summed loss of the stored planes, times their weights."""
    U, coef = np.zeros(len(state["w"])), state["coef"]
    assert coef.min() >= 0.0
    assert coef.sum() <= 1.0 + 1e-15
    where = np.split(state["psi_where"], np.cumsum(state["psi_places"]))
    values = np.split(state["psi_value"], np.cumsum(state["psi_size"]))
    for k, b in enumerate(coef):
        places = where[k] if len(where[k]) == len(values[k]) else slice(None)
        U[places] += b * values[k]
    return U, coef @ state["loss"]


def kept_parts(state):
    """The blocks that an online solver keeps, segment by segment."""
    for own in of_parts(state).values():
        if "ids" in own:
            yield {"w": state["w"]} | own


def truth_point(case, i):
    """All weight on the truth, which has psi = 0 and no loss, where it is among the labels."""
    psi, losses = (part[i] for part in case.reference)
    alpha = np.zeros(len(losses))
    alpha[np.flatnonzero((losses == 0.0) & ~psi.any(axis=1))[:1]] = 1.0
    return alpha


def block_point(case, state, i, place):
    """Block i, whose planes are at this place."""
    psi, losses = (part[i] for part in case.reference)
    alpha = np.zeros(len(losses))
    start, size = state["places"][place, [SLOT, LABEL_SIZE]]
    for q in range(state["places"][place, N_PLANES]):
        label = state["labels"][state["places"][place, TEXT] + q * size :][:size]
        if "psi_number" in state:  # the label is the number of a stored psi, perhaps a merged one
            stored = np.append(stored_psi(state, label[0]), [state["loss"][start + q], 1.0])
            shares, error = nnls(np.column_stack([psi, losses, np.ones(len(psi))]).T, stored)
            assert error < 1e-14 * (1e4 + np.abs(psi).max())
            alpha += state["coef"][start + q] * shares / shares.sum()
            continue
        differs = np.abs(case.labels(i) - label).sum(axis=1)
        if q == 0 and differs.min() > 0 and isinstance(case.structure, Scalar | Regression):
            continue  # the truth is no candidate there, and has no features
        assert differs.min() < 1e-12
        alpha[differs.argmin()] += state["coef"][start + q]
    return alpha


def stored_psi(state, number):
    where = int(np.flatnonzero(state["psi_number"] == number)[0])
    stop = state["psi_size"][: where + 1].sum()
    part = slice(stop - state["psi_size"][where], stop)
    psi = np.zeros(len(state["w"]))
    psi[state["psi_where"][part]] = state["psi_value"][part]
    return psi


def assert_feasible(case, alphas, weights):
    for alpha, weight in zip(alphas, weights, strict=True):
        assert alpha.min() >= 0.0
        if isinstance(case.structure, Scalar | Regression):  # the truth is no candidate
            assert alpha.sum() <= weight
        else:
            assert_allclose(alpha.sum(), weight, rtol=1e-12)


def assert_optimal(case, result, weights, rtol=1e-6):
    best = optimum(case, weights)
    assert result.certificate.status is Status.CONVERGED
    assert_allclose(result.certificate.primal, best, rtol=rtol)
    assert_allclose(primal(result.w, *case.reference, weights), best, rtol=rtol)


@pytest.fixture(autouse=True)
def reports_by_no_clock(monkeypatch):
    """How often an online solver reports within a pass depends on the time that it takes."""
    monkeypatch.setattr("taut.solvers.online_cache._SECONDS", 1e9)


@pytest.fixture(params=names())
def structure(request):
    return request.param


@pytest.fixture
def case(structure):
    return STRUCTURES[structure]


@pytest.fixture
def ones(case):
    return np.ones(case.n_blocks)


@pytest.mark.parametrize(("structure", "solver"), list(pairs()), indirect=["structure"])
class TestSolution:
    def test_is_the_optimum(self, structure, solver, case, ones):
        if solver == "hard-negatives" and not isinstance(case.structure, Scalar):
            pytest.skip("labels of a block have slacks of their own: another objective")
        assert_optimal(case, solved(structure, solver), ones, max(REACH.get(solver, 0.0), 1e-6))

    def test_certificate_is_true(self, structure, solver, case, ones):
        result = solved(structure, solver)
        certificate = result.certificate
        assert certificate.exact
        settled = certificate.status is Status.SETTLED  # of a method that leaves the gap open
        assert certificate.relative_gap >= -1e-12
        assert settled or certificate.relative_gap <= REACH.get(solver, 1e-8)
        assert certificate.dual <= optimum(case, ones) * (1.0 + 1e-10)
        assert_allclose(
            certificate.primal, primal(result.w, *case.reference, ones), rtol=1e-12, atol=1e-12
        )

    def test_dual_point_is_feasible_and_gives_the_dual(self, structure, solver, case, ones):
        result = solved(structure, solver)
        alphas = dual_point(case, result.state)
        assert_feasible(case, alphas, ones)
        value = dual(alphas, *case.reference)
        # The certificate keeps the best dual of all that were verified.
        # Means in single precision are those of a distribution up to their rounding.
        single = "mean" in result.state and case.problem().data.dtype == np.float32
        rounding = 1e-6 if single else 1e-8 if "late" in result.state else 1e-12
        slack = rounding * (1.0 + abs(value))
        assert value <= result.certificate.dual + slack
        assert result.certificate.dual - value <= result.certificate.gap + slack
        if solver == "recentring-0":
            U = sum(a @ p for a, p in zip(alphas, case.reference[0], strict=True))
            assert_allclose(value, result.certificate.dual, rtol=1e-12)
            w = case.problem().data.unpad(result.state["w"])
            assert_allclose(w, U, atol=1e-10)

    def test_no_primal_lies_below_a_certified_dual(self, structure, solver, case):
        records = solved(structure, solver).history.records
        bounds = [record.dual for record in records if record.exact]
        bounds.append(solved(structure, solver).certificate.dual)
        for record in records:
            if record.exact:
                assert record.primal >= max(bounds) * (1.0 - 1e-12)
            assert record.dual <= record.primal * (1.0 + 1e-12)
            assert record.dual <= solved(structure, solver).certificate.primal * (1.0 + 1e-12)

    def test_same_seed_same_result(self, structure, solver, case):
        first = solved(structure, solver)
        again = run(case.problem(), SOLVERS[solver], tol=REACH.get(solver, 1e-8))
        assert_array_equal(first.w, again.w)
        assert_array_equal(first.history["dual"], again.history["dual"])
        assert first.state.keys() == again.state.keys()
        for name, array in first.state.items():
            # Their unused parts may differ.
            if name.rpartition(".")[2] not in ("coef", "loss", "gram", "labels", "idle"):
                assert_array_equal(array, again.state[name], err_msg=name)


def test_dual_never_falls_without_a_centre(structure):
    duals = solved(structure, "recentring-0").history["dual"]
    assert (np.diff(duals) >= -1e-12 * np.abs(duals[1:])).all()


@pytest.mark.parametrize("weights", ["doubled", "uneven", "some are zero"])
def test_weights_count_blocks(case, weights, rng):
    n = case.n_blocks
    weight = {
        "doubled": 1.0 + (np.arange(n) % 2),
        "uneven": rng.uniform(0.1, 3.0, size=n),
        "some are zero": 1.0 * (np.arange(n) % 3 > 0),
    }[weights]
    result = run(case.problem(2.0, weight))
    assert_optimal(case, result, 2.0 * weight)
    if weights != "uneven":
        blocks = np.repeat(np.arange(n), weight.astype(int))
        repeated = run(case.problem(2.0, blocks=blocks))
        assert_allclose(repeated.certificate.primal, result.certificate.primal, rtol=1e-7)
        assert_allclose(repeated.w, result.w, atol=1e-3)


def test_no_weight_at_all_is_refused(case, ones):
    with pytest.raises(InvalidData, match="sample_weight is zero everywhere"):
        case.problem(1.0, 0.0 * ones)


@pytest.mark.parametrize("C", [1e-6, 30.0])
def test_small_and_large_weights(case, ones, C):
    assert_optimal(case, run(case.problem(C), tol=1e-6), C * ones, rtol=2e-6)


@pytest.mark.parametrize("C", [1e-12, 1e6])
def test_extreme_weights_stay_certified(case, ones, C):
    """Whether or not they converge in the passes allowed."""
    certificate = run(case.problem(C), tol=1e-4, max_iter=200).certificate
    best = optimum(case, C * ones)
    assert certificate.dual <= best * (1.0 + 1e-7)
    assert certificate.primal >= best * (1.0 - 1e-7)


@pytest.mark.parametrize("structure", FORMS, indirect=True)
class TestHotStart:
    def test_own_result_is_converged_at_once(self, structure, case):
        result = solved(structure)
        again = run(case.problem(), start=result.state)
        assert again.certificate.passes <= 2
        assert again.certificate.dual >= result.certificate.dual * (1.0 - 1e-7)

    @pytest.mark.parametrize("C", [0.1, 10.0])
    def test_from_other_weights(self, structure, case, ones, C):
        result = run(case.problem(C), start=solved(structure).state)
        assert_optimal(case, result, C * ones)
        assert_feasible(case, dual_point(case, result.state), C * ones)

    def test_from_and_to_weights_that_are_zero(self, structure, case, ones):
        n = case.n_blocks
        even, odd = 1.0 * (np.arange(n) % 2 == 0), 1.0 * (np.arange(n) % 2 == 1)
        first = run(case.problem(1.0, even))
        second = run(case.problem(1.0, odd), start=first.state)
        assert_optimal(case, second, odd)
        assert_feasible(case, dual_point(case, second.state), odd)
        assert_optimal(case, run(case.problem(), start=second.state), ones)

    def test_of_other_data_is_refused(self, structure, case):
        with pytest.raises(InvalidData, match=r"the start cannot be used"):
            run(case.problem(blocks=[0, 1]), start=solved(structure).state)


@pytest.mark.parametrize("structure", FORMS, indirect=True)
def test_features_that_vanish(structure, case):
    """psi = 0, or all but, where curvatures are divided by."""
    xs = [0.0 * x if i % 2 else 1e-9 * x for i, x in enumerate(case.xs)]
    zeros = dataclasses.replace(case, xs=xs)
    result = run(zeros.problem(), tol=1e-6)
    assert_optimal(zeros, result, np.ones(zeros.n_blocks))
    assert_feasible(zeros, dual_point(zeros, result.state), np.ones(zeros.n_blocks))


@pytest.mark.parametrize("scale", [1e-7, 1e5])
@pytest.mark.parametrize("structure", FORMS, indirect=True)
def test_features_of_other_magnitude_stay_certified(structure, case, ones, scale):
    """A dual point that rounding makes infeasible would be certified above the optimum."""
    scaled = dataclasses.replace(case, xs=[scale * x for x in case.xs])
    result = run(scaled.problem(), tol=1e-4, max_iter=500)
    assert_feasible(scaled, dual_point(scaled, result.state), ones)
    assert result.certificate.dual <= optimum(scaled, ones) * (1.0 + 1e-7)


def test_python_and_compiled_twins_agree():
    plain, compiled, mapped = (solved(f"tags-{kind}") for kind in ("plain", "compiled", "mapped"))
    assert_allclose(compiled.certificate.primal, plain.certificate.primal, rtol=1e-7)
    assert_allclose(compiled.w, plain.w, atol=1e-3)
    assert_allclose(mapped.w, plain.w, atol=1e-3)


class PairLabels(Multiclass):
    """Classes as labels of two integers, the second without a meaning."""

    def encode(self, X, y=None):
        blocks = super().encode(X, y)
        truth = np.column_stack([blocks.truth, 0 * blocks.truth]).ravel()
        return dataclasses.replace(blocks, offsets=2 * blocks.offsets, truth=truth)

    @property
    def all_labels(self):
        return np.hstack([super().all_labels, 0 * super().all_labels])


def test_exact_steps_over_labels_of_several_integers():
    case = STRUCTURES["multiclass"]
    result = run(Problem(PairLabels(4), *case.data()), check=False)  # argmax leaves the second
    assert_array_equal(result.w, solved("multiclass").w)


@pytest.mark.parametrize("structure", FORMS, indirect=True)
def test_how_a_pass_is_divided_changes_nothing(structure, case, monkeypatch):
    monkeypatch.setattr(turns, "_SECONDS_BETWEEN_QUESTIONS", 0.0)
    blocks = np.arange(150) % case.n_blocks  # the first 64 blocks of a pass are not divided
    divided = run(case.problem(blocks=blocks), max_iter=20)
    monkeypatch.setattr(turns, "_SECONDS_BETWEEN_QUESTIONS", 1e9)
    whole = run(case.problem(blocks=blocks), max_iter=20)
    assert_array_equal(divided.history["dual"], whole.history["dual"])
    assert_array_equal(divided.w, whole.w)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "random"}, r"order = 'random': give 'permutation', 'uniform' or 'gap'"),
        ({"max_steps": 0}, r"max_steps = 0 and max_interval = 16 must be at least 1"),
        ({"cached_passes": -1}, r"cached_passes = -1 at least 0"),
        ({"max_interval": 0}, r"max_interval = 0"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InvalidData, match=message):
        DualCoordinate(**options)


@pytest.mark.parametrize("C", [0.0, -1.0, np.nan, np.inf])
def test_weights_that_are_none_are_refused(C):
    with pytest.raises(InvalidData, match=r"C = .*: it must be positive and finite"):
        Problem(Scalar(), np.eye(2), np.ones(2), C=C)
