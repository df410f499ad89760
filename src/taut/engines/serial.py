"""All blocks in memory, as one part."""

from __future__ import annotations

import numpy as np

from taut.engines.base import Engine
from taut.engines.part import Ascent
from taut.engines.turns import draw_seed
from taut.problem import Problem


class Serial(Engine):
    """Dual variables of all blocks."""

    def __init__(self, problem: Problem, ascent: Ascent, rng: np.random.Generator) -> None:
        super().__init__(problem, ascent, rng)
        self.part = self.part_of(problem.data, problem.block_weight)
        self.at_zero = self.part.duals.at_zero

    @property
    def parts(self):
        """The only one."""
        return (self.part,)

    def sweep(self, stiffness, keep_going):
        """Sweep over all blocks."""
        return self.part.sweep(self.w, draw_seed(self.rng), self.rng, stiffness, keep_going)

    def support(self):
        """That of the part."""
        return self.part.duals.support()

    def arrays(self):
        """Everything, as named arrays."""
        return {"w": self.w} | self.part.arrays()

    def restore(self, arrays):
        """Go on exactly where `arrays` were taken."""
        self.restore_w(arrays)
        self.part.restore(arrays)

    def hot_start(self, arrays, same_weights):
        """The dual point of `arrays`, scaled block by block to these weights."""
        self.part.hot_start(arrays)
