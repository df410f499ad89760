"""Photographs with several labels: each label alone, and all pairs of labels together.

Six labels of natural scenes that may be true together (scene, 1211 photographs to train and 1196
to test, 294 features). A graph has a node for each label, which is true or not, and an edge for
each pair. Weights of nodes are shared by all nodes of a `GraphSVM`; here each label has weights of
its own, because node t has the features in block t of a vector that is zero elsewhere. In the same
way edges have one feature each, so that each pair of labels has a table of its own. Inference is
exact. It is compared with the same nodes without edges.

C is chosen by five-fold cross-validation among the training photographs, by the share of right
labels. The same folds give the temperature of the probabilities, and the threshold above which
they make the best F1.

    python examples/multilabel.py --data FOLDER
"""

from __future__ import annotations

import argparse
import os
import time
from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
import scipy.sparse as sp
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold

from taut import GraphSVM

matplotlib.use("Agg")
import matplotlib.pyplot as plt

N_LABELS = 6
PAIRS = np.array(list(combinations(range(N_LABELS), 2)))
FACTORS = (0.01, 0.03, 0.1, 0.3, 1.0)
THRESHOLDS = np.arange(0.1, 0.91, 0.02)
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "multilabel.png"


class Labels:
    """All labels of a photograph by one `GraphSVM`."""

    def __init__(self, with_edges):
        self.last = None if with_edges else 0

    def graphs(self, X):
        """A graph for each row of X: block t of node t has the row, and edge e feature e."""
        n = X.shape[1]
        edges, one_each = PAIRS[: self.last], np.eye(len(PAIRS))[: self.last]
        columns, starts = np.arange(N_LABELS * n), np.arange(0, N_LABELS * n + 1, n)
        shape = N_LABELS, N_LABELS * n
        return [
            (sp.csr_array((np.tile(x, N_LABELS), columns, starts), shape=shape), edges, one_each)
            for x in X
        ]

    def fit(self, X, Y, C, tol):
        began = time.perf_counter()
        self.model = GraphSVM(C=C, tol=tol, random_state=0).fit(self.graphs(X), list(Y))
        self.seconds = time.perf_counter() - began
        return self

    def predict(self, X):
        return np.array(self.model.predict(self.graphs(X)))

    def chances(self, X, temperature="fitted"):
        """The probability of each label."""
        return np.array(self.model.predict_marginals(self.graphs(X), temperature))[:, :, 1]

    def choose(self, X, Y):
        """The C of the most right labels in folds; the temperature and threshold that suit it."""
        folds = list(KFold(5, shuffle=True, random_state=0).split(X))

        def right(C):
            fits = (self.fit(X[fit], Y[fit], C, tol=1e-2).predict(X[held]) for fit, held in folds)
            return np.mean([np.mean(p == Y[held]) for p, (_, held) in zip(fits, folds)])

        self.C = max(FACTORS, key=right)
        chances, temperatures = np.empty(Y.shape), []
        for fit, held in folds:
            model = self.fit(X[fit], Y[fit], self.C, tol=1e-3).model
            model.fit_temperature(self.graphs(X[held]), list(Y[held]))
            chances[held] = self.chances(X[held])
            temperatures.append(model.temperature_)
        self.temperature = np.exp(np.mean(np.log(temperatures)))
        self.threshold = max(
            THRESHOLDS, key=lambda least: f1_score(Y, chances > least, average="micro")
        )
        return self

    def interactions(self):
        """By how much two labels attract each other: equal values score more than different."""
        table = np.full((N_LABELS, N_LABELS), np.nan)
        scores = self.model.pair_weights_
        attraction = scores[:, 0, 0] + scores[:, 1, 1] - scores[:, 0, 1] - scores[:, 1, 0]
        table[PAIRS[:, 0], PAIRS[:, 1]] = table[PAIRS[:, 1], PAIRS[:, 0]] = attraction
        return table


def read(folder):
    """Features with a constant, and labels, of both parts."""
    with np.load(Path(folder) / "scene" / "scene.npz") as data:
        for part in ("train", "test"):
            X = data[f"X_{part}"].astype(float)
            yield np.column_stack([X, np.ones(len(X))]), data[f"y_{part}"].astype(int)


def row(name, found, Y, tail):
    """A row of the table."""
    print(
        f"| {name} | {100 * np.mean(found != Y):.2f} % | "
        f"{100 * np.mean((found == Y).all(axis=1)):.1f} % | "
        f"{100 * f1_score(Y, found, average='micro'):.1f} % | {tail} |",
        flush=True,
    )


def plot(learned, Y_train, chances, Y):
    """The learned interactions, the counts they come from, and how true probabilities are."""
    figure, axes = plt.subplots(1, 3, figsize=(11.5, 3.7))
    together = (Y_train.T @ Y_train).astype(float)
    np.fill_diagonal(together, np.nan)
    most = np.nanmax(np.abs(learned))
    for axis, table, form, colours in (
        (axes[0], learned, "{:.2f}", {"cmap": "RdBu", "vmin": -most, "vmax": most}),
        (axes[1], together, "{:.0f}", {"cmap": "Greens", "vmin": 0}),
    ):
        image = axis.imshow(table, **colours)
        for (i, j), value in np.ndenumerate(table):
            if i != j:
                dark = image.norm(value) > 0.75 or (image.norm(value) < 0.15 and table is learned)
                axis.text(
                    j, i, form.format(value), ha="center", va="center", fontsize=8,
                    color="white" if dark else "black",
                )  # fmt: skip
        axis.set(xticks=range(N_LABELS), yticks=range(N_LABELS), xlabel="label", ylabel="label")
    axes[0].set_title("learned attraction of two labels", fontsize=10)
    axes[1].set_title("training photographs with both", fontsize=10)
    for name, p in chances.items():
        which = np.minimum((10 * p).astype(int), 9)
        bins = [which == b for b in range(10) if (which == b).sum() >= 20]
        axes[2].plot([p[b].mean() for b in bins], [Y[b].mean() for b in bins], "o-", label=name)
    axes[2].plot([0, 1], [0, 1], color="0.7", zorder=0)
    axes[2].set(xlabel="probability of a label", ylabel="share that is true", aspect="equal")
    axes[2].set_title("test labels in bins of 0.1", fontsize=10)
    axes[2].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    """Print a table of accuracies, and draw what has been learned about pairs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("TAUT_DATA"), help="folder of data sets")
    arguments = parser.parse_args()
    if arguments.data is None:
        raise SystemExit("no data: give --data FOLDER or set TAUT_DATA")
    (X, Y), (X_test, Y_test) = read(arguments.data)
    print("| labels | Hamming loss | all right | micro F1 | C | gap | passes | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    chances = {}
    for name, with_edges in (("alone", False), ("in pairs", True)):
        method = Labels(with_edges).choose(X, Y)
        method.fit(X, Y, method.C, tol=1e-3)
        certificate = method.model.certificate_
        row(
            f"{name}, the best", method.predict(X_test), Y_test,
            f"{method.C:g} | {certificate.relative_gap:.1e} | {certificate.passes} | "
            f"{method.seconds:.1f}",
        )  # fmt: skip
        chances[name] = method.chances(X_test, method.temperature)
        found = (chances[name] > method.threshold).astype(int)
        row(f"{name}, probability above {method.threshold:.2f}", found, Y_test, "| | |")
    plot(method.interactions(), Y, chances, Y_test)


if __name__ == "__main__":
    main()
