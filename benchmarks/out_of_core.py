"""Training from files ten times larger than memory, under a hard cap, beside a plain read of them.

python benchmarks/out_of_core.py --folder FOLDER

Generates a dense and a sparse set of shards (4.2 GB each), then trains each in a process of its own
whose memory is capped at a tenth of the set's size: by a control group where the system lets us
make one (its page cache counts too, so that files really are read from disk), else by a limit on
the data segment. In the same process, before and after training, the files are read from beginning
to end into one buffer: that is the speed that exploring is compared with. A subset that fits into
memory is trained both ways to a tight gap, and the objectives are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import numpy as np
import scipy.sparse as sp

from datasets import RESULTS
from taut import BinarySVM
from taut.data import open_shards, write_shards
from taut.solvers import OnlineCache
from timing import markdown, write_json

DENSE_FEATURES, SPARSE_FEATURES, WORDS = 1000, 20_000, 100
ROWS = 5000  # of a generated part
BUFFER = 4_000_000


def dense_parts(n: int, seed: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Two Gaussian clouds that overlap a little: one row in 400 is on the wrong side."""
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(DENSE_FEATURES).astype(np.float32)
    direction *= np.float32(2.8 / np.linalg.norm(direction))
    for start in range(0, n, ROWS):
        size = min(ROWS, n - start)
        y = rng.integers(2, size=size)
        X = rng.standard_normal((size, DENSE_FEATURES), dtype=np.float32)
        X += np.outer(2.0 * y - 1.0, direction).astype(np.float32)
        yield X, y


def sparse_parts(n: int, seed: int = 0) -> Iterator[tuple[sp.csr_array, np.ndarray]]:
    """Texts of `WORDS` different words, three in ten of them drawn from those of their class."""
    rng = np.random.default_rng(seed)
    for start in range(0, n, ROWS):
        size = min(ROWS, n - start)
        y = rng.integers(2, size=size)
        # One word in each of equally wide ranges: sorted, and never twice the same.
        edges = np.linspace(0, SPARSE_FEATURES, WORDS + 1).astype(np.int32)
        place = rng.random((size, WORDS), dtype=np.float32) ** 2
        own = rng.random((size, WORDS)) < 0.3
        place = np.where(own, (place + y[:, None]) / 2, place)
        indices = edges[:-1] + (place * np.diff(edges)).astype(np.int32)
        values = np.full(size * WORDS, 1.0 / np.sqrt(WORDS), dtype=np.float32)
        indptr = np.arange(0, size * WORDS + 1, WORDS)
        shape = (size, SPARSE_FEATURES)
        yield sp.csr_array((values, indices.ravel().astype(np.int32), indptr), shape=shape), y


#: Kind: its parts, bytes per row, the C it is trained with.
KINDS = {
    "dense": (dense_parts, 4 * DENSE_FEATURES, 0.01),
    "sparse": (sparse_parts, 8 * WORDS + 8, 1.0),
}


def generate(folder: Path, kind: str, gigabytes: float) -> Path:
    """Write a set unless it is there."""
    path = folder / f"{kind}-{gigabytes:g}GB"
    if not path.exists():
        parts, width, _ = KINDS[kind]
        began = time.perf_counter()
        shards = write_shards(path, parts(int(gigabytes * 1e9 / width)))
        print(f"wrote {shards} in {time.perf_counter() - began:.0f} s", flush=True)
    return path


@contextmanager
def capped(limit: int) -> Iterator[tuple[dict, Path | None, str]]:
    """Arguments of `subprocess.Popen` under which a process has at most `limit` bytes."""
    group = Path("/sys/fs/cgroup/memory") / f"taut-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit))
    except OSError:

        def restrict() -> None:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

        yield {"preexec_fn": restrict}, None, "limit on the data segment"
        return

    def enter() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))

    try:
        yield {"preexec_fn": enter}, group, "control group"
    finally:
        group.rmdir()


def forget(path: Path) -> None:
    """Let the system drop the files from its cache, as it would drop what does not fit."""
    for file in path.glob("*.npy"):
        with open(file, "rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_plainly(path: Path) -> tuple[int, float]:
    """Bytes and seconds of reading all arrays once, in sequence, into one buffer."""
    forget(path)
    buffer, total, began = memoryview(bytearray(BUFFER)), 0, time.perf_counter()
    for file in sorted(path.glob("*.npy")):
        with open(file, "rb", buffering=0) as opened:
            while count := opened.readinto(buffer):
                total += count
    return total, time.perf_counter() - began


class Stopwatch:
    """Seconds spent in the parts of `OnlineCache`, pass by pass."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {"explore": [0.0], "optimise": [0.0]}
        for name, kept in (("_explore", "explore"), ("_optimise", "optimise")):
            setattr(OnlineCache, name, self._timed(getattr(OnlineCache, name), kept))

    def _timed(self, method, kept):
        def timed(solver, state, *arguments):
            began = time.perf_counter()
            report = method(solver, state, *arguments)
            self.seconds[kept][-1] += time.perf_counter() - began
            if report.event.over:
                for values in self.seconds.values():
                    values.append(0.0)
            return report

        return timed


def resident() -> int:
    """Bytes of memory that the process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def train(path: Path, kind: str, memory: str, tol: float, max_iter: int) -> None:
    """Train under the cap that is on this process, and print what happened as JSON."""
    shards, watch, trace = open_shards(path), Stopwatch(), []
    # Compiled before anything is timed, on as many rows as make one chunk.
    warm = shards.take(np.arange(200))
    BinarySVM(solver=OnlineCache(memory=memory), max_iter=1, tol=0.9).fit(shards_of_one(warm, kind))
    watch.seconds = {name: [0.0] for name in watch.seconds}
    before = read_plainly(path)
    model = BinarySVM(
        C=KINDS[kind][2],
        solver=OnlineCache(memory=memory),
        tol=tol,
        max_iter=max_iter,
        random_state=0,
        callbacks=[lambda r: trace.append((r.seconds, resident(), r.iteration, r.relative_gap))],
    )
    forget(path)
    model.fit(shards)
    after = read_plainly(path)
    certificate = model.certificate_
    print(
        json.dumps(
            {
                "bytes": before[0],
                "plain seconds": [before[1], after[1]],
                "seconds": {name: values[:-1] for name, values in watch.seconds.items()},
                "training seconds": certificate.seconds,
                "passes": certificate.passes,
                "primal": certificate.primal,
                "relative gap": certificate.relative_gap,
                "status": certificate.status.name,
                "peak resident": certificate.peak_memory,
                "trace": trace,
            }
        )
    )


def shards_of_one(chunk, kind):
    """A set of some rows, to compile with."""
    folder = Path(tempfile.mkdtemp())
    X = chunk.X if kind == "dense" else sp.csr_array(chunk.X)
    return write_shards(folder / "warm", X, chunk.y)


def measure(path: Path, kind: str, options: argparse.Namespace) -> dict:
    """Train in a process under the cap."""
    size = open_shards(path).nbytes
    limit = size // 10
    command = [
        sys.executable, __file__, "--train", str(path), "--kind", kind,
        "--memory", options.memory, "--tol", str(options.tol), "--max-iter", str(options.max_iter),
    ]  # fmt: skip
    with capped(limit) as (arguments, group, how):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, **arguments)
        used = int((group / "memory.max_usage_in_bytes").read_text()) if group else None
    result = json.loads(done.stdout.splitlines()[-1])
    return result | {"size": size, "cap": limit, "capped by": how, "largest charge": used}


def compare_subset(folder: Path, kind: str, megabytes: int = 400) -> dict:
    """The same rows out of core and in memory, to a tight gap."""
    parts, width, C = KINDS[kind]
    path = folder / f"{kind}-subset"
    if not path.exists():
        write_shards(path, parts(int(megabytes * 1e6 / width)))
    shards = open_shards(path)
    settings = {"C": C, "tol": 1e-6, "random_state": 0}
    streamed = BinarySVM(solver=OnlineCache(memory="150MB"), **settings).fit(shards)
    X, y = shards.load()
    whole = BinarySVM(**settings).fit(X, y)
    ours, theirs = streamed.certificate_, whole.certificate_
    return {
        "rows": shards.n_blocks,
        "out of core": ours.primal,
        "in memory": theirs.primal,
        "relative difference": abs(ours.primal - theirs.primal) / theirs.primal,
        "gaps": [ours.relative_gap, theirs.relative_gap],
        "passes": [ours.passes, theirs.passes],
    }


def report(results: dict) -> str:
    """Two tables."""
    rows = []
    for kind, (r, _) in results.items():
        plain = r["bytes"] / np.mean(r["plain seconds"])
        explored = [r["bytes"] / s for s in r["seconds"]["explore"]]
        whole = r["bytes"] / (r["seconds"]["explore"][0] + r["seconds"]["optimise"][0])
        rows.append(
            [
                kind,
                f"{r['size'] / 1e9:.2f} GB",
                f"{r['cap'] / 1e6:.0f} MB",
                f"{r['peak resident'] / 1e6:.0f} MB",
                f"{plain / 1e6:.0f} MB/s",
                " / ".join(f"{e / plain:.2f}" for e in explored),
                f"{whole / plain:.2f}",
                r["passes"],
                f"{r['relative gap']:.1e}",
                f"{r['training seconds']:.0f} s",
            ]
        )
    header = [
        "set", "size", "cap", "peak resident", "plain read", "exploring, of plain, by pass",
        "first pass with optimising", "passes", "gap", "training",
    ]  # fmt: skip
    subset = [
        [kind, s["rows"], f"{s['out of core']:.8g}", f"{s['in memory']:.8g}",
         f"{s['relative difference']:.1e}"]
        for kind, (_, s) in results.items()
    ]  # fmt: skip
    ways = ", ".join(f"{kind}: {r['capped by']}" for kind, (r, _) in results.items())
    return "\n\n".join(
        [
            f"Capped by {ways}.",
            markdown(header, rows),
            "The same rows out of core and in memory, both to a gap of 1e-6:",
            markdown(["set", "rows", "out of core", "in memory", "difference"], subset),
        ]
    )


def plot(results: dict, path: Path) -> None:
    """Resident memory and the estimated gap over time, a panel per set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(11, 4), layout="constrained")
    for axis, (kind, (r, _)) in zip(np.atleast_1d(axes), results.items(), strict=True):
        seconds, memory, passes, gaps = map(np.array, zip(*r["trace"], strict=True))
        axis.plot(seconds, memory / 1e6, color="#1f5fa8", label="resident memory")
        axis.axhline(r["cap"] / 1e6, color="#b03030", linestyle="--", label="cap")
        axis.set_ylim(0, 1.35 * r["cap"] / 1e6)
        axis.set_xlabel("seconds of training")
        axis.set_ylabel("MB")
        axis.set_title(
            f"{kind}, {r['size'] / 1e9:.1f} GB: gap {r['relative gap']:.0e}", fontsize=10
        )
        right = axis.twinx()
        right.semilogy(seconds, gaps, color="#999999", linewidth=0.8)
        right.set_ylabel("estimated relative gap of what has been seen", color="#777777")
        for number in range(2, int(passes.max()) + 1):
            axis.axvline(seconds[passes >= number][0], color="#cccccc", linewidth=0.8)
        axis.legend(frameon=False, fontsize=8, loc="upper right")
        axis.spines[["top"]].set_visible(False)
        right.spines[["top"]].set_visible(False)
    figure.savefig(path, dpi=130)


def main():
    """Generate, train under the cap, compare; or train only, in the capped process."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--folder", type=Path, help="for the generated files; a temporary one")
    arguments.add_argument("--gigabytes", type=float, default=4.2)
    arguments.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    arguments.add_argument("--memory", default="110MB", help="budget of the solver")
    arguments.add_argument("--tol", type=float, default=1e-3)
    arguments.add_argument("--max-iter", type=int, default=20)
    arguments.add_argument("--results", type=Path, default=RESULTS)
    arguments.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    arguments.add_argument("--kind", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.train is not None:
        train(options.train, options.kind, options.memory, options.tol, options.max_iter)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        results = {}
        for kind in options.kinds:
            path = generate(folder, kind, options.gigabytes)
            # First, so that everything has been compiled when memory is short.
            subset = compare_subset(folder, kind)
            results[kind] = (measure(path, kind, options), subset)
            print(report(results), flush=True)
    write_json(options.results / "out_of_core.json", results)
    (options.results / "out_of_core.md").write_text(report(results) + "\n")
    plot(results, options.results / "out_of_core.png")


if __name__ == "__main__":
    main()
