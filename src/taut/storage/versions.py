"""What wrote a file: the versions of this library and of numpy."""

import sys


def versions() -> dict[str, str]:
    """Versions by the names of packages.

    Examples
    --------
    >>> import taut
    >>> versions()["taut"] == taut.__version__
    True
    """
    return {name: sys.modules[name].__version__ for name in ("taut", "numpy")}
