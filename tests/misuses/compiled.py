"""Structures of the user's for Numba that break a law.

Which law is a number in the data, so that all of them are compiled once.
"""

from __future__ import annotations

import numpy as np

import taut
from misuses.judge import Labels, Objective, Verdict, judged, with_label
from misuses.tasks import SOLVERS, Control, chosen, random_cost
from taut import CompiledStructure
from taut.structures import Blocks, OwnFeatures, part

FAULTS = (
    "none", "forgets_loss", "forgets_loss_of_some", "half_the_loss", "second_best", "misses",
    "value_too_low", "value_too_high", "value_without_loss", "truth_costs", "loss_too_high",
    "loss_too_low", "features_scaled", "features_of_another", "score_off", "out_of_range",
    "random", "mutates_w", "mutates_data", "nan_loss", "nan_score", "work_kept", "push_keeps_half",
    "loss_of_pass",
)  # fmt: skip
#: What can be seen from the values that a fit comes across.
CAUGHT = ("forgets_loss", "value_without_loss", "value_too_low", "truth_costs", "nan_loss")
NUMBER = {name: k for k, name in enumerate(FAULTS)}


class CompiledTable(CompiledStructure):
    """Labels 0..K-1 with features of their own and a table of losses; data[4] is the fault."""

    def __init__(self, cost: np.ndarray, fault: str, n: int = 0) -> None:
        self.cost, self.fault = cost, fault
        self.returned = np.zeros((n, len(cost) + 1), dtype=np.int8)  # whether, by block and label

    def encode(self, X, y=None):
        n, K = len(X), len(self.cost)
        truth = np.zeros(n, np.int32) if y is None else np.asarray(y, np.int32)
        calls = np.zeros(1)
        return Blocks(
            data=(
                np.array(X, dtype=np.float64),
                truth,
                self.cost,
                calls,
                NUMBER[self.fault],
                self.returned,
            ),
            features=OwnFeatures(X.shape[1] * K, K + 1),
            offsets=np.arange(n + 1),
            truth=truth,
        )

    def decode(self, labels, offsets):
        return labels.tolist()

    @staticmethod
    def pull(data, i, w, work):
        X, _truth, cost, _calls, fault, _returned = data
        K, d = cost.shape[0], X.shape[1]
        if fault == 21 and work[K] == 1.0:  # work_kept: the scores of the block before
            return
        work[K] = 1.0 if fault == 21 else 0.0
        for k in range(K):
            work[k] = 0.0
            for j in range(d):
                work[k] += X[i, j] * w[k * d + j]
        if fault == 17:  # mutates_w
            for j in range(w.shape[0]):
                w[j] *= 0.9

    @staticmethod
    def parts(data, i, label, each):
        fault = data[4]
        value = part(each, label[0], 1.0) if label[0] < data[2].shape[0] else 0.0
        if fault == 14:  # score_off
            value += 0.1
            if label[0] == 0:
                value += 0.1
        if fault == 20 and label[0] == 1:  # nan_score
            value = np.nan
        return value

    @staticmethod
    def loss(data, i, label):
        _X, truth, cost, calls, fault, _returned = data
        k, t = label[0], truth[i]
        if k >= cost.shape[0]:
            return 5.0
        value = cost[t, k]
        if fault == 9 and k == t:  # truth_costs
            value = 0.5
        if fault == 10 and k != t:  # loss_too_high: above what argmax reckons with
            value += 0.5
        if fault == 11 and k != t:  # loss_too_low
            value *= 0.5
        if fault == 19 and k == 1 and k != t:  # nan_loss
            value = np.nan
        if fault == 23:  # loss_of_pass
            calls[0] += 1.0
            value *= min(1.0, 0.5 + calls[0] / 500.0)
        return value

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        X, truth, cost, calls, fault, returned = data
        K, t = cost.shape[0], truth[i]
        factor = loss_weight
        if fault == 1 or (fault == 2 and X[i, 0] > 0.0):  # forgets_loss
            factor = 0.0
        if fault == 3:  # half_the_loss
            factor = 0.5 * loss_weight
        best, second, winner, runner = -np.inf, -np.inf, 0, 0
        for k in range(K):
            if fault == 5 and k == K - 1:  # misses
                continue
            value = work[k] + factor * cost[t, k]
            if value > best:
                second, runner = best, winner
                best, winner = value, k
            elif value > second:
                second, runner = value, k
        calls[0] += 1.0
        if fault == 4 and X[i, 0] > 0.5 and K > 1 and second > -np.inf:  # second_best
            best, winner = second, runner
        if fault == 16:  # random
            winner = int(calls[0] * 7919.0) % K
            best = work[winner] + factor * cost[t, winner]
        label[0] = winner
        if fault == 15 and loss_weight > 0.0 and X[i, 0] > 0.5:  # out_of_range
            label[0] = K
            best = 5.0
        returned[i, label[0]] = 1
        if fault == 6:  # value_too_low
            best -= 0.3
        if fault == 7:  # value_too_high
            best += 0.3
        if fault == 8:  # value_without_loss
            best = work[winner]
        if fault == 18:  # mutates_data
            X[i, 0] *= 0.999
        return best

    @staticmethod
    def push(data, i, statistics, w):
        X, _truth, cost, _calls, fault, _returned = data
        d = X.shape[1]
        for k in range(cost.shape[0]):
            factor = statistics[k]
            if fault == 12 and k == 0:  # features_scaled
                factor *= 0.5
            place = (k + 1) % cost.shape[0] if fault == 13 else k  # features_of_another
            for j in range(d):
                w[place * d + j] += factor * X[i, j]
            if fault == 22:  # push_keeps_half
                statistics[k] *= 0.5


CHOICES = ("dual_coordinate", "one_slack", "online_cache", "frank_wolfe")


def run(rng: np.random.Generator, few: bool, control: Control) -> Verdict:
    """Fit a compiled structure with or without a fault."""
    fault = chosen(rng, ["none", "none", *(CAUGHT if few else FAULTS)])
    n, d, K = int(rng.integers(2, 13)), int(rng.integers(1, 5)), int(rng.integers(2, 6))
    X, y = rng.normal(size=(n, d)), rng.integers(K, size=n)
    cost = random_cost(rng, K)
    C, tol = float(10.0 ** rng.uniform(-2, 2)), float(chosen(rng, [1e-2, 1e-3, 1e-6]))
    solver = chosen(rng, CHOICES[:1] if few else CHOICES)
    control.note = f"{fault}: {solver} n={n} d={d} K={K} C={C:.3g} tol={tol:g}"
    control.expected = fault == "none"
    structure = CompiledTable(cost, fault, n)
    model = taut.StructuredSVM(
        structure, C=C, tol=tol, max_iter=200, random_state=0, solver=SOLVERS[solver]()
    ).fit(X, y)
    phi = [np.kron(np.eye(K), x) for x in X]
    psi = [p[t] - p for p, t in zip(phi, y)]
    losses = [cost[t].copy() for t in y]
    if fault == "truth_costs":
        losses = [c + 0.5 * (np.arange(K) == t) for c, t in zip(losses, y)]
    objectives = [Objective(psi, losses, np.full(n, C))]
    if fault == "out_of_range":  # to the structure that is one more label of some blocks
        objectives.append(
            with_label(objectives[0], X[:, 0] > 0.5, 5.0, [p[t] for p, t in zip(phi, y)])
        )
    own = [{int(t), *np.flatnonzero(row)} for t, row in zip(y, structure.returned)]
    labels = Labels(own, set().union(*own))
    return judged(model, np.asarray(model.coef_), objectives, tol, control.note, labels)
