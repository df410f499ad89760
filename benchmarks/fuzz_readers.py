"""Files of data that lie, by the thousand: what reading them comes to.

    python benchmarks/fuzz_readers.py --seconds 600 --seed 0

Good files of each format are changed at random, bytes and words of them, and read, as a whole and
part by part. That happens in children, whose memory is limited, so that a crash or a hang is
counted and ends nothing. Rows that are accepted must be what they seem: finite, with columns in
order and in range; of svmlight files those that scikit-learn reads, where it reads them too; and
the same part by part as in one piece.
"""

from __future__ import annotations

import argparse
import bz2
import collections
import gzip
import io
import lzma
import os
import resource
import select
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

import taut
from taut.errors import InvalidFile, TautError

GOOD = ("accepted", "InvalidFile", "taut error")
_BATCH = 500  # mutations of one child
_SECONDS = 20  # of one mutation, after which it hangs
_MEMORY = 2_000_000_000  # bytes beyond those of the process
_WORDS = [
    b"1:", b":1", b"nan", b"inf", b"-", b"+", b".", b"e", b"1e400", b"1e-400", b"#", b"\n", b"\r\n",
    b"\r", b"\t", b" ", b"qid:1", b"qid:", b"cost:2", b"cost:-1", b"sid:3", b"99999999999999999999",
    b"2147483647", b"0", b",", b";", b'"', b"\x00", b"\xff", b"\xc3\xa9", b"0x1p3", b"1_0",
    b"123456789012345678901234567890", b"0.30000000000000004", b"NA", b"?", b"\xef\xbb\xbf",
]  # fmt: skip


class Wrong(Exception):
    """Rows that are not those of the file."""


class Target(NamedTuple):
    """A good file, and how it is read."""

    name: str
    content: bytes
    suffix: str
    options: dict[str, Any]


def targets() -> list[Target]:
    """Small files of every format."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 5)) * (rng.random((12, 5)) < 0.6)
    y = rng.integers(3, size=12)

    def pairs(x: np.ndarray) -> str:
        return " ".join(f"{k + 1}:{float(x[k])!r}" for k in np.flatnonzero(x))

    plain = "".join(f"{t} {pairs(x)} # row\n" for x, t in zip(X.round(3), y))
    ranked = "".join(f"{t} qid:{i // 4} {pairs(x)}\n" for i, (x, t) in enumerate(zip(X, y)))
    cells = "size,colour,price\n" + "".join(
        f"{x[0]:.3f},{'red' if t else 'blue'},{t}\n" for x, t in zip(X, y)
    )

    def saved(save: Callable[..., Any], *values: Any, **named: Any) -> bytes:
        file = io.BytesIO()
        save(file, *values, **named)
        return file.getvalue()

    svm, table = plain.encode(), cells.encode()
    found = [
        Target("svmlight", svm, ".svm", {}),
        Target("ranking", ranked.encode(), ".svm", {}),
        Target("svm_hmm", ranked.encode(), ".hmm", {}),
        Target("csv", table, ".csv", {"target": "price"}),
        Target("tsv", table.replace(b",", b"\t"), ".tsv", {}),
        Target("npy", saved(np.save, X), ".npy", {}),
        Target("npz", saved(np.savez_compressed, X=X, y=y, lengths=[5, 7]), ".npz", {}),
        Target("csr", saved(sp.save_npz, sp.csr_array(X)), ".npz", {}),
        Target("gzip", gzip.compress(svm), ".svm.gz", {}),
        Target("bzip2", bz2.compress(svm), ".svm.bz2", {}),
        Target("xz", lzma.compress(svm), ".svm.xz", {}),
    ]
    try:
        import zstandard
    except ModuleNotFoundError:
        pass
    else:
        found.append(Target("zstd", zstandard.compress(svm), ".svm.zst", {}))
    try:
        import pyarrow
        import pyarrow.feather
        import pyarrow.parquet
    except ModuleNotFoundError:
        pass
    else:
        columns = pyarrow.table({"size": X[:, 0], "colour": [str(t) + "x" for t in y], "y": y})
        found += [
            Target("parquet", _written(pyarrow.parquet.write_table, columns), ".parquet", {}),
            Target("feather", _written(pyarrow.feather.write_feather, columns), ".feather", {}),
        ]
    return found


def _written(write: Callable[[Any, str], Any], table: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        write(table, str(path))
        return path.read_bytes()


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """A file with a few changes."""
    data = bytearray(content)
    for _ in range(int(rng.geometric(0.4))):
        place = int(rng.integers(len(data) + 1))
        size = int(rng.geometric(0.3))
        kind = rng.integers(7)
        if kind == 0 and data:
            data[place % len(data)] = int(rng.integers(256))
        elif kind == 1 and data:
            data[place % len(data)] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            data[place:place] = _WORDS[int(rng.integers(len(_WORDS)))]
        elif kind == 3:
            del data[place : place + size]
        elif kind == 4:
            other = int(rng.integers(len(data) + 1))
            data[place:place] = data[other : other + 8 * size]
        elif kind == 5:
            data[place : place + size] = rng.integers(256, size=size, dtype=np.uint8).tobytes()
        elif rng.random() < 0.3:
            del data[place:]
    return bytes(data)


def use(target: Target, path: Path) -> None:
    """Read a file in both ways, and look at what comes out."""
    table = taut.read(path, **target.options)
    X = table.X
    values = X.data if sp.issparse(X) else X
    if not np.isfinite(values).all():
        raise Wrong("values are not finite")
    if sp.issparse(X):
        X.check_format()
        rising = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
        if not rising.has_canonical_format:
            raise Wrong("columns are not in order")
    _compare_with_parts(target, path, table)
    if target.name == "svmlight":
        _compare_with_sklearn(path, table)


def _compare_with_parts(target: Target, path: Path, table: Any) -> None:
    source = taut.open_file(path, chunk_size=200, **target.options)
    chunks = [(chunk, source.labels(chunk)) for chunk in source.chunks()]
    rows = [taut.readers.tables.table_of(source).X] if chunks else []
    if (abs(rows[0] - table.X)).max() != 0.0 or rows[0].shape != table.X.shape:
        raise Wrong("part by part there are other rows")
    labels = [label for _, y in chunks if y is not None for label in y]
    if table.y is not None and labels != list(table.y):
        raise Wrong("part by part there are other targets")


def _compare_with_sklearn(path: Path, table: Any) -> None:
    try:
        X, y = load_svmlight_file(str(path))
    except Exception:  # it has its own mind
        return
    same = X.shape[0] == table.X.shape[0] and (y == table.y).all()
    if not same or not np.array_equal(X.data, table.X.data):
        raise Wrong("scikit-learn reads other rows")


def outcome_of(target: Target, path: Path) -> tuple[str, str]:
    """What reading a file comes to, and what it says."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            use(target, path)
    except InvalidFile as error:
        return "InvalidFile", str(error)
    except TautError as error:
        return "taut error", str(error)
    except Wrong as error:
        return "wrong", str(error)
    except BaseException as error:  # whatever it is, it is what is looked for
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        return "foreign", f"{type(error).__name__}: {error} at {where}"
    return "accepted", ""


def child(number: int, seed: int, known: list[Target], folder: Path, pipe: int) -> None:
    """Make and read a batch of mutations; a line for each, which names it before it is read."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, used + _MEMORY))
    for k in range(number, number + _BATCH):
        rng = np.random.default_rng([seed, k])
        target = known[k % len(known)]
        path = folder / f"mutation{target.suffix}"
        path.write_bytes(mutated(target.content, rng))
        os.write(pipe, f"{k}\t{target.name}\t".encode())
        signal.alarm(_SECONDS)
        outcome, said = outcome_of(target, path)
        signal.alarm(0)
        os.write(pipe, f"{outcome}\t{said!r:.300}\n".encode())


def main() -> None:
    """Read mutations until the time is over, and print what they came to."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=60.0)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--only", nargs="*", default=None, help="names of targets")
    options = arguments.parse_args()
    known = [each for each in targets() if options.only is None or each.name in options.only]
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for target in known:  # compiled before the first child, and tells that good files are good
            path = folder / f"good{target.suffix}"
            path.write_bytes(target.content)
            use(target, path)
        began, number = time.monotonic(), 0
        while time.monotonic() - began < options.seconds:
            for line in run(number, options.seed, known, folder):
                k, target_name, outcome, said = line
                counts[target_name, outcome] += 1
                if outcome not in GOOD:
                    print(f"mutation {k} of {target_name}: {outcome} {said}")
            number += _BATCH
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    for target in known:
        found = {o: n for (t, o), n in sorted(counts.items()) if t == target.name}
        print(f"{target.name:10}", ", ".join(f"{n} {outcome}" for outcome, n in found.items()))
    print(f"{sum(counts.values())} mutations, at most {peak:.0f} MB in a child")


def run(number: int, seed: int, known: list[Target], folder: Path) -> list[list[str]]:
    """The lines of a child; one that it did not end is a crash or a hang."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            os.close(reading)
            child(number, seed, known, folder, writing)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    text = bytearray()
    while True:
        if not select.select([reading], [], [], 2 * _SECONDS)[0]:
            os.kill(process, signal.SIGKILL)
        block = os.read(reading, 1 << 16)
        if not block:
            break
        text += block
    os.close(reading)
    status = os.waitpid(process, 0)[1]
    lines = [line.split("\t", 3) for line in text.decode(errors="replace").splitlines()]
    if lines and (len(lines[-1]) < 4 or not lines[-1][2]):
        hangs = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGKILL)
        lines[-1] = [*lines[-1][:2], "hang" if hangs else "crash", f"status {status}"]
    return lines


if __name__ == "__main__":
    main()
