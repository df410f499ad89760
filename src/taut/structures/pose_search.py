"""A box with an angle, by a joint kernel: templates for each angle, made of pairs, are scanned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from taut.checks import as_share
from taut.data.angles import as_angles, grid_of, nearest_angles, turns
from taut.errors import InvalidData
from taut.kernels.angles import check_angles
from taut.kernels.labels import ClassSimilarity, LabelKernel
from taut.kernels.pairs import PairProduct
from taut.kernels.products import Linear
from taut.spaces.pose_windows import pose_templates, stacked
from taut.spaces.windows import WindowFeatures
from taut.structures.joint_kernel import JointKernel
from taut.structures.pose_boxes import BoxPose, misplaced
from taut.vision.boxes import overlaps
from taut.vision.pyramid import Pyramid


class PosedImage(NamedTuple):
    """An example: an image, and what the place of each of its windows costs."""

    pyramid: Pyramid
    losses: np.ndarray


#: A label: the number of a window, and that of an angle.
Place = tuple[int, int]


class PoseSearch(JointKernel):
    """One window of an image and one of some angles, by a joint kernel on pairs.

    K((x, y), (x', y')) = <Phi(x, B), Phi(x', B')> k(angle, angle'), where w is a sum over pairs, as
    in `JointKernel`. Each Phi is stored once. Before a search, pairs are added up into templates,

        w_k = sum_e b_e k(angle_k, angle_e) Phi_e,        score(B, angle_k) = <w_k, Phi(x, B)>,

    and these are laid upon all windows. Angles, those of truths as well, are on a grid, and so are
    all that the kernel on angles compares: it is refused unless it is definite there. Losses are
    those of `PoseBoxes`. Searches are in single precision, and what comes near to the best is
    scored again in double precision, so that the maximum is exact.

    Parameters
    ----------
    rows, columns : int
        Cells of a template, without its border.
    kernel : LabelKernel
        On angles.
    n_angles : int, default=16
    border : int, default=1
        Cells of context around a template.
    memory : int or str, default="500MB"
        As of `JointKernel`.
    suppression : float, default=0.5
        As of `PoseBoxes`.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.kernels import VonMisesLabels
    >>> from taut.solvers import WorkingSet
    >>> from taut.structures import PoseSearch
    >>> from taut.structures.pose_boxes import BoxPose
    >>> from taut.vision import pyramid_of
    >>> rng = np.random.default_rng(0)
    >>> images, poses = [], []
    >>> for column, turn in ((0, 0.0), (3, 2.0), (4, 4.0)):
    ...     cells = rng.random((4, 6, 2))
    ...     cells[1:3, column : column + 2] += [1.0 + np.cos(turn), 1.0 + np.sin(turn)]
    ...     images.append(pyramid_of([cells], [8], (48, 32)))
    ...     poses.append(BoxPose(8.0 * np.array([column, 1, column + 2, 3]), turn))
    >>> structure = PoseSearch(2, 2, VonMisesLabels(1.0), n_angles=8, border=0)
    >>> X, y = structure.posed(images, poses)
    >>> result = solve(Problem(structure, X, y, C=10.0), WorkingSet(), random_state=0)
    >>> result.certificate.status.name
    'CONVERGED'
    """

    #: Whether a function of the user's finds labels.
    searches = False

    def __init__(
        self,
        rows: int,
        columns: int,
        kernel: LabelKernel,
        n_angles: int = 16,
        border: int = 1,
        memory: int | str = "500MB",
        suppression: float = 0.5,
    ) -> None:
        self._suppression = as_share("suppression", suppression)
        self.angles = grid_of(n_angles)
        self._values = check_angles(kernel, self.angles)
        self._turned = turns(self.angles[:, None], self.angles) / (2.0 * np.pi)
        self._templates = pose_templates(rows, columns, border, n_angles)
        self._one = pose_templates(rows, columns, border, 1)
        self._length = 0  # of Phi, known from images
        product = PairProduct(
            Linear(), ClassSimilarity(self._values), self._phi, lambda label: label[0],
            lambda label: label[1],
        )  # fmt: skip
        super().__init__(product, argmax=self._search, memory=memory, sample=self._spread)

    def posed(
        self, pyramids: Sequence[Pyramid], poses: Sequence[BoxPose]
    ) -> tuple[list[PosedImage], list[Place]]:
        """Examples and labels of images and what is true of them."""
        angles = as_angles([pose.angle for pose in poses], "PoseSearch")
        numbers = nearest_angles(angles, len(self.angles))
        X, y = [], []
        for i, (pyramid, pose) in enumerate(zip(pyramids, poses, strict=True)):
            features = WindowFeatures([pyramid], self._one)
            self._length, edges = features.n_features, features.edges(0)
            losses, best = misplaced(edges, np.asarray(pose.edges), f"image {i}")
            X.append(PosedImage(pyramid, losses))
            y.append((best, int(numbers[i])))
        return X, y

    def _phi(self, x: PosedImage, window: int) -> np.ndarray:
        """Phi of a window."""
        if not 0 <= window < len(x.losses):
            raise InvalidData(f"window {window} is none of the {len(x.losses)} of an image")
        return self._vectors(x, np.array([window]))[0]

    def _vectors(self, x: PosedImage, windows: np.ndarray) -> np.ndarray:
        return WindowFeatures([x.pyramid], self._one).vectors(0, windows)

    def loss(self, truth: Place, label: Place, x: Any = None) -> float:
        """Of the place, and of the angle."""
        return float(x.losses[label[0]] + self._turned[truth[1], label[1]])

    def templates(self, w: Any) -> np.ndarray:
        """The sum of coefficients times features for each angle, which w is made of."""
        aspects, sums = w.feature_sums()
        found = np.zeros((len(self.angles), self._length))
        if len(aspects):  # without any pair w is 0
            found[aspects] = sums
        return found

    def _search(self, x: PosedImage, w: Any, truth: Place | None) -> Place:
        """The best of all windows and angles."""
        return _highest(self._scored(x, w, truth))

    def _spread(self, x: PosedImage, w: Any, truth: Place | None, count: int) -> list[Place]:
        """Greedy suppression: labels that differ in place, or in angle."""
        values = self._scored(x, w, truth)
        found: list[Place] = []
        edges = WindowFeatures([x.pyramid], self._one).edges(0)
        near = 8.0 * self._turned <= 1.0 + 1e-9
        while len(found) < count and values.max() > -np.inf:
            window, k = _highest(values)
            found.append((window, k))
            like = overlaps(edges, edges[window : window + 1])[:, 0] > self._suppression
            values[np.ix_(near[k], like)] = -np.inf
            values[k, window] = -np.inf
        return found

    def _scored(self, x: PosedImage, w: Any, truth: Place | None) -> np.ndarray:
        """Score, plus loss if there is a truth, of each angle and window; the best ones exact."""
        templates = self._values @ self.templates(w)
        features = WindowFeatures([x.pyramid], self._templates)
        room = np.empty(features.n_potentials, dtype=np.float32)
        scores = features.scores(0, features.pad(stacked(templates).astype(np.float32)), room)
        values = scores.reshape(len(templates), -1)
        added = np.zeros(values.shape)
        if truth is not None:
            added = x.losses + self._turned[truth[1]][:, None]
        values = values + added
        # How far two of these may be off, which are sums in single precision.
        largest = templates[np.linalg.norm(templates, axis=1).argmax()]
        off = 2.0 * features.rounding(largest, np.float32)
        angles, windows = np.nonzero(values >= values.max() - off)
        exact = np.einsum("kf,kf->k", self._vectors(x, windows), templates[angles])
        values[angles, windows] = added[angles, windows] + exact
        return values


def _highest(values: np.ndarray) -> Place:
    """The window and the angle of the highest value."""
    k, window = divmod(int(values.argmax()), values.shape[1])
    return window, k
