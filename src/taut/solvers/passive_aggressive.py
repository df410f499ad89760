"""Passive-aggressive learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from taut.plane_steps import toward_step
from taut.solvers._sequential import Sequential
from taut.solvers._visits import Step


@dataclass
class PassiveAggressive(Sequential):
    """Passive-aggressive learning, PA-I."""

    name: ClassVar[str] = "passive_aggressive"

    shuffle: bool = True

    @property
    def step(self) -> Step:
        """The exact step towards the most violated label."""
        return Step(toward_step)
