"""The loop: why it stops and what it says, checkpoints, interrupts and kills."""

import dataclasses
import functools
import math
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cases import STRUCTURES
from own_structures import Tags
from taut import Checkpoint, Problem, Status, solve
from taut.errors import InvalidData, InvalidFile
from taut.result import Certificate, History
from taut.solvers import Candidate, DualCoordinate, PassEvent
from taut.storage import files
from taut.training.loop import Run

# One structure for each form of the dual variables.
FORMS = ["multiclass", "chain", "tags-mapped", "tags-plain"]


@pytest.fixture(params=FORMS)
def problem(request):
    return STRUCTURES[request.param].problem(C=3.0)


@pytest.fixture
def one_problem():
    return STRUCTURES["multiclass"].problem(C=3.0)


def at_pass(k, action):
    """A callback that acts after pass k."""
    return lambda record: action() if record.iteration == k else None


class Snapshot:
    """A callback that keeps the checkpoint as it is when pass k ends: that of pass k - 1."""

    def __init__(self, path, k):
        self.path, self.k = Path(path), k
        self.copy = self.path.with_suffix(f".{k}")

    def __call__(self, record):
        if record.iteration == self.k:
            shutil.copy(self.path, self.copy)


run = functools.partial(solve, tol=1e-8, max_iter=5000, random_state=0)


# What a pass may report


def after_passes(event, *candidates):
    """A run in single precision whose passes came to an event, each with a candidate."""
    problem = STRUCTURES["multiclass-single"].problem()
    run = Run(problem, DualCoordinate(cached_passes=0), 0.999, np.random.default_rng(0))
    for candidate in candidates:
        report = run.solver.pass_(problem, run.state, 1.0, lambda: True)
        run.account(dataclasses.replace(report, event=event, candidate=candidate), 0.0)
    return run


@pytest.mark.parametrize(
    ("event", "over", "verified", "widened", "recentres"),
    [
        (PassEvent.EXPLORED, False, False, False, False),
        (PassEvent.PART, False, False, False, True),
        (PassEvent.STUCK_PART, False, False, True, True),
        (PassEvent.INCOMPLETE, True, False, False, True),
        (PassEvent.COMPLETE, True, True, False, True),
        (PassEvent.STUCK, True, True, True, True),
        (PassEvent.SETTLED, True, True, False, True),
        (PassEvent.OUT_OF_MEMORY, False, False, False, True),
    ],
)
def test_what_follows_from_an_event(event, over, verified, widened, recentres):
    run = after_passes(event, None)
    assert (run.iteration, run.parts) == (over, 1)
    assert run.history.records[-1].iteration == 1
    assert run.history.records[-1].exact == verified
    assert (run.state.w.dtype == np.float64) == widened
    assert run.recentres == recentres


def test_what_follows_from_a_candidate():
    """The solver's own is taken as it is; the average begins with the third w."""
    own, joins, anew = Candidate(np.ones(3)), Candidate(), Candidate(restarts=True)
    for candidates, averaged, has_average, better in (
        ([None] * 3, 0, False, "w"),
        ([own] * 3, 0, True, "average"),
        ([joins] * 2, 2, False, "w"),
        ([joins] * 3, 3, True, "w"),
        ([joins] * 3 + [anew], 1, False, "average"),
        ([anew] + [joins] * 2, 3, True, "average"),
    ):
        run = after_passes(PassEvent.PART, *candidates)
        found = (run.averaged, run.average is not None, run.better)
        assert found == (averaged, has_average, better)


# Why it stops


def test_converged(problem):
    certificate = run(problem).certificate
    assert certificate.status is Status.CONVERGED
    assert certificate.relative_gap <= 1e-8
    assert certificate.message == (
        f"The relative gap {certificate.relative_gap:.2g} is within tol=1e-08."
    )


def test_max_iter(problem):
    result = run(problem, max_iter=3)
    certificate = result.certificate
    assert certificate.status is Status.MAX_ITER
    assert certificate.passes == len(result.history) == 3
    assert certificate.exact
    assert certificate.message == (
        f"Stopped after max_iter=3 passes with relative gap {certificate.relative_gap:.2g} > "
        "tol=1e-08: raise max_iter, or tol."
    )


def test_time_limit(problem):
    certificate = run(problem, time_limit=1e-9).certificate
    assert certificate.status is Status.TIME_LIMIT
    assert certificate.passes == 1
    assert f"after {certificate.seconds:.1f} s with relative gap" in certificate.message
    assert "raise time_limit, or tol" in certificate.message


def test_callback_that_returns_true(problem):
    certificate = run(problem, callbacks=[at_pass(4, lambda: True)]).certificate
    assert certificate.status is Status.CALLBACK
    assert certificate.passes == 4
    assert certificate.message.startswith("Stopped by a callback after 4 passes with relative gap")


def test_only_true_itself_stops(one_problem):
    certificate = run(one_problem, callbacks=[lambda record: "yes"]).certificate
    assert certificate.status is Status.CONVERGED


def interrupt_by_exception():
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "interrupt",
    [interrupt_by_exception, lambda: signal.raise_signal(signal.SIGINT)],
    ids=["exception", "signal"],
)
def test_interrupted(problem, interrupt):
    before = signal.getsignal(signal.SIGINT)
    result = run(problem, callbacks=[at_pass(4, interrupt)])
    certificate = result.certificate
    assert certificate.status is Status.INTERRUPTED
    assert certificate.passes == 4
    assert certificate.message.startswith(
        f"Interrupted after 4 passes with relative gap {certificate.relative_gap:.2g}"
    )
    assert_allclose(problem.primal(result.w), certificate.primal, rtol=1e-12)
    assert signal.getsignal(signal.SIGINT) is before


class Interrupted(Tags):
    """Ctrl-C arrives in the middle of a pass, while the oracle runs."""

    calls = 0

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "calls"}

    def argmax(self, x, w, truth=None):
        self.calls += 1
        if self.calls == 30:
            signal.raise_signal(signal.SIGINT)
        return super().argmax(x, w, truth)


def test_interrupt_in_the_middle_of_a_pass_ends_it_early(tmp_path):
    case = STRUCTURES["tags-plain"]
    X, y = case.data(np.arange(300) % case.n_blocks)
    path = tmp_path / "run.taut"
    problem = Problem(Interrupted(3), X, y)
    result = solve(problem, tol=1e-6, random_state=0, checkpoint=path, check=False)
    assert result.certificate.status is Status.INTERRUPTED
    assert result.certificate.passes == 1
    assert result.certificate.primal >= result.certificate.dual
    # Blocks that were never visited leave no estimate of the primal, in the file neither.
    assert math.isinf(result.history.records[0].primal)
    resumed = solve(problem, tol=1e-6, random_state=0, checkpoint=path, check=False)
    assert resumed.certificate.status is Status.CONVERGED
    assert resumed.certificate.passes > 2


def test_second_interrupt_raises():
    case = STRUCTURES["tags-plain"]

    class Twice(Tags):
        def argmax(self, x, w, truth=None):
            signal.raise_signal(signal.SIGINT)
            return super().argmax(x, w, truth)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(Problem(Twice(3), *case.data()))
    assert signal.getsignal(signal.SIGINT) is before


def test_errors_of_callbacks_are_raised_and_all_are_closed(one_problem):
    class Callback:
        closed = False

        def __call__(self, record):
            raise RuntimeError("a callback's own error")

        def close(self):
            self.closed = True

    callbacks = [Callback(), Callback()]
    with pytest.raises(RuntimeError, match="own error"):
        run(one_problem, callbacks=callbacks)
    assert all(callback.closed for callback in callbacks)


@pytest.mark.parametrize("tol", [0.0, 1e-18])
def test_stalled(problem, tol):
    """A tolerance beyond floating-point numbers ends the run, which says so."""
    certificate = run(problem, tol=tol).certificate
    assert certificate.relative_gap < 1e-12
    if certificate.gap > 0.0:
        assert certificate.status is Status.STALLED
        assert certificate.message.startswith("Floating-point numbers prove no relative gap below")
    else:
        assert certificate.status is Status.CONVERGED


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": -1.0}, r"tol = -1\.0: it must be 0 or more"),
        ({"tol": math.nan}, r"tol = nan"),
        ({"max_iter": 0}, r"max_iter = 0: it must be at least 1"),
        ({"time_limit": 0.0}, r"time_limit = 0\.0: it must be positive, or None"),
    ],
)
def test_bad_options_are_refused(one_problem, options, message):
    with pytest.raises(InvalidData, match=message):
        solve(one_problem, **options)


# What is reported


def test_estimate_is_confirmed_before_stopping(problem):
    """Many tolerances: wherever the loop stops, true bounds have been computed in that pass."""
    for tol in np.geomspace(1e-1, 1e-6, 11):
        result = run(problem, tol=tol)
        last = result.history.records[-1]
        assert last.exact
        assert last.relative_gap <= tol
        assert (result.certificate.primal, result.certificate.dual) == (last.primal, last.dual)
        assert_allclose(problem.primal(result.w), last.primal, rtol=1e-12)


class Boastful(DualCoordinate):
    """Reports `claim` as its gap in the first `boasts` passes."""

    def __init__(self, claim, boasts):
        super().__init__(recentring=0.0)  # a centre's distance would tell that it is not true
        self.claim, self.boasts = claim, boasts

    def pass_(self, problem, state, *arguments):
        report = super().pass_(problem, state, *arguments)
        boasts = state.part.passes <= self.boasts
        return dataclasses.replace(report, gap=self.claim) if boasts else report


@pytest.mark.parametrize("claim", [0.0, 1e-15])
@pytest.mark.parametrize("boasts", [3, 10_000])
def test_wrong_estimates_neither_stop_nor_delay(one_problem, claim, boasts):
    expected = run(one_problem, DualCoordinate(recentring=0.0)).certificate.passes
    certificate = run(one_problem, Boastful(claim, boasts)).certificate
    assert certificate.status is Status.CONVERGED
    assert certificate.relative_gap <= 1e-8
    assert 3 < certificate.passes < 3 * expected


def test_wrong_estimates_wake_all_blocks(one_problem):
    """Each pass then calls the oracle for all blocks, and so does each verification."""
    calls = run(one_problem, Boastful(0.0, 10_000)).history["oracle_calls"]
    assert not (calls % one_problem.n_blocks).any()
    assert (run(one_problem).history["oracle_calls"] % one_problem.n_blocks).any()


def test_records_reach_callbacks_and_history(problem):
    seen = []
    result = run(problem, callbacks=[seen.append])
    assert seen == result.history.records
    assert_array_equal(result.history["iteration"], np.arange(1, len(seen) + 1))
    assert (np.diff(result.history["oracle_calls"]) >= 0).all()
    assert (np.diff(result.history["seconds"]) >= 0.0).all()
    assert result.certificate.oracle_calls >= result.history["oracle_calls"][-1]
    assert result.certificate.peak_memory > 1e6


def test_certificate_and_history_as_dictionaries(problem):
    result = run(problem, max_iter=3)
    assert Certificate.from_dict(result.certificate.to_dict()) == result.certificate
    columns = dict(sorted(result.history.to_dict().items()))
    assert History.from_dict(columns).records == result.history.records


# Checkpoints


@pytest.mark.parametrize("k", [2, 3, 9])
def test_killed_and_resumed_is_uninterrupted(problem, tmp_path, k):
    snapshot = Snapshot(tmp_path / "run.taut", k)
    whole = run(problem, callbacks=[snapshot], checkpoint=Checkpoint(snapshot.path, seconds=0.0))
    resumed = run(problem, checkpoint=Checkpoint(snapshot.copy, seconds=0.0), random_state=99)
    plain = run(problem)
    for other in (resumed, plain):
        assert_array_equal(other.w, whole.w)
        assert other.certificate.primal == whole.certificate.primal
        assert other.certificate.dual == whole.certificate.dual
        assert other.certificate.oracle_calls == whole.certificate.oracle_calls
        assert_array_equal(other.history["dual"], whole.history["dual"])


@pytest.mark.parametrize("k", [1, 2, 8])
def test_stopped_and_resumed_is_uninterrupted(problem, tmp_path, k):
    """Whatever stopped a run between two passes, a higher limit goes on as if it had not."""
    path = tmp_path / "run.taut"
    stopped = run(problem, checkpoint=path, max_iter=k)
    assert stopped.certificate.status is Status.MAX_ITER
    resumed, whole = run(problem, checkpoint=path), run(problem)
    assert_array_equal(resumed.w, whole.w)
    assert_array_equal(resumed.history["dual"], whole.history["dual"])


def test_resuming_a_finished_run_does_nothing(problem, tmp_path):
    path = tmp_path / "run.taut"
    first = run(problem, checkpoint=path)
    again = run(problem, checkpoint=path)
    assert again.certificate.passes == first.certificate.passes
    assert again.certificate.status is Status.CONVERGED
    assert_array_equal(again.w, first.w)
    assert again.history.records == first.history.records


def test_resuming_at_the_limit_does_nothing(problem, tmp_path):
    path = tmp_path / "run.taut"
    run(problem, checkpoint=path, max_iter=3)
    again = run(problem, checkpoint=path, max_iter=3).certificate
    assert again.passes == 3
    assert again.status is Status.MAX_ITER


def test_checkpoint_of_another_run_is_refused(tmp_path):
    case, path = STRUCTURES["multiclass"], tmp_path / "run.taut"
    run(case.problem(), max_iter=2, checkpoint=path)
    content = path.read_bytes()
    others = [
        (STRUCTURES["chain"].problem(), None),
        (case.problem(blocks=[1, 0, 2]), None),
        (case.problem(C=2.0), None),
        (case.problem(), DualCoordinate(max_steps=7)),
    ]
    for problem, solver in others:
        with pytest.raises(InvalidFile, match=r"run\.taut is the checkpoint of another run: .*"):
            run(problem, solver, checkpoint=path)
        assert path.read_bytes() == content


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.99])
def test_truncated_checkpoint_is_refused(one_problem, tmp_path, keep):
    path = tmp_path / "run.taut"
    run(one_problem, max_iter=2, checkpoint=path)
    content = path.read_bytes()[: int(keep * path.stat().st_size)]
    path.write_bytes(content)
    with pytest.raises(InvalidFile, match=r"run\.taut is (empty|not a complete)"):
        run(one_problem, checkpoint=path)
    assert path.read_bytes() == content


def test_a_model_is_no_checkpoint(one_problem, tmp_path):
    path = tmp_path / "run.taut"
    files.write(path, "model", {"w": np.zeros(2)}, {})
    with pytest.raises(InvalidFile, match="holds a model, not a checkpoint"):
        run(one_problem, checkpoint=path)


def test_checkpoint_waits_for_its_time(one_problem, tmp_path):
    """Thirty seconds by default: a short run is saved once, at its end."""
    path, seen = tmp_path / "run.taut", []
    run(one_problem, checkpoint=path, callbacks=[lambda record: seen.append(path.exists())])
    assert not any(seen)
    assert path.exists()


@pytest.mark.parametrize("of_a_pass", [0.0, 3.0])
def test_savings_take_at_most_half_the_time(one_problem, tmp_path, monkeypatch, of_a_pass):
    """A history is saved as a whole: after each of many short passes it would take hours."""
    now, savings, write = SimpleNamespace(seconds=0.0), [], files.write
    clock = SimpleNamespace(monotonic=lambda: now.seconds)

    def slow(*arguments):
        savings.append(now.seconds)
        now.seconds += 2.0
        write(*arguments)

    def pass_by(record):
        now.seconds += of_a_pass

    monkeypatch.setattr("taut.training.checkpoint.time", clock)
    monkeypatch.setattr("taut.storage.files.write", slow)
    keep = Checkpoint(tmp_path / "run.taut", seconds=0.0)
    passes = run(one_problem, tol=1e-8, checkpoint=keep, callbacks=[pass_by]).certificate.passes
    assert passes > 5
    assert len(savings) == (passes if of_a_pass else 2)  # the first, and that at the end
    assert keep.path.exists()


TRAINING = """
    import sys, time
    from taut import Checkpoint, solve
    from cases import STRUCTURES

    def stop(record):
        if record.iteration == 6:
            print("ready", flush=True)
            time.sleep(600.0)

    solve(
        STRUCTURES["chain"].problem(C=3.0), tol=1e-8, max_iter=5000, random_state=0,
        callbacks=[stop], checkpoint=Checkpoint(sys.argv[1], seconds=0.0),
    )
"""


def test_killed_process_is_resumed(tmp_path, environment):
    path = tmp_path / "run.taut"
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(TRAINING), str(path)],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    problem = STRUCTURES["chain"].problem(C=3.0)
    resumed, whole = run(problem, checkpoint=path), run(problem)
    assert_allclose(resumed.certificate.primal, whole.certificate.primal, rtol=1e-12)
    assert_array_equal(resumed.w, whole.w)


def test_rounding_at_the_optimum_makes_no_negative_gap():
    dual = np.nextafter(5.5, 6.0)
    certificate = Certificate(5.5, dual, 0.0, True, Status.CONVERGED, "", 1, 1, 0.0, 0)
    assert certificate.gap == certificate.relative_gap == 0.0


def test_a_full_disk_is_told_of_once(one_problem, tmp_path, monkeypatch):
    tries = []

    def fail(path, kind, arrays, meta):
        tries.append(path)
        raise OSError("disk full")

    monkeypatch.setattr("taut.storage.files.write", fail)
    with pytest.warns(RuntimeWarning, match=r"could not be written \(disk full\)") as caught:
        run(one_problem, checkpoint=Checkpoint(tmp_path / "run.taut", seconds=0.0), max_iter=5)
    assert len(tries) > 1
    assert len(caught) == 1
    assert caught[0].filename.endswith("test_solve.py")
