"""Fits with `warm_start=True` after one thing has changed."""

from __future__ import annotations

import numpy as np

from misuses.changes import HARMLESS, changed
from misuses.judge import Verdict
from misuses.tasks import Control, Task, draw


def run(rng: np.random.Generator, few: bool, control: Control) -> Verdict:
    """Fit, change, fit again."""
    if not few and rng.random() < 0.005:
        return _large(rng, control)
    task = draw(rng, few)
    control.note = f"{task}"
    model = task.model(warm_start=True)
    task.fit(model)
    names = []
    for _ in range(2 if rng.random() < 0.2 else 1):
        before = str(task)
        name, task = changed(task, rng, few)
        names.append(name)
        control.note, control.expected = f"{', '.join(names)}: {before}", set(names) <= {*HARMLESS}
        model.set_params(**task.model(warm_start=True).get_params(deep=False))
        task.fit(model)
    return task.verdict(model, control.note)


def _large(rng: np.random.Generator, control: Control) -> Verdict:
    """One byte changes deep inside an array of more than 16 MB, which has few informative rows."""
    d = 400_000
    X = np.zeros((12, d))
    columns = rng.integers(d, size=5)
    X[:, columns] = rng.normal(size=(12, 5))
    y = np.arange(12) % 2
    settings = {"C": 1.0, "tol": 1e-3, "fit_intercept": False}
    task = Task("binary", X, y, 2, "dual_coordinate", settings=settings)
    model = task.model(warm_start=True)
    control.note = f"large: {task}"
    task.fit(model)
    control.expected = False
    row, column = int(rng.integers(12)), columns[int(rng.integers(5))]
    X.view(np.uint8).reshape(12, d, 8)[row, column, 7] ^= 0x80  # the sign
    task.fit(model)
    used = np.unique(columns)
    assert not np.delete(model.coef_[0], used).any()
    model.coef_ = model.coef_[:, used]
    return task.copy(X=X[:, used].copy()).verdict(model, control.note)
