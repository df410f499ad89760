"""How far models are from the optimum of their own objective, and whether they said so.

    python benchmarks/certify.py --data FOLDER [--only DATA]

scikit-learn's SVC, SVR, LinearSVC, LinearSVR and SGDClassifier, scikit-learn-intelex's SVC (oneDAL)
and taut's estimators, all at their default settings but for what the table names. A model "says
converged" if its fit gave no warning. `taut.certify` bounds the optimum of each model's own
objective from both sides: the objective of the model is at least and at most so much above it.
Of models of several machines the objectives are summed up. Times are CPU seconds of one fit and of
one certification, one after the other, one thread, without compilation.
"""

from __future__ import annotations

import os
import sys
import warnings

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR
from sklearnex import svm as one_dal

import regression_rivals
from datasets import data_folder, parser
from kernel_rivals import CELLS
from taut import BinarySVM, MulticlassSVM, RegressionSVM, certify
from taut.errors import NotConverged
from timing import cpu_time, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogFormatterMathtext

_LEAST = 1e-4  # per cent, at the left of the plot
_COLOURS = {True: "#1f5fa8", False: "#e07b1a"}


def _cancer(folder):
    """569 rows of 30 columns, the largest of them 4254."""
    return load_breast_cancer(return_X_y=True)


def _cpusmall(folder):
    """8192 rows of 12 columns, the largest of them two million."""
    parts = np.load(folder / "cpusmall" / "cpusmall.npz")
    return parts["X"].astype(np.float64), parts["y"].astype(np.float64)


def _standardised(read):
    def scaled(folder):
        X, y = read(folder)
        return StandardScaler().fit_transform(X), y

    return scaled


def _of_cell(group, name):
    read, gamma, _ = CELLS[group][name]
    return read, gamma


def _kernels(gamma, several):
    """Models with an RBF kernel, by C."""
    ours = MulticlassSVM if several else BinarySVM
    kinds = {"SVC": SVC, "oneDAL's SVC": one_dal.SVC, f"taut's {ours.__name__}": ours}
    return {
        f"{name}, C = {C}": kind(kernel="rbf", gamma=gamma, C=C)
        for C in (1, 10, 100)
        for name, kind in kinds.items()
    }


_LINEAR = {
    "LinearSVC": LinearSVC(random_state=0),
    "LinearSVC, C = 100": LinearSVC(C=100.0, random_state=0),
    "LinearSVC, dual=True": LinearSVC(dual=True, random_state=0),
    "LinearSVC, hinge": LinearSVC(loss="hinge", random_state=0),
    "LinearSVC, hinge, C = 100": LinearSVC(loss="hinge", C=100.0, random_state=0),
    "SGDClassifier": SGDClassifier(random_state=0),
    "taut's BinarySVM": BinarySVM(random_state=0),
    "taut's BinarySVM, C = 100": BinarySVM(C=100.0, random_state=0),
}
_REGRESSION = {
    "SVR": SVR(),
    "SVR, C = 100": SVR(C=100.0),
    "LinearSVR": LinearSVR(random_state=0),
    "LinearSVR, C = 100": LinearSVR(C=100.0, random_state=0),
    "LinearSVR, squared": LinearSVR(loss="squared_epsilon_insensitive", random_state=0),
    "taut's RegressionSVM": RegressionSVM(random_state=0),
}
_A9A, _IJCNN1 = _of_cell("small", "a9a 10,000"), _of_cell("small", "ijcnn1 10,000")
_USPS = _of_cell("small", "usps classes")

#: Data, and the models that are fitted to them.
TABLE = {
    "a9a 10,000, RBF": (_A9A[0], _kernels(_A9A[1], False)),
    "ijcnn1 10,000, RBF": (_IJCNN1[0], _kernels(_IJCNN1[1], False)),
    "usps, ten classes, RBF": (_USPS[0], _kernels(_USPS[1], True)),
    "a9a 10,000": (_A9A[0], _LINEAR),
    "ijcnn1 10,000": (_IJCNN1[0], _LINEAR),
    "breast cancer, standardised": (_standardised(_cancer), _LINEAR),
    "breast cancer, as given": (_cancer, _LINEAR),
    "abalone": (regression_rivals.abalone, _REGRESSION),
    "cpusmall, standardised": (_standardised(_cpusmall), _REGRESSION),
    "cpusmall, as given": (_cpusmall, _REGRESSION),
}


def _measure(model, X, y):
    """A fit, what it says of itself, and what is true."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, fit = cpu_time(lambda: model.fit(X, y))
    said = not any(issubclass(w.category, ConvergenceWarning | NotConverged) for w in caught)
    report, seconds = cpu_time(lambda: certify(model, X, y))
    above = [
        100.0 * (report.primal / bound - 1.0) if bound > 0.0 else float("inf")
        for bound in (report.best_primal, report.dual)
    ]
    return {
        "said": said, "at_least": above[0], "at_most": above[1], "fit": fit, "certify": seconds,
        "relative_gap": report.relative_gap, "message": report.message,
    }  # fmt: skip


def _percent(value):
    """Two figures, without exponents where they can be read."""
    if value < 1e-3:
        return f"{value:.0e}" if value > 0.0 else "0"
    return f"{value:.2g}" if value < 100.0 else f"{float(f'{value:.2g}'):,.0f}"


def _table(rows):
    """All rows, the name of the data where it changes."""
    lines, last = [], None
    for row in rows:
        data = row["data"] if row["data"] != last else ""
        last = row["data"]
        lines.append(
            [data, row["model"], "yes" if row["said"] else "no", _percent(row["at_least"]),
             _percent(row["at_most"]), f"{row['relative_gap']:.2g}", f"{row['fit']:.2g}",
             f"{row['certify'] / row['fit']:.2g}"]
        )  # fmt: skip
    header = ["data", "model", "says converged", "above optimum, % at least", "% at most",
              "relative gap", "fit, s", "certify / fit"]  # fmt: skip
    return markdown(header, lines)


def _plot(rows, path):
    """From at least to at most, by model."""
    names = list(dict.fromkeys(row["data"] for row in rows))
    heights = [sum(row["data"] == name for row in rows) for name in names]
    half = int(np.argmin(np.abs(np.cumsum(heights) - sum(heights) / 2))) + 1
    fig, columns = plt.subplots(1, 2, figsize=(12.5, 0.155 * max(heights) * len(names) / 2 + 2.2))
    for axes, own in zip(columns, (names[:half], names[half:]), strict=True):
        place, ticks, labels = 0, [], []
        for name in own:
            place -= 1
            axes.text(_LEAST, place, name, fontsize=8, fontweight="bold", va="center")
            for row in (row for row in rows if row["data"] == name):
                place -= 1
                ticks.append(place)
                labels.append(row["model"])
                low, high = (max(row[key], _LEAST) for key in ("at_least", "at_most"))
                axes.plot([low, high], [place, place], color=_COLOURS[row["said"]], linewidth=1.2)
                axes.plot(high, place, "o", color=_COLOURS[row["said"]], markersize=4)
        axes.axvline(0.1, color="grey", linewidth=0.7, linestyle=":")
        axes.set_xscale("log")
        axes.set_xlim(_LEAST / 1.5, 1e8)
        axes.set_xticks([1e-4, 1e-2, 1, 100, 1e4, 1e6, 1e8])
        axes.xaxis.set_major_formatter(LogFormatterMathtext())
        axes.set_yticks(ticks, labels, fontsize=7)
        axes.set_ylim(place - 1, 0)
        axes.set_xlabel("% above the optimum of its own objective")
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    for said, words in ((True, "fit without a warning"), (False, "warned")):
        columns[0].plot([], [], "o-", color=_COLOURS[said], markersize=4, label=words)
    columns[0].legend(frameon=False, fontsize=8, loc="lower right")
    fig.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=110)


def _compile():
    """Certify small data by ascent and from within, so that no time below is compilation."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = np.where(X[:, 0] + rng.normal(size=60) > 0.0, 1, -1)
    for rows in (X, np.where(rng.random((60, 5)) < 0.1, X, 0.0)):
        _measure(LinearSVC(loss="hinge", max_iter=1), rows, y)


def main() -> None:
    """Print the table as it grows, and plot it."""
    arguments = parser(__doc__)
    arguments.add_argument("--only", default="", help="data whose name begins with this")
    options = arguments.parse_args()
    folder, rows = data_folder(options), []
    _compile()
    for name, (read, models) in TABLE.items():
        if not name.startswith(options.only):
            continue
        X, y = read(folder)
        for label, model in models.items():
            if label.startswith("taut"):  # compiled
                _measure(clone(model).set_params(max_iter=1), X, y)
            rows.append({"data": name, "model": label} | _measure(model, X, y))
            print(name, label, rows[-1], flush=True)
    write_json(options.results / "certify.json", rows)
    print(_table(rows))
    _plot(rows, options.results / "certify.png")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
