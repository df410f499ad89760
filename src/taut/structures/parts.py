"""Objects of parts in images: a tree with springs, its parts of several aspects or invisible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taut.checks import as_share, check_choice, check_positive
from taut.data.arrays import as_numbers, check_finite
from taut.errors import InvalidData
from taut.inference.marginals import check_temperature
from taut.inference.part_marginals import PartMarginals, Potentials, part_marginals
from taut.inference.part_trees import (
    INVISIBLE,
    NOWHERE,
    PartData,
    best_root,
    fill_tables,
    forget_counts,
    hidden_loss,
    laid_out,
    leave_out,
    place_loss,
    room_of,
    state_of,
    stretch,
)
from taut.spaces.labels import part
from taut.spaces.part_windows import PartFeatures
from taut.spaces.windows import place_of
from taut.structures.base import Blocks, CompiledStructure
from taut.vision.poses import JointPose, check_parents, checked_pose
from taut.vision.templates import Templates

_LINE = 16  # numbers: where room begins


def _sampler(varied: bool) -> Any:
    """A `sample` that leaves out windows of the root; with all aspects, or taking turns."""
    VARIED = varied

    def sample(data, i, work, loss_weight, seed, found):
        tables, root = fill_tables(data, i, work, loss_weight), data.tree.order[0]
        count = 0
        while count < found.shape[0]:
            label = found[count]
            if best_root(data, i, work, tables, label) <= NOWHERE:
                break
            first, last = data.tree.firsts[root], data.tree.firsts[root + 1]
            if VARIED:
                first += state_of(data, i, root, label[root])
                last = first + 1
            else:
                forget_counts(tables)
            leave_out(data, i, tables, label, first, last)
            count += 1
        return count

    return sample


_DIVERSE = _sampler(True)
_SAMPLES = {"diverse": _DIVERSE, "suppression": _sampler(False)}


class Parts(CompiledStructure):
    """The parts of one object in each image, which springs hold together in a tree.

    A label says for each part that it is invisible, or at which place it is and which of its
    aspects it has; all are on one level of the image's pyramid. The score is a sum:

        for each visible part     <weights of the aspect's template, cells under it> + bias
        for each invisible part   a weight
        for each edge             a weight for the aspects of both ends, invisible ones included
        where both are visible    - w1 dx^2 - w2 dx - w3 dy^2 - w4 dy

    (dx, dy) is how far the child is from where its parent would have it, in units of `unit` cells:
    the child's place minus the parent's minus the anchor of the child's aspect. Springs belong to
    the child's aspect. A child of an invisible parent is free. w1 and w3 are kept from falling
    below `least`, whatever the regulariser says: `Problem` sees to that.

    The loss of a part is 1 / P if its visibility is wrong, or if it is further than `radius` from
    the truth's place. A wrong aspect costs nothing, and a wrong level only through distances. The
    maximum of score and loss is exact: on each level by dynamic programming with distance
    transforms, whose time is linear in the number of places.

    The truth is the label that is nearest to a `JointPose`: the level on which an object of its
    size has about `scale` cells, and the windows whose centres are nearest to the joints. A joint
    that is further from all windows than `radius`, outside the image, counts as invisible. Truths
    in which all parts are invisible stand for images without the object. Without poses all are.

    Images are learned from mirrored ones as well where X has mirrored pyramids and y the poses that
    are seen there, left and right parts swapped (`taut.vision.poses.mirrored_joints`).

    Parameters
    ----------
    parents : array-like of int, shape (n_parts,)
        The parent of each part, -1 of the root: `taut.vision.poses.tree_of`.
    anchors : sequence of array-like, shape (n_aspects, 2)
        For each part where its aspects are from the parent, x and y in cells; as many as the part
        has aspects. Those of the root have no effect.
    size : tuple of int, default=(5, 5)
        Rows and columns of cells of all templates.
    scale : float, default=10.0
        The size of an object in cells on the level that it belongs to.
    radius : float or array-like of shape (n_parts,), default=1.5
        How far from the truth's place a part is right, in cells of the truth's level.
    unit : float, default=1.0
        Cells that springs measure distances in. Where they are as long as parts are usually away
        from their anchors, or a little longer, springs are features of the size of others, and
        solvers take fewer passes.
    least : float, default=0.01
        What w1 and w3 are not below.
    sampling : {"diverse", "suppression"}, default="diverse"
        Samples beside the best label. "diverse": of each part the aspect that was chosen least
        often so far, the best of these; windows of the root's aspect that overlap an earlier one
        are left out. "suppression": the best labels of which no two roots overlap.
    suppression : float, default=0.5
        Overlap of windows of the root (intersection over union) from which they are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.binding import bind
    >>> from taut.structures import Parts
    >>> from taut.vision import JointPose, pyramid_of
    >>> rng = np.random.default_rng(0)
    >>> structure = Parts([-1, 0], [[[0, 0]], [[2, 0]]], size=(1, 1), scale=2.0, radius=0.5)
    >>> X, y = [], []
    >>> for column in (0, 1, 2):  # a head is bright in one channel, a tail in another
    ...     cells = 0.1 * rng.random((3, 5, 2))
    ...     cells[1, column, 0] = cells[1, column + 2, 1] = 1.0
    ...     X.append(pyramid_of([cells], [8], (40, 24)))
    ...     joints = np.array([[8 * column + 4, 12], [8 * column + 20, 12.0]])
    ...     y.append(JointPose(joints, np.ones(2, dtype=bool), np.zeros(2, dtype=int), 16.0))
    >>> result = solve(Problem(structure, X, y, C=10.0), random_state=0)
    >>> result.certificate.status.name
    'CONVERGED'
    >>> data = bind(structure, X)
    >>> structure.poses(data.blocks, data.predict(result.w))[1].joints.tolist()
    [[12.0, 12.0], [28.0, 12.0]]
    """

    allocates = False
    takes_examples = True

    def __init__(
        self,
        parents: ArrayLike,
        anchors: Sequence[ArrayLike],
        size: tuple[int, int] = (5, 5),
        scale: float = 10.0,
        radius: ArrayLike = 1.5,
        unit: float = 1.0,
        least: float = 0.01,
        sampling: str = "diverse",
        suppression: float = 0.5,
    ) -> None:
        self.parents = check_parents(parents)
        self.anchors = [_as_anchors(p, given) for p, given in enumerate(anchors)]
        if len(self.anchors) != len(self.parents):
            raise InvalidData(
                f"anchors has {len(self.anchors)} parts and parents has {len(self.parents)}: give "
                "the anchors of all aspects of each part"
            )
        self.size = _as_size(size)
        self.scale = check_positive("scale", scale)
        self.radius = np.broadcast_to(np.asarray(radius, dtype=np.float64), len(self.parents))
        if not (np.isfinite(self.radius) & (self.radius > 0.0)).all():
            raise InvalidData(f"radius = {radius!r}: give numbers of cells above 0")
        self.unit = check_positive("unit", unit)
        self.least = check_positive("least", least)
        check_choice("sampling", sampling, tuple(_SAMPLES))
        self.sampling = sampling
        self.suppression = as_share("suppression", suppression)
        self.tree, self.tail = laid_out(self.parents, self.anchors, self.unit)
        n_templates = int(self.tree.firsts[-1])
        rows, columns = (np.full(n_templates, side, dtype=np.int64) for side in self.size)
        nothing = np.zeros(n_templates, dtype=np.int64)
        self.templates = Templates(rows, columns, nothing, border=0, bias=1.0, geometry=0.0)

    @property
    def n_parts(self) -> int:
        """How many parts an object has."""
        return len(self.parents)

    @property
    def oracles(self):
        """With the sampler that was chosen, unless a subclass has its own."""
        own = super().oracles
        return own._replace(sample=_SAMPLES[self.sampling]) if own.sample is _DIVERSE else own

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """X is a list of `Pyramid`, y one of `JointPose`."""
        features = PartFeatures(X, self.templates, self.tree.firsts[:-1], self.tail)
        poses = [self._hidden()] * len(X) if y is None else y
        if len(poses) != len(X):
            raise InvalidData(
                f"X has {len(X)} images and y poses of {len(poses)}: give one to each"
            )
        found = [self._truth(features, i, pose) for i, pose in enumerate(poses)]
        labels, centres, reach = (np.stack(arrays) for arrays in zip(*found, strict=True))
        data = PartData(
            self.tree, features.space, 0, 0, centres, labels != INVISIBLE, reach, self._shares(),
            self.suppression,
        )  # fmt: skip
        return self._blocks(features, data, labels.ravel())

    def _blocks(self, features: PartFeatures, data: PartData, truth: np.ndarray) -> Blocks:
        space = features.space
        room = -(-features.n_potentials // _LINE) * _LINE
        data = data._replace(space=space, at=space.most, room=room)
        size = room + 2 * room_of(space, self.tree)  # of float64, where `work` may be single
        offsets = self.n_parts * np.arange(len(space.image) + 1)
        return Blocks(data, features, offsets, truth, work_size=size)

    def _shares(self) -> np.ndarray:
        """Of each part in the loss."""
        return np.full(self.n_parts, 1.0 / self.n_parts)

    def _hidden(self) -> JointPose:
        """No part is seen."""
        n = self.n_parts
        return JointPose(
            np.zeros((n, 2)), np.zeros(n, dtype=bool), np.zeros(n, dtype=np.int64), 1.0
        )

    def _truth(
        self, features: PartFeatures, i: int, given: JointPose
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The label nearest to a pose, its places in the stored image, and their reach squared."""
        joints, visible, aspects, size = checked_pose(given, np.diff(self.tree.firsts), i)
        label = np.full(self.n_parts, INVISIBLE, dtype=np.int32)
        centres, reach = np.zeros((self.n_parts, 2)), np.zeros(self.n_parts)
        if not visible.any():
            return label, centres, reach
        space, m = features.space, int(features.space.image[i])
        own = slice(space.levels.starts[m], space.levels.starts[m + 1])
        grids = space.levels.shapes[own] - np.array(self.size) + 1
        cells = np.sqrt(space.levels.steps[own].prod(axis=1))
        off = np.where((grids > 0).all(axis=1), np.abs(np.log(size / (self.scale * cells))), np.inf)
        number = int(off.argmin())
        if np.isinf(off[number]):
            raise InvalidData(
                f"image {i} has a visible part, and no level has room for {self.size} cells: leave "
                "it out, or give pyramids with a margin or larger scales"
            )
        if space.mirrored[i]:
            joints = np.column_stack([space.sizes[m, 0] - joints[:, 0], joints[:, 1]])
        step, half = space.levels.steps[own][number], 0.5 * np.array(self.size[::-1])
        wanted = joints / step + space.margin - half  # x and y of the first cell
        places = np.clip(np.rint(wanted), 0, grids[number][::-1] - 1)
        near = visible & (np.linalg.norm(places - wanted, axis=1) <= self.radius)
        n_levels, columns = len(grids), int(grids[number, 1])
        slots = (self.tree.firsts[:-1] + aspects) * n_levels + number
        begin = space.windows[len(self.templates.rows) * own.start + m + slots[near]]
        x, y = places[near].T.astype(np.int64)
        label[near] = begin + y * columns + x
        centres[near] = (places[near] - space.margin + half) * step
        reach[:] = (self.radius * cells[number]) ** 2
        return label, centres, reach

    def take(self, blocks, which):
        """Images with their truths."""
        data, features = blocks.data, blocks.features.take(which)
        own = data._replace(
            centres=data.centres[which], visible=data.visible[which], reach=data.reach[which]
        )
        return self._blocks(features, own, blocks.truth.reshape(-1, self.n_parts)[which].ravel())

    def lower(self, blocks):
        """Springs that are bent: distance transforms divide by w1 and w3."""
        features: Any = blocks.features
        bounds = np.full(features.n_features, -np.inf)
        springs = features.tail_at + self.tree.springs[self._with_springs()]
        bounds[springs], bounds[springs + 2] = self.least, self.least
        return bounds

    def _with_springs(self) -> np.ndarray:
        """The templates of all parts but the root."""
        root = self.tree.order[0]
        numbers = np.arange(self.tree.firsts[-1])
        return numbers[(numbers < self.tree.firsts[root]) | (numbers >= self.tree.firsts[root + 1])]

    def lengths(self, blocks):
        """A window of each part, and as much stretch of each spring as the levels have room for."""
        space = blocks.features.space
        shapes = np.maximum.reduceat(space.levels.shapes, space.levels.starts[:-1])[space.image]
        far = (shapes[:, ::-1] + np.abs(self.tree.anchors).max(axis=0)) / self.unit
        springs = 1.0 + np.sqrt((far**4 + far**2).sum(axis=1))
        return self.n_parts * (blocks.features.lengths() + 1.0) + (self.n_parts - 1) * springs

    def valid_labels(self, blocks, owner, labels):
        """Windows of the parts that they stand for, all on one level."""
        valid = np.empty(len(owner), dtype=bool)
        counts = blocks.features.window_counts
        for k, (i, label) in enumerate(zip(owner, labels.reshape(-1, self.n_parts), strict=True)):
            seen = label != INVISIBLE
            inside = (label[seen] >= 0) & (label[seen] < counts[i])
            valid[k] = inside.all()
            if valid[k] and seen.any():
                t, level, _places = blocks.features.places(int(i), label[seen])
                p = np.flatnonzero(seen)
                own = (t >= self.tree.firsts[p]) & (t < self.tree.firsts[p + 1])
                valid[k] = own.all() and (level == level[0]).all()
        return valid

    def decode(self, labels, offsets):
        """The numbers of windows of each image, -1 of invisible parts; see `poses`."""
        return np.split(labels, offsets[1:-1])

    def poses(self, blocks: Blocks, labels: Sequence[np.ndarray]) -> list[JointPose]:
        """Where labels of all blocks, as `decode` gives them, have their joints: window centres.

        In the image as it is shown, which is the mirrored one for mirrored pyramids.
        """
        features: Any = blocks.features
        space, found = features.space, []
        for i, label in enumerate(labels):
            pose, seen = self._hidden(), label != INVISIBLE
            if seen.any():
                t, level, places = features.places(i, label[seen])
                step = space.levels.steps[level[0]]
                joints = (places - space.margin + 0.5 * np.array(self.size[::-1])) * step
                if space.mirrored[i]:
                    joints[:, 0] = space.sizes[space.image[i], 0] - joints[:, 0]
                pose.joints[seen], pose.visible[:] = joints, seen
                pose.aspects[seen] = t - self.tree.firsts[:-1][seen]
                pose = pose._replace(size=self.scale * float(np.sqrt(step.prod())))
            found.append(pose)
        return found

    def absent(self, w: np.ndarray) -> float:
        """What the label scores in which all parts are invisible, for weights without padding."""
        counts, root = np.diff(self.tree.firsts), self.tree.order[0]
        children = np.delete(np.arange(self.n_parts), root)
        pairs = (counts[self.parents[children]] + 1) * (counts[children] + 1) - 1
        tail = w[len(w) - self.tail :]
        hidden = tail[: self.n_parts].sum()
        return float(hidden + tail[self.tree.pairs[children] + pairs].sum())

    def marginals(
        self, blocks: Blocks, w: np.ndarray, temperature: float = 1.0
    ) -> list[PartMarginals]:
        """How likely each part of each image has each of its windows, or is invisible.

        With p(label) proportional to exp(score / temperature), over all labels.

        Parameters
        ----------
        blocks : Blocks
            As of `encode`; truths are not looked at.
        w : ndarray
            The weights.
        temperature : float, default=1.0

        Returns
        -------
        list of PartMarginals
        """
        temperature = check_temperature(temperature)
        features: Any = blocks.features
        space, n_templates = features.space, len(self.templates.rows)
        weights = features.pad(np.maximum(w, self.lower(blocks)))
        work = np.empty(features.n_potentials)
        tail = weights[features.tail_at : features.n_features] / temperature
        found = []
        for i, m in enumerate(space.image.tolist()):
            own = slice(space.levels.starts[m], space.levels.starts[m + 1])
            grids = np.maximum(space.levels.shapes[own] - np.array(self.size) + 1, 0)
            begin = n_templates * own.start + m
            starts = space.windows[begin : begin + n_templates * len(grids)]
            scores = features.scores(i, weights, work) / temperature
            side = -1.0 if space.mirrored[i] else 1.0
            potentials = Potentials(scores, tail, starts.reshape(n_templates, -1), grids, side)
            found.append(part_marginals(self.tree, potentials))
        return found

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """By dynamic programming on each level."""
        tables = fill_tables(data, i, work, loss_weight)
        return best_root(data, i, work, tables, label)

    @staticmethod
    def loss(data, i, label):
        """The sum over parts."""
        space, total = data.space, 0.0
        for p in range(label.shape[0]):
            if label[p] == INVISIBLE:
                total += hidden_loss(data, i, p)
            else:
                _t, level, y, x = place_of(space, space.image[i], label[p])
                total += place_loss(data, i, p, level, y, x)
        return total

    @staticmethod
    def parts(data, i, label, each):
        """Windows and what stands for invisible parts, then the edges."""
        tree, total = data.tree, 0.0
        for p in range(label.shape[0]):
            state = state_of(data, i, p, label[p])
            if label[p] == INVISIBLE:
                total += part(each, data.at + p, 1.0)
            else:
                total += part(each, label[p], 1.0)
            above = tree.parents[p]
            if above < 0:
                continue
            count = tree.firsts[p + 1] - tree.firsts[p]
            aspect = state_of(data, i, above, label[above])
            total += part(each, data.at + tree.pairs[p] + aspect * (count + 1) + state, 1.0)
            if label[p] != INVISIBLE and label[above] != INVISIBLE:
                t = tree.firsts[p] + state
                dx, dy = stretch(data, i, t, label[p], label[above])
                spring = data.at + tree.springs[t]
                total += part(each, spring, -dx * dx)
                total += part(each, spring + 1, -dx)
                total += part(each, spring + 2, -dy * dy)
                total += part(each, spring + 3, -dy)
        return total

    sample = staticmethod(_DIVERSE)


def _as_anchors(p: int, given: ArrayLike) -> np.ndarray:
    """The anchors of a part, checked."""
    anchors = np.array(as_numbers(given, f"anchors[{p}]"), dtype=np.float64)
    if anchors.ndim != 2 or anchors.shape[1] != 2 or not len(anchors):
        raise InvalidData(
            f"anchors[{p}] has shape {anchors.shape}: give x and y of each aspect, (n_aspects, 2)"
        )
    check_finite(anchors, f"anchors[{p}]")
    return anchors


def _as_size(size: Any) -> tuple[int, int]:
    """Rows and columns of a template, checked."""
    rows, columns = size
    for side in (rows, columns):
        if not isinstance(side, int | np.integer) or isinstance(side, bool) or side < 1:
            raise InvalidData(f"size = {size!r}: give rows and columns of cells, at least 1")
    return int(rows), int(columns)
