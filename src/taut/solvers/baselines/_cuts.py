"""Planes below the sum of all hinges, with weights that sum to at most one.

    sum_i C_i hinge_i(w) >= loss_j - <w, psi_j>        for all w and each plane j

psi_j and loss_j are sums over all blocks: a vector of the length of w per plane, dense or sparse.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from taut.spaces.quadratic import Quadratic
from taut.storage.stored import Stored, check, check_totals, require

Arrays = dict[str, np.ndarray]


class Vector(NamedTuple):
    """The values of a vector at some places; a dense one has them everywhere."""

    where: np.ndarray | slice
    values: np.ndarray

    @classmethod
    def of(cls, psi: np.ndarray) -> Self:
        """The form that takes less memory."""
        where = np.flatnonzero(psi)
        if where.nbytes + 8 * len(where) < psi.nbytes:
            return cls(where, psi[where])
        return cls(slice(None), psi.copy())

    def dot(self, dense: np.ndarray) -> float:
        """The inner product with a dense vector."""
        return float(self.values @ dense[self.where])


class Cuts:
    """Planes with their Gram matrix, and a feasible dual point over them.

    The weights `coef` of the planes are >= 0 and sum to at most 1. `idle` counts for how many
    solutions in a row a plane has had none.
    """

    def __init__(self, quadratic: Quadratic) -> None:
        self.quadratic = quadratic
        self.psi: list[Vector] = []
        self.loss, self.coef = np.empty(0), np.empty(0)
        self.idle = np.empty(0, dtype=np.int64)
        self.gram = np.empty((0, 0))

    def add(self, psi: np.ndarray, loss: float) -> None:
        """A plane without weight."""
        beside = self.quadratic.covector(psi)
        row = np.array([*(other.dot(beside) for other in self.psi), psi @ beside])
        self.gram = np.block([[self.gram, row[:-1, None]], [row]])
        self.psi.append(Vector.of(psi))
        self.loss, self.coef = np.append(self.loss, loss), np.append(self.coef, 0.0)
        self.idle = np.append(self.idle, 0)

    def count_idle(self) -> None:
        """The weights are a solution: count for how long planes have had none."""
        self.idle = np.where(self.coef > 0.0, 0, self.idle + 1)

    def drop(self, patience: int) -> None:
        """Forget planes that have had no weight for so long."""
        kept = np.flatnonzero(self.idle < patience)
        self.psi = [self.psi[k] for k in kept]
        self.loss, self.coef, self.idle = self.loss[kept], self.coef[kept], self.idle[kept]
        self.gram = self.gram[np.ix_(kept, kept)]

    def scale(self, factor: float) -> None:
        """Multiply psi and loss of all planes."""
        self.psi = [Vector(where, factor * values) for where, values in self.psi]
        self.loss, self.gram = factor * self.loss, factor**2 * self.gram

    def loss_sum(self, coef: np.ndarray) -> float:
        """The dual's linear term at some weights."""
        return float(coef @ self.loss)

    def sum_up(self, coef: np.ndarray, U: np.ndarray) -> None:
        """U = sum_j coef_j psi_j."""
        U[:] = 0.0
        for k in np.flatnonzero(coef):
            where, values = self.psi[k]
            U[where] += coef[k] * values

    def violations(self, point: np.ndarray) -> np.ndarray:
        """loss_j - <point, psi_j>."""
        beside = self.quadratic.covector(point)
        return self.loss - np.array([psi.dot(beside) for psi in self.psi])

    def arrays(self) -> Arrays:
        """The planes as named arrays."""
        where = [np.empty(0, np.int64) if isinstance(w, slice) else w for w, _ in self.psi]
        return {
            "loss": self.loss,
            "coef": self.coef,
            "idle": self.idle,
            "gram": self.gram,
            "psi_places": np.array([len(places) for places in where], dtype=np.int64),
            "psi_size": np.array([len(values) for _, values in self.psi], dtype=np.int64),
            "psi_where": np.concatenate([np.empty(0, np.int64), *where]),
            "psi_value": np.concatenate([np.empty(0), *(values for _, values in self.psi)]),
        }

    @staticmethod
    def check(arrays: Arrays, size: int) -> None:
        """Refuse what are no planes of vectors of this size, or no weights of such."""
        n = len(arrays["coef"]) if arrays["coef"].ndim else 0
        places, sizes = arrays["psi_places"], arrays["psi_size"]
        check(
            arrays,
            {
                "loss": Stored("f8", (n,)),
                "coef": Stored("f8", (n,), 0.0),
                "idle": Stored("i8", (n,), 0),
                "gram": Stored("f8", (n, n)),
                "psi_places": Stored("i8", (n,), 0, size),
                "psi_size": Stored("i8", (n,), 0, size),
                "psi_where": Stored("i8", (places.sum(),), 0, size - 1),
                "psi_value": Stored("f8", (sizes.sum(),)),
            },
        )
        check_totals(arrays["coef"].sum(), np.ones(1), whole=False)
        dense = (places == 0) & (sizes == size)
        require((places == sizes) | dense, "planes have values without places")

    def restore(self, arrays: Arrays) -> None:
        """The inverse of `arrays`."""
        self.loss, self.coef, self.idle = (arrays[k].copy() for k in ("loss", "coef", "idle"))
        self.gram = arrays["gram"].copy()
        where = np.split(arrays["psi_where"], np.cumsum(arrays["psi_places"]))
        values = np.split(arrays["psi_value"], np.cumsum(arrays["psi_size"]))
        self.psi = [
            Vector(places.copy() if len(places) == len(own) else slice(None), own.copy())
            for places, own in zip(where[:-1], values[:-1], strict=True)
        ]
