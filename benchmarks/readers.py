"""How fast svmlight files are read, beside scikit-learn: megabytes a second, in turns.

    python benchmarks/readers.py --data FOLDER --megabytes 200 --repeats 3

The rows of a9a and sector are written as their publishers have them, numbers with few digits, over
and over until the file has the wanted size; sector once more with all digits that a float64 has.
Each reader reads the file in turns, in one thread; the medians of their CPU time are compared. What
is read must be equal, bit for bit. Reading part by part includes the reading that finds columns
and classes.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.datasets import load_svmlight_file

import datasets
import taut
from timing import cpu_time


def write(path: Path, X: Any, y: np.ndarray, digits: int, megabytes: float) -> None:
    """Rows as text, over and over."""
    lines = []
    for i, target in enumerate(y):
        row = slice(X.indptr[i], X.indptr[i + 1])
        pairs = zip((X.indices[row] + 1).tolist(), X.data[row].tolist())
        lines.append(f"{target:g} " + " ".join(f"{k}:{v:.{digits}g}" for k, v in pairs))
    block = ("\n".join(lines) + "\n").encode()
    with open(path, "wb") as file:
        for _ in range(max(1, round(megabytes * 1e6 / len(block)))):
            file.write(block)


def chunk_by_chunk(path: Path) -> int:
    """Open a file and read it once more; how many rows there are."""
    source = taut.open_file(path)
    return sum(chunk.n_blocks for chunk in source.chunks())


def main() -> None:
    """Print a line for each file, and keep the figures."""
    arguments = datasets.parser(__doc__)
    arguments.add_argument("--megabytes", type=float, default=200.0)
    arguments.add_argument("--repeats", type=int, default=3)
    options = arguments.parse_args()
    folder = datasets.data_folder(options)
    began = time.process_time()
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "rows.svm"
        path.write_text("1 1:2\n")
        taut.read(path)
        print(f"first reading, compiled or loaded: {time.process_time() - began:.2f} s")
        results = {}
        for name, digits in (("a9a", 6), ("sector", 6), ("sector", 17)):
            X, y = datasets.sparse(folder, name, "train")
            write(path, X, y, digits, options.megabytes)
            results[f"{name}, {digits} digits"] = measure(path, options.repeats)
    options.results.mkdir(exist_ok=True)
    (options.results / "readers.json").write_text(json.dumps(results, indent=1))


def measure(path: Path, repeats: int) -> dict[str, float]:
    """Megabytes a second of each reader."""
    size = path.stat().st_size / 1e6
    readers: dict[str, Callable[[], Any]] = {
        "taut.read": lambda: taut.read(path),
        "taut.open_file": lambda: chunk_by_chunk(path),
        "scikit-learn": lambda: load_svmlight_file(str(path)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(repeats):
        found = {}
        for name, call in readers.items():
            found[name], taken = cpu_time(call)
            seconds[name].append(taken)
        (X, y), (other, targets) = found["taut.read"], found["scikit-learn"]
        same = X.data.tobytes() == other.data.tobytes() and (X.indices == other.indices).all()
        if not (same and (y == targets).all() and len(y) == found["taut.open_file"]):
            raise SystemExit(f"{path.name}: the readers differ")
    speeds = {name: size / statistics.median(taken) for name, taken in seconds.items()}
    ratio = speeds["taut.read"] / speeds["scikit-learn"]
    words = ", ".join(f"{name} {speed:.0f} MB/s" for name, speed in speeds.items())
    print(f"{size:.0f} MB: {words}; ratio {ratio:.1f} (scikit-learn {sklearn.__version__})")
    return speeds


if __name__ == "__main__":
    main()
