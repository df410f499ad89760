"""Any labels, through a joint kernel of pairs of an example and a label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from taut.data.memory import as_bytes
from taut.errors import InvalidData, InvalidStructure, InvalidType
from taut.kernels.pairs import PairFunction, PairKernel
from taut.structures.base import Structure


def _wrong(truth: Any, label: Any) -> float:
    return float(truth != label)


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
        twice; where it is full, pairs go that have never had weight, or training ends with an
        error. The other half is for values of other labels, which are computed again beyond that.

    Dual variables belong to the table of pairs of one problem: a checkpoint or a warm start of
    another fit is refused.

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

    points: ClassVar[str] = "pairs"

    def __init__(
        self,
        kernel: Callable | PairKernel,
        labels: Sequence[Any] | Callable | None = None,
        argmax: Callable | None = None,
        loss: Callable | None = None,
        memory: int | str = "500MB",
    ) -> None:
        if (labels is None) == (argmax is None):
            raise InvalidData(
                "JointKernel needs to find labels: give either labels, a list or a function of an "
                "example, or argmax(x, w, truth)"
            )
        if argmax is not None and not callable(argmax):
            raise InvalidType(f"argmax = {argmax!r}: give a function of x, w and truth")
        self.kernel = kernel if isinstance(kernel, PairKernel) else PairFunction(kernel)
        self.memory = as_bytes(memory, "memory")
        self._labels = labels
        self._argmax = argmax
        self._loss = _wrong if loss is None else loss
        #: None where labels are searched for: then nobody lists them.
        self.labels = None if labels is None else self._listed
        self.m_best = None if labels is None else self._best

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
        """Not written down."""
        raise InvalidStructure(
            "JointKernel has no features that could be written down: pairs are compared by kernel"
        )

    def loss(self, truth, label):
        """What the user says, or 1 for a wrong label."""
        return self._loss(truth, label)

    def argmax(self, x: Any, w: Any, truth: Any = None) -> Any:
        """The best of all labels, or what the user's search finds."""
        if self._argmax is not None:
            return self._argmax(x, w, truth)
        return self._best(x, w, truth, 1)[0]

    def _best(self, x: Any, w: Any, truth: Any, count: int) -> list[Any]:
        """Labels of highest score, plus loss if there is a truth, best first."""
        labels = self._listed(x)
        values = np.array(w.scores(x, labels))
        if truth is not None:
            values += [self._loss(truth, label) for label in labels]
        return [labels[k] for k in np.argsort(-values, kind="stable")[:count].tolist()]
