"""Kernel machines with fewer support rows: objective, test error and speed of prediction.

python benchmarks/compress.py --data FOLDER

`compress(X, y, n_support=share)` of RBF machines: a9a (gamma 0.05), the digit 3 of usps against the
rest, and all classes of usps (gamma "scale"). Each share starts from the whole model. The rise is
that of the objective relative to before; the gap is that of the new certificate. Errors are those
of the official test parts. Times are CPU seconds of one thread; those of prediction are medians of
five, in turns.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np

from datasets import data_folder, parser, sparse, usps
from taut import BinarySVM, MulticlassSVM
from timing import cpu_time, in_turns, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter

SHARES = {"a9a": (0.02, 0.05, 0.1, 0.2), "usps": (0.05, 0.1, 0.2, 0.5)}


def a9a(folder):
    """Rows and signs, for training and for testing."""
    X, y = sparse(folder, "a9a", "train")
    X_test, y_test = sparse(folder, "a9a", "test")
    return X.astype(np.float64), np.sign(y), X_test.astype(np.float64), np.sign(y_test)


def one_digit(folder):
    """The digit 3 against the rest."""
    X, y, X_test, y_test = usps(folder)
    return X, y == 3, X_test, y_test == 3


#: Name: how to read, the estimator, gamma, C.
CELLS = {
    "a9a, C = 1": (a9a, BinarySVM, 0.05, 1.0),
    "a9a, C = 10": (a9a, BinarySVM, 0.05, 10.0),
    "usps 3, C = 1": (one_digit, BinarySVM, "scale", 1.0),
    "usps 3, C = 10": (one_digit, BinarySVM, "scale", 10.0),
    "usps classes, C = 1": (usps, MulticlassSVM, "scale", 1.0),
    "usps classes, C = 10": (usps, MulticlassSVM, "scale", 10.0),
}


def measure(name, folder):
    """The whole model, and one for each share."""
    read, estimator, gamma, C = CELLS[name]
    X, y, X_test, y_test = read(folder)
    model, seconds = cpu_time(
        lambda: estimator(C=C, kernel="rbf", gamma=gamma, random_state=0).fit(X, y)
    )
    models, times = {1.0: model}, {1.0: seconds}
    for share in SHARES[name.split()[0].strip(",")]:
        models[share], times[share] = cpu_time(
            lambda share=share: model.compress(X, y, n_support=share)
        )
        print(name, share, f"{times[share]:.1f} s", models[share].certificate_.message, flush=True)
    prediction = in_turns({m: lambda m=m: models[m].predict(X_test) for m in models}, 5)
    whole = model.certificate_.primal
    return [
        {
            "data": name,
            "share": share,
            "support": len(small.support_),
            "rise": small.certificate_.primal / whole - 1.0,
            "gap": small.certificate_.relative_gap,
            "error": float(np.mean(small.predict(X_test) != y_test)),
            "seconds": times[share],
            "speed": prediction[1.0] / prediction[share],
            "prediction": prediction[share],
        }
        for share, small in models.items()
    ]


def percent(share):
    """Two digits at least, without exponents."""
    return f"{100 * share:.0f} %" if share > 0.1 else f"{100 * share:.2g} %"


def plot(rows, path):
    """Rises and errors against the share of rows."""
    fig, panels = plt.subplots(1, 2, figsize=(9.5, 3.2))
    colours = {"a9a": "#1f5fa8", "usps 3": "#e07b1a", "usps classes": "#1e8449"}
    for name in dict.fromkeys(r["data"] for r in rows):
        own = sorted((r for r in rows if r["data"] == name), key=lambda r: r["share"])
        style = {
            "color": colours[name.split(",")[0]],
            "marker": "o",
            "markersize": 4,
            "linestyle": "-" if name.endswith("= 1") else "--",
            "label": name,
        }
        part = [r for r in own if r["share"] < 1.0]
        panels[0].plot([r["share"] for r in part], [100 * r["rise"] for r in part], **style)
        panels[1].plot([r["share"] for r in own], [100 * r["error"] for r in own], **style)
    panels[0].set(title="rise of the objective (%)", yscale="log")
    panels[0].set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    panels[1].set(title="test error (%)", yscale="log")
    panels[1].set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    places = sorted({r["share"] for r in rows})
    for axes in panels:
        axes.set(xscale="log", xlabel="share of the support rows")
        axes.set_xticks(places, [f"{100 * share:g} %" for share in places])
        axes.xaxis.set_minor_formatter(NullFormatter())
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    panels[1].yaxis.set_minor_formatter(NullFormatter())
    panels[1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    fig.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=110)


def main() -> None:
    options = parser(__doc__).parse_args()
    rows = [row for name in CELLS for row in measure(name, data_folder(options))]
    write_json(options.results / "compress.json", rows)
    print(markdown(
        ["data", "support rows", "rise of the objective", "gap", "test error",
         "prediction, ms", "times as fast", "compress, CPU s"],
        [[r["data"], r["support"], percent(r["rise"]) if r["share"] < 1.0 else "",
          f"{r['gap']:.2g}", f"{100 * r['error']:.2f} %", f"{1000 * r['prediction']:.0f}",
          f"{r['speed']:.1f}", f"{r['seconds']:.1f}" if r["share"] < 1.0 else ""]
         for r in rows],
    ))  # fmt: skip
    plot(rows, options.results / "compress.png")


if __name__ == "__main__":
    main()
