"""Known optima on real data, each with a certificate that is recomputed independently.

python benchmarks/reference_optima.py --data FOLDER
"""

from __future__ import annotations

import json

import matplotlib
import numpy as np

import recompute
from datasets import Letters, data_folder, parser, sparse, usps
from taut import BinarySVM, ChainSVM, MulticlassSVM

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FITTING = {"tol": 1e-3, "random_state": 0, "warm_start": True}  # warm_start keeps the dual state


def binary_case(folder):
    """a9a without bias, C = 1."""
    X, y = sparse(folder, "a9a", "train")
    test_X, test_y = sparse(folder, "a9a", "test")
    model = BinarySVM(C=1.0, fit_intercept=False, **FITTING).fit(X, y)
    truth = recompute.binary(X, y, 1.0, model.coef_[0], model._state["alpha"][:, 0])
    return model, truth, 1.0 - model.score(test_X, test_y), X.shape


def multiclass_case(folder):
    """usps without bias, C = 0.1."""
    X, y, test_X, test_y = usps(folder)
    model = MulticlassSVM(C=0.1, fit_intercept=False, **FITTING).fit(X, y)
    truth = recompute.multiclass(X, y, 0.1, model.coef_, model._state["alpha"])
    return model, truth, 1.0 - model.score(test_X, test_y), (len(y), model.coef_.size)


def chain_case(small, regularisation):
    """OCR words with the loss divided by the length, C = 1 / (regularisation * words)."""

    def run(folder):
        letters = Letters(folder)
        words = (letters.folds == 0) == small
        X, y, lengths = letters.take(words)
        test_X, test_y, test_lengths = letters.take(~words)
        C = 1.0 / (regularisation * len(lengths))
        model = ChainSVM(C=C, loss="mean_hamming", **FITTING).fit(X, y, lengths=lengths)
        planes = list(recompute.planes_of(model._state))
        truth = recompute.chain(X, y, lengths, C, model.coef_, model.transition_, planes)
        error = 1.0 - model.score(test_X, test_y, lengths=test_lengths)
        size = model.coef_.size + model.transition_.size
        return model, truth, error, (len(lengths), size)

    return run


CASES = {
    "usps, C = 0.1": (multiclass_case, (75.3621, 75.3621), 0.082),
    "a9a, C = 1": (binary_case, (11433.81, 11433.81), 0.150),
    "letters, 626 words, lambda = 0.01": (chain_case(True, 0.01), (16.501, 16.525), 0.233),
    "letters, 6251 words, lambda = 0.01": (chain_case(False, 0.01), (38.094, 38.116), 0.123),
    "letters, 6251 words, lambda = 0.001": (chain_case(False, 0.001), (302.69, 303.51), 0.117),
}

DUAL = ("alpha", "places", "coef", "loss", "gram", "labels")


def measure(folder, case, optimum, error):
    """One fit with everything that is reported about it."""
    model, (primal, dual), test_error, (blocks, features) = case(folder)
    proof = model.certificate_
    memory = sum(model._state[name].nbytes for name in DUAL if name in model._state)
    return {
        "primal": proof.primal,
        "dual": proof.dual,
        "relative gap": proof.relative_gap,
        "recomputed primal": primal,
        "recomputed dual": dual,
        "recomputed relative gap": (primal - dual) / primal,
        "known optimum": optimum,
        "brackets the optimum": bool(dual <= optimum[1] and optimum[0] <= primal),
        "test error": test_error,
        "known test error": error,
        "passes": proof.passes,
        "oracle calls per block": proof.oracle_calls / blocks,
        "seconds": proof.seconds,
        "dual memory MB": memory / 1e6,
        "n * d MB": blocks * features * 8 / 1e6,
        "history": model.history_.to_dict(),
    }


def table(results):
    """The results as Markdown."""
    lines = [
        "| data | P | D | relative gap | recomputed | known P* | test error | known | passes "
        "| seconds | duals | n x d |",
        "|---" * 12 + "|",
    ]
    for name, row in results.items():
        low, high = row["known optimum"]
        known = f"{low:g}" if low == high else f"[{low:g}, {high:g}]"
        lines.append(
            f"| {name} | {row['primal']:.6g} | {row['dual']:.6g} | {row['relative gap']:.1e} "
            f"| {row['recomputed relative gap']:.1e} | {known} | {row['test error']:.4f} "
            f"| {row['known test error']:.3f} | {row['passes']} | {row['seconds']:.2f} "
            f"| {row['dual memory MB']:.1f} MB | {row['n * d MB']:.0f} MB |"
        )
    return "\n".join(lines)


def plot(results, path):
    """Primal and dual bounds against time, relative to the best bounds known."""
    figure, axes = plt.subplots(1, len(results), figsize=(3.4 * len(results), 3.2), sharey=True)
    for axis, (name, row) in zip(axes, results.items(), strict=True):
        history = row["history"]
        seconds = np.array(history["seconds"])
        primal, dual = np.array(history["primal"]), np.array(history["dual"])
        axis.semilogy(seconds, (primal - dual) / primal, color="tab:blue")
        exact = np.array(history["exact"])
        gap = ((primal - dual) / primal)[exact]
        axis.semilogy(seconds[exact], gap, "o", color="tab:red", label="verified")
        axis.axhline(1e-3, color="grey", linewidth=0.8, linestyle="--")
        axis.set_title(name, fontsize=9)
        axis.set_xlabel("seconds")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("relative duality gap")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    """Run all cases and write JSON, a table and a plot."""
    options = parser(__doc__).parse_args()
    folder = data_folder(options)
    results = {}
    for name, (case, optimum, error) in CASES.items():
        case(folder)  # compiled code and file caches are warm in the measured run
        results[name] = measure(folder, case, optimum, error)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "reference_optima.json").write_text(json.dumps(results, indent=1))
    (options.results / "reference_optima.md").write_text(table(results) + "\n")
    plot(results, options.results / "reference_optima.png")
    print(table(results))


if __name__ == "__main__":
    main()
