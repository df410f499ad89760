"""Labels of the nodes of graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from taut.cli.output import plain
from taut.cli.tasks.base import Asked, Task
from taut.readers.graphs import read_graphs


class Graphs(Task):
    """A file with one graph in each line."""

    name = "graph"
    about = "a label for each node of a graph, such as the regions of an image"
    estimators = ("GraphSVM", "TreeSVM")

    def read(self, path: str, asked: Asked, model: Any = None) -> Any:
        return read_graphs(path)

    def fit(self, model: Any, data: Any) -> None:
        model.fit(data.X, data.y)

    def measures(self, model: Any, data: Any) -> dict[str, float]:
        return {"accuracy": model.score(data.X, data.y)}

    def answers(self, model: Any, data: Any) -> Iterator[Any]:
        yield from (plain(labels) for labels in model.predict(data.X))

    def line(self, answer: Any) -> str:
        return " ".join(map(str, answer))
