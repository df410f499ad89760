"""A structure of the user's: labels 0..K-1, features of their own for each, any table of losses."""

from __future__ import annotations

from typing import Any

import numpy as np

import taut


class Table(taut.Structure):
    """Correct in every way; `scale` multiplies features, `factor` losses."""

    def __init__(self, n_labels: int, d: int, cost: np.ndarray) -> None:
        self.n_labels, self.d, self.cost = n_labels, d, cost
        self.scale, self.factor = 1.0, 1.0

    # The truth about it, for the judge alone

    def clean_features(self, x: np.ndarray, label: int) -> np.ndarray:
        out = np.zeros((self.n_labels, self.d))
        out[label] = self.scale * np.asarray(x)
        return out.ravel()

    def clean_loss(self, truth: int, label: int) -> float:
        return float(self.factor * self.cost[truth, label])

    def enumerated(self, X: Any, y: Any) -> tuple[list, list]:
        labels = range(self.n_labels)
        phi = [np.array([self.clean_features(x, k) for k in labels]) for x in X]
        psi = [p[truth] - p for p, truth in zip(phi, y)]
        return psi, [np.array([self.clean_loss(truth, k) for k in labels]) for truth in y]

    # What the library sees

    def features(self, x: Any, label: int) -> np.ndarray:
        return self.clean_features(x, label)

    def loss(self, truth: int, label: int) -> float:
        return self.clean_loss(truth, label)

    def values(self, x: Any, w: np.ndarray, truth: int | None) -> list[float]:
        """Scores, plus losses with a truth."""
        scores = [float(w @ self.clean_features(x, k)) for k in range(self.n_labels)]
        if truth is None:
            return scores
        return [s + self.clean_loss(truth, k) for k, s in enumerate(scores)]

    def argmax(self, x: Any, w: np.ndarray, truth: int | None = None) -> int:
        return int(np.argmax(self.values(x, w, truth)))
