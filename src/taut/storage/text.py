"""Text files that appear as a whole."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from taut.storage import files


@contextmanager
def text_file(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    r"""A text file to write, which takes the place of `path` when all of it is written.

    Parameters
    ----------
    path : path-like

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "answers.txt"
    >>> with text_file(path) as file:
    ...     _ = file.write("first\n")
    ...     path.exists()
    False
    >>> path.read_text()
    'first\n'
    """
    with files.whole_file(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8")
        try:
            yield text
        finally:
            text.detach()  # which flushes; the file is closed by whoever opened it
