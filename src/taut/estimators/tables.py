"""Tables of files in place of X, y and what belongs to them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from taut.errors import InvalidData
from taut.readers.tables import Table, widened

F = TypeVar("F", bound=Callable[..., Any])


def takes_tables(method: F) -> F:
    """Let a method take a `Table`: its X, and of the rest what the method has arguments for.

    A fitted model, but for `fit`, which begins anew, gets the rows with all columns that it knows.
    """
    names = list(inspect.signature(method).parameters)[2:]
    begins = method.__name__ == "fit"

    @functools.wraps(method)
    def call(self: Any, X: Any, *values: Any, **others: Any) -> Any:
        if not isinstance(X, Table):
            return method(self, X, *values, **others)
        given = dict(zip(names, values)) | others
        rows, brought = spread(self, X, names, begins)
        refuse_beside({name: given.get(name) for name in brought})
        return method(self, rows, **(given | brought))

    return cast(F, call)


def refuse_beside(others: dict[str, Any]) -> None:
    """Refuse what a table or a source brings itself."""
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise InvalidData(
            f"{given[0]} is given beside a source of data, which brings its own: write it "
            "with the data, or leave it out"
        )


def spread(
    model: Any, table: Table, names: list[str], begins: bool = False
) -> tuple[Any, dict[str, Any]]:
    """X of a table, and the arguments of these names that it brings."""
    n_features = None if begins else getattr(model, "n_features_in_", None)
    rows = table.X if n_features is None else widened(table.X, n_features, table.name)
    brought = {"y": table.y, "sample_weight": table.sample_weight}
    if not isinstance(table.X, list):
        brought |= _layout(model, table)
    return rows, {
        name: value
        for name, value in brought.items()
        if name in names or (name == "lengths" and "layout" in names and value is not None)
    }


def _layout(model: Any, table: Table) -> dict[str, Any]:
    """Which rows belong together, for a model that asks for it."""
    kind = type(model).__name__
    parameters = inspect.signature(type(model).fit).parameters
    if table.lengths is not None and "lengths" not in parameters:
        raise InvalidData(
            f"{table.name} holds sequences, and {kind} takes rows: use an estimator of sequences"
        )
    if "groups" in parameters:
        if table.queries is None and table.lengths is None:
            raise InvalidData(
                f"{table.name} has no queries, and {kind} ranks the rows of each query: write "
                "qid:number behind the target of each line"
            )
        return {"groups": table.queries, "lengths": table.lengths}
    if table.lengths is None and model._parts_of == "sequences":
        if table.queries is not None:
            raise InvalidData(
                f"{table.name} was read as rows of queries, and {kind} takes sequences: read it "
                "with format='svm_hmm'"
            )
        if not model._takes_single_rows:
            raise InvalidData(
                f"{table.name} holds rows, and {kind} takes sequences: use an estimator of rows, "
                "or files of sequences"
            )
    return {"lengths": table.lengths}
