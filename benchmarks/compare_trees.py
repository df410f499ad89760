"""Fit times of two checkouts of the library, interleaved: what a change costs.

python benchmarks/compare_trees.py --data FOLDER --before OLD/src --after NEW/src

The linear fits of `linear_rivals.py` and the plain-Python structure of `examples/own_structure.py`,
or words of letters with `--cells words`; without warm starts and checkpoints. Each checkout is a
process of its own, which has compiled before; they take turns, and each fit is compared by its
least CPU time, or with `--jobs 2` by its least wall time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from datasets import data_folder, digits, parser, sparse, usps

HERE = Path(__file__).parent
ROUNDS = 15
CELLS = {
    "usps": (0.01, 1.0),
    "sector": (0.1, 1.0),
    "digits": (0.01, 1.0),
    "a9a": (0.01, 1.0, 10.0),
    "ijcnn1": (0.01, 1.0, 10.0),
    "tags, plain Python": (0.1,),
}
#: Chains of letters, and the same in single precision; with `--cells words`.
WORDS = {"words": (0.1, 1.0), "words, float32": (0.1, 1.0), "usps, float32": (0.01, 1.0)}
N_WORDS = 2500


def load(name, folder):
    """Model by C, X and y."""
    import taut

    if name.startswith("tags"):
        sys.path.insert(0, str(Path(taut.__file__).parents[2] / "examples"))  # of that checkout
        from own_structure import Tags, tagged

        X, y = tagged(300, 5, 8, np.random.default_rng(0))
        return (lambda C: taut.StructuredSVM(Tags(5), C=C, random_state=0)), X, y
    dtype = np.float32 if name.endswith("float32") else np.float64
    name = name.partition(",")[0]
    if name == "words":
        letters = np.load(folder / "ocr_letters" / "ocr_letters.npz")
        lengths = letters["lengths"][:N_WORDS]
        edges, pixels = np.cumsum(lengths)[:-1], letters["X"][: lengths.sum()].astype(dtype)
        X, y = np.split(pixels, edges), np.split(letters["y"][: lengths.sum()], edges)
        return (lambda C: taut.ChainSVM(C=C, random_state=0)), X, y
    binary = name in ("a9a", "ijcnn1")
    kind = taut.BinarySVM if binary else taut.MulticlassSVM
    if name == "digits":
        X, y = digits()
    else:
        X, y = usps(folder)[:2] if name == "usps" else sparse(folder, name, "train")
    X = X.astype(dtype)
    return (lambda C: kind(C=C, fit_intercept=False, random_state=0)), X, y


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
        [sys.executable, __file__, "--serve", "--data", str(folder), "--jobs", str(n_jobs)],
        env=os.environ | single | {"PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(process, cell):
    """One fit."""
    process.stdin.write(json.dumps(cell) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def main():
    options = parser(__doc__)
    options.add_argument("--before", type=Path)
    options.add_argument("--after", type=Path)
    options.add_argument("--cells", choices=["linear", "words"], default="linear")
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
    for name, Cs in (CELLS if given.cells == "linear" else WORDS).items():
        for C in Cs:
            for tree in trees:
                ask(tree, (name, C))  # compile
            times, passes = [[], []], [0, 0]
            for turn in range(2 * ROUNDS):
                k = (turn + turn // 2) % 2  # neither always comes first
                seconds, passes[k] = ask(trees[k], (name, C))
                times[k].append(seconds)
            before, after = map(min, times)
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
