"""What a warm start, a checkpoint or a second reading rests on: another, and bounds may be false.

Each test changes something between two fits. The second must be refused, or have true bounds: the
optimum is known from an independent QP.
"""

import json
import shutil
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV

from cases import STRUCTURES
from own_structures import CompiledTags, Tags
from reference import (
    binary_blocks,
    chain_blocks,
    multiclass_blocks,
    regression_blocks,
    solve_qp,
)
from taut import (
    BinarySVM,
    ChainSVM,
    Checkpoint,
    LatentSVM,
    MulticlassSVM,
    Problem,
    RegressionSVM,
    Regularizer,
    Status,
    StreamedProblem,
    StructuredSVM,
    solve,
)
from taut.data import Stream, open_shards, write_shards
from taut.errors import InvalidData, InvalidFile
from taut.solvers import DualCoordinate, MultiSample, OneSlack, OnlineCache, Subgradient
from taut.storage import files
from taut.structures import Multiclass, Scalar
from taut.training.checkpoint import CheckpointFile

C = 0.7


def assert_refused_or_true(fit, optimum):
    """`fit` returns a certificate. Returns whether it was refused."""
    try:
        certificate = fit()
    except (InvalidData, InvalidFile):
        return True
    slack = 1e-6 * optimum
    assert certificate.dual <= optimum + slack
    assert certificate.primal >= optimum - slack
    return False


# Estimators whose parameters change


def _rows(rng):
    return rng.normal(size=(40, 3)), rng.integers(3, size=40)


COST = np.array([[0.0, 3.0, 0.2], [0.3, 0.0, 2.0], [2.0, 0.1, 0.0]])


def binary(rng):
    X, y = _rows(rng)
    y = np.where(y > 0, 1, -1)
    return BinarySVM, X, y, lambda s: binary_blocks(X, y, s.get("intercept_scaling", 1.0))


def multiclass(rng):
    X, y = _rows(rng)
    return (
        MulticlassSVM,
        X,
        y,
        lambda s: multiclass_blocks(X, y, 3, s.get("cost"), s.get("intercept_scaling", 1.0)),
    )


def regression(rng):
    X, _ = _rows(rng)
    y = X @ np.array([1.0, -2.0, 0.5]) + rng.normal(size=40)
    return (
        RegressionSVM,
        X,
        y,
        lambda s: regression_blocks(X, y, s.get("epsilon", 0.0), s.get("intercept_scaling", 1.0)),
    )


def chain(rng):
    lengths = (1, 4, 2, 3, 3, 2)
    X = [rng.normal(size=(n, 2)) for n in lengths]
    y = [rng.integers(3, size=n) for n in lengths]
    y[1][:3] = 0, 1, 2
    return ChainSVM, X, y, lambda s: chain_blocks(X, y, 3, s.get("loss") == "mean_hamming")


CHANGES = [
    (binary, {"intercept_scaling": 5.0}),
    (multiclass, {"cost": COST}),
    (multiclass, {"intercept_scaling": 5.0}),
    (regression, {"epsilon": 0.5}),
    (regression, {"intercept_scaling": 5.0}),
    (chain, {"loss": "mean_hamming"}),
]


def in_memory(folder, X, y):
    return X, y


def on_disk(folder, X, y):
    return (write_shards(folder / "train", X, y, chunk_size=300),)


def streamed(folder, X, y):
    kind = "sequences" if isinstance(X, list) else "rows"
    half = len(X) // 2
    return (Stream([(X[:half], y[:half]), (X[half:], y[half:])], kind=kind),)


PLACES = [
    *((in_memory, solver) for solver in (DualCoordinate(), OneSlack())),
    *((on_disk, solver) for solver in (OnlineCache(), MultiSample(), OneSlack(), Subgradient())),
    (streamed, OnlineCache()),
]
PAIRS = [
    pytest.param(*change, *place, id="-".join([*change[1], place[0].__name__, place[1].name]))
    for change in CHANGES
    for place in PLACES
    # One structure is enough to compile for.
    if change[0] is multiclass or not isinstance(place[1], MultiSample)
]


@pytest.mark.parametrize("how", ["warm_start", "checkpoint"])
@pytest.mark.parametrize(("make", "change", "place", "solver"), PAIRS)
def test_parameters_change(make, change, place, solver, how, rng, tmp_path):
    Estimator, X, y, blocks = make(rng)
    data = place(tmp_path, X, y)
    tol = 5e-2 if isinstance(solver, Subgradient) else 1e-3
    given = {"warm_start": True} if how == "warm_start" else {"checkpoint": tmp_path / "run.taut"}
    model = Estimator(C=C, solver=solver, tol=tol, max_iter=5000, random_state=0, **given)
    first = model.fit(*data).n_iter_
    again = model.fit(*data).n_iter_
    assert again <= first  # whatever has not changed is taken over
    model.set_params(**change)
    optimum, _ = solve_qp(*blocks(change), np.full(len(X), C))
    assert assert_refused_or_true(lambda: model.fit(*data).certificate_, optimum)


def test_other_weights_may_start_from_one_another(rng):
    _, X, y, blocks = multiclass(rng)
    weight = rng.uniform(0.2, 3.0, size=len(y))
    model = MulticlassSVM(C=C, warm_start=True, tol=1e-4, random_state=0).fit(X, y)
    certificate = model.fit(X, y, weight).certificate_
    optimum, _ = solve_qp(*blocks({}), C * weight)
    assert certificate.dual <= optimum * (1.0 + 1e-6)
    assert certificate.primal >= optimum * (1.0 - 1e-6)


def test_weights_of_all_chunks_count(tmp_path, rng):
    """Of the last chunk too, whatever comes of the first."""
    X, y = _rows(rng)
    digests = set()
    for k, last in enumerate((1.0, 2.0)):
        weight = np.append(np.ones(39), last)
        shards = write_shards(tmp_path / str(k), X, y, sample_weight=weight, chunk_size=300)
        assert shards.n_chunks > 2
        parts = [(X[:20], y[:20], weight[:20]), (X[20:], y[20:], weight[20:])]
        for source in (shards, Stream(parts)):
            problem = StreamedProblem(STRUCTURES["multiclass"].structure, source)
            digests.add(problem.weight_digest)
            digests.add(problem.with_factor(2.0).weight_digest)
    assert len(digests) == 8


# Plain structures


class WithLoss(Tags):
    """The loss is a parameter, in one of many ways."""

    def __init__(self, n_tags, factor):
        super().__init__(n_tags)
        self.nested = {"factor": [factor]}

    def loss(self, truth, label):
        return self.nested["factor"][0] * super().loss(truth, label)


FACTOR = 1.0


class WithGlobal(Tags):
    def loss(self, truth, label):
        return FACTOR * super().loss(truth, label)


def with_code(factor):
    """Classes of one name whose code differs."""
    text = f"""
class WithCode(Tags):
    def loss(self, truth, label):
        return {factor} * sum(a != b for a, b in zip(truth, label))
"""
    names = {"Tags": Tags, "__name__": __name__}
    exec(text, names)
    return names["WithCode"](3)


def with_closure(factor):
    class WithClosure(Tags):
        def loss(self, truth, label):
            return factor * sum(a != b for a, b in zip(truth, label, strict=True))

    return WithClosure(3)


def with_global(factor, monkeypatch):
    monkeypatch.setitem(globals(), "FACTOR", factor)
    return WithGlobal(3)


PLAIN = {
    "attribute": lambda factor, monkeypatch: WithLoss(3, factor),
    "code": lambda factor, monkeypatch: with_code(factor),
    "closure": lambda factor, monkeypatch: with_closure(factor),
    "global": with_global,
}


@pytest.mark.parametrize("change", PLAIN)
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("how", ["warm_start", "checkpoint"])
def test_plain_structures_change(change, streams, how, tmp_path, monkeypatch):
    case = STRUCTURES["tags-plain"]
    X, y = case.data()
    data = (Stream([(list(X), y)], kind="examples"),) if streams else (X, y)
    given = {"warm_start": True} if how == "warm_start" else {"checkpoint": tmp_path / "run.taut"}
    model = StructuredSVM(PLAIN[change](1.0, monkeypatch), C=C, tol=1e-4, random_state=0, **given)
    first = model.fit(*data).n_iter_
    model.set_params(structure=PLAIN[change](1.0, monkeypatch))
    assert model.fit(*data).n_iter_ <= first
    model.set_params(structure=PLAIN[change](0.1, monkeypatch))
    psi, losses = case.reference
    optimum, _ = solve_qp(psi, [0.1 * loss for loss in losses], np.full(len(X), C))
    assert assert_refused_or_true(lambda: model.fit(*data).certificate_, optimum)


def test_every_structure_is_told_from_the_others():
    found = {}
    for name, case in STRUCTURES.items():
        found[name] = case.problem().belonging()()
        assert found[name] == case.problem().belonging()()
        assert found[name] != case.problem(blocks=range(case.n_blocks - 1)).belonging()()
    assert len(set(found.values())) == len(found)
    # Full rows are read as dense ones whatever they come as.
    dense = STRUCTURES["chain"]
    (X, offsets), y = dense.data()
    full = Problem(dense.structure, (sp.csr_array(X), offsets), y)
    assert full.belonging()() == found["chain"]


class Twice(CompiledTags):
    @staticmethod
    def loss(data, i, label):
        return 2.0


def test_compiled_oracles_count():
    case = STRUCTURES["tags-compiled"]
    own, again, other = (
        Problem(structure, *case.data()).belonging()()
        for structure in (CompiledTags(3), CompiledTags(3), Twice(3))
    )
    assert own == again
    assert own.differing(other) == ["structure"]


class Handle:
    """An example that nobody can look into."""

    def __init__(self, x):
        self.x = x
        self.lock = threading.Lock()


class Handled(Tags):
    def features(self, x, label):
        return super().features(x.x, label)


def test_examples_that_cannot_be_read():
    case = STRUCTURES["tags-plain"]
    X, y = case.data()
    handles = [Handle(x) for x in X]
    result = solve(Problem(Handled(3), handles, y), tol=1e-3, random_state=0)
    with pytest.raises(InvalidData, match=r"lock cannot be read, .* give its class __getstate__"):
        _ = result.state
    model = StructuredSVM(Handled(3), random_state=0)
    assert model.fit(handles, y).certificate_.status is Status.CONVERGED
    with pytest.warns(RuntimeWarning, match="the next fit cannot start from this one: .*lock"):
        model.set_params(warm_start=True).fit(handles, y)
    stream = Stream([(handles, y)], kind="examples")
    assert StructuredSVM(Handled(3), random_state=0).fit(stream).certificate_.exact
    with pytest.raises(InvalidData, match="lock cannot be read"):
        _ = stream.digest


# Data that change


def test_every_byte_of_large_data_counts():
    """More than 16 MB."""
    X = np.zeros((300, 7001))
    X[:, 0], y = 1.0, np.where(np.arange(300) % 2, 1.0, -1.0)
    digests = set()
    for place in ((0, 0), (150, 3001), (299, 7000)):
        X[place] += 1.0
        digests.add(Problem(STRUCTURES["scalar"].structure, X, y).belonging()().data)
    y[7] = -y[7]
    digests.add(Problem(STRUCTURES["scalar"].structure, X, y).belonging()().data)
    assert len(digests) == 4


@pytest.mark.parametrize("name", ["scalar", "multiclass", "chain", "tags-plain"])
def test_data_that_change_in_place_are_noticed(name):
    case = STRUCTURES[name]
    X, y = case.data()
    matrix = X[0] if isinstance(X, tuple) else X
    result = solve(Problem(case.structure, X, y), tol=1e-6, random_state=0)
    before = matrix.copy()
    matrix *= 0.5
    changed = Problem(case.structure, X, y)
    # The state is read only now, and still belongs to what was trained on.
    message = r"the start cannot be used: it was made with other data\."
    with pytest.raises(InvalidData, match=message) as caught:
        solve(changed, start=result.state)
    assert ("__getstate__" in str(caught.value)) == (name == "tags-plain")
    matrix[:] = before
    again = solve(Problem(case.structure, X, y), tol=1e-6, start=result.state)
    assert again.certificate.passes == 0


def test_the_prior_counts():
    case = STRUCTURES["multiclass"]
    result = solve(case.problem(), random_state=0)
    other = Problem(case.structure, *case.data(), regularizer=Regularizer(mean=np.ones(12)))
    with pytest.raises(InvalidData, match="made with another prior"):
        solve(other, start=result.state)
    with pytest.raises(InvalidData, match=r"another structure \(.*\) and another prior\."):
        solve(other, start={})


def test_another_cost_is_not_called_other_data(tmp_path):
    """Compiled oracles see costs among their data."""
    case, path = STRUCTURES["multiclass"], tmp_path / "run.taut"
    X, y = case.data()
    start = solve(Problem(Multiclass(4), X, y), random_state=0, checkpoint=path).state
    other = Problem(Multiclass(4, 2.0 * (1.0 - np.eye(4))), X, y)
    what = r"structure \(its parameters, such as cost, or its code\)\."
    with pytest.raises(InvalidData, match=f"it was made with another {what}"):
        solve(other, start=start)
    with pytest.raises(InvalidFile, match=f"it differs in {what}"):
        solve(other, checkpoint=path)


@pytest.mark.parametrize(
    "edit", [lambda w: w[:-1], lambda w: np.append(w, 0.0), lambda w: w * np.nan]
)
def test_start_whose_weights_are_none_is_refused(edit):
    X, y = np.random.default_rng(0).normal(size=(8, 3)), np.arange(8) % 2 * 2.0 - 1.0
    problem = Problem(Scalar(), X, y, C=C)
    state = solve(problem, tol=1e-3, random_state=0).state
    for other in (problem, problem.with_factor(3.0 * C)):
        with pytest.raises(InvalidData, match="best_w has"):
            solve(other, start=state | {"best_w": edit(state["best_w"])})


@pytest.mark.parametrize("name", ["w", "best_w", "late"])
def test_start_with_values_in_the_padding_is_refused(name):
    """They belong to no weight, and would count in the regulariser."""
    problem = STRUCTURES["latent-multiclass-cost-bias"].problem()
    state = solve(problem, Subgradient(), tol=0.1, random_state=0).state
    full = np.where(problem.data.pad(np.ones(problem.n_features)) == 0.0, 1.0, state[name])
    assert (full != state[name]).any()
    with pytest.raises(InvalidData, match="where there are no weights"):
        solve(problem, Subgradient(), start=state | {name: full})


# Bounds are computed again


@pytest.mark.parametrize("name", ["multiclass", "chain", "tags-plain"])
@pytest.mark.parametrize("solver", [None, OnlineCache()], ids=["memory", "cache"])
def test_bounds_in_a_checkpoint_are_not_believed(name, solver, tmp_path):
    case, path = STRUCTURES[name], tmp_path / "run.taut"
    problem = case.problem(C=3.0)
    optimum, _ = solve_qp(*case.reference, np.full(case.n_blocks, 3.0))
    solve(problem, solver, tol=1e-9, max_iter=2, random_state=0, checkpoint=path)
    tensors, meta = files.read(path, "checkpoint")
    meta["numbers"] |= {"best_primal": str(0.9 * optimum), "best_dual": str(2.0 * optimum)}
    if "best_w" in tensors:
        tensors["best_w"] = 0.5 * tensors["best_w"]
    files.write(path, "checkpoint", tensors, meta)
    certificate = solve(problem, solver, tol=1e-3, random_state=0, checkpoint=path).certificate
    assert certificate.status is Status.CONVERGED
    assert certificate.dual <= optimum * (1.0 + 1e-9)
    assert certificate.primal >= optimum * (1.0 - 1e-9)


# Solvers and checkpoints


def some_labels(structure, x, w, truth, count):
    return [structure.argmax(x, w, truth)]


def other_labels(structure, x, w, truth, count):
    return [structure.argmax(x, w, truth), truth][:count]


def test_settings_that_are_functions(tmp_path, environment):
    """A function is known by its name and code, in another process too."""
    problem, path = STRUCTURES["tags-plain"].problem(), tmp_path / "run.taut"
    solve(problem, MultiSample(sampler=some_labels), max_iter=2, checkpoint=path, tol=0.0)
    code = """
        import sys
        from test_belonging import MultiSample, STRUCTURES, solve, some_labels

        problem = STRUCTURES["tags-plain"].problem()
        solver = MultiSample(sampler=some_labels)
        result = solve(problem, solver, max_iter=3, checkpoint=sys.argv[1], tol=0.0)
        print(result.certificate.passes, len(result.history))
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(path)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == "3 3\n"
    with pytest.raises(InvalidFile, match="another run: it differs in solver"):
        solve(problem, MultiSample(sampler=other_labels), checkpoint=path)


def test_other_limits_resume(tmp_path):
    problem, path = STRUCTURES["multiclass"].problem(C=3.0), tmp_path / "run.taut"
    solve(problem, max_iter=2, tol=1e-2, checkpoint=path, random_state=0)
    result = solve(problem, max_iter=1000, tol=1e-6, checkpoint=path, random_state=1)
    assert result.certificate.status is Status.CONVERGED
    assert result.certificate.passes > 2


WAITING = """
    import sys
    from taut import Checkpoint, solve
    from cases import STRUCTURES

    def stop(record):
        if record.iteration == 2:
            print("ready", flush=True)
            sys.stdin.readline()

    result = solve(
        STRUCTURES["multiclass"].problem(C=float(sys.argv[2])), tol=1e-8, random_state=0,
        callbacks=[stop], checkpoint=Checkpoint(sys.argv[1], seconds=0.0),
    )
    print(result.certificate.status.name)
"""


def test_one_run_at_a_time_has_a_checkpoint(tmp_path, environment):
    path = tmp_path / "run.taut"
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WAITING), str(path), "3.0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        content = path.read_bytes()
        message = rf"run\.taut is .* of a run that is under way \(process {process.pid}\); wait "
        for C in (3.0, 2.0):  # of the same problem, and of another
            with pytest.raises(InvalidFile, match=message):
                solve(STRUCTURES["multiclass"].problem(C=C), checkpoint=path)
            assert path.read_bytes() == content
        print(file=process.stdin, flush=True)
        assert process.stdout.readline() == "CONVERGED\n"
    assert not path.with_name("run.taut.lock").exists()
    again = solve(STRUCTURES["multiclass"].problem(C=3.0), tol=1e-8, checkpoint=path)
    assert again.certificate.status is Status.CONVERGED


def test_the_lock_of_a_killed_process_is_of_no_harm(tmp_path, environment):
    path = tmp_path / "run.taut"
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WAITING), str(path), "3.0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.kill()
    assert path.with_name("run.taut.lock").exists()
    problem = STRUCTURES["multiclass"].problem(C=3.0)
    assert len(solve(problem, tol=1e-8, checkpoint=path).history) > 1


def test_a_full_disk_does_not_end_a_run_that_locks(tmp_path):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # no file may grow
    try:
        with CheckpointFile(tmp_path / "run.taut", {}):
            other = CheckpointFile(tmp_path / "run.taut", {})
            with pytest.raises(InvalidFile, match="under way \\(process unknown\\)"), other:
                pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_runs_within_runs(tmp_path):
    """In one process too, and a run that ends lets go of the file however it ends."""
    problem, path = STRUCTURES["multiclass"].problem(C=3.0), tmp_path / "run.taut"

    def nested(record):
        solve(problem, checkpoint=path)

    for _ in range(2):
        with pytest.raises(InvalidFile, match="under way"):
            solve(problem, checkpoint=path, callbacks=[nested])
    assert solve(problem, checkpoint=path).certificate.status is Status.CONVERGED


def test_a_file_that_appears_is_not_overwritten(tmp_path):
    problem, path = STRUCTURES["multiclass"].problem(C=3.0), tmp_path / "run.taut"
    foreign = tmp_path / "other.taut"
    solve(STRUCTURES["multiclass"].problem(C=2.0), checkpoint=foreign, max_iter=2)
    own = Checkpoint(path, seconds=0.0)

    def appear(record):
        if record.iteration == 3:
            shutil.copy(foreign, path)

    with pytest.warns(RuntimeWarning, match=r"could not be written \(.*: it differs in weights"):
        result = solve(problem, checkpoint=own, callbacks=[appear], tol=1e-8, random_state=0)
    assert result.certificate.status is Status.CONVERGED
    assert path.read_bytes() == foreign.read_bytes()


def test_searches_are_told_to_do_without(tmp_path, rng):
    X, y = _rows(rng)
    model = BinarySVM(checkpoint=tmp_path / "run.taut")
    search = GridSearchCV(model, {"C": [0.1, 1.0]}, cv=2, error_score="raise")
    with pytest.raises(InvalidFile, match=r"path of its own; fits of one search .* need none"):
        search.fit(X, y > 0)


# Readings that differ


def reshuffling(rng, X, y):
    def parts():
        order = rng.permutation(len(y))
        for rows in np.array_split(order, 4):
            yield X[rows], y[rows]

    return parts


def augmenting(rng, X, y):
    def parts():
        for rows in np.array_split(np.arange(len(y)), 4):
            yield X[rows] + (rows[0] > 0) * 0.01 * rng.normal(size=(len(rows), 3)), y[rows]

    return parts


@pytest.mark.parametrize("loader", [reshuffling, augmenting])
@pytest.mark.parametrize("solver", [OnlineCache(), MultiSample(), OneSlack(), Subgradient()])
def test_streams_must_repeat_themselves(loader, solver, rng):
    X, y = _rows(rng)
    stream = Stream(loader(rng, X, y))
    model = MulticlassSVM(solver=solver, random_state=0)
    message = r"gave other data at chunk \d .*in reading .* same seed"
    with pytest.raises(InvalidData, match=message) as caught:
        model.fit(stream)
    assert "__getstate__" not in str(caught.value)
    once = Stream(loader(rng, X, y)(), classes=[0, 1, 2])
    if isinstance(solver, OnlineCache):
        assert model.fit(once).certificate_.status is Status.READ_ONCE


def test_no_reader_gets_a_chunk_that_has_changed(rng):
    X, y = _rows(rng)
    changed = threading.Event()

    def parts():
        for k in range(4):
            rows = slice(10 * k, 10 * k + 10)
            yield X[rows] + (k == 2 and changed.is_set()), y[rows]

    readers = [
        lambda stream: [seen.append(chunk.number) for chunk in stream.chunks()],
        lambda stream: stream.take([25]),
        lambda stream: stream.class_sums(),
        lambda stream: Stream.classes.fget(stream),
        lambda stream: stream.digest,
    ]
    for read in readers:
        changed.clear()
        stream, seen = Stream(parts), []
        stream.take([35])  # stops before the end
        changed.set()
        with pytest.raises(InvalidData, match=r"chunk 2 \(blocks 20 to 29\) in reading 3 than"):
            read(stream)
        assert not seen or seen == [0, 1]


def test_recodings_count():
    """The first chunk stays as it is."""

    def problem(shift):
        def recode(chunk):
            return replace(chunk, y=(chunk.y + shift * (chunk.number > 0)) % 4)

        case = STRUCTURES["multiclass"]
        X, y = case.data()
        parts = [(X[:5], y[:5]), (X[5:], y[5:])]
        return StreamedProblem(case.structure, Stream(parts), recode=recode)

    first = solve(problem(0), random_state=0)
    assert solve(problem(0), start=first.state).certificate.passes == 0
    with pytest.raises(InvalidData, match="it was made with other data"):
        solve(problem(1), start=first.state)


def test_given_classes_are_part_of_a_stream():
    parts = [(np.ones((2, 1)), ["a", "b"])]
    digests = {Stream(parts, classes=given).digest for given in (None, [*"abc"], [*"abz"], [*"ab"])}
    assert len(digests) == 4


@pytest.mark.parametrize("verify", [True, False])
def test_shards_that_are_rewritten(tmp_path, rng, verify):
    """In place, by a program that changes targets between two passes."""
    X, y = _rows(rng)
    path = tmp_path / "train"
    write_shards(path, X, y, chunk_size=300)
    shards = open_shards(path, verify=verify)
    model = MulticlassSVM(C=C, tol=1e-4, warm_start=True, random_state=0).fit(shards)
    (file,) = path.glob("*y*.npy")
    file.write_bytes(file.read_bytes())  # the same again: looked at, and found to be right
    assert model.fit(shards).certificate_.status is Status.CONVERGED
    labels = np.load(file)
    labels[-1] = (labels[-1] + 1) % 3
    np.save(file, labels)
    with pytest.raises(InvalidFile, match="has changed since it was opened: chunk"):
        model.fit(shards)


# Latent values


@pytest.mark.parametrize("streams", [False, True])
def test_rounds_belong_to_all_rows_and_weights(tmp_path, rng, streams):
    """Bags of the same mean differ, and so do weights of classes that the first chunk lacks."""
    X = [rng.normal(size=(2, 2)) + 2.0 * (i % 2) for i in range(12)]
    y = np.arange(12) % 2
    turned = [2.0 * x.mean(axis=0) - x + [[0.5, 0.0], [-0.5, 0.0]] for x in X]

    def fit(X, **given):
        data = (X, y)
        if streams:
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            data = (write_shards(folder, X, y, chunk_size=100),)
        model = LatentSVM(checkpoint=path, max_rounds=2, round_tol=0.0, random_state=0, **given)
        return model.fit(*data)

    path = tmp_path / "run.taut"
    rounds = fit(X).rounds_["objective"]
    assert fit(X).rounds_["objective"][0] == rounds[0]
    for others in ({"X": turned}, {"X": X, "class_weight": {0: 1.0, 1: 1.5}}):
        with pytest.raises(InvalidFile, match=r"another run: it differs in (data|weights)"):
            fit(**others)


def test_an_objective_in_a_checkpoint_is_not_believed(tmp_path, rng):
    X = [rng.normal(size=(2, 2)) + (i % 2) for i in range(8)]
    path, y = tmp_path / "run.taut", np.arange(8) % 2
    model = LatentSVM(checkpoint=path, random_state=0).fit(X, y)
    tensors, meta = files.read(path, "checkpoint")
    assert "objective" not in json.dumps(meta["numbers"])
    files.write(path, "checkpoint", tensors, meta)
    again = LatentSVM(checkpoint=path, random_state=0).fit(X, y)
    assert again.certificate_.primal == model.certificate_.primal
