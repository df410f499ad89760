"""Detectors that choose themselves which window stands for an object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from taut.checks import check_number
from taut.estimators.alternating import Alternating
from taut.estimators.base import estimator
from taut.estimators.boxes import BoxSVM
from taut.latent.alternation import LatentProblem, check_rounds
from taut.structures import LatentBoxes
from taut.vision.boxes import Boxes as Truth
from taut.vision.templates import Frame, shown_boxes


@estimator
class LatentBoxSVM(Alternating, BoxSVM):
    """A `BoxSVM` for which the window of an object, with its template, is latent.

    Any window that overlaps an object by `settled` is right. Each round fixes which one stands for
    each object, trains the detector, and lets it choose the windows of highest score anew. The
    objective of `LatentStructuredSVM` never rises; the certificate is that of the last round.

    Parameters
    ----------
    {training}
    settled : float, default=0.7
        Overlap from which a window is as right as any other.
    max_rounds : int, default=20
        Largest number of rounds.
    round_tol : float, default=1e-3
        Relative fall of the objective in a round at which training ends.
    aspects, cells, cell, border, scale_step, colour, match, suppression, mirror, refine, longest
        As of `BoxSVM`.
    folder : path-like, optional
        Where features are kept; they are all in memory while it trains.

    Attributes
    ----------
    coef_, classes_, templates_, scales_, extraction_, refinement_
        As of `BoxSVM`.
    rounds_ : Rounds
        The objective and bounds of each round.
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from taut import LatentBoxSVM
    >>> rng = np.random.default_rng(0)
    >>> images, boxes = [], []
    >>> for _ in range(9):
    ...     image = rng.integers(90, 110, size=(64, 80, 3), dtype=np.uint8)
    ...     x, y = rng.integers(4, 40, size=2)
    ...     image[y : y + 20, x : x + 30] = 220
    ...     images.append(image)
    ...     boxes.append([(x, y, x + 30, y + 20)])
    >>> model = LatentBoxSVM(cells=16, max_rounds=3, random_state=0).fit(images, boxes)
    >>> model.score(images, boxes) > 0.9
    True
    """

    C: float = field(default=BoxSVM.C, kw_only=False)
    tol: float = BoxSVM.tol
    settled: float = 0.7

    def _check(self) -> None:
        super()._check()
        check_number("settled", self.settled)
        check_rounds(self.max_rounds, self.round_tol)

    def _structure(self, frame: Frame) -> LatentBoxes:
        return LatentBoxes(frame.templates, self.match, self.settled)

    def _reads_parts(self) -> bool:
        return False

    def _solved(
        self,
        structure: Any,
        frame: Frame,
        pyramids: Any,
        truths: Sequence[Truth],
        weight: np.ndarray,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        pyramids = list(pyramids)
        pairs = list(zip(pyramids, shown_boxes(frame, pyramids, truths), strict=True))
        copies = len(pyramids) // len(truths)
        _problem, fitted = self._alternate(
            LatentProblem, None, None, structure, pairs, None,
            sample_weight=np.repeat(weight, copies),
        )  # fmt: skip
        return fitted["coef_"], fitted
