"""What a label is: the two forms in which a structure is written.

A block is a training example (x, truth). With the joint features phi(x, label) and a loss,

    psi(label) = phi(x, truth) - phi(x, label),        violation(label) = loss - <w, psi(label)>.

`Structure` is plain Python, three methods. `CompiledStructure` is the same thing as a few functions
that Numba compiles; labels are then rows of int32. Both are told apart by what they `bind` to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from taut.compiled.label_rows import Listed
from taut.data.arrays import Matrix, as_matrix
from taut.errors import InvalidData, InvalidStructure
from taut.result import THE_OBJECTIVE
from taut.spaces.features import Features
from taut.spaces.linear import OwnMap, SpaceFunctions


class Structure(ABC):
    """A structure in plain Python: subclass it and write three methods.

    `features` returns phi(x, label) as a 1-D array of fixed length; `loss` is non-negative and zero
    for the truth; `argmax` maximises <w, phi(x, label)>, plus loss(truth, label) when a truth is
    given. `taut.check_structure` tests these laws on your data.

    A loss that depends on the example as well is written `loss(self, truth, label, x)`.

    Where no argmax is exact, write `bounded_argmax` as well: it tells how far from the best its
    label may be, and the certificate stays true.

    Solvers that work on several labels in a visit (`taut.sampling`) use what there is of these
    optional methods, which all return lists of labels: `sample(x, w, truth, count)`, up to `count`
    labels that are worth a visit, none twice, that of highest <w, phi(x, label)> + loss first;
    `labels(x)`, all labels of x; `m_best(x, w, truth, count)`, the `count` labels of highest
    <w, phi(x, label)> + loss, best first.

    Attributes
    ----------
    scores_predict : bool
        Whether the label of highest <w, phi(x, label)> is the prediction.
    certifies : str
        Which objective the bounds of a fit belong to, `Certificate.of`.

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

    scores_predict: ClassVar[bool] = True
    certifies: ClassVar[str] = THE_OBJECTIVE

    def examples(self, X: Any, y: Any = None) -> Sequence[Any]:
        """Examples as the other methods see them: those that the user gives, as they are."""
        return X

    @abstractmethod
    def features(self, x: Any, label: Any) -> np.ndarray:
        """phi(x, label), a 1-D array whose length is the same for all inputs."""

    @abstractmethod
    def loss(self, truth: Any, label: Any) -> float:
        """How bad `label` is when `truth` is right: >= 0, and 0 for the truth itself."""

    @abstractmethod
    def argmax(self, x: Any, w: np.ndarray, truth: Any = None) -> Any:
        """The label of highest <w, phi(x, label)>, plus its loss when a truth is given."""

    def bounded_argmax(self, x: Any, w: np.ndarray, truth: Any = None) -> tuple[Any, float]:
        """A label, and how far the best value may at most lie above that label's.

        This is what training asks. The value is <w, phi(x, label)>, plus the loss when a truth is
        given. By default the label is that of `argmax`, and nothing lies above it.
        """
        return self.argmax(x, w, truth), 0.0


@dataclass(frozen=True)
class Blocks:
    """Data of a compiled structure, ready for compiled code.

    Attributes
    ----------
    data : tuple
        Arrays and numbers, possibly nested tuples of them, passed to every oracle.
    features : RowFeatures or OwnFeatures
        How potentials are made of w.
    offsets : ndarray of int64, shape (n_blocks + 1,)
        Block i's label has `offsets[i + 1] - offsets[i]` integers.
    truth : ndarray of int32, shape (offsets[-1],)
        The true labels, one after the other.
    work_size : int
        Length of the array that oracles get: the potentials, and room for what they compute. As
        many numbers as a block has potentials, by default.
    n_labels, label_stride : int
        Where a label is one of `n_labels` for each of some positions t, its integer number t, and
        the score of label k at position t is work[t * label_stride + k], alone or
        beside scores of several positions together. 0 for labels of another kind.
    mean_offsets : ndarray of int64, shape (n_blocks + 1,), optional
        Block i's mean, in structures that have `expect`, has
        `mean_offsets[i + 1] - mean_offsets[i]` numbers. Where there are positions it begins with
        their marginals: mean[t * label_stride + k] is the probability of label k at position t.
    """

    data: tuple
    features: Features
    offsets: np.ndarray
    truth: np.ndarray
    work_size: int = 0
    n_labels: int = 0
    label_stride: int = 0
    mean_offsets: np.ndarray | None = None
    #: Lengths of the longest label and of the longest mean, 0 in structures without `expect`.
    label_size: int = field(init=False)
    mean_size: int = field(init=False)

    def __post_init__(self) -> None:
        means, truth = self.mean_offsets, self.truth
        if truth.ndim != 1 or truth.dtype.kind not in "iu" or len(truth) != self.offsets[-1]:
            raise InvalidStructure(
                f"encode returns Blocks whose truth has shape {truth.shape} and dtype "
                f"{truth.dtype}, and whose offsets end with {self.offsets[-1]}: give the integers "
                "of all truths one after the other, as many as that, and X and y of one length"
            )
        object.__setattr__(self, "truth", np.ascontiguousarray(truth, dtype=np.int32))
        object.__setattr__(self, "label_size", _longest(self.offsets))
        object.__setattr__(self, "mean_size", 0 if means is None else _longest(means))
        object.__setattr__(self, "work_size", max(self.work_size, self.features.n_potentials))

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.offsets) - 1


def _longest(offsets: np.ndarray) -> int:
    """The length of the longest of some ranges, one after the other."""
    return int((offsets[1:] - offsets[:-1]).max())


def as_stacked(X: Any) -> tuple[Matrix, np.ndarray]:
    """A stacked matrix and the offsets of its blocks, checked."""
    matrix, offsets = as_matrix(X[0]), np.asarray(X[1], dtype=np.int64)
    if offsets[0] != 0 or offsets[-1] != matrix.shape[0] or (np.diff(offsets) < 1).any():
        raise InvalidData(
            f"offsets run from {offsets[0]} to {offsets[-1]}, X has {matrix.shape[0]} rows: "
            "they must begin with 0, rise, and end with the number of rows"
        )
    return matrix, offsets


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
    """The functions of a compiled structure; see `CompiledStructure`."""

    argmax: Callable  # the label of highest score plus loss
    loss: Callable  # of a label
    parts: Callable  # of a label: the potentials that it is made of
    prefetch: Callable  # ask for data that are needed soon
    exact_step: Callable | None = None  # the best weights of all labels of a block
    sample: Callable | None = None  # labels that are worth a visit
    complete: Callable | None = None  # the best latent part of a truth
    expect: Callable | None = None  # the mean of a distribution over labels
    normalise: Callable | None = None  # the mean that is nearest to some numbers
    mean_of: Callable | None = None  # of a single label
    mean_loss: Callable | None = None  # of a mean
    spread: Callable | None = None  # the statistics of a mean


#: What a structure with `expect` has besides.
EXPECTATION = ("expect", "normalise", "mean_of", "mean_loss", "spread")

#: What loops are built around: the oracles of a structure and the functions of a space.
Operations = cast(Any, namedtuple("Operations", Oracles._fields + SpaceFunctions._fields))


class CompiledStructure(ABC):
    """A structure whose oracles are compiled: no Python runs per step.

    A block has *potentials*, numbers that the score of any of its labels is a sum of. Which they
    are is said by `Blocks.features`: the products of the block's rows with the columns of w, and
    a part of w that all blocks share. So structures see potentials, and never w.

    Subclasses write static functions in the part of Python that Numba compiles. `data` is the tuple
    that `encode` made, `i` the block, `label` an int32 row, and `work` a row of the type of w while
    training, or of float64 when a certificate is computed, which begins with the potentials:

    - `argmax(data, i, work, loss_weight, label)` writes the label of highest
      score + loss_weight * loss into `label` and returns that value. What follows the potentials
      in `work` is free to use;
    - `loss(data, i, label)`;
    - `parts(data, i, label, each)` adds up `taut.structures.part(each, index, amount)` over the
      potentials that the score of a label consists of, by their numbers in `work` and how often
      they count, and returns the sum. Scores, features and their inner products are made by it.

    Optional, for speed:

    - `prefetch(data, i)` asks the processor for block i's data, which will be needed soon;
    - `exact_step(data, i, work, square, weight, stiffness, alpha, statistics)`, for structures with
      few labels and one row per block, whose squared length is `square`: maximises the block's dual
      over the weights `alpha` of all `n_labels` labels, writes sum_q change[q] s(q) of their
      changes into `statistics`, of float64 in the layout of potentials, and returns the block's
      duality gap before the step, the change of its summed loss, and |sum_q change[q] psi(q)|^2.
      Row q of `all_labels` is the label of alpha[q]. What it never writes is zero.

    For solvers that work on several labels in a visit, where the structure knows which are worth it
    (`taut.sampling`):

    - `sample(data, i, work, loss_weight, seed, found)` writes the label of
      highest score + loss_weight * loss into found[0], other labels into further rows, none twice,
      and returns how many there are, at most len(found). What it draws at random depends on
      `seed` alone, an int64 >= 0. The potentials in `work` stay as they are.

    For labels with a latent part:

    - `complete(data, i, work, label)` gets the truth of block i in `label` and writes its best
      latent part into it; the data are encoded without truths. See `taut.LatentStructure`.

    For expectations, where phi(x_i, label) = A_i s(label) and s(label) consists of indicators of
    the parts of a label. A *mean* is the expectation of such indicators under some distribution
    over labels, an array of the type of w; what is linear in means takes differences of means too:

    - `expect(data, i, work, temperature, loss_weight, base, mean)` writes the
      mean of p(label) proportional to base(label) exp((score + loss_weight loss) / temperature) and
      returns temperature times the logarithm of the sum of all these. `base` is the mean of a
      distribution that factors as labels do, whose zeros count as tiny numbers, or empty for
      base(label) = 1. The potentials in `work` stay as they are;
    - `normalise(data, i, mean)` makes a mean of numbers >= 0 in the form of one, such that it is
      that of a distribution whatever rounding did to it; a mean stays what it is;
    - `mean_of(data, i, label, mean)` writes the mean of a single label;
    - `mean_loss(data, i, mean)` returns the expected loss;
    - `spread(data, i, mean, statistics)` writes how often potentials count on average, in their
      layout: all that `parts` adds up for a label.

    Features of another kind than rows times columns have `OwnFeatures`, and two more functions:

    - `pull(data, i, w, work)` writes the potentials of block i to the beginning of `work`;
    - `push(data, i, statistics, w)` adds to w what has these potentials: each of its numbers times
      the features that it is the product of w with.

    And methods that carry data in and predictions out: `encode`, `decode`; where data are arrays by
    block, also `take`, so that blocks which are kept in memory need not be encoded again.

    Attributes
    ----------
    allocates : bool
        Whether an oracle makes arrays. Where none does, say so: calls then cost less.
    signed_losses : bool
        Whether candidates may have losses below zero: constraints, rather than wrong answers.
    takes_checked : bool
        Whether `encode` passes matrices through `taut.data.arrays.as_matrix`, which does not check
        again what is marked as checked.
    takes_examples : bool
        Whether X and y of `encode` may be lists with an item for each block, of any kind, rather
        than a matrix, alone or with offsets.
    scores_predict : bool
        Whether the label of highest <w, phi(x, label)> is the prediction.
    certifies : str
        Which objective the bounds of a fit belong to, `Certificate.of`.
    """

    allocates: ClassVar[bool] = True
    signed_losses: ClassVar[bool] = False
    takes_checked: ClassVar[bool] = False
    takes_examples: ClassVar[bool] = False
    scores_predict: ClassVar[bool] = True
    certifies: ClassVar[str] = THE_OBJECTIVE

    argmax: ClassVar[Callable]
    loss: ClassVar[Callable]
    parts: ClassVar[Callable]
    exact_step: ClassVar[Callable | None] = None
    sample: ClassVar[Callable | None] = None
    complete: ClassVar[Callable | None] = None
    expect: ClassVar[Callable | None] = None
    normalise: ClassVar[Callable | None] = None
    mean_of: ClassVar[Callable | None] = None
    mean_loss: ClassVar[Callable | None] = None
    spread: ClassVar[Callable | None] = None
    pull: ClassVar[Callable | None] = None
    push: ClassVar[Callable | None] = None

    @staticmethod
    def prefetch(data, i):
        """Nothing to ask for unless a subclass says so."""

    @abstractmethod
    def encode(self, X: Any, y: Any = None) -> Blocks:
        """Blocks for compiled code; without y, for prediction only."""

    @abstractmethod
    def decode(self, labels: np.ndarray, offsets: np.ndarray) -> Sequence[Any]:
        """User's labels from the flat int32 labels of all blocks."""

    def take(self, blocks: Blocks, which: np.ndarray) -> Blocks | None:
        """A copy of some blocks, as `encode` would make it of their data; None to encode again."""
        return None

    @property
    def can_take(self) -> bool:
        """Whether `take` knows what `encode` makes: a subclass may have an `encode` of its own."""
        return self.knows_of("take", "encode")

    def knows_of(self, method: str, *others: str) -> bool:
        """Whether a method was written with others in view: no subclass has replaced them since."""
        owners = [
            next((k for k, kind in enumerate(type(self).__mro__) if name in vars(kind)), 0)
            for name in (method, *others)
        ]
        return owners[0] == min(owners)

    def lengths(self, blocks: Blocks) -> np.ndarray | None:
        """Bounds on |phi(x_i, label)| of any label of each block, from which rounding is known.

        Where a score is a sum, the summed lengths of its terms. None where no such bound is known:
        some labels are then measured.
        """
        return None

    def lower(self, blocks: Blocks) -> np.ndarray | None:
        """What each weight must not be below for the oracles to be right, -inf where nothing is.

        Problems keep these bounds beside those of the regulariser. None where there are none.
        """
        return None

    @property
    def all_labels(self) -> np.ndarray:
        """All labels, in the order of `exact_step`'s alpha, shape (n_labels, label size)."""
        raise self.has_no_list()

    def has_no_list(self) -> InvalidStructure:
        """The error of what needs all labels."""
        return InvalidStructure(
            f"{type(self).__name__} has no all_labels, which exact_step and slack rescaling need: "
            "return an int32 array of shape (n_labels, label size)"
        )

    @property
    def lists_labels(self) -> bool:
        """Whether there are `all_labels`, or `listed` ones."""
        return (
            type(self).all_labels is not CompiledStructure.all_labels
            or type(self).listed is not CompiledStructure.listed
        )

    def listed(self, blocks: Blocks) -> Listed:
        """All labels of each block, in the order of `exact_step`'s alpha; `all_labels` by default.

        Structures whose blocks have labels of their own, such as windows of images of different
        sizes, answer with `Listed.of_blocks`.
        """
        return Listed.same(self.all_labels)

    def signed_rows(self, blocks: Blocks) -> tuple[np.ndarray, np.ndarray] | None:
        """The sign and the loss of each block's candidate, where blocks have one row and one each.

        Its psi is the sign times the features of the row. Working sets of a kernel then move pairs
        of blocks at a time. None where labels are something else.
        """
        return None

    def with_losses(self, blocks: Blocks, losses: np.ndarray) -> Blocks | None:
        """Blocks with other losses, those of the listed labels of each in a row.

        None where this structure has no form for that; the losses are then kept beside its blocks.
        """
        return None

    def slack(self, blocks: Blocks, potentials: np.ndarray) -> np.ndarray | None:
        """How far all potentials of each row may be off while its block has no hinge for certain.

        `potentials` has a row for each column of w and a column for each row of the data. Through a
        kernel, potentials of rows with enough slack need not be computed in float64. None where it
        is not known; negative where there is a hinge.
        """
        return None

    def knows_labels(self, blocks: Blocks) -> bool:
        """Whether `valid_labels` tells which labels a block has, rather than trusting them."""
        asked = type(self).valid_labels is not CompiledStructure.valid_labels
        return asked or blocks.n_labels > 0 or self.lists_labels

    def valid_labels(self, blocks: Blocks, owner: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Which labels, given one after the other, are labels that the blocks `owner` may have.

        Oracles are compiled without bounds checks: what comes from a file is asked for here before
        they see it. By default labels are compared with `Blocks.n_labels`, or with `all_labels`; a
        structure that has neither answers for itself, or trusts its checkpoints.
        """
        sizes = np.diff(blocks.offsets)[owner]
        if blocks.n_labels:
            inside = (labels >= 0) & (labels < blocks.n_labels)
            return np.logical_and.reduceat(inside, np.cumsum(sizes) - sizes)
        if self.lists_labels:
            listed = self.listed(blocks)
            rows = labels.reshape(-1, listed.rows.shape[1])
            if listed.step == 0:
                return np.isin(_as_items(rows), _as_items(listed.rows))
            pairs = zip(owner.tolist(), _as_items(rows), strict=True)
            return np.array([row in _as_items(listed.own(i)) for i, row in pairs])
        return np.ones(len(owner), dtype=bool)

    @property
    def oracles(self) -> Oracles:
        """All oracles, as plain functions for `taut.compiled.jit.specialise`."""
        found: dict[str, Any] = {name: getattr(self, name, None) for name in Oracles._fields}
        for name, function in found.items():
            if function is None and name not in Oracles._field_defaults:
                raise InvalidStructure(
                    f"{type(self).__name__} has no {name}: write it as a static method, "
                    f"see taut.CompiledStructure"
                )
        return Oracles(**found)

    @property
    def own_map(self) -> OwnMap | None:
        """`pull` and `push`, where there are."""
        if self.pull is None or self.push is None:
            return None
        return OwnMap(self.pull, self.push)


def _as_items(rows: np.ndarray) -> np.ndarray:
    """Each row as one value, to be compared by its bytes."""
    rows = np.ascontiguousarray(rows)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))[:, 0]
