"""Graphs from files: a line of JSON for each."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

import numpy as np

from taut.readers.files import DataFile

_KEYS = ("nodes", "edges", "edge_features", "labels")


class GraphFile(NamedTuple):
    """Graphs as `GraphSVM` takes them, and the labels of their nodes where the file has them."""

    X: list[tuple[np.ndarray, ...]]
    y: list[list[Any]] | None


def read_graphs(path: str | os.PathLike[str]) -> GraphFile:
    """Read graphs from a file of JSON lines.

    Each line is an object with `nodes`, the features of each node, `edges`, pairs of node numbers
    from 0, and perhaps `edge_features` and `labels`.

    Parameters
    ----------
    path : path-like
        May be compressed; "-" is standard input.

    Returns
    -------
    GraphFile

    Raises
    ------
    InvalidFile
        A line is no such object; the message names it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "graphs.jsonl"
    >>> _ = path.write_text('{"nodes": [[1, 0], [0, 1]], "edges": [[0, 1]], "labels": ["a", "b"]}')
    >>> read_graphs(path).y
    [['a', 'b']]
    """
    file = DataFile(path)
    X: list[tuple[np.ndarray, ...]] = []
    y: list[Any] = []
    for number, line in file.lines():
        if not line.strip():
            continue
        graph, labels = _graph(file, number, line)
        X.append(graph)
        y.append(labels)
        if (labels is None) != (y[0] is None):
            raise file.fault("some graphs have labels and others have none", number)
    if not X:
        raise file.fault("has no graphs")
    return GraphFile(X, None if y[0] is None else y)


def _graph(
    file: DataFile, number: int, line: str
) -> tuple[tuple[np.ndarray, ...], list[Any] | None]:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise file.fault(f"is no JSON ({error})", number) from error
    if not isinstance(content, dict) or not {"nodes", "edges"} <= content.keys():
        raise file.fault("is no object with nodes and edges", number)
    unknown = content.keys() - set(_KEYS)
    if unknown:
        raise file.fault(f"has {sorted(unknown)[0]!r}; known are {', '.join(_KEYS)}", number)
    try:
        arrays = [
            np.asarray(content["nodes"], dtype=np.float64),
            np.asarray(content["edges"], dtype=np.int64).reshape(-1, 2),
        ]
        if "edge_features" in content:
            arrays.append(np.asarray(content["edge_features"], dtype=np.float64))
    except (TypeError, ValueError, OverflowError) as error:
        raise file.fault(
            f"nodes, edges or edge_features are no numbers ({error})", number
        ) from error
    labels = content.get("labels")
    if labels is not None and not (isinstance(labels, list) and len(labels) == len(arrays[0])):
        raise file.fault(f"gives no list of {len(arrays[0])} labels, one to each node", number)
    return tuple(arrays), labels
