"""Linear regression against LIBLINEAR and scikit-learn: CPU time to equal accuracy, one thread.

python benchmarks/regression_rivals.py --data FOLDER

All minimise P(w) = 1/2 |w|^2 + C sum of max(0, |y - <w, x>| - epsilon), where x has a constant 1 as
its last feature. Features of cpusmall are standardised, those of abalone are scaled to [-1, 1];
targets are as they are, 0 to 99 and 1 to 29. Everything else is as in `linear_rivals`.
"""

from __future__ import annotations

import functools
import os
import warnings

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVR

from datasets import data_folder, sparse
from linear_rivals import Family, arguments, liblinear, run_all
from taut import RegressionSVM
from timing import markdown

EPSILONS = (0.1, 1.0)
STYLES = {
    ("epsilon = 0.1", "float64"): ("epsilon = 0.1", "#1f5fa8", "o", 0.0),
    ("epsilon = 1", "float64"): ("epsilon = 1", "#e07b1a", "D", 0.0),
}


def cpusmall(folder):
    """8192 rows of 12 features, standardised."""
    parts = np.load(folder / "cpusmall" / "cpusmall.npz")
    return StandardScaler().fit_transform(parts["X"].astype(np.float64)), parts["y"]


def abalone(folder):
    """4177 rows of 8 features in [-1, 1]."""
    X, y = sparse(folder, "abalone", "all")
    return X.toarray(), y


def insensitive(X, y, C, W, epsilon):
    """P at W, of shape (1, features)."""
    return 0.5 * (W**2).sum() + C * np.maximum(0.0, np.abs(y - X @ W[0]) - epsilon).sum()


def family(epsilon):
    """Both data sets with one width of the band."""
    return Family(
        data={f"{load.__name__}, epsilon = {epsilon:g}": load for load in (cpusmall, abalone)},
        Cs=(0.01, 0.1, 1.0, 10.0),
        dtypes=("float64",),
        estimator=functools.partial(RegressionSVM, epsilon=epsilon),
        liblinear_options=f"-s 13 -p {epsilon}",
        objective=functools.partial(insensitive, epsilon=epsilon),
        scikit_learn=functools.partial(LinearSVR, epsilon=epsilon, dual=True),
    )


def load(family, name, folder):
    """X with a constant as its last feature, and y."""
    X, y = family.data[name](folder)
    return np.column_stack([X.astype(np.float64), np.ones(len(y))]), y.astype(np.float64)


def agreement(families, cells, folder):
    """Objectives of the same solver in both packages, as tight as they go, beside our bounds."""
    rows = []
    for title, family in families.items():
        for key, cell in cells.get(title, {}).items():
            X, y = load(family, cell["data"], folder)
            low, high = cell["optimum"]
            capped = liblinear(family, X, y, cell["C"]).train(1e-8, 0).w
            model = family.scikit_learn(
                C=cell["C"], fit_intercept=False, tol=1e-8, max_iter=50_000, random_state=0
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                free = model.fit(X, y).coef_[None]
            reached = [family.objective(X, y, cell["C"], W) for W in (capped, free)]
            rows.append([key, f"{high:.9g}", f"{1.0 - low / high:.1e}"])
            rows[-1] += [f"{P / high - 1.0:+.1e}" for P in reached]
    header = ["problem", "P of taut", "relative gap", "LIBLINEAR, 300 passes", "scikit-learn"]
    return markdown(header, rows)


def main():
    """Run all cells, and compare the objectives."""
    options = arguments(__doc__)
    families = {f"epsilon = {epsilon:g}": family(epsilon) for epsilon in EPSILONS}
    results = run_all("regression_rivals", families, STYLES, load, options)
    table = agreement(families, results["cells"], data_folder(options))
    (options.results / "regression_agreement.md").write_text(table + "\n")
    print("Objectives at the tightest tolerances, relative to P of taut:", table, sep="\n\n")


if __name__ == "__main__":
    main()
