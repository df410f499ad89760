"""Matplotlib, where it is installed, and the colours of what was found."""

from __future__ import annotations

from typing import Any

# Black text can be read on each, and each can be told from the others without seeing red or green.
COLOURS = ("#ffc20a", "#3ddbd9", "#ff7eb6", "#9be15d", "#b79bff", "#ff8a3d")


def pyplot() -> Any:
    """The module `matplotlib.pyplot`."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "pictures are drawn by matplotlib, which is not installed: pip install 'taut[plot]'"
        ) from error
    return plt
