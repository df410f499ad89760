"""Kernel regression against scikit-learn's SVR and LinearSVR: error, time and gap.

python benchmarks/kernel_regression.py --data FOLDER

abalone and cpusmall: half of the rows for training and half for testing, in three random splits.
Features and targets are standardised by the training rows. C, gamma and epsilon are chosen by
three-fold cross-validation of the training rows by mean absolute error, with scikit-learn's own
machines (a choice in their favour), and are the same for ours. Errors are of the test rows, in
the units of the targets. Times are CPU seconds of one thread, the median of three interleaved fits;
all tables have means over the splits. LIBSVM has a free bias and ours a regularised one, so
that each solves a problem of its own, and each gap is that of its own problem: ours is certified,
theirs is computed here, in float64, from the coefficients that it returns.
"""

from __future__ import annotations

import itertools
import os
import statistics
import warnings

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import mean_absolute_error, root_mean_squared_error
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR, LinearSVR

from datasets import data_folder, parser
from regression_rivals import abalone, cpusmall
from taut import RegressionSVM
from taut.kernels import RBF
from timing import cpu_time, markdown, write_json

SPLITS = 3
EPSILONS = (0.05, 0.1, 0.2, 0.4)
GRIDS = {
    "linear": {"C": (0.01, 0.1, 1.0, 10.0), "epsilon": EPSILONS},
    "RBF": {"C": (0.1, 1.0, 10.0, 100.0), "gamma": (0.01, 0.03, 0.1, 0.3), "epsilon": EPSILONS},
}


def rival(form, seed=0, **settings):
    """LIBLINEAR or LIBSVM, with the stopping tolerance of scikit-learn."""
    if form == "linear":
        return LinearSVR(dual=True, max_iter=100_000, random_state=seed, **settings)
    return SVR(**settings)


def ours(form, seed=0, **settings):
    """To a certified gap of 1e-3."""
    kernel = {"linear": "linear", "RBF": "rbf"}[form]
    return RegressionSVM(kernel=kernel, tol=1e-3, max_iter=10_000, random_state=seed, **settings)


def own_gap(model, X, y):
    """The relative duality gap of an SVR in its own problem, with a free bias."""
    beta = model.dual_coef_[0]
    potentials = RBF(model.gamma)(X, model.support_vectors_) @ beta
    quadratic = float(beta @ potentials[model.support_])
    residuals = np.abs(y - potentials - model.intercept_)
    primal = 0.5 * quadratic + model.C * np.maximum(0.0, residuals - model.epsilon).sum()
    dual = beta @ y[model.support_] - model.epsilon * np.abs(beta).sum() - 0.5 * quadratic
    return (primal - dual) / primal, primal


def measure(form, split, X, y):
    """Both machines on one split."""
    train, test = split
    rows, targets = StandardScaler().fit(X[train]), StandardScaler().fit(y[train, None])
    X_train, X_test = rows.transform(X[train]), rows.transform(X[test])
    y_train = targets.transform(y[train, None])[:, 0]
    search = GridSearchCV(
        rival(form), GRIDS[form], cv=KFold(3, shuffle=True, random_state=0),
        scoring="neg_mean_absolute_error", refit=False,
    )  # fmt: skip
    settings = search.fit(X_train, y_train).best_params_
    makers = {"taut": ours, "scikit-learn": rival}
    ours(form, **settings).fit(X_train, y_train)  # compiled
    seconds = {name: [] for name in makers}
    models = {}
    for seed in range(3):
        for name, make in makers.items():
            models[name], taken = cpu_time(
                lambda make=make, seed=seed: make(form, seed, **settings).fit(X_train, y_train)
            )
            seconds[name].append(taken)
    found = []
    for name, model in models.items():
        predicted = targets.inverse_transform(model.predict(X_test)[:, None])[:, 0]
        row = {
            "form": form,
            "machine": name,
            "settings": settings,
            "mae": mean_absolute_error(y[test], predicted),
            "rmse": root_mean_squared_error(y[test], predicted),
            "seconds": statistics.median(seconds[name]),
        }
        if name == "taut":
            certificate = model.certificate_
            row |= {"gap": certificate.relative_gap, "primal": certificate.primal}
            row |= {"passes": certificate.passes}
        elif form == "RBF":
            row["gap"], row["primal"] = own_gap(model, X_train, y_train)
        if form == "RBF":
            row["support"] = len(model.support_)
        found.append(row)
    return found


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    options = parser(__doc__).parse_args()
    folder, found = data_folder(options), []
    for read in (abalone, cpusmall):
        X, y = read(folder)
        splits = ShuffleSplit(SPLITS, train_size=0.5, test_size=0.5, random_state=0).split(X)
        for number, split in enumerate(splits):
            for form in GRIDS:
                for row in measure(form, split, X, y):
                    found.append({"data": read.__name__, "split": number} | row)
                    print(found[-1], flush=True)
    write_json(options.results / "kernel_regression.json", found)
    lines = []
    for data, form, machine in itertools.product(
        ("abalone", "cpusmall"), GRIDS, ("taut", "scikit-learn")
    ):
        own = [r for r in found if (r["data"], r["form"], r["machine"]) == (data, form, machine)]

        def mean(key, own=own, form="{:.3f}"):
            return form.format(statistics.mean(r[key] for r in own)) if key in own[0] else ""

        lines.append([
            data, form, machine, mean("mae"), mean("rmse"), mean("seconds"),
            mean("gap", form="{:.1e}"), mean("primal", form="{:.1f}"),
            mean("support", form="{:.0f}"),
        ])  # fmt: skip
    print(markdown(
        ["data", "kernel", "", "MAE", "RMSE", "fit, CPU s", "gap", "objective", "support rows"],
        lines,
    ))  # fmt: skip


if __name__ == "__main__":
    main()
