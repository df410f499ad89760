"""Transfer: a model of much data from elsewhere as the prior of a model of few examples.

    python examples/transfer.py --data FOLDER

A prior is what the regulariser draws the weights to: instead of 1/2 |w|^2 a fit minimises
1/2 precision |w - mean|^2 plus its losses. With the weights of another model as the mean, a few
examples only have to correct that model; how far they may is for `prior_precision` to say, and for
cross-validation to choose.

The source is the training set of usps, 7291 digits of 16 x 16 pixels, if FOLDER has it, and the
target its test set turned by 15 degrees. Without FOLDER they are two halves of scikit-learn's
digits, the second turned in the same way.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.ndimage import rotate
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, train_test_split

from taut import BinarySVM, MulticlassSVM

SIZES = (20, 50, 100, 200)
DRAWS = 5  # of the few target examples
PRECISIONS = (1.0, 3.0, 10.0, 30.0)
ANGLE = 15.0


def tasks(folder):
    """Source X, y and target X, y; pixels in [0, 1]."""
    path = Path(folder or "") / "usps" / "usps.npz"
    if path.exists():
        usps = np.load(path)
        X, target = usps["X_train"].astype(float), usps["X_test"].astype(float)
        y, target_y = usps["y_train"].astype(int), usps["y_test"].astype(int)
    else:
        images, digits = load_digits(return_X_y=True)
        X, target, y, target_y = train_test_split(
            images / 16.0, digits, test_size=0.5, stratify=digits, random_state=0
        )
    side = round(np.sqrt(X.shape[1]))
    turned = rotate(target.reshape(-1, side, side), ANGLE, axes=(1, 2), reshape=False, order=1)
    return X, y, turned.reshape(len(target), -1), target_y


def fit_few(X, y, **prior):
    """A model whose `prior_precision` is chosen by cross-validation."""
    folds = min(3, np.bincount(y).min())  # so that each fold has each digit
    model = MulticlassSVM(tol=1e-2, random_state=0, **prior)
    return GridSearchCV(model, {"prior_precision": PRECISIONS}, cv=folds).fit(X, y)


def some_of_each(y, n, rng):
    """Numbers of n examples, with each digit equally often."""
    return np.concatenate(
        [rng.choice(np.flatnonzero(y == digit), n // 10, replace=False) for digit in range(10)]
    )


def curves(source, X, y):
    """Test accuracies of both ways, by number of target examples and draw."""
    train_X, test_X, train_y, test_y = train_test_split(
        X, y, test_size=0.5, stratify=y, random_state=0
    )
    # Cross-validation clones models with their parameters: freeze the one that is to stay fitted.
    priors = {"from scratch": {}, "source as prior": {"prior_mean": FrozenEstimator(source)}}
    found = {name: np.zeros((len(SIZES), DRAWS)) for name in priors}
    for k, size in enumerate(SIZES):
        for draw in range(DRAWS):
            few = some_of_each(train_y, size, np.random.default_rng(draw))
            for name, prior in priors.items():
                model = fit_few(train_X[few], train_y[few], **prior)
                found[name][k, draw] = model.score(test_X, test_y)
    return found, source.score(test_X, test_y)


def show(found, alone, console):
    """Mean and standard deviation over the draws."""
    table = Table(title=f"Test accuracy, mean and deviation of {DRAWS} draws")
    for name in ("target examples", *found):
        table.add_column(name, justify="right")
    for k, size in enumerate(SIZES):
        cells = (f"{a[k].mean():.3f} +- {a[k].std(ddof=1):.3f}" for a in found.values())
        table.add_row(str(size), *cells)
    console.print(table)
    console.print(f"The source model alone, without any target example: {alone:.3f}\n")


def plot(found, alone, path):
    """Accuracy against the number of target examples."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for (name, values), colour in zip(found.items(), ("#e07b1a", "#1f5fa8"), strict=True):
        mean, deviation = values.mean(axis=1), values.std(axis=1, ddof=1)
        axis.errorbar(SIZES, mean, deviation, fmt="o-", color=colour, capsize=3, label=name)
    axis.axhline(alone, color="#777777", linestyle="--", label="source model alone")
    axis.set(xscale="log", xlabel="target examples", ylabel="accuracy on other target examples")
    axis.set_xticks(SIZES, SIZES)
    axis.set_xticks([], minor=True)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=130)


def other_priors(X, y, console):
    """What else a prior can say, on the question whether a digit is a 0."""
    zero = y == 0
    plain = BinarySVM(C=0.1, random_state=0).fit(X, zero)
    # One precision per weight, the intercept's last: it may move as if it were hardly regularised.
    precision = np.append(np.ones(X.shape[1]), 1e-3)
    free = BinarySVM(C=0.1, prior_precision=precision, random_state=0).fit(X, zero)
    # Ink may speak for a 0 and never against it; the intercept is free to be negative.
    positive = BinarySVM(C=0.1, prior_precision=precision, nonneg=True, random_state=0)
    positive.fit(X, zero)
    models = {"plain": plain, "intercept free": free, "and nonneg=True": positive}
    table = Table(title="Is it a 0? Other priors, on the training set")
    for name in ("", "intercept", "w > 0", "w < 0", "accuracy", "gap"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for name, model in models.items():
        table.add_row(
            name,
            f"{model.intercept_[0]:.2f}",
            str(np.count_nonzero(model.coef_ > 0.0)),
            str(np.count_nonzero(model.coef_ < 0.0)),
            f"{model.score(X, zero):.3f}",
            f"{model.certificate_.relative_gap:.0e}",
        )
    console.print(table)


def main() -> None:
    """Train the source model, compare both ways on the target, show other priors."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data", default=os.environ.get("TAUT_DATA"), help="has usps/usps.npz")
    arguments.add_argument("--plot", help="where to save a picture of the accuracies")
    options = arguments.parse_args()
    console = Console()
    source_X, source_y, X, y = tasks(options.data)
    source = MulticlassSVM(C=0.01, random_state=0).fit(source_X, source_y)
    console.print(f"{len(source_y)} source examples, {len(y)} of the target.\n")
    found, alone = curves(source, X, y)
    show(found, alone, console)
    if options.plot:
        plot(found, alone, options.plot)
    other_priors(X, y, console)


if __name__ == "__main__":
    main()
