"""What a kind of labels is to the command line."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from taut.errors import InvalidData


@dataclass(frozen=True)
class Asked:
    """What the command line asks of a file of data.

    Attributes
    ----------
    reading : dict
        Options of `taut.read`.
    images, split : str or None
        Of files of boxes and joints.
    memory : str or None
        Where it is given, data are read part by part.
    """

    reading: dict[str, Any]
    images: str | None = None
    split: str | None = None
    memory: str | None = None


class Task(ABC):
    """How data of one kind are read, learned from, measured and answered.

    Attributes
    ----------
    name : str
        What `--task` calls it.
    about : str
        What its labels are.
    estimators : tuple of str
        Names in `taut` of the models that it is the task of; the first is what `train` makes.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    estimators: ClassVar[tuple[str, ...]]

    @abstractmethod
    def read(self, path: str, asked: Asked, model: Any = None) -> Any:
        """The data of a file; for a fitted model, with the columns that it knows."""

    def parameters(self, data: Any, options: argparse.Namespace) -> dict[str, Any]:
        """Parameters of the estimator that depend on the data."""
        return {}

    @abstractmethod
    def fit(self, model: Any, data: Any) -> None:
        """Train."""

    @abstractmethod
    def measures(self, model: Any, data: Any) -> dict[str, float]:
        """How good the answers are, by name."""

    @abstractmethod
    def answers(self, model: Any, data: Any) -> Iterator[Any]:
        """What is predicted for each example, as JSON values."""

    def line(self, answer: Any) -> str:
        """An answer as text."""
        return str(answer)

    def scores(self, model: Any, data: Any) -> Iterator[Any]:
        """Scores of each example, as JSON values."""
        raise InvalidData(f"--scores: models for {self.name} have no scores of single rows")
