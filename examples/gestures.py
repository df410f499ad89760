"""Motions of a wrist: one moment of ten seconds shows what is done, and nobody says which.

A watch records six channels while its wearer stands, walks, runs or plays badminton (BasicMotions,
40 sequences to train and 40 to test). A frame is a window of 1.1 seconds around a moment, described
by the mean and the deviation of each channel. `LatentMulticlassSVM` finds the frame that decides,
trained with the best label inside (`dual_coordinate`) or with the expectation over all labels
(`partial_linearization`), which are two ways to the same objective. It is compared with the mean of
all frames, which looks for none. C is chosen for each of the two models by five-fold
cross-validation among the training sequences.

    python examples/gestures.py --data FOLDER
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
import warnings
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.model_selection import StratifiedKFold

from taut import LatentMulticlassSVM, MulticlassSVM
from taut.errors import NotConverged

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HALF = 5  # time steps on either side of a frame, of a tenth of a second each
FACTORS = (0.01, 0.1, 1.0, 10.0, 100.0)
FITTING = {"tol": 1e-2, "max_iter": 1000, "random_state": 0}
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "gestures.png"


class Latent:
    """One frame decides."""

    solver = "dual_coordinate"

    def fit(self, bags, y, C):
        self.model = LatentMulticlassSVM(C=C, solver=self.solver, **FITTING).fit(bags, y)
        return self

    def score(self, bags, y):
        return self.model.score(bags, y)

    @property
    def training(self):
        """Rounds and what they come to."""
        return len(self.model.rounds_), self.model.rounds_["objective"][-1]


class Expecting(Latent):
    """The same, trained by expectations."""

    solver = "partial_linearization"


class Means:
    """A sequence is the mean of its frames."""

    def fit(self, bags, y, C):
        self.model = MulticlassSVM(C=C, **FITTING).fit(self.rows(bags), y)
        return self

    def rows(self, bags):
        return np.array([bag.mean(axis=0) for bag in bags])

    def score(self, bags, y):
        return self.model.score(self.rows(bags), y)

    @property
    def training(self):
        return 1, self.model.certificate_.primal


#: By label: the method, and the one whose folds choose C.
METHODS = {
    "`LatentMulticlassSVM`, maximum inside": (Latent, Latent),
    "`LatentMulticlassSVM`, expectation inside": (Expecting, Latent),
    "`MulticlassSVM` on means of frames": (Means, Means),
}


def read(folder, part):
    """Sequences as (time steps, channels), and their classes."""
    X, y = [], []
    with gzip.open(Path(folder) / "ts_BasicMotions" / f"BasicMotions_{part}.ts.gz", "rt") as lines:
        for line in lines:
            if line[0] not in "#@\n":
                *channels, label = line.strip().split(":")
                X.append(np.array([channel.split(",") for channel in channels], dtype=float).T)
                y.append(label)
    return X, np.array(y)


def frames(sequence):
    """Mean and deviation of each channel in each window."""
    windows = np.lib.stride_tricks.sliding_window_view(sequence, 2 * HALF + 1, axis=0)
    return np.hstack([windows.mean(axis=-1), windows.std(axis=-1)])


def standardised(train, test):
    """Both with mean 0 and deviation 1 of the features of the training frames."""
    rows = np.vstack(train)
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    return [[(bag - mean) / scale for bag in bags] for bags in (train, test)]


def inner_accuracy(method, bags, y, C):
    """Mean accuracy of five folds of the training bags."""
    scores = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(y, y):
        parts = standardised([bags[i] for i in train], [bags[i] for i in test])
        scores.append(method().fit(parts[0], y[train], C).score(parts[1], y[test]))
    return np.mean(scores)


def plot(sequences, bags, y, fitted):
    """The first test sequence of each class with its frame, and the objective by round."""
    figure, axes = plt.subplot_mosaic("ABE\nCDE", figsize=(11, 5))
    latent = fitted["`LatentMulticlassSVM`, maximum inside"].model
    for name, label in zip("ABCD", np.unique(y), strict=True):
        i, axis = int(np.argmax(y == label)), axes[name]
        moment = latent.predict_latent([bags[i]])[0] + HALF
        seconds = 0.1 * np.arange(len(sequences[i]))
        axis.plot(seconds, sequences[i][:, :3], linewidth=0.9)
        axis.axvspan(0.1 * (moment - HALF), 0.1 * (moment + HALF), color="0.8", zorder=0)
        axis.set_title(f"{label}, predicted {latent.predict([bags[i]])[0]}", fontsize=10)
    for name in "CD":
        axes[name].set_xlabel("seconds")
    for name in "AC":
        axes[name].set_ylabel("acceleration")
    for (name, method), mark in zip(fitted.items(), "os ", strict=True):
        if isinstance(method, Latent):
            rounds, inside = method.model.rounds_, name.split(", ")[1]
            axes["E"].plot(rounds["number"], rounds["objective"], f"{mark}-", label=inside)
    axes["E"].set(xlabel="round", ylabel="latent objective")
    axes["E"].set_yscale("log", subs=[2, 5])
    axes["E"].yaxis.set_major_formatter("{x:g}")
    axes["E"].yaxis.set_minor_formatter("{x:g}")
    axes["E"].set_title(f"C = {latent.C:g}", fontsize=10)
    axes["E"].xaxis.get_major_locator().set_params(integer=True)
    axes["E"].legend()
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=120)


def main() -> None:
    """Print a table of accuracies, and draw the frames and the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("TAUT_DATA"), help="folder of data sets")
    arguments = parser.parse_args()
    if arguments.data is None:
        raise SystemExit("no data: give --data FOLDER or set TAUT_DATA")
    (X, y), (X_test, y_test) = (read(arguments.data, part) for part in ("TRAIN", "TEST"))
    bags = [frames(x) for x in X]
    train, test = standardised(bags, [frames(x) for x in X_test])
    chosen, fitted = {}, {}
    for method in (Latent, Means):
        inner = {C: inner_accuracy(method, bags, y, C) for C in FACTORS}
        chosen[method] = max(FACTORS, key=inner.__getitem__)
        shares = ", ".join(f"{C:g}: {100 * share:.1f} %" for C, share in inner.items())
        print(f"{method.__name__}, accuracy in folds by C: {shares}")
    print("| method | C | test accuracy | rounds | objective | gap | passes | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for label, (method, chooser) in METHODS.items():
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)  # the table has the gap
            fitted[label] = method().fit(train, y, chosen[chooser])
        seconds = time.perf_counter() - began
        certificate = fitted[label].model.certificate_
        n_rounds, objective = fitted[label].training
        print(
            f"| {label} | {chosen[chooser]:g} | {100 * fitted[label].score(test, y_test):.1f} % | "
            f"{n_rounds} | {objective:.3f} | {certificate.relative_gap:.1e} | "
            f"{certificate.passes} | {seconds:.2f} |",
            flush=True,
        )
    plot(X_test, test, y_test, fitted)


if __name__ == "__main__":
    main()
