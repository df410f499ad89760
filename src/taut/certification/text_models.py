"""Readers of the text files of LIBSVM and LIBLINEAR.

Neither format stores C, epsilon or weights of classes, on which the objective depends: the user
gives them. A bound of another C than that of the training would be true, of another objective.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from taut.certification import kernel_models, linear_models
from taut.certification.given import Given, Reading, kernel_space
from taut.certification.report import NoBound
from taut.checks import as_path, check_number
from taut.data.arrays import Matrix
from taut.data.labels import class_weights
from taut.errors import InvalidData, InvalidFile

_KERNELS = ("linear", "polynomial", "rbf", "sigmoid", "precomputed")


class _Solver(NamedTuple):
    """What LIBLINEAR minimises under one of its names."""

    loss: str
    squared: bool = False


_SOLVERS = {
    "L2R_L2LOSS_SVC_DUAL": _Solver("hinge", True),
    "L2R_L2LOSS_SVC": _Solver("hinge", True),
    "L2R_L1LOSS_SVC_DUAL": _Solver("hinge"),
    "MCSVM_CS": _Solver("crammer_singer"),
    "L2R_L2LOSS_SVR": _Solver("insensitive", True),
    "L2R_L2LOSS_SVR_DUAL": _Solver("insensitive", True),
    "L2R_L1LOSS_SVR_DUAL": _Solver("insensitive"),
}


def is_text_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as those of LIBSVM and LIBLINEAR do."""
    with open(path, "rb") as file:
        return file.read(11).split(b" ")[0] in (b"svm_type", b"solver_type")


def read_file(model: Any, given: Given) -> Reading:
    """A model file of LIBSVM or LIBLINEAR, told apart by its first word."""
    path = as_path("model", model)
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        raise InvalidFile(f"{path} is not there: give the path of a model file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(
            f"{path} cannot be read as text ({error}): give a model file of LIBSVM or LIBLINEAR"
        ) from error
    first = lines[0].split()[:1] if lines else []
    readers: dict[str, Callable] = {"svm_type": _read_libsvm, "solver_type": _read_liblinear}
    if not first or first[0] not in readers:
        raise InvalidFile(
            f"{path} begins with {' '.join(first) or 'nothing'!r}, not with svm_type (LIBSVM) or "
            "solver_type (LIBLINEAR): give a model file of one of both"
        )
    if given.fit_params:
        raise InvalidData(f"{path} got {', '.join(given.fit_params)}, which no model file needs")
    try:
        return readers[first[0]](path, lines, given)
    except (IndexError, KeyError, ValueError) as error:
        if isinstance(error, InvalidData | InvalidFile):
            raise
        raise InvalidFile(
            f"{path} is damaged or cut short ({type(error).__name__}: {error}): write it again"
        ) from error


def _header(lines: list[str], end: str) -> tuple[dict[str, list[str]], list[str]]:
    """Words by the first of their line up to the line `end`, and the lines after it."""
    place = lines.index(end)
    words = [line.split() for line in lines[:place] if line.strip()]
    return {word[0]: word[1:] for word in words}, [x for x in lines[place + 1 :] if x.strip()]


def _need(name: str, value: Any, path: Path, hint: str = "") -> float:
    """A number that files do not store."""
    if value is None:
        raise InvalidData(
            f"{path} does not store {name}, on which the objective depends: give the {name} of the "
            f"training, certify(..., {name}=...){hint}"
        )
    check_number(name, value)
    if not 0.0 <= value < np.inf or (name == "C" and value == 0.0):
        raise InvalidData(f"{name} = {value}: it must be positive and finite")
    return float(value)


def _classes(words: list[str]) -> np.ndarray:
    """Labels in the order of the file, which are integers."""
    return np.array([int(word) for word in words])


def _weights(
    given: Given, classes: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class numbers and weights of rows, and factors of classes."""
    codes, weight = given.codes(classes, n), given.weights(n)
    return codes, weight, class_weights(given.class_weight, classes, codes, weight)


def _read_libsvm(path: Path, lines: list[str], given: Given) -> Reading:
    header, vectors = _header(lines, "SV")
    kind, kernel = header["svm_type"][0], header["kernel_type"][0]
    if kind not in ("c_svc", "epsilon_svr"):
        raise NoBound(
            f"{path} has svm_type {kind}: dual points are known for c_svc and epsilon_svr alone"
        )
    if kernel not in _KERNELS or len(vectors) != int(header["total_sv"][0]):
        raise InvalidFile(
            f"{path} has kernel_type {kernel} and {len(vectors)} support vectors where it says "
            f"{header['total_sv'][0]}: it is damaged or cut short, write it again"
        )
    n_coefficients = int(header["nr_class"][0]) - 1
    split = [line.split() for line in vectors]
    coefficients = np.array([[float(x) for x in words[:n_coefficients]] for words in split]).T
    coefficients = coefficients.reshape(n_coefficients, len(split))
    largest = float(np.abs(coefficients).max(initial=0.0))
    C = _need("C", given.C, path, f"; it was at least {largest:g} unless classes had weights")
    pairs = [[word.split(":") for word in words[n_coefficients:]] for words in split]
    X = given.matrix(_n_columns(given), None)
    n = X.shape[0]
    numbers = [float(header[name][0]) if name in header else 0.0 for name in ("gamma", "coef0")]
    degree = float(header["degree"][0]) if "degree" in header else 3.0
    space, caveat = kernel_space(kernel, numbers[0] or 1.0, degree, numbers[1], X)
    rho = np.array([float(x) for x in header["rho"]])
    if kind == "epsilon_svr":
        epsilon = _need("epsilon", given.epsilon, path)
        support = _find(X, pairs, np.zeros(n, dtype=int), np.zeros(len(split), dtype=int), kernel)
        machines = kernel_models.regression(
            space, caveat, given.targets(n), epsilon, C * given.weights(n), support,
            coefficients[0], -float(rho[0]),
        )  # fmt: skip
        return Reading(path.name, kernel_models.INSENSITIVE, machines)
    classes = _classes(header["label"])
    codes, weight, factors = _weights(given, classes, n)
    numbers_of = [int(x) for x in header["nr_sv"]]
    of_support = np.repeat(np.arange(len(classes)), numbers_of)
    if len(of_support) != len(split):
        raise InvalidFile(
            f"{path} has {len(split)} support vectors and {sum(numbers_of)} by class: it is "
            "damaged or cut short, write it again"
        )
    machines = kernel_models.one_vs_one(
        space, caveat, [str(label) for label in classes], codes, C * weight * factors[codes],
        _find(X, pairs, codes, of_support, kernel), coefficients, -rho,
    )  # fmt: skip
    return Reading(path.name, kernel_models.HINGES, machines)


def _n_columns(given: Given) -> int:
    """Files of LIBSVM do not say how many columns there were."""
    return int(given.X.shape[1]) if hasattr(given.X, "shape") else len(given.X[0])


def _find(
    X: Matrix, pairs: list[list[list[str]]], codes: np.ndarray, of_support: np.ndarray, kernel: str
) -> np.ndarray:
    """The row of X that each support vector is, of the same class; none is taken twice.

    Files have eight digits of a number: rows are compared by these.
    """
    if kernel == "precomputed":
        numbers = np.array([int(float(words[0][1])) for words in pairs], dtype=int)
        if len(np.unique(numbers)) < len(numbers) or not all(1 <= i <= len(codes) for i in numbers):
            raise InvalidData(
                f"the file names rows of a matrix twice, or beyond the {len(codes)} of X: give X "
                "and y of the training"
            )
        return numbers - 1
    rows = sp.csr_array(X)
    rounded = [float(f"{value:.8g}") for value in rows.data.tolist()]
    columns, starts = rows.indices.tolist(), rows.indptr.tolist()
    places: dict[Any, deque[int]] = defaultdict(deque)
    for i in range(X.shape[0]):
        own = zip(columns[starts[i] : starts[i + 1]], rounded[starts[i] : starts[i + 1]])
        places[codes[i], tuple(pair for pair in own if pair[1] != 0.0)].append(i)
    found = np.empty(len(pairs), dtype=int)
    for k, words in enumerate(pairs):
        values = [(int(index) - 1, float(f"{float(value):.8g}")) for index, value in words]
        candidates = places.get((of_support[k], tuple(pair for pair in values if pair[1] != 0.0)))
        if not candidates:
            raise InvalidData(
                f"support vector {k} of the file is no row of X with its class, or not as often: "
                "give X and y of the training, with the same preprocessing"
            )
        found[k] = candidates.popleft()
    return found


def _read_liblinear(path: Path, lines: list[str], given: Given) -> Reading:
    header, rows = _header(lines, "w")
    solver = _SOLVERS.get(header["solver_type"][0])
    if solver is None:
        raise NoBound(
            f"{path} has solver_type {header['solver_type'][0]}: dual points are known for "
            f"{', '.join(_SOLVERS)}"
        )
    C = _need("C", given.C, path)
    columns, bias = int(header["nr_feature"][0]), float(header["bias"][0])
    constant = max(bias, 0.0)  # -1 is none
    W = np.array([[float(x) for x in row.split()] for row in rows]).T
    # A constant column of 0 has weights, which count for nothing.
    labels = [] if solver.loss == "insensitive" else header["label"]
    one = len(labels) == 2 and solver.loss != "crammer_singer"
    expected = (1 if one else max(len(labels), 1), columns + (bias >= 0.0))
    if W.shape != expected or not np.isfinite(W).all():
        raise InvalidFile(
            f"{path} has weights of shape {W.T.shape}, expected {expected[::-1]} finite numbers: "
            "it is damaged or cut short, write it again"
        )
    tails = W[:, columns] if constant else np.zeros(len(W))
    W = np.ascontiguousarray(W[:, :columns])
    X = given.matrix(columns)
    n = X.shape[0]
    if solver.loss == "insensitive":
        epsilon = _need("epsilon", given.epsilon, path)
        machines: Any = linear_models.regression(
            X, given.targets(n), epsilon, C * given.weights(n), W[0], float(constant * tails[0]),
            constant=constant, squared=solver.squared,
        )  # fmt: skip
        words = linear_models.in_words(solver.loss, solver.squared, False)
        return Reading(path.name, words, machines)
    classes = _classes(labels)
    codes, weight, factors = _weights(given, classes, n)
    names = [str(label) for label in classes]
    if solver.loss == "crammer_singer":
        machines = linear_models.crammer_singer(
            X, codes, C * weight * factors[codes], W, tails, constant
        )
        return Reading(path.name, linear_models.CRAMMER_SINGER, machines)
    # Of two classes the first is the positive one, here the second.
    sign = -1.0 if len(names) == 2 else 1.0
    machines = linear_models.one_vs_rest(
        X, names, codes, C * weight, factors, sign * W, sign * constant * tails,
        constant=constant, squared=solver.squared,
    )  # fmt: skip
    words = linear_models.in_words(solver.loss, solver.squared, False)
    return Reading(path.name, words, machines)
