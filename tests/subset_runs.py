"""A small problem for solvers that step by subsets, and passes over it without the loop."""

from dataclasses import replace

import numpy as np

from taut import Problem
from taut.kernels import RBF
from taut.solvers import FunctionalDescent
from taut.spaces.kernel import through_kernel
from taut.structures import Scalar
from taut.training.loop import Run

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
SIGNS = np.where(np.linalg.norm(X, axis=1) > 1.5, 1.0, -1.0)
WEIGHT = RNG.uniform(0.5, 2.0, 90)


def passes(problem, solver, count=1, seed=0):
    """A run after so many passes."""
    if isinstance(solver, FunctionalDescent):
        solver = replace(solver, epochs=max(count, 1))
    run = Run(problem, solver, 1e-3, np.random.default_rng(seed))
    for _ in range(count):
        while not run.solver.pass_(problem, run.state, 1.0, lambda: True).event.over:
            pass
    return run


def kernelised(kernel=None, whole=0, C=1.0, weight=None, cache="500MB"):
    """Two classes through a kernel, by default one of Gauss."""
    space = through_kernel(kernel or RBF(0.5), whole=whole, cache=cache)
    return Problem(Scalar(), X, SIGNS, C=C, sample_weight=weight, space=space)
