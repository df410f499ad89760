"""Classifiers to which one mistake may cost more than another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from taut.checks import check_choice
from taut.data.class_trees import is_tree
from taut.data.costs import as_cost, plain_cost
from taut.data.labels import share_right
from taut.errors import InvalidData
from taut.estimators.base import StructuralEstimator, estimator
from taut.metrics import hierarchical_f1, mean_cost


@estimator
class CostSensitive(StructuralEstimator):
    """Estimators with the parameter `cost`, and scores that know it."""

    cost: Any = None

    def _known(self, classes: np.ndarray) -> dict[str, Any]:
        """The fitted attributes that follow from the classes."""
        return {"classes_": classes, "cost_": as_cost(self.cost, len(classes), classes)}

    def _plain_params(self) -> dict[str, Any]:
        return super()._plain_params() | {"cost": plain_cost(self.cost)}

    def _measure(
        self, metric: str, predicted: np.ndarray, truth: np.ndarray, weight: np.ndarray
    ) -> float:
        """How good predictions are by one of the metrics; higher is better."""
        check_choice("metric", metric, sorted(_METRICS))
        return _METRICS[metric](self, predicted, truth, weight)

    def _accuracy(self, predicted: np.ndarray, truth: np.ndarray, weight: np.ndarray) -> float:
        return share_right(predicted, truth, weight)

    def _negative_cost(self, predicted: np.ndarray, truth: np.ndarray, weight: np.ndarray) -> float:
        # A tree may know labels that were not there to be learned, the matrix does not.
        cost = self.cost if is_tree(self.cost) else self.cost_
        return -mean_cost(truth, predicted, cost, classes=self.classes_, sample_weight=weight)

    def _hierarchical_f1(
        self, predicted: np.ndarray, truth: np.ndarray, weight: np.ndarray
    ) -> float:
        if not is_tree(self.cost):
            raise InvalidData(
                "metric = 'hierarchical_f1' needs a tree of classes, and the parameter cost is "
                "none: give cost=tree, or call taut.metrics.hierarchical_f1 with a tree"
            )
        return hierarchical_f1(
            truth, predicted, self.cost, classes=self.classes_, sample_weight=weight
        )


_METRICS: dict[str, Callable[..., float]] = {
    "accuracy": CostSensitive._accuracy,
    "cost": CostSensitive._negative_cost,
    "hierarchical_f1": CostSensitive._hierarchical_f1,
}
