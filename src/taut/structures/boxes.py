"""Boxes in images: windows of feature pyramids, as many in an image as there are objects."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taut.checks import as_share
from taut.compiled.heaps import exchange, heap, sink
from taut.compiled.jit import helper
from taut.compiled.label_rows import is_among
from taut.data.arrays import offsets_of, ranges
from taut.errors import InvalidData
from taut.spaces.labels import part
from taut.spaces.windows import WindowFeatures, WindowSpace, edges_of
from taut.structures.base import Blocks, CompiledStructure
from taut.vision.boxes import Boxes as Truth
from taut.vision.boxes import overlap_of, overlaps, shares_inside
from taut.vision.templates import Templates

NOWHERE = -1  # no window, and windows that belong to no group


class BoxesData(NamedTuple):
    """What the oracles read."""

    offsets: np.ndarray
    missing: np.ndarray  # the loss of no window in each group, all blocks one after the other
    groups: np.ndarray  # of each window, image by image
    losses: np.ndarray
    starts: np.ndarray  # of each block's windows in these
    counts: np.ndarray
    truth: np.ndarray
    suppression: float
    room: int  # where in `work` what follows the potentials begins
    space: WindowSpace


class Boxes(CompiledStructure):
    """Windows that hold objects, in images with any number of them.

    The windows of an image are divided into groups: one for each object, of the windows of its
    class that overlap it by `match` or more and no other object more, the first of those that they
    overlap as much; and one for each class, of all other windows, the false alarms. A label has at
    most one window of each group, and its score is the sum of theirs. So the maximum over labels is
    exact: that of each group by itself. A joint search for windows that do not overlap would have
    to be greedy, and would prove nothing.

    The loss is a sum as well. With o the overlap (intersection over union) of a window and its
    object, and o* that of the truth, the window of its group that overlaps it most:

        a window of an object's group    (o* - o) / (1 - match)
        no window for an object          1
        a false alarm                    1 - o / match

    Windows with a share of `match` or more of their own area inside an ignored box of their class
    belong to no group, unless they are an object's; where they have less, o is the larger of the
    share and the overlap.

    Both sides meet at o = match. With match = 0 there are no false alarms where there are objects:
    each window belongs to the object that it overlaps most, and costs o* - o. That is localisation,
    1 - o but for what no window can reach; images without objects keep a group of false alarms, of
    loss 1.

    w has the cells of all templates, see `taut.spaces.windows`.

    Parameters
    ----------
    templates : Templates
    match : float, default=0.5
        Overlap from which a window is the object's, in [0, 1).
    suppression : float, default=0.5
        Samples: windows that overlap a window of an earlier label by more are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.structures import Boxes
    >>> from taut.vision.boxes import Boxes as Truth
    >>> from taut.vision.pyramid import Pyramid
    >>> from taut.vision.templates import Templates
    >>> rng = np.random.default_rng(0)
    >>> two = np.array([2])
    >>> structure = Boxes(Templates(two, two, np.array([0]), border=0))
    >>> X, y = [], []
    >>> for column in (0, 3, 5):
    ...     cells = rng.random((6, 8, 1), dtype=np.float32)
    ...     cells[2:4, column : column + 2] += 1.0
    ...     X.append(Pyramid(
    ...         cells.reshape(-1, 1), np.array([[6, 8]]), np.array([[8.0, 8.0]]),
    ...         np.array([64.0, 48.0]), 0, 1.0, np.array([0])))
    ...     edges = np.array([[8.0 * column, 16.0, 8.0 * column + 16.0, 32.0]])
    ...     y.append(Truth(edges, np.array([0]), np.array([False])))
    >>> solve(Problem(structure, X, y, C=10.0), random_state=0).certificate.status.name
    'CONVERGED'
    """

    allocates = False
    takes_examples = True
    settled: float = 1.0  # overlap from which windows are right, if the best overlaps more

    def __init__(self, templates: Templates, match: float = 0.5, suppression: float = 0.5) -> None:
        if not 0.0 <= match < 1.0:
            raise InvalidData(f"match = {match}: give an overlap from 0 up to, not with, 1")
        self.templates = templates
        self.match = match
        self.suppression = as_share("suppression", suppression)

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """X is a list of `Pyramid`, y one of `vision.boxes.Boxes` whose classes are numbers."""
        features = WindowFeatures(X, self.templates)
        if y is None:
            y = [_nothing()] * len(X)
        if len(y) != len(X):
            raise InvalidData(f"X has {len(X)} images and y boxes of {len(y)}: give one to each")
        space = features.space
        kept: dict[tuple, _Grouped] = {}
        keys = []
        for i, truth in enumerate(y):
            m = int(space.image[i])
            stored = truth.mirrored(space.sizes[m, 0]) if space.mirrored[i] else truth
            # An image and its mirror image have the same groups.
            edges, classes, ignored = stored
            key = (m, np.round(edges, 6).tobytes(), classes.tobytes(), ignored.tobytes())
            if key not in kept:
                kept[key] = self._grouped(features, i, stored)
            keys.append(key)
        found = [kept[key] for key in keys]
        order = {key: k for k, key in enumerate(kept)}
        groups = list(kept.values())
        starts = offsets_of([len(g.losses) for g in groups])[[order[key] for key in keys]]
        data = BoxesData(
            offsets_of([len(g.truth) for g in found]),
            np.concatenate([g.missing for g in found]),
            np.concatenate([g.groups for g in groups]),
            np.concatenate([g.losses for g in groups]),
            starts,
            features.window_counts,
            np.concatenate([g.truth for g in found]),
            self.suppression,
            features.n_potentials,
            features.space,
        )
        return self._blocks(features, data)

    def _blocks(self, features: WindowFeatures, data: BoxesData) -> Blocks:
        # A sampler's heap, and a number for each group.
        size = features.n_potentials + 2 * features.space.most + int(np.diff(data.offsets).max())
        return Blocks(data, features, data.offsets, data.truth, work_size=size)

    def _grouped(self, features: WindowFeatures, i: int, truth: Truth) -> _Grouped:
        """The groups of the windows of an image, and what they cost."""
        edges, n_classes = features.stored_edges(i), self.templates.n_classes
        classes = self.templates.classes[features.templates_at(i)]
        same, known = classes[:, None] == truth.classes, ~truth.ignored
        common = np.where(same[:, known], overlaps(edges, truth.edges[known]), 0.0)
        inside = np.where(same[:, ~known], shares_inside(edges, truth.edges[~known]), 0.0)
        most, nearest = np.zeros(len(edges)), np.full(len(edges), NOWHERE)
        if known.any():
            most, nearest = common.max(axis=1), common.argmax(axis=1)
        beside = inside.max(axis=1, initial=0.0)
        own, left_out = ((o >= self.match) & (o > 0.0) for o in (most, beside))
        reached = [np.flatnonzero(own & (nearest == j)) for j in range(known.sum())]
        reached = [windows for windows in reached if len(windows)]
        n_found = len(reached)
        groups, losses = n_found + classes, np.ones(len(edges))
        if self.match > 0.0:
            losses = np.maximum(1.0 - np.maximum(most, beside) / self.match, 0.0)
        elif known.any():
            groups[:] = 0 if n_found else NOWHERE
            losses[:] = most[reached[0]].max() if n_found else 0.0
        groups[own | left_out] = NOWHERE  # those of objects get theirs below
        labels = np.full(n_found + n_classes, NOWHERE, dtype=np.int32)
        for g, windows in enumerate(reached):
            best = windows[most[windows].argmax()]
            enough = min(most[best], self.settled)
            groups[windows], labels[g] = g, best
            losses[windows] = np.maximum(enough - most[windows], 0.0) / (1.0 - self.match)
        missing = np.concatenate([np.ones(n_found), np.zeros(n_classes)])
        return _Grouped(groups.astype(np.int16), losses.astype(np.float32), labels, missing)

    def take(self, blocks, which):
        """Images with their groups."""
        data = blocks.data
        features = blocks.features.take(which)
        counts = data.counts[which]
        own, image = np.unique(data.starts[which], return_inverse=True)
        sizes = np.zeros(len(own), dtype=np.int64)
        sizes[image] = counts
        labels = ranges(data.offsets[which], np.diff(data.offsets)[which])
        windows = ranges(own, sizes)
        return self._blocks(
            features,
            data._replace(
                offsets=offsets_of(np.diff(data.offsets)[which]),
                missing=data.missing[labels],
                groups=data.groups[windows],
                losses=data.losses[windows],
                starts=offsets_of(sizes)[:-1][image],
                counts=counts,
                truth=data.truth[labels],
                room=features.n_potentials,
                space=features.space,
            ),
        )

    def lengths(self, blocks):
        """As many windows as there are groups."""
        return np.diff(blocks.offsets) * blocks.features.lengths()

    def valid_labels(self, blocks, owner, labels):
        """Windows of the groups that they stand for."""
        data = blocks.data
        sizes = np.diff(blocks.offsets)[owner]
        block = np.repeat(owner, sizes)
        group = ranges(np.zeros(len(sizes), dtype=np.int64), sizes)
        inside = (labels >= 0) & (labels < data.counts[block])
        place = data.starts[block] + np.where(inside, labels, 0)
        valid = (labels == NOWHERE) | (inside & (data.groups[place] == group))
        return np.logical_and.reduceat(valid, np.cumsum(sizes) - sizes)

    def decode(self, labels, offsets):
        """The numbers of the windows of each label; -1 where a group has none."""
        return np.split(labels, offsets[1:-1])

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """The best window of each group, or none."""
        return _best(data, i, work, loss_weight, label)

    @staticmethod
    def loss(data, i, label):
        """The sum over groups."""
        total = 0.0
        for g in range(label.shape[0]):
            if label[g] == NOWHERE:
                total += data.missing[data.offsets[i] + g]
            else:
                total += data.losses[data.starts[i] + label[g]]
        return total

    @staticmethod
    def parts(data, i, label, each):
        """The windows."""
        total = 0.0
        for g in range(label.shape[0]):
            if label[g] != NOWHERE:
                total += part(each, label[g], 1.0)
        return total

    @staticmethod
    def sample(data, i, work, loss_weight, seed, found):
        """Greedy non-maximum suppression of score + loss, in each group by itself.

        Windows come from a heap, the best first, and each is compared with those chosen before: few
        of all windows are looked at.
        """
        _best(data, i, work, loss_weight, found[0])
        n, first = data.counts[i], data.starts[i]
        keys = work[data.room : data.room + n]
        places = work[data.room + n : data.room + 2 * n].view(np.int32)
        longest = 1
        for g in range(found.shape[1]):
            waiting, missing = 0, loss_weight * data.missing[data.offsets[i] + g]
            for j in range(n):
                value = work[j] + loss_weight * data.losses[first + j]
                if data.groups[first + j] == g and value > missing:
                    keys[waiting], places[waiting] = -value, j
                    waiting += 1
            heap(keys, places, waiting)
            count = 1
            while count < found.shape[0] and waiting > 0:
                j = places[0]
                waiting -= 1
                exchange(keys, places, 0, waiting)
                sink(keys, places, 0, waiting)
                if _is_apart(data, i, j, found, count, g):
                    found[count, g] = j
                    count += 1
            longest = max(longest, count)
            for q in range(count, found.shape[0]):
                found[q, g] = NOWHERE
        count = longest
        if count < found.shape[0] and not is_among(found, count, found[count]):
            count += 1  # nothing anywhere
        return count


class _Grouped(NamedTuple):
    groups: np.ndarray
    losses: np.ndarray
    truth: np.ndarray
    missing: np.ndarray


def _nothing() -> Truth:
    """No objects, where they are not known."""
    return Truth(np.empty((0, 4)), np.empty(0, dtype=np.int64), np.empty(0, dtype=bool))


@helper
def _best(data, i, work, loss_weight, label):
    """Write the best window of each group, or none; return the summed values."""
    size = label.shape[0]
    values = work[work.shape[0] - size :]
    for g in range(size):
        label[g] = NOWHERE
        values[g] = loss_weight * data.missing[data.offsets[i] + g]
    first = data.starts[i]
    for j in range(data.counts[i]):
        g = data.groups[first + j]
        if g != NOWHERE:
            value = work[j] + loss_weight * data.losses[first + j]
            if value > values[g]:
                values[g] = value
                label[g] = j
    total = 0.0
    for g in range(size):
        total += values[g]
    return total


@helper
def _is_apart(data, i, j, found, count, g):
    """Whether a window is none of those chosen in a group, and overlaps none of them too much."""
    own = edges_of(data.space, i, j)
    for q in range(count):
        chosen = found[q, g]
        if chosen == j:
            return False
        if chosen == NOWHERE:
            continue
        if overlap_of(edges_of(data.space, i, chosen), own) > data.suppression:
            return False
    return True
