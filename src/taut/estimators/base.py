"""What all estimators share: the parameters of training, the flow of `fit`, saving."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from taut import files
from taut.checkpoint import Checkpoint
from taut.data.arrays import Matrix, as_matrix
from taut.errors import InvalidData, NotConverged
from taut.problem import Problem
from taut.progress import progress_line
from taut.result import Certificate, History, Record, Status
from taut.loop import solve
from taut.solvers import SOLVERS, Solver

_KIND = "model"

TRAINING_PARAMETERS = """C : float, default=1.0
        Multiplies the sum of the losses: larger fits the training data more closely.
    solver : "auto", str or Solver, default="auto"
        A name such as "dual_coordinate", or an object such as `taut.solvers.DualCoordinate()`.
    tol : float, default=1e-3
        Relative duality gap (P - D) / P at which training ends.
    max_iter : int, default=1000
        Largest number of passes over the data.
    time_limit : float, optional
        Seconds after which training ends.
    n_jobs : int, default=1
        Threads; -1 for all processors.
    random_state : int, RandomState or None
        Seed of the order of visits.
    verbose : int, default=0
        1 shows a line of progress in a terminal.
    warm_start : bool, default=False
        Start from the dual variables of the last fit, which must have been on the same data.
    callbacks : sequence of callables, default=()
        Called with a `taut.Record` after each pass; returning True ends training.
    checkpoint : Checkpoint or path, optional
        Where to save training from time to time, and to resume it from."""

FITTED_ATTRIBUTES = """certificate_ : Certificate
        Primal, dual, gap, and why training ended.
    history_ : History
        A record of each pass.
    n_iter_ : int
        Number of passes."""


def documented(estimator: type) -> type:
    """Fill the parts of the docstring that all estimators share."""
    estimator.__doc__ = (estimator.__doc__ or "").format(
        training=TRAINING_PARAMETERS, fitted=FITTED_ATTRIBUTES
    )
    return estimator


def as_solver(solver: str | Solver) -> Solver:
    """The solver that a parameter means."""
    if isinstance(solver, Solver):
        return solver
    name = "dual_coordinate" if solver == "auto" else solver
    if name not in SOLVERS:
        raise InvalidData(
            f"solver = {solver!r}: give 'auto', one of {sorted(SOLVERS)}, or a solver object"
        )
    return SOLVERS[name]()


class StructuralEstimator(BaseEstimator):
    """Base of the estimators: they differ in their structure and in the shape of their weights."""

    def __init__(
        self,
        C: float = 1.0,
        *,
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        n_jobs: int = 1,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        warm_start: bool = False,
        callbacks: Sequence[Callable[[Record], object]] = (),
        checkpoint: Checkpoint | str | os.PathLike | None = None,
    ) -> None:
        self.C = C
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    def _matrix(self, X: Any, *, reset: bool = False) -> Matrix:
        """X, checked, with the features that fit saw."""
        if not reset:
            check_is_fitted(self)
        matrix = as_matrix(X)
        validate_data(
            self, X if hasattr(X, "shape") else matrix, reset=reset, skip_check_array=True
        )
        return matrix

    def _threads(self) -> int:
        if self.n_jobs == -1:
            return os.cpu_count() or 1
        if self.n_jobs is None:
            return 1
        if self.n_jobs < 1:
            raise InvalidData(f"n_jobs = {self.n_jobs}: give a number of threads, or -1 for all")
        return int(self.n_jobs)

    def _train(
        self, structure: Any, X: Any, y: Any, sample_weight: np.ndarray | None
    ) -> np.ndarray:
        """Solve the problem, keep its certificate, and return w."""
        problem = Problem(
            structure, X, y, C=self.C, sample_weight=sample_weight, n_jobs=self._threads()
        )
        seed = self.random_state
        if not isinstance(seed, int):
            seed = int(check_random_state(seed).randint(2**31))
        line = progress_line(self.verbose, self.tol)
        result = solve(
            problem,
            as_solver(self.solver),
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            callbacks=[*self.callbacks, *([line] if line else [])],
            checkpoint=self.checkpoint,
            start=getattr(self, "_state", None) if self.warm_start else None,
            random_state=seed,
        )
        self.certificate_ = result.certificate
        self.history_ = result.history
        self.n_iter_ = result.certificate.passes
        if self.warm_start:
            self._state = result.state
        if result.certificate.status in (Status.MAX_ITER, Status.TIME_LIMIT):
            warnings.warn(result.certificate.message, NotConverged, stacklevel=3)
        return result.w

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted model to one file: safetensors with JSON metadata and a SHA-256.

        Everything that prediction needs, the certificate and the history are in it; callbacks and
        checkpoints are not. Read it with `taut.load`.

        Parameters
        ----------
        path : str or path
            An existing file is replaced as a whole.
        """
        check_is_fitted(self)
        tensors: dict[str, np.ndarray] = {}
        meta = {
            "class": type(self).__name__,
            "parameters": {
                name: _encode(name, value, tensors)
                for name, value in self.get_params(deep=False).items()
                if name not in ("callbacks", "checkpoint", "structure")
            },
            "fitted": {
                name: _encode(name, value, tensors)
                for name, value in vars(self).items()
                if name.endswith("_") and not name.startswith("_")
            },
        }
        files.write(path, _KIND, tensors, meta)

    @classmethod
    def _from_file(
        cls, tensors: dict[str, np.ndarray], meta: dict[str, Any], **parameters: Any
    ) -> Self:
        model = cls(
            **{name: _decode(value, tensors) for name, value in meta["parameters"].items()},
            **parameters,
        )
        for name, value in meta["fitted"].items():
            setattr(model, name, _decode(value, tensors))
        return model


def _encode(name: str, value: Any, tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    """A parameter or fitted attribute as JSON; arrays of numbers go into `tensors`."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, np.ndarray):
        labels = [files.encode_label(label) for label in value.tolist()]
        return {"labels": labels, "dtype": value.dtype.str}
    if isinstance(value, Certificate):
        return {"certificate": value.to_dict()}
    if isinstance(value, History):
        return {"history": value.to_dict()}
    if isinstance(value, Solver):
        return {"solver": value.name, "settings": dataclasses.asdict(value)}
    if isinstance(value, dict):
        pairs = [[files.encode_label(k), files.encode_label(v)] for k, v in value.items()]
        return {"pairs": pairs}
    if isinstance(value, np.random.RandomState):
        return {"value": None}  # its state belongs to the run, not to the model
    return {"value": files.encode_label(value)}


def _decode(item: dict[str, Any], tensors: dict[str, np.ndarray]) -> Any:
    """The inverse of `_encode`."""
    kind = next(iter(item))
    return _DECODERS[kind](item, tensors)


def _labels(item: dict[str, Any], tensors: dict[str, np.ndarray]) -> np.ndarray:
    labels = np.empty(len(item["labels"]), dtype=object)
    labels[:] = [files.decode_label(label) for label in item["labels"]]
    return labels.astype(item["dtype"])


_DECODERS: dict[str, Callable[[dict[str, Any], dict[str, np.ndarray]], Any]] = {
    "tensor": lambda item, tensors: tensors[item["tensor"]],
    "labels": _labels,
    "certificate": lambda item, _: Certificate.from_dict(item["certificate"]),
    "history": lambda item, _: History.from_dict(item["history"]),
    "solver": lambda item, _: SOLVERS[item["solver"]](**item["settings"]),
    "pairs": lambda item, _: {
        files.decode_label(key): files.decode_label(value) for key, value in item["pairs"]
    },
    "value": lambda item, _: files.decode_label(item["value"]),
}
