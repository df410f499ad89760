"""Small random problems: what an estimator is given, and the objective that this means."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import taut
from misuses.judge import Objective, Verdict, judged
from misuses.own import Table
from reference import binary_blocks, chain_blocks, multiclass_blocks, regression_blocks
from taut import solvers
from taut.data import Stream, write_shards


class Control:
    """What is known about a case while it runs: a note, and whether a refusal is a fault."""

    def __init__(self) -> None:
        self.note = ""
        self.expected = True


#: Settings that end soon; which structures they are tried with, so that little is compiled.
SOLVERS = {
    "dual_coordinate": lambda: solvers.DualCoordinate(),
    "dual_coordinate-gap": lambda: solvers.DualCoordinate(order="gap"),
    "online_cache": lambda: solvers.OnlineCache(memory="10MB"),
    "multi_sample": lambda: solvers.MultiSample(),
    "frank_wolfe": lambda: solvers.FrankWolfe("pairwise"),
    "one_slack": lambda: solvers.OneSlack(),
    "n_slack": lambda: solvers.NSlack(),
    "subgradient": lambda: solvers.Subgradient(),
    "hard_negatives": lambda: solvers.HardNegatives(),
    "partial_linearization": lambda: solvers.PartialLinearization(),
    "passive_aggressive": lambda: solvers.PassiveAggressive(),
    "perceptron": lambda: solvers.Perceptron(),
}
ANY = tuple(name for name in SOLVERS if name != "partial_linearization")
IN_MEMORY = {
    "binary": ("dual_coordinate", "online_cache", "one_slack"),
    "multiclass": tuple(SOLVERS),
    "regression": ("dual_coordinate", "online_cache"),
    "chain": ("dual_coordinate", "online_cache", "multi_sample"),
    "table": ANY,
}
FROM_PARTS = {
    "binary": ("online_cache",),
    "multiclass": ("online_cache", "multi_sample", "one_slack", "subgradient"),
    "regression": ("online_cache",),
    "chain": ("online_cache",),
    "table": ("online_cache", "multi_sample", "one_slack"),
}
FEW = {"binary": ("dual_coordinate", "online_cache"), "table": ("dual_coordinate", "one_slack")}


@dataclass
class Task:
    """Data and parameters of an estimator.

    `X` is a matrix, or a list of matrices for chains; `y` are codes, signs or numbers; `storage`
    is where the estimator finds them.
    """

    kind: str
    X: Any
    y: Any
    n_labels: int
    solver: str
    storage: str = "memory"
    cuts: tuple[int, ...] = ()  # of parts
    sample_weight: np.ndarray | None = None
    margin: np.ndarray | None = None
    settings: dict[str, Any] = field(default_factory=dict)  # parameters of the estimator
    structure: Any = None

    @property
    def n_blocks(self) -> int:
        return len(self.y)

    @property
    def tol(self) -> float:
        return self.settings["tol"]

    def copy(self, **changes: Any) -> Task:
        """An independent copy; the structure is copied too."""
        return dataclasses.replace(copy.deepcopy(self), **changes)

    def __str__(self) -> str:
        parts = [self.kind, self.solver, self.storage, str(self.dtype), f"n={self.n_blocks}"]
        parts += [f"{k}={v}" for k, v in self.settings.items() if np.ndim(v) == 0]
        return " ".join(parts)

    @property
    def dtype(self) -> np.dtype:
        return np.asarray(self.X[0]).dtype

    # The estimator

    def model(self, **others: Any) -> Any:
        """The estimator, not fitted."""
        settings = dict(
            max_iter=400, random_state=0, solver=SOLVERS[self.solver](), **self.settings
        )
        if self.kind == "table":
            return taut.StructuredSVM(self.structure, **settings | others)
        kinds = {
            "binary": taut.BinarySVM,
            "multiclass": taut.MulticlassSVM,
            "regression": taut.RegressionSVM,
            "chain": taut.ChainSVM,
        }
        return kinds[self.kind](**settings | others)

    def fit(self, model: Any) -> Any:
        """Fit the estimator with these data, from where they are."""
        if self.storage == "memory":
            extra = {} if self.margin is None else {"margin": self.margin}
            return model.fit(self.given(), self.y, sample_weight=self.sample_weight, **extra)
        if self.storage == "stream":
            return model.fit(Stream(lambda: iter(self.parts()), kind=self.parts_of))
        with tempfile.TemporaryDirectory() as folder:
            return model.fit(self.shards(Path(folder) / "shards"))

    def shards(self, path: Path, chunk_size: int = 100) -> Any:
        """The data as a folder."""
        return write_shards(
            path, self.X, self.y, sample_weight=self.sample_weight, margin=self.margin,
            chunk_size=chunk_size,
        )  # fmt: skip

    def given(self) -> Any:
        """X as the estimator gets it."""
        return self.X

    @property
    def parts_of(self) -> str:
        return {"chain": "sequences", "table": "examples"}.get(self.kind, "rows")

    def parts(self) -> list[tuple]:
        """The data as parts of a stream."""
        edges = [0, *self.cuts, self.n_blocks]
        return [
            (
                self.X[a:b],
                self.y[a:b],
                None if self.sample_weight is None else self.sample_weight[a:b],
                None if self.margin is None else self.margin[a:b],
            )
            for a, b in itertools.pairwise(edges)
        ]

    def take(self, order: np.ndarray) -> Task:
        """The same with blocks chosen."""

        def chosen(values: Any) -> Any:
            if isinstance(values, list):
                return [copy.deepcopy(values[i]) for i in order]
            return None if values is None else values[order].copy()

        fields = ("X", "y", "sample_weight", "margin")
        return self.copy(**{name: chosen(getattr(self, name)) for name in fields})

    # What it means

    def objective(self) -> Objective:
        """The objective, by enumeration."""
        psi, losses = self._blocks()
        weights = np.full(self.n_blocks, float(self.settings.get("C", 1.0)))
        if self.sample_weight is not None:
            weights = weights * self.sample_weight
        by_class = self.settings.get("class_weight")
        if by_class is not None:
            weights = weights * np.array([by_class.get(int(k), 1.0) for k in self.y])
        prior = {
            name: self._joint(self.settings.get(f"prior_{name}"), rest, psi[0].shape[1])
            for name, rest in (("mean", 0.0), ("precision", 1.0))
        }
        nonneg = self.settings.get("nonneg", False)
        mask = None if nonneg is False else self._joint(nonneg, False, psi[0].shape[1])
        return Objective(psi, losses, weights, **prior, nonneg=mask)

    @property
    def bias(self) -> float:
        if self.kind in ("chain", "table") or not self.settings.get("fit_intercept", True):
            return 0.0
        return float(self.settings.get("intercept_scaling", 1.0))

    def _blocks(self) -> tuple[list, list]:
        if self.kind == "table":
            return self.structure.enumerated(self.X, self.y)
        if self.kind == "chain":
            normalize = self.settings.get("loss", "hamming") == "mean_hamming"
            boundary = self.settings.get("boundary", False)
            return chain_blocks(self.X, self.y, self.n_labels, normalize, boundary)
        X = self.X.toarray() if sp.issparse(self.X) else np.asarray(self.X)
        X = X.astype(float)
        if self.kind == "regression":
            return regression_blocks(X, self.y, self.settings.get("epsilon", 0.0), self.bias)
        if self.kind == "binary":
            psi, losses = binary_blocks(X, 2.0 * np.asarray(self.y) - 1.0, self.bias)
            if self.margin is not None:
                losses = [np.array([float(m)]) for m in self.margin]
            return psi, losses
        cost = self.settings.get("cost")
        psi, losses = multiclass_blocks(X, self.y, self.n_labels, cost, self.bias)
        if self.settings.get("rescaling") == "slack" and cost is not None:
            psi = [c[:, None] * p for p, c in zip(psi, losses)]
        return psi, losses

    def _joint(self, values: Any, rest: Any, n: int) -> np.ndarray | None:
        """An array in the shape of `coef_`, or a number, in the layout of w."""
        if values is None:
            return None
        shape = {"binary": (1, -1), "regression": (1, -1)}.get(self.kind, (self.n_labels, -1))
        d = self.X[0].shape[-1] if self.kind != "table" else n // self.n_labels
        if np.ndim(values) == 0:
            full = np.full(n, values)
            if values is True:  # intercepts stay free
                full[(d * (1 if shape[0] == 1 else self.n_labels)) :] = self.kind == "table"
            return full
        coef = np.asarray(values) if self.kind == "table" else np.asarray(values).reshape(shape).T
        return np.concatenate([coef.ravel(), np.full(n - coef.size, rest)])

    def weights(self, model: Any) -> np.ndarray:
        """The joint weights of a fitted model, in the layout of psi."""
        if self.kind == "table":
            return np.asarray(model.coef_, float)
        if self.kind == "chain":
            parts = [model.coef_.T.ravel(), model.transition_.ravel()]
            ends = [model.start_, model.end_] if self.settings.get("boundary") else []
            return np.concatenate([*parts, *ends])
        rows = np.atleast_2d(model.coef_).T
        if self.bias:
            rows = np.vstack([rows, np.atleast_1d(model.intercept_) / self.bias])
        return rows.ravel()

    def verdict(self, model: Any, note: str, *others: Task) -> Verdict:
        """The judgement of a fitted model; it may be meant for `others` as well."""
        objectives = [task.objective() for task in (self, *others)]
        return judged(model, self.weights(model), objectives, self.tol, note)


def draw(rng: np.random.Generator, few: bool = False, storage: str | None = None) -> Task:
    """A random task; `storage` None draws that, too."""
    if storage is None:
        storage = str(rng.choice(["memory", "memory", "shards", "stream"]))
    lists = FEW if few else IN_MEMORY if storage == "memory" else FROM_PARTS
    kind = str(rng.choice(list(lists)))
    if storage == "shards" and kind == "table":
        storage = "stream"
    solver = (
        str(rng.choice(lists[kind]))
        if storage == "memory"
        else str(rng.choice(["online_cache"] if few else FROM_PARTS[kind]))
    )
    n, d, K = int(rng.integers(3, 13)), int(rng.integers(1, 6)), int(rng.integers(2, 6))
    settings: dict[str, Any] = {
        "C": float(10.0 ** rng.uniform(-2, 2)),
        "tol": float(rng.choice([1e-2, 1e-3, 1e-6])),
    }
    structure = margin = None
    dtype = np.float64
    if kind == "chain":
        K = min(K, 3)
        X: Any = [rng.normal(size=(int(rng.integers(1, 4)), min(d, 3))) for _ in range(n)]
        y: Any = [rng.integers(K, size=len(x)) for x in X]
        for k in range(K):
            y[k][0] = k
        settings["loss"] = str(rng.choice(["hamming", "mean_hamming"]))
    else:
        X = rng.normal(size=(n, d)) * (rng.random() < 0.97)
        K = 2 if kind == "binary" else min(K, n)
        y = rng.permutation(np.append(np.arange(K), rng.integers(K, size=n - K)))
    if kind == "table":
        structure = Table(K, d, random_cost(rng, K))
        X, y = list(X), [int(k) for k in y]
    elif kind == "regression":
        y = rng.normal(size=n)
        settings["epsilon"] = float(rng.choice([0.0, 0.1, 0.5]))
    elif kind == "multiclass" and not few and rng.random() < 0.4:
        settings["cost"] = random_cost(rng, K)
    plain = solver == "dual_coordinate" and storage == "memory"
    if kind in ("binary", "multiclass", "regression"):
        settings["fit_intercept"] = bool(rng.random() < 0.7)
        settings["intercept_scaling"] = float(rng.choice([1.0, 0.5, 4.0]))
        if plain and not few and rng.random() < 0.3:
            dtype = np.float32
            X = X.astype(dtype)
        elif kind == "binary" and plain and rng.random() < 0.4:
            settings |= random_prior(rng, 1, d, few)
        if kind == "binary" and rng.random() < 0.3:
            margin = rng.uniform(0.0, 2.0, size=n)
    weight = rng.uniform(0.1, 2.0, size=n) if rng.random() < 0.4 else None
    if weight is not None and rng.random() < 0.2:
        weight *= rng.random(n) < 0.6
        weight[0] += not weight.any()
    if plain and kind == "multiclass" and rng.random() < 0.2:
        settings["n_jobs"] = 2
    if rng.random() < 0.03:
        settings["time_limit"] = 1e-9
    cuts = tuple(sorted({int(c) for c in rng.integers(1, n, size=2)}))
    return Task(kind, X, y, K, solver, storage, cuts, weight, margin, settings, structure)


def random_cost(rng: np.random.Generator, K: int) -> np.ndarray:
    return rng.uniform(0.3, 2.0, size=(K, K)) * (1.0 - np.eye(K))


def random_prior(rng: np.random.Generator, rows: int, d: int, few: bool) -> dict[str, Any]:
    """A prior in the shape of `coef_`."""
    kind = "mean" if few else rng.choice(["mean", "precision", "nonneg", "mean nonneg"])
    prior: dict[str, Any] = {}
    if "mean" in kind:
        prior["prior_mean"] = rng.normal(size=(rows, d))
    if "precision" in kind:
        prior["prior_precision"] = rng.uniform(0.2, 5.0, size=(rows, d))
    if "nonneg" in kind:
        prior["nonneg"] = True
    return prior


def chosen(rng: np.random.Generator, items: Any) -> Any:
    """One of some items, of any kind."""
    items = list(items)
    return items[int(rng.integers(len(items)))]
