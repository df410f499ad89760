"""Several labels per visit: the step over them, merged planes, both forms, memory and streams."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from cases import STRUCTURES, long_if
from reference import dual, solve_qp
from taut import (
    Checkpoint,
    MulticlassSVM,
    Problem,
    Regularizer,
    Status,
    StreamedProblem,
    load,
    solve,
)
from taut.data import Stream, write_shards
from taut.duals.one_by_one import KEPT, LEAST, REST, begin, go_through_plain, outcome
from taut.errors import InvalidData, InvalidType, MissingOracle
from taut.solvers import DualCoordinate, MultiSample, OnlineMultiSample
from taut.structures import Multiclass, PairwiseRanking, RowFeatures
from test_online_cache import kind_of, part_of
from test_solvers import assert_feasible, dual_point

# One for each form of dual variables: weights of labels, means, labels, sparse psi.
FORMS = ["multiclass-cost-bias", "chain", "tags-compiled", "tags-plain"]
#: Of these, what a stream can hold.
STREAMED = ["multiclass-cost-bias", "chain", "pairwise", "tags-plain"]
LONG = [
    ("chain", "random"), ("chain", "online"),
    ("pairwise", "online"), ("pairwise", "dual"), ("pairwise", "all"),
]  # fmt: skip
DUAL = MultiSample(2, recentring=0.0)
BOTH = [MultiSample, OnlineMultiSample]


@pytest.fixture(autouse=True)
def reports_by_no_clock(monkeypatch):
    """How often a sequential solver reports within a pass depends on the time that it takes."""
    monkeypatch.setattr("taut.solvers._sequential._SECONDS", 1e9)


class Plain:
    """What steps ask of bound data: inner products are those of psi."""

    @staticmethod
    def covector(psi):
        return psi


class TestOneByOne:
    @given(
        count=st.integers(1, 7),
        size=st.integers(1, 5),
        rest=st.sampled_from([0.0, 0.4, 1.0]),
        seed=st.integers(0, 2**32 - 1),
    )
    @settings(max_examples=200, deadline=None)
    def test_is_never_worse_than_full_weight_on_the_argmax(self, count, size, rest, seed):
        rng = np.random.default_rng(seed)
        scales = rng.choice([0.0, 0.1, 1.0, 10.0], size=(count + 1, 1))
        (merged, *psi) = rng.normal(size=(count + 1, size)) * scales
        losses, stiffness = rng.uniform(0.0, 2.0, count + 1), rng.choice([0.5, 1.0, 8.0])
        weight, w, psi = rng.choice([0.1, 1.0, 30.0]), rng.normal(size=size), np.array(psi)
        used = weight * (1.0 - rest)
        violation, of_merged = losses[1:] - psi @ w, losses[0] - merged @ w
        point, old = np.zeros(LEAST + 1), used * merged
        begin(point, weight, weight - used, used, old @ old, used * losses[0], used * of_merged)
        v, weights = go_through_plain(Plain, point, old, psi, losses[1:], violation, stiffness)
        loss, length = outcome(point)
        kept = point[KEPT] * used
        scale = 1.0 + weight * np.abs(losses).sum() + weight**2 * (np.square(psi).sum() + 1e3)
        assert weights.min() >= -1e-12 * weight
        assert min(kept, point[REST]) >= 0.0
        assert_allclose(kept + point[REST] + weights.sum(), weight, rtol=1e-10)
        assert_allclose(v, kept * merged + weights @ psi, atol=1e-10 * scale)
        assert_allclose(loss, (kept - used) * losses[0] + weights @ losses[1:], atol=1e-10 * scale)
        assert_allclose(length, np.sum((v - old) ** 2), atol=1e-10 * scale)

        def gain(kept, weights):
            move = (kept - used) * merged + weights @ psi
            linear = (kept - used) * of_merged + weights @ violation
            return linear - 0.5 / stiffness * np.sum(move**2)

        full = np.where(np.arange(count) == violation.argmax(), weight, 0.0)
        assert gain(kept, weights) >= max(gain(0.0, full), 0.0) - 1e-10 * scale


def parts_of(case, size):
    """The blocks in parts of a size; relevances are of one type in all of them."""
    n = case.n_blocks
    parts = [part_of(case, np.arange(k, min(k + size, n))) for k in range(0, n, size)]
    if isinstance(case.structure, PairwiseRanking):
        return [(X, [np.asarray(own, dtype=float) for own in y]) for X, y in parts]
    return parts


def same_history(first, second):
    assert_array_equal(first.w, second.w)
    assert_array_equal(first.history["dual"], second.history["dual"])
    assert first.certificate.primal == second.certificate.primal


def test_all_labels_are_dual_coordinate_ascent():
    """With all labels in each sample the step is the exact one."""
    problem = STRUCTURES["multiclass-cost-bias"].problem()
    options = {"tol": 1e-9, "max_iter": 50, "random_state": 3}
    plain = DualCoordinate(shrink=0.0, recentring=0.0)
    same_history(
        solve(problem, MultiSample(recentring=0.0), **options), solve(problem, plain, **options)
    )


@pytest.mark.parametrize(
    ("sampler", "kind"),
    [
        # What a sampler gives does not depend on the form of the solver.
        long_if(
            sampler != "top" and (sampler, kind) != ("random", MultiSample),
            sampler,
            kind,
        )
        for sampler in ("argmax", "top", "random", "diverse", "all")
        for kind in BOTH
    ],
)
def test_samplers_lead_to_the_optimum(sampler, kind):
    case = STRUCTURES["multiclass-cost-bias"]
    best, *_ = solve_qp(*case.reference, np.ones(case.n_blocks), rtol=1e-7)
    result = solve(case.problem(), kind(3, sampler), tol=2e-2, max_iter=3000, random_state=0)
    assert result.certificate.status is Status.CONVERGED
    assert result.certificate.dual <= best * (1.0 + 1e-9)
    assert result.certificate.primal >= best * (1.0 - 1e-9)


def test_more_samples_gain_more_in_a_visit():
    """Of a block alone, where all begin at the same point."""
    case, gains = STRUCTURES["multiclass-cost-bias"], []
    for i in range(case.n_blocks):
        problem = case.problem(3.0, blocks=[i])
        solvers = [MultiSample(k, recentring=0.0) for k in (1, 2, None)]
        gains.append([solve(problem, s, max_iter=1).history["dual"][0] for s in solvers])
    gains = np.array(gains)
    assert (np.diff(gains, axis=1) >= -1e-12).all()
    assert (gains[:, -1] > gains[:, 0] + 1e-3).any()


@pytest.mark.parametrize("structure", ["multiclass-cost-bias", "chain", "tags-plain"])
def test_merged_planes_do_not_grow(structure):
    problem = STRUCTURES[structure].problem()
    sizes = []

    def watch(record):
        arrays = state.arrays()
        own = ("mean", "psi_size", "coef")
        sizes.append(sum(arrays[name].size for name in own if name in arrays))

    class Watched(MultiSample):
        def init(self, problem, rng):
            nonlocal state
            state = super().init(problem, rng)
            return state

    state = None
    solve(problem, Watched(2, recentring=0.0), tol=0.0, max_iter=12, callbacks=[watch])
    assert max(sizes[3:]) <= 2 * max(sizes[:3])


def test_merged_planes_without_inner_products():
    """Where those of rows are not known, planes' are made through a vector of weights."""

    class Unknown(Multiclass):
        exact_step = None

        def encode(self, X, y=None):
            blocks = super().encode(X, y)
            places = np.column_stack([blocks.offsets[:-1], blocks.offsets[1:]])
            features = RowFeatures(X, columns=self.n_classes, places=places)
            assert not features.lifts
            return replace(blocks, features=features)

    case = STRUCTURES["multiclass"]
    options = {"tol": 1e-2, "max_iter": 2000, "random_state": 0}
    result = solve(Problem(Unknown(4), *case.data()), DUAL, **options)
    best, *_ = solve_qp(*case.reference, np.ones(case.n_blocks), rtol=1e-7)
    assert result.certificate.status is Status.CONVERGED
    assert result.certificate.dual <= best * (1.0 + 1e-9) <= result.certificate.primal * 1.000001


@pytest.mark.parametrize("structure", FORMS)
class TestDualPoint:
    def test_is_feasible_and_certified(self, structure):
        case = STRUCTURES[structure]
        weights = 2.0 * (0.5 + np.arange(case.n_blocks) % 3)
        problem = case.problem(2.0, weights / 2.0)
        result = solve(problem, DUAL, tol=2e-3, max_iter=4000, random_state=0)
        assert result.certificate.status is Status.CONVERGED
        alphas = dual_point(case, result.state)
        if "mean" in result.state:  # of weight 1
            alphas = [weight * alpha for weight, alpha in zip(weights, alphas, strict=True)]
        assert_feasible(case, alphas, weights)
        value = dual(alphas, *case.reference)
        assert value <= result.certificate.dual * (1.0 + 1e-9)
        assert result.certificate.dual - value <= result.certificate.gap + 1e-9

    def test_never_falls_without_a_centre(self, structure):
        duals = solve(STRUCTURES[structure].problem(), DUAL, max_iter=60).history["dual"]
        assert (np.diff(duals) >= -1e-12 * np.abs(duals[1:])).all()


@pytest.mark.parametrize("size", [1, 4])
class TestStream:
    """Chunks of any size, down to one example, in sequence: the same numbers as in memory."""

    def source(self, structure, size):
        case = STRUCTURES[structure]
        return Stream(parts_of(case, size), kind=kind_of(case))

    @pytest.mark.parametrize(
        ("structure", "solver"),
        [
            long_if((structure, name) in LONG, structure, solver, id=f"{structure}-{name}")
            for structure in STREAMED
            for name, solver in {
                "online": OnlineMultiSample(2, shuffle=False),
                "dual": MultiSample(2, shuffle=False),
                "random": MultiSample(2, "random", shuffle=False, recentring=0.0),
                "all": MultiSample(shuffle=False, recentring=0.0),
            }.items()
            # The labels of the others are not listed.
            if name != "random" or structure in ("multiclass-cost-bias", "chain")
        ],
    )
    def test_equals_memory(self, structure, size, solver):
        case, options = STRUCTURES[structure], {"tol": 1e-2, "max_iter": 40, "random_state": 0}
        streamed = StreamedProblem(case.structure, self.source(structure, size))
        first, second = solve(case.problem(), solver, **options), solve(streamed, solver, **options)
        # Chunks are summed up one by one, and rounding may decide where two labels are tied: with a
        # centre, which learns from such sums, only the first passes are the same.
        passes = 4 if solver.recentring else len(first.history)
        assert_allclose(first.history["dual"][:passes], second.history["dual"][:passes], rtol=1e-9)
        if not solver.recentring:
            assert_allclose(first.w, second.w, rtol=1e-9, atol=1e-12)
            assert_allclose(first.certificate.primal, second.certificate.primal, rtol=1e-9)
        # Where no inner products are made from scores.
        if isinstance(solver, OnlineMultiSample) and structure != "chain":
            assert_array_equal(first.w, second.w)
            assert_array_equal(first.history["dual"], second.history["dual"])


class TestChunked:
    def problem(self, tmp_path, C=1.0):
        case = STRUCTURES["multiclass-cost-bias"]
        X, y = case.data(np.arange(60) % case.n_blocks)
        return case, StreamedProblem(
            case.structure, write_shards(tmp_path / "set", X, y, chunk_size=700), C
        )

    def test_random_order_of_shards(self, tmp_path):
        case, problem = self.problem(tmp_path)
        results = [solve(problem, MultiSample(), tol=1e-5, random_state=s) for s in (0, 0, 1)]
        same_history(*results[:2])
        assert (results[0].history["dual"][:1] != results[2].history["dual"][:1]).all()
        blocks = np.arange(60) % case.n_blocks
        memory = solve(case.problem(blocks=blocks), tol=1e-6, random_state=0)
        assert_allclose(results[0].certificate.primal, memory.certificate.primal, rtol=1e-4)

    def test_resumes_exactly(self, tmp_path):
        _, problem = self.problem(tmp_path)
        options = {"tol": 1e-6, "random_state": 0}
        whole = solve(problem, MultiSample(), max_iter=12, **options)
        file = Checkpoint(tmp_path / "run", seconds=0.0)
        solve(problem, MultiSample(), max_iter=5, checkpoint=file, **options)
        resumed = solve(problem, MultiSample(), max_iter=12, checkpoint=file, **options)
        same_history(whole, resumed)

    @pytest.mark.parametrize("C", [1.0, 0.3, 5.0])
    def test_hot_start(self, tmp_path, C):
        _, problem = self.problem(tmp_path)
        first = solve(problem, MultiSample(), tol=1e-5, random_state=0)
        other = problem.with_factor(C)
        again = solve(other, MultiSample(), tol=1e-5, random_state=0, start=first.state)
        cold = solve(other, MultiSample(), tol=1e-5, random_state=0)
        assert_allclose(again.certificate.primal, cold.certificate.primal, rtol=2e-5)
        if C == 1.0:
            assert again.certificate.passes <= 2

    def test_hot_start_of_another_kind_is_refused(self, tmp_path):
        _, problem = self.problem(tmp_path)
        start = solve(problem, OnlineMultiSample(), max_iter=2).state
        with pytest.raises(InvalidData, match="not made by multi_sample over a stream"):
            solve(problem, MultiSample(), start=start)

    def test_interrupted_pass_has_a_true_certificate(self, tmp_path):
        _, problem = self.problem(tmp_path)
        result = solve(problem, MultiSample(), tol=1e-9, time_limit=1e-9, random_state=0)
        best = solve(problem, tol=1e-6, random_state=0).certificate
        assert result.certificate.status is Status.TIME_LIMIT
        assert result.certificate.dual <= best.primal
        assert result.certificate.primal >= best.dual

    @pytest.mark.parametrize("kind", BOTH)
    def test_stream_that_is_read_once(self, kind):
        case = STRUCTURES["multiclass-cost-bias"]
        source = Stream(iter(parts_of(case, 3)), kind="rows", classes=np.arange(4))
        problem = StreamedProblem(case.structure, source)
        result = solve(problem, kind(shuffle=False), random_state=0)
        assert result.certificate.status is Status.READ_ONCE
        assert not result.certificate.exact
        best, *_ = solve_qp(*case.reference, np.ones(case.n_blocks), rtol=1e-7)
        assert result.certificate.dual <= best  # of all blocks, though each was seen once


@pytest.mark.parametrize(
    ("structure", "kind"),
    [
        ("multiclass-cost-bias", MultiSample),
        long_if(True, "multiclass-cost-bias", OnlineMultiSample),
        long_if(True, "chain", MultiSample),
        long_if(True, "chain", OnlineMultiSample),
        ("tags-plain", MultiSample),
        ("tags-plain", OnlineMultiSample),
    ],
)
def test_priors_and_bounds(structure, kind, rng):
    case = STRUCTURES[structure]
    n = case.problem().n_features
    regularizer = Regularizer(
        mean=0.3 * rng.normal(size=n),
        precision=rng.uniform(0.5, 2.0, n),
        nonneg=rng.random(n) < 0.5,
    )
    problem = Problem(case.structure, *case.data(), regularizer=regularizer)
    best = solve(problem, tol=1e-7, random_state=0).certificate
    result = solve(problem, kind(2), tol=3e-2, max_iter=3000, random_state=0)
    assert result.certificate.status is Status.CONVERGED
    assert result.certificate.dual <= best.primal * (1.0 + 1e-9)
    assert_allclose(problem.primal(result.w), result.certificate.primal, rtol=1e-10)


def first_two(data, i, work, loss_weight, seed, found):
    """The argmax, and the class beside it."""
    best = 0
    for k in range(1, 4):
        cost = data[1][data[0][i]]
        if work[k] + loss_weight * cost[k] > work[best] + loss_weight * cost[best]:
            best = k
    found[0, 0] = best
    if found.shape[0] == 1:
        return 1
    found[1, 0] = (best + 1) % 4
    return 2


def argmax_and_truth(structure, x, w, truth, count):
    return [structure.argmax(x, w, truth), truth][:count]


class TestOwnSampler:
    @pytest.mark.parametrize("kind", [MultiSample, long_if(True, OnlineMultiSample)])
    def test_function(self, kind):
        for structure, sampler in (
            ("multiclass-cost-bias", first_two),
            ("tags-plain", argmax_and_truth),
        ):
            problem = STRUCTURES[structure].problem()
            result = solve(problem, kind(2, sampler), tol=3e-2, max_iter=2000, random_state=0)
            assert result.certificate.status is Status.CONVERGED

    def test_method_of_the_structure(self):
        class Sampled(Multiclass):
            sample = staticmethod(first_two)

        case = STRUCTURES["multiclass-bias"]
        problem = Problem(Sampled(4, case.structure.cost, case.structure.bias), *case.data())
        own = solve(problem, MultiSample(2), tol=1e-2, max_iter=2000, random_state=0)
        given = solve(
            case.problem(), MultiSample(2, first_two), tol=1e-2, max_iter=2000, random_state=0
        )
        assert_array_equal(own.w, given.w)

    def test_cannot_be_stored_with_a_model(self, tmp_path):
        X, y = STRUCTURES["multiclass-bias"].data()
        model = MulticlassSVM(solver=MultiSample(2, first_two), tol=0.1).fit(X, y)
        with pytest.raises(InvalidType, match="cannot be stored"):
            model.save(tmp_path / "model")

    def test_settings_are_stored_with_a_model(self, tmp_path):
        X, y = STRUCTURES["multiclass-bias"].data()
        solver = OnlineMultiSample(2, "top", shuffle=False)
        MulticlassSVM(solver=solver, tol=0.1).fit(X, y).save(tmp_path / "model")
        assert load(tmp_path / "model").solver == solver


def test_partial_fit_of_the_online_solver(rng):
    X = rng.normal(size=(300, 5))
    y = (X @ rng.normal(size=(5, 3))).argmax(axis=1)
    model = MulticlassSVM(solver=OnlineMultiSample(), random_state=0)
    for k in range(0, 300, 50):
        model.partial_fit(X[k : k + 50], y[k : k + 50], classes=[0, 1, 2])
    assert model.score(X, y) > 0.9
    with pytest.raises(InvalidData, match="partial_fit"):
        MulticlassSVM(solver=MultiSample()).partial_fit(X, y)


def test_sampler_that_the_structure_cannot_serve():
    with pytest.raises(MissingOracle, match="CompiledTags"):
        solve(STRUCTURES["tags-compiled"].problem(), MultiSample(2, "m_best"))


@pytest.mark.parametrize("kind", BOTH)
def test_bad_options_are_refused(kind):
    with pytest.raises(InvalidData, match="n_samples = 0"):
        kind(0)
    with pytest.raises(TypeError, match="'form'"):
        kind(form="online")
    with pytest.raises(TypeError, match="positional"):
        kind(2, "top", "online")
    with pytest.raises(TypeError, match="'recentring'"):
        OnlineMultiSample(recentring=2.0)
