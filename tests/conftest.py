import os
import sys

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def environment():
    """Variables under which another Python finds the same modules."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
