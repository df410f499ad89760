"""Labels with a latent part: bags of instances, and structures of one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taut.alternation import LatentProblem, LatentResult, StreamedLatentProblem, alternate
from taut.binding import complete
from taut.data.arrays import Checked, Matrix, as_matrix, as_sequences, holds_sequences
from taut.data.chunks import Chunk
from taut.data.labels import as_labels, share_right
from taut.data.source import Source
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData
from taut.estimators.base import check_number, columns_of, estimator
from taut.estimators.classification import LinearClassifier
from taut.estimators.online import OnlineEstimator
from taut.estimators.structured import StructuredSVM
from taut.structures import Bags
from taut.structures.bags import STARTS, best_instances, first_bags
from taut.structures.base import as_stacked


@estimator
class Alternating(OnlineEstimator):
    """What the two share: rounds that impute the latent values and solve the rest."""

    max_rounds: int = 20
    round_tol: float = 1e-3

    @property
    def partial_fit(self) -> Any:
        """Not there: rounds go over all data again and again."""
        raise AttributeError(f"{type(self).__name__} has no partial_fit: its rounds need all data")

    def _joint_weights(self) -> np.ndarray:
        """The fitted w as the problem has it."""
        raise NotImplementedError

    def _alternate(
        self, problem: Callable[..., LatentProblem], *arguments: Any
    ) -> tuple[LatentResult, dict[str, Any]]:
        """The result, and the fitted attributes that both share."""
        options = self._options()
        for name in ("max_rounds", "round_tol"):
            check_number(name, getattr(self, name))
        result = alternate(
            problem(*arguments),
            max_rounds=self.max_rounds,
            round_tol=self.round_tol,
            start=self._joint_weights() if self.warm_start and hasattr(self, "coef_") else None,
            **options,
        )
        return result, self._facts(result) | {"rounds_": result.rounds}


@estimator
class LatentSVM(Alternating, LinearClassifier):
    """Two classes of bags of instances: the instance of highest score decides (MI-SVM).

    Minimises F(w) = 1/2 |w|^2 + C sum_i weight_i max(0, 1 - y_i max_z <w, (x_iz, bias)>) over bags
    i of instances z. F is not convex: each round fixes which instance makes a positive bag
    positive, solves the convex problem that is left to `tol`, and imputes the instances anew. F
    never rises. The result depends on the start, and the certificate is that of the last convex
    problem. For latent parts of other labels see `LatentStructuredSVM`.

    Parameters
    ----------
    {training}
    fit_intercept : bool, default=True
    intercept_scaling : float, default=1.0
        Value of the constant feature; larger means a less regularised intercept.
    class_weight : dict or "balanced", optional
        Factors on C by class.
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

    start: str = "mean"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, lengths: Any = None) -> Self:
        """Fit bags to two classes.

        Parameters
        ----------
        X : list of (n_instances, n_features) arrays or CSR, one stacked matrix, or Source
            A source has a label of its own for each bag.
        y : array of shape (n_bags,)
            Labels of any hashable type.
        sample_weight : array of shape (n_bags,), optional
        lengths : array of int, optional
            Numbers of instances of the bags of a stacked X; without it, each row is a bag.
        """
        if not isinstance(self.start, str) or self.start not in STARTS:
            raise InvalidData(f"start = {self.start!r}: give one of {STARTS}")
        if isinstance(X, Source):
            return self._fit_source(X, y=y, sample_weight=sample_weight, lengths=lengths)
        matrix, offsets = _as_bags(X, lengths)
        classes, codes, weight = self._labelled(y, len(offsets) - 1, sample_weight, "bag")
        columns = columns_of(X, matrix) | {"classes_": self._two(classes)}
        return self._keep(self._fit_bags(matrix, offsets, codes == 1, weight) | columns)

    def _fit_bags(
        self, matrix: Matrix, offsets: np.ndarray, positive: np.ndarray, weight: np.ndarray
    ) -> dict[str, Any]:
        """The fitted attributes, from checked data."""
        X, y = (Checked(matrix), offsets), np.where(positive, 0, -1)
        shape = (1, matrix.shape[1])
        result, fitted = self._alternate(
            LatentProblem,
            Bags(self._bias),
            X,
            y,
            self.C,
            weight,
            self._threads(),
            self._regularizer(shape),
            first_bags(matrix, offsets, positive, self.start, self._seed()),
        )
        latent = complete(Bags(self._bias), X, y, result.w, self._threads())
        chosen = np.asarray(latent, dtype=np.intp)[positive]
        return fitted | {"latent_": chosen} | self._attributes(result.w, shape)

    def _fit_source(self, source: Source, **others: Any) -> Self:
        self._refuse_beside(others)
        classes, n = self._two(self._classes_of(source)), source.n_features or 0
        factors, seed, structure = (
            self._class_factors(source, classes),
            self._seed(),
            Bags(self._bias),
        )
        weighted = self._recode(source, factors)

        def impute(chunk: Chunk, w: np.ndarray | None) -> Chunk:
            chunk = weighted(chunk)
            matrix, offsets = as_stacked(chunk.examples)
            positive = np.asarray(chunk.y) == 1
            if w is None:
                (rows, ends), y = first_bags(matrix, offsets, positive, self.start, seed)
                return replace(chunk, X=rows.matrix, offsets=ends, y=y)
            y = np.where(positive, 0, -1)
            return replace(chunk, y=np.asarray(complete(structure, chunk.examples, y, w)))

        result, fitted = self._alternate(
            StreamedLatentProblem,
            structure,
            source,
            impute,
            self.C,
            self._threads(),
            self._regularizer((1, n)),
        )
        facts = {"classes_": classes, "n_features_in_": n}
        return self._keep(fitted | facts | self._attributes(result.w, (1, n)))

    def _joint_weights(self) -> np.ndarray:
        """The weights of the features and, with an intercept, of the constant one."""
        bias = self._bias
        return np.append(self.coef_[0], self.intercept_ / bias) if bias else self.coef_[0]

    def decision_function(self, X: Any, *, lengths: Any = None) -> np.ndarray:
        """The highest score of each bag's instances: positive for `classes_[1]`."""
        return self._best(X, lengths)[1]

    def predict(self, X: Any, *, lengths: Any = None) -> np.ndarray:
        """The class of each bag."""
        second = self.decision_function(X, lengths=lengths) > 0.0
        return self.classes_[second.astype(np.intp)]

    def predict_latent(self, X: Any, *, lengths: Any = None) -> np.ndarray:
        """The instance of highest score of each bag, counted from 0 in the bag."""
        return self._best(X, lengths)[0]

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, lengths: Any = None) -> float:
        """Share of bags whose class is right."""
        predicted = self.predict(X, lengths=lengths)
        weight = check_sample_weight(sample_weight, len(predicted), unit="bag")
        return share_right(predicted, as_labels(y, len(predicted), unit="bag"), weight)

    def _best(self, X: Any, lengths: Any) -> tuple[np.ndarray, np.ndarray]:
        """The instance of highest score of each bag, and its score."""
        check_is_fitted(self)
        matrix, offsets = _as_bags(X, lengths)
        self._check_columns(X, matrix)
        return best_instances(self._row_scores(matrix)[:, 0], offsets)


def _as_bags(X: Any, lengths: Any) -> tuple[Matrix, np.ndarray]:
    """Bags as one matrix, and where each begins; rows without lengths are bags of one."""
    if lengths is not None or holds_sequences(X):
        return as_sequences(X, lengths)
    matrix = as_matrix(X)
    return matrix, np.arange(matrix.shape[0] + 1)


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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit examples X with labels y, whose latent parts are not looked at.

        A compiled structure begins with the latent parts of y.
        """
        if not isinstance(X, Source):
            self._check(y)
        if getattr(self.structure, "complete", None) is None:
            raise InvalidData(
                f"structure = {self.structure!r} has no complete: subclass taut.LatentStructure, "
                "or use StructuredSVM where nothing is latent"
            )
        if isinstance(X, Source):
            return self._fit_source(X, y=y, sample_weight=sample_weight)
        result, fitted = self._alternate(
            LatentProblem,
            self.structure,
            X,
            y,
            self.C,
            sample_weight,
            self._threads(),
            self._regularizer(None),
        )
        return self._keep(fitted | {"coef_": result.w})

    def _fit_source(self, source: Source, **others: Any) -> Self:
        self._refuse_beside(others)

        def impute(chunk: Chunk, w: np.ndarray | None) -> Chunk:
            labels = source.labels(chunk)
            completed: Any = complete(self.structure, chunk.examples, labels, w)
            return replace(chunk, y=completed)

        result, fitted = self._alternate(
            StreamedLatentProblem,
            self.structure,
            source,
            impute,
            self.C,
            self._threads(),
            self._regularizer(None),
        )
        return self._keep(fitted | {"coef_": result.w})

    def _joint_weights(self) -> np.ndarray:
        return self.coef_

    def complete(self, X: Any, y: Any) -> Any:
        """Labels y with their best latent parts."""
        self._bind(X)
        return complete(self.structure, X, y, self.coef_, self._threads())

    def score(self, X: Any, y: Any) -> float:
        """Minus the mean loss of the predictions: higher is better."""
        return super().score(X, self.complete(X, y))
