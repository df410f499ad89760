"""Classes of bags of frames, of which the best one decides."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.estimators.alternating import BagClassifier
from taut.estimators.base import estimator
from taut.estimators.costs import CostSensitive
from taut.estimators.online import takes_sources
from taut.structures import LatentMulticlass
from taut.structures.bags import best_instances


@estimator
class LatentMulticlassSVM(CostSensitive, BagClassifier):
    """Classes of bags of frames: the frame of highest score decides, and nobody says which it is.

    A frame may be a moment of a gesture, a sentence of a text, a segment of an image. Minimises
    F(W) = 1/2 |W|^2 + C sum_i weight_i [max_kz (cost(y_i, k) + <w_k, (x_iz, bias)>)
    - max_z <w_yi, (x_iz, bias)>] over bags i, classes k and frames z. F is not convex: each round
    fixes the frame that speaks for the true class, solves the convex problem that is left to `tol`,
    and imputes the frames anew. F never rises. The result depends on the start, and the certificate
    is that of the last convex problem. For two classes of which one needs no frame of its own see
    `LatentSVM`.

    Parameters
    ----------
    {training}
    cost : array of shape (n_classes, n_classes), tree or path, optional
        cost[i, j] of answering `classes_[j]` where `classes_[i]` is right; 0/1 by default. Or a
        tree of the classes or the path of a CSV file, as for `MulticlassSVM`.
    {intercept}
    {class_weight}
    max_rounds : int, default=20
        Largest number of rounds; `max_iter` bounds the passes of each, `time_limit` all together.
    round_tol : float, default=1e-3
        Relative fall of F in a round at which training ends. It also ends when no frame changes.
    start : "mean", "first" or "random", default="mean"
        What speaks for the true class in the first round: the mean of the bag's frames, its first
        frame, or one drawn by `random_state`; different seeds are restarts. With `warm_start` the
        frames are those that the last fit's weights choose, and F begins at its value there.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
    intercept_ : ndarray of shape (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    cost_ : ndarray of shape (n_classes, n_classes)
        The costs that training saw.
    latent_ : ndarray of shape (n_bags,)
        The frame of each training bag that speaks most for its class, counted from 0 in the bag.
        Not there after a fit to a source.
    rounds_ : Rounds
        Objective F, bounds of the convex problem, changed frames and time of each round.
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from taut import LatentMulticlassSVM
    >>> quiet, up, down = [0.1, 0.1], [3.0, 0.1], [0.1, 3.0]
    >>> X = [np.array([quiet, up]), np.array([down, quiet, quiet]), np.array([quiet, quiet])]
    >>> model = LatentMulticlassSVM(C=10.0, random_state=0).fit(X, ["up", "down", "none"])
    >>> model.predict(X)
    array(['up', 'down', 'none'], dtype='<U4')
    >>> model.predict_latent(X)[:2]
    array([1, 0])
    """

    def _columns(self, n_classes: int) -> int:
        return n_classes

    def _structure(self, known: dict[str, Any]) -> LatentMulticlass:
        return LatentMulticlass(len(known["classes_"]), known["cost_"], self._bias)

    def _latent_in(self, codes: np.ndarray) -> np.ndarray:
        return np.ones(len(codes), dtype=bool)

    def _truths(self, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.column_stack([codes, rows])

    @takes_sources
    def decision_function(self, X: Any, *, lengths: Any = None) -> np.ndarray:
        """The best frame's score of each class; for two classes the second's lead."""
        scores = self._class_scores(*self._bag_scores(X, lengths))
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    @takes_sources
    def predict(self, X: Any, *, lengths: Any = None) -> np.ndarray:
        """The class of each bag."""
        scores = self._class_scores(*self._bag_scores(X, lengths))
        return self.classes_[scores.argmax(axis=1)]

    def score(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        lengths: Any = None,
        metric: str = "accuracy",
    ) -> float:
        """How good predictions are; higher is better.

        Parameters
        ----------
        X, y, lengths
            As for `fit`; a source has labels and weights of its own.
        sample_weight : array of shape (n_bags,), optional
        metric : "accuracy", "cost" or "hierarchical_f1", default="accuracy"
            As for `MulticlassSVM.score`.
        """
        return self._measure(metric, *self._answers(X, y, sample_weight, lengths=lengths)[:3])

    def predict_latent(self, X: Any, *, lengths: Any = None) -> np.ndarray:
        """The frame that speaks most for the predicted class, counted from 0 in the bag."""
        scores, offsets = self._bag_scores(X, lengths)
        best = np.repeat(self._class_scores(scores, offsets).argmax(axis=1), np.diff(offsets))
        return best_instances(scores[np.arange(len(scores)), best], offsets)[0]

    @staticmethod
    def _class_scores(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """The best frame's score of each class, by bag."""
        return np.maximum.reduceat(scores, offsets[:-1], axis=0)
