"""How many labels to look at in each visit: 1, 2, 5, 20, 100 or all, to the same accuracy.

python benchmarks/sample_sweep.py --data FOLDER

The objective, the data sets and the clock are those of `hierarchical.py`. With K labels a visit
moves the weights of the K that violate their margins most.
"""

from __future__ import annotations

import hierarchical
from taut.solvers import SOLVERS

SIZES = (1, 2, 5, 20, 100, None)
DATA = ("generated", "sector")
COLOURS = ("#7f8c8d", "#9a7d0a", "#1e8449", "#1f5fa8", "#8e44ad", "#c0392b")


def label(size):
    """How a number of samples is called."""
    return "all labels" if size is None else f"K = {size}"


def main():
    """Compare all numbers of samples."""
    options = hierarchical.arguments(__doc__).parse_args()
    solvers = {label(size): SOLVERS["multi_sample"](n_samples=size) for size in SIZES}
    styles = {name: (colour, "-") for name, colour in zip(solvers, COLOURS, strict=True)}
    hierarchical.compare("sample_sweep", DATA, solvers, label(None), styles, options)


if __name__ == "__main__":
    main()
