"""Any structure."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taut.errors import InvalidData
from taut.estimators.base import StructuralEstimator, documented
from taut.problem import bind


@documented
class StructuredSVM(StructuralEstimator):
    """A structural SVM with a structure of your own.

    Minimises P(w) = 1/2 |w|^2 + C sum_i weight_i max_y [loss(y_i, y) - <w, psi_i(y)>].

    Parameters
    ----------
    structure : Structure or CompiledStructure
        What a label is: joint features, loss, and loss-augmented argmax.
    {training}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The joint weights w.
    {fitted}

    Examples
    --------
    See `taut.Structure` for a structure in plain Python.

    >>> import numpy as np
    >>> from taut import StructuredSVM
    >>> from taut.structures import Multiclass
    >>> model = StructuredSVM(Multiclass(3), C=1.0, tol=1e-6).fit(np.eye(3), np.array([0, 1, 2]))
    >>> model.predict(np.eye(3))
    array([0, 1, 2], dtype=int32)
    """

    def __init__(
        self,
        structure,
        C=1.0,
        *,
        solver="auto",
        tol=1e-3,
        max_iter=1000,
        time_limit=None,
        n_jobs=1,
        random_state=None,
        verbose=0,
        warm_start=False,
        callbacks=(),
        checkpoint=None,
    ):
        super().__init__(
            C, solver=solver, tol=tol, max_iter=max_iter, time_limit=time_limit, n_jobs=n_jobs,
            random_state=random_state, verbose=verbose, warm_start=warm_start,
            callbacks=callbacks, checkpoint=checkpoint,
        )  # fmt: skip
        self.structure = structure

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit examples X with labels y, in the form that the structure takes.

        A plain-Python structure takes sequences of examples and labels.
        """
        if not (hasattr(self.structure, "argmax") and hasattr(self.structure, "loss")):
            raise InvalidData(
                f"structure = {self.structure!r} has no argmax and loss: subclass taut.Structure"
            )
        self.coef_ = self._train(self.structure, X, y, sample_weight)
        return self

    def predict(self, X: Any) -> Any:
        """The label of highest score of each example."""
        check_is_fitted(self)
        return bind(self.structure, X).predict(self.coef_, self._threads())

    def score(self, X: Any, y: Any) -> float:
        """Minus the mean loss of the predictions: higher is better."""
        check_is_fitted(self)
        return -float(np.mean(bind(self.structure, X, y).prediction_losses(self.coef_)))
