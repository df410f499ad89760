"""Bags of instances: positive because of one of their instances, and nobody says which.

A molecule smells of musk if one of its shapes does; an image shows an elephant if one of its
segments does. `LatentSVM` finds that instance. It is compared with two ways of not looking for it:
the mean of each bag, and all instances with the label of their bag. Ten-fold cross-validation over
bags; features are standardised, and C is chosen, inside the training folds only.

    python examples/multiple_instances.py --data FOLDER
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.model_selection import StratifiedKFold

from taut import BinarySVM, LatentSVM
from taut.errors import NotConverged

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SETS = ("musk1", "elephant")
PUBLISHED = {"musk1": 77.9, "elephant": 81.4}  # MI-SVM of Andrews et al., 2003
FACTORS = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)
FITTING = {"tol": 1e-3, "max_iter": 20000, "random_state": 0}
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "multiple_instances.png"


class Latent:
    """One instance of each positive bag counts, and all of each negative one."""

    def fit(self, bags, y, C):
        self.model = LatentSVM(C=C, **FITTING).fit(bags, y)
        return self

    def score(self, bags, y):
        return self.model.score(bags, y)


class Means:
    """A bag is the mean of its instances."""

    def fit(self, bags, y, C):
        self.model = BinarySVM(C=C, **FITTING).fit(self.rows(bags), y)
        return self

    def rows(self, bags):
        return np.array([bag.mean(axis=0) for bag in bags])

    def score(self, bags, y):
        return self.model.score(self.rows(bags), y)


class Instances:
    """Each instance has the label of its bag; the highest score decides."""

    def fit(self, bags, y, C):
        labels = np.repeat(y, [len(bag) for bag in bags])
        self.model = BinarySVM(C=C, **FITTING).fit(np.vstack(bags), labels)
        return self

    def score(self, bags, y):
        highest = [self.model.decision_function(bag).max() for bag in bags]
        return np.mean((np.array(highest) > 0.0) == y)


METHODS = {
    "`LatentSVM`": Latent,
    "`BinarySVM` on means of bags": Means,
    "`BinarySVM` on instances": Instances,
}


def read(folder, name):
    """Bags and their labels."""
    with np.load(Path(folder) / f"mil_{name}" / f"{name}.npz") as data:
        X, bag, y = data["X"].astype(float), data["bag"], data["y_bag"]
    return [X[bag == i] for i in range(len(y))], y.astype(int)


def standardised(train, test):
    """Both with mean 0 and deviation 1 of the features of the training instances."""
    rows = np.vstack(train)
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale[scale == 0.0] = 1.0
    return [[(bag - mean) / scale for bag in bags] for bags in (train, test)]


def folds(bags, y, n, seed):
    """Standardised training and test bags with their labels."""
    for train, test in StratifiedKFold(n, shuffle=True, random_state=seed).split(y, y):
        parts = standardised([bags[i] for i in train], [bags[i] for i in test])
        yield *parts, y[train], y[test]


def inner_accuracy(method, bags, y, C):
    """Mean accuracy of five folds of the training bags."""
    scores = [
        method().fit(train, y_train, C).score(test, y_test)
        for train, test, y_train, y_test in folds(bags, y, 5, seed=1)
    ]
    return np.mean(scores)


def cross_validate(method, bags, y, seed):
    """The accuracy of each of ten folds, and the factors that were chosen."""
    accuracies, chosen = [], []
    for train, test, y_train, y_test in folds(bags, y, 10, seed):
        C = max(FACTORS, key=lambda C: inner_accuracy(method, train, y_train, C))
        accuracies.append(method().fit(train, y_train, C).score(test, y_test))
        chosen.append(C)
    return accuracies, chosen


def plot(data):
    """The latent objective and the convex optimum by round, of a fit to each whole set."""
    figure, axes = plt.subplots(1, len(data), figsize=(9, 3.4))
    for axis, (name, (bags, y)) in zip(axes, data.items(), strict=True):
        model = LatentSVM(C=0.1, round_tol=0.0, random_state=0)
        rounds = model.fit(standardised(bags, [])[0], y).rounds_
        axis.plot(rounds["number"], rounds["primal"], "s", color="C1", label="convex problem")
        axis.plot(rounds["number"], rounds["objective"], "o-", label="latent objective after it")
        axis.set(title=f"{name}, C = 0.1", xlabel="round", xticks=rounds["number"])
        axis.set_ylim(0.0, 1.08 * rounds["primal"].max())
    axes[0].set_ylabel("objective")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=120)


def main() -> None:
    """Print a table of accuracies, and draw the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("TAUT_DATA"), help="folder of data sets")
    parser.add_argument("--repeats", type=int, default=1, help="cross-validations by other folds")
    parser.add_argument("--tol", type=float, default=1e-3, help="relative gap of each fit")
    arguments = parser.parse_args()
    if arguments.data is None:
        raise SystemExit("no data: give --data FOLDER or set TAUT_DATA")
    FITTING["tol"] = arguments.tol
    data = {name: read(arguments.data, name) for name in SETS}
    plot(data)
    print("| set | method | accuracy | chosen C | fits | not converged | seconds |")
    print("|---|---|---|---|---|---|---|")
    for name, (bags, y) in data.items():
        for label, method in METHODS.items():
            began, means, chosen = time.perf_counter(), [], []
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", NotConverged)
                for seed in range(arguments.repeats):
                    accuracies, factors = cross_validate(method, bags, y, seed)
                    means.append(100.0 * np.mean(accuracies))
                    chosen += factors
            n_fits = len(chosen) * (5 * len(FACTORS) + 1)
            spread = f" ± {np.std(means):.1f}" if len(means) > 1 else ""
            print(
                f"| {name} | {label} | {np.mean(means):.1f} %{spread} | {np.median(chosen):g} | "
                f"{n_fits} | {len(caught)} | {time.perf_counter() - began:.0f} |",
                flush=True,
            )
        print(f"| {name} | MI-SVM, published | {PUBLISHED[name]} % | | | | |")


if __name__ == "__main__":
    main()
