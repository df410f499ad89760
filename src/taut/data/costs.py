"""What it costs to confuse classes: matrices, trees of classes, and files with a matrix."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from taut.data.class_trees import as_tree, is_tree, plain_tree
from taut.errors import InvalidData, InvalidFile

_GROUPS = "numbers in rows are a matrix, and a tree of classes that are numbers is a dict of groups"


def as_cost(cost: Any, n_classes: int, classes: Any = None) -> np.ndarray:
    """The cost matrix that a user means by None, which is 0/1, a matrix, a tree or a path.

    A tree is in a form that `taut.structures.tree_cost` takes, and gives the heights of lowest
    common ancestors. A path is that of a CSV file. `classes` are the labels of rows and columns;
    without them classes are the codes 0, 1, ...: the leaves of a tree in the order of `tree_cost`.

    Examples
    --------
    >>> as_cost({"fish": ["ray", "trout"], "plants": ["moss"]}, 2, ["ray", "moss"])
    array([[0., 2.],
           [2., 0.]])
    """
    if cost is None:
        return 1.0 - np.eye(n_classes)
    if isinstance(cost, str | os.PathLike):
        return load_cost(cost, range(n_classes) if classes is None else classes)
    if not is_tree(cost):
        return check_cost(cost, n_classes)
    heights = as_tree(cost, "cost").heights(classes)
    if len(heights) != n_classes:
        raise InvalidData(
            f"cost is a tree of {len(heights)} classes, and there are {n_classes}: give "
            "tree_cost(tree, classes, normalize=False) for some of its classes"
        )
    return heights


def check_cost(cost: Any, n_classes: int | None = None) -> np.ndarray:
    """The cost matrix, of so many classes or of any number, as float64; else InvalidData."""
    try:
        matrix = np.ascontiguousarray(cost, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidData(
            f"cost is no matrix of numbers ({error}): give cost[truth, label]; {_GROUPS}"
        ) from error
    n_classes = max(matrix.shape) if n_classes is None else n_classes
    if matrix.shape != (n_classes, n_classes):
        raise InvalidData(
            f"cost has shape {matrix.shape}, the {n_classes} classes need "
            f"({n_classes}, {n_classes}): cost[truth, label]; {_GROUPS}"
        )
    if not np.isfinite(matrix).all() or (matrix < 0.0).any():
        row, column = np.argwhere(~(np.isfinite(matrix) & (matrix >= 0.0)))[0]
        raise InvalidData(
            f"cost[{row}, {column}] = {matrix[row, column]}: costs are finite and not negative"
        )
    if np.diagonal(matrix).any():
        row = int(np.flatnonzero(np.diagonal(matrix))[0])
        raise InvalidData(f"cost[{row}, {row}] = {matrix[row, row]}: the truth must cost 0")
    return matrix


def plain_cost(cost: Any) -> Any:
    """The same cost of types that a file can hold."""
    return os.fspath(cost) if isinstance(cost, os.PathLike) else plain_tree(cost)


def load_cost(path: str | os.PathLike, classes: Any = None) -> np.ndarray:
    r"""Read a cost matrix from a CSV file.

    Cells are separated by commas, semicolons or tabs. Rows are truths and columns are answers. The
    first row, the first column, or both may name the classes; the corner of both is no number.

    Parameters
    ----------
    path : str or path
    classes : sequence, optional
        Labels in the wanted order of rows and columns, such as `np.unique(y)`; a label is named as
        `str` shows it. A file may name more. In a file without names classes are in this order.

    Returns
    -------
    ndarray of float64, shape (n_classes, n_classes)
        In the order of `classes`, or of the file.

    Raises
    ------
    FileNotFoundError
        There is nothing at `path`.
    InvalidFile
        The file holds no cost matrix; the message names line and column, counted from 1.
    InvalidData
        The file lacks one of `classes`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from taut.structures import load_cost
    >>> path = Path(tempfile.mkdtemp()) / "cost.csv"
    >>> _ = path.write_text(",ray,trout,moss\nray,0,1,3\ntrout,1,0,3\nmoss,2,2,0")
    >>> load_cost(path, ["moss", "ray"])
    array([[0., 2.],
           [3., 0.]])
    """
    cost, names = _read_matrix(path)
    if classes is None:
        return cost
    if names is None:
        return check_cost(cost, len(classes))
    order = _find(path, [str(label) for label in classes], names)
    return cost[np.ix_(order, order)]


def _read_matrix(path: str | os.PathLike) -> tuple[np.ndarray, list[str] | None]:
    """The matrix, and the names of its classes if there are any."""
    rows = _read_rows(path)
    height, width = len(rows), len(rows[0].cells)
    if abs(height - width) > 1:
        _refuse(path, f"has {height} rows and {width} columns", "a cost matrix is square")
    both = height == width > 1 and not _is_number(rows[0].cells[0])
    header, named = both or height > width, both or width > height
    body, first = rows[header:], int(named)
    cost = np.array([[_number(path, row, j) for j in range(first, width)] for row in body])
    answers = _names(path, rows[0].cells[first:]) if header else None
    truths = _names(path, [row.cells[0] for row in body]) if named else None
    order = list(range(len(body)))
    if answers is not None and truths is not None:
        order = _find(path, answers, truths)
    for i, row in enumerate(order):
        if cost[row, i] != 0.0:
            place = _place(body[row], first + i)
            _refuse(path, f"has {cost[row, i]:g} {place}", "the truth must cost 0")
    return cost[order], answers or truths


class _Row(NamedTuple):
    line: int
    cells: list[str]


def _read_rows(path: str | os.PathLike) -> list[_Row]:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            text = file.read()
        reader = csv.reader(
            io.StringIO(text, newline=""), delimiter=max(",;\t", key=text.count), strict=True
        )
        rows = [_Row(reader.line_num, cells) for cells in reader if any(map(str.strip, cells))]
    except (UnicodeDecodeError, csv.Error) as error:
        _refuse(path, f"is no CSV file ({error})", "save it as text in UTF-8")
    if not rows:
        _refuse(path, "is empty", "give cost[truth, answer]")
    for row in rows:
        if len(row.cells) != len(rows[0].cells):
            _refuse(
                path,
                f"has {len(row.cells)} cells in line {row.line} and {len(rows[0].cells)} in line "
                f"{rows[0].line}",
                "give each line as many",
            )
    return rows


def _is_number(cell: str) -> bool:
    try:
        return np.isfinite(float(cell))
    except ValueError:
        return False


def _number(path: str | os.PathLike, row: _Row, column: int) -> float:
    cell = row.cells[column]
    try:
        value = float(cell)
    except ValueError:
        _refuse(path, f"has {cell!r} {_place(row, column)}", "give a number, with a decimal point")
    if not 0.0 <= value < np.inf:
        _refuse(path, f"has {cell!r} {_place(row, column)}", "costs are finite and not negative")
    return value


def _names(path: str | os.PathLike, cells: Sequence[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    seen = set()
    for key, name in zip(map(_key, names), names, strict=True):
        if key in seen:
            _refuse(path, f"names the class {name!r} twice", "give it one row and one column")
        seen.add(key)
    return names


def _find(path: str | os.PathLike, wanted: Sequence[str], names: Sequence[str]) -> list[int]:
    """Where the wanted names are."""
    places = {_key(name): i for i, name in enumerate(names)}
    for name in wanted:
        if _key(name) not in places:
            some = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
            raise InvalidData(
                f"{os.fspath(path)} has no class {name!r}, it names {some}: add its row and column"
            )
    return [places[_key(name)] for name in wanted]


def _key(name: str) -> str | float:
    """What tells a name from others: 1 and 1.0 are one."""
    return float(name) if _is_number(name) else name


def _place(row: _Row, column: int) -> str:
    return f"in line {row.line}, column {column + 1}"


def _refuse(path: str | os.PathLike, fault: str, remedy: str) -> NoReturn:
    raise InvalidFile(f"{os.fspath(path)} {fault}: {remedy}")
