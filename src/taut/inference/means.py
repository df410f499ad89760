"""What expectation oracles share."""

from __future__ import annotations

import numpy as np

from taut.compiled.jit import helper


@helper
def least_of(mean):
    """What a probability of a base counts at least, so that no label is lost for good.

    Not the least number that there is: products with it must still be normal ones.
    """
    return 1e8 * np.finfo(mean.dtype).tiny
