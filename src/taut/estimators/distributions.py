"""What estimators tell beside the best label: the k best ones, and probabilities."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taut.binding import CompiledData
from taut.checks import check_choice
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData
from taut.estimators.base import StructuralEstimator
from taut.estimators.tables import takes_tables
from taut.inference.temperature import likeliest_temperature

_LOSSES = {"hamming": False, "mean_hamming": True}


def normalizes(loss: str) -> bool:
    """Whether the loss of labels at positions is the share of wrong ones, not their number."""
    check_choice("loss", loss, sorted(_LOSSES))
    return _LOSSES[loss]


class LabelDistribution(StructuralEstimator):
    """Estimators whose examples have labels at positions, scored as p ~ exp(score / temperature).

    Methods take what `predict` takes besides X, such as `lengths`, as `layout`.
    """

    classes_: np.ndarray
    temperature_: float

    #: (X, y=None, **layout): checked data bound to the structure, and the weights as float64.
    _bound: Callable[..., tuple[CompiledData, np.ndarray]]
    #: (values, offsets, X, **layout): values of all positions in the form of predictions.
    _by_example: Callable[..., Any]

    @staticmethod
    def _ranked(labels: np.ndarray, scores: np.ndarray, offsets: np.ndarray) -> tuple[Any, Any]:
        """The best labels, (k, positions), and their scores, (examples, k), by example."""
        counts = np.isfinite(scores).sum(axis=1)
        parts = zip(counts, pairwise(offsets), strict=True)
        return (
            [labels[:count, start:stop] for count, (start, stop) in parts],
            [row[:count] for count, row in zip(counts, scores, strict=True)],
        )

    @takes_tables
    def predict_top(self, X: Any, k: int = 5, **layout: Any) -> tuple[Any, Any]:
        """The k labels of highest score of each example, best first, with their scores.

        Parameters
        ----------
        X
            As for `predict`.
        k : int, default=5
            How many; an example that has fewer labels gives all of them.
        **layout
            What `predict` takes besides X, such as `lengths`.

        Returns
        -------
        labels
            An array of shape (k, length) for each example; where examples are single rows, one
            array of shape (n, k).
        scores
            An array of shape (k,) for each example; where they are single rows, one of shape
            (n, k).

        Examples
        --------
        >>> import numpy as np
        >>> from taut import ChainSVM
        >>> noun, verb = [1.0, -1.0], [-1.0, 1.0]
        >>> X = [np.array([noun, verb, noun]), np.array([verb, noun])]
        >>> model = ChainSVM(random_state=0).fit(X, [["noun", "verb", "noun"], ["verb", "noun"]])
        >>> labels, scores = model.predict_top(X[1:], k=2)
        >>> labels[0]
        array([['verb', 'noun'],
               ['verb', 'verb']], dtype='<U4')
        """
        wanted: Any = k
        if not isinstance(wanted, Integral) or int(wanted) < 1:
            raise InvalidData(f"k = {wanted!r}: give the number of wanted labels, at least 1")
        data, w = self._bound(X, **layout)
        codes, scores = data.m_best(w.astype(data.dtype, copy=False), int(wanted), self._threads())
        return self._ranked(self.classes_[codes], scores, data.blocks.offsets)

    @takes_tables
    def predict_marginals(self, X: Any, temperature: float | str = "fitted", **layout: Any) -> Any:
        """Probabilities of the labels at each position, p(label) ~ exp(score / temperature).

        The scores of an SVM are no log-probabilities: training asks that mistakes lose by a margin,
        not that scores match frequencies. The temperature is one number that mends their scale
        afterwards, on data that training has not seen. It does not change what `predict` returns.

        Parameters
        ----------
        X
            As for `predict`.
        temperature : "fitted" or float, default="fitted"
            What `fit_temperature` has found, or a positive number: near 0 the best label has all
            probability, and large ones make labels equally probable.
        **layout
            What `predict` takes besides X, such as `lengths`.

        Returns
        -------
        list of arrays of shape (length, n_labels), or one array
            In the form in which `predict` gives labels; columns are in the order of `classes_`.
            Rows sum to 1.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from taut import MulticlassSVM
        >>> X, y = load_iris(return_X_y=True)
        >>> model = MulticlassSVM(random_state=0).fit(X[::2], y[::2])
        >>> model.predict_marginals(X[:1], temperature=1.0).round(2)
        array([[0.82, 0.18, 0.  ]])
        >>> model.fit_temperature(X[1::2], y[1::2]).predict_marginals(X[:1]).round(2)
        array([[1., 0., 0.]])
        """
        check_is_fitted(self)
        return self._marginals(X, self._temperature(temperature), **layout)

    def _marginals(self, X: Any, temperature: Any, **layout: Any) -> Any:
        data, w = self._bound(X, **layout)
        w = w.astype(data.dtype, copy=False)
        marginals, _ = data.marginals(w, temperature, self._threads())
        return self._by_example(marginals, data.blocks.offsets, X, **layout)

    @takes_tables
    def fit_temperature(self, X: Any, y: Any, sample_weight: Any = None, **layout: Any) -> Self:
        """Find the temperature under which held-out labels are most probable.

        It is kept as `temperature_` until the next fit. Give data that `fit` has not seen: on its
        training data an SVM is surer than elsewhere. The search is between 0.001 and 1000.

        Parameters
        ----------
        X, y
            As for `fit`, with labels that occurred there.
        sample_weight : array of shape (n_examples,), optional
        **layout
            What `predict` takes besides X, such as `lengths`.

        Returns
        -------
        self

        Warns
        -----
        TemperatureAtBound
            The likelihood still rises where the search ends, as it does where no label of the
            held-out data is wrong.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from taut import MulticlassSVM
        >>> X, y = load_iris(return_X_y=True)
        >>> model = MulticlassSVM(random_state=0).fit(X[::2], y[::2])
        >>> round(model.fit_temperature(X[1::2], y[1::2]).temperature_, 2)
        0.19
        """
        n, log_likelihoods = self._log_likelihoods(X, y, **layout)
        weight = check_sample_weight(sample_weight, n, unit="example")
        self.temperature_ = likeliest_temperature(log_likelihoods, weight)
        return self

    def _log_likelihoods(
        self, X: Any, y: Any, **layout: Any
    ) -> tuple[int, Callable[[float], np.ndarray]]:
        """The number of examples, and the log-likelihoods of their labels by temperature."""
        data, w = self._bound(X, y, **layout)
        return data.n_blocks, lambda temperature: data.log_likelihoods(
            w, temperature, self._threads()
        )

    def _temperature(self, given: float | str) -> Any:
        """The temperature that a parameter means."""
        if not isinstance(given, str):
            return given
        if given != "fitted":
            raise InvalidData(f"temperature = {given!r}: give 'fitted' or a positive number")
        if not hasattr(self, "temperature_"):
            raise InvalidData(
                "temperature = 'fitted', and none has been fitted since the last fit: call "
                "fit_temperature(X, y) with data that fit has not seen, or give a number"
            )
        return self.temperature_
