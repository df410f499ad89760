import os
import signal
import sys

import numpy as np
import pytest

# Jobs that a shell starts in the background ignore Ctrl-C, and so do their children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def environment():
    """Variables under which another Python finds the same modules."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
