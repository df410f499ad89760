"""What all estimators share: the parameters of training, the flow of `fit`, saving."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from taut.checks import check_flag, check_number
from taut.console.notices import warn, warn_once
from taut.console.progress import progress_line
from taut.data.arrays import Matrix, as_matrix
from taut.engines.base import no_start
from taut.errors import InvalidData, InvalidType, NotConverged, UncertainLabels
from taut.estimators import storage
from taut.estimators.compression import compressed
from taut.estimators.documentation import SHARED
from taut.estimators.forms import HasKernel, form_of
from taut.estimators.packing import Packing
from taut.estimators.priors import CoefRegularizer
from taut.estimators.scikit_learn import Interoperable, named, watched
from taut.problem import Problem
from taut.result import OVER_RETURNED, DualPoint, Record, Status
from taut.solvers import SOLVERS, Solver
from taut.solving import belonging_of, solve
from taut.training.checkpoint import Checkpoint

#: What a fit may leave beside its fitted attributes.
_KEPT = ("_state", "_online", "_end", "_expansion", "_begun_with")
_NEGLIGIBLE = 1e-8  # relative gap up to which it does not matter that there is none smaller
_WARNED = (
    Status.MAX_ITER, Status.TIME_LIMIT, Status.MAX_ROUNDS, Status.INTERRUPTED, Status.OUT_OF_MEMORY,
)  # fmt: skip


class End(NamedTuple):
    """Where a fit ended, for others of the same data to go on from."""

    problem: Problem
    dual_point: DualPoint


T = TypeVar("T")


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def estimator(cls: type[T]) -> type[T]:
    """Make an estimator of a class that declares its parameters: constructor and documentation.

    scikit-learn wants all parameters spelt out in each constructor, and nothing else in it.
    """
    cls.__doc__ = (cls.__doc__ or "").format(**SHARED)
    if "fit" in vars(cls):
        setattr(cls, "fit", watched(vars(cls)["fit"]))  # noqa: B010
    return dataclass(kw_only=True, eq=False, repr=False)(cls)


def as_solver(solver: str | Solver) -> Solver | None:
    """The solver that a parameter means; None for the one that fits the problem."""
    if isinstance(solver, Solver):
        return solver
    if not isinstance(solver, str) or solver not in {"auto", *SOLVERS}:
        raise InvalidData(
            f"solver = {solver!r}: give 'auto', one of {sorted(SOLVERS)}, or a solver object"
        )
    return None if solver == "auto" else SOLVERS[solver]()


def columns_of(X: Any, matrix: Matrix) -> dict[str, Any]:
    """What a fit remembers of the columns of X: their number and, for a data frame, their names."""
    memory = BaseEstimator()
    validate_data(memory, named(X, matrix), reset=True, skip_check_array=True)
    return vars(memory)


@estimator
class Estimator(HasKernel, Interoperable):
    """What all estimators share: rows that are checked, threads, seeds, files."""

    n_jobs: int | None = 1
    random_state: int | np.random.RandomState | np.random.Generator | None = None
    verbose: int = 0

    #: What scikit-learn is told: whether X may be a sparse matrix, and whether `fit` needs y. What
    #: labels whole sequences or graphs is no classifier to it, which would look for classes there.
    _takes_sparse: ClassVar[bool] = False
    _needs_y: ClassVar[bool] = False

    #: What the X of a part is, as `taut.data.Stream` has it, and whether each row of data without
    #: sequences is one of them.
    _parts_of: ClassVar[str] = "rows"
    _takes_single_rows: ClassVar[bool] = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        of_matrix = getattr(self.kernel, "of_matrix", False) is True
        tags.input_tags.pairwise = of_matrix or str(self.kernel) == "precomputed"
        tags.input_tags.sparse = self._takes_sparse and not tags.input_tags.pairwise
        tags.target_tags.required = tags.target_tags.required or self._needs_y
        return tags

    def _matrix(self, X: Any, *, finite: bool = True) -> Matrix:
        """X, checked, with the features that fit saw."""
        check_is_fitted(self)
        matrix = as_matrix(X, finite=finite)
        self._check_columns(X, matrix)
        return matrix

    def _extracted(self, X: Any) -> Any:
        """The features of X, of models that make them."""
        return X

    def _column_names(self) -> np.ndarray | None:
        """What the columns of X are called, as a data frame or a file has named them."""
        reading = getattr(self, "reading_", None)
        named = None if reading is None else reading.feature_names
        found = getattr(self, "feature_names_in_", named)
        return None if found is None else np.asarray(found, dtype=object)

    def _check_columns(self, X: Any, matrix: Matrix) -> None:
        """Refuse columns that fit did not see."""
        validate_data(self, named(X, matrix), reset=False, skip_check_array=True)

    def _need(self, y: Any, name: str = "y") -> None:
        """Refuse to learn without targets."""
        if y is None:
            raise InvalidData(
                f"{type(self).__name__} requires {name} to be passed, but the target {name} is None"
            )

    def _threads(self) -> int:
        jobs: Any = 1 if self.n_jobs is None else self.n_jobs
        if not isinstance(jobs, Integral) or (int(jobs) < 1 and jobs != -1):
            raise InvalidData(f"n_jobs = {jobs!r}: give a number of threads, or -1 for all")
        return os.cpu_count() or 1 if jobs == -1 else int(jobs)

    def _seed(self) -> int:
        given: Any = self.random_state
        if isinstance(given, np.random.Generator):
            return int(given.integers(2**31))
        if isinstance(given, Integral):
            if int(given) < 0:
                raise InvalidData(f"random_state = {given}: give an integer >= 0, or None")
            return int(given)
        try:
            return int(check_random_state(given).randint(2**31))
        except ValueError as error:
            raise InvalidType(
                f"random_state = {given!r}: give an integer >= 0, a RandomState or Generator of "
                "numpy, or None"
            ) from error

    def __getstate__(self) -> dict[str, Any]:
        # What prediction prepares is made again.
        return {name: v for name, v in super().__getstate__().items() if name != "_expansion"}

    def _attributes(self, w: np.ndarray, coef_shape: tuple[int, int] | None) -> dict[str, Any]:
        """The fitted attributes that w consists of."""
        raise NotImplementedError

    def _joint_weights(self) -> np.ndarray:
        """The fitted w as the problem has it: the inverse of `_attributes`."""
        raise NotImplementedError

    def _intercepts(self) -> np.ndarray:
        """What is added to the scores of linear models."""
        return np.zeros(1)

    def _take(self, fitted: dict[str, Any]) -> Self:
        """Take fitted attributes: until here the model is the one of the last fit."""
        for name in [name for name in vars(self) if name.endswith("_") or name in _KEPT]:
            delattr(self, name)
        self.__dict__.update(fitted)
        return self

    def save(
        self, path: str | os.PathLike, *, dtype: Any = None, sparse: bool | str = False
    ) -> None:
        """Write the fitted model to one file: safetensors with JSON metadata and a SHA-256.

        Everything that prediction needs, the certificate and the history are in it; callbacks and
        checkpoints are not. Read it with `taut.load`.

        Parameters
        ----------
        path : str or path
            An existing file is replaced as a whole.
        dtype : "float32", optional
            Store the weights in single precision. Where that changes one of them, the certificate
            in the file says so and is no longer `exact`; this model stays as it is.
        sparse : bool or "auto", default=False
            Store only the weights that are not zero, and where they are; "auto" does so for each
            array that becomes smaller by it. What is loaded is the same.

        Examples
        --------
        >>> import os, tempfile
        >>> import taut
        >>> model = taut.BinarySVM(random_state=0).fit([[0.0], [1.0]], [0, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "small.taut")
        ...     model.save(path, dtype="float32", sparse="auto")
        ...     again = taut.load(path)
        >>> bool((again.coef_ == model.coef_.astype("float32")).all())
        True
        """
        check_is_fitted(self)
        storage.save(self, path, Packing.of(dtype, sparse))

    def _plain_params(self) -> dict[str, Any]:
        """The parameters, of types that a file can hold."""
        parameters = self.get_params(deep=False)
        if isinstance(parameters["random_state"], np.random.Generator):
            parameters["random_state"] = None  # its state belongs to the run, not to the model
        return {name: _plain_prior(value) for name, value in parameters.items()}


@estimator
class StructuralEstimator(Estimator):
    """Base of the estimators that minimise an objective: they differ in structure and weights."""

    C: float = field(default=1.0, kw_only=False)
    solver: str | Solver = "auto"
    prior_mean: Any = None
    prior_precision: Any = None
    nonneg: Any = False
    tol: float = 1e-3
    max_iter: int = 1000
    time_limit: float | None = None
    warm_start: bool = False
    callbacks: Sequence[Callable[[Record], object]] = ()
    checkpoint: Checkpoint | str | os.PathLike | None = None

    #: Whether a fit leaves its `End`, which holds all data.
    _keeps_end: ClassVar[bool] = False
    #: Whether it leaves which blocks have dual weight.
    _keeps_support: ClassVar[bool] = False

    def _callbacks(self) -> list[Callable[[Record], object]]:
        given = self.callbacks
        if not (isinstance(given, Iterable) and all(map(callable, given))):
            raise InvalidType(f"callbacks = {given!r}: give a list of functions of a taut.Record")
        check_number("verbose", self.verbose)
        line = progress_line(self.verbose, self.tol, type(self).__name__)
        return [*given, *self._watching(), line]

    def _works_on_rows(self) -> bool:
        """Whether the solver does without the whole matrix of a kernel."""
        solver = as_solver(self.solver)
        return solver is None or "rows" in solver.takes

    def _check_options(self) -> None:
        """Refuse parameters of training that are of another kind."""
        for name in ("C", "tol", "max_iter"):
            check_number(name, getattr(self, name))
        if self.time_limit is not None:
            check_number("time_limit", self.time_limit)
        check_flag("warm_start", self.warm_start)
        solver = as_solver(self.solver)
        if self.warm_start and solver is not None and not solver.starts_hot:
            raise InvalidData(f"warm_start = True: {no_start(solver.name)}")

    def _options(self) -> dict[str, Any]:
        """The parameters of training, checked, as `solve` takes them."""
        self._check_options()
        checkpoint = self.checkpoint
        if not isinstance(checkpoint, Checkpoint | None):
            checkpoint = Checkpoint(checkpoint)
        return {
            "solver": as_solver(self.solver),
            "tol": self.tol,
            "max_iter": self.max_iter,
            "time_limit": self.time_limit,
            "random_state": self._seed(),
            "callbacks": self._callbacks(),
            "checkpoint": checkpoint,
        }

    def _regularizer(self, coef_shape: tuple[int, int] | None) -> CoefRegularizer:
        return CoefRegularizer(self.prior_mean, self.prior_precision, self.nonneg, coef_shape)

    def _train(
        self,
        structure: Any,
        X: Any,
        y: Any,
        sample_weight: np.ndarray | None,
        coef_shape: tuple[int, int] | None,
        facts: dict[str, Any],
    ) -> dict[str, Any]:
        """Fitted attributes, from data in memory, and `facts`, those that do not depend on w."""
        options, form = self._options(), form_of(self.kernel)
        problem = Problem(
            structure, X, y, self.C, sample_weight, self._threads(),
            form.regularizer(self, coef_shape), form.space(self, structure),
        )  # fmt: skip
        self._describe(lambda w, of: form.attributes(self, w, coef_shape, of) | facts)
        w, fitted = self._solve(problem, options)
        return fitted | form.attributes(self, w, coef_shape, problem) | facts

    def _solve(
        self, problem: Problem, options: dict[str, Any]
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Solve a problem; w, and the fitted attributes that all estimators share."""
        start = getattr(self, "_state", None) if self.warm_start else None
        result = solve(problem, start=start, keep_state=self.warm_start, **options)
        fitted = self._facts(result)
        # Whoever interrupts a fit is told to go on with warm_start=True, and may set it only then.
        solver = options["solver"]
        interrupted = result.certificate.status is Status.INTERRUPTED
        if self.warm_start or (interrupted and (solver is None or solver.starts_hot)):
            try:
                fitted["_state"] = result.state
            except InvalidData as error:
                warn(f"the next fit cannot start from this one: {error}", RuntimeWarning)
        support = result.read_support() if self._keeps_support else None
        if support is not None:
            fitted["dual_support_"] = support
        if self._keeps_end:
            fitted["_end"] = End(problem, result.read_dual_point())
        return result.w, fitted

    @staticmethod
    def _facts(result: Any) -> dict[str, Any]:
        """The fitted attributes that all estimators share."""
        return {
            "certificate_": result.certificate,
            "history_": result.history,
            "n_iter_": result.certificate.passes,
        }

    def _keep(self, fitted: dict[str, Any]) -> Self:
        """Take the outcome of a fit as a whole, and warn if it ended early."""
        self._take(fitted)
        certificate = fitted["certificate_"]
        hopeless = certificate.status is Status.STALLED and certificate.relative_gap > _NEGLIGIBLE
        if self._keeps_end:  # its walk warns
            pass
        elif certificate.status in _WARNED or hopeless:
            warn_once(certificate.message, NotConverged)
        elif certificate.of.endswith(OVER_RETURNED):
            warn_once(certificate.message, UncertainLabels)
        return self

    def _copy(self, **parameters: Any) -> Self:
        """The same model with other parameters, without what a next fit would start from."""
        other = copy.copy(self).set_params(**parameters)
        for name in (*_KEPT, "_skl_callbacks", "_keeps_end"):
            other.__dict__.pop(name, None)
        return other

    def _walk(self, C: float) -> Self:
        """A model of the same data at another C, from where this one ended (`_keeps_end`)."""
        other = copy.copy(self).set_params(C=C)
        # Within a walk the data stay as they were when the first solve hashed them.
        known = belonging_of(self._state) if hasattr(self, "_state") else None
        problem = self._end.problem.with_factor(C, known)
        w, fitted = other._solve(problem, other._options())
        own = self._form.attributes(other, w, self._coef_shape(), problem)
        return other._with_attributes(own, fitted)

    def _mixed(self, other: Self, share: float, fitted: dict[str, Any]) -> Self:
        """Take what is between this model and another of the same data, and what is known of it."""
        return self._with_attributes(self._form.mixed(self, other, share), fitted)

    def _with_attributes(self, own: dict[str, Any], fitted: dict[str, Any]) -> Self:
        """Take attributes and what is known about them; all else that a fit learned stays."""
        facts = {name: value for name, value in vars(self).items() if name.endswith("_")}
        for name in ("temperature_", "dual_support_"):  # they were those of other weights
            facts.pop(name, None)
        return self._take(facts | own | fitted)

    def _coef_shape(self) -> tuple[int, int] | None:
        """What `_attributes` was given when the model was fitted."""
        if not hasattr(self, "coef_"):
            return None
        rows = np.atleast_2d(self.coef_)
        return rows.shape[0], rows.shape[1]

    def compress(
        self,
        X: Any,
        y: Any,
        n_support: float | None = None,
        tol: float | None = None,
        **fit_params: Any,
    ) -> Self:
        """The same model with fewer support rows, whose certificate is still true.

        Predictions take as long as a model's support rows are many. Those are kept that are worth
        most to w, and their coefficients are fitted again to the training data. The new primal
        value is computed by all oracles; the lower bound of the fit holds as before.

        Parameters
        ----------
        X, y, **fit_params
            What `fit` was given.
        n_support : int or float, optional
            How many rows to keep, or their share.
        tol : float, optional
            By how much the objective may rise instead, relative to what it is; about as few rows
            as that takes are kept.

        Returns
        -------
        estimator
            A new one; this one stays as it is.

        Examples
        --------
        >>> import numpy as np
        >>> from taut import BinarySVM
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> y = np.linalg.norm(X, axis=1) > 1.2
        >>> model = BinarySVM(kernel="rbf", C=10.0, random_state=0).fit(X, y)
        >>> small = model.compress(X, y, n_support=0.3)
        >>> len(small.support_) <= 0.3 * len(model.support_)
        True
        >>> small.certificate_.dual == model.certificate_.dual
        True
        """
        check_is_fitted(self)
        return compressed(self, X, y, n_support, tol, fit_params)


def _plain_prior(value: Any) -> Any:
    """A model that is the prior mean of another is stored as its weights."""
    model = getattr(value, "estimator", value)
    return model._joint_weights() if isinstance(model, StructuralEstimator) else value
