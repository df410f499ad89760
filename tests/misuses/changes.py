"""One thing that changes between two fits, in place where users would do it in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from misuses.tasks import FROM_PARTS, IN_MEMORY, Task, chosen, random_cost

Change = Callable[[Task, np.random.Generator], Task | None]


def _block(task: Task, rng: np.random.Generator) -> np.ndarray:
    """The features of some block, in place."""
    return task.X[int(rng.integers(task.n_blocks))]


def x_value(task, rng):
    other = task.copy()
    row = _block(other, rng).reshape(-1)
    row[int(rng.integers(len(row)))] += chosen(rng, [1e-6, 0.3, -2.0])
    return other


def x_in_place(task, rng):
    row = _block(task, rng).reshape(-1)
    row[int(rng.integers(len(row)))] *= chosen(rng, [-1.0, 3.0, 1.0 + 1e-9])
    return task


def x_scaled_in_place(task, rng):
    for i in range(task.n_blocks):
        task.X[i][...] = 2.0 * task.X[i]
    return task


def y_value(task, rng):
    other = task.copy()
    i = int(rng.integers(task.n_blocks))
    if task.kind == "regression":
        other.y[i] += 0.5
    elif task.kind == "chain":
        other.y[i][0] = (other.y[i][0] + 1) % task.n_labels
    else:
        other.y[i] = type(other.y[i])((other.y[i] + 1) % task.n_labels)
    return other if _same_labels(task, other) else None


def y_exchanged(task, rng):
    """Two blocks exchange their targets."""
    other = task.copy()
    if task.kind == "chain":
        return None
    a, b = rng.permutation(task.n_blocks)[:2]
    other.y[a], other.y[b] = task.y[b], task.y[a]
    return other


def _same_labels(task: Task, other: Task) -> bool:
    """Whether as many labels occur: the reference has no others."""
    if task.kind in ("regression", "table"):
        return True
    flat = np.concatenate([np.atleast_1d(y) for y in other.y])
    return len(set(flat.tolist())) == task.n_labels


def row_order(task, rng):
    return task.take(rng.permutation(task.n_blocks))


def one_less(task, rng):
    other = task.take(np.arange(task.n_blocks - 1))
    other.cuts = tuple(c for c in task.cuts if c < other.n_blocks)
    return other if _same_labels(task, other) else None


def twice(task, rng):
    return task.take(np.append(np.arange(task.n_blocks), 0))


def sample_weight(task, rng):
    old = np.ones(task.n_blocks) if task.sample_weight is None else task.sample_weight
    return task.copy(sample_weight=old * rng.choice([0.0, 0.5, 1.0, 3.0], size=task.n_blocks))


def one_sample_weight(task, rng):
    old = np.ones(task.n_blocks) if task.sample_weight is None else task.sample_weight.copy()
    old[-1] *= chosen(rng, [0.0, 0.5, 10.0])
    return task.copy(sample_weight=old)


def factor(task, rng):
    new = task.settings["C"] * chosen(rng, [1e-3, 0.5, 1.0 + 1e-12, 50.0])
    return with_setting(task, "C", new)


def tol(task, rng):
    return with_setting(task, "tol", chosen(rng, [1e-1, 1e-4, 1e-8]))


def class_weight(task, rng):
    if task.kind not in ("binary", "multiclass"):
        return None
    weights = {k: float(w) for k, w in enumerate(rng.uniform(0.1, 3.0, size=task.n_labels))}
    return with_setting(task, "class_weight", weights)


def cost(task, rng):
    if task.kind == "multiclass":
        return with_setting(task, "cost", random_cost(rng, task.n_labels))
    if task.kind == "table":
        other = task.copy()
        other.structure.cost = random_cost(rng, task.n_labels)
        return other
    return None


def cost_in_place(task, rng):
    if task.kind == "table":
        task.structure.cost[0, 1] += 1.0
    elif task.kind == "multiclass" and "cost" in task.settings:
        task.settings["cost"][0, 1] += 1.0
    else:
        return None
    return task


def rescaling(task, rng):
    if task.kind != "multiclass" or "cost" not in task.settings or task.solver != "dual_coordinate":
        return None
    return with_setting(task, "rescaling", "slack")


def loss(task, rng):
    if task.kind != "chain":
        return None
    new = {"hamming": "mean_hamming", "mean_hamming": "hamming"}
    return with_setting(task, "loss", new[task.settings["loss"]])


def boundary(task, rng):
    return with_setting(task, "boundary", True) if task.kind == "chain" else None


def epsilon(task, rng):
    if task.kind != "regression":
        return None
    return with_setting(task, "epsilon", task.settings["epsilon"] + chosen(rng, [0.1, 1e-9]))


def intercept_scaling(task, rng):
    if not task.bias:
        return None
    return with_setting(task, "intercept_scaling", 2.0 * task.bias)


def fit_intercept(task, rng):
    if task.kind in ("chain", "table"):
        return None
    return with_setting(task, "fit_intercept", not task.settings["fit_intercept"])


def prior_mean(task, rng):
    if task.kind != "binary" or task.storage != "memory" or task.dtype != np.float64:
        return None
    return with_setting(task, "prior_mean", rng.normal(size=(1, task.X.shape[1])))


def prior_mean_in_place(task, rng):
    if task.settings.get("prior_mean") is None:
        return None
    task.settings["prior_mean"] += 0.5
    return task


def prior_precision(task, rng):
    if task.kind != "binary" or task.storage != "memory" or task.dtype != np.float64:
        return None
    if task.solver != "dual_coordinate":
        return None
    return with_setting(task, "prior_precision", rng.uniform(0.2, 5.0, size=(1, task.X.shape[1])))


def nonneg(task, rng):
    if task.kind != "binary" or task.storage != "memory" or task.dtype != np.float64:
        return None
    if task.solver != "dual_coordinate":
        return None
    return with_setting(task, "nonneg", not task.settings.get("nonneg", False))


def solver(task, rng):
    choices = IN_MEMORY if task.storage == "memory" else FROM_PARTS
    if task.dtype != np.float64 or len(choices[task.kind]) < 2:
        return None
    return task.copy(solver=chosen(rng, [s for s in choices[task.kind] if s != task.solver]))


def margin(task, rng):
    if task.kind != "binary":
        return None
    old = np.ones(task.n_blocks) if task.margin is None else task.margin
    return task.copy(margin=old + rng.choice([0.0, 0.5], size=task.n_blocks))


def one_margin(task, rng):
    if task.kind != "binary":
        return None
    new = np.ones(task.n_blocks) if task.margin is None else task.margin.copy()
    new[-1] += 0.7
    return task.copy(margin=new)


def columns(task, rng):
    """Two columns change places."""
    if task.kind == "table" or task.X[0].shape[-1] < 2:
        return None
    other = task.copy()
    for x in other.X:
        x[..., [0, 1]] = x[..., [1, 0]]
    return other


def structure_scale(task, rng):
    if task.kind != "table":
        return None
    task.structure.scale *= 2.0
    return task


def structure_factor(task, rng):
    if task.kind != "table":
        return None
    task.structure.factor *= chosen(rng, [0.25, 3.0])
    return task


def single_precision(task, rng):
    if task.kind not in ("binary", "multiclass") or task.solver != "dual_coordinate":
        return None
    if task.storage != "memory" or len(set(task.settings) & {"prior_precision", "nonneg"}):
        return None
    return task.copy(X=task.X.astype(np.float32))


def cuts(task, rng):
    if task.storage != "stream":
        return None
    middle = int(rng.integers(1, task.n_blocks))
    return task.copy(cuts=(middle,))


def storage(task, rng):
    """The same data from somewhere else."""
    if task.storage == "memory" or task.kind == "table":
        return None
    return task.copy(storage={"shards": "stream", "stream": "shards"}[task.storage])


def with_setting(task: Task, name: str, value: Any) -> Task:
    other = task.copy()
    other.settings[name] = value
    return other


def nothing(task, rng):
    return task


CHANGES: dict[str, Change] = {
    function.__name__: function
    for function in (
        x_value, x_in_place, x_scaled_in_place, y_value, y_exchanged, row_order, one_less, twice,
        sample_weight, one_sample_weight, factor, tol, class_weight, cost, cost_in_place, rescaling,
        loss, boundary, epsilon, intercept_scaling, fit_intercept, prior_mean, prior_mean_in_place,
        prior_precision, nonneg, solver, margin, one_margin, columns, structure_scale,
        structure_factor, single_precision, cuts, storage, nothing,
    )
}  # fmt: skip

#: Changes after which another fit must go on, or begin anew, without a complaint.
HARMLESS = ("nothing", "tol", "factor")


#: Changes that let more be compiled.
COSTLY = ("rescaling", "prior_precision", "nonneg", "solver", "single_precision", "storage")


def changed(task: Task, rng: np.random.Generator, few: bool) -> tuple[str, Task]:
    """The name of a random change that applies to the task, and the task after it."""
    if rng.random() < 0.1:
        return "nothing", task
    while True:
        name = chosen(rng, CHANGES)
        if not (few and name in COSTLY):
            other = CHANGES[name](task, rng)
            if other is not None:
                return name, other
