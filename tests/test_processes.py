"""Forked processes, and Ctrl-C as a terminal sends it: a signal to a process at work."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import taut
from taut.data.source import read_ahead
from taut.errors import NotConverged

TIMEOUT = 120.0  # seconds, after which a process that should have ended hangs

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 5))
Y = (X[:, 0] + 0.5 * rng.normal(size=400) > 0).astype(int)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")


# Forks


def in_child(work):
    """What a function returns in a forked process; a process that hangs fails the test."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        process = context.Process(target=lambda: sender.send(work()))
        process.start()
    try:
        assert receiver.poll(TIMEOUT), "the forked process hangs"
        return receiver.recv()
    finally:
        process.kill()
        process.join()


def test_a_fork_of_a_process_that_used_threads_predicts_and_fits():
    model = taut.BinarySVM(n_jobs=2, random_state=0).fit(X, Y)
    expected = model.predict(X)
    assert in_child(lambda: (model.predict(X) == expected).all())
    assert in_child(lambda: taut.BinarySVM(n_jobs=2, random_state=1).fit(X, Y).score(X, Y)) > 0.8
    assert (model.predict(X) == expected).all()


def test_workers_of_a_preloaded_server_predict(tmp_path):
    """The parent loads a model once and predicts with threads; then it forks its workers."""
    rows, labels = X.reshape(80, 5, 5), Y.reshape(80, 5)
    taut.ChainSVM(tol=0.1, random_state=0).fit(list(rows), list(labels)).save(tmp_path / "model")
    model = taut.load(tmp_path / "model").set_params(n_jobs=2)
    expected = np.concatenate(model.predict(list(rows)))
    for _ in range(3):
        found = in_child(lambda: np.concatenate(model.predict(list(rows))))
        assert (found == expected).all()


def test_a_reading_is_not_gone_on_with_in_a_fork():
    reading = read_ahead(iter(range(100)))
    assert next(reading) == 0

    def go_on():
        with pytest.raises(RuntimeError, match="read anew in the child"):
            next(reading)
        return list(read_ahead(range(3)))

    assert in_child(go_on) == [0, 1, 2]
    assert next(reading) == 1
    reading.close()


def test_a_reading_is_left_alone_in_a_fork_that_drops_it():
    reading = read_ahead(iter(range(100)))
    assert next(reading) == 0
    assert in_child(lambda: reading.close() or True)
    reading.close()


def test_a_fork_in_the_midst_of_a_fit_ends_by_one_signal():
    handlers = []

    def fork(record):
        if record.iteration == 2:
            handlers.append(in_child(lambda: signal.getsignal(signal.SIGINT).__name__))

    before = signal.getsignal(signal.SIGINT)
    with pytest.warns(NotConverged):
        taut.BinarySVM(callbacks=[fork], tol=0.0, max_iter=3, random_state=0).fit(X, Y)
    assert handlers == [before.__name__]


# Ctrl-C

SCRIPT = """
import time, warnings
import numpy as np
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
import taut

rng = np.random.default_rng(0)
X, y = rng.normal(size=(400, 5)), rng.integers(2, size=400)

def slow(record):
    with open({ready!r}, "a") as file:
        file.write("x")
    time.sleep(0.05)

def begun():
    return taut.BinarySVM(tol=0.0, max_iter=10**6, callbacks=[slow], random_state=0)

warnings.simplefilter("always")
for work in {works!r}:
    open({ready!r}, "w").close()
    print("begins", flush=True)
    endless = begun()
    try:
        exec(work)
    except KeyboardInterrupt:
        print("raised", flush=True)
"""
WORK = {
    "fit": ("print(endless.fit(X, y).certificate_.status.name, flush=True)", "INTERRUPTED"),
    "pipeline": (
        "fitted = make_pipeline(StandardScaler(), endless).fit(X, y); "
        "print(fitted[-1].certificate_.status.name, flush=True)",
        "INTERRUPTED",
    ),
    "cross_val_score": ("cross_val_score(endless, X, y, cv=3)", "raised"),
    "GridSearchCV": ("GridSearchCV(endless, {'C': [0.1, 1.0]}, cv=3).fit(X, y)", "raised"),
    "path": (
        "endless.set_params(max_iter=1000); "
        "path = taut.path(endless, X, y, 0.01, 10.0, gap=1e-9); "
        "print(path.message.split()[-1], flush=True)",
        "interrupted.",
    ),
    "path_cv": ("taut.path_cv(endless, X, y, 0.01, 10.0, gap=1e-9, cv=3)", "raised"),
}
IN_PROCESSES = {
    "GridSearchCV in processes": (
        "GridSearchCV(endless, {'C': [0.1, 1.0]}, cv=3, n_jobs=2).fit(X, y)",
        "raised",
    ),
}


@pytest.mark.parametrize("works", [WORK, IN_PROCESSES], ids=["in one process", "in processes"])
def test_one_signal_ends_it(works, tmp_path, environment):
    """One kind of work after the other, and each is ended by a signal of its own."""
    ready = tmp_path / "ready"
    code = SCRIPT.replace("{works!r}", repr([work for work, _expected in works.values()]))
    code = code.replace("{ready!r}", repr(str(ready)))
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    hangs = threading.Timer(TIMEOUT, process.kill)
    hangs.start()
    try:
        for name, (_work, expected) in works.items():
            assert process.stdout.readline() == "begins\n", name
            wait_for(ready, process)
            os.kill(process.pid, signal.SIGINT)
            assert process.stdout.readline() == f"{expected}\n", name
        out, err = process.communicate()
    finally:
        hangs.cancel()
        process.kill()
    assert not out
    expected = [expected for _work, expected in works.values()]
    assert err.count("NotConverged") == len(expected) - expected.count("raised"), err


def wait_for(ready, process):
    deadline = time.monotonic() + TIMEOUT
    while not ready.exists() or ready.stat().st_size < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def interrupt(record):
    signal.raise_signal(signal.SIGINT)


class Wrapped(taut.BinarySVM):
    """An estimator of a user, that calls ours."""

    def fit(self, X, y):
        return super().fit(X, y)


LOOPS = {
    "cross-validation": lambda model: cross_val_score(model, X, Y, cv=3),
    "of a pipeline": lambda model: cross_val_score(make_pipeline(StandardScaler(), model), X, Y),
    "bagging": lambda model: BaggingClassifier(model, 3).fit(X, Y),
    "calibration": lambda model: CalibratedClassifierCV(model, cv=3).fit(X, Y),
    "one against the rest": lambda model: OneVsRestClassifier(model).fit(X, np.arange(400) % 3),
}


@pytest.mark.parametrize("name", LOOPS)
def test_an_interrupt_in_a_loop_of_others_is_raised(name):
    model = Wrapped(callbacks=[interrupt], random_state=0)
    with pytest.raises(KeyboardInterrupt):
        LOOPS[name](model)


def test_an_interrupt_of_a_fit_that_has_converged_is_raised_in_a_loop():
    """The fit has converged, and the search must not go on with the next one."""

    def last(record):
        if record.exact:
            signal.raise_signal(signal.SIGINT)

    model = taut.BinarySVM(callbacks=[last], random_state=0)
    with pytest.raises(KeyboardInterrupt):
        cross_val_score(model, X, Y, cv=3)
    assert model.fit(X, Y).certificate_.status is taut.Status.CONVERGED
