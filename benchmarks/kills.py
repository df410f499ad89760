"""Processes killed at random moments while they write: what is lost, and what is left over.

    python benchmarks/kills.py --kills 100 --seed 0

A child fits with a checkpoint after each pass, saves models in a loop, or writes shards in a loop,
and is killed by SIGKILL. Then the file at the path must be complete, the old or the new one, a run
must go on from it to bounds that are true, and the next write must leave nothing else behind.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import taut
from taut.data import open_shards, write_shards
from taut.structures import Chain
from taut.training.checkpoint import Checkpoint

_ROUNDING = 1e-6
COLUMNS = ("kills", "while writing", "lost", "left over", "false")


def killed(work: Callable[[], None], seconds: float) -> None:
    """Run something in a child, and kill it after so many seconds."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def temporaries(folder: Path) -> list[str]:
    """What unfinished writes have left."""
    return [name for name in os.listdir(folder) if name.endswith(".tmp")]


def checkpoints(folder: Path, moments: np.ndarray) -> Counter:
    """Kill fits that save a checkpoint after each pass."""
    rng = np.random.default_rng(0)
    X, lengths = rng.normal(size=(300, 4)), np.arange(0, 301, 6)
    problem = taut.Problem(Chain(3), (X, lengths), rng.integers(3, size=300), C=1.0)
    best = taut.solve(problem, tol=1e-8, max_iter=5000, random_state=0).certificate
    path, counts = folder / "run.taut", Counter()

    def fit(max_iter: int) -> Any:
        keep = Checkpoint(path, seconds=0.0)
        return taut.solve(problem, tol=0.0, max_iter=max_iter, random_state=0, checkpoint=keep)

    fit(1)
    passes = 1
    for moment in moments:
        killed(lambda passes=passes: fit(passes + 10**6), moment)
        counts["kills"] += 1
        counts["while writing"] += bool(temporaries(folder))
        try:
            result = fit(1)  # as far as it is, and the certificate of that
            passes = result.certificate.passes
            result = fit(passes + 1)
        except (OSError, taut.errors.TautError) as error:
            print(f"  lost: {error}", file=sys.stderr)
            counts["lost"] += 1
            path.unlink(missing_ok=True)
            fit(1)
            continue
        slack = _ROUNDING * (1.0 + best.primal)
        false = result.certificate.dual > best.primal + slack
        false |= abs(problem.primal(result.w) - result.certificate.primal) > slack
        counts["false"] += bool(false)
        counts["left over"] += os.listdir(folder) != [path.name]
        if passes > 2000:  # begin anew: at the optimum a run ends by itself
            path.unlink()
            fit(1)
    return counts


def models(folder: Path, moments: np.ndarray) -> Counter:
    """Kill processes that save one of two models over the other."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2000))
    both = [taut.BinarySVM(C=C, random_state=0).fit(X, X[:, 0] > 0) for C in (0.01, 1.0)]
    path, counts = folder / "model.taut", Counter()
    both[0].save(path)

    def save() -> None:
        while True:
            for model in both:
                model.save(path)

    for moment in moments:
        killed(save, moment)
        counts["kills"] += 1
        counts["while writing"] += bool(temporaries(folder))
        try:
            found = taut.load(path)
            known = any(np.array_equal(found.coef_, model.coef_) for model in both)
            counts["lost"] += not known
        except (OSError, taut.errors.TautError) as error:
            print(f"  lost: {error}", file=sys.stderr)
            counts["lost"] += 1
        both[0].save(path)
        counts["left over"] += os.listdir(folder) != [path.name]
    return counts


def shards(folder: Path, moments: np.ndarray) -> Counter:
    """Kill processes that write shards."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 20))
    y = X[:, 0] > 0
    path, counts = folder / "set", Counter()

    def write() -> None:
        for number in range(10**6):
            write_shards(path, X, y, chunk_size=20_000, shard_size=100_000)
            os.rename(path, folder / f"done-{number}")

    for moment in moments:
        killed(write, moment)
        counts["kills"] += 1
        counts["while writing"] += bool(temporaries(folder))
        for found in [name for name in folder.iterdir() if not name.name.endswith(".tmp")]:
            try:
                rows, targets = open_shards(found).load()
                whole = np.array_equal(rows, X) and np.array_equal(targets, y)
            except (OSError, taut.errors.TautError) as error:
                print(f"  lost: {error}", file=sys.stderr)
                whole = False
            counts["lost"] += not whole
            shutil.rmtree(found)
        write_shards(path, X, y)
        counts["left over"] += os.listdir(folder) != [path.name]
        shutil.rmtree(path)
    return counts


def main() -> int:
    """Kill, look, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.5, help="the latest moment of a kill")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    moments = np.random.default_rng(options.seed).uniform(0.0, options.seconds, options.kills)
    print(f"{'':12}" + " ".join(f"{name:>14}" for name in COLUMNS))
    bad = 0
    for kind in (checkpoints, models, shards):
        with tempfile.TemporaryDirectory() as name:
            counts = kind(Path(name), moments)
        print(f"{kind.__name__:12}" + " ".join(f"{counts[c]:14}" for c in COLUMNS), flush=True)
        bad += sum(counts[column] for column in COLUMNS[2:])
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
