"""How the command ends, for scripts."""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """Exit codes of the command; each has a sentence in its help."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_CONVERGED = 3
    REFUTED = 4
    INTERRUPTED = 130

    @property
    def sentence(self) -> str:
        """What it means."""
        return _SENTENCES[self]


_SENTENCES = {
    Exit.DONE: "all went well",
    Exit.FAILED: "a file or the data cannot be used; the reason is on standard error",
    Exit.USAGE: "the command line cannot be understood",
    Exit.NOT_CONVERGED: "the model was written, but its gap is larger than --tol",
    Exit.REFUTED: "certify: the model is further from its optimum than --tol, or is not what its "
    "file says on these data",
    Exit.INTERRUPTED: "interrupted by Ctrl-C; a model that was written is the best one so far",
}
