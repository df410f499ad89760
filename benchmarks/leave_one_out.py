"""Leave-one-out errors by training again and again, beside the bound and the estimate of one fit.

python benchmarks/leave_one_out.py

Iris, wine and breast cancer, shipped with scikit-learn, with columns of mean 0 and variance 1. All
fits are to a relative gap of 1e-8. Times are CPU seconds of one thread: of all fits without one
row, and of one fit with `leave_one_out_error`.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.preprocessing import scale

from datasets import parser
from taut import BinarySVM, MulticlassSVM
from taut.errors import NotConverged
from timing import cpu_time, markdown, write_json

SETTING = {"tol": 1e-8, "max_iter": 10_000, "random_state": 0}
DATA = {
    "iris": (load_iris, MulticlassSVM),
    "wine": (load_wine, MulticlassSVM),
    "breast cancer": (load_breast_cancer, BinarySVM),
}
CELLS = [("linear", 0.01), ("linear", 0.1), ("linear", 1.0), ("rbf", 1.0)]


def again_and_again(cls, parameters, X, y):
    """The share of rows that models trained without them get wrong."""
    wrong = 0
    for i in range(len(y)):
        kept = np.arange(len(y)) != i
        wrong += cls(**parameters).fit(X[kept], y[kept]).predict(X[i : i + 1])[0] != y[i]
    return wrong / len(y)


def measure(name, kernel, C):
    """A row of the table."""
    load, cls = DATA[name]
    X, y = load(return_X_y=True)
    X = scale(X)

    def at_once():
        model = cls(C=C, kernel=kernel, **SETTING).fit(X, y)
        return model, model.leave_one_out_error(X, y)

    at_once()  # compiles
    (model, found), once = cpu_time(at_once)
    parameters = {"C": C, "kernel": getattr(model, "kernel_", "linear")} | SETTING
    true, often = cpu_time(lambda: again_and_again(cls, parameters, X, y))
    return {
        "data": name,
        "kernel": kernel,
        "C": C,
        "training": float(np.mean(model.predict(X) != y)),
        "true": float(true),
        "estimate": found.estimate,
        "bound": found.bound,
        "xi-alpha": found.xi_alpha,
        "once": once,
        "often": often,
    }


def main():
    """All cells, as a table."""
    arguments = parser(__doc__)
    arguments.add_argument("--only", nargs="*", choices=DATA, default=list(DATA))
    options = arguments.parse_args()
    warnings.simplefilter("ignore", NotConverged)
    rows = []
    for name in options.only:
        for cell in CELLS:
            rows.append(measure(name, *cell))
            print(rows[-1], flush=True)
    shares = ("training", "true", "estimate", "bound", "xi-alpha")
    print(
        markdown(
            ("data", "kernel", "C", *(f"{share}, %" for share in shares), "once, s", "often, s"),
            [
                [row["data"], row["kernel"], row["C"],
                 *("" if row[share] is None else f"{100.0 * row[share]:.1f}" for share in shares),
                 f"{row['once']:.2f}", f"{row['often']:.1f}"]
                for row in rows
            ],
        )
    )  # fmt: skip
    write_json(options.results / "leave_one_out.json", rows)


if __name__ == "__main__":
    main()
