import gc
import os
import signal
import sys

import numpy as np
import pytest

# Jobs that a shell starts in the background ignore Ctrl-C, and so do their children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Files that take longest, most of it compiling. They begin, so that no worker is left with one of
# them at the end. Neighbours have few kernels in common: two workers would compile these twice.
LONGEST = [
    "solvers", "jit", "kernel_space", "structures", "sequential", "listed", "multi_sample",
    "kernel_estimators", "certify_own", "regularizer", "sklearn", "online_cache", "sampling",
    "bare", "estimators", "joint_kernels", "belonging", "working_set", "processes", "solve",
    "threads",
]  # fmt: skip


def pytest_collection_modifyitems(items):
    """Longest files first."""
    places = {f"test_{name}.py": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONGEST)))


def pytest_collection_finish():
    """Let the garbage collector come by less often.

    Compiling makes millions of objects, hardly any of them garbage, and each full collection looks
    at all that the tests have made before.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def environment():
    """Variables under which another Python finds the same modules."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
