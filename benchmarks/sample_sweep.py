"""How many labels to look at in each visit: 1, 2, 5, 20, 100 or all, to the same accuracy.

python benchmarks/sample_sweep.py --data FOLDER

The objective, the data sets and the clock are those of `hierarchical.py`. With K labels a visit
moves the weights of the K that violate their margins most.
"""

from __future__ import annotations

from hierarchical import Method, arguments, compare

DATA = ("generated", "sector")
COLOURS = {
    1: "#7f8c8d",
    2: "#9a7d0a",
    5: "#1e8449",
    20: "#1f5fa8",
    100: "#8e44ad",
    None: "#c0392b",
}


def label(size):
    """How a number of samples is called."""
    return "all labels" if size is None else f"K = {size}"


def main():
    """Compare all numbers of samples."""
    methods = {
        label(size): Method("multi_sample", {"n_samples": size}, colour)
        for size, colour in COLOURS.items()
    }
    compare("sample_sweep", DATA, methods, label(None), arguments(__doc__).parse_args())


if __name__ == "__main__":
    main()
