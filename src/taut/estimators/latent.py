"""Labels with a latent part: bags of instances, and structures of one's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from taut.binding import complete, completed
from taut.data.chunks import Chunk
from taut.data.source import Source
from taut.errors import InvalidData
from taut.estimators.alternating import Alternating, BagClassifier
from taut.estimators.base import estimator
from taut.estimators.forms import form_of
from taut.estimators.online import takes_sources
from taut.estimators.structured import StructuredSVM
from taut.estimators.tables import refuse_beside, takes_tables
from taut.latent.alternation import LatentProblem, StreamedLatentProblem
from taut.structures import Bags
from taut.structures.abilities import ability
from taut.structures.bags import best_instances


@estimator
class LatentSVM(BagClassifier):
    """Two classes of bags of instances: the instance of highest score decides (MI-SVM).

    Minimises F(w) = 1/2 |w|^2 + C sum_i weight_i max(0, 1 - y_i max_z <w, (x_iz, bias)>) over bags
    i of instances z. F is not convex: each round fixes which instance makes a positive bag
    positive, solves the convex problem that is left to `tol`, and imputes the instances anew. F
    never rises. The result depends on the start, and the certificate is that of the last convex
    problem. For latent parts of other labels see `LatentStructuredSVM`.

    Parameters
    ----------
    {training}
    {intercept}
    {class_weight}
    max_rounds : int, default=20
        Largest number of rounds; `max_iter` bounds the passes of each, `time_limit` all together.
    round_tol : float, default=1e-3
        Relative fall of F in a round at which training ends. It also ends when no instance changes.
    start : "mean", "first" or "random", default="mean"
        What stands for a positive bag in the first round: the mean of its instances, its first
        instance, or one drawn by `random_state`; different seeds are restarts. With `warm_start`
        the instances are those that the last fit's weights choose, and F begins at its value there.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
    classes_ : ndarray of shape (2,)
        The second is the positive one.
    latent_ : ndarray of shape (n_positive_bags,)
        The instance of highest score of each positive training bag, counted from 0 in the bag.
    rounds_ : Rounds
        Objective F, bounds of the convex problem, changed instances and time of each round.
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from taut import LatentSVM
    >>> X = [np.array([[0.0], [4.0]]), np.array([[5.0], [1.0], [0.0]]), np.array([[1.0], [0.0]])]
    >>> model = LatentSVM(C=10.0, random_state=0).fit(X, ["yes", "yes", "no"])
    >>> model.predict(X)
    array(['yes', 'yes', 'no'], dtype='<U3')
    >>> model.latent_
    array([1, 0])
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _known(self, classes: np.ndarray) -> dict[str, Any]:
        return {"classes_": self._two(classes)}

    def _columns(self, n_classes: int) -> int:
        return 1

    def _structure(self, known: dict[str, Any]) -> Bags:
        return Bags(self._bias)

    def _latent_in(self, codes: np.ndarray) -> np.ndarray:
        return codes == 1

    def _truths(self, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.where(codes == 1, rows, -1)

    @takes_sources
    def decision_function(self, X: Any, *, lengths: Any = None) -> np.ndarray:
        """The highest score of each bag's instances: positive for `classes_[1]`."""
        return self._best(X, lengths)[1]

    @takes_sources
    def predict(self, X: Any, *, lengths: Any = None) -> np.ndarray:
        """The class of each bag."""
        second = self.decision_function(X, lengths=lengths) > 0.0
        return self.classes_[second.astype(np.intp)]

    def predict_latent(self, X: Any, *, lengths: Any = None) -> np.ndarray:
        """The instance of highest score of each bag, counted from 0 in the bag."""
        return self._best(X, lengths)[0]

    def _best(self, X: Any, lengths: Any) -> tuple[np.ndarray, np.ndarray]:
        """The instance of highest score of each bag, and its score."""
        scores, offsets = self._bag_scores(X, lengths)
        return best_instances(scores[:, 0], offsets)


@estimator
class LatentStructuredSVM(Alternating, StructuredSVM):
    """A structural SVM whose labels have a latent part.

    Minimises F(w) = 1/2 |w|^2 + C sum_i weight_i [max_yz (loss(y_i, y, z) + <w, phi_i(y, z)>)
    - max_z <w, phi_i(y_i, z)>], which is not convex: each round fixes the latent parts of the
    truths, solves the convex problem that is left to `tol`, and imputes them anew. F never rises.
    The result depends on the start, which is what `complete` returns without weights, or what it
    returns for the weights of the last fit with `warm_start`. The certificate is that of the last
    convex problem.

    Parameters
    ----------
    structure : LatentStructure, or CompiledStructure with `complete`
        What a label is, latent part included.
    {training}
    check : bool, default=True
        As for `StructuredSVM`.
    max_rounds : int, default=20
        Largest number of rounds; `max_iter` bounds the passes of each, `time_limit` all together.
    round_tol : float, default=1e-3
        Relative fall of F in a round at which training ends. It also ends when no latent value
        changes.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The joint weights w.
    rounds_ : Rounds
        Objective F, bounds of the convex problem, changed latent values and time of each round.
    {fitted}

    Examples
    --------
    See `taut.LatentStructure` for a structure in plain Python.

    >>> import numpy as np
    >>> from taut import LatentStructuredSVM
    >>> from taut.structures import Bags
    >>> X, offsets = np.array([[2.0], [4.0], [1.0], [0.5]]), np.array([0, 2, 4])
    >>> model = LatentStructuredSVM(Bags(bias=1.0), C=10.0, random_state=0)
    >>> model.fit((X, offsets), np.array([0, -1])).predict((X, offsets))
    array([ 1, -1], dtype=int32)
    """

    @takes_tables
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit examples X with labels y, whose latent parts are not looked at.

        A compiled structure begins with the latent parts of y.
        """
        if not isinstance(X, Source):
            self._check(X, y)
        if ability(self.structure, "complete") is None:
            raise InvalidData(
                f"structure = {self.structure!r} has no complete: subclass taut.LatentStructure, "
                "or use StructuredSVM where nothing is latent"
            )
        if isinstance(X, Source):
            return self._fit_source(X, y=y, sample_weight=sample_weight)
        _, fitted = self._alternate(
            LatentProblem, None, {}, self.structure, X, y, sample_weight=sample_weight,
            space=form_of(self.kernel).space(self, self.structure),
        )  # fmt: skip
        return self._keep(fitted)

    def _fit_source(self, source: Source, **others: Any) -> Self:
        refuse_beside(others)
        self._needs_parts()

        def impute(chunk: Chunk, w: np.ndarray | None) -> Chunk:
            labels = source.labels(chunk)
            completed: Any = complete(self.structure, chunk.examples, labels, w)
            return replace(chunk, y=completed)

        _, fitted = self._alternate(StreamedLatentProblem, None, {}, self.structure, source, impute)
        return self._keep(fitted)

    def _joint_weights(self) -> np.ndarray:
        return self.coef_

    def complete(self, X: Any, y: Any) -> Any:
        """Labels y with their best latent parts."""
        data, w = self._bound(X)
        return completed(data, X, y, w, self._threads())

    def _losses(self, X: Any, y: Any) -> np.ndarray:
        return super()._losses(X, self.complete(X, y))
