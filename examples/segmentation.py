"""Horses and what is behind them: labels of superpixels, alone and with their neighbours.

328 photographs of horses with their masks (Weizmann), 200 to train and 128 to test, drawn by a
fixed seed. A photograph is cut into about 130 superpixels. A node is a superpixel, described by
colour, texture and place; an edge joins two that touch, described by how alike their colours are
and by how long they touch. The same nodes are labelled without edges, and with them by three kinds
of inference: junction trees, minimum cuts, linear programs. C is chosen among the training
photographs, 150 to fit and 50 to compare; linear programs take that of junction trees.

    python examples/segmentation.py --data FOLDER

It needs scikit-image: pip install "taut[vision,plot]".
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
import scipy.sparse as sp
from networkx import Graph
from networkx.algorithms.approximation import treewidth_min_fill_in
from skimage import color, filters, io, segmentation

from taut import GraphSVM

matplotlib.use("Agg")
import matplotlib.pyplot as plt

N_TRAIN, N_FIT, N_SHOWN = 200, 150, 6
FACTORS = (0.001, 0.01, 0.1, 1.0)
FITTING = {"pairwise": "potts", "max_iter": 2000, "random_state": 0}
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "segmentation.png"


class Picture(NamedTuple):
    """An image, its mask, the superpixel of each pixel, and the graph of superpixels."""

    image: np.ndarray
    mask: np.ndarray
    segments: np.ndarray
    nodes: np.ndarray
    edges: np.ndarray
    edge_features: np.ndarray

    def best_labels(self):
        """The label of most pixels of each superpixel."""
        sizes = np.bincount(self.segments.ravel())
        return (2 * np.bincount(self.segments.ravel(), self.mask.ravel()) > sizes).astype(int)

    def on_pixels(self, values):
        """Values of superpixels as an image."""
        return values[self.segments]


def read(folder, name):
    """A picture by its name."""
    image = io.imread(folder / "images" / f"{name}.jpg")
    mask = io.imread(folder / "masks" / f"{name}.png") > 0
    segments = segmentation.slic(image, n_segments=150, compactness=10, sigma=1, start_label=0)
    lab = color.rgb2lab(image)
    nodes, colors = describe_nodes(lab, segments)
    return Picture(image, mask, segments, nodes, *describe_edges(colors, segments))


def bins(values, low, high, n):
    """Which of n bins each value falls into, as columns of 0 and 1."""
    which = np.clip(((values.ravel() - low) / (high - low) * n).astype(int), 0, n - 1)
    return np.eye(n)[which]


def describe_nodes(lab, segments):
    """Means over superpixels: colour, its spread and histograms, edges by direction, place."""
    height, width = segments.shape
    pixels = lab.reshape(-1, 3) / 50.0
    ranges = ((0, 100), (-40, 40), (-40, 40))
    histograms = np.hstack([bins(lab[..., c], *ends, 10) for c, ends in enumerate(ranges)])
    down, right = filters.sobel_h(lab[..., 0]) / 25.0, filters.sobel_v(lab[..., 0]) / 25.0
    strength = np.hypot(down, right).ravel()
    directions = strength[:, None] * bins(np.arctan2(down, right) % np.pi, 0, np.pi, 6)
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j].reshape(2, -1)
    places = np.column_stack([y, x, y * y, x * x, x * y, y**3, x * x * y, x**4, y**4])
    n = segments.max() + 1
    members = sp.csr_array((np.ones(segments.size), (segments.ravel(), np.arange(segments.size))))
    sizes = members.sum(axis=1)[:, None]

    def mean(values):
        return members @ values / sizes

    colors, shades = mean(pixels), mean(histograms)
    spread = np.sqrt(np.maximum(mean(pixels**2) - colors**2, 0.0))
    on_frame = np.zeros(segments.shape, dtype=bool)
    on_frame[[0, -1]] = on_frame[:, [0, -1]] = True
    framed = mean(on_frame.reshape(-1, 1))
    frame = histograms[on_frame.ravel()].mean(axis=0)
    unlike = [
        np.abs(shades - other).reshape(n, 3, 10).sum(axis=2)
        for other in (frame, histograms.mean(axis=0))
    ]
    features = [
        colors, spread, shades, mean(directions), mean(places), framed > 0, *unlike,
        np.linalg.norm(colors - pixels[on_frame.ravel()].mean(axis=0), axis=1, keepdims=True),
        sizes / sizes.mean(), np.ones((n, 1)),
    ]  # fmt: skip
    return np.hstack(features), colors


def describe_edges(colors, segments):
    """Superpixels that touch: a constant, how alike their colours are, how long they touch."""
    sides = [(segments[:, :-1], segments[:, 1:]), (segments[:-1], segments[1:])]
    pairs = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in sides])
    pairs = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1)
    edges, lengths = np.unique(pairs, axis=0, return_counts=True)
    distance = np.linalg.norm(colors[edges[:, 0]] - colors[edges[:, 1]], axis=1)
    alike, touch = np.exp(-5.0 * distance), lengths / lengths.mean()
    return edges, np.column_stack([np.ones(len(edges)), alike, touch, alike * touch])


class Scaled:
    """Graphs whose node features have mean 0 and deviation 1 in some training pictures."""

    def __init__(self, pictures):
        rows = np.vstack([picture.nodes for picture in pictures])
        constant = np.ptp(rows, axis=0) == 0.0
        self.mean = np.where(constant, 0.0, rows.mean(axis=0))
        self.scale = np.where(constant, 1.0, rows.std(axis=0))

    def graphs(self, pictures, with_edges):
        """As `GraphSVM` takes them."""
        last = None if with_edges else 0
        return [
            ((p.nodes - self.mean) / self.scale, p.edges[:last], p.edge_features[:last])
            for p in pictures
        ]


class Method:
    """Labels of superpixels by a `GraphSVM`."""

    def __init__(self, inference, with_edges=True):
        self.inference = inference
        self.with_edges = with_edges

    def fit(self, pictures, C, tol):
        self.scaled = Scaled(pictures)
        began = time.perf_counter()
        self.model = GraphSVM(C=C, tol=tol, inference=self.inference, **FITTING)
        self.model.fit(self.graphs(pictures), [picture.best_labels() for picture in pictures])
        self.seconds = time.perf_counter() - began
        return self

    def graphs(self, pictures):
        return self.scaled.graphs(pictures, self.with_edges)

    def masks(self, pictures):
        """Where the horse is, in pixels."""
        labels = self.model.predict(self.graphs(pictures))
        return [p.on_pixels(found) == 1 for p, found in zip(pictures, labels, strict=True)]

    def choose(self, pictures):
        """The best C of those that were tried on the first pictures, judged by the others."""
        fit, held = pictures[:N_FIT], pictures[N_FIT:]
        return max(FACTORS, key=lambda C: quality(held, self.fit(fit, C, tol=1e-2).masks(held))[0])


ALONE, EXACT, RELAXED = Method("exact", with_edges=False), Method("exact"), Method("relaxed")
METHODS = {
    "no edges": ALONE,
    'edges, `inference="exact"`': EXACT,
    'edges, `inference="cut"`': Method("cut"),
    'edges, `inference="relaxed"`': RELAXED,
}


def quality(pictures, masks):
    """Means over pictures: share of right pixels, and overlap of the horse with the truth."""
    pairs = [(p.mask, mask) for p, mask in zip(pictures, masks, strict=True)]
    right = [np.mean(truth == found) for truth, found in pairs]
    overlap = [np.sum(truth & found) / np.sum(truth | found) for truth, found in pairs]
    return np.mean(right), np.mean(overlap)


def shown(train, pictures):
    """What the picture shows below each image."""
    # A temperature is fitted to what training has not seen.
    part, held = Method("exact").fit(train[:N_FIT], EXACT.model.C, tol=1e-3), train[N_FIT:]
    part.model.fit_temperature(part.graphs(held), [picture.best_labels() for picture in held])
    chances = EXACT.model.predict_marginals(EXACT.graphs(pictures), part.model.temperature_)
    return {
        "truth": [picture.mask for picture in pictures],
        "no edges": ALONE.masks(pictures),
        "edges": EXACT.masks(pictures),
        "probability": [p.on_pixels(c[:, 1]) for p, c in zip(pictures, chances, strict=True)],
    }


def plot(pictures, rows):
    """Pictures in columns, and below each what the rows make of it."""
    ratios = [picture.mask.shape[1] / picture.mask.shape[0] for picture in pictures]
    width, height, margin = 1.25 * sum(ratios) + 0.25, 1.25 * (len(rows) + 1), 0.2
    figure, axes = plt.subplots(
        len(rows) + 1, len(pictures), width_ratios=ratios, figsize=(width, height)
    )
    for column, picture in enumerate(pictures):
        axes[0, column].imshow(picture.image)
        for axis, values in zip(axes[1:, column], rows.values(), strict=True):
            if values[column].dtype == bool:
                axis.imshow(np.where(values[column][..., None], picture.image, 235))
            else:
                axis.imshow(values[column], vmin=0.0, vmax=1.0, cmap="magma")
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    for axis, label in zip(axes[:, 0], ["image", *rows], strict=True):
        axis.set_ylabel(label, fontsize=9)
    figure.subplots_adjust(margin / width, 0.005, 0.998, 0.995, wspace=0.02, hspace=0.03)
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    """Print a table of accuracies, and draw the first test pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("TAUT_DATA"), help="folder of data sets")
    arguments = parser.parse_args()
    if arguments.data is None:
        raise SystemExit("no data: give --data FOLDER or set TAUT_DATA")
    folder = Path(arguments.data) / "weizmann_horses"
    names = sorted(path.stem for path in (folder / "images").glob("*.jpg"))
    order = np.random.default_rng(0).permutation(len(names))
    pictures = [read(folder, names[i]) for i in order]
    train, test = pictures[:N_TRAIN], pictures[N_TRAIN:]
    sizes = [len(picture.nodes) for picture in pictures]
    widths = [treewidth_min_fill_in(Graph(picture.edges.tolist()))[0] for picture in pictures]
    print(f"superpixels: {min(sizes)} to {max(sizes)}, median {np.median(sizes):g}")
    print(f"tree-width by min-fill: {min(widths)} to {max(widths)}, median {np.median(widths):g}")
    print("| method | C | right pixels | overlap | objective | gap | integral | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for label, method in METHODS.items():
        C = EXACT.model.C if method is RELAXED else method.choose(train)
        method.fit(train, C, tol=1e-3)
        right, overlap = quality(test, method.masks(test))
        certificate = method.model.certificate_
        print(
            f"| {label} | {C:g} | {100 * right:.1f} % | {100 * overlap:.1f} % | "
            f"{certificate.primal:.1f} | {certificate.relative_gap:.1e} | "
            f"{100 * method.model.is_integral(method.graphs(test)).mean():.0f} % | "
            f"{method.seconds:.1f} |",
            flush=True,
        )
    limit = quality(test, [p.on_pixels(p.best_labels()) == 1 for p in test])
    print(f"| best labels of superpixels | | {100 * limit[0]:.1f} % | {100 * limit[1]:.1f} % |||||")
    plot(test[:N_SHOWN], shown(train, test[:N_SHOWN]))


if __name__ == "__main__":
    main()
