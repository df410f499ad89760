"""Tasks whose data are rows, by themselves, in sequences or of queries."""

from __future__ import annotations

import argparse
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from taut.cli.output import plain
from taut.cli.tasks.base import Asked, Task
from taut.data.labels import share_right
from taut.errors import InvalidData
from taut.estimators.online import Answers, answers_to
from taut.features import (
    Extractor,
    RowFeatures,
    SequenceFeatures,
    TextFeatures,
    read_template,
)
from taut.metrics import LabelPairs, mean_cost
from taut.metrics.rankings import mean_ndcg
from taut.readers import open_file, read
from taut.readers.files import STANDARD_INPUT, DataFile
from taut.readers.registry import as_format
from taut.readers.tables import Table

_DEPTHS = (1, 5, 10)


def reading_for(path: str, asked: Asked, model: Any = None) -> dict[str, Any]:
    """Options with which a file is read; for a fitted model as its training data were.

    What the command line says counts first, then the name and the beginning of the file: a model
    that was fitted to one format answers for files of others too.
    """
    known = getattr(model, "reading_", None)
    if known is None or _format_of(path, asked, known.name) != known.name:
        return dict(asked.reading)
    for option, value in asked.reading.items():
        if option != "format" and getattr(known, option, None) != value:
            raise InvalidData(
                f"{option} = {value!r}, and the model was fitted with "
                f"{getattr(known, option, None)!r}: leave the option out, the file is read as the "
                "training data were"
            )
    return {"format": known}


def _format_of(path: str, asked: Asked, otherwise: str) -> str:
    """The name of the format of a file, where it is given or can be told."""
    if "format" in asked.reading:
        return str(asked.reading["format"])
    if path == STANDARD_INPUT:  # which can be read only once
        return otherwise
    try:
        return as_format(DataFile(path), None, {}).name
    except InvalidData:
        return otherwise


def columns_of(options: argparse.Namespace) -> dict[str, Any]:
    """Which features get columns."""
    return {"min_count": options.min_count or 1, "hashing": options.hashing}


def refuse_extraction(options: argparse.Namespace) -> None:
    """Refuse options of features where the data have features already."""
    for name in ("template", "min_count", "hashing", "words", "characters"):
        if getattr(options, name) is not None:
            raise InvalidData(
                f"--{name.replace('_', '-')} is for texts and tokens, and these data are numbers "
                "already: leave it out"
            )


def read_rows(path: str, asked: Asked, model: Any = None, *, streams: bool = False) -> Any:
    """A table, or a source of data that are read part by part."""
    options = reading_for(path, asked, model)
    if streams or asked.memory is not None:
        return open_file(path, **options)
    return read(path, **options)


class Rows(Task):
    """What the tasks of files of rows share."""

    #: Whether data are read part by part however much memory there is.
    streams: ClassVar[bool] = False

    def read(self, path: str, asked: Asked, model: Any = None) -> Any:
        return read_rows(path, asked, model, streams=self.streams)

    def parameters(self, data: Any, options: argparse.Namespace) -> dict[str, Any]:
        if not isinstance(getattr(data, "X", None), list):
            refuse_extraction(options)
            return {}
        return {"features": self.extractor(data.X, options)}

    def extractor(self, X: list[Any], options: argparse.Namespace) -> Extractor:
        """What makes features of texts, or of rows that list their features."""
        columns = columns_of(options)
        if not isinstance(X[0], str):
            return RowFeatures(**columns)
        words, characters = options.words or (1, 1), options.characters
        return TextFeatures(words=words, characters=characters, **columns)

    def fit(self, model: Any, data: Any) -> None:
        model.fit(data)

    def measures(self, model: Any, data: Any) -> dict[str, float]:
        if isinstance(data, Table) and data.y is None:
            raise InvalidData(f"{data.name} has no labels to measure answers by: add their column")
        return self.measured(model, answers_to(model, data))

    @abstractmethod
    def measured(self, model: Any, answers: Answers) -> dict[str, float]:
        """How good answers are."""

    def answers(self, model: Any, data: Any) -> Iterator[Any]:
        yield from plain(model.predict(data))

    def scores(self, model: Any, data: Any) -> Iterator[Any]:
        if not hasattr(model, "decision_function"):
            raise InvalidData(
                f"--scores: {type(model).__name__} has no scores beside its answers; leave it out"
            )
        yield from plain(model.decision_function(data))


def right_and_cost(model: Any, answers: Answers) -> dict[str, float]:
    """Accuracy, and the mean cost of models that know costs."""
    predicted, truth, weight = answers[:3]
    found = {"accuracy": share_right(predicted, truth, weight)}
    if getattr(model, "cost", None) is not None:
        found["mean_cost"] = mean_cost(
            truth, predicted, model.cost_, classes=model.classes_, sample_weight=weight
        )
    return found


def errors_of_numbers(answers: Answers) -> dict[str, float]:
    """R squared and mean errors."""
    weight = answers.weight / answers.weight.sum()
    error = answers.predicted - answers.truth
    spread = float(weight @ (answers.truth - weight @ answers.truth) ** 2)
    square = float(weight @ error**2)
    return {
        "r2": 1.0 - square / spread if spread > 0.0 else float("nan"),
        "mean_absolute_error": float(weight @ np.abs(error)),
        "root_mean_square_error": float(np.sqrt(square)),
    }


class Binary(Rows):
    """Two classes."""

    name = "binary"
    about = "one of two classes for each row"
    estimators = ("BinarySVM",)

    def measured(self, model: Any, answers: Answers) -> dict[str, float]:
        return right_and_cost(model, answers)


class Multiclass(Binary):
    """Several classes, which may form a tree."""

    name = "multiclass"
    about = "one of several classes for each row; with --cost, classes of a tree"
    estimators = ("MulticlassSVM",)


class Regression(Rows):
    """Numbers."""

    name = "regression"
    about = "a number for each row"
    estimators = ("RegressionSVM",)

    def measured(self, model: Any, answers: Answers) -> dict[str, float]:
        return errors_of_numbers(answers)


class Online(Binary):
    """Classes, learned in one reading."""

    name = "online"
    about = "classes, learned from a stream in constant memory"
    estimators = ("OnlineSVM",)
    streams = True

    def parameters(self, data: Any, options: argparse.Namespace) -> dict[str, Any]:
        # With a kernel, what comes part by part is learned from in one reading.
        one = {"epochs": 1} if options.kernel not in (None, "linear") else {}
        return super().parameters(data, options) | one


class Ranking(Rows):
    """Rows of queries, which relevance orders."""

    name = "ranking"
    about = "an order of the rows of each query (qid), by relevance"
    estimators = ("RankSVM",)

    def measured(self, model: Any, answers: Answers) -> dict[str, float]:
        predicted, truth, weight, offsets = answers
        return {
            f"ndcg@{depth}": mean_ndcg(truth, predicted, offsets, depth, weight)
            for depth in _DEPTHS
        }


class Sequences(Rows):
    """Labels of positions."""

    name = "sequence"
    about = "a label for each position of a sequence, such as the words of a sentence"
    estimators = ("ChainSVM",)

    def measured(self, model: Any, answers: Answers) -> dict[str, float]:
        pairs = LabelPairs(answers.truth, answers.predicted, answers.offsets, answers.weight)
        found = {
            "accuracy": pairs.position_accuracy(),
            "sequence_accuracy": pairs.sequence_accuracy(),
        }
        if are_chunk_tags(model.classes_):
            found["chunk_f1"] = pairs.chunk_f1()
        return found

    def extractor(self, X: list[Any], options: argparse.Namespace) -> Extractor:
        template: Any = options.template
        if template is None:
            # Tokens that are tuples have columns; others list their features.
            template = "default" if isinstance(X[0][0], tuple) else None
        elif template == "none":
            template = None
        elif template != "default":
            template = read_template(template)
        return SequenceFeatures(template, **columns_of(options))

    def line(self, answer: Any) -> str:
        # As in CoNLL's files: a label for each line, and an empty line behind each sequence.
        return "".join(f"{label}\n" for label in answer)


def are_chunk_tags(classes: np.ndarray) -> bool:
    """Whether labels mark chunks: O, and others that begin with B- or I-."""
    names = [str(name) for name in classes.tolist()]
    return "O" in names and all(name == "O" or name[:2] in ("B-", "I-") for name in names)
