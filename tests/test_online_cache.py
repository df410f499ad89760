"""Training over streams: the optimum of the data in memory, true bounds, memory, going on."""

import dataclasses
import functools
import itertools
import math
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from cases import STRUCTURES
from own_structures import Tags
from reference import dual, primal, solve_qp
from taut import BinarySVM, Checkpoint, Problem, Regularizer, Status, StreamedProblem, solve
from taut.data import Stream, open_shards, write_shards
from taut.data.inflow import Inflow
from taut.errors import CacheOverflow, InvalidData, InvalidFile, NotConverged
from taut.solvers import DualCoordinate, OnlineCache
from taut.structures import Chain, Scalar
from test_solvers import dual_point

# One structure for each kind of data and each form of the dual variables.
FORMS = [
    "scalar-bias",
    "regression-bias",
    "multiclass",
    "multiclass-single",
    "multiclass-csr-cost-bias",
    "chain",
    "pairwise",
    "ndcg",
    "tags-plain",
]
DUALS = ["multiclass", "chain", "tags-plain"]  # enumerated, labelled, in plain Python
TIGHT = {"tol": 1e-7, "max_iter": 3000, "random_state": 0}
run = functools.partial(solve, **TIGHT)


def reading_threads():
    return [t for t in threading.enumerate() if t.name == "taut-read-ahead"]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert reading_threads() == []


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


@pytest.fixture(params=DUALS)
def dual_form(request):
    return request.param


def part_of(case, blocks):
    """Some blocks as the part of a stream."""
    X, y = case.data(blocks)
    if isinstance(case.structure, Tags):
        return list(X), list(y)
    if not isinstance(X, tuple):
        return X, y
    matrix, offsets = X
    edges = list(itertools.pairwise(offsets))
    return [matrix[a:b] for a, b in edges], [y[a:b] for a, b in edges]


def kind_of(case):
    if isinstance(case.structure, Tags):
        return "examples"
    return "sequences" if isinstance(case.data()[0], tuple) else "rows"


def repeated(case, n=40):
    return np.arange(n) % case.n_blocks


def stream(case, size=7, once=False, n=40):
    """The blocks of a case over and over, in parts of a size."""
    blocks = repeated(case, n)
    parts = [part_of(case, blocks[k : k + size]) for k in range(0, n, size)]
    return Stream(iter(parts) if once else parts, kind=kind_of(case))


def shards(case, path, size=7, n=40):
    X, y = part_of(case, repeated(case, n))
    row = 8 * (1 if not isinstance(X, list) else 2)
    return write_shards(path, X, y, chunk_size=max(size * row * 4, 64))


@functools.cache
def in_memory(form, n=40, C=1.0):
    case = STRUCTURES[form]
    return solve(case.problem(C, blocks=repeated(case, n)), DualCoordinate(), **TIGHT)


def state_of(result):
    return result.read_state.__self__.state


def assert_same_optimum(form, result, n=40, C=1.0):
    """As closely as both certificates say; the primal of the weights is recomputed in memory."""
    case, other = STRUCTURES[form], in_memory(form, n, C)
    certificate = result.certificate
    assert certificate.status is Status.CONVERGED
    assert certificate.exact
    assert_allclose(certificate.primal, other.certificate.primal, rtol=2e-7)
    problem = case.problem(C, blocks=repeated(case, n))
    assert_allclose(problem.primal(result.w), certificate.primal, rtol=1e-9)
    assert certificate.dual <= other.certificate.primal * (1.0 + 1e-12)
    gaps = math.sqrt(2 * certificate.gap) + math.sqrt(2 * other.certificate.gap)
    assert np.linalg.norm(result.w - other.w) <= gaps + 1e-6


# The optimum


@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("shuffle", [True, False])
def test_shards_are_data_in_memory(form, size, shuffle, tmp_path):
    case = STRUCTURES[form]
    if kind_of(case) == "examples":
        pytest.skip("shards hold rows")
    source = shards(case, tmp_path / "set", size)
    assert (source.n_chunks == 1) == (size == 100)
    result = run(StreamedProblem(case.structure, source), OnlineCache(shuffle=shuffle))
    assert_same_optimum(form, result)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_streams_are_data_in_memory(form, n_jobs):
    case = STRUCTURES[form]
    problem = StreamedProblem(case.structure, stream(case), n_jobs=n_jobs)
    assert_same_optimum(form, run(problem))


def test_threads_visit_large_chunks_together():
    """With 64 blocks to a thread they do not wait for each other."""
    case = STRUCTURES["multiclass"]
    problem = StreamedProblem(case.structure, stream(case, 150, n=300), n_jobs=2)
    assert_same_optimum("multiclass", run(problem), n=300)


def test_the_dual_is_below_the_optimum_at_all_times(dual_form):
    """At each report, whatever was seen of the data by then."""
    case = STRUCTURES[dual_form]
    psi, losses = case.enumerated(*blocks_of(case))
    best, _ = solve_qp(psi, losses, np.ones(len(psi)), rtol=1e-7)
    result = run(StreamedProblem(case.structure, stream(case)), OnlineCache(online_gap=0.01))
    assert len(result.history) > 5
    for record in result.history:
        assert record.dual <= best * (1.0 + 1e-9)
        if record.exact:
            assert record.dual <= record.primal
            assert record.primal >= best * (1.0 - 1e-7)
    assert_allclose(primal(result.w, psi, losses, np.ones(len(psi))), best, rtol=1e-6)


def blocks_of(case, n=40):
    blocks = repeated(case, n)
    return [case.xs[i] for i in blocks], [case.ys[i] for i in blocks]


def test_one_pass_is_certified(form):
    case = STRUCTURES[form]
    problem = case.problem(blocks=repeated(case))
    gaps = []
    for passes in (1, 2):
        result = run(StreamedProblem(case.structure, stream(case)), tol=1e-12, max_iter=passes)
        certificate = result.certificate
        if passes == 1:
            assert certificate.status is Status.MAX_ITER
        assert certificate.passes == passes
        assert certificate.exact
        assert_allclose(certificate.primal, problem.primal(result.w), rtol=1e-9)
        assert certificate.dual <= in_memory(form).certificate.primal * (1.0 + 1e-12)
        gaps.append(certificate.relative_gap)
    assert gaps[0] < 0.5
    assert gaps[1] <= gaps[0]


def test_same_seed_same_result(dual_form, tmp_path, monkeypatch):
    monkeypatch.setattr("taut.solvers.online_cache._SECONDS", 1e9)
    case = STRUCTURES[dual_form]
    results = [run(StreamedProblem(case.structure, stream(case))) for _ in range(2)]
    assert_array_equal(results[0].w, results[1].w)
    assert_array_equal(results[0].history["dual"], results[1].history["dual"])
    if kind_of(case) != "examples":
        source = shards(case, tmp_path / "set")
        problem = StreamedProblem(case.structure, source)
        first, second, other = (run(problem, random_state=seed) for seed in (1, 1, 2))
        assert_array_equal(first.w, second.w)
        assert (first.history["dual"][:1] != other.history["dual"][:1]).all()


# Memory


def wide_problem(n=400, d=30, C=0.05, seed=0):
    """Rows that are mostly support vectors, and whose features are larger than their duals."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y, C


def wide_stream(X, y, size=40):
    return Stream([(X[k : k + size], y[k : k + size]) for k in range(0, len(y), size)])


def wide_chains(n=60, length=4, d=25, n_labels=3):
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(length, d)) for _ in range(n)]
    y = [np.argmax(x[:, :n_labels] + rng.normal(size=(length, n_labels)), axis=1) for x in X]
    return X, y


class FewOfMany(Tags):
    """Examples that are larger than their features."""

    def features(self, x, label):
        return super().features(x[:3], label)

    def argmax(self, x, w, truth=None):
        return super().argmax(x[:3], w, truth)


def small_runs():
    """Problems in memory and as streams, and budgets that keep a part of them."""
    X, y, C = wide_problem()
    sequences, labels = wide_chains()
    parts = [(sequences[k : k + 6], labels[k : k + 6]) for k in range(0, 60, 6)]
    stacked = (np.vstack(sequences), np.arange(0, 241, 4))
    tags = np.random.default_rng(5)
    rows = list(tags.normal(size=(60, 300)))
    marks = [tuple(bits) for bits in tags.integers(2, size=(60, 2)).tolist()]
    examples = [(rows[k : k + 6], marks[k : k + 6]) for k in range(0, 60, 6)]
    return {
        "scalar": (Problem(Scalar(), X, y, C), wide_stream(X, y), 150_000),
        "chain": (
            Problem(Chain(3), stacked, np.concatenate(labels), 0.05),
            Stream(parts, kind="sequences"),
            150_000,
        ),
        "tags": (
            Problem(FewOfMany(2), rows, marks, 0.05),
            Stream(examples, kind="examples"),
            180_000,
        ),
    }


@pytest.fixture(params=["scalar", "chain", "tags"])
def small(request):
    """A problem in memory, the same as a stream, and a solver that cannot keep all of it."""
    problem, source, memory = small_runs()[request.param]
    return problem, StreamedProblem(problem.structure, source, problem.C), OnlineCache(memory)


class Audit:
    """Looks at the cache after each report: what it holds, and whether its sums are right.

    Sums are made again from all data, after every report or each so many.
    """

    def __init__(self, solver, every=1):
        self.solver, self.state, self.every = solver, None, every
        self.resting, self.bare, self.seen, self.checked = 0, 0, 0, 0

    def __call__(self, record):
        state = self.state
        assert state.nbytes <= state.cache_bytes
        self.resting = max(self.resting, state.resting.n_blocks)
        self.bare = max(self.bare, state.n_bare)
        ids = np.concatenate([[], *(segment.ids for segment in state.segments)])
        bare = [state.firsts[group.number] + group.where for group in state.bare]
        ids = np.concatenate([ids, *bare])
        assert len(np.unique(ids)) == len(ids)
        for number, found in state.resting.groups.items():
            where = np.concatenate([where for where, _ in found]) + state.firsts[number]
            assert len(np.unique(where)) == len(where)
            assert not np.isin(where, ids).any()
        self.seen += 1
        if self.seen % self.every:
            return
        U, loss = recomputed(state)
        own = np.zeros(len(state.w))
        state.dual_vector(own)
        assert_allclose(own, U, atol=1e-9 * (1.0 + np.abs(U).max()))
        assert_allclose(state.loss_sum, loss, rtol=1e-9, atol=1e-12)
        self.checked += 1


def recomputed(state):
    """U and the summed loss from all dual variables, each put beside its data again."""
    U, loss = np.zeros(len(state.w)), 0.0
    for segment in state.segments:
        segment.part.duals.sum_up(U)
        loss += segment.part.duals.loss_sum
    if state.resting.groups or state.bare:
        for chunk, data, weight in state.problem.bound_chunks():
            fresh = state.part_of(data, weight)
            for group in state.bare:
                if group.number == chunk.number:
                    group.give_back(fresh)
            for where, arrays in state.resting.groups.get(chunk.number, []):
                fresh.put(where, arrays)
            loss += fresh.sum_up(U)
    return U, loss


class Audited(OnlineCache):
    """Shows its state to an audit."""

    audit = None

    def init(self, problem, rng):
        state = super().init(problem, rng)
        self.audit.state = state
        return state


def test_a_small_memory_holds_and_still_reaches_the_optimum(small):
    problem, streamed, solver = small
    solver = Audited(solver.memory)
    solver.audit = Audit(solver, every=3)
    with pytest.warns(CacheOverflow, match=r"do not fit into memory=\d+: .*raise memory, or lowe"):
        result = run(streamed, solver, callbacks=[solver.audit], tol=1e-3)
    assert solver.audit.resting > 0
    assert solver.audit.checked >= 3
    assert result.certificate.status is Status.CONVERGED
    best = run(problem, DualCoordinate(), tol=1e-6).certificate
    assert result.certificate.dual <= best.primal * (1.0 + 1e-12)
    assert best.dual <= result.certificate.primal
    assert_allclose(problem.primal(result.w), result.certificate.primal, rtol=1e-9)


def test_a_large_memory_does_not_warn(small):
    _problem, streamed, _solver = small
    state = state_of(run(streamed, OnlineCache("50MB"), tol=1e-4))
    assert state.resting.n_blocks == 0
    assert state.resting.vector is None


def test_too_little_memory_is_refused():
    X, y, C = wide_problem()
    problem = StreamedProblem(Scalar(), wide_stream(X, y), C)
    least = OnlineCache.least_memory(problem)
    message = (
        rf"memory = 5000 does not hold the vectors of 30 weights \(1920 bytes\).*at least {least}"
    )
    with pytest.raises(InvalidData, match=message):
        run(problem, OnlineCache(5000))


def shards_of(path, dtype, n=400):
    X, y, C = wide_problem(n)
    source = write_shards(path, X.astype(dtype), y, chunk_size=8000)
    return StreamedProblem(Scalar(), source, C)


def test_the_least_memory_is_enough(tmp_path):
    """For all dual variables, though for hardly any features."""
    problem = shards_of(tmp_path / "set", np.float64)
    least = OnlineCache.least_memory(problem)
    with pytest.warns(CacheOverflow):
        result = run(problem, OnlineCache(least), tol=1e-2)
    assert result.certificate.status is Status.CONVERGED
    assert state_of(result).resting.n_blocks > 100
    memory = Problem(Scalar(), *wide_problem()[:2], C=problem.C)
    assert_allclose(memory.primal(result.w), result.certificate.primal, rtol=1e-9)


def test_single_precision_needs_less():
    X, y, C = wide_problem()
    least = [
        OnlineCache.least_memory(StreamedProblem(Scalar(), wide_stream(X.astype(dtype), y), C))
        for dtype in (np.float32, np.float64)
    ]
    assert least[0] < 0.8 * least[1]


@pytest.mark.parametrize("kind", ["rows", "chains"])
def test_all_that_is_allocated_is_within_the_budget(kind, tmp_path):
    """Buffers, copies and temporary arrays too, at any moment of a run that overflows."""
    if kind == "rows":
        X, y, _C = wide_problem(20_000)
        problem = StreamedProblem(
            Scalar(), write_shards(tmp_path / "set", X, y, chunk_size=200_000)
        )
    else:
        source = write_shards(tmp_path / "set", *wide_chains(4000), chunk_size=200_000)
        problem = StreamedProblem(Chain(3), source)
    memory = OnlineCache.least_memory(problem) + 500_000
    options = {"tol": 0.3, "max_iter": 2, "random_state": 0}
    with pytest.warns(CacheOverflow):
        solve(problem, OnlineCache(memory), **options)  # compiled and imported by now
    tracemalloc.start()
    try:
        with pytest.warns(CacheOverflow):
            solve(problem, OnlineCache(memory), **options)
        _now, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.5 * memory < most < memory


def test_overflows_are_told_of_once(small):
    _problem, streamed, solver = small
    with pytest.warns(CacheOverflow, match=r"\d+ times some .* \d+ blocks counted") as caught:
        run(streamed, solver, tol=1e-3)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_a_run_out_of_memory_ends_with_its_best_model():
    """Dual variables alone outgrow the budget: what was learned by then is certified."""
    X, y, C = wide_problem(4000)
    problem = StreamedProblem(Scalar(), wide_stream(X, y), C)
    budget = OnlineCache().init(problem, np.random.default_rng(0)).budget
    enough = OnlineCache.least_memory(problem)
    solver = OnlineCache(enough - budget.duals // 2)
    with pytest.warns(CacheOverflow):
        result = run(problem, solver, tol=1e-4)
    certificate = result.certificate
    assert certificate.status is Status.OUT_OF_MEMORY
    assert "raise memory, or lower C" in certificate.message
    assert certificate.exact
    memory = Problem(Scalar(), X, y, C)
    assert_allclose(memory.primal(result.w), certificate.primal, rtol=1e-9)
    assert certificate.dual <= run(memory, DualCoordinate(), tol=1e-3).certificate.primal


def test_an_estimator_warns_when_it_runs_out_of_memory(monkeypatch):
    monkeypatch.setattr(OnlineCache, "_fit_into_memory", lambda self, state: False)
    X, y, _C = wide_problem()
    with pytest.warns(NotConverged, match="outgrown the solver's memory.*best model so far"):
        model = BinarySVM(solver=OnlineCache("50MB"), tol=1e-6).fit(wide_stream(X, y > 0))
    assert model.certificate_.status is Status.OUT_OF_MEMORY
    assert len(model.predict(X)) == len(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": "lots"}, r"memory = 'lots' is no amount of memory"),
        ({"memory": 0}, r"memory = 0 is no amount"),
        ({"memory": 1.5}, r"memory = 1\.5 is no amount"),
        ({"memory": None}, r"memory = None is no amount"),
        ({"online_gap": 0.0}, r"online_gap = 0\.0 and cache_gap = 0\.001 must be positive"),
        ({"cache_gap": math.nan}, r"cache_gap = nan: give a number"),
        ({"max_rounds": 0}, r"max_rounds = 0 at least 1"),
        ({"reach": -1.0}, r"reach = -1\.0"),
        ({"reach": math.nan}, r"reach = nan"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InvalidData, match=message):
        OnlineCache(**options)


# Going on


def snapshots(folder):
    """A callback that keeps a copy of the checkpoint after each report, and where they are."""
    copies, path = [], folder / "run.taut"

    def keep(record):
        if path.exists():  # as it was after the report before
            copies.append(folder / f"copy{len(copies)}")
            shutil.copy(path, copies[-1])

    return Checkpoint(path, seconds=0.0), keep, copies


def assert_same_run(a, b):
    assert_array_equal(a.w, b.w)
    assert_array_equal(a.history["dual"], b.history["dual"])
    assert_array_equal(a.history["iteration"], b.history["iteration"])
    assert a.certificate.primal == b.certificate.primal
    assert a.certificate.dual == b.certificate.dual


SOURCES = ["shards", "stream", "memory"]


@pytest.fixture
def reports_by_no_clock(monkeypatch):
    """Exploring hands back where the cache is to be optimised, and never for the time it took."""
    monkeypatch.setattr("taut.solvers.online_cache._SECONDS", 1e9)


def make_problem(kind, form, path):
    case = STRUCTURES[form]
    if kind == "memory":
        return case.problem(blocks=repeated(case))
    source = stream(case) if kind == "stream" else shards(case, path)
    return StreamedProblem(case.structure, source)


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("memory", "chain"),
        ("stream", "tags-plain"),
        ("stream", "multiclass"),
        ("shards", "chain"),
        ("shards", "multiclass-single"),
    ],
)
@pytest.mark.usefixtures("reports_by_no_clock")
def test_killed_and_resumed_is_uninterrupted(kind, form, tmp_path):
    """In the middle of a pass, while exploring and while optimising."""
    solver = OnlineCache(online_gap=0.05)
    problem = functools.partial(make_problem, kind, form)
    if kind == "shards":
        source = problem(tmp_path / "set")
        problem = lambda path: source  # noqa: E731
    checkpoint, keep, copies = snapshots(tmp_path)
    loose = functools.partial(run, solver=solver, tol=1e-4)
    whole = loose(problem(tmp_path), checkpoint=checkpoint, callbacks=[keep])
    assert_same_run(loose(problem(tmp_path)), whole)
    for k in sorted({0, 1, 2, len(copies) // 2, len(copies) - 1}):
        saved = Checkpoint(copies[k], seconds=1e9)
        assert_same_run(loose(problem(tmp_path), checkpoint=saved, random_state=99), whole)


@pytest.mark.filterwarnings("ignore::taut.errors.CacheOverflow")
@pytest.mark.usefixtures("reports_by_no_clock")
def test_resumed_with_resting_blocks(small, tmp_path):
    _problem, streamed, solver = small
    checkpoint, keep, copies = snapshots(tmp_path)
    few = functools.partial(run, streamed, solver, tol=1e-4, max_iter=2)
    whole = few(checkpoint=checkpoint, callbacks=[keep])
    assert state_of(whole).resting.n_blocks > 0
    for k in (len(copies) // 3, len(copies) - 1):
        assert_same_run(few(checkpoint=Checkpoint(copies[k], seconds=1e9)), whole)


def test_when_a_pass_hands_back_changes_nothing(dual_form, monkeypatch):
    """The clock decides how often there is a report, and nothing else."""
    case, results = STRUCTURES[dual_form], []
    for seconds in (0.0, 1e9):
        monkeypatch.setattr("taut.solvers.online_cache._SECONDS", seconds)
        results.append(run(StreamedProblem(case.structure, stream(case)), tol=1e-4))
    often, rarely = results
    assert len(often.history) > len(rarely.history)
    assert_array_equal(often.w, rarely.w)
    assert often.certificate.dual == rarely.certificate.dual


def test_a_finished_run_of_a_stream_read_once_is_not_read_again(tmp_path):
    case, path = STRUCTURES["multiclass"], tmp_path / "run.taut"
    first, again = (
        run(StreamedProblem(case.structure, stream(case, once=True)), checkpoint=path)
        for _ in range(2)
    )
    assert again.certificate.passes == first.certificate.passes == 1
    assert_same_run(again, first)


def test_streams_read_once_are_resumed(tmp_path):
    """Features of kept blocks are in the file, since they cannot be read again."""
    case = STRUCTURES["multiclass"]
    solver = OnlineCache(online_gap=0.05)
    checkpoint, keep, copies = snapshots(tmp_path)

    def once(**options):
        return run(StreamedProblem(case.structure, stream(case, once=True)), solver, **options)

    whole = once(checkpoint=checkpoint, callbacks=[keep])
    for copy in copies[:: max(len(copies) // 4, 1)]:
        resumed = once(checkpoint=copy)
        assert_array_equal(resumed.w, whole.w)
        assert resumed.certificate.dual == whole.certificate.dual


TRAINING = """
    import sys, time
    from cases import STRUCTURES
    from taut import Checkpoint, StreamedProblem, solve
    from taut.data import open_shards
    from taut.solvers import OnlineCache

    def stop(record):
        stop.calls += 1
        if stop.calls == 3:
            print("ready", flush=True)
            time.sleep(600.0)

    stop.calls = 0
    solve(
        StreamedProblem(STRUCTURES["chain"].structure, open_shards(sys.argv[1])),
        OnlineCache(online_gap=0.02), tol=1e-4, max_iter=3000, random_state=0,
        callbacks=[stop], checkpoint=Checkpoint(sys.argv[2], seconds=0.0),
    )
"""


def test_a_killed_process_is_resumed(tmp_path, environment):
    path = tmp_path / "run.taut"
    source = shards(STRUCTURES["chain"], tmp_path / "set")
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(TRAINING), str(source.path), str(path)],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    left = sorted(file.name for file in tmp_path.iterdir())
    assert left == ["run.taut", "run.taut.lock", "set"]
    problem = StreamedProblem(STRUCTURES["chain"].structure, source)
    solver = OnlineCache(online_gap=0.02)
    resumed, whole = run(problem, solver, tol=1e-4, checkpoint=path), run(problem, solver, tol=1e-4)
    assert_array_equal(resumed.w, whole.w)
    assert resumed.certificate.dual == whole.certificate.dual


def test_checkpoint_of_another_run_is_refused(tmp_path):
    case, path = STRUCTURES["multiclass"], tmp_path / "run.taut"
    source = shards(case, tmp_path / "set")
    problem = StreamedProblem(case.structure, source)
    run(problem, max_iter=1, checkpoint=path)
    content = path.read_bytes()
    prior = Regularizer(np.ones(problem.n_features))
    others = [
        (StreamedProblem(case.structure, shards(case, tmp_path / "other", n=39)), None),
        (StreamedProblem(case.structure, source, C=2.0), None),
        (StreamedProblem(case.structure, source, regularizer=prior), None),
        (StreamedProblem(case.structure, stream(case)), None),
        (problem, OnlineCache("2GB")),
        (problem, OnlineCache(shuffle=False)),
    ]
    for other, solver in others:
        with pytest.raises(InvalidFile, match=r"run\.taut is the checkpoint of another run"):
            run(other, solver, checkpoint=path)
        assert path.read_bytes() == content


# Hot starts


@pytest.mark.parametrize("kind", SOURCES)
def test_own_result_is_converged_at_once(dual_form, kind, tmp_path):
    if (kind, dual_form) == ("shards", "tags-plain"):
        pytest.skip("shards hold rows")
    problem, solver = make_problem(kind, dual_form, tmp_path / "set"), OnlineCache()
    first = run(problem, solver)
    again = run(problem, solver, start=first.state)
    assert again.certificate.passes <= 1
    assert again.certificate.status is Status.CONVERGED
    assert again.certificate.dual >= first.certificate.dual * (1.0 - 1e-9)


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_a_start_from_other_weights_is_scaled(dual_form, C):
    """A dual point of a larger C is not feasible for a smaller one: its value is no bound."""
    case = STRUCTURES[dual_form]
    start = run(StreamedProblem(case.structure, stream(case), 1.0)).state
    problem = StreamedProblem(case.structure, stream(case), C)
    result = run(problem, start=start)
    assert_same_optimum(dual_form, result, C=C)
    best = in_memory(dual_form, C=C).certificate.primal
    assert (result.history["dual"] <= best * (1.0 + 1e-9)).all()


@pytest.mark.filterwarnings("ignore::taut.errors.CacheOverflow")
@pytest.mark.parametrize("factor", [0.1, 1.0, 3.0])
def test_a_start_with_resting_blocks(small, factor):
    problem, streamed, solver = small
    first = solve(streamed, solver, tol=1e-9, max_iter=2, random_state=0)
    assert state_of(first).resting.n_blocks > 0
    other = StreamedProblem(streamed.structure, streamed.source, factor * streamed.C)
    result = run(other, OnlineCache("50MB"), tol=1e-5, start=first.state)
    assert result.certificate.status is Status.CONVERGED
    in_full = Problem(problem.structure, problem.X, problem.y, factor * problem.C)
    best = run(in_full, DualCoordinate(), tol=1e-7).certificate
    assert (result.history["dual"] <= best.primal * (1.0 + 1e-9)).all()
    assert_allclose(result.certificate.primal, best.primal, rtol=2e-5)
    if factor == 1.0:
        assert result.certificate.dual >= first.certificate.dual * (1.0 - 1e-9)


def test_starts_of_other_data_and_solvers_are_refused():
    case = STRUCTURES["multiclass"]
    problem = case.problem(blocks=repeated(case))
    cached, whole = run(problem, OnlineCache()).state, run(problem).state
    with pytest.raises(InvalidData, match="the start cannot be used"):
        run(StreamedProblem(case.structure, stream(case, n=20)), start=cached)
    with pytest.raises(InvalidData, match="keeps some blocks only"):
        run(problem, DualCoordinate(), start=cached)
    with pytest.raises(InvalidData, match="keeps all blocks"):
        run(problem, OnlineCache(), start=whole)


# Stopping early


def stop_signal():
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("how", ["signal", "time", "callback"])
def test_stopped_in_the_middle_of_a_pass(dual_form, how, tmp_path):
    """The bounds are true, nothing is left open, and the run can go on."""
    case, path = STRUCTURES[dual_form], tmp_path / "run.taut"
    source = stream(case)
    problem = StreamedProblem(case.structure, source)
    seen = []

    def act(record):
        seen.append(record)
        if how == "signal":
            stop_signal()
        return how == "callback"

    options = {"time_limit": 1e-9} if how == "time" else {"callbacks": [act]}
    result = run(problem, OnlineCache(online_gap=0.01), checkpoint=path, **options)
    assert reading_threads() == []
    certificate = result.certificate
    expected = {"signal": "INTERRUPTED", "time": "TIME_LIMIT", "callback": "CALLBACK"}[how]
    assert certificate.status.name == expected
    assert certificate.exact
    assert certificate.passes == 0
    memory = case.problem(blocks=repeated(case))
    assert_allclose(memory.primal(result.w), certificate.primal, rtol=1e-9)
    assert certificate.dual <= in_memory(dual_form).certificate.primal * (1.0 + 1e-12)
    assert_same_optimum(dual_form, run(problem, OnlineCache(online_gap=0.01), checkpoint=path))


class Interrupted(Tags):
    """Ctrl-C arrives while the oracle runs."""

    calls = 0

    def argmax(self, x, w, truth=None):
        self.calls += 1
        if self.calls == 30:
            stop_signal()
        return super().argmax(x, w, truth)


def test_interrupted_within_a_chunk():
    case = STRUCTURES["tags-plain"]
    result = run(StreamedProblem(Interrupted(3), stream(case, 100, n=100)))
    assert result.certificate.status is Status.INTERRUPTED
    assert result.certificate.exact
    problem = case.problem(blocks=repeated(case, 100))
    assert_allclose(problem.primal(result.w), result.certificate.primal, rtol=1e-9)


def test_errors_close_the_reader(tmp_path):
    """Whose frames a traceback keeps alive."""

    def fail(record):
        raise RuntimeError("a callback's own error")

    case = STRUCTURES["multiclass"]
    problem = StreamedProblem(case.structure, stream(case))
    with pytest.raises(RuntimeError, match="own error") as caught:
        run(problem, OnlineCache(online_gap=1e-6), callbacks=[fail])
    assert caught.value.__traceback__ is not None
    assert reading_threads() == []


def test_damage_in_the_middle_of_training(tmp_path):
    case, path = STRUCTURES["multiclass"], tmp_path / "run.taut"
    source = shards(case, tmp_path / "set", 1)
    problem = StreamedProblem(case.structure, source)
    run(problem, checkpoint=path, max_iter=1, tol=1e-12)
    content = path.read_bytes()
    (file,) = [file for file in source.path.iterdir() if file.name.startswith("X")]
    with open(file, "r+b") as opened:
        opened.truncate(os.path.getsize(file) - 8)
    with pytest.raises(InvalidFile, match=r"X.*cannot be read"):
        run(problem, checkpoint=path, tol=1e-12)
    assert path.read_bytes() == content
    assert reading_threads() == []
    with pytest.raises(InvalidFile):
        open_shards(source.path)


# Streams that can be read only once


def test_what_is_read_once_is_estimated(form):
    case = STRUCTURES[form]
    source = stream(case, once=True)
    result = run(StreamedProblem(case.structure, source), tol=1e-3)
    certificate = result.certificate
    assert not certificate.exact
    assert certificate.status is Status.READ_ONCE
    assert "is an estimate" in certificate.message
    assert certificate.passes == 1
    problem = case.problem(blocks=repeated(case))
    best = in_memory(form).certificate
    assert certificate.dual <= best.primal * (1.0 + 1e-9)
    true = problem.primal(result.w)
    assert_allclose(certificate.primal, true, rtol=0.05)
    assert true <= 1.05 * best.primal
    with pytest.raises(InvalidData, match="could be read only once, and has been"):
        run(StreamedProblem(case.structure, source))


# The cache itself


def explored(form, C=1.0, n=40, size=7):
    """A state after one pass, the problem, and its dual vector and loss."""
    case = STRUCTURES[form]
    problem = StreamedProblem(case.structure, stream(case, size, n=n), C)
    result = solve(problem, OnlineCache(reach=0.0), tol=1e-12, max_iter=1, random_state=0)
    state = state_of(result)
    assert state.n_kept > 5
    return state


def totals(state):
    U = np.zeros(len(state.w))
    state.dual_vector(U)
    return U, state.loss_sum


def assert_same_totals(state, before):
    U, loss = totals(state)
    assert_allclose(U, before[0], atol=1e-12 * (1.0 + np.abs(before[0]).max()))
    assert_allclose(loss, before[1], rtol=1e-12)


def kept_ids(state):
    return np.sort(np.concatenate([segment.ids for segment in state.segments]))


def test_merging_keeps_the_dual_point(dual_form, monkeypatch):
    state = explored(dual_form)
    before, ids = totals(state), kept_ids(state)
    # Apart again, in another order than that of the blocks.
    state.segments = [
        state._selected(segment, np.array([q]))
        for segment in state.segments
        for q in range(len(segment.ids))[::-1]
    ]
    assert len(state.segments) == len(ids)
    assert_same_totals(state, before)
    state.merge_small()
    assert len(state.segments) == 1
    assert_array_equal(state.segments[0].ids, ids)
    assert_same_totals(state, before)
    monkeypatch.setattr(type(state.budget), "piece", lambda self, rest: 0)
    state.merge_small()
    assert_same_totals(state, before)


def test_forgetting_keeps_the_dual_point(dual_form):
    state = explored(dual_form)
    before = totals(state)
    used = sum(int(segment.part.duals.in_use().sum()) for segment in state.segments)
    state.forget_useless(0.0, 0.0)
    assert state.n_kept == used
    assert_same_totals(state, before)


def test_resting_and_waking_keep_the_dual_point(dual_form):
    state = explored(dual_form)
    before, ids = totals(state), kept_ids(state)
    kept = state.n_kept
    count = state.rest(state.nbytes // 2)
    assert 0 < count < kept
    assert (state.n_kept, state.resting.n_blocks) == (kept - count, count)
    assert_same_totals(state, before)
    assert_same_totals_of_parts(state)
    state.rest(10**9)
    assert (state.n_kept, state.resting.n_blocks) == (0, kept)
    assert_same_totals(state, before)
    for bound in state.problem.bound_chunks():
        state.keep(bound, state.waken(bound), 0.0)
        assert_same_totals(state, before)
        assert_same_totals_of_parts(state)
    assert state.resting.n_blocks == 0
    assert set(kept_ids(state)) <= set(ids)
    # Nothing is left of what rounding made of the sums.
    assert state.resting.loss == 0.0
    assert state.resting.vector is None


def assert_same_totals_of_parts(state):
    U, loss = recomputed(state)
    own, own_loss = totals(state)
    assert_allclose(own, U, atol=1e-10)
    assert_allclose(own_loss, loss, rtol=1e-10, atol=1e-12)


def test_blocks_that_are_kept_are_not_visited_again(dual_form):
    state = explored(dual_form)
    ids = kept_ids(state)
    for bound in state.problem.bound_chunks():
        first = bound.chunk.first
        own = np.arange(first, first + bound.chunk.n_blocks)
        assert_array_equal(state.waken(bound).left_out, np.isin(own, ids))


def test_waking_all(dual_form):
    state = explored(dual_form)
    for segment in state.segments:
        segment.part.due[:] = 1000
    state.wake()
    assert all((segment.part.due == -1).all() for segment in state.segments)


def test_state_is_what_the_dual_is_made_of(dual_form):
    """Dual variables by label, of the blocks as they are numbered in the source."""
    case = STRUCTURES[dual_form]
    xs, ys = blocks_of(case)
    whole = dataclasses.replace(case, xs=xs, ys=ys, labels=lambda i: case.labels(i % case.n_blocks))
    result = run(StreamedProblem(case.structure, stream(case)))
    value = dual(dual_point(whole, result.state), *whole.reference)
    assert value <= result.certificate.dual * (1.0 + 1e-12)
    assert result.certificate.dual - value <= result.certificate.gap + 1e-9


def test_an_inflow_goes_on_where_reading_stopped():
    inflow = Inflow("rows")
    for k in range(3):
        inflow.feed(np.full((1, 2), float(k)), [0.5])
    reader = inflow.chunks()
    assert next(reader).first == 0
    reader.close()
    inflow.feed(np.full((1, 2), 3.0), [0.5])
    assert [chunk.first for chunk in inflow.chunks()] == [1, 2, 3]
    assert list(inflow.chunks()) == []


def test_csr_and_priors_in_streams_are_those_in_memory():
    case = STRUCTURES["scalar-csr-bias"]
    n = case.problem().n_features
    rng = np.random.default_rng(0)
    prior = Regularizer(rng.normal(size=n), rng.uniform(0.2, 5.0, n), rng.random(n) < 0.5)
    X, y = case.data(repeated(case))
    assert sp.issparse(X)
    memory = run(Problem(case.structure, X, y, regularizer=prior), DualCoordinate()).certificate
    streamed = StreamedProblem(case.structure, stream(case), regularizer=prior)
    assert_allclose(run(streamed).certificate.primal, memory.primal, rtol=2e-7)
