"""Numbers of extreme size; judged in rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

import taut
from misuses.judge import ExactObjective, Verdict, judged
from misuses.tasks import SOLVERS, Control, chosen, random_cost
from reference import binary_blocks, multiclass_blocks


def run(rng: np.random.Generator, few: bool, control: Control) -> Verdict:
    """Fit data of extreme scales."""
    kind = chosen(rng, ["binary"] if few else ["binary", "multiclass", "regression"])
    single = not few and rng.random() < 0.25
    n, d, K = int(rng.integers(2, 9)), int(rng.integers(1, 5)), int(rng.integers(2, 5))
    X = rng.normal(size=(n, d))
    notes, ordinary = [], True
    settings: dict[str, Any] = {}

    def extreme(probability: float) -> bool:
        nonlocal ordinary
        drawn = rng.random() < probability
        ordinary = ordinary and not drawn
        return drawn

    limit = (-19, 19) if single else (-150, 154)
    if extreme(0.5):
        k = rng.uniform(*limit)
        notes.append(f"X 1e{k:.0f}")
        X = X * 10.0**k
    if extreme(0.2):
        k = rng.uniform(-12, 12) if single else rng.uniform(-80, 80)
        notes.append(f"column 1e{k:.0f}")
        X[:, 0] = np.clip(X[:, 0] * 10.0**k, -1e154, 1e154)
    if extreme(0.2):
        k = rng.uniform(-10, 10) if single else rng.uniform(-80, 80)
        notes.append(f"row 1e{k:.0f}")
        X[0] = np.clip(X[0] * 10.0**k, -1e154, 1e154)
    if extreme(0.15):
        notes.append("duplicates")
        X[: n // 2] = X[n - n // 2 :]
    C = float(10.0 ** rng.uniform(-2, 2))
    if extreme(0.3):
        C = float(10.0 ** rng.uniform(-300, 308))
        notes.append(f"C {C:.0e}")
    weight = None
    if extreme(0.2):
        weight = 10.0 ** rng.uniform(-300, 300, size=n) * (rng.random(n) > 0.2)
        if rng.random() < 0.5:
            weight = np.where(rng.random(n) < 0.5, weight, 1.0)
        notes.append("weights")
    if single:
        X = np.clip(X, -1e38, 1e38).astype(np.float32)
        notes.append("single")
    tol = float(chosen(rng, [1e-2, 1e-3, 1e-6, 1e-9]))
    wide = X.astype(float)
    if kind == "regression":
        y: Any = rng.normal(size=n)
        if extreme(0.4):
            k = rng.uniform(-150, 150)
            notes.append(f"y 1e{k:.0f}")
            y = y * 10.0**k
        epsilon = float(chosen(rng, [0.0, 0.1 * np.abs(y).max()]))
        settings["epsilon"] = epsilon
        model: Any = taut.RegressionSVM
        psi = [np.array([x, -x]) for x in wide]
        exact = [(Fraction(float(t)), Fraction(epsilon)) for t in y]
        losses: list = [[t - e, -t - e] for t, e in exact]
        shape: tuple[int, ...] = (d,)
    elif kind == "binary":
        y = np.arange(n) % 2
        model = taut.BinarySVM
        psi, losses = binary_blocks(wide, 2.0 * y - 1)
        shape = (1, d)
    else:
        K = min(K, n)
        y = np.arange(n) % K
        settings["cost"] = random_cost(rng, K)
        if extreme(0.3):
            k = rng.uniform(-150, 150)
            notes.append(f"cost 1e{k:.0f}")
            settings["cost"] = settings["cost"] * 10.0**k
        model = taut.MulticlassSVM
        psi, losses = multiclass_blocks(wide, y, K, settings["cost"])
        shape = (K, d)
    prior: dict[str, Any] = {}
    if kind == "binary" and not single and extreme(0.2):
        k = rng.uniform(-150, 150)
        what = chosen(rng, ["mean"] if few else ["mean", "precision", "nonneg"])
        notes.append(f"prior {what} 1e{k:.0f}")
        if what == "mean":
            settings["prior_mean"] = prior["mean"] = rng.normal(size=d) * 10.0**k
        elif what == "precision":
            settings["prior_precision"] = prior["precision"] = rng.uniform(1, 9, size=d) * 10.0**k
        else:
            mask = rng.random(d) < 0.5
            settings["nonneg"] = prior["nonneg"] = mask
        settings = {
            key: value.reshape(shape) if np.ndim(value) else value
            for key, value in settings.items()
        }
    solver = "dual_coordinate"
    if not few and not single and not prior and kind == "multiclass":
        solver = chosen(rng, ["dual_coordinate", "one_slack", "n_slack", "online_cache"])
    control.note = f"{kind}: {solver} n={n} d={d} tol={tol:g} {', '.join(notes)}"
    control.expected = ordinary
    model = model(
        C=C, tol=tol, max_iter=300, random_state=0, fit_intercept=False,
        solver=SOLVERS[solver](), **settings,
    ).fit(X, y, sample_weight=weight)  # fmt: skip
    given = np.ones(n) if weight is None else weight
    weights = [Fraction(C) * Fraction(float(v)) for v in given]
    objective = ExactObjective(psi, losses, weights, **prior)
    w = np.atleast_2d(model.coef_).T.ravel()
    return judged(model, w, [objective], tol, control.note)
