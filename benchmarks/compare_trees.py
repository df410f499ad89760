"""Fit times of two checkouts of the library, interleaved: what a change costs.

python benchmarks/compare_trees.py --data FOLDER --before OLD/src --after NEW/src

The linear fits of `linear_rivals.py` and the plain-Python structure of `examples/own_structure.py`,
or with `--cells` words of letters, costs of trees with the solvers of `hierarchical.py`, files read
chunk by chunk as in `out_of_core.py`, or expectations; without warm starts and checkpoints. Each
checkout is a process of its own, which has compiled before; they take turns, and each fit is
compared by its least CPU time, or with `--jobs 2` by its least wall time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from datasets import data_folder, digits, parser, sector, sparse, trec, usps

HERE = Path(__file__).parent
MOST_ROUNDS, LEAST_ROUNDS = 15, 4
SECONDS = 25.0  # that a cell may take, between these numbers of rounds
#: By group: what is fitted, and the C. A name is data, then what is not the default.
CELLS = {
    "linear": {
        "usps": (0.01, 1.0),
        "sector": (0.1, 1.0),
        "digits": (0.01, 1.0),
        "a9a": (0.01, 1.0, 10.0),
        "ijcnn1": (0.01, 1.0, 10.0),
        "tags": (0.1,),
    },
    "words": {
        "words": (0.1, 1.0),
        "words, float32": (0.1, 1.0),
        "usps, float32": (0.01, 1.0),
        "sector, float32": (0.1,),
    },
    "hierarchies": {
        "sector tree, multi_sample": (1.0,),
        "sector tree, multi_sample, float32": (1.0,),
        "questions, multi_sample": (10.0,),
        "questions, frank_wolfe": (10.0,),
        "questions, n_slack": (10.0,),
    },
    "chunks": {
        "a9a, chunks": (0.1,),
        "ijcnn1, chunks": (1.0,),
        "ijcnn1, chunks, float32": (1.0,),
        "words, chunks": (0.1,),
    },
    "expectations": {
        "some words, partial_linearization": (0.1,),
        "some words, partial_linearization, float32": (0.1,),
        "some words, multi_sample": (0.1,),
    },
}
N_WORDS = {"words": 2500, "some words": 626}
MEMORY = {"a9a": "8MB", "ijcnn1": "8MB", "words": "30MB"}  # too little for all blocks


def words(folder, name, dtype):
    """Pixels and letters of some words, a list of arrays each."""
    letters = np.load(folder / "ocr_letters" / "ocr_letters.npz")
    lengths = letters["lengths"][: N_WORDS[name]]
    edges, pixels = np.cumsum(lengths)[:-1], letters["X"][: lengths.sum()].astype(dtype)
    return np.split(pixels, edges), np.split(letters["y"][: lengths.sum()], edges)


def tags(taut):
    """The structure of the example of that checkout, and its data."""
    sys.path.insert(0, str(Path(taut.__file__).parents[2] / "examples"))
    from own_structure import Tags, tagged

    return Tags(5), *tagged(300, 5, 8, np.random.default_rng(0))


def load(name, folder):
    """Model by C, X and y."""
    import taut

    data, *variants = name.split(", ")
    dtype = np.float32 if "float32" in variants else np.float64
    solvers = [variant for variant in variants if variant not in ("float32", "chunks")]
    settings = {"random_state": 0, "solver": solvers[0] if solvers else "auto"}
    if data == "tags":
        structure, X, y = tags(taut)
        return (lambda C: taut.StructuredSVM(structure, C=C, **settings)), X, y
    if data in N_WORDS:
        kind, (X, y) = taut.ChainSVM, words(folder, data, dtype)
    elif data in ("sector tree", "questions"):
        X, y, *_test, tree = sector(folder) if data == "sector tree" else trec(folder)
        kind, X, settings = taut.MulticlassSVM, X.astype(dtype), settings | {"cost": tree}
    else:
        kind = taut.BinarySVM if data in ("a9a", "ijcnn1") else taut.MulticlassSVM
        given = {"digits": digits, "usps": lambda: usps(folder)[:2]}
        X, y = given[data]() if data in given else sparse(folder, data, "train")
        X, settings = X.astype(dtype), settings | {"fit_intercept": False}
    if "chunks" in variants:
        path = Path(tempfile.mkdtemp()) / "shards"
        X, y = taut.data.write_shards(path, X, y, chunk_size="300KB"), None
        settings["solver"] = taut.solvers.OnlineCache(memory=MEMORY[data])
    if solvers:
        settings["tol"] = 0.01
    return (lambda C: kind(C=C, **settings)), X, y


def serve(folder, n_jobs):
    """Fit what is asked for on standard input, and answer with seconds and passes."""
    known, clock = {}, time.process_time if n_jobs == 1 else time.perf_counter
    for line in sys.stdin:
        name, C = json.loads(line)
        if name not in known:
            known[name] = load(name, folder)
        new, X, y = known[name]
        model = new(C).set_params(n_jobs=n_jobs)
        began = clock()
        model.fit(X, y)
        seconds = clock() - began
        print(json.dumps([seconds, model.certificate_.passes]), flush=True)


def start(source, folder, n_jobs):
    """A process that works with one checkout."""
    single = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    path = os.pathsep.join([str(source), str(HERE)])
    return subprocess.Popen(
        [
            sys.executable, "-W", "ignore", __file__, "--serve", "--data", str(folder),
            "--jobs", str(n_jobs),
        ],
        env=os.environ | single | {"PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def ask(process, cell):
    """One fit."""
    process.stdin.write(json.dumps(cell) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def compare(trees, cell):
    """The least seconds of each tree, and its passes."""
    for tree in trees:
        ask(tree, cell)  # compile
    once = sum(ask(tree, cell)[0] for tree in trees)
    rounds = int(min(max(SECONDS / once, LEAST_ROUNDS), MOST_ROUNDS))
    times, passes = [[], []], [0, 0]
    for turn in range(2 * rounds):
        k = (turn + turn // 2) % 2  # neither always comes first
        seconds, passes[k] = ask(trees[k], cell)
        times[k].append(seconds)
    return min(times[0]), min(times[1]), passes


def main():
    options = parser(__doc__)
    options.add_argument("--before", type=Path)
    options.add_argument("--after", type=Path)
    options.add_argument("--cells", nargs="+", choices=list(CELLS), default=["linear"])
    options.add_argument("--only", default="", help="part of the names of the fits")
    options.add_argument("--jobs", type=int, default=1, help="threads of each fit, by wall time")
    options.add_argument("--serve", action="store_true")
    given = options.parse_args()
    folder = data_folder(given)
    if given.serve:
        serve(folder, given.jobs)
        return
    trees = [start(source, folder, given.jobs) for source in (given.before, given.after)]
    print("| fit | C | before, s | after, s | after / before | passes |\n|---|---|---|---|---|---|")
    ratios = []
    for group in given.cells:
        for name, Cs in CELLS[group].items():
            for C in Cs if given.only in name else ():
                before, after, passes = compare(trees, (name, C))
                ratios.append(after / before)
                print(
                    f"| {name} | {C:g} | {before:.4f} | {after:.4f} | {ratios[-1]:.3f} | "
                    f"{passes[0]}, {passes[1]} |",
                    flush=True,
                )
    print(f"\nmedian {np.median(ratios):.3f}, largest {max(ratios):.3f}")
    for tree in trees:
        tree.stdin.close()
        tree.wait()


if __name__ == "__main__":
    main()
