"""Arrays of all kinds: what they hold must be what is certified, or they must be refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from misuses.judge import Verdict
from misuses.tasks import Control, Task, chosen, draw


class Given(Task):
    """A task that hands X over in a container of some kind."""

    container: Any = None

    def given(self) -> Any:
        return self.container


def _read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def _backwards(X):
    return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]


def _wide_stride(X):
    room = np.full((2 * X.shape[0], 3 * X.shape[1]), np.nan)
    room[::2, ::3] = X
    return room[::2, ::3]


def _duplicates(X):
    """CSR whose entries are there twice, half each."""
    n, d = X.shape
    indices = np.tile(np.repeat(np.arange(d), 2), n)
    return sp.csr_array(
        (np.repeat(X.ravel(), 2) / 2, indices, 2 * d * np.arange(n + 1)), shape=X.shape
    )


def _unsorted(X):
    n, d = X.shape
    indices = np.tile(np.arange(d)[::-1], n)
    return sp.csr_array((X[:, ::-1].ravel(), indices, d * np.arange(n + 1)), shape=X.shape)


def _explicit_zeros(X):
    n, d = X.shape
    return sp.csr_array((X.ravel(), np.tile(np.arange(d), n), d * np.arange(n + 1)), shape=X.shape)


def _long_indices(X):
    csr = sp.csr_array(X)
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    return csr


def _broadcast(X):
    return np.broadcast_to(X[:1], X.shape)


CONTAINERS = {
    "fortran": np.asfortranarray,
    "read_only": _read_only,
    "backwards": _backwards,
    "wide_stride": _wide_stride,
    "big_endian": lambda X: X.astype(">f8"),
    "list": lambda X: X.tolist(),
    "object": lambda X: X.astype(object),
    "half": lambda X: X.astype(np.float16),
    "long_double": lambda X: X.astype(np.longdouble),
    "int8": lambda X: np.round(3 * X).astype(np.int8),
    "uint8": lambda X: np.abs(np.round(3 * X)).astype(np.uint8),
    "int64": lambda X: np.round(1e3 * X).astype(np.int64),
    "bool": lambda X: X > 0,
    "matrix": np.matrix,
    "broadcast": _broadcast,
    "csr": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
    "csc": sp.csc_array,
    "coo": sp.coo_array,
    "lil": sp.lil_array,
    "bsr": sp.bsr_array,
    "dia": sp.dia_array,
    "csr_int": lambda X: sp.csr_array(np.round(3 * X).astype(np.int32)),
    "duplicates": _duplicates,
    "unsorted": _unsorted,
    "explicit_zeros": _explicit_zeros,
    "long_indices": _long_indices,
}

TARGETS = {
    "array": np.asarray,
    "list": lambda y: y.tolist(),
    "int8": lambda y: y.astype(np.int8),
    "uint64": lambda y: y.astype(np.uint64),
    "float": lambda y: y.astype(float),
    "text": lambda y: np.array([f"{k:02d}" for k in y]),
    "object": lambda y: y.astype(object),
    "backwards": lambda y: y[::-1].copy()[::-1],
    "column": lambda y: y[:, None],
}

WEIGHTS = {
    "array": np.asarray,
    "list": lambda v: v.tolist(),
    "int": lambda v: np.ceil(v).astype(int),
    "single": lambda v: v.astype(np.float32),
    "bool": lambda v: v > 1.0,
    "big_endian": lambda v: v.astype(">f8"),
}


def dense(container: Any) -> np.ndarray:
    """The numbers of a container, by means of others than the library's."""
    if sp.issparse(container):
        container = container.toarray()
    return np.array(np.asarray(container).tolist(), dtype=float)


def run(rng: np.random.Generator, few: bool, control: Control) -> Verdict:
    """Fit rows in some container, twice with a warm start at times."""
    task = draw(rng, few, "memory")
    while task.kind in ("chain", "table") or (
        task.solver not in ("dual_coordinate", "dual_coordinate-gap")
    ):
        task = draw(rng, few, "memory")
    X = np.asarray(task.X, dtype=float)
    X = X * (rng.random(X.shape) < chosen(rng, [0.2, 0.7, 1.0]))
    # Containers that compile anew are left to the larger draws.
    names = ["fortran", "read_only", "backwards", "wide_stride", "big_endian", "list", "object"]
    name = chosen(rng, names if few else CONTAINERS)
    container = CONTAINERS[name](X)
    given = Given(**{f: getattr(task, f) for f in task.__dataclass_fields__})
    given.X, given.container = dense(container), container
    target = chosen(rng, TARGETS) if task.kind != "regression" else "array"
    codes = np.asarray(task.y)
    weight_kind = chosen(rng, WEIGHTS)
    weight = None
    if task.sample_weight is not None:
        weight = WEIGHTS[weight_kind](task.sample_weight)
        given.sample_weight = np.array(np.asarray(weight).tolist(), dtype=float)
    control.note = f"{name}, y {target}, weights {weight_kind}: {task}"
    odd = ("matrix", "bool", "long_double", "half", "duplicates", "unsorted")
    control.expected = name not in odd and target != "column"
    control.expected &= weight is None or bool(np.any(weight))
    warm = bool(rng.random() < 0.5)
    model = task.model(warm_start=warm)
    extra = {} if task.margin is None else {"margin": task.margin}
    for _ in range(1 + warm):
        model.fit(container, TARGETS[target](codes), sample_weight=weight, **extra)
    return given.verdict(model, control.note)
