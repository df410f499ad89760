"""Attempts to obtain a certificate that is not true.

A family draws a small problem and one thing that goes wrong with it, or nothing; what comes out is
judged by enumeration (`judge`). A case is told by its family and its seed.
"""

from __future__ import annotations

import importlib
import traceback
import warnings
import zlib
from pathlib import Path

import numpy as np

from misuses.judge import BAD, KINDS, Verdict

FAMILIES = (
    "starts", "checkpoints", "streams", "plain", "compiled", "scales", "states", "containers",
    "paths", "latent",
)  # fmt: skip

__all__ = ["BAD", "FAMILIES", "KINDS", "Verdict", "run_case"]


def run_case(family: str, seed: int, few: bool = False) -> Verdict:
    """Run one case; `few` keeps to problems for which little has to be compiled."""
    from misuses.tasks import Control
    from taut.errors import TautError

    module = importlib.import_module(f"misuses.{family}")
    control = Control()
    rng = np.random.default_rng([zlib.crc32(family.encode()), seed])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            verdict = module.run(rng, few, control)
            control_held = control.expected and verdict.kind == "true"
            return Verdict("control", verdict.note) if control_held else verdict
        except TautError as error:
            text = f"{control.note}: {type(error).__name__}: {error}"
            return Verdict("control refused" if control.expected else "refused", text)
        except Exception as error:
            # What the user's own code raises is the user's to see.
            raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
            own = raised_in.parent == Path(__file__).parent and not control.expected
            text = f"{control.note}: {type(error).__name__}: {error} ({raised_in.name})"
            return Verdict("refused" if own else "foreign", text)
