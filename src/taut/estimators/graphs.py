"""Labelling of the nodes of trees and graphs."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taut.binding import CompiledData
from taut.data.graphs import Graphs, as_graphs
from taut.data.labels import as_label_sequences, class_index, share_right
from taut.data.source import Source
from taut.data.targets import number_labels
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData
from taut.estimators.base import columns_of, estimator
from taut.estimators.distributions import LabelDistribution, normalizes
from taut.estimators.priors import AttractingRegularizer, LabelMajorRegularizer
from taut.estimators.tables import takes_tables
from taut.structures import Graph, RelaxedGraph, Tree
from taut.structures._pairs import tie_table
from taut.structures.base import CompiledStructure, Structure
from taut.structures.graph_exact import ExactGraph


@estimator
class _NodeLabels(LabelDistribution):
    """What the estimators share: they differ in their structure."""

    loss: str = "hamming"
    pairwise: str = "full"

    _needs_y = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    @takes_tables
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit graphs.

        Parameters
        ----------
        X : list of (features, edges) or (features, edges, edge_features)
            For each graph an (n_nodes, n_features) array or CSR, an (n_edges, 2) array of node
            numbers from 0, and an (n_edges, n_edge_features) array; without edge features each
            edge has the constant feature 1.
        y : list of label sequences, or one stacked sequence
            Labels of the nodes, of any hashable type.
        sample_weight : array of shape (n_graphs,), optional
        """
        if isinstance(X, Source):
            name = type(self).__name__
            raise InvalidData(f"{name} learns from data in memory: give a list of graphs")
        graphs = as_graphs(X)
        self._need(y)
        classes, codes = class_index(as_label_sequences(y, graphs.offsets))
        weight = check_sample_weight(sample_weight, len(graphs.offsets) - 1, unit="graph")
        columns = columns_of(X, graphs.matrix) | {"classes_": classes}
        structure, shape = self._structure(len(classes)), (len(classes), graphs.matrix.shape[1])
        # As a list where it is one: there are solvers that take examples one by one.
        examples = graphs if isinstance(X, Graphs) else list(X)
        labels = np.split(codes, graphs.offsets[1:-1])
        return self._keep(self._train(structure, examples, labels, weight, shape, columns))

    def _structure(self, n_labels: int) -> Structure | CompiledStructure:
        raise NotImplementedError

    def _exact_structure(self, n_labels: int) -> CompiledStructure:
        """The structure where it can rank and sum over all labels; an error where it cannot."""
        raise NotImplementedError

    @property
    def _normalize(self) -> bool:
        return normalizes(self.loss)

    def _regularizer(self, coef_shape: tuple[int, int] | None) -> LabelMajorRegularizer:
        return LabelMajorRegularizer(self.prior_mean, self.prior_precision, self.nonneg, coef_shape)

    def _attributes(self, w: np.ndarray, coef_shape: Any) -> dict[str, np.ndarray]:
        n_labels, n_features = coef_shape
        nodes, pairs = np.split(w, [n_labels * n_features])
        coef = nodes.reshape(coef_shape).copy()
        return {"coef_": coef} | self._tail_attributes(pairs, n_labels)

    def _tail_attributes(self, tail: np.ndarray, columns: int) -> dict[str, np.ndarray]:
        n_ties = tie_table(columns, self.pairwise)[1]
        return {"pairwise_": tail.reshape(-1, n_ties).copy()}

    def _tail(self) -> np.ndarray:
        return self.pairwise_.ravel()

    def _joint_weights(self) -> np.ndarray:
        """W of the fitted attributes: the inverse of `_attributes`."""
        return np.concatenate([self.coef_.ravel(), self._tail()])

    _position_weights = _joint_weights

    @property
    def pair_weights_(self) -> np.ndarray:
        """Weights of all pairs of labels, the label of an edge's first node first."""
        tie = self._tie()
        padded = np.column_stack([self.pairwise_, np.zeros(len(self.pairwise_))])
        return padded[:, tie]

    def _tie(self) -> np.ndarray:
        """Which column of `pairwise_` a pair of labels has; -1 for none."""
        check_is_fitted(self)
        tie, n_ties = tie_table(len(self.classes_), self.pairwise)
        if n_ties != self.pairwise_.shape[1]:
            raise InvalidData(
                f"pairwise = {self.pairwise!r} needs {n_ties} weights of pairs, the fitted model "
                f"has {self.pairwise_.shape[1]}: set it to what it was, or fit again"
            )
        return tie

    def predict(self, X: Any) -> list[np.ndarray]:
        """The best labels, one array per graph."""
        return self._by_example(*self._labels(X), X)

    @takes_tables
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of nodes whose label is right."""
        predicted, offsets = self._labels(X)
        truth = as_label_sequences(y, offsets)
        weight = check_sample_weight(sample_weight, len(offsets) - 1, unit="graph")
        return share_right(predicted, truth, np.repeat(weight, np.diff(offsets)))

    def _labels(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The best labels of all nodes, and where each graph begins."""
        graphs = self._graphs(X)
        data, w = self._form.bound(self, self._structure(len(self.classes_)), graphs)
        labels = data.predict(w.astype(data.dtype, copy=False), self._threads())
        return self.classes_[np.concatenate(labels)], graphs.offsets

    def _graphs(self, X: Any) -> Graphs:
        """X, checked, with the features that fit saw."""
        self._tie()
        graphs = as_graphs(X)
        self._check_columns(X, graphs.matrix)
        given, seen = graphs.edge_matrix.shape[1], len(self.pairwise_)
        if given != seen:
            raise InvalidData(
                f"X has {given} edge features, but {type(self).__name__} is expecting {seen}: give "
                "the edge features that fit saw"
            )
        return graphs

    def _bound(self, X: Any, y: Any = None) -> tuple[CompiledData, np.ndarray]:
        graphs = self._graphs(X)
        codes = y
        if y is not None:
            codes = number_labels(as_label_sequences(y, graphs.offsets), self.classes_)
        structure = self._exact_structure(len(self.classes_))
        return self._form.bound(self, structure, graphs, codes)

    def _by_example(self, values: np.ndarray, offsets: np.ndarray, X: Any) -> list[np.ndarray]:
        return np.split(values, offsets[1:-1])


@estimator
class TreeSVM(_NodeLabels):
    """Labels for the nodes of trees and forests: weights per label, and per pair along an edge.

    Minimises P(w) = 1/2 |w|^2 + C sum_i weight_i max_y [loss(y_i, y) - score(y_i) + score(y)] with
    score(y) = sum_t <coef[y_t], x_t> + sum over edges (u, v) of <f_uv, pair_weights[:, y_u, y_v]>,
    where f_uv are the features of the edge.

    Parameters
    ----------
    {training}
    {node_parameters}

    Attributes
    ----------
    {node_attributes}
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from taut import TreeSVM
    >>> X = [(np.eye(3), [[0, 1], [0, 2]]), (np.eye(3)[:2], [[0, 1]])]
    >>> y = [["root", "leaf", "leaf"], ["root", "leaf"]]
    >>> model = TreeSVM(C=10.0, random_state=0).fit(X, y)
    >>> [list(labels) for labels in model.predict(X)] == y
    True
    """

    def _structure(self, n_labels: int) -> CompiledStructure:
        return Tree(n_labels, self.pairwise, self._normalize)

    _exact_structure = _structure


@estimator
class GraphSVM(_NodeLabels):
    """Labels for the nodes of graphs: weights per label, and per pair along an edge.

    Minimises P(w) = 1/2 |w|^2 + C sum_i weight_i max_y [loss(y_i, y) - score(y_i) + score(y)] with
    score(y) = sum_t <coef[y_t], x_t> + sum over edges (u, v) of <f_uv, pair_weights[:, y_u, y_v]>,
    where f_uv are the features of the edge.

    Parameters
    ----------
    {training}
    {node_parameters}
    inference : {{"exact", "cut", "relaxed"}}, default="exact"
        How the best labels are found: by junction trees; by minimum cuts, for two labels; or by
        linear programs, whose solutions are rounded (`is_integral`). See `taut.structures.Graph`.
        Cuts need neighbours that attract each other. With `pairwise="potts"` the weights of pairs
        are kept from being negative, beside what `nonneg` says, and edge features must not be
        negative either. Only exact inference gives `predict_top` and `predict_marginals`.
    max_table : int, default=2**20
        How many entries a table of exact inference may have. Tables grow exponentially with the
        tree-width of a graph.

    Attributes
    ----------
    {node_attributes}
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from taut import GraphSVM
    >>> square = [[0, 1], [1, 2], [2, 3], [3, 0]]
    >>> X = [(np.eye(4), square), (np.eye(4)[::-1], square)]
    >>> y = [["sky", "sky", "sea", "sea"], ["sea", "sea", "sky", "sky"]]
    >>> model = GraphSVM(C=10.0, pairwise="potts", random_state=0).fit(X, y)
    >>> model.score(X, y)
    1.0
    """

    inference: str = "exact"
    max_table: int = 2**20

    def _structure(self, n_labels: int) -> Structure | CompiledStructure:
        return Graph(n_labels, self.pairwise, self._normalize, self.inference, self.max_table)

    def _exact_structure(self, n_labels: int) -> CompiledStructure:
        if self.inference != "exact":
            raise InvalidData(
                f"inference = {self.inference!r} finds the best labels only: neither sums over all "
                "labels, which probabilities are made of, nor the next best ones. Call "
                "set_params(inference='exact') first, which needs no new fit, where junction "
                "trees are small enough; otherwise there is predict alone"
            )
        return ExactGraph(n_labels, self.pairwise, self._normalize, self.max_table)

    def _check_kernel(self, kernel: Any) -> None:
        if self.inference != "exact":
            raise InvalidData(
                f"inference = {self.inference!r} and kernel = {self.kernel!r}: kernels need exact "
                "inference; set inference='exact', or kernel='linear'"
            )

    def _regularizer(self, coef_shape: tuple[int, int] | None) -> LabelMajorRegularizer:
        attracts = self.inference == "cut" and self.pairwise == "potts"
        kind = AttractingRegularizer if attracts else LabelMajorRegularizer
        return kind(self.prior_mean, self.prior_precision, self.nonneg, coef_shape)

    def is_integral(self, X: Any) -> np.ndarray:
        """Of which graphs `predict` gives the best labels, without having rounded any.

        The relaxation may find shares of labels, which `predict` rounds to the largest one: the
        labels are then good, and others may be better. `is_integral(X).mean()` is the share of
        graphs where nothing was rounded. With other inference that is all of them.

        Parameters
        ----------
        X
            As for `predict`.

        Returns
        -------
        ndarray of bool, shape (n_graphs,)

        Examples
        --------
        Neighbours learn to differ: on a path they can, on a triangle not all of them.

        >>> import numpy as np
        >>> from taut import GraphSVM
        >>> x = np.array([[1.0], [0.0], [0.0]])
        >>> path, triangle = [[0, 1], [1, 2]], [[0, 1], [1, 2], [0, 2]]
        >>> model = GraphSVM(C=10.0, pairwise="potts", inference="relaxed", random_state=0)
        >>> model.fit([(x, path)], [[0, 1, 0]]).is_integral([(x, path), (0 * x, triangle)])
        array([ True, False])
        """
        graphs = self._graphs(X)
        if self.inference != "relaxed":
            return np.ones(len(graphs.offsets) - 1, dtype=bool)
        structure = RelaxedGraph(len(self.classes_), self.pairwise)
        w = self._joint_weights()
        found = (structure.bounded_argmax(x, w)[0] for x in structure.examples(graphs))
        return np.array([structure.is_integral(label) for label in found])
