"""The angle of highest score near to the best one of a grid."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

_PRECISION = 1e-5  # radians


def refined_angle(scores: Callable[[np.ndarray], np.ndarray], angle: float, step: float) -> float:
    """The angle of highest score within a step of the best angle of a grid, in [0, 2 pi).

    Brackets shrink by golden sections and parabolas (Brent). Where no angle between scores higher,
    it is the angle of the grid.

    Parameters
    ----------
    scores : callable
        Scores of an array of angles.
    angle, step : float
        The best angle of the grid, and how far its neighbours are.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.inference.best_angle import refined_angle
    >>> round(refined_angle(lambda a: np.cos(a - 1.1), 1.0, 0.5), 4)
    1.1
    """

    def loss(own: float) -> float:
        return -float(scores(np.array([own]))[0])

    found = minimize_scalar(
        loss, bounds=(angle - step, angle + step), method="bounded", options={"xatol": _PRECISION}
    )
    return float(found.x if found.fun < loss(angle) else angle) % (2.0 * np.pi)
