"""Exceptions and warnings. Each says what failed, what was given and what to do."""

from sklearn.exceptions import ConvergenceWarning


class TautError(Exception):
    """Base of all exceptions that taut raises on purpose."""


class InvalidData(TautError, ValueError):
    """Values given by the user cannot be used: wrong shape, NaN, unknown label, ..."""


class InvalidType(InvalidData, TypeError):
    """A value has a type that cannot be used; also a `TypeError`, as scikit-learn expects."""


class InvalidContent(InvalidData):
    """What was stored, in a file or as the start of a solve, is not what it must be."""


class MemoryUsedUp(InvalidData):
    """A limit of memory leaves no room for what work needs next."""


class MissingFolder(InvalidData, FileNotFoundError):
    """The folder that a file is to be written to is not there; also a `FileNotFoundError`."""


class InvalidFile(TautError, ValueError):
    """A file is damaged, foreign, of another kind or from a newer version."""


class InvalidStructure(TautError, ValueError):
    """A structure breaks a law, e.g. its argmax is not the argmax."""


class CrossedBounds(InvalidStructure):
    """A lower bound on the objective lies above a value of it, so that one of the two is wrong."""


class MissingOracle(InvalidStructure):
    """A solver needs an oracle that the structure does not have."""


class NotConverged(ConvergenceWarning):
    """A fit stopped before its gap reached the tolerance."""


class UncertainLabels(RuntimeWarning):
    """A user's argmax may miss labels: the bounds are those over the labels that it returns."""


class CacheUnavailable(RuntimeWarning):
    """Compiled code cannot be stored on disk and is compiled anew in each process."""


class CacheOverflow(RuntimeWarning):
    """A solver's memory is too small to keep all blocks that matter; it reads them again."""


class TemperatureAtBound(RuntimeWarning):
    """The likelihood of held-out labels still rises where the search for a temperature ends."""
