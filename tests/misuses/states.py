"""Objects that change, or are used twice at once, while a fit runs."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

import taut
from misuses.changes import changed
from misuses.judge import Verdict
from misuses.tasks import Control, Task, chosen, draw
from taut.structures import Scalar


def run(rng: np.random.Generator, few: bool, control: Control) -> Verdict:
    """One of the ways below."""
    ways = [callback_mutates, partial_fit, threads, problem_mutates, shared_start]
    return chosen(rng, ways if few else [*ways, tampered_start, fork])(rng, few, control)


def callback_mutates(rng: np.random.Generator, few: bool, control: Control) -> Verdict:
    """A callback changes the arrays of the user during the fit."""
    task = draw(rng, few, "memory")
    before, at = task.copy(), int(rng.integers(1, 4))
    places = ["X", "y", "sample_weight", "structure", "prior_mean", "cost", "w"]
    what = chosen(rng, places)
    control.note, control.expected = f"callback changes {what}: {task}", False

    def meddle(record: Any) -> None:
        if record.iteration != at:
            return
        i = int(rng.integers(task.n_blocks))
        if what == "X":
            task.X[i][...] = 3.0 * task.X[i] + 0.1
        elif what == "y":
            if task.kind == "chain":
                task.y[i][...] = 0
            elif task.kind == "regression":
                task.y[i] += 1.0
            else:
                task.y[i] = type(task.y[i])((task.y[i] + 1) % task.n_labels)
        elif what == "sample_weight" and task.sample_weight is not None:
            task.sample_weight[i] *= 5.0
        elif what == "structure" and task.structure is not None:
            task.structure.factor *= 2.0
        elif what in ("prior_mean", "cost") and task.settings.get(what) is not None:
            task.settings[what] += 0.5

    model = task.model(callbacks=[meddle])
    task.fit(model)
    return task.verdict(model, control.note, before)


def partial_fit(rng: np.random.Generator, few: bool, control: Control) -> Verdict:
    """Parts one after the other, the second with other classes or columns."""
    task = draw(rng, few, "stream").copy(solver="online_cache", margin=None)
    model = task.model()
    control.note = f"partial_fit: {task}"
    half = task.take(np.arange(task.n_blocks // 2 + 1))
    control.expected = half.sample_weight is None or bool(half.sample_weight.any())
    classes = None if task.kind in ("table", "regression") else np.arange(task.n_labels)
    model.partial_fit(half.X, half.y, classes=classes, sample_weight=half.sample_weight)
    assert not model.certificate_.exact
    control.expected = False
    what = chosen(rng, ["nothing", "classes", "columns", "C", "fit"])
    control.note = f"partial_fit, then {what}: {task}"
    if what == "columns" and task.kind != "table":
        other = task.copy(X=[np.repeat(x, 2, axis=-1) for x in task.X])
        X = other.X if task.kind == "chain" else np.array(other.X)
        model.partial_fit(X, task.y)
        return Verdict("FALSE", f"{control.note}: other columns were taken")
    if what == "classes" and task.kind in ("binary", "multiclass"):
        model.partial_fit(task.X, np.asarray(task.y) + task.n_labels)
        return Verdict("FALSE", f"{control.note}: other classes were taken")
    if what == "C":
        model.set_params(C=7.0)
    if what == "fit":
        control.expected = True
        task.copy(storage="stream").fit(model)
        return task.verdict(model, control.note)
    model.partial_fit(task.X, task.y, sample_weight=task.sample_weight)
    return task.verdict(model, control.note)


def threads(rng: np.random.Generator, few: bool, control: Control) -> Verdict:
    """Two fits of one estimator at the same time, of two sets of data."""
    task = draw(rng, few, "memory")
    other = task.take(rng.permutation(task.n_blocks))
    for x in other.X:
        x *= 2.0
    warm = bool(rng.random() < 0.5)
    control.note, control.expected = f"two threads, warm_start={warm}: {task}", False
    model = task.model(warm_start=warm)
    errors: list[BaseException] = []

    def fit(which: Task) -> None:
        try:
            for _ in range(3):
                which.fit(model)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=fit, args=(which,)) for which in (task, other)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    for error in errors:
        if isinstance(error, taut.errors.TautError):
            raise error
    if not hasattr(model, "certificate_"):
        return Verdict("refused", f"{control.note}: no certificate is left")
    return task.verdict(model, control.note, other)


def problem_mutates(rng: np.random.Generator, few: bool, control: Control) -> Verdict:
    """A `Problem` whose arrays change before or between solves."""
    task = draw(rng, True, "memory")
    while (
        task.kind != "binary"
        or any(key.startswith("prior") for key in task.settings)
        or (task.settings.get("nonneg"))
    ):
        task = draw(rng, True, "memory")
    task.settings["fit_intercept"], task.margin = False, None
    signs = 2.0 * task.y - 1.0
    C = task.settings["C"]
    before = task.copy()
    when = chosen(rng, ["before", "between", "never", "other C", "C assigned"])
    control.note, control.expected = f"Problem changes {when}: {task}", when in ("never", "other C")
    problem = taut.Problem(Scalar(), task.X, signs, C=C, sample_weight=task.sample_weight)
    options = {"tol": task.tol, "random_state": 0}
    if when == "before":
        task.X[0] *= 3.0
    result = taut.solve(problem, **options)
    if when == "between":
        task.X[0] *= 3.0
    if when == "C assigned":
        problem.C = task.settings["C"] = 3.0 * C
    if when == "other C":
        problem = problem.with_factor(3.0 * C)
        task.settings["C"] = 3.0 * C
    result = taut.solve(problem, start=result.state, **options)
    fitted = task.model()
    fitted.certificate_, fitted.history_ = result.certificate, result.history
    fitted.coef_ = result.w[None]
    return task.verdict(
        fitted, control.note, *([before] if when in ("before", "C assigned") else [])
    )


def tampered_start(rng: np.random.Generator, few: bool, control: Control) -> Verdict:
    """A start whose arrays were edited, or mixed from two solves."""
    task = draw(rng, few, "memory")
    model = task.model(warm_start=True)
    control.note = str(task)
    task.fit(model)
    state = model._state
    names = [name for name, value in state.items() if value.dtype.kind == "f" and value.size]
    if not names:
        return Verdict("true", "nothing to edit")
    name = chosen(rng, names)
    how = chosen(rng, ["scaled", "negative", "nan", "permuted", "shorter"])
    control.note, control.expected = f"start[{name}] {how}: {task}", False
    value = state[name].copy()
    if how == "scaled":
        value *= 3.0
    elif how == "negative":
        value -= 1.0
    elif how == "nan":
        value.reshape(-1)[0] = np.nan
    elif how == "permuted":
        value = value[::-1].copy()
    else:
        value = value[:-1].copy()
    model._state = dict(state) | {name: value}
    task.fit(model)
    return task.verdict(model, control.note)


def shared_start(rng: np.random.Generator, few: bool, control: Control) -> Verdict:
    """Models that were copied start from one state, with other data."""
    import copy

    task = draw(rng, few, "memory")
    control.note = f"copied model: {task}"
    model = task.model(warm_start=True)
    task.fit(model)
    other = copy.copy(model)
    name, after = changed(task, rng, few)
    control.note, control.expected = f"copied model, {name}: {task}", name in ("nothing", "tol")
    other.set_params(**after.model(warm_start=True).get_params(deep=False))
    after.fit(other)
    return after.verdict(other, control.note)


def fork(rng: np.random.Generator, few: bool, control: Control) -> Verdict:
    """A callback forks, and the child fits with two threads."""
    task = draw(rng, few, "memory")
    control.note = f"fork: {task}"
    ends: list[int] = []

    def split(record: Any) -> None:
        if ends:
            return
        child = os.fork()
        if child == 0:
            code = 1
            try:
                inner = task.copy()
                fitted = inner.fit(inner.model(n_jobs=2))
                code = 0 if inner.verdict(fitted, "").kind == "true" else 2
            finally:
                os._exit(code)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    model = task.model(callbacks=[split])
    task.fit(model)
    if ends and ends[0] != 0:
        kinds = {1: "foreign", 2: "FALSE"}
        return Verdict(kinds.get(ends[0], "crash"), f"{control.note}: the child ended with {ends}")
    return task.verdict(model, control.note)
