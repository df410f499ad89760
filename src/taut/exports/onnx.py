"""Models as ONNX graphs, which run without Python and without taut."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

import numpy as np

from taut.checks import check_choice
from taut.errors import InvalidData
from taut.estimators.packing import rounding_of
from taut.exports.row_scores import RowScores, row_scores
from taut.result import Certificate
from taut.storage import files
from taut.storage.versions import versions

#: The oldest that have all operators in both precisions: runtimes of 2021 and later read them.
_OPERATORS, _FILES = 15, 8


def to_onnx(model: Any, path: str | os.PathLike, *, dtype: str = "float32") -> None:
    """Write a linear model of rows as an ONNX graph.

    The input is `X` of shape (n, n_features) and of type `dtype`. The outputs are `scores`, of
    shape (n, 1) for two classes that one score tells apart and for numbers, else (n, n_classes);
    `label`, the predicted class or number; and `probabilities`, where the model knows a
    temperature. The graph's metadata hold the version of taut and the certificate, which says so
    where single precision has changed weights.

    Parameters
    ----------
    model : BinarySVM, MulticlassSVM, RegressionSVM or OnlineSVM
        Fitted, without a kernel. Classes are all text, all whole numbers or all booleans.
    path : str or path
        An existing file is replaced as a whole.
    dtype : "float32" or "float64", default="float32"
        Of the weights and of the arithmetic.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import taut
    >>> from onnx.reference import ReferenceEvaluator
    >>> from taut.exports import to_onnx
    >>> model = taut.BinarySVM(C=10.0, random_state=0).fit([[0.0], [4.0]], ["low", "high"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.onnx")
    ...     to_onnx(model, path, dtype="float64")
    ...     graph = ReferenceEvaluator(path)
    >>> graph.run(["label"], {"X": np.array([[1.0], [3.0]])})
    [array(['low', 'high'], dtype=object)]
    """
    check_choice("dtype", dtype, ("float32", "float64"))
    scores = row_scores(model)
    helper = _helper()
    graph = _Graph(helper, np.dtype(dtype), [], [], [])
    _score(graph, scores)
    _answer(graph, scores)
    _rate(graph, scores, getattr(model, "temperature_", None))
    X = helper.make_tensor_value_info("X", graph.kind_of(dtype), ["n", scores.coef.shape[1]])
    made = helper.make_model(
        helper.make_graph(
            graph.nodes, type(model).__name__, [X], graph.outputs, initializer=graph.constants
        ),
        producer_name="taut",
        producer_version=versions()["taut"],
        opset_imports=[helper.make_opsetid("", _OPERATORS)],
        ir_version=_FILES,
    )
    helper.set_model_props(made, _facts(model, scores, graph.dtype))
    with files.whole_file(path) as file:
        file.write(made.SerializeToString())


class _Graph(NamedTuple):
    """A graph that grows."""

    helper: Any
    dtype: np.dtype
    nodes: list[Any]
    constants: list[Any]
    outputs: list[Any]

    def kind_of(self, dtype: Any) -> int:
        """ONNX's number of a type."""
        return self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def constant(self, name: str, values: np.ndarray, dtype: Any) -> str:
        """Values of a type."""
        flat = values.astype(dtype).ravel().tolist()
        self.constants.append(
            self.helper.make_tensor(name, self.kind_of(dtype), values.shape, flat)
        )
        return name

    def apply(self, operator: str, inputs: list[str], output: str, **settings: Any) -> str:
        """One step."""
        self.nodes.append(self.helper.make_node(operator, inputs, [output], **settings))
        return output

    def put_out(self, name: str, dtype: Any, *shape: int) -> None:
        """Let a value be an output, of one row for each row of X."""
        kind = self.kind_of(dtype)
        self.outputs.append(self.helper.make_tensor_value_info(name, kind, ["n", *shape]))


def _score(graph: _Graph, scores: RowScores) -> None:
    coef = graph.constant("coef", scores.coef, graph.dtype)
    intercept = graph.constant("intercept", scores.intercept, graph.dtype)
    graph.apply("Gemm", ["X", coef, intercept], "scores", transB=1)
    graph.put_out("scores", graph.dtype, len(scores.coef))


def _answer(graph: _Graph, scores: RowScores) -> None:
    """The class, or the number."""
    if scores.classes is None:
        last = graph.constant("last", np.ones(1), np.int64)
        graph.apply("Squeeze", ["scores", last], "label")
        graph.put_out("label", graph.dtype)
        return
    if scores.is_of_two:
        last = graph.constant("last", np.ones(1), np.int64)
        zero = graph.constant("zero", np.zeros(1), graph.dtype)
        graph.apply("Greater", ["scores", zero], "positive")
        graph.apply("Squeeze", ["positive", last], "second")
        place = graph.apply("Cast", ["second"], "place", to=graph.kind_of(np.int64))
    else:
        place = graph.apply("ArgMax", ["scores"], "place", axis=1, keepdims=0)
    values, dtype = _labels(scores.classes)
    graph.apply("Gather", [graph.constant("classes", values, dtype), place], "label")
    graph.put_out("label", dtype)


def _rate(graph: _Graph, scores: RowScores, temperature: float | None) -> None:
    """Probabilities, as `predict_proba` has them."""
    if temperature is None or scores.classes is None:
        return
    shares = np.array([[0.0, 1.0]]) if scores.is_of_two else np.ones((1, 1))
    coldness = graph.constant("coldness", shares / temperature, graph.dtype)
    graph.apply("Mul", ["scores", coldness], "logits")
    graph.apply("Softmax", ["logits"], "probabilities", axis=1)
    graph.put_out("probabilities", graph.dtype, len(scores.classes))


def _labels(classes: np.ndarray) -> tuple[np.ndarray, Any]:
    """Classes in one of the types that a graph can give out."""
    labels = classes.tolist()
    for kind, stored in ((bool, np.bool_), (int, np.int64), (float, np.float64), (str, np.object_)):
        if all(type(label) is kind for label in labels):
            return np.array(labels, dtype=stored), stored
    raise InvalidData(
        f"the classes {labels!r:.80} are of different types, or of one that ONNX does not know: "
        "fit with classes that are all text, all numbers or all booleans"
    )


def _facts(model: Any, scores: RowScores, dtype: np.dtype) -> dict[str, str]:
    """What the graph says of itself."""
    facts = {f"{name}_version": version for name, version in versions().items()}
    if not hasattr(model, "certificate_"):
        return facts
    certificate: Certificate = model.certificate_
    moved = rounding_of([scores.coef, scores.intercept]) if dtype == np.float32 else None
    if moved is not None:
        certificate = certificate.of_rounded(dtype.name, moved)
    return facts | {"certificate": json.dumps(certificate.to_dict())}


def _helper() -> Any:
    try:
        from onnx import helper
    except ImportError:
        raise ImportError(
            "graphs are written by the onnx package, which is not installed: pip install "
            "'taut[onnx]'"
        ) from None
    return helper
