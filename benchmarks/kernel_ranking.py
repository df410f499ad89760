"""Ranking web documents with a kernel: NDCG against linear rankers and SVR, time and gap.

python benchmarks/kernel_ranking.py --data FOLDER

201 queries for training and 50 for testing; features are divided by their largest values in the
training rows. SVR ranks by the relevance that it predicts of each document alone. C, gamma and
SVR's epsilon are chosen by five-fold cross-validation over the training queries, by NDCG@10. Errors
are standard errors over the test queries. Times are CPU seconds of one thread, the median of three
fits of all machines in turns; our gap is certified.
"""

from __future__ import annotations

import itertools
import os

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import numpy as np
from sklearn.model_selection import KFold
from sklearn.svm import SVR

from datasets import data_folder, parser
from ranking import Documents, load, with_error
from taut import RankSVM
from taut.metrics import ndcg
from timing import in_turns, markdown, write_json

WIDTHS = (0.003, 0.01, 0.03, 0.1)
SMALL, LARGE = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0), (0.1, 1.0, 10.0)


def ranker(**fixed):
    """RankSVM at a gap of 1e-3."""
    return lambda **chosen: RankSVM(random_state=0, max_iter=10_000, **fixed, **chosen)


#: Name: what makes a machine, and what is chosen.
MACHINES = {
    "linear, pairs": (ranker(), {"C": SMALL}),
    "linear, NDCG": (ranker(loss="ndcg"), {"C": LARGE}),
    "RBF, pairs": (ranker(kernel="rbf"), {"C": SMALL, "gamma": WIDTHS}),
    "RBF, NDCG": (ranker(kernel="rbf", loss="ndcg"), {"C": LARGE, "gamma": WIDTHS}),
    "SVR, RBF": (SVR, {"C": (0.01, *LARGE), "gamma": WIDTHS, "epsilon": (0.1, 0.3)}),
}


def train(name, documents, settings):
    """A fitted machine."""
    machine = MACHINES[name][0](**settings)
    if isinstance(machine, SVR):
        return machine.fit(documents.X, documents.y)
    return machine.fit(documents.X, documents.y, lengths=documents.lengths)


def quality(model, documents):
    """NDCG@10 of each query."""
    scores = model.predict(documents.X)
    parts = itertools.pairwise(documents.offsets)
    return np.array([ndcg(documents.y[i:j], scores[i:j], k=10) for i, j in parts])


def validate(name, documents, settings):
    """Mean NDCG@10 over queries, by five-fold cross-validation."""
    folds = KFold(5, shuffle=True, random_state=0).split(documents.lengths)
    values = [
        quality(train(name, documents.take(kept), settings), documents.take(out))
        for kept, out in folds
    ]
    return float(np.concatenate(values).mean())


def main() -> None:
    options = parser(__doc__).parse_args()
    folder = data_folder(options)
    trained, tested = load(folder, "train"), load(folder, "test")
    scale = np.abs(trained.X).max(axis=0)
    scale[scale == 0.0] = 1.0
    trained, tested = (Documents(d.X / scale, d.y, d.lengths) for d in (trained, tested))
    rows, chosen = [], {}
    for name, (_, grid) in MACHINES.items():
        curve = {}
        for values in itertools.product(*grid.values()):
            curve[values] = validate(name, trained, dict(zip(grid, values, strict=True)))
            print(name, values, f"{curve[values]:.4f}", flush=True)
        best = max(curve, key=curve.get)
        chosen[name] = dict(zip(grid, best, strict=True))
        model = train(name, trained, chosen[name])
        row = {"name": name, "settings": chosen[name], "validation": curve[best]}
        row["test"] = quality(model, tested).tolist()
        if not isinstance(model, SVR):
            row["gap"] = model.certificate_.relative_gap
        if hasattr(model, "dual_coef_"):
            row["support"] = len(model.support_)
        rows.append(row)
    seconds = in_turns(
        {name: lambda name=name: train(name, trained, chosen[name]) for name in MACHINES}, 3
    )
    rows = [row | {"seconds": seconds[row["name"]]} for row in rows]
    write_json(options.results / "kernel_ranking.json", rows)
    print(markdown(
        ["machine", "chosen", "NDCG@10, test", "cross-validation", "fit, CPU s", "gap",
         "support rows"],
        [[r["name"], ", ".join(f"{key} = {value:g}" for key, value in r["settings"].items()),
          with_error(np.array(r["test"])), f"{r['validation']:.4f}", f"{r['seconds']:.2f}",
          f"{r['gap']:.1e}" if "gap" in r else "",
          f"{r['support']} of {len(trained.y)}" if "support" in r else ""] for r in rows],
    ))  # fmt: skip


if __name__ == "__main__":
    main()
