"""The averaged perceptron."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taut.binding import Data
from taut.compiled.jit import kernel
from taut.errors import InvalidData
from taut.problem import Problem
from taut.sampling import Argmax, Sampler
from taut.solvers._sequential import Sequential
from taut.solvers._sequential_state import SequentialState
from taut.solvers._visitors import Rule
from taut.spaces.labels import score_of

_TIES = 1e-300  # weight of losses that decides between equal scores only, as all are at w = 0


def _predicted(operations):
    argmax, score, loss_of = operations.argmax, score_of(operations), operations.loss

    def sample(data, i, work, loss_weight, seed, room, found, values):
        argmax(data, i, work, _TIES, found[0])
        values[0] = score(data, i, work, found[0]) + loss_weight * loss_of(data, i, found[0])
        return 1

    return sample


class Prediction(Argmax):
    """The label that is predicted, whatever its loss."""

    name = "prediction"
    make = staticmethod(_predicted)

    def labels(self, data, i, w, count, rng):
        """The prediction of the structure."""
        return [data.structure.argmax(data.X[i], w)], 0.0


@kernel
def is_wrong(violation, loss):
    """Whether a label is not the truth."""
    return loss > 0.0


@dataclass
class Perceptron(Sequential):
    """The averaged structured perceptron (Collins, 2002).

    Problem: none that it solves; w is judged by 1/2 |w|^2 + sum_i C_i hinge_i(w).
    Given: an argmax for each block, without losses. Comes out: w, the average of w over all visits,
    a feasible dual point.

    A visit of block i predicts its label; if that has a loss, w += C_i psi. Of labels with the same
    score the one with the largest loss is predicted, where the structure is compiled: at w = 0
    every block is mistaken. C changes the length of w, and no prediction.

    Cost per pass: one argmax per block; one thread, whatever `n_jobs` is.
    Memory: a few vectors of the length of w; nothing per block.
    Certificate: exact, and not small as a rule: the dual point is the best multiple of the sum of
    all steps that no block's C_i forbids. The run ends where a pass makes no step, as it comes to
    on separable data, whatever the gap. Estimates between passes see the violation of predicted
    labels only, and are too low.
    Data that can be read once, and `partial_fit`: the average, with such estimates.

    Parameters
    ----------
    averaging : bool, default=True
        Look at the average of w as well, and end with the better of the two; else with w itself.
    shuffle : bool, default=True
        Random order: of the blocks in memory; of the chunks of a source, where it allows that, and
        of the blocks in each. Else in sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.solvers import Perceptron
    >>> from taut.structures import Multiclass
    >>> X, y = np.array([[0.5, 0.5], [-0.5, -0.5]]), np.array([0, 1])
    >>> problem = Problem(Multiclass(2, bias=1.0), X, y, C=1.0)
    >>> result = solve(problem, Perceptron(), random_state=0)
    >>> result.certificate.status.name, problem.data.predict(result.w).tolist()
    ('SETTLED', [0, 1])
    """

    name: ClassVar[str] = "perceptron"

    averaging: bool = True
    shuffle: bool = True

    @property
    def rule(self) -> Rule:
        """All weight to the prediction, if it is wrong."""
        return is_wrong

    def sampler_of(self, data: Data) -> Sampler:
        """What is predicted, whatever its loss."""
        return Prediction()

    def init(self, problem: Problem, rng: np.random.Generator) -> SequentialState:
        """S = 0, for labels that are right or wrong."""
        if problem.data.signed_losses:
            raise InvalidData(
                f"perceptron learns from wrong predictions, and the candidates of "
                f"{type(problem.structure).__name__} are none: use solver='subgradient' or "
                "'passive_aggressive'"
            )
        return super().init(problem, rng)
