"""No file can hurt: what lies is refused, whatever its checksums say, and kills leave nothing."""

import json
import os
import signal
import sys
import tempfile
import time
import tracemalloc
import types
from pathlib import Path

import numpy as np
import pytest

import taut
from own_structures import Tags
from taut.data import open_shards, write_shards
from taut.data.arrays import as_matrix
from taut.data.shard_format import sealed
from taut.errors import InvalidContent, InvalidData, InvalidFile
from taut.estimators import ESTIMATORS, storage
from taut.storage import files, stored
from taut.structures import Bags, LatentMulticlass, Multiclass, NdcgRanking, PairwiseRanking
from taut.training.checkpoint import Checkpoint, CheckpointFile

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import fuzz_files

posix = pytest.mark.skipif(os.name != "posix", reason="pipes and locks of POSIX")
X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.2]])
Y = np.array([0, 1, 2, 1])


@pytest.mark.parametrize("kind", ["shards", "models", "checkpoints"])
def test_mutations_are_refused_or_harmless(kind, tmp_path):
    good = fuzz_files.kind_of(kind, tmp_path, few=True)
    for number in range(100):
        outcome, message = good.run(number, 0, tmp_path)
        assert outcome in fuzz_files.GOOD, f"{number}: {outcome}: {message}"


# Models


def changed_model(path, change, model=None):
    """The path of a model that `change` was called on: its tensors, and the fitted attributes."""
    model = model or taut.BinarySVM(random_state=0).fit(X, Y > 0)
    model.save(path)
    tensors, meta = files.read(path, "model")
    change(tensors, meta)
    files.write(path, "model", tensors, meta)
    return path


def fitted(**values):
    return lambda tensors, meta: meta["fitted"].update(values)


def tensor(name, value):
    return lambda tensors, meta: tensors.update({name: np.asarray(value)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (fitted(predict={"value": 3}), "no attributes of a fitted BinarySVM"),
        (fitted(_state={"value": 3}), "no attributes"),
        (fitted(transition_={"tensor": "coef_"}), "no attributes"),
        (tensor("coef_", np.ones((1, 3))), "shape"),
        (tensor("coef_", np.ones(2)), "shape"),
        (tensor("coef_", [[1.0, np.nan]]), "finite"),
        (tensor("intercept_", np.ones(2)), "shape"),
        (fitted(classes_={"labels": ["a", "a"], "dtype": "O"}), "twice"),
        (fitted(classes_={"labels": ["a", "b"], "dtype": "<U999999"}), "labels of dtype"),
        (fitted(n_features_in_={"value": 3}), "shape"),
        (fitted(certificate_={"value": 1.0}), "certificate_ is of type float"),
        (fitted(n_iter_={"value": "x"}), "n_iter_ is of type str"),
        (lambda tensors, meta: meta["fitted"]["certificate_"]["certificate"].update(primal="1"),
         "primal"),
        (lambda tensors, meta: meta["fitted"]["history_"]["history"].update(dual=["x"]), "history"),
        (lambda tensors, meta: meta["parameters"].update(
            solver={"solver": "one_slack", "settings": {"patience": "x"}}), "patience"),
        (lambda tensors, meta: meta.update({"class": ["BinarySVM"]}), "of class"),
    ],
)  # fmt: skip
def test_models_that_lie_are_refused(tmp_path, change, message):
    with pytest.raises(InvalidFile, match=rf"(?i){message}"):
        taut.load(changed_model(tmp_path / "model", change))


def test_every_estimator_says_what_its_fit_makes():
    assert storage.FITTED.keys() == ESTIMATORS.keys()


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3", "F8_E5M2"])
def test_foreign_types_are_refused(tmp_path, dtype):
    path = tmp_path / "f"
    tensors = {"w": np.zeros(4)}
    fuzz_files.mutations.write_sealed(path, "model", tensors, {}, {}, dtype)
    with pytest.raises(InvalidFile, match=dtype):
        files.read(path, "model")


def test_versions_are_short_numbers(tmp_path):
    path = tmp_path / "f"
    for version in ("9" * 5000, "-1", "1.0", " 1"):
        fuzz_files.mutations.write_sealed(path, "model", {}, {}, {"version": version}, None)
        with pytest.raises(InvalidFile, match="unknown version"):
            files.read(path, "model")


# Shards


@posix
@pytest.mark.parametrize("name", ["header.json", "X-00000.npy", "y-00000.npy"])
def test_pipes_and_devices_among_shards_do_not_hang(tmp_path, name):
    path = tmp_path / "set"
    write_shards(path, X, Y)
    (path / name).unlink()
    os.mkfifo(path / name)
    with pytest.raises(InvalidFile, match="not a regular file"):
        open_shards(path)
    (path / name).unlink()
    (path / name).symlink_to("/dev/zero")
    with pytest.raises(InvalidFile, match="not a regular file"):
        open_shards(path)


@posix
def test_pipes_as_files_do_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidFile, match="not a regular file"):
        taut.load(tmp_path / "pipe")
    with pytest.raises(InvalidFile, match="not a regular file"):
        taut.BinarySVM(checkpoint=tmp_path / "pipe").fit(X, Y > 0)


@pytest.mark.parametrize("change", [
    {"n_features": True}, {"n_blocks": 3}, {"y_per": "rows"}, {"dtype": ">f8"}, {"dtype": "O"},
    {"chunks": []}, {"classes": None}, {"classes": ["a", "a", "b"]}, {"ragged": 1},
])  # fmt: skip
def test_headers_that_lie_are_refused(tmp_path, change):
    write_shards(tmp_path / "set", X, np.array(["a", "b", "c"])[Y])
    file = tmp_path / "set" / "header.json"
    header = json.loads(file.read_text()) | change
    del header["sha256"]
    file.write_text(sealed(header))
    with pytest.raises(InvalidFile, match="inconsistent"):
        open_shards(tmp_path / "set")


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize(
    ("name", "place", "value"),
    [("indices", 0, 99), ("indices", 3, 0), ("indptr", 1, 2**40), ("data", 0, np.nan), ("y", 0, 7),
     ("indptr", 0, 1), ("sample_weight", 0, -1.0)],
)  # fmt: skip
def test_chunks_that_lie_are_refused(tmp_path, verify, name, place, value):
    path = tmp_path / "set"
    write_shards(
        path, fuzz_files.sp.csr_array(X), np.array(["a", "b", "c"])[Y], sample_weight=np.ones(4)
    )
    array = np.load(path / f"{name}-00000.npy")
    array[place] = value
    np.save(path / f"{name}-00000.npy", array)
    fuzz_files.mutations.reseal(path, json.loads((path / "header.json").read_text()))
    with pytest.raises(InvalidFile, match="chunk 0"):
        list(open_shards(path, verify=verify).chunks())


# Checkpoints


def changed_checkpoint(path, problem, change, **numbers):
    """Stop a run, and change its checkpoint."""
    taut.solve(problem, tol=0.3, max_iter=2, random_state=0, checkpoint=Checkpoint(path, 0.0))
    tensors, meta = files.read(path, "checkpoint")
    change(tensors)
    meta["numbers"] |= numbers
    files.write(path, "checkpoint", tensors, meta)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t["state.alpha"].__imul__(1.5), "exceed"),
        (lambda t: t["state.alpha"].__imul__(0.5), "missing"),
        (lambda t: t["state.alpha"].__imul__(-1.0), "alpha has values"),
        (lambda t: t.update({"state.alpha": t["state.alpha"][:2]}), "shape"),
        (lambda t: t.update({"state.alpha": t["state.alpha"].astype("f4")}), "dtype"),
        (lambda t: t["state.gap"].fill(np.nan), "gap"),
        (lambda t: t["U"].__iadd__(1.0), "U"),
        (lambda t: t.pop("state.w"), "w is missing"),
    ],
)
def test_dual_points_that_are_infeasible_are_refused(tmp_path, change, message):
    problem = taut.Problem(Multiclass(3), X, Y, C=1.0)
    changed_checkpoint(tmp_path / "run", problem, change)
    with pytest.raises(InvalidFile, match=message):
        taut.solve(problem, checkpoint=tmp_path / "run")


@pytest.mark.parametrize("numbers", [
    {"best_dual": "nan"}, {"iteration": "-1"},
    {"iteration": "9" * 5000}, {"better": "x"}, {"recentres": "1"}, {"seconds": 1.0},
])  # fmt: skip
def test_numbers_that_lie_are_refused(tmp_path, numbers):
    problem = taut.Problem(Multiclass(3), X, Y, C=1.0)
    changed_checkpoint(tmp_path / "run", problem, lambda tensors: None, **numbers)
    with pytest.raises(InvalidFile):
        taut.solve(problem, checkpoint=tmp_path / "run")


def test_a_dual_bound_is_proved_again(tmp_path):
    problem = taut.Problem(Multiclass(3), X, Y, C=1.0)
    best = taut.solve(problem, tol=1e-9, random_state=0).certificate
    changed_checkpoint(tmp_path / "run", problem, lambda tensors: None, best_dual="1e6")
    result = taut.solve(problem, tol=1e-3, checkpoint=tmp_path / "run")
    assert result.certificate.dual <= best.primal * (1.0 + 1e-9)


@pytest.mark.parametrize("error", [
    IndexError, KeyError, OverflowError, TypeError, ValueError, AttributeError, InvalidContent,
])  # fmt: skip
def test_whatever_a_lying_checkpoint_raises_is_blamed_on_it(tmp_path, error):
    files.write(tmp_path / "run", "checkpoint", {}, {"fingerprint": {}})
    for module, expected in (("taut.training.loop", InvalidFile), ("users", error)):
        run = {"__name__": module, "error": error}
        exec("def resume(arrays, meta): raise error", run)
        kept = error is InvalidContent  # which says itself that it is about the file
        with pytest.raises(InvalidFile if kept else expected):
            CheckpointFile(tmp_path / "run", {}).resume(types.SimpleNamespace(**run))


class Dependent(Tags):
    """Features that depend on what no digest can see."""

    def features(self, x, y):
        return super().features(x, y) * float(os.environ.get("TAUT_TEST_FACTOR", "1"))


def test_data_that_fail_are_not_blamed_on_a_checkpoint(tmp_path, monkeypatch):
    problem = taut.Problem(Dependent(2), X[:, :2], [(0, 1)] * len(X))
    changed_checkpoint(tmp_path / "run", problem, lambda tensors: None)
    monkeypatch.setenv("TAUT_TEST_FACTOR", "nan")
    with pytest.raises(InvalidData, match="NaN"):
        taut.solve(problem, checkpoint=tmp_path / "run", check=False)


def test_a_start_that_is_infeasible_is_refused():
    problem = taut.Problem(Multiclass(3), X, Y, C=1.0)
    start = dict(taut.solve(problem, random_state=0).state)
    start["alpha"] = 2.0 * start["alpha"]
    with pytest.raises(InvalidData, match="exceed"):
        taut.solve(problem, start=start)


STACKED = (np.arange(10.0).reshape(5, 2), np.array([0, 3, 5]))


@pytest.mark.parametrize(
    ("structure", "X", "y", "good", "bad"),
    [
        (Multiclass(3), X, Y, [2], [[3], [-1]]),
        (Bags(), STACKED, [1, -1], [2], [[1], [4], [-1]]),
        (LatentMulticlass(2), STACKED, [[0, 1], [1, 0]], [1, 2], [[2, 0], [0, 3], [0, -1]]),
        (NdcgRanking(2), STACKED, [0, 1, 2, 0, 1], [2, 0, 1], [[0, 0, 1], [0, 1, 3], [-1, 0, 1]]),
        (PairwiseRanking(), STACKED, [0, 1, 2, 0, 1], [-1, 1, 0, 1],
         [[-1, 1, 0, 0], [3, -3, 0, 3], [-1, 1, 1, 1], [0, 0, 0, 4]]),
    ],
)  # fmt: skip
def test_structures_know_their_labels(structure, X, y, good, bad):
    blocks = structure.encode(X, np.asarray(y))
    for label, valid in [(good, True), *((label, False) for label in bad)]:
        found = structure.valid_labels(blocks, np.zeros(1, int), np.array(label, dtype=np.int32))
        assert found.tolist() == [valid], label


class Many(Multiclass):
    @property
    def all_labels(self):
        return np.indices((8, 8, 8), dtype=np.int32).reshape(3, -1).T


def test_labels_are_looked_up_in_little_memory():
    labels = np.random.default_rng(0).integers(8, size=(20_000, 3), dtype=np.int32)
    labels[::7, 1] = 8
    blocks = types.SimpleNamespace(offsets=np.array([0, 3]), n_labels=0)
    tracemalloc.start()
    try:
        found = Many(2).valid_labels(blocks, np.zeros(len(labels), int), labels.ravel())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.tolist() == (labels[:, 1] < 8).tolist()
    assert peak < 10 * labels.nbytes


@pytest.mark.parametrize(("dtype", "limit"), [("f4", 1e15), ("f8", 1e100)])
def test_numbers_in_files_are_as_large_as_those_in_memory(dtype, limit):
    fits, beyond = (np.array([[1.0, -factor * limit]], dtype=dtype) for factor in (0.9, 1.1))
    stored.check_size("X", fits)
    as_matrix(fits)
    for check in (lambda: stored.check_size("X", beyond), lambda: as_matrix(beyond)):
        with pytest.raises(InvalidData, match=f"X .*{limit:g}".replace("+", r"\+")):
            check()


def test_stored_arrays():
    good = {"a": np.zeros((2, 3))}
    stored.check(good, {"a": stored.Stored("f4 f8", (2, None), 0.0)})
    for form in (
        stored.Stored("i8", (2, 3)), stored.Stored("f8", (2,)), stored.Stored("f8", (3, None)),
        stored.Stored("f8", (2, 3), low=1.0),
    ):  # fmt: skip
        with pytest.raises(InvalidData, match="a has"):
            stored.check(good, {"a": form})
    with pytest.raises(InvalidData, match="missing"):
        stored.check({}, {"a": stored.Stored("f8", (2, 3))})


# Kills


@posix
def test_what_a_killed_write_left_is_removed_by_the_next(tmp_path):
    path, other = tmp_path / "w", tmp_path / f".v.{'0' * 16}.tmp"
    (tmp_path / f".w.{'0' * 16}.tmp").write_bytes(b"half")
    (tmp_path / f".w.{'1' * 16}.tmp").mkdir()
    other.write_bytes(b"of another file")
    files.write(path, "model", {}, {})
    assert sorted(tmp_path.iterdir()) == [other, path]


@posix
def test_what_a_live_process_writes_is_left_alone(tmp_path):
    path = tmp_path / "w"
    with files.temporary_for(path, Path.mkdir) as theirs:
        files.write(path, "model", {}, {})
        assert sorted(tmp_path.iterdir()) == sorted([theirs, path])
    files.write(path, "model", {}, {})
    assert list(tmp_path.iterdir()) == [path]


@posix
def test_a_killed_process_leaves_no_lock(tmp_path):
    path, child = tmp_path / "w", os.fork()
    if child == 0:
        with files.temporary_for(path, Path.mkdir):
            time.sleep(60)
        os._exit(0)
    while not list(tmp_path.iterdir()):
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(list(tmp_path.iterdir())) == 1
    files.write(path, "model", {}, {})
    assert list(tmp_path.iterdir()) == [path]


def test_temporaries_of_failed_writes_are_removed():
    with tempfile.TemporaryDirectory() as name:
        with pytest.raises(ZeroDivisionError), files.temporary_for(Path(name) / "w", Path.mkdir):
            raise ZeroDivisionError
        assert os.listdir(name) == []
