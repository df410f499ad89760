"""Objects in images: a detector from photographs with boxes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Self

import numpy as np

from taut.checks import as_share
from taut.data.source import Source
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData
from taut.estimators.base import as_solver, estimator
from taut.estimators.box_detector import BoxDetector
from taut.estimators.extraction_settings import WINDOWS, check_settings
from taut.estimators.online import Plan
from taut.inference.box_refinement import MOST_IMAGES, NO_REFINEMENT, fit_refinement
from taut.problem import Problem
from taut.solvers import DualCoordinate, Solver
from taut.spaces.windows import WindowFeatures
from taut.streamed import StreamedProblem
from taut.structures import Boxes
from taut.vision.boxes import Boxes as Truth
from taut.vision.maps import MapShards
from taut.vision.photographs import Photographs
from taut.vision.pyramid import Pyramid
from taut.vision.templates import Frame, margin_of, scales_of, shown_boxes, templates_of

_REFINED_BYTES = 1 << 26  # of the cells of images that boxes are refined by


@estimator
class BoxSVM(BoxDetector):
    """A detector of objects, trained on photographs with boxes, on a CPU, in seconds to minutes.

    Minimises P(w) = 1/2 |w|^2 + C sum_i weight_i max_y [loss(y_i, y) - <w, psi_i(y)>] over images
    i, where a label y has at most one window for each object and one false alarm for each class,
    see `taut.structures.Boxes`. The score of a window is that of a template of its class and shape
    on gradients and colours, of functions of its place and size, and of a bias. The maximum is
    over all windows, scales, shapes and classes, and exact; so is the certificate.

    Parameters
    ----------
    {training}
    aspects : int, default=3
        Most shapes of templates for each class.
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
    match : float, default=0.5
        Overlap (intersection over union) from which a window is that of an object.
    suppression : float, default=0.4
        Overlap from which, of two windows that are found, the one of lower score is dropped.
    mirror : bool, default=True
        Whether to learn from the mirrored images as well.
    refine : bool, default=True
        Whether boxes are moved to where a regression on their features says that objects end. It
        learns from at most 200 images, drawn at random, of at most 64 MB of features together.
    longest : int, default=640
        Larger images are shrunk to this longest side; boxes are of the images as they are.
    folder : path-like, optional
        Where features are kept, and found again by the next fit. Training then reads them part by
        part where the solver works so, such as "multi_sample". It may be deleted between fits.

    Attributes
    ----------
    coef_ : ndarray
        All weights: cells of the templates, their biases, functions of place and size.
    classes_ : ndarray of shape (n_classes,)
    templates_ : ndarray of shape (n_templates, 3)
        Rows and columns of cells, without the border, and the number of the class.
    scales_ : ndarray
        Factors by which images are resized.
    extraction_ : ndarray of shape (5,)
        How images are looked at, whatever parameters say after the fit: the side of a cell, cells
        of margin and of border, whether colours count (1 or 0), and `longest`.
    refinement_ : ndarray
        Coefficients of the regression on what lies under each template; zero where it did not help
        in held-out images, and of shape (4, 1) where there is none.
    probability_ : ndarray of shape (2,)
        What `fit_probabilities` has found.
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from taut import BoxSVM
    >>> rng = np.random.default_rng(0)
    >>> images, boxes = [], []
    >>> for _ in range(12):
    ...     image = rng.integers(90, 110, size=(64, 80, 3), dtype=np.uint8)
    ...     x, y = rng.integers(4, 40, size=2)
    ...     image[y : y + 20, x : x + 30] = 220
    ...     images.append(image)
    ...     boxes.append([("card", x, y, x + 30, y + 20)])
    >>> model = BoxSVM(cells=16, random_state=0).fit(images[:9], boxes[:9])
    >>> model.score(images[9:], boxes[9:])
    1.0
    >>> found = model.detect(images[9:10], top=1)[0]
    >>> found.classes
    array(['card'], dtype='<U4')
    """

    C: float = field(default=0.1, kw_only=False)
    tol: float = 0.02
    aspects: int = 3
    cells: int = 64
    cell: int = 8
    border: int = 1
    scale_step: float = 2.0**0.25
    colour: bool = True
    match: float = 0.5
    suppression: float = 0.4
    mirror: bool = True
    refine: bool = True
    longest: int = 640
    folder: str | os.PathLike[str] | None = None

    _parts_of = "examples"
    _needs_y = True

    # Learning

    def fit(self, images: Any, boxes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from images with boxes.

        Parameters
        ----------
        images : list, or path of a folder
            Paths, arrays of shape (height, width, 3), or `Pyramid` objects with features of your
            own. A folder stands for its images, sorted by name.
        boxes : list
            One item for each image, in any form that `taut.vision.annotations.as_boxes` takes, such
            as a list of ``(class, left, top, right, bottom)``, which may be empty.
        sample_weight : array-like, optional
            Factors on the losses of images.
        """
        self._check()
        photographs = Photographs(images, self.longest)
        truths = self._truths(photographs, boxes)
        weight = check_sample_weight(sample_weight, len(truths), unit="image")
        if (weight != 1.0).any() and self._reads_parts():
            raise InvalidData(
                "sample_weight goes with features in memory: leave it out, or leave out folder"
            )
        frame = self._frame(truths, self._classes(truths))
        structure = self._structure(frame)
        pyramids = self._features(photographs, frame)
        w, fitted = self._solved(structure, frame, pyramids, truths, weight)
        refinement = self._refinement(frame, pyramids, truths, w)
        facts = frame.facts() | {"refinement_": refinement}
        return self._keep(fitted | facts | self._attributes(w, None))

    def _options(self) -> dict[str, Any]:
        return super()._options() | {"solver": self._chosen_solver()}

    def _chosen_solver(self) -> Solver:
        # Planes that are known cost microseconds, and a search for a new one milliseconds.
        return as_solver(self.solver) or DualCoordinate(cached_passes=3)

    def _reads_parts(self) -> bool:
        """Whether features are read from the folder part by part while the model trains."""
        return self.folder is not None and "chunks" in self._chosen_solver().takes

    def _solved(
        self,
        structure: Any,
        frame: Frame,
        pyramids: Any,
        truths: Sequence[Truth],
        weight: np.ndarray,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """W and what is known about it."""
        problem = self._problem(structure, frame, pyramids, truths, weight)
        return self._solve(problem, self._options())

    def partial_fit(
        self, images: Any, boxes: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Go on learning with more images, which need not be kept.

        Templates and scales are those of the boxes of the first call, which has boxes of all
        classes; boxes of others are refused later. Boxes are not refined. See
        `OnlineEstimator.partial_fit` for what else holds.

        Parameters
        ----------
        images, boxes, sample_weight
            As for `fit`.
        classes : array-like, optional
            All classes, at the first call; by default those of its boxes.
        """
        self._check()
        self._fed_solver()
        known = getattr(self, "_begun", None) if hasattr(self, "_online") else None
        photographs = Photographs(images, self.longest if known is None else known.longest)
        truths = self._truths(photographs, boxes)
        weight = check_sample_weight(sample_weight, len(truths), unit="image")
        if known is None:
            names = self._classes(truths) if classes is None else np.unique(classes)
            known = self._begun = self._frame(truths, names)
        frame = known
        unknown = np.setdiff1d(_names_in(truths), frame.classes)
        if len(unknown):
            raise InvalidData(
                f"there are boxes of {unknown.tolist()}, and the templates are those of "
                f"{frame.classes.tolist()}: mark such boxes as ignored, leave them out, or begin "
                "with a first call that has boxes of all classes"
            )
        self._structure(frame)  # refuses what it cannot be
        pyramids = list(self._features(photographs, frame))
        copies = len(pyramids) // len(truths)
        return super().partial_fit(
            pyramids, shown_boxes(frame, pyramids, truths), None, np.repeat(weight, copies)
        )

    def _plan(self, source: Source) -> Plan:
        frame = self._begun
        facts = frame.facts() | {"refinement_": NO_REFINEMENT}
        return Plan(self._structure(frame), lambda chunk: chunk, None, facts)

    def _problem(
        self,
        structure: Boxes,
        frame: Frame,
        pyramids: Any,
        truths: Sequence[Truth],
        weight: np.ndarray,
    ) -> Problem:
        """The problem in memory, or of features that are read part by part."""
        jobs = self._threads()
        if isinstance(pyramids, MapShards) and self._reads_parts():
            source = pyramids.with_targets([frame.numbered(truth) for truth in truths])
            return StreamedProblem(structure, source, self.C, jobs, self._regularizer(None))
        pyramids = list(pyramids)
        copies = len(pyramids) // len(truths)
        return Problem(
            structure, pyramids, shown_boxes(frame, pyramids, truths), self.C,
            np.repeat(weight, copies), jobs, self._regularizer(None),
        )  # fmt: skip

    def _check(self) -> None:
        """Refuse parameters before any work is done; the structure's follow when it is made."""
        check_settings(self, ("mirror", "refine", "colour"), WINDOWS)
        as_share("suppression", self.suppression)

    def _truths(self, photographs: Photographs, boxes: Any) -> list[Truth]:
        """Boxes in the coordinates of the images that features are extracted from."""
        self._need(boxes, "boxes")
        return [
            truth._replace(edges=truth.edges * photographs.ratios(i))
            for i, truth in enumerate(photographs.truths(boxes))
        ]

    @staticmethod
    def _classes(truths: Sequence[Truth]) -> np.ndarray:
        names = _names_in(truths)
        if not len(names):
            raise InvalidData(
                "no image has a box that is not ignored: give boxes of what is to be found"
            )
        return names

    def _frame(self, truths: Sequence[Truth], classes: np.ndarray) -> Frame:
        """The templates and scales that the boxes ask for."""
        known = [~truth.ignored for truth in truths]
        edges = np.concatenate([t.edges[own] for t, own in zip(truths, known, strict=True)])
        names = np.concatenate([t.classes[own] for t, own in zip(truths, known, strict=True)])
        unknown = np.setdiff1d(names, classes)
        missing = np.setdiff1d(classes, names)
        if len(unknown) or len(missing):
            raise InvalidData(
                f"classes = {classes.tolist()}, and there are boxes of {np.unique(names).tolist()}:"
                " templates need boxes of each class, and each box needs a class"
            )
        numbers = np.searchsorted(classes, names)
        templates = templates_of(edges, numbers, self.aspects, self.cells, self.border)
        scales = scales_of(edges, self.cells, self.cell, self.scale_step)
        margin = margin_of(self.cells, self.border)
        colour, longest = bool(self.colour), int(self.longest)
        return Frame(classes, templates, scales, int(self.cell), margin, colour, longest)

    def _features(self, photographs: Photographs, frame: Frame) -> Any:
        return photographs.features(
            frame.extractor(), self.folder, self.mirror, self._threads(), self.verbose
        )

    def _structure(self, frame: Frame) -> Boxes:
        return Boxes(frame.templates, match=self.match)

    def _refinement(
        self, frame: Frame, pyramids: Any, truths: Sequence[Truth], w: np.ndarray
    ) -> np.ndarray:
        """What boxes are refined by, learned from images of a bounded size."""
        if not self.refine:
            return NO_REFINEMENT
        copies, size = len(pyramids) // len(truths), 0
        some: dict[int, Pyramid] = {}
        for i in np.random.default_rng(0).permutation(len(truths))[:MOST_IMAGES].tolist():
            pyramid = pyramids[i * copies]
            size += pyramid.cells.nbytes
            if some and size > _REFINED_BYTES:
                break
            some[i] = pyramid
        chosen = sorted(some)
        shown = [p for i in chosen for p in (some[i], some[i].mirror_image())[:copies]]
        features = WindowFeatures(shown, frame.templates)
        boxes = shown_boxes(frame, shown, [truths[i] for i in chosen])
        return fit_refinement(features, boxes, features.pad(w.astype(np.float32)))

    def _attributes(self, w: np.ndarray, coef_shape: Any) -> dict[str, np.ndarray]:
        return {"coef_": w}

    def _joint_weights(self) -> np.ndarray:
        return self.coef_

    _position_weights = _joint_weights


def _names_in(truths: Sequence[Truth]) -> np.ndarray:
    """The classes of the boxes that are not ignored."""
    names = [truth.classes[~truth.ignored] for truth in truths]
    names = [own for own in names if len(own)]
    return np.unique(np.concatenate(names)) if names else np.empty(0, dtype=str)
