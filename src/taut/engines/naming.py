"""How the arrays of parts are named where all arrays of a state are saved together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from taut.storage.stored import require

Arrays = dict[str, np.ndarray]

_DIGITS = 18  # of the largest number of a part


def named(parts: Mapping[int, Arrays]) -> Arrays:
    """The arrays of all parts, as `part.<number>.<name>`."""
    return {
        f"part.{number}.{name}": array
        for number, own in parts.items()
        for name, array in own.items()
    }


def of_parts(arrays: Arrays) -> dict[int, Arrays]:
    """The arrays of each part by its name, by the numbers of the parts, ascending.

    Names with a dot are those of parts. Any other is refused, so that arrays that were saved under
    other names are never taken for a state without parts.
    """
    found: dict[int, Arrays] = {}
    for full_name, array in arrays.items():
        kind, *rest = full_name.split(".", 2)
        if not rest:
            continue
        number = rest[0]
        numbered = number.isascii() and number.isdecimal() and len(number) <= _DIGITS
        whole = kind == "part" and len(rest) == 2 and numbered and str(int(number)) == number
        require(whole, f"{full_name!r:.50} is no array of a part")
        found.setdefault(int(number), {})[rest[1]] = array
    return dict(sorted(found.items()))
