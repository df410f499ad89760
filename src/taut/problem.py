"""The problem: structure x data x weights, and the only place where oracles meet data.

    P(w) = 1/2 |w|^2 + sum_i C_i max_y violation_i(y)          violation(truth) = 0
    D(a) = sum_iy a_iy loss_i(y) - 1/2 |U|^2,   U = sum_iy a_iy psi_i(y),  a >= 0, sum_y a_iy <= C_i

P(w) >= D(a) for every w and every feasible a. With a prior or bounds on w, 1/2 |w|^2 and 1/2 |U|^2
are replaced by a regulariser and its conjugate (`taut.spaces.quadratic`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, Self

import numpy as np

from taut.binding import Data, Findings, bind, spot_check
from taut.binding.plain import plain
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData
from taut.spaces.features import Features
from taut.spaces.quadratic import Quadratic
from taut.spaces.regularizer import Prior, Regularizer
from taut.storage.checksum import checksum
from taut.storage.digest import Digest, digest_of
from taut.storage.stored import LARGEST
from taut.structures.abilities import ability, is_users
from taut.structures.base import CompiledStructure, Structure


class Bound(NamedTuple):
    """A computed bound, and how far rounding may have moved it, at most."""

    value: float
    rounding: float


def check_factor(C: float) -> None:
    """Refuse what cannot multiply a sum of hinges."""
    if not (np.isfinite(C) and C > 0.0):
        raise InvalidData(f"C = {C}: it must be positive and finite")
    if C > LARGEST:
        raise InvalidData(
            f"C = {C:g}: it is too large to compute with, give at most {LARGEST:g}; a fit to "
            "separable data is the same from some C on"
        )


def check_block_weight(weight: np.ndarray) -> None:
    """Refuse weights C_i whose sums and products would overflow."""
    total = float(weight.sum())
    if not total <= LARGEST:
        raise InvalidData(
            f"C times the sum of sample_weight is {total:g}, too large to compute with: scale them "
            f"so that it is at most {LARGEST:g}"
        )


def rounding_of(magnitude: float, n: int) -> float:
    """How far a sum over n blocks of terms of this summed magnitude may be from the true one.

    Errors of single terms are a few units in the last place; those of partial sums add up like a
    random walk.
    """
    return float(np.finfo(np.float64).eps * (8.0 + np.sqrt(n)) * magnitude)


class Belonging(NamedTuple):
    """Digests of what dual variables belong to: with any of these another, bounds may be false."""

    structure: bytes
    prior: bytes
    data: bytes

    @classmethod
    def of_bytes(cls, joined: bytes) -> Belonging:
        """From the digests one after the other."""
        size = len(joined) // len(cls._fields)
        return cls(*(joined[k * size : (k + 1) * size] for k in range(len(cls._fields))))

    def differing(self, other: Belonging) -> list[str]:
        """The names of what is not the same, as far as that is known."""
        names = [name for name, own in self._asdict().items() if own != getattr(other, name)]
        return known_to_differ(names)


#: What users change when they change a structure of the library's.
OF_STRUCTURE = "structure (its parameters, such as cost, or its code)"


def known_to_differ(names: list[str]) -> list[str]:
    """Without the data where the structure is another.

    Their digest is that of what oracles see, which may have costs in it: another structure makes
    others of the same X and y.
    """
    return [name for name in names if name != "data" or "structure" not in names]


class Problem:
    """A structural SVM problem: minimise 1/2 |w|^2 + sum_i C_i hinge_i(w).

    Parameters
    ----------
    structure : Structure or CompiledStructure
        What a label is.
    X, y : object
        Data in the form that the structure takes.
    C : float, default=1.0
        Multiplies the sum of the hinges.
    sample_weight : array of shape (n_blocks,), optional
        C_i = C * sample_weight[i].
    n_jobs : int, default=1
        Threads for visits and for passes over all blocks.
    regularizer : Regularizer, optional
        A prior on w, and bounds of weights, instead of 1/2 |w|^2.
    space : callable, optional
        Turns the linear features of a compiled structure's blocks into those of another space.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem
    >>> from taut.structures import Scalar
    >>> problem = Problem(Scalar(), np.array([[1.0], [-2.0]]), np.array([1.0, -1.0]), C=0.5)
    >>> problem.primal(np.zeros(1))
    1.0
    """

    #: How blocks are had: as a "whole", in memory; in "chunks", as they are read; or by "rows" of
    #: a kernel matrix, as they are computed.
    comes_as: str = "whole"
    #: Parts that blocks come in, 0 while it is not known; whether they can come in any order; and
    #: whether more may come later, and none again.
    n_parts: int = 1
    random_access: bool = True
    goes_on: bool = False
    #: Whether the blocks can be looked at again, as true bounds demand.
    repeatable = True
    #: The data, where they are in memory, and what their features are turned into.
    X: Any = None
    space: Callable[[Features], Features] | None = None
    _known: Belonging | None = None

    def __init__(
        self,
        structure: Structure | CompiledStructure,
        X: Any,
        y: Any,
        C: float = 1.0,
        sample_weight: np.ndarray | None = None,
        n_jobs: int = 1,
        regularizer: Regularizer | Prior | None = None,
        space: Callable[[Features], Features] | None = None,
    ) -> None:
        check_factor(C)
        self.structure = structure
        # A copy of y: what the caller does to it while it is in use changes nothing.
        self.X, self.y = X, copy.copy(y)
        self.C = C
        self.regularizer = regularizer
        self.space = space
        self.data = bind(structure, X, self.y, regularizer, space=space)
        self.comes_as = self.data.comes_as
        self.quadratic: Quadratic = self.data.quadratic
        self.n_jobs = n_jobs
        self.sample_weight = check_sample_weight(sample_weight, self.n_blocks)
        self._set_factor(C)

    def some(self, blocks: np.ndarray) -> Data:
        """Some of the blocks as data of their own, which see points of the same space."""
        data: Data | None = self.data.take(blocks)
        if data is not None:
            return data
        if self.space is not None:
            own: Any = self.data
            raise InvalidData(
                f"{type(self.structure).__name__} cannot take some of its blocks, as work on parts "
                "of a kernel problem needs: write `take`, or give through_kernel `whole`, at least "
                f"{own.blocks.features.n_rows}, to have the whole matrix"
            )
        if not self.data.lasting:
            raise InvalidData(
                f"points of {type(self.structure).__name__} are numbers of pairs in a table, which "
                "some of the examples alone would have another of: use solver='dual_coordinate', "
                "or give explicit=True where the kernel has finitely many features"
            )
        X, y = ([given[i] for i in blocks.tolist()] for given in (plain(self.X), plain(self.y)))
        return bind(self.structure, X, y, self.regularizer)

    def spot_check(self) -> None:
        """Test a user's structure on a few blocks, whose features the laws are about."""
        of_users = self.space is not None and is_users(self.structure)
        spot_check(bind(self.structure, self.X, self.y) if of_users else self.data)

    def with_factor(self, C: float, known: Belonging | None = None) -> Self:
        """The same problem with another C; the data are shared.

        Give the `known` answer of `belonging` only where nothing can have changed since: the data
        are then not hashed again.
        """
        check_factor(C)
        other = copy.copy(self)
        other._known = known
        other._set_factor(C)
        return other

    def _set_factor(self, C: float) -> None:
        self.block_weight = C * self.sample_weight
        check_block_weight(self.block_weight)
        self.C = C

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return self.data.n_blocks

    @property
    def n_features(self) -> int:
        """Length of w."""
        return self.data.n_features

    def belonging(self) -> Callable[[], Belonging]:
        """What dual variables of this problem belong to as it is now, for whoever asks later.

        Weights are not in it. All bytes of the data are gone through; what cannot be read is
        refused when the answer is asked for.
        """
        known = self._known
        if known is not None:
            return lambda: known
        structure, prior = self._law()
        data = Digest()
        for value in self.data.content():
            data.add(value)
        return lambda: Belonging(structure.strict(), prior.strict(), data.strict())

    @property
    def of_users(self) -> bool:
        """Whether objects of users' classes are part of what dual variables belong to.

        Examples are such objects only where the structure is one.
        """
        digest = Digest()
        digest.add(self.structure)
        return digest.of_users

    def _law(self) -> tuple[Digest, Digest]:
        """Digests of the structure, its code with it, and of the prior."""
        structure, prior = Digest(code=True), Digest()
        structure.add(self.structure)
        structure.add(ability(self.structure, "oracles"))
        own = self.data.prior
        prior.add(None if own.trivial and not own.mean.any() else own)  # which may be long
        return structure, prior

    def n_changed(self, other: Any) -> int:
        """Blocks whose truth is another in a problem of the same blocks."""
        return self.data.n_changed(other.data)

    @property
    def weight_digest(self) -> bytes:
        """A digest of the blocks' weights."""
        return digest_of(self.block_weight)

    def known_weights(self) -> tuple[np.ndarray, bytes]:
        """What can be compared with another C: the blocks' weights, and a digest of what is not."""
        return self.block_weight, b""

    def n_weighted(self) -> int:
        """How many blocks have weight, by one reading where nothing else tells."""
        return int(np.count_nonzero(self.block_weight))

    def primal(self, w: np.ndarray) -> float:
        """P(w), by one oracle call per block."""
        return self.primal_bound(self.scaled(w)).value

    def penalty(self, w: np.ndarray) -> float:
        """The regulariser's part of P(w)."""
        return self.quadratic.value(self.scaled(w))

    def scaled(self, w: np.ndarray) -> np.ndarray:
        """The weights in the form that passes work on."""
        return self.data.pad(self.data.prior.scaled(np.asarray(w, np.float64)))

    def primal_bound(self, v: np.ndarray) -> Bound:
        """P of the weights that belong to v, of float64, in the form that passes work on.

        By one oracle call per block. The rounding is also that of the sums that the dual vector
        consists of, as long as that is near to v: both add up the same C_i psi_i.
        """
        self.data.settle(v)
        value = magnitude = self.quadratic.value(v)
        n, inexactness = 0, 0.0
        for data, weight in self.bound():
            hinges, sizes = data.evaluate(v, weight, self.n_jobs)
            value += hinges
            magnitude += hinges + sizes
            n += data.n_blocks
            inexactness += data.inexactness(v, weight)
        # Where all hinges are zero at the prior mean, the objective is at its least.
        return Bound(value, rounding_of(magnitude, n) + inexactness if value > 0.0 else 0.0)

    def checksum(self) -> bytes:
        """Tells data in memory from others, as far as they are arrays; as fast as they are read."""
        return checksum([*self.data.watched(self.X, self.y), self.block_weight])

    def closing_audit(self, v: np.ndarray) -> Findings:
        """Hold a user's argmax at the final v against labels of many kinds."""
        return self.data.closing_audit(v, self.block_weight)

    def bound(
        self, order: np.ndarray | None = None, start: int = 0
    ) -> Generator[tuple[Data, np.ndarray]]:
        """The blocks with their weights C_i, part by part; valid until the next is asked for.

        In this order of the parts, without the first `start` ones, unless those do not come again.
        """
        if start == 0:
            yield self.data, self.block_weight

    def dual(self, loss_sum: float, U: np.ndarray) -> float:
        """D of the dual variables whose summed losses and summed psi are given."""
        return loss_sum - self.quadratic.conjugate(U)

    def dual_bound(self, loss_sum: float, U: np.ndarray) -> Bound:
        """D as a bound on P, which is never negative: 0 where D is.

        The rounding is that of the last sums alone: `primal_bound` knows that of U.
        """
        value = self.dual(loss_sum, U)
        if value < 0.0:
            return Bound(0.0, 0.0)
        return Bound(value, rounding_of(abs(loss_sum) + self.quadratic.magnitude(U), 1))

    def weights(self, v: np.ndarray) -> np.ndarray:
        """The weights that belong to v, without padding."""
        return self.data.user_weights(v)
