"""Planes below the sum of all hinges, with weights that sum to at most one.

    sum_i C_i hinge_i(w) >= loss_j - <w, psi_j>        for all w and each plane j

The weights solve a small dense QP. Its matrix is nearly singular, since planes that are found near
the optimum resemble each other: an interior point solver does not mind, pair steps do.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import piqp

from taut.stored import Stored, check, check_totals, require

Arrays = dict[str, np.ndarray]
_PRECISION, _FINEST = 1e-10, 1e-13  # of QPs, in units in which their linear term is about 1
_ITERATIONS = 100  # some 10 to 20 are usual
_LEAST = 1e-9  # in such units: what an interior point leaves to planes that should have none


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

    Attributes
    ----------
    psi : list of Vector
    loss, coef : ndarray of shape (n_planes,)
        Their losses and their weights, which are >= 0 and sum to at most 1.
    idle : ndarray of int64, shape (n_planes,)
        For how many solutions in a row a plane has had no weight.
    gram : ndarray of shape (n_planes, n_planes)
    """

    def __init__(self) -> None:
        self.psi: list[Vector] = []
        self.loss, self.coef = np.empty(0), np.empty(0)
        self.idle = np.empty(0, dtype=np.int64)
        self.gram = np.empty((0, 0))

    def add(self, psi: np.ndarray, loss: float) -> None:
        """A plane without weight."""
        row = np.array([*(other.dot(psi) for other in self.psi), psi @ psi])
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
        return self.loss - np.array([psi.dot(point) for psi in self.psi])

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


def best_weights(gram: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """argmax_b <linear, b> - 1/2 b' gram b over b >= 0, sum b <= 1, by PIQP.

    Feasible exactly; how good it is must be looked at, since PIQP may give up.
    """
    size, bend = np.abs(linear).max(), np.diag(gram).max()
    if size == 0.0:
        return np.zeros(len(linear))
    # In units in which the linear term is about 1, and the weights are where they matter.
    unit = min(1.0, size / bend) if bend > 0.0 else 1.0
    solver = piqp.DenseSolver()
    settings = solver.settings
    # Where the weights are small, their sum is far from 1, and so much less may a slope miss 0.
    precision = max(unit * _PRECISION, _FINEST)
    settings.eps_abs = settings.eps_rel = precision
    settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = precision
    settings.max_iter = _ITERATIONS
    solver.setup(
        P=np.asfortranarray(gram * (unit / size)),
        c=-linear / size,
        G=np.ones((1, len(linear)), order="F"),
        h_u=np.array([1.0 / unit]),
        x_l=np.zeros(len(linear)),
    )
    solver.solve()
    found = solver.result.x
    if not np.isfinite(found).all():
        return np.zeros(len(linear))
    found = unit * np.where(found > _LEAST * max(found.sum(), 1.0), found, 0.0)
    return found / max(found.sum(), 1.0)


def step_towards(gram: np.ndarray, violation: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """The exact step of all weights towards the most violated plane, or towards none."""
    vertex = np.zeros(len(coef))
    if violation.max() > 0.0:
        vertex[violation.argmax()] = 1.0
    direction = vertex - coef
    slope, curvature = direction @ violation, direction @ gram @ direction
    share = 1.0 if slope >= curvature else max(slope / curvature, 0.0)
    return (1.0 - share) * coef + share * vertex
