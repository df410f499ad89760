"""Functional descent for windows of images: localisation, and the first stage of detection.

    python benchmarks/overlap_recall.py --data FOLDER [--part localisation|overlap]

Horses, with boxes from their masks, and photographs with one raccoon. Training images are those of
even number in the order of their files, test images the others. A label is one of the windows of a
grid, `Candidates`; training images have the true box as one more window.

localisation: words of gradients in a pyramid of 21 cells, histogram intersection, windows of two
sizes. The best window is right if it overlaps the box by more than half. Functional descent by
steps of ten images, lambda = 1/k, in several random orders, and the converged kernel SVM.

overlap: words of gradients and of colours in a pyramid of five cells, rows of length 1, a linear
model that only has to propose windows. Functional descent with four schedules, images in the order
of files, and the cutting-plane method. Windows of test images are suppressed greedily where they
overlap a better one by 90 %, and the best 500 are kept. The area below the overlap-recall curve is
the mean over images of the best overlap.

CPU seconds are those of one thread, of training alone: neither of words and histograms, which all
methods share, nor of compilation.
"""

from __future__ import annotations

import json
import os
import statistics
import warnings
from functools import partial
from typing import NamedTuple

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans

from datasets import data_folder, parser
from taut import Problem, solve
from taut.errors import NotConverged
from taut.kernels import Intersection, Precomputed
from taut.metrics import overlap_recall
from taut.solvers import DualCoordinate, FunctionalDescent, NSlack, OneSlack
from taut.spaces.kernel import through_kernel
from taut.structures import Candidates
from taut.training.loop import Run
from taut.vision import (
    Boxes,
    DenseDescriptors,
    Detections,
    VisualWords,
    boxes_of_mask,
    histograms,
    list_images,
    overlaps,
    read_image,
)
from timing import cpu_time, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_SUBSET = 10  # images of a step
_NEAR = 0.9  # overlap from which the worse of two proposals is dropped
_TOPS = (500, 50, 10)  # proposals of an image that are looked at
_DRAWN = (500, 10)  # of which there are pictures
_MOST = 2500  # windows of a test image: of more, these are drawn at random


class Picture(NamedTuple):
    """An image, and the edges of the object in it."""

    image: np.ndarray
    box: np.ndarray  # (4,)


def horses(folder):
    """Side views of horses, and the boxes of their masks."""
    files = list_images(folder / "weizmann_horses" / "images")
    masks = folder / "weizmann_horses" / "masks"
    boxes = [boxes_of_mask(masks / f"{file.stem}.png", above=127) for file in files]
    return [Picture(read_image(f), own.edges[0]) for f, own in zip(files, boxes, strict=True)]


def raccoons(folder):
    """Photographs with one raccoon."""
    rows = json.loads((folder / "raccoon" / "boxes.json").read_text())
    rows = sorted((row for row in rows if len(row["boxes"]) == 1), key=lambda row: row["file"])
    files = [folder / "raccoon" / "images" / row["file"] for row in rows]
    boxes = [np.array(row["boxes"][0][1:]) for row in rows]
    return [Picture(read_image(f), box) for f, box in zip(files, boxes, strict=True)]


SETS = {"raccoons": raccoons, "horses": horses}


def sizes_of(pictures, count):
    """Widths and heights of windows: centres of clusters of those of training boxes."""
    found = np.array([picture.box[2:] - picture.box[:2] for picture in pictures])
    clusters = KMeans(count, n_init=10, random_state=0).fit(np.log(found))
    return np.exp(clusters.cluster_centers_)


def windows(image, sizes, step):
    """All windows of these sizes on a grid of `step` pixels, none of them twice.

    Sides that are too long are cut to those of the image; the last window ends where it ends.
    """
    height, width = image.shape[:2]
    found = []
    for w, h in np.minimum(np.rint(sizes), (width, height)).tolist():
        left, top = (
            np.unique(np.append(np.arange(0.0, room + 1.0, step), room))
            for room in (width - w, height - h)
        )
        x, y = (axis.ravel() for axis in np.meshgrid(left, top))
        found.append(np.column_stack([x, y, x + w, y + h]))
    return np.unique(np.vstack(found), axis=0)


class Describer:
    """Histograms of visual words in the cells of windows, as rows of float32."""

    def __init__(self, pictures, kinds, n_words, levels, patch, norm):
        self.levels, self.norm = levels, norm
        self.vocabularies = [
            VisualWords(n_words, DenseDescriptors(patch=patch, kind=kind), per_image=300).fit(
                picture.image for picture in pictures
            )
            for kind in kinds
        ]

    def rows(self, image, edges):
        """A row for each window."""
        found = sp.hstack(
            [histograms(v.transform(image), edges, self.levels) for v in self.vocabularies],
            format="csr",
        )
        sums = found.sum(axis=1) if self.norm == 1 else np.sqrt((found**2).sum(axis=1))
        found.data /= np.repeat(np.maximum(sums, 1e-12), np.diff(found.indptr))
        return found.astype(np.float32)


class Described(NamedTuple):
    """Windows of several images: `Candidates` takes (rows, offsets) and losses."""

    edges: list
    rows: sp.csr_array
    offsets: np.ndarray
    losses: np.ndarray

    @classmethod
    def of(cls, pictures, sizes, step, describer, drawn=None):
        """Those of a grid; or so many of them, drawn at random, behind the true box."""
        edges = [windows(picture.image, sizes, step) for picture in pictures]
        if drawn is not None:
            rng = np.random.default_rng(0)
            some = [own[rng.permutation(len(own))[:drawn]] for own in edges]
            edges = [np.vstack([p.box, own]) for p, own in zip(pictures, some, strict=True)]
        pairs = list(zip(pictures, edges, strict=True))
        rows = sp.vstack([describer.rows(p.image, own) for p, own in pairs], format="csr")
        losses = [1.0 - overlaps(own, p.box[None])[:, 0] for p, own in pairs]
        offsets = np.cumsum([0, *map(len, edges)])
        return cls(edges, rows, offsets, np.concatenate(losses))

    @property
    def stacked(self):
        return self.rows, self.offsets

    def parts(self, values):
        """Numbers of all windows, image by image."""
        return np.split(values, self.offsets[1:-1])

    def counts(self):
        sizes = np.diff(self.offsets)
        return f"{sizes.min()} to {sizes.max()}, {sizes.mean():.0f} on average"


class Descent:
    """Functional descent that stops on the way, for as long as one looks at it."""

    def __init__(self, problem, solver, seed=0):
        self.problem = problem
        self.run = Run(problem, solver, 1e-3, np.random.default_rng(seed))
        self.seconds = 0.0

    def until(self, examples):
        """Go on until steps have seen so many examples."""

        def unfinished():
            # Of steps that are over: the last one is to be as exact as the others.
            steps = self.run.state.steps
            return not steps or steps[-1].seen < examples

        def go():
            while unfinished():
                self.run.solver.pass_(self.problem, self.run.state, 1.0, unfinished)

        self.seconds += cpu_time(go)[1]
        return self

    @property
    def points(self):
        """The last w, and the average."""
        unpad, state = self.problem.data.unpad, self.run.state
        return unpad(state.w), unpad(state.outcome)


def _halves(pictures):
    return pictures[::2], pictures[1::2]


def _solved(problem, solver, tol, most=5000):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        return solve(problem, solver, tol=tol, max_iter=most, random_state=0)


def _bare(axis):
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


# ---------------------------------------------------------------------------------- localisation

_CHECKPOINTS = ("1 step", "1 epoch", "2 epochs")


def localisation(folder, options):
    """Errors after one step and more, and of the kernel SVM."""
    rows = []
    for name, read in SETS.items():
        train, test = _halves(read(folder)[:: options.every])
        sizes = sizes_of(train, 2)
        describer = Describer(train, ("hog",), options.words or 1000, 3, 8, norm=1)
        step = options.step or 24
        own = Described.of(train, sizes, step, describer, options.drawn or 12)
        other = Described.of(test, sizes, step, describer)
        print(f"{name}: {len(train)} and {len(test)} images, windows of {sizes.round().tolist()}; "
              f"{own.counts()}, in test images {other.counts()}")  # fmt: skip
        gram, seconds = cpu_time(partial(Intersection(), own.rows))
        K, taken = cpu_time(partial(Intersection(), other.rows, own.rows))
        print(f"kernel of training windows: {seconds:.0f} CPU s, with test windows: {taken:.0f}")
        space = through_kernel(Precomputed(), whole=len(gram))
        problem = Problem(Candidates(), (gram, own.offsets), own.losses, space=space)
        wrong = partial(_wrong, other)
        found = [
            ["the best window there is", wrong(-other.losses)],
            ["the window nearest to the centre", wrong(_centred(other, test))],
            *_descended(problem, lambda w, K=K, wrong=wrong: wrong(K @ w), options.seeds),
        ]
        _solved(problem.with_factor(1e-3), DualCoordinate(), 0.5, 2)  # compiles
        for C in (1.0, 10.0, 100.0):
            train_one = partial(_solved, problem.with_factor(C), DualCoordinate(), 1e-3)
            result, seconds = cpu_time(train_one)
            support = int(np.count_nonzero(result.w))
            found.append([f"converged, C = {C:g}", wrong(K @ result.w), "", f"{seconds:.2f}",
                          support])  # fmt: skip
        rows += [[name, *line, *[""] * (5 - len(line))] for line in found]
    print(markdown(("data", "method", "error", "of the average", "CPU s", "support"), rows))
    write_json(options.results / "localisation.json", rows)


def _descended(problem, error, seeds):
    """Lines about functional descent in several random orders, on the way."""
    Descent(problem, FunctionalDescent(subset=_SUBSET)).until(1)  # compiles
    n, runs = problem.n_blocks, {label: [] for label in _CHECKPOINTS}
    for seed in range(seeds):
        descent = Descent(problem, FunctionalDescent(subset=_SUBSET), seed)
        for label, until in zip(_CHECKPOINTS, (1, n, 2 * n)):
            last, average = descent.until(until).points
            support = np.count_nonzero(last)
            runs[label].append((error(last), error(average), descent.seconds, support))
    for label, values in runs.items():
        last, average, seconds, support = zip(*values)
        yield [f"descent, {label}", _spread(last), _spread(average),
               f"{statistics.mean(seconds):.2f}", round(statistics.mean(support))]  # fmt: skip


def _wrong(described, scores):
    """Per cent of images whose best window does not overlap the box by more than half."""
    pairs = zip(described.parts(scores), described.parts(described.losses), strict=True)
    return round(100.0 * float(np.mean([losses[own.argmax()] >= 0.5 for own, losses in pairs])), 1)


def _centred(described, pictures):
    """Scores by which the window nearest to the centre of the image, and largest, is best."""
    found = []
    for edges, picture in zip(described.edges, pictures, strict=True):
        middle = np.array(picture.image.shape[1::-1]) / 2
        centres = (edges[:, :2] + edges[:, 2:]) / 2
        area = np.prod(edges[:, 2:] - edges[:, :2], axis=1)
        found.append(-np.abs(centres - middle).sum(axis=1) + 1e-6 * area)
    return np.concatenate(found)


def _spread(values):
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"


# ------------------------------------------------------------------------------- overlap-recall

_SCHEDULES = {
    "10/k": {"factor": 10.0},
    "1/k": {},
    "0.1/k": {"factor": 0.1},
    "t/N": {"schedule": "linear"},
}
_PARTS_OF_EPOCH = {"1 step": 0.0, "1/2 epoch": 0.5, "1 epoch": 1.0, "2 epochs": 2.0}
_CUTS = "cutting plane"


class Model(NamedTuple):
    """Weights, and the CPU seconds that they took."""

    method: str  # or schedule
    setting: str  # where on the way, or C and the tolerance
    w: np.ndarray
    seconds: float


def overlap(folder, options):
    """Areas below overlap-recall curves on the way, and of the cutting-plane method."""
    raw, curves = {}, {}
    for name, read in SETS.items():
        train, test = _halves(read(folder)[:: options.every])
        sizes = sizes_of(train, 16)
        describer = Describer(train, ("hog", "colour"), options.words or 500, 2, 16, norm=2)
        step = options.step or 5
        own = Described.of(train, sizes, step, describer, options.drawn or 600)
        print(f"{name}: {len(train)} images, windows {own.counts()}, {own.rows.nnz:.2g} numbers")
        problem = Problem(Candidates(), own.stacked, own.losses)
        models = [*_descents(problem), *_cut(problem, options.factors)]
        rng = np.random.default_rng(0)
        models.append(Model("random weights", "", rng.standard_normal(problem.n_features), 0.0))
        proposals, truths = _proposed(test, models, sizes, step, describer)
        found = [[overlap_recall(own, truths, top) for top in _TOPS] for own in proposals]
        rows = [
            [m.method, m.setting, *(f"{100 * curve.area:.1f}" for curve in own), f"{m.seconds:.1f}"]
            for m, own in zip(models, found, strict=True)
        ]
        print(markdown(("method", "where", *(f"best {k}" for k in _TOPS), "CPU s"), rows))
        raw[name] = rows
        for k, top in enumerate(_TOPS):
            if top in _DRAWN:
                keys = [(m.method, m.setting) for m in models]
                curves[f"{name}, best {top}"] = dict(zip(keys, (own[k] for own in found)))
    _draw(curves, options.results / "overlap_recall.png")
    write_json(options.results / "overlap_recall.json", raw)


def _descents(problem):
    """The last w and the average, of each schedule, on the way."""
    n = problem.n_blocks
    Descent(problem, FunctionalDescent(subset=2)).until(1)  # compiles
    for schedule, settings in _SCHEDULES.items():
        solver = FunctionalDescent(subset=_SUBSET, order="window", **settings)
        descent = Descent(problem, solver)
        for label, part in _PARTS_OF_EPOCH.items():
            last, average = descent.until(max(1, int(part * n))).points
            yield Model(schedule, label, last, descent.seconds)
        yield Model(f"{schedule}, average", label, average, descent.seconds)


def _cut(problem, factors):
    """Cutting planes with several constants, and other exact solvers with the last of them."""
    for solver in (OneSlack(), NSlack(), DualCoordinate()):
        _solved(problem.with_factor(1e-3), solver, 0.5, 2)  # compiles
    for C in factors:
        for tol in (1e-1, 1e-2):
            yield _exact(_CUTS, problem, OneSlack(), C, tol)
    for name, solver in (("n-slack", NSlack()), ("dual coordinate ascent", DualCoordinate())):
        for tol in (1e-1, 1e-2):
            yield _exact(name, problem, solver, 10.0, tol)


def _exact(name, problem, solver, C, tol):
    scaled = problem.with_factor(C)
    result, seconds = cpu_time(lambda: _solved(scaled, solver, tol))
    bounds = result.certificate
    setting = f"C = {C:g}, gap {tol:g}"
    if bounds.relative_gap > tol:
        setting += f" (stopped at {bounds.relative_gap:.2g})"
    print(name, setting, f"{seconds:.1f} CPU s", flush=True)
    return Model(name, setting, result.w, seconds)


def _proposed(test, models, sizes, step, describer):
    """What each model proposes in each image, and the truths."""
    W = np.column_stack([model.w for model in models]).astype(np.float32)
    rng = np.random.default_rng(0)
    proposals, counts, most = [[] for _ in models], [], []
    for picture in test:
        edges = windows(picture.image, sizes, step)
        edges = edges[rng.permutation(len(edges))[:_MOST]]
        counts.append(len(edges))
        most.append(overlaps(edges, picture.box[None]).max())
        near = overlaps(edges, edges) > _NEAR
        for found, scores in zip(proposals, (describer.rows(picture.image, edges) @ W).T):
            kept = _suppressed(near, scores, max(_TOPS))
            found.append(Detections(edges[kept], np.full(len(kept), "object"), scores[kept]))
    truths = [Boxes(p.box[None], np.array(["object"]), np.zeros(1, dtype=bool)) for p in test]
    print(f"{len(test)} test images, windows {min(counts)} to {max(counts)}, "
          f"{statistics.mean(counts):.0f} on average; area of all of them "
          f"{100 * statistics.mean(most):.1f}")  # fmt: skip
    return proposals, truths


def _suppressed(near, scores, top):
    """As `taut.metrics.suppress`, for many models of the same windows: it is known who is near."""
    gone, kept = np.zeros(len(scores), dtype=bool), []
    for i in np.argsort(-scores, kind="stable").tolist():
        if len(kept) == top:
            break
        if not gone[i]:
            kept.append(i)
            gone |= near[i]
    return np.array(kept)


def _draw(curves, path):
    """For each schedule the curves on the way, and the cutting-plane method's best."""
    figure, axes = plt.subplots(
        len(curves), len(_SCHEDULES), figsize=(14, 3.4 * len(curves)), squeeze=False,
        sharex=True, sharey="row",
    )  # fmt: skip
    for line, (name, found) in zip(axes, curves.items()):
        cuts = max((c for key, c in found.items() if key[0] == _CUTS), key=lambda c: c.area)
        for axis, schedule in zip(line, _SCHEDULES):
            shown = {label: found[schedule, label] for label in _PARTS_OF_EPOCH} | {_CUTS: cuts}
            for (label, curve), colour in zip(shown.items(), _COLOURS):
                axis.step(curve.overlap, curve.recall, where="post", color=colour,
                          linestyle=":" if label == _CUTS else "-", linewidth=1.3,
                          label=f"{label}: {100 * curve.area:.1f}")  # fmt: skip
            axis.set(xlim=(0.25, 1.0))
            axis.set_title(f"{name}, {schedule}", fontsize=9)
            axis.legend(frameon=False, fontsize=8, loc="lower left")
            _bare(axis)
        line[0].set_ylabel("recall")
    for axis in axes[-1]:
        axis.set_xlabel("overlap")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


_COLOURS = ("#1f5fa8", "#3f8f5b", "#c0392b", "#2aa5b8", "black")


def arguments():
    """From the command line."""
    own = parser(__doc__)
    own.add_argument("--part", choices=PARTS, nargs="*", default=list(PARTS))
    own.add_argument("--every", type=int, default=1, help="use one image in so many")
    own.add_argument("--step", type=int, help="pixels between windows")
    own.add_argument("--drawn", type=int, help="windows of a training image")
    own.add_argument("--words", type=int, help="of each kind of descriptors")
    own.add_argument("--seeds", type=int, default=5, help="random orders, localisation")
    own.add_argument("--factors", type=float, nargs="*", default=[1.0, 10.0], help="C")
    return own.parse_args()


PARTS = {"localisation": localisation, "overlap": overlap}


def main():
    """Run the parts that are asked for."""
    options = arguments()
    for part in options.part:
        PARTS[part](data_folder(options), options)


if __name__ == "__main__":
    main()
