"""Matplotlib, where it is installed."""

from __future__ import annotations

from typing import Any


def pyplot() -> Any:
    """The module `matplotlib.pyplot`."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "pictures are drawn by matplotlib, which is not installed: pip install 'taut[plot]'"
        ) from error
    return plt
