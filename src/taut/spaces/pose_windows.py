"""Windows of one shape, with a template for each number that an angle is described by.

With Phi(x, window) as `taut.spaces.windows` has it for one template, and r numbers b(angle),

    score(window, angle) = sum_m b_m(angle) <coef[m], Phi(x, window)>

The r inner products of a window are potentials: those of r templates of one shape, each with
functions of place and size of its own. So everything that sees w is that of windows.
"""

from __future__ import annotations

import numpy as np

from taut.spaces.windows import KNOTS, MEASURES
from taut.vision.templates import Templates

_GEOMETRY = KNOTS * MEASURES


def pose_templates(rows: int, columns: int, border: int, r: int) -> Templates:
    """One shape r times."""
    return Templates(np.full(r, rows), np.full(r, columns), np.arange(r), border)


def stacked(coef: np.ndarray) -> np.ndarray:
    """W in the layout of windows, of a row of weights for each of the r numbers."""
    cells = coef.shape[1] - 1 - _GEOMETRY
    return np.concatenate([coef[:, :cells].ravel(), coef[:, cells], coef[:, cells + 1 :].ravel()])


def mean_template(w: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """W of one template: the mean over angles, of which `numbers` has a row each."""
    return stacked(numbers.mean(axis=0)[None] @ unstacked(w, numbers.shape[1]))


def unstacked(w: np.ndarray, r: int) -> np.ndarray:
    """The inverse of `stacked`."""
    cells = len(w) // r - 1 - _GEOMETRY
    weights, biases, geometry = np.split(w, [r * cells, r * (cells + 1)])
    return np.hstack([weights.reshape(r, -1), biases[:, None], geometry.reshape(r, -1)])
