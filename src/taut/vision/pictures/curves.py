"""Pictures of what detectors reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from taut.data.arrays import show
from taut.errors import InvalidData
from taut.vision.pictures.backend import pyplot


def plot_precision_recall(curves: Any, ax: Any = None) -> Any:
    """Draw precision over recall, each curve with its average precision.

    Thin lines are the curves, thick ones the best precision from a recall on: average precision
    is the area below these.

    Parameters
    ----------
    curves : dict of name to PrecisionRecall, or PrecisionRecall
        As `taut.metrics.precision_recall` returns them; one curve needs no name.
    ax : matplotlib Axes, optional
        Where to draw; new ones by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from taut.metrics import PrecisionRecall
    >>> from taut.vision.pictures import plot_precision_recall
    >>> curve = PrecisionRecall(np.array([1.0, 0.5]), np.array([0.5, 0.5]), np.array([0.9, 0.4]))
    >>> ax = plot_precision_recall({"cat": curve})  # doctest: +SKIP
    """
    if hasattr(curves, "precision"):
        curves = {"": curves}
    _check_curves(curves)
    ax = _unit_axes(ax)
    for name, curve in curves.items():
        best = np.maximum.accumulate(curve.precision[::-1])[::-1]
        # From recall 0 on, and down to precision 0 where it ends.
        (line,) = ax.plot(
            np.concatenate([[0.0], curve.recall, curve.recall[-1:]]),
            np.concatenate([best[:1], best, [0.0]]),
            drawstyle="steps-pre",
            linewidth=2.0,
            label=f"{name} (average precision {curve.area:.2f})".strip(),
        )
        ax.plot(curve.recall, curve.precision, color=line.get_color(), linewidth=0.8, alpha=0.6)
    ax.set(xlabel="recall", ylabel="precision")
    _add_names(ax)
    return ax


def plot_overlap_recall(curves: Mapping[str, Any], ax: Any = None) -> Any:
    """Draw the share of objects that proposals overlap by more than so much.

    Parameters
    ----------
    curves : dict of name to OverlapRecall
        As `taut.metrics.overlap_recall` returns them.
    ax : matplotlib Axes, optional
        Where to draw; new ones by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from taut.metrics import OverlapRecall
    >>> from taut.vision.pictures import plot_overlap_recall
    >>> curve = OverlapRecall(np.array([0.0, 0.5, 1.0]), np.array([1.0, 0.0, 0.0]), 0.5)
    >>> ax = plot_overlap_recall({"windows": curve})  # doctest: +SKIP
    """
    _check_curves(curves)
    ax = _unit_axes(ax)
    ax.axvline(0.5, color="0.6", linewidth=0.8, linestyle=":", zorder=0)
    for name, curve in curves.items():
        ax.step(
            curve.overlap,
            curve.recall,
            where="post",
            linewidth=2.0,
            label=f"{name} (area {curve.area:.2f})",
        )
    ax.set(xlabel="overlap: intersection over union", ylabel="share of objects overlapped by more")
    _add_names(ax)
    return ax


def _check_curves(curves: Any) -> None:
    if not isinstance(curves, Mapping) or not curves:
        raise InvalidData(
            f"curves = {show(curves):.200}: give a dict of names and curves, with at least one"
        )


def _unit_axes(ax: Any) -> Any:
    """Axes for shares over shares."""
    if ax is None:
        ax = pyplot().subplots(figsize=(5.5, 4.5), layout="constrained")[1]
    ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.03))
    ax.grid(color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _add_names(ax: Any) -> None:
    ax.legend(loc="best", fontsize="small", framealpha=0.9, edgecolor="none")
