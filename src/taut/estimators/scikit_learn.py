"""What taut does with scikit-learn beyond `fit` and `predict`, in every version that it works with.

Callbacks of scikit-learn (`set_callbacks`) are there from scikit-learn 1.9 on; before, estimators
have no such method. Names of columns and pictures in notebooks are there in all versions.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from taut.result import Record

if TYPE_CHECKING:
    from taut.training.loop import Run

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """No callbacks."""

    with_callbacks = None

#: What belongs to a fit that is under way, and to no copy of its model.
UNDER_WAY = (
    "_tasks", "_callback_fit_ctx", "_skl_callbacks_to_teardown", "_parent_callback_ctx",
)  # fmt: skip


class _Columns:
    """The columns of a frame, in the form in which scikit-learn before 1.9 asks for names."""

    def __init__(self, names: list[Any], shape: tuple[int, ...]) -> None:
        self.names, self.shape = names, shape

    def __dataframe__(self) -> _Columns:
        return self

    def column_names(self) -> list[Any]:
        """What is compared with the names of other frames."""
        return self.names


def named(X: Any, matrix: Any) -> Any:
    """What scikit-learn finds the names of columns in, if X is a frame, and else their number."""
    if not hasattr(X, "columns"):
        return matrix
    # From 1.9 on it knows frames of all libraries; before, those that have `__dataframe__`.
    if with_callbacks is not None or hasattr(X, "__dataframe__"):
        return X
    return _Columns(list(X.columns), matrix.shape)


Attributes = Callable[[np.ndarray, Any], dict[str, Any]]


class Tasks:
    """Tells scikit-learn's callbacks of a fit and of each of its passes.

    A pass is told of when it is over: its beginning and its end come one after the other. It is a
    callback of taut's, and ends training when one of scikit-learn's asks for it.
    """

    def __init__(self, model: Any, given: dict[str, Any]) -> None:
        (_, X), *rest = given.items()
        metadata = {name: value for name, value in rest[1:] if value is not None}
        known = inspect.signature(model.score).parameters if hasattr(model, "score") else {}
        self.told = {
            "estimator": model,
            "X": X,
            "y": rest[0][1] if rest else None,
            # Monitors hand it on to scores, which need not know all that a fit takes.
            "metadata": {name: value for name, value in metadata.items() if name in known} or None,
        }
        # How many passes there will be is known afterwards.
        self.context = model._init_callback_context(max_subtasks=None)
        self.context.call_on_fit_task_begin(**self.told)
        self.attributes: Attributes | None = None
        self.run: Run | None = None

    def begin(self, run: Run) -> None:
        """Passes to come are those of this run."""
        self.run = run

    def __call__(self, record: Record) -> bool:
        """As of `pass_over`, with what the fitted attributes would be now."""
        return self.pass_over(self._fitted)

    def pass_over(self, fitted: Callable[[], dict[str, Any] | None]) -> bool:
        """Tell of a pass; whether a callback asks for the end of training."""
        task = self.context.subcontext(task_name="pass")
        task.call_on_fit_task_begin(**self.told)
        return bool(task.call_on_fit_task_end(**self.told, reconstruction_attributes=fitted))

    def end(self) -> None:
        """The model is fitted."""
        self.context.call_on_fit_task_end(**self.told, reconstruction_attributes={})

    def _fitted(self) -> dict[str, Any] | None:
        """The fitted attributes as if training had ended here; None where nobody says them."""
        if self.attributes is None or self.run is None:
            return None
        return self.attributes(self.run.weights(), self.run.problem)


def watched(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Let scikit-learn's callbacks look on while `fit` works."""
    if with_callbacks is None:
        return fit
    signature = inspect.signature(fit)

    @with_callbacks
    def with_tasks(model: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(model, *args, **kwargs)
        given.apply_defaults()
        _, *data = given.arguments.items()
        model._tasks = Tasks(model, dict(data))
        try:
            fitted = fit(model, *args, **kwargs)
            model._tasks.end()
        finally:
            del model._tasks
        return fitted

    @functools.wraps(fit)
    def fit_or_watch(model: Any, *args: Any, **kwargs: Any) -> Any:
        own = vars(model)
        looked_at = "_skl_callbacks" in own and "_tasks" not in own
        return (with_tasks if looked_at else fit)(model, *args, **kwargs)

    return fit_or_watch


class Interoperable(CallbackSupportMixin, BaseEstimator):
    """An estimator that scikit-learn's callbacks can watch, and whose picture has a certificate."""

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in UNDER_WAY}

    def _describe(self, attributes: Attributes) -> None:
        """Say what the fitted attributes are that weights of a problem amount to."""
        tasks: Tasks | None = vars(self).get("_tasks")
        if tasks is not None:
            tasks.attributes = attributes

    def _watching(self) -> list[Tasks]:
        """What is to be told of each pass of the fit that is under way."""
        own = vars(self)
        return [own["_tasks"]] if "_tasks" in own else []

    def _pass_over(self, fitted: dict[str, Any]) -> bool:
        """Tell of a pass that no run has told of; whether a callback asks for the end."""
        return any(tasks.pass_over(lambda: fitted) for tasks in self._watching())

    def _repr_html_inner(self) -> str:
        certificate = vars(self).get("certificate_")
        picture: str = super()._repr_html_inner()
        return picture if certificate is None else picture + certificate._repr_html_()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle
