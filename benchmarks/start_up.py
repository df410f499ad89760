"""What training takes to begin: import, first fit without and with compiled code on disk.

python benchmarks/start_up.py

Times of fits are those of the processor: compiling is the work of one thread.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile

from datasets import parser

IMPORT = "import time; t = time.perf_counter(); import taut; print(time.perf_counter() - t)"
FIT = """
import time
began = time.process_time()
import numpy as np
from numba.core.event import install_recorder
from taut import BinarySVM, ChainSVM, MulticlassSVM
rng = np.random.default_rng(0)
X, y = rng.normal(size=(60, 5)), np.arange(60) % 3
imported = time.process_time()
with install_recorder("numba:compile") as recorder:
    {fit}
print(imported - began, time.process_time() - imported, len(recorder.buffer) // 2)
"""
FITS = {
    "BinarySVM": "BinarySVM(random_state=0).fit(X, y % 2)",
    "MulticlassSVM": "MulticlassSVM(random_state=0).fit(X, y)",
    "ChainSVM": "ChainSVM(random_state=0).fit(X, y, lengths=[6] * 10)",
}


def run(code, **environment):
    """The numbers that `code` prints, in a process of its own."""
    process = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return [float(number) for number in process.stdout.split()]


def main():
    """Measure and write JSON and a table."""
    options = parser(__doc__).parse_args()
    results = {"import taut, seconds": statistics.median(run(IMPORT)[0] for _ in range(5))}
    lines = [
        f"`import taut`: {results['import taut, seconds']:.3f} s",
        "",
        "| first fit | imports | without compiled code | from disk | compilations from disk |",
        "|---|---|---|---|---|",
    ]
    for name, fit in FITS.items():
        with tempfile.TemporaryDirectory() as cache:
            code = FIT.format(fit=fit)
            _imports, cold, _count = run(code, NUMBA_CACHE_DIR=cache)
            imports, warm, count = run(code, NUMBA_CACHE_DIR=cache)
        results[name] = {"imports": imports, "cold": cold, "warm": warm, "compilations": count}
        lines.append(f"| {name} | {imports:.2f} s | {cold:.1f} s | {warm:.2f} s | {count:.0f} |")
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "start_up.json").write_text(json.dumps(results, indent=1))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
