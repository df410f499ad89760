"""Dual ascent with several labels per visit, which a sampler chooses."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from taut.binding import Data, PythonData, has_oracle
from taut.duals import BlockDual, EnumeratedDual, LabelledDual, MergedDual, MergedPythonDual
from taut.solvers._block_ascent import BlockAscent
from taut.solvers._several_labels import SeveralLabels


@dataclass
class MultiSample(SeveralLabels, BlockAscent):
    """Multi-sample dual ascent (Branson, Beijbom and Belongie, 2013, Algorithm 2).

    Problem: max_a sum_iy a_iy loss_i(y) - 1/2 |sum_iy a_iy psi_i(y)|^2, a >= 0, sum_y a_iy <= C_i.
    Given: for each block a few labels of high violation, little correlated, the loss-augmented
    argmax among them, from a sampler (`taut.sampling`). Comes out: w and a feasible a.

    A visit moves the block's weight to one label of the sample after the other, each time by the
    best of exact steps: from the truth, from what the block had, or from everything that it has
    (`taut.duals.one_by_one`). The argmax comes first, so that a visit is never worse than full
    weight on it. Each label takes one inner product with what the block has by then, and labels
    that have nothing to gain take not even that. Where all labels are sampled and the structure has
    an exact step, that is taken instead.

    A block's labels are merged into one plane after each visit, so that its memory does not grow:
    the mean of their statistics where the structure has expectations, a sparse vector for
    plain-Python structures, one weight per label where all are sampled. Compiled structures without
    expectations keep a list of labels with their weights, without inner products; a visit goes
    through these as well. Labels that were merged can only lose weight together.

    Over a source the features of one chunk at a time are kept; in sequence (`shuffle=False`) the
    outcome is that of the same data in memory.

    Cost per pass: one call of the sampler per block, and one inner product for each label of it.
    Memory: as above, for each block.
    Certificate: exact.

    Parameters
    ----------
    n_samples : int, optional
        Labels per visit. By default all where the structure has an exact step over them, else 10.
    sampler : str, callable or Sampler, default="auto"
        "argmax", "all", "top", "m_best", "diverse", "random", or a function; by default the
        structure's own `sample`, or what suits it: see `taut.sampling.as_sampler`.
    shuffle : bool, default=True
        Blocks in random order; of a source, its chunks where they can be read in any order, and the
        blocks in each.
    recentring : float or "auto", default="auto"
        Strength of the moving centre, as for `DualCoordinate`; the published algorithm has none,
        and 0 switches it off.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.solvers import MultiSample
    >>> from taut.structures import Multiclass
    >>> X, y = np.array([[1.0, 0.2], [0.1, 1.0], [1.0, 1.0]]), np.array([0, 1, 2])
    >>> problem = Problem(Multiclass(3, bias=1.0), X, y, C=1.0)
    >>> for solver in (MultiSample(), MultiSample(2)):
    ...     result = solve(problem, solver, tol=1e-2, random_state=0)
    ...     result.certificate.relative_gap <= 1e-2
    True
    True
    """

    name: ClassVar[str] = "multi_sample"
    takes: ClassVar[tuple[str, ...]] = ("whole", "chunks")

    _: KW_ONLY
    shuffle: bool = True
    recentring: float | str = "auto"

    def duals_of(self, data: Data, weight: np.ndarray, n_jobs: int) -> BlockDual:
        """The form of dual variables that the oracles allow."""
        if self.takes_all(data):
            return EnumeratedDual(data, weight, n_jobs)
        sampler, count = self.sampler_of(data), self.n_wanted
        if has_oracle(data, "expect"):
            return MergedDual(data, weight, n_jobs, sampler, count)
        if isinstance(data, PythonData):
            return MergedPythonDual(data, weight, sampler, count)
        return LabelledDual(data, weight, n_jobs, sampler=sampler, n_samples=count)
