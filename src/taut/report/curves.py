"""Curves of training as a drawing in HTML."""

from __future__ import annotations

import math
from typing import Any

_WIDTH, _HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 16, 40


def curves_of(history: Any) -> str:
    """The relative gap after each pass, over the seconds, in decades.

    Parameters
    ----------
    history : History
        Of a fit.

    Returns
    -------
    str
        An ``svg`` element.
    """
    records = [record for record in history if 0.0 < record.relative_gap < math.inf]
    if len(records) < 2:
        return "<p>Training ended before there was a curve to draw.</p>"
    seconds = [record.seconds for record in records]
    logs = [math.log10(record.relative_gap) for record in records]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    across = _Scale(0.0, max(seconds) or 1.0, _LEFT, _WIDTH - _RIGHT)
    up = _Scale(low, max(high, low + 1), _HEIGHT - _BOTTOM, _TOP)
    points = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in zip(seconds, logs, strict=True))
    marks = [_mark_up(up(decade), f"1e{decade}") for decade in range(low, max(high, low + 1) + 1)]
    marks += [
        _text(across(share * across.stop), _HEIGHT - _BOTTOM + 18, f"{share * across.stop:.3g}")
        for share in (0.0, 0.5, 1.0)
    ]
    label = f"Relative gap, from {10 ** logs[0]:.2g} to {10 ** logs[-1]:.2g} in {seconds[-1]:.3g} s"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">\n'
        + "\n".join(marks)
        + f'\n<polyline points="{points}" fill="none" stroke="#2c7fb8" stroke-width="2"/>\n'
        + _text(_WIDTH / 2, _HEIGHT - 6, "seconds")
        + f'\n<text x="14" y="{_HEIGHT / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {_HEIGHT / 2})">relative gap</text>\n</svg>'
    )


class _Scale:
    """From values to places."""

    def __init__(self, start: float, stop: float, first: float, last: float) -> None:
        self.start, self.stop, self.first = start, stop, first
        self.slope = (last - first) / (stop - start)

    def __call__(self, value: float) -> float:
        return self.first + self.slope * (value - self.start)


def _mark_up(y: float, text: str) -> str:
    line = (
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
        'stroke="currentColor" opacity="0.2"/>'
    )
    return line + f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{text}</text>'
