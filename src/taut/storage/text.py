"""Text files that appear as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from taut.checks import as_path
from taut.errors import MissingFolder
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
    >>> path = Path(tempfile.mkdtemp()) / "answers.txt"
    >>> with text_file(path) as file:
    ...     _ = file.write("first\n")
    ...     path.exists()
    False
    >>> path.read_text()
    'first\n'
    """
    target = as_path("path", path).resolve()
    if not target.parent.is_dir():
        raise MissingFolder(
            f"path = {str(target)!r}: there is no folder {target.parent}; create it, or give "
            "another path"
        )
    with files.temporary_for(target, lambda temporary: temporary.open("xb").close()) as temporary:
        with open(temporary, "w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
