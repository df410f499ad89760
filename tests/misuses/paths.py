"""Models for every C of a range, while the data stay or change."""

from __future__ import annotations

from typing import Any

import numpy as np

import taut
from misuses.judge import Verdict, judged
from misuses.streams import WAYS
from misuses.tasks import Control, chosen, draw
from taut.data import Stream


def run(rng: np.random.Generator, few: bool, control: Control) -> Verdict:
    """Walk a path, and judge the model at some C of it."""
    task = draw(rng, few, str(rng.choice(["memory", "memory", "stream"])))
    while task.solver not in ("dual_coordinate", "online_cache", "one_slack"):
        task = draw(rng, few, task.storage)
    task.settings.pop("time_limit", None)
    lowest, highest = np.sort(10.0 ** rng.uniform(-2, 1, size=2))
    highest = float(highest * 1.5)
    gap = task.settings["tol"] = float(chosen(rng, [0.1, 0.01]))
    task.settings["C"] = 1.0
    way = chosen(rng, ["same", "X in place", "y in place", "weights in place", "readings"])
    control.note, control.expected = f"{way}: {task}", way == "same"
    before = other = task.copy()
    calls = readings = 0

    def meddle(record: Any) -> None:
        nonlocal calls
        calls += 1
        if calls != 3:
            return
        if way == "X in place":
            task.X[0][...] = task.X[0] + 0.5
        elif way == "y in place" and task.kind != "chain":
            task.y[0], task.y[-1] = task.y[-1], task.y[0]
        elif way == "weights in place" and task.sample_weight is not None:
            task.sample_weight *= 3.0

    model = task.model(callbacks=[meddle])
    if way == "readings" and task.storage == "stream":
        other = WAYS[chosen(rng, WAYS)](task, rng)
    change = int(rng.integers(1, 8))

    def parts() -> Any:
        nonlocal readings
        readings += 1
        return iter((other if readings > change else task).parts())

    if task.storage == "memory":
        extra = {} if task.margin is None else {"margin": task.margin}
        path = taut.path(
            model, task.X, task.y, float(lowest), highest, gap=gap,
            sample_weight=task.sample_weight, **extra,
        )  # fmt: skip
    else:
        source = Stream(parts, kind=task.parts_of)
        path = taut.path(model, source, None, float(lowest), highest, gap=gap)
    # Beyond what was walked nothing is claimed.
    proved = float(rng.uniform(path.points[0].C, path.points[-1].C))
    at = path.at(proved)
    at.history_ = []  # that of a solve at another C
    versions = [
        version.copy(settings=version.settings | {"C": proved, "tol": max(gap, path.gap)})
        for version in (task, before, other)
    ]
    objectives = [version.objective() for version in versions]
    for objective in objectives:
        objective.errors = np.inf  # a mixture of two models costs at most the mixture of costs
    note = f"{control.note} at C={proved:.4g}"
    return judged(at, task.weights(at), objectives, versions[0].tol, note)
