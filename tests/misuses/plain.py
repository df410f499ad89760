"""Fits of structures in plain Python that keep or break the laws."""

from __future__ import annotations

import collections
import copy
from typing import Any

import numpy as np

import taut
from misuses.judge import Labels, Objective, Verdict, judged, with_label
from misuses.lawful import LAWFUL, Bounded
from misuses.lawless import CAUGHT, LAWLESS, ListsTooFew, OutOfRange
from misuses.tasks import ANY, SOLVERS, Control, chosen, random_cost


def _listed(kind: type) -> type:
    """The same, which lists its labels."""

    class Listed(kind):  # type: ignore[misc, valid-type]
        def labels(self, x):
            return list(range(self.n_labels))[: getattr(self, "n_listed", None)]

    Listed.__name__ = Listed.__qualname__ = kind.__name__
    return Listed


def _recorded(kind: type, returned: dict[int, set[int]]) -> type:
    """The same, whose answers are written down by the address of the example."""

    def note(x, label):
        if label is not None:
            returned[id(x)].add(int(np.ravel(label)[0]))

    class Recorded(kind):  # type: ignore[misc, valid-type]
        def argmax(self, x, w, truth=None):
            label = super().argmax(x, w, truth)
            note(x, label)
            return label

    if issubclass(kind, Bounded):

        def bounded_argmax(self, x, w, truth=None):
            label, error = super(Recorded, self).bounded_argmax(x, w, truth)
            note(x, label)
            return label, error

        Recorded.bounded_argmax = bounded_argmax
    Recorded.__name__ = Recorded.__qualname__ = kind.__name__
    return Recorded


def run(rng: np.random.Generator, few: bool, control: Control) -> Verdict:
    """Fit a structure with or without a fault, now and then in two steps."""
    kind = chosen(rng, [*LAWFUL, *(CAUGHT if few else LAWLESS * 2)])
    n, d, K = int(rng.integers(2, 13)), int(rng.integers(1, 5)), int(rng.integers(2, 6))
    X, y = list(rng.normal(size=(n, d))), [int(k) for k in rng.integers(K, size=n)]
    rescaled = kind is ListsTooFew
    listed = rescaled or bool(rng.random() < 0.5)
    returned: dict[int, set[int]] = collections.defaultdict(set)
    recorded = _recorded(_listed(kind) if listed else kind, returned)
    structure: Any = recorded(K, d, random_cost(rng, K))
    C, tol = float(10.0 ** rng.uniform(-2, 2)), float(chosen(rng, [1e-2, 1e-3, 1e-6]))
    solver = chosen(rng, ["dual_coordinate", "one_slack"] if few else ["dual_coordinate", *ANY])
    control.note = (
        f"{kind.__name__}: {solver} {'listed ' * listed}n={n} d={d} K={K} C={C:.3g} tol={tol:g}"
    )
    control.expected = kind in LAWFUL
    given = taut.structures.SlackRescaled(structure) if rescaled else structure
    before = copy.deepcopy(X)
    model = taut.StructuredSVM(
        given, C=C, tol=tol, max_iter=200, random_state=0, solver=SOLVERS[solver]()
    ).fit(X, y)
    objectives = []
    for examples in (before, X):
        psi, losses = structure.enumerated(examples, y)
        if rescaled:
            psi = [c[:, None] * p for p, c in zip(psi, losses)]
        objective = Objective(psi, losses, np.full(n, C))
        if isinstance(structure, Bounded):
            objective.errors = np.inf
        objectives.append(objective)
    if kind is OutOfRange:  # to the structure that is one more label of some blocks
        phi = [structure.clean_features(x, k) for x, k in zip(X, y)]
        objectives.append(with_label(objectives[0], [x[0] > 0.5 for x in X], 5.0, phi))
    every = range(K)[: getattr(structure, "n_listed", None)] if listed else range(0)
    own = [{truth, *returned[id(x)], *(every if rescaled else ())} for x, truth in zip(X, y)]
    labels = Labels(own, {*every, *y}.union(*own))
    return judged(model, np.asarray(model.coef_), objectives, tol, control.note, labels)
