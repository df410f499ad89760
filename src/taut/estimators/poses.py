"""Objects with the angle that they are seen from, one in each image."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taut.checks import check_number
from taut.data.angles import as_angles, grid_of
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData
from taut.estimators.base import StructuralEstimator, estimator
from taut.estimators.extraction_settings import (
    WINDOWS,
    check_extraction,
    check_settings,
    check_weights,
    check_whole,
    extraction_of,
    pyramid_at,
    too_small,
)
from taut.inference.best_angle import best_pose
from taut.inference.box_refinement import (
    MOST_IMAGES,
    NO_REFINEMENT,
    fit_refinement,
    refined,
)
from taut.kernels import AngleFunction, GaussianLabels, LabelKernel, SectorLabels, VonMisesLabels
from taut.kernels.angles import check_angles
from taut.metrics import pose_losses
from taut.problem import Problem
from taut.solvers import DualCoordinate, WorkingSet
from taut.spaces.pose_windows import mean_template, pose_templates, stacked
from taut.spaces.windows import WindowFeatures
from taut.structures import PoseBoxes, PoseSearch
from taut.structures.pose_boxes import poses_of, with_mirror_images
from taut.vision.boxes import Boxes as Truth
from taut.vision.boxes import FoundPoses
from taut.vision.hog import HogPyramid
from taut.vision.photographs import Photographs
from taut.vision.templates import Templates, margin_of, scales_of, stretches_of


class _Frame(NamedTuple):
    """What is known before training: the shape of the template, and the sizes of images."""

    template: np.ndarray  # rows and columns of cells
    scales: np.ndarray
    stretches: np.ndarray


_EXTRACTION = (
    "cell", "cells", "border", "colour", "longest", "kappa", "explicit", "precision",
)  # fmt: skip


@estimator
class PoseSVM(StructuralEstimator):
    """Where the object of an image is, and from which angle it is seen.

    Minimises P(w) = 1/2 |w|^2 + C sum_i weight_i max_y [loss(y_i, y) - <w, psi_i(y)>] over images
    i, where a label y = (B, angle) is a window and an angle. Two labels are compared by

        K((x, y), (x', y')) = <Phi(x, B), Phi(x', B')> exp(kappa (cos(angle - angle') - 1))

    with the gradients and colours under the window, a bias and functions of its place and size in
    Phi. So views from similar angles share what they learn, as far as kappa says. The loss is
    (1 - overlap) / 2 + d / (2 pi), with the angle d between 0 and pi from the true one, less what
    the best window lacks. The maximum is over all windows and `n_angles` angles, and exact; so is
    the certificate, which holds for labels with these angles. Prediction finds the best angle
    between them, and moves the edges of the best window.

    Parameters
    ----------
    {training}
    explicit : bool, default=True
        Write the kernel on angles down as Fourier terms, with a template for each: angles of images
        are what they are, and any solver applies. Otherwise w is a sum over pairs of a window and
        an angle, trained by `WorkingSet`, and angles of images are those of the grid that are
        nearest.
    angle_kernel : str or callable, default="von_mises"
        "von_mises" as above; "sectors", 1 for angles nearest to the same of `n_angles`, else 0;
        without `explicit` also "gaussian", exp(-kappa d^2 / 2), or a function of two arrays of
        angles that returns a matrix. What is not positive semidefinite on the grid is refused.
    kappa : float, default=2.0
        How fast views differ: exp(-2 kappa) is how alike opposite ones are.
    n_angles : int, optional
        Equally spaced angles that labels may have: 64 with `explicit`, otherwise 16.
    precision : float, default=1e-3
        What the Fourier terms that are left out sum to at most.
    aspects : int, default=3
        Most aspect ratios of windows: images are also stretched, so that there is one template.
    cells : int, default=64
        About how many cells a template has, without its border.
    cell : int, default=8
        Side of a cell in pixels of the resized image.
    border : int, default=1
        Cells of context around a template.
    scale_step : float, default=2 ** 0.25
        Factor between two scales at which windows are looked for.
    colour : bool, default=True
        Whether the colour of cells counts, beside gradients.
    mirror : bool, default=False
        Whether to learn from the mirrored images as well.
    mirror_sum : float, default=0.0
        What the angle of an object and that in the mirror image add up to: 0 where the angle 0
        faces the camera or turns away from it, pi where it faces to the left or right.
    refine : bool, default=True
        Whether boxes are moved to where a regression on their features says that objects end, as in
        `BoxSVM`. It learns from at most 200 images, drawn at random.
    longest : int, default=640
        Larger images are shrunk to this longest side; boxes are of the images as they are.
    folder : path-like, optional
        Where features are kept, and found again by the next fit; they are all in memory while it
        trains.
    memory : int or str, default="500MB"
        For the values of the kernel without `explicit`, see `JointKernel`.

    Attributes
    ----------
    coef_ : ndarray
        All weights: the cells of a template for each Fourier term, or for each angle of the grid,
        their biases, functions of place and size.
    template_ : ndarray of shape (2,)
        Rows and columns of cells, without the border.
    scales_, stretches_ : ndarray
        By how much images are resized, and how much narrower and higher they get.
    angles_ : ndarray
        The grid.
    angle_values_ : ndarray of shape (2 n_angles, n_angles)
        The kernel on angles, of a grid twice as fine with this one. Another kernel is refused after
        the fit.
    refinement_ : ndarray
        Coefficients of the regression on what lies under the template; zero where it did not help.
    extraction_ : ndarray
        The parameters that say how images are looked at. Others are refused after the fit.
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from taut import PoseSVM
    >>> rng = np.random.default_rng(0)
    >>> images, boxes, angles = [], [], []
    >>> for k in range(16):
    ...     image = rng.integers(90, 110, size=(48, 64, 3), dtype=np.uint8)
    ...     x, y, angle = *rng.integers(4, 16, size=2), np.pi * (k % 4) / 2
    ...     image[y : y + 24, x : x + 24] = 40 * (k % 4)
    ...     image[y : y + 24, x : x + 12] = 255 - 60 * (k % 4)
    ...     images.append(image)
    ...     boxes.append([(x, y, x + 24, y + 24)])
    ...     angles.append(angle)
    >>> model = PoseSVM(C=1.0, cells=9, n_angles=8, random_state=0)
    >>> model.fit(images[:12], boxes[:12], angles[:12]).score(images, boxes, angles) > -0.2
    True
    """

    C: float = field(default=0.1, kw_only=False)
    tol: float = 0.02
    explicit: bool = True
    angle_kernel: str | Callable = "von_mises"
    kappa: float = 2.0
    n_angles: int | None = None
    precision: float = 1e-3
    aspects: int = 3
    cells: int = 64
    cell: int = 8
    border: int = 1
    scale_step: float = 2.0**0.25
    colour: bool = True
    mirror: bool = False
    mirror_sum: float = 0.0
    refine: bool = True
    longest: int = 640
    folder: str | os.PathLike[str] | None = None
    memory: int | str = "500MB"

    _needs_y = True

    # Learning

    def fit(
        self, images: Any, boxes: Any = None, angles: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn from images with one object each.

        Parameters
        ----------
        images : list, or path of a folder
            Paths, arrays of shape (height, width, 3), or `Pyramid` objects with features of your
            own. A folder stands for its images, sorted by name.
        boxes : array-like of shape (n, 4), or list
            Left, top, right and bottom of the object of each image, in pixels, or a list of one box
            for each, as `BoxSVM` takes it, such as `taut.vision.read_boxes(...).boxes`. Classes of
            boxes have no effect.
        angles : array-like of shape (n,)
            Of each object, in radians.
        sample_weight : array-like, optional
            Factors on the losses of images.
        """
        self._check()
        self._need(boxes, "boxes")
        self._need(angles, "angles")
        photographs = Photographs(images, self.longest)
        edges = self._edges(photographs, boxes)
        edges = edges * np.array([photographs.ratios(i) for i in range(len(edges))])
        turned = as_angles(angles, "angles")
        if len(turned) != len(edges):
            raise InvalidData(
                f"there are {len(edges)} images, and {len(turned)} angles: give one to each"
            )
        weight = check_sample_weight(sample_weight, len(edges), unit="image")
        rows, columns, stretches = stretches_of(edges, self.aspects, self.cells)
        scales = scales_of(edges, self.cells, self.cell, self.scale_step)
        frame = _Frame(np.array([rows, columns]), scales, stretches)
        pyramids = list(
            photographs.features(
                self._extractor(frame), self.folder, self.mirror, self._threads(), self.verbose
            )
        )
        if self.mirror:
            widths = np.array([pyramid.size[0] for pyramid in pyramids[::2]])
            edges, turned = with_mirror_images(edges, turned, widths, self.mirror_sum)
            weight = np.repeat(weight, 2)
        w, fitted = self._trained(frame, pyramids, edges, turned, weight)
        facts = {
            "coef_": w,
            "template_": frame.template,
            "scales_": frame.scales,
            "stretches_": frame.stretches,
            "angles_": self._grid(),
            "angle_values_": self._angle_values(),
            "refinement_": self._refinement(frame, pyramids, edges, w),
            "extraction_": extraction_of(self, _EXTRACTION),
        }
        return self._keep(fitted | facts)

    def _trained(
        self,
        frame: _Frame,
        pyramids: Sequence[Any],
        edges: np.ndarray,
        angles: np.ndarray,
        weight: np.ndarray,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """W and what is known about it."""
        kernel, grid, options = self._angle_kernel(), self._grid(), self._options()
        rows, columns = frame.template.tolist()
        poses, jobs, prior = poses_of(edges, angles), self._threads(), self._regularizer(None)
        if self.explicit:
            structure = PoseBoxes(rows, columns, kernel, len(grid), self.border)
            return self._solve(
                Problem(structure, pyramids, poses, self.C, weight, jobs, prior), options
            )
        search = PoseSearch(rows, columns, kernel, len(grid), self.border, self.memory)
        X, y = search.posed(pyramids, poses)
        w, fitted = self._solve(Problem(search, X, y, self.C, weight, jobs, prior), options)
        return stacked(search.templates(w)), fitted

    def _refinement(
        self, frame: _Frame, pyramids: Sequence[Any], edges: np.ndarray, w: np.ndarray
    ) -> np.ndarray:
        """What boxes are refined by, learned at the windows that score highest at all angles."""
        if not self.refine:
            return NO_REFINEMENT
        some = np.random.default_rng(0).permutation(len(pyramids))[:MOST_IMAGES]
        features = WindowFeatures([pyramids[i] for i in some], self._templates(frame.template, 1))
        one = mean_template(w, self._numbers_of()(self._grid()))
        truths = [Truth(edges[[i]], np.zeros(1, np.int64), np.zeros(1, bool)) for i in some]
        return fit_refinement(features, truths, features.pad(one.astype(np.float32)))

    def _options(self) -> dict[str, Any]:
        options = super()._options()
        # Planes that are known cost much less than a search for a new one.
        default = DualCoordinate(cached_passes=3) if self.explicit else WorkingSet()
        options["solver"] = options["solver"] or default
        return options

    def _check(self) -> None:
        """Refuse parameters before any work is done."""
        check_settings(self, ("explicit", "colour", "mirror", "refine"), WINDOWS)
        check_number("mirror_sum", self.mirror_sum)
        if not math.isfinite(self.mirror_sum):
            raise InvalidData(f"mirror_sum = {self.mirror_sum}: give a finite number of radians")
        if self.n_angles is not None:
            check_whole("n_angles", self.n_angles, 2)
        self._angle_kernel()

    def _grid(self) -> np.ndarray:
        """The angles that labels may have."""
        if self.n_angles is None:
            return grid_of(64 if self.explicit else 16)
        return grid_of(int(self.n_angles))

    def _angle_kernel(self) -> LabelKernel:
        """The kernel on angles that the parameters mean, if certificates can be given for it."""
        named: dict[str, Callable[[], LabelKernel]] = {
            "von_mises": lambda: VonMisesLabels(self.kappa, self.precision),
            "gaussian": lambda: GaussianLabels(self.kappa),
            "sectors": lambda: SectorLabels(len(self._grid())),
        }
        given = self.angle_kernel
        if not isinstance(given, str):
            kernel: LabelKernel = AngleFunction(given)
        elif given in named:
            kernel = named[given]()
        else:
            raise InvalidData(
                f"angle_kernel = {given!r}: give one of {', '.join(map(repr, named))}, or a "
                "function of two arrays of angles"
            )
        check_angles(kernel, self._grid())
        if self.explicit and not kernel.finite:
            raise InvalidData(
                f"angle_kernel = {given!r} has no features that could be written down: give "
                "explicit=False, or angle_kernel='von_mises'"
            )
        return kernel

    def _numbers_of(self) -> Callable[[np.ndarray], np.ndarray]:
        """What describes angles, a row for each: a template belongs to each number."""
        kernel, grid = self._angle_kernel(), self._grid()
        return kernel.finite_map if self.explicit else lambda angles: kernel.between(angles, grid)

    def _angle_values(self) -> np.ndarray:
        """Values of the kernel on angles, by which it is known again."""
        grid = self._grid()
        return self._angle_kernel().between(grid_of(2 * len(grid)), grid)

    def _check_fitted(self) -> None:
        """Refuse to answer with parameters that were changed since the fit."""
        check_is_fitted(self)
        check_extraction(self, _EXTRACTION)
        now, fitted = len(self._grid()), len(self.angles_)
        if now != fitted:
            raise InvalidData(
                f"n_angles = {self.n_angles} means {now} angles, and the model was fitted with "
                f"{fitted}: set it back, or fit again"
            )
        if not np.allclose(self._angle_values(), self.angle_values_, rtol=1e-9, atol=1e-12):
            raise InvalidData(
                f"angle_kernel = {self.angle_kernel!r} compares angles otherwise than the kernel "
                "that the model was fitted with: set it back, give taut.load the function if it "
                "was one, or fit again"
            )

    def _templates(self, template: np.ndarray, r: int) -> Templates:
        rows, columns = map(int, template)
        return pose_templates(rows, columns, self.border, r)

    def _edges(self, photographs: Photographs, boxes: Any) -> np.ndarray:
        """One box for each image, as it is given."""
        if isinstance(boxes, Sequence | np.ndarray) and all(map(_is_box, boxes)):
            boxes = [[own] for own in boxes]
        truths = photographs.truths(boxes)
        for i, truth in enumerate(truths):
            if len(truth.edges) != 1 or truth.ignored.any():
                raise InvalidData(
                    f"image {i} has {len(truth.edges)} boxes: give one to each image, which is not "
                    "ignored, or find any number of objects by BoxSVM"
                )
        return np.concatenate([truth.edges for truth in truths])

    def _extractor(self, frame: _Frame) -> HogPyramid:
        return HogPyramid(
            cell=self.cell, scales=frame.scales, margin=margin_of(self.cells, self.border),
            colour=self.colour, fewest=2, stretches=frame.stretches,
        )  # fmt: skip

    def _joint_weights(self) -> np.ndarray:
        return self.coef_

    # Answers

    def predict(self, images: Any) -> FoundPoses:
        """Find the object of each image.

        Parameters
        ----------
        images
            As for `fit`.

        Returns
        -------
        FoundPoses
            Boxes, angles and scores, an item for each image. Angles are in [0, 2 pi), and no longer
            on the grid: at the best box they maximise the score.
        """
        self._check_fitted()
        photographs = Photographs(images, self.longest)
        extractor = self._extractor(_Frame(self.template_, self.scales_, self.stretches_))
        numbers_of = self._numbers_of()
        templates = self._templates(self.template_, numbers_of(self.angles_[:1]).shape[1])
        one = self._templates(self.template_, 1)

        def find(i: int) -> tuple[np.ndarray, float, float]:
            pyramid = pyramid_at(photographs, i, extractor)
            features = WindowFeatures([pyramid], templates)
            check_weights(self, features.n_features, f"image {i} has")
            if not features.window_counts[0]:
                raise too_small(i)
            w = features.pad(self.coef_.astype(np.float32))
            window, angle, score = best_pose(features, w, numbers_of, self.angles_)
            edges = features.edges(0, window + 1)[window]
            if self.refinement_.any():
                alone = WindowFeatures([pyramid], one)
                (edges,) = refined(alone, 0, np.array([window]), self.refinement_)
            return photographs.as_given(edges, i), angle, score

        with ThreadPoolExecutor(self._threads(), thread_name_prefix="taut") as threads:
            found = list(threads.map(find, range(len(photographs))))
        edges, angles, scores = zip(*found, strict=True)
        return FoundPoses(np.array(edges), np.array(angles), np.array(scores))

    def score(self, images: Any, boxes: Any = None, angles: Any = None) -> float:
        """Minus the mean loss, so at most 0: higher is better."""
        self._need(boxes, "boxes")
        self._need(angles, "angles")
        photographs = Photographs(images, self.longest)
        edges = self._edges(photographs, boxes)
        return -float(pose_losses(self.predict(images), edges, angles).mean())


def _is_box(given: Any) -> bool:
    """Whether something is a single box, not a list of boxes."""
    return (
        isinstance(given, Sequence | np.ndarray)
        and len(given) == 4
        and all(isinstance(edge, Real) for edge in given)
    )
