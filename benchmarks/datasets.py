"""Real data for the benchmarks, read from a folder given as argument or by TAUT_DATA."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp

RESULTS = Path(__file__).parent / "results"


def parser(description: str | None) -> argparse.ArgumentParser:
    """Command-line arguments that all benchmarks share."""
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("TAUT_DATA"),
        help="folder with one sub-folder per data set (default: the variable TAUT_DATA)",
    )
    arguments.add_argument("--results", type=Path, default=RESULTS, help="folder to write to")
    return arguments


def data_folder(options: argparse.Namespace) -> Path:
    """The folder of the data, or a message that says how to give it."""
    if options.data is None:
        raise SystemExit("no data: give --data FOLDER or set TAUT_DATA")
    return Path(options.data)


def sparse(folder: Path, name: str, split: str) -> tuple[sp.csr_array, np.ndarray]:
    """A sparse set stored as the parts of a CSR matrix."""
    parts = np.load(folder / name / f"{split}.npz")
    X = sp.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=parts["shape"])
    return X, parts["y"]


def usps(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pixels as given: train X, y, test X, y."""
    parts = np.load(folder / "usps" / "usps.npz")
    names = ("X_train", "y_train", "X_test", "y_test")
    X, y, test_X, test_y = (parts[name] for name in names)
    return X.astype(np.float64), y.astype(int), test_X.astype(np.float64), test_y.astype(int)


class Letters:
    """OCR words: 128 pixels, a constant, and whether a letter is the first or the last."""

    def __init__(self, folder: Path) -> None:
        parts = np.load(folder / "ocr_letters" / "ocr_letters.npz")
        self.lengths, self.folds = parts["lengths"], parts["folds"]
        self.y = parts["y"].astype(int)
        ends = np.cumsum(self.lengths)
        extra = np.zeros((len(self.y), 3))
        extra[:, 0] = 1.0
        extra[ends - self.lengths, 1] = 1.0
        extra[ends - 1, 2] = 1.0
        self.X = np.hstack([parts["X"], extra])

    def take(self, words: np.ndarray) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
        """Stacked features, labels and lengths of the chosen words."""
        letters = np.repeat(words, self.lengths)
        return sp.csr_array(self.X[letters]), self.y[letters], self.lengths[words]
