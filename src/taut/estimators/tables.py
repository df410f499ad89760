"""Tables of files in place of X, y and what belongs to them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from itertools import zip_longest
from typing import Any, TypeVar, cast

from taut.errors import InvalidData
from taut.readers.sources import FileSource
from taut.readers.tables import Table, widened

F = TypeVar("F", bound=Callable[..., Any])


def takes_tables(method: F) -> F:
    """Let a method take a `Table`: its X, and of the rest what the method has arguments for.

    A fitted model, but for `fit`, which begins anew, gets the rows with all columns that it knows.
    What was fitted to a file remembers how the file was read, as `reading_`.
    """
    own_names = _names_behind_x(method)
    begins = method.__name__ == "fit"

    @functools.wraps(method)
    def call(self: Any, X: Any, *values: Any, **others: Any) -> Any:
        if not isinstance(X, Table):
            result = method(self, X, *values, **others)
            if begins and isinstance(X, FileSource):
                self.reading_ = X.format
            return result
        given = dict(zip(own_names, values)) | others
        # What a method takes as `fit_params` is what `fit` takes.
        names = _names_behind_x(type(self).fit) if "fit_params" in own_names else own_names
        rows, brought = spread(self, X, names, begins)
        refuse_beside({name: given.get(name) for name in brought})
        result = method(self, rows, **(given | brought))
        if begins and X.format is not None:
            self.reading_ = X.format
        return result

    return cast(F, call)


def _names_behind_x(method: Callable[..., Any]) -> list[str]:
    """The names of a method's arguments behind self and X."""
    return list(inspect.signature(method).parameters)[2:]


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
    if not begins:
        refuse_other_columns(model, table.feature_names, table.name)
    rows = table.X if n_features is None else widened(table.X, n_features, table.name)
    brought = {"y": table.y, "sample_weight": table.sample_weight}
    if not isinstance(table.X, list):
        brought |= _layout(model, table)
    return rows, {
        name: value
        for name, value in brought.items()
        if name in names or (name == "lengths" and "layout" in names and value is not None)
    }


def refuse_other_columns(model: Any, names: list[str] | None, what: str) -> None:
    """Refuse columns of a file that are called otherwise, or stand elsewhere, than in training."""
    known = None if names is None else model._column_names()
    if known is None or list(known) == names:
        return
    assert names is not None
    differs = [pair for pair in zip_longest(names, known) if pair[0] != pair[1]]
    found, wanted = ("nothing" if name is None else repr(name) for name in differs[0])
    raise InvalidData(
        f"{what} has {found} for a column where the model was fitted with {wanted}: read it with "
        "like=model, which puts columns in order, or give X as an array"
    )


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
