"""Any labels, through a joint kernel of pairs of an example and a label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from taut.checks import check_flag
from taut.data.memory import as_bytes
from taut.errors import InvalidData, InvalidStructure, InvalidType
from taut.kernels.pair_stores import key_of
from taut.kernels.pairs import PairFunction, PairKernel, pairs_of
from taut.structures.base import Structure


def _wrong(truth: Any, label: Any) -> float:
    return float(truth != label)


class WrittenWeights:
    """Weights of features that are written down, as something that scores labels."""

    def __init__(self, kernel: PairKernel, w: np.ndarray) -> None:
        self._kernel, self._w = kernel, w

    def scores(self, x: Any, labels: Sequence[Any]) -> np.ndarray:
        """<w, phi(x, label)> of each label."""
        return self._kernel.written_scores(self._w, pairs_of(self._kernel, x, labels))


class JointKernel(Structure):
    """Labels that are compared, with their examples, by K((x, y), (x', y')).

    w = sum_e b_e Phi(x_e, y_e) over pairs that training finds, and the score of a label is the sum
    of b_e K((x, y), (x_e, y_e)). Give either a list of `labels`, or an `argmax` that searches.

    Parameters
    ----------
    kernel : callable or PairKernel
        A function of two lists of pairs (x, label), see `taut.kernels.PairFunction`, or a product
        of a kernel on features and one on labels, `taut.kernels.PairProduct`.
    labels : sequence or callable, optional
        All labels, or labels(x), those of an example.
    argmax : callable, optional
        argmax(x, w, truth) returns the label of highest score, plus loss(truth, label) unless the
        truth is None. w.scores(x, labels) are the scores of some labels, in an array.
    loss : callable, optional
        loss(truth, label) >= 0; 1 for a wrong label by default.
    memory : int or str, default="500MB"
        For kernel values. Half of it is for the matrix of pairs in use, which is never computed
        twice; where it is full, pairs go that have never had weight, or training ends with the
        best model so far. The other half is for values of other labels, which are computed again
        beyond that.
    explicit : bool, default=False
        Write features down where the kernel has finitely many: a product of `Linear()` and
        `ClassSimilarity` or `VonMisesLabels`. w is an array of weights then, and all solvers,
        priors, streams and checkpoints apply. For classes, `SimilarClasses` is the same compiled.
    sample : callable, optional
        sample(x, w, truth, count) returns up to `count` labels, that of highest score + loss first,
        for solvers that add several in a visit (`sampler="own"`).

    Without `explicit`, dual variables belong to the table of pairs of one problem: a warm start of
    another fit is refused, and so are checkpoints.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import StructuredSVM
    >>> from taut.kernels import RBF, ClassSimilarity, PairProduct
    >>> from taut.structures import JointKernel
    >>> kernel = PairProduct(RBF(1.0), ClassSimilarity(np.eye(3) + 0.5))
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 1, 2, 0]
    >>> model = StructuredSVM(JointKernel(kernel, labels=range(3)), C=10.0, random_state=0)
    >>> model.fit(X, y).predict(X)
    [0, 1, 2, 0]
    """

    #: Rows of a sparse matrix may be examples: kernels on rows compare them.
    takes_sparse = True

    def __init__(
        self,
        kernel: Callable | PairKernel,
        labels: Sequence[Any] | Callable | None = None,
        argmax: Callable | None = None,
        loss: Callable | None = None,
        memory: int | str = "500MB",
        explicit: bool = False,
        sample: Callable | None = None,
    ) -> None:
        if (labels is None) == (argmax is None):
            raise InvalidData(
                "JointKernel needs to find labels: give either labels, a list or a function of an "
                "example, or argmax(x, w, truth)"
            )
        if argmax is not None and not callable(argmax):
            raise InvalidType(f"argmax = {argmax!r}: give a function of x, w and truth")
        if sample is not None and not callable(sample):
            raise InvalidType(f"sample = {sample!r}: give a function of x, w, truth and count")
        self.kernel = kernel if isinstance(kernel, PairKernel) else PairFunction(kernel)
        self.memory = as_bytes(memory, "memory")
        check_flag("explicit", explicit)
        self.explicit = bool(explicit)
        if explicit and not self.kernel.finite:
            raise InvalidData(
                f"explicit = True writes features down, and {self.kernel!r} does not have finitely "
                "many: give a product of Linear() and ClassSimilarity or VonMisesLabels, or "
                "explicit=False; SimilarClasses has the map of classes alone, beside any kernel on "
                "rows"
            )
        #: What points are: weights, or coefficients of pairs.
        self.points = "weights" if explicit else "pairs"
        self._labels = labels
        self._argmax = argmax
        self._loss = _wrong if loss is None else loss
        #: None where labels are searched for: then nobody lists them.
        self.labels = None if labels is None else self._listed
        self.m_best = None if labels is None else self._best
        self._sample = sample
        self.sample = None if sample is None else self._sampled

    def examples(self, X, y=None):
        """Examples as they are; refuse truths that are not listed."""
        if y is not None and self._labels is not None:
            own = None if callable(self._labels) else {key_of(k) for k in self._listed(None)}
            for i in range(min(len(X), len(y))):
                known = {key_of(k) for k in self._listed(X[i])} if own is None else own
                if key_of(y[i]) not in known:
                    raise InvalidData(
                        f"y[{i}] = {y[i]!r} is none of the labels of JointKernel: list it, or "
                        "leave this example out"
                    )
        return X

    @property
    def searches(self) -> bool:
        """Whether a function of the user's finds labels."""
        return self._argmax is not None

    def _listed(self, x: Any) -> list[Any]:
        """All labels of an example."""
        found = list(self._labels(x) if callable(self._labels) else self._labels or ())
        if not found:
            raise InvalidStructure("labels of JointKernel are none for an example: give some")
        return found

    def features(self, x, label):
        """All products of a feature of Phi with one of the label, where they are written down."""
        if not self.explicit:
            raise InvalidStructure(
                "JointKernel compares pairs by a kernel, and writes no features down: give "
                "explicit=True where the kernel has finitely many"
            )
        (pair,) = pairs_of(self.kernel, x, [label])
        return self.kernel.finite_map(pair)

    def loss(self, truth, label):
        """What the user says, or 1 for a wrong label."""
        return self._loss(truth, label)

    def argmax(self, x: Any, w: Any, truth: Any = None) -> Any:
        """The best of all labels, or what the user's search finds."""
        if self._argmax is not None:
            return self._argmax(x, self._scorer(w), truth)
        return self._best(x, w, truth, 1)[0]

    def _sampled(self, x: Any, w: Any, truth: Any, count: int) -> list[Any]:
        """What the user's function draws."""
        assert self._sample is not None
        return self._sample(x, self._scorer(w), truth, count)

    def _scorer(self, w: Any) -> Any:
        """W as something that scores labels."""
        return WrittenWeights(self.kernel, w) if self.explicit else w

    def _best(self, x: Any, w: Any, truth: Any, count: int) -> list[Any]:
        """Labels of highest score, plus loss if there is a truth, best first."""
        labels = self._listed(x)
        values = np.array(self._scorer(w).scores(x, labels))
        if truth is not None:
            values += [self._loss(truth, label) for label in labels]
        return [labels[k] for k in np.argsort(-values, kind="stable")[:count].tolist()]
