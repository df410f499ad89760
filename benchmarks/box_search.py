"""How much of all boxes branch and bound looks at, and how long it takes, on real images.

python benchmarks/box_search.py --data FOLDER

Photographs of raccoons, with a visual word at each point of a grid. For each kind of score weights
are trained by passive-aggressive steps on the images of the data's own training split, and then
used on images that were not trained on, to find the best box among all that are not smaller than
the smallest, and on training images with the loss added. Seconds are those of one thread, without
the words and the tables of squared lengths, which are made once for each image. A set is counted
when its bound is computed: there may be more of them than boxes.
"""

from __future__ import annotations

import json
import os
import statistics
import time
import warnings

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np

from datasets import data_folder, parser
from taut import Problem, solve
from taut.errors import NotConverged
from taut.inference.box_scores import WordImage
from taut.inference.box_search import best_boxes
from taut.solvers import PassiveAggressive
from taut.structures.word_boxes import WordBoxes
from taut.vision.boxes import overlaps
from taut.vision.descriptors import DenseDescriptors
from taut.vision.images import read_image
from taut.vision.words import VisualWords
from timing import markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

KINDS = {
    "additive": {"levels": 1, "normalise": None},
    "additive, 5 cells": {"levels": 2, "normalise": None},
    "additive, 21 cells": {"levels": 3, "normalise": None},
    "L2": {"levels": 1, "normalise": "l2"},
    "L2, 5 cells": {"levels": 2, "normalise": "l2"},
    "L2, 21 cells": {"levels": 3, "normalise": "l2"},
}
COLOURS = ("#1f5fa8", "#3f8f5b", "#7a7a7a", "#c0392b", "#d08a2e", "#7d4fa0")


def raccoons(folder, split, limit):
    """Images with one raccoon, and its left, top, right and bottom edge in pixels."""
    rows = json.loads((folder / "raccoon" / "boxes.json").read_text())
    rows = [row for row in rows if row["split"] == split and len(row["boxes"]) == 1][:limit]
    images = [read_image(folder / "raccoon" / "images" / row["file"]) for row in rows]
    return images, np.array([row["boxes"][0][1:] for row in rows])


def on_grid(edges, word_map, step, smallest):
    """The box of a grid's lines, midway between its points, that is nearest to one in pixels."""
    shape = np.array(word_map.words.shape)
    origin = np.array([word_map.y[0], word_map.x[0]]) - step / 2
    low = np.rint((edges[[1, 0]] - origin) / step).astype(int)
    high = np.rint((edges[[3, 2]] - origin) / step).astype(int)
    low = np.clip(low, 0, shape - smallest)
    high = np.clip(np.maximum(high, low + smallest), 0, shape)
    return tuple(np.concatenate([low, high]).tolist())


def trained(kind, maps, boxes, options):
    """Weights by some passes of passive-aggressive steps, one search each, and the structure."""
    structure = WordBoxes(
        options.words, **kind, smallest=(options.smallest,) * 2, table=options.table
    )
    labels = [(left, top, right, bottom) for top, left, bottom, right in boxes]
    problem = Problem(structure, maps, labels, C=1.0)
    solver = PassiveAggressive()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        result = solve(problem, solver, max_iter=options.passes, random_state=0, check=False)
    return structure, result.w


def searched(structure, w, maps, truths, most):
    """For each image: boxes, sets, seconds, the box, and how far another may be better."""
    rows = []
    w = w.reshape(-1, structure.n_words)
    for words, truth in zip(maps, truths, strict=True):
        image = WordImage.of(
            words, structure.n_words, structure.levels, structure.norm is not None,
            structure.smallest, table=structure.table,
        )  # fmt: skip
        goal = {"truth": truth, "loss_weight": 0.0 if truth is None else 1.0}
        best_boxes(image, w, most=1, **goal)  # compiles, the first time
        began = time.perf_counter()
        found = best_boxes(image, w, most=most, **goal)
        seconds = time.perf_counter() - began
        rows.append(
            {
                "boxes": image.n_boxes,
                "sets": found.n_sets,
                "seconds": seconds,
                "error": found.error,
                "grain": image.grain,
                "found": found.boxes[0].tolist(),
            }
        )
    return rows


def summary(name, rows):
    """A line of the table."""
    shares = [row["sets"] / row["boxes"] for row in rows]
    ms = [1e3 * row["seconds"] for row in rows]
    return [
        name,
        f"{statistics.median(row['boxes'] for row in rows):,.0f}",
        f"{statistics.median(row['sets'] for row in rows):,.0f}",
        f"{100 * statistics.median(shares):.3g} %",
        f"{100 * max(shares):.3g} %",
        f"{statistics.median(ms):.3g}",
        f"{max(ms):.3g}",
        f"{sum(row['error'] > 0.0 for row in rows)}",
    ]


def draw(found, path):
    """Sets against boxes of the searches for the best score."""
    figure, axes = plt.subplots(figsize=(6, 4.5))
    for colour, (name, rows) in zip(COLOURS, found.items(), strict=False):
        axes.scatter(
            [row["boxes"] for row in rows], [row["sets"] for row in rows], s=14, color=colour,
            label=name, alpha=0.8, linewidths=0,
        )  # fmt: skip
    ends = np.array(axes.get_xlim())
    axes.plot(ends, ends, color="black", linewidth=0.8)
    axes.annotate("all boxes", (ends[0], ends[0]), textcoords="offset points", xytext=(4, 6))
    axes.set(xscale="log", yscale="log", xlabel="boxes of the image", ylabel="sets looked at")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)


def main():
    """Train and search with each kind of score."""
    options = arguments()
    folder = data_folder(options)
    images, edges = raccoons(folder, "train", options.train)
    others, other_edges = raccoons(folder, "test", options.test)
    descriptors = DenseDescriptors(step=options.step, patch=2 * options.step)
    vocabulary = VisualWords(options.words, descriptors, per_image=300).fit(images)
    maps = [vocabulary.transform(image) for image in images]
    other_maps = [vocabulary.transform(image) for image in others]
    boxes = [
        on_grid(own, own_map, options.step, options.smallest)
        for own, own_map in zip(edges, maps, strict=True)
    ]
    other_boxes = [
        on_grid(own, own_map, options.step, options.smallest)
        for own, own_map in zip(other_edges, other_maps, strict=True)
    ]
    words, other_words = [m.words for m in maps], [m.words for m in other_maps]
    lines, plain, everything = [], {}, {}
    for name in options.kinds or KINDS:
        structure, w = trained(KINDS[name], words, boxes, options)
        best = searched(structure, w, other_words, [None] * len(other_words), options.most)
        some = slice(0, options.test)
        worst = searched(structure, w, words[some], boxes[some], options.most)
        hits = [
            float(overlaps(np.array([row["found"]], float), np.array([truth], float))[0, 0])
            for row, truth in zip(best, other_boxes, strict=True)
        ]
        lines += [summary(f"{name}: score", best), summary(f"{name}: score + loss", worst)]
        plain[name] = best
        everything[name] = {"score": best, "loss": worst, "overlap": hits}
        print(
            f"{name}: mean overlap with the truth on other images {np.mean(hits):.2f}, every "
            f"{max(1, *(row['grain'] for row in best))} lines of the grid one of the table",
            flush=True,
        )
    header = ("score", "boxes", "sets", "share", "largest", "ms", "longest", "cut short")
    print(markdown(header, lines))
    write_json(options.results / "box_search.json", everything)
    draw(plain, options.results / "box_search.png")


def arguments():
    """From the command line."""
    own = parser(__doc__)
    own.add_argument("--train", type=int, default=40, help="training images")
    own.add_argument("--test", type=int, default=12, help="images of each kind to search in")
    own.add_argument("--words", type=int, default=500, help="size of the vocabulary")
    own.add_argument("--step", type=int, default=6, help="pixels between points of the grid")
    own.add_argument("--smallest", type=int, default=4, help="points of the shortest side")
    own.add_argument("--passes", type=int, default=1, help="over the training images")
    own.add_argument("--most", type=int, default=20_000_000, help="sets of a search")
    own.add_argument("--table", type=int, default=1 << 20, help="numbers in a table of lengths")
    own.add_argument("--kinds", nargs="*", choices=KINDS, help="of scores, all by default")
    return own.parse_args()


if __name__ == "__main__":
    main()
