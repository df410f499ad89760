"""Working sets of cutting planes, grown by mini-batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from taut.sampling import Sampler
from taut.solvers._working_sets import WorkingSets


@dataclass
class WorkingSet(WorkingSets):
    """Working sets of cutting planes by mini-batches (He, 2016, Algorithm 1).

    Problem: max_a sum_iy a_iy loss_i(y) - 1/2 |sum_iy a_iy psi_i(y)|^2, a >= 0, sum_y a_iy <= C_i.
    Given: a loss-augmented argmax for each block, or a sampler of several labels. Comes out:
    w = sum a psi and a feasible a.

    A mini-batch of blocks asks at one w. Label y joins the working set of block i if

        loss_i(y) - <w, psi_i(y)> > xi_i + eps,     xi_i = max(0, max over the set of the same)

    Then either the QP over all working sets is solved, from the last solution on, or single and
    pair steps update the blocks of the mini-batch alone, each in closed form. Every `check_every`
    mini-batches labels are dropped that have had no weight for `patience` of them.

    A pass ends the run if no block had a gap above eps C_i throughout, so that w never moved: at
    one w, no label is violated by more than its slack and eps. The true gap ends it as well.

    Cost per pass: one oracle call per block; for each mini-batch some sweeps over the labels of all
    blocks ("solve"), or one over its own ("closed_form").
    Memory: a label, a coefficient, a loss and a Gram row per label of a working set.
    Certificate: exact; the dual never falls.

    Parameters
    ----------
    batch : int, optional, default=50
        Blocks that ask at one w; None for all.
    n_planes : int, default=1
        Labels that a visit may add.
    sampler : str, callable or Sampler, default="diverse"
        Who chooses them where they are several, see `taut.sampling`.
    update : {"solve", "closed_form"}, default="solve"
        What follows a mini-batch. Solving pays where the oracle takes most of the time.
    order : {"permutation", "uniform", "gap"}, default="permutation"
        Each block once in random order, or as many draws: all with the same odds, or with odds
        proportional to the gap.
    eps : float or "auto", default="auto"
        By how much a label must exceed the slack. By default so little that it leaves a tenth of
        the wanted gap.
    check_every, patience : int, default=20 and 10
        Mini-batches between two removals, and without weight before one; 0 and any for none.
    precision : float, default=0.3
        To which part of the gap that the oracles have found the QP is solved, as sweeps see it.
    max_sweeps : int, default=100
        Sweeps for one QP.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.solvers import WorkingSet
    >>> from taut.structures import Multiclass
    >>> X, y = np.array([[0.5, 0.5], [-0.5, -0.5]]), np.array([0, 1])
    >>> problem = Problem(Multiclass(2, bias=1.0), X, y, C=1.0)
    >>> result = solve(problem, WorkingSet(batch=1), tol=1e-6, random_state=0)
    >>> round(result.certificate.primal, 4)
    0.5
    """

    name: ClassVar[str] = "working_set"

    batch: int | None = 50
    n_planes: int = 1
    sampler: str | Callable | Sampler = "diverse"
    update: str = "solve"
    order: str = "permutation"
    eps: float | str = "auto"
    check_every: int = 20
    patience: int = 10
    precision: float = 0.3
    max_sweeps: int = 100
