"""What a label is: the two forms in which a structure is written.

A block is a training example (x, truth). With the joint features phi(x, label) and a loss,

    psi(label) = phi(x, truth) - phi(x, label),        violation(label) = loss - <w, psi(label)>.

`Structure` is plain Python, three methods. `CompiledStructure` is the same thing as a few functions
that Numba compiles; labels are then rows of int32. Both are told apart by what they `bind` to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numba
import numpy as np
from numba import types

from taut._jit import pointer
from taut.errors import InvalidData, InvalidStructure


class Structure(ABC):
    """A structure in plain Python: subclass it and write three methods.

    `features` returns phi(x, label) as a 1-D array of fixed length; `loss` is non-negative and zero
    for the truth; `argmax` maximises <w, phi(x, label)>, plus loss(truth, label) when a truth is
    given. `taut.check_structure` tests these laws on your data.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Structure, StructuredSVM
    >>> class Ordinal(Structure):
    ...     "Grades 0..3; a mistake costs its distance."
    ...     def features(self, x, label):
    ...         return np.concatenate([label * x, np.arange(4) == label])
    ...     def loss(self, truth, label):
    ...         return abs(truth - label)
    ...     def argmax(self, x, w, truth=None):
    ...         scores = [w @ self.features(x, g) for g in range(4)]
    ...         if truth is not None:
    ...             scores = [s + self.loss(truth, g) for g, s in enumerate(scores)]
    ...         return int(np.argmax(scores))
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = StructuredSVM(Ordinal(), C=10.0, random_state=0).fit(X, [0, 1, 2, 3])
    >>> model.predict(X)
    [0, 1, 2, 3]
    """

    @abstractmethod
    def features(self, x: Any, label: Any) -> np.ndarray:
        """phi(x, label), a 1-D array whose length is the same for all inputs."""

    @abstractmethod
    def loss(self, truth: Any, label: Any) -> float:
        """How bad `label` is when `truth` is right: >= 0, and 0 for the truth itself."""

    @abstractmethod
    def argmax(self, x: Any, w: np.ndarray, truth: Any = None) -> Any:
        """The label of highest <w, phi(x, label)>, plus its loss when a truth is given."""


@dataclass(frozen=True)
class Blocks:
    """Data of a compiled structure, ready for compiled code.

    Attributes
    ----------
    data : tuple
        Arrays and numbers, possibly nested tuples of them, passed to every oracle.
    n_features : int
        Length of w.
    offsets : ndarray of int64, shape (n_blocks + 1,)
        Block i's label has `offsets[i + 1] - offsets[i]` integers.
    truth : ndarray of int32, shape (offsets[-1],)
        The true labels, one after the other.
    work_size : int
        Length of the scratch array that oracles may use; `prepare` fills it.
    """

    data: tuple
    n_features: int
    offsets: np.ndarray
    truth: np.ndarray
    work_size: int = 1

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.offsets) - 1

    @property
    def label_size(self) -> int:
        """Length of the longest label."""
        return int(np.diff(self.offsets).max())


def as_codes(y: Any, n: int, n_labels: int) -> np.ndarray:
    """Label codes 0..n_labels - 1 of n rows as int32; zeros when there is no y."""
    if y is None:
        return np.zeros(n, dtype=np.int32)
    codes = np.asarray(y)
    if codes.shape != (n,) or codes.dtype.kind not in "iu":
        raise InvalidData(
            f"y has shape {codes.shape} and dtype {codes.dtype}, X has {n} rows: give one integer "
            "to each"
        )
    wrong = (codes < 0) | (codes >= n_labels)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidData(
            f"y[{row}] = {codes[row]} is no label of 0..{n_labels - 1}: number the labels from 0, "
            "or raise their number in the structure"
        )
    return codes.astype(np.int32, copy=False)


class Oracles(NamedTuple):
    """Function pointers of a compiled structure for one type of data; see `CompiledStructure`."""

    prepare: Any
    argmax: Any
    loss: Any
    score: Any
    add_features: Any


_W = types.float64[::1]
_LABEL = types.int32[::1]
_LABELS = types.int32[:, ::1]


def _signatures(data: types.Type) -> dict[str, Any]:
    number, index = types.float64, types.int64
    return {
        "prepare": types.void(data, index, _W, _W),
        "argmax": number(data, index, _W, _W, number, _LABEL),
        "loss": number(data, index, _LABEL),
        "score": number(data, index, _W, _W, _LABEL),
        "add_features": types.void(data, index, _LABELS, _W, _W),
        "inner": number(data, index, _LABEL, _LABEL),
        "exact_step": types.UniTuple(number, 3)(data, index, _W, number, number, _W, _W),
    }


class CompiledStructure(ABC):
    """A structure whose oracles are compiled: no Python runs per step.

    Subclasses write static functions in the part of Python that Numba compiles. `data` is the tuple
    that `encode` made, `i` the block, `label` an int32 row, `w` and `work` float64 rows:

    - `argmax(data, i, w, work, loss_weight, label)` writes the label of highest
      score + loss_weight * loss into `label` and returns that value;
    - `loss(data, i, label)`;
    - `score(data, i, w, work, label)` returns <w, phi(x_i, label)>;
    - `add_features(data, i, labels, scales, w)` adds sum_q scales[q] phi(x_i, labels[q]) to w.

    Optional, for speed:

    - `prepare(data, i, w, work)` computes what `argmax` and `score` share for one block and one w,
      typically the potentials, into `work`;
    - `inner(data, i, a, b)` returns <psi_i(a), psi_i(b)>;
    - `exact_step(data, i, work, weight, stiffness, alpha, change)`, for structures with few labels:
      after `prepare`, maximises the block's dual over the weights `alpha` of all `n_labels` labels,
      writes how they changed into `change`, and returns the block's duality gap before the step,
      the change of its summed loss, and |sum_q change[q] psi(q)|^2. Row q of `all_labels` is the
      label of alpha[q]. Needs `inner`.

    And methods that carry data in and predictions out: `encode`, `decode`.
    """

    argmax: ClassVar[Callable]
    loss: ClassVar[Callable]
    score: ClassVar[Callable]
    add_features: ClassVar[Callable]
    inner: ClassVar[Callable | None] = None
    exact_step: ClassVar[Callable | None] = None

    @staticmethod
    def prepare(data, i, w, work):
        """Nothing to share between oracle calls unless a subclass says so."""

    @abstractmethod
    def encode(self, X: Any, y: Any = None) -> Blocks:
        """Blocks for compiled code; without y, for prediction only."""

    @abstractmethod
    def decode(self, labels: np.ndarray, offsets: np.ndarray) -> Sequence[Any]:
        """User's labels from the flat int32 labels of all blocks."""

    @property
    def all_labels(self) -> np.ndarray:
        """Labels in the order of `exact_step`'s alpha, shape (n_labels, label size)."""
        raise InvalidStructure(
            f"{type(self).__name__} has exact_step but no all_labels: "
            "return an int32 array of shape (n_labels, label size)"
        )

    def oracles(self, data: tuple) -> Oracles:
        """The required oracles as function pointers for this type of data."""
        return Oracles(*(self.oracle(name, data) for name in Oracles._fields))

    def oracle(self, name: str, data: tuple) -> Any:
        """One oracle as a function pointer, or None if the structure does not have it."""
        function = getattr(self, name, None)
        if function is None:
            if name in Oracles._fields:
                raise InvalidStructure(
                    f"{type(self).__name__} has no {name}: write it as a static method, "
                    f"see taut.CompiledStructure"
                )
            return None
        return pointer(function, _signatures(numba.typeof(data))[name])
