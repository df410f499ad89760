"""Bags with a latent instance: F of the returned weights, and the bounds of the last round."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import taut
from misuses.judge import ACCURACY, Objective, Verdict, judged
from misuses.tasks import Control, chosen
from reference import bags_blocks


def run(rng: np.random.Generator, few: bool, control: Control) -> Verdict:
    """Fit bags, change one thing, and fit again from the start or from the file of the first."""
    n, d = int(rng.integers(4, 8)), int(rng.integers(1, 4))
    y = np.arange(n) % 2
    X = [rng.normal(size=(int(rng.integers(1, 4)), d)) for _ in range(n)]
    weight = rng.uniform(0.2, 2.0, size=n)
    C = float(10.0 ** rng.uniform(-2, 1.5))
    settings: dict[str, Any] = {"tol": 1e-3, "round_tol": 1e-6, "random_state": 0}
    settings |= {"fit_intercept": False, "max_iter": 300}
    way = chosen(rng, ["warm_start", "checkpoint", "callback"])
    what = chosen(rng, ["nothing", "X", "y", "order", "C", "weight", "scaled", "start"])
    control.note = f"{way} {what}: n={n} d={d} C={C:.3g}"
    before = [x.copy() for x in X], y.copy(), weight.copy()

    def change() -> None:
        if what == "X":
            X[int(rng.integers(n))][...] += 0.7
        elif what == "y":
            y[[0, 1]] = y[[1, 0]]
        elif what == "order":
            X.reverse()
        elif what == "weight":
            weight[0] *= 4.0
        elif what == "scaled":
            for x in X:
                x *= 2.0

    with tempfile.TemporaryDirectory() as folder:
        if way == "checkpoint":
            settings["checkpoint"] = taut.Checkpoint(Path(folder) / "run.taut", seconds=0.0)
        model = taut.LatentSVM(C=C, warm_start=way == "warm_start", **settings)
        if way == "callback":
            control.expected = what in ("nothing", "C", "start")
            count = itertools.count()
            model.set_params(callbacks=[lambda record: change() if next(count) == 1 else None])
            model.fit(X, y, sample_weight=weight)
        else:
            model.set_params(max_rounds=int(rng.integers(1, 4)))
            model.fit(X, y, sample_weight=weight)
            control.expected = what in ("nothing", *(("C",) if way == "warm_start" else ()))
            change()
            model.set_params(max_rounds=20)
            if what == "start":
                model.set_params(start="first")
            if what == "C":
                C *= 3.0
                model.set_params(C=C)
            model.fit(X, y, sample_weight=weight)
    versions = [(X, y, weight)] + [before] * (way == "callback")
    verdicts = [_verdict(model, *version, C, control.note) for version in versions]
    return next((verdict for verdict in verdicts if verdict.kind != "FALSE"), verdicts[0])


def _verdict(
    model: Any, X: list, y: np.ndarray, weight: np.ndarray, C: float, note: str
) -> Verdict:
    """The judgement for some data."""
    w = model.coef_[0]
    best = [int(np.argmax(x @ w)) if label else -1 for x, label in zip(X, y)]
    value, size = Objective(*bags_blocks(X, best), C * weight).value(w)
    slack = ACCURACY * (value + size)
    objective = float(model.rounds_["objective"][-1])
    if not abs(objective - value) <= slack:
        return Verdict("FALSE", f"{note}: F = {objective:.12g}, it is {value:.12g}")
    falls = np.diff(model.rounds_["objective"]) <= slack
    if not falls.all():
        return Verdict("FALSE", f"{note}: F rises, {model.rounds_['objective']}")
    # The last round had latent values that are not told: any that give its primal will do.
    means = [np.vstack([x, x.mean(axis=0)]) for x in X]
    choices = [range(len(x)) if label else [-1] for x, label in zip(X, y)]
    first = [len(x) if label else -1 for x, label in zip(X, y)]
    matching = []
    for latent in [*itertools.product(*choices), first]:
        rows = [m if z == len(x) else x for m, x, z in zip(means, X, latent)]
        problem = Objective(*bags_blocks(rows, latent), C * weight)
        if abs(problem.value(w)[0] - model.certificate_.primal) <= slack:
            matching.append(problem)
    if not matching:
        return Verdict("FALSE", f"{note}: primal {model.certificate_.primal:.12g} of no round")
    model.history_ = []  # of all rounds
    return judged(model, w, matching, model.tol, note)
