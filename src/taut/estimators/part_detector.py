"""What estimators of parts share: features of photographs, the structure, and what is found."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taut.binding import bind
from taut.checks import as_share, check_number
from taut.errors import InvalidData
from taut.estimators.base import StructuralEstimator, estimator
from taut.estimators.extraction_settings import (
    check_extraction,
    check_settings,
    check_weights,
    extraction_of,
    pyramid_at,
)
from taut.metrics.matching import check_count
from taut.solvers import MultiSample
from taut.structures import Parts
from taut.vision.hog import HogPyramid
from taut.vision.joints import limbs_of
from taut.vision.part_frames import PartFrame, complete_joints
from taut.vision.photographs import Photographs
from taut.vision.poses import JointPose

_SPRING = 0.25  # sizes of the object that springs measure distances in
_LEAST = 0.05  # of what springs weigh the square of a distance with
_AT_ONCE = 8  # images that are looked at together
_EXTRACTION = ("cell", "cells", "side", "colour")
_TRIES = 4  # objects that are looked for, for each that may be found


@estimator
class PartDetector(StructuralEstimator):
    """Finds an object of parts in photographs."""

    C: float = field(default=0.1, kw_only=False)
    tol: float = 0.02
    side: int = 5
    cells: float = 20.0
    reach: float = 0.1
    cell: int = 8
    scale_step: float = 2.0**0.5
    colour: bool = True
    longest: int = 640
    folder: str | os.PathLike[str] | None = None

    _needs_y = True

    def _options(self) -> dict[str, Any]:
        options = super()._options()
        # A search by dynamic programming costs much, and more labels of it next to nothing.
        options["solver"] = options["solver"] or MultiSample(16, "own")
        return options

    def _check(self) -> None:
        """Refuse parameters before any work is done."""
        check_settings(self, ("colour",), (("side", 1), ("cell", 2), ("longest", 1)))
        for name in ("cells", "reach"):
            value = getattr(self, name)
            check_number(name, value)
            if not 0.0 < value < math.inf:
                raise InvalidData(f"{name} = {value}: give a number above 0")

    def _extractor(self, frame: PartFrame) -> HogPyramid:
        return HogPyramid(
            cell=self.cell, scales=frame.scales, margin=(self.side + 1) // 2, colour=self.colour,
            fewest=2,
        )  # fmt: skip

    def _features(self, photographs: Photographs, frame: PartFrame, mirror: bool) -> list[Any]:
        return list(
            photographs.features(
                self._extractor(frame), self.folder, mirror, self._threads(), self.verbose
            )
        )

    def _structure(self, frame: PartFrame, kind: type[Parts] = Parts, **settings: Any) -> Parts:
        return kind(
            frame.parents, frame.anchors_in(self.cells), (self.side, self.side), self.cells,
            self.reach * self.cells, _SPRING * self.cells, _LEAST, **settings,
        )  # fmt: skip

    def _attributes(self, w: np.ndarray, coef_shape: Any) -> dict[str, np.ndarray]:
        return {"coef_": w, "extraction_": extraction_of(self, _EXTRACTION)}

    def _joint_weights(self) -> np.ndarray:
        return self.coef_

    _position_weights = _joint_weights

    @property
    def limbs_(self) -> np.ndarray:
        """Parent and child of each edge of the tree, for `plot_joints` and `pcp`."""
        check_is_fitted(self)
        return limbs_of(self.parents_)

    def templates(self, aspects: Any = None) -> np.ndarray:
        """Weights of the templates of parts, for `taut.vision.plot_parts`.

        Parameters
        ----------
        aspects : array-like of int, shape (n_parts,), optional
            Which aspect of each part; the first by default.

        Returns
        -------
        ndarray of shape (n_parts, side, side, n_channels)
        """
        check_is_fitted(self)
        chosen = np.zeros(len(self.counts_), np.int64) if aspects is None else np.asarray(aspects)
        if (
            chosen.shape != self.counts_.shape
            or chosen.dtype.kind not in "iu"
            or not ((chosen >= 0) & (chosen < self.counts_)).all()
        ):
            raise InvalidData(
                f"aspects = {aspects!r:.100}: give a whole number from 0 on for each part, below "
                f"{self.counts_.tolist()}"
            )
        check_extraction(self, _EXTRACTION)
        total = int(self.counts_.sum())
        structure = self._structure(PartFrame.of(self))
        per_template = (len(self.coef_) - structure.tail) // total - 1
        weights = self.coef_[: total * per_template].reshape(total, self.side, self.side, -1)
        return weights[np.cumsum(self.counts_) - self.counts_ + chosen]

    def _kept(
        self, images: Any, top: int, threshold: float, suppression: float
    ) -> list[list[tuple[JointPose, float]]]:
        """What may be among the `top` objects of each image once overlapping ones are dropped."""
        check_count("top", top)
        check_number("threshold", threshold)
        as_share("suppression", suppression)
        return [
            [found for found in own if found[1] >= threshold and found[0].visible.any()]
            for own in self._found(images, _TRIES * top)
        ]

    def _found(self, images: Any, count: int) -> list[list[tuple[JointPose, float]]]:
        """Up to so many objects of each image with their scores, in pixels of the image."""
        check_is_fitted(self)
        photographs, jobs = Photographs(images, self.longest), self._threads()
        starts = range(0, len(photographs), _AT_ONCE)
        ranges = [range(k, min(k + _AT_ONCE, len(photographs))) for k in starts]
        if jobs == 1:
            return [own for part in ranges for own in self._found_in(photographs, part, count)]
        with ThreadPoolExecutor(jobs, thread_name_prefix="taut") as threads:
            parts = threads.map(lambda part: list(self._found_in(photographs, part, count)), ranges)
            return [own for part in parts for own in part]

    def _bound(
        self, structure: Parts, frame: PartFrame, photographs: Photographs, numbers: range
    ) -> Any:
        """Some images as data of the structure, with as many weights as the model has."""
        check_extraction(self, _EXTRACTION)
        extractor = self._extractor(frame)
        pyramids = [pyramid_at(photographs, i, extractor) for i in numbers]
        data: Any = bind(structure, pyramids)
        check_weights(self, data.n_features, "images have")
        return data

    def _found_in(
        self, photographs: Photographs, numbers: range, count: int
    ) -> Iterator[list[tuple[JointPose, float]]]:
        frame = PartFrame.of(self)
        structure = self._structure(frame, sampling="suppression", suppression=0.0)
        data = self._bound(structure, frame, photographs, numbers)
        w = self.coef_.astype(np.float32)
        labels, scores = data.drawn(w, count)
        nothing = structure.absent(self.coef_)
        poses = [
            structure.poses(data.blocks, structure.decode(own, data.blocks.offsets))
            for own in labels
        ]
        for i, number in enumerate(numbers):
            ratios = photographs.ratios(number)[:2]
            own = [found[i] for found in poses]
            yield [
                (
                    pose._replace(
                        joints=complete_joints(pose, frame) / ratios, size=pose.size / ratios.mean()
                    ),
                    score,
                )
                for pose, score in zip(own, (scores[i] - nothing).tolist(), strict=True)
                if score > -math.inf
            ]
