"""Run all benchmarks, one after the other.

python benchmarks/run.py --data FOLDER
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from datasets import data_folder, parser

SCRIPTS = (
    "start_up.py",
    "reference_optima.py",
    "linear_rivals.py",
    "regression_rivals.py",
    "ranking.py",
    "one_pass.py",
    "upper_bound.py",
    "chunking.py",
    "centre_rule.py",
    "path.py",
    "partial_linearization.py",
    "hierarchical.py",
    "sample_sweep.py",
    "one_vs_rest.py",
    "stream_equals_memory.py",
    "threads.py",
    "growth.py",
    "prediction.py",
    "sum_product.py",
    "calibration.py",
    "tricks.py",
    "kernel_rivals.py",
    "kernel_growth.py",
    "kernel_chains.py",
    "kernel_regression.py",
    "kernel_ranking.py",
    "compress.py",
    "working_set.py",
    "certify.py",
    "functional_descent.py",
    "online_streams.py",
    "detection.py",
    "detection_solvers.py",
    "detection_memory.py",
    "overlap_recall.py",
    "box_search.py",
    "vision_profile.py",
)


def main():
    """Start each script with the same arguments."""
    options = parser(__doc__).parse_args()
    arguments = ["--data", str(data_folder(options)), "--results", str(options.results)]
    for script in SCRIPTS:
        print(f"== {script}", flush=True)
        subprocess.run([sys.executable, Path(__file__).parent / script, *arguments], check=True)


if __name__ == "__main__":
    main()
