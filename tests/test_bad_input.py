"""Bad input is refused in words, before any work, and a fitted model stays as it was."""

import copy
import functools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import taut
from own_structures import Tags
from taut import (
    BinarySVM,
    ChainSVM,
    Checkpoint,
    MulticlassSVM,
    RankSVM,
    RegressionSVM,
    StructuredSVM,
)
from taut.errors import InvalidData, InvalidStructure
from taut.solvers import DualCoordinate, OnlineCache
from taut.structures import Multiclass

X = np.array([[1.0, 0.5], [-1.0, 0.0], [0.0, 2.0], [-0.5, -2.0], [2.0, 1.0], [0.25, -1.0]])
SEQUENCES = [X[:1], X[1:3], X[3:]]
GOOD = {
    "binary": (BinarySVM(random_state=0), X, list("abbaab")),
    "multiclass": (MulticlassSVM(random_state=0), X, list("abccab")),
    "regression": (RegressionSVM(random_state=0), X, [1.0, 0.5, -2.0, 3.0, 0.0, 1.5]),
    "chain": (ChainSVM(random_state=0), SEQUENCES, [["a"], ["b", "c"], ["a", "b", "c"]]),
    "rank": (RankSVM(random_state=0), SEQUENCES, [[1], [0, 2], [2, 0, 1]]),
    "structured": (StructuredSVM(Tags(2), random_state=0), X, [(1, 0), (0, 1), (1, 1)] * 2),
}
CLASSES = ("binary", "multiclass")
ROWS = (*CLASSES, "regression")
LISTS = ("chain", "rank")
MATRICES = (*ROWS, *LISTS)
EVERY = tuple(GOOD)


@functools.cache
def fitted(name):
    """Fitted once; tests change copies."""
    model, X, y = GOOD[name]
    return clone(model).fit(X, y)


@dataclass(frozen=True)
class Bad:
    """What is wrong: parameters, and functions of the good X and y; `fit` are further arguments."""

    name: str
    words: str
    on: tuple = EVERY
    parameters: dict = field(default_factory=dict)
    X: Any = None
    y: Any = None
    fit: dict = field(default_factory=dict)


def number(value, row=2, column=1):
    """Puts a value into a matrix, or into the second sequence."""

    def change(X):
        X = copy.deepcopy(X)
        if isinstance(X, list):
            X[1][1, column] = value
        else:
            X[row, column] = value
        return X

    return change


def csr(indices, columns=2):
    """A CSR matrix of six rows, the third of which has these indices."""
    size = len(indices)
    arrays = np.ones(size), np.array(indices), np.array([0, 0, 0, size, size, size, size])
    return lambda X: sp.csr_array(arrays, shape=(6, columns))


def sparse_sequence(indices):
    one = sp.csr_array((np.ones(2), np.array(indices), np.array([0, 0, 2])), shape=(2, 2))
    return lambda X: [sp.csr_array(X[0]), one, sp.csr_array(X[2])]


def constant(value):
    return lambda given: value


def without_last(given):
    return given[:-1]


BAD_NUMBERS = {"NaN": math.nan, "infinity": math.inf, "infinity ": -math.inf}

TABLE = [
    # X
    *(
        Bad(f"{name} in rows", rf"X contains {name.strip()}.* at row 2, column 1; drop", ROWS,
            X=number(value))
        for name, value in BAD_NUMBERS.items()
    ),
    *(
        Bad(f"{name} in sparse rows", rf"X contains {name.strip()}.* at row 2, column 1; drop",
            ROWS, X=lambda X, value=value: sp.csr_array(number(value)(X)))
        for name, value in BAD_NUMBERS.items()
    ),
    *(
        Bad(f"{name} in sequences",
            rf"X contains {name.strip()}.* at sequence 1, row 1, column 1; drop", LISTS,
            X=number(value))
        for name, value in BAD_NUMBERS.items()
    ),
    Bad("NaN in examples", r"Tags\.features of example 2 contains NaN, infinity or",
        ("structured",), X=number(math.nan)),
    Bad("text in X", r"X\[1, 0\] = 'red' cannot be read as a number; encode", ROWS,
        X=constant([[1, 2], ["red", 4]] * 3)),
    Bad("text in a sequence", r"X\[1\]\[0, 1\] = 'red' cannot be read as a number; encode",
        LISTS, X=constant([[[1, 2]], [[3, "red"], [5, 6]]])),
    Bad("complex X", r"Complex data not supported: X .*pass real", ROWS, X=lambda X: 1j * X),
    *(
        Bad(f"X = {value!r}", r"X is (a|of type) \w+: give .*a list", X=constant(value))
        for value in ({1, 2}, {0: [1.0]}, frozenset())
    ),
    Bad("X that is a generator", r"X is (a|of type) generator: give .*are a taut\.data\.Stream",
        X=lambda X: (x for x in X)),
    Bad("no X", r"X is None: give numbers", MATRICES, X=constant(None)),
    Bad("no examples at all", r"X is of type NoneType: give a list of examples", ("structured",),
        X=constant(None)),
    Bad("y that is a generator", r"Expected array-like .*for y; pass a list", (*CLASSES, "chain"),
        y=lambda y: (label for label in y)),
    Bad("y that is a set", r"y is of type set: give a list", ("structured",), y=constant({1, 2})),
    Bad("X in one dimension", r"2D array for X, got 1D.*Reshape", ROWS, X=constant(np.ones(6))),
    Bad("X in three dimensions", r"X has 3 dimensions .*flatten", ROWS,
        X=constant(np.ones((6, 2, 2)))),
    Bad("no rows", r"Found X with 0 sample\(s\).*check", ROWS, X=constant(np.ones((0, 2))),
        y=constant([])),
    Bad("no columns", r"Found X with 0 feature\(s\).*check", ROWS, X=constant(np.ones((6, 0)))),
    Bad("ragged rows", r"X is ragged: row 1 has 1 values, row 0 has 2; give", ROWS,
        X=constant([[1, 2], [3]] * 3)),
    Bad("no sequences", r"X has no sequences; pass at least one", LISTS, X=constant([]),
        y=constant([])),
    Bad("a sequence of no rows", r"X\[1\] has zero length; drop it", LISTS,
        X=lambda X: [X[0], X[1][:0], X[2]]),
    Bad("a sparse sequence of no rows", r"X\[0\] has zero length; drop it", LISTS,
        X=constant([sp.csr_array((0, 2))])),
    Bad("sequences of different widths", r"X\[1\] has 1 features, X\[0\] has 2; give", LISTS,
        X=lambda X: [X[0], X[1][:, :1], X[2]]),
    Bad("dense and sparse sequences", r"X\[1\] is sparse, X\[0\] is dense; make all", LISTS,
        X=lambda X: [X[0], sp.csr_array(X[1]), X[2]]),
    Bad("a list of rows", r"X\[0\] has shape \(2,\), expected \(length, n_features\); pass",
        LISTS, X=constant(list(X))),
    Bad("no examples", r"X has 0 sample\(s\).*give some examples", ("structured",),
        X=constant([]), y=constant([])),
    Bad("indices out of range", r"X has the column index 5 at row 2, outside 0\.\.1; count", ROWS,
        X=csr([0, 5])),
    Bad("indices of a sequence out of range",
        r"X\[1\] has the column index 5 at row 1, outside 0\.\.1; count", LISTS,
        X=sparse_sequence([0, 5])),
    # lengths
    Bad("lengths of other rows", r"lengths sum to 5, X has 6 rows; make", LISTS,
        X=np.vstack, fit={"lengths": [2, 3]}),
    Bad("a length of zero", r"lengths\[1\] = 0, .*drop it", LISTS, X=np.vstack,
        fit={"lengths": [3, 0, 3]}),
    Bad("a negative length", r"lengths\[0\] = -1, .*drop it", LISTS, X=np.vstack,
        fit={"lengths": [-1, 7]}),
    Bad("fractional lengths", r"lengths has dtype float64 .*pass one integer", LISTS,
        X=np.vstack, fit={"lengths": [3.0, 3.0]}),
    # y
    Bad("no y", r"requires y to be passed, but the target y is None", y=constant(None)),
    Bad("fewer labels than rows", r"X has 6 rows, y has 5 labels: give one label to each", CLASSES,
        y=without_last),
    Bad("fewer labels than examples", r"X has 6 examples, y has 5: give one label to each",
        ("structured",), y=without_last),
    Bad("fewer labelled sequences", r"y has 2 entries, X has 6 rows in 3 sequences; pass",
        LISTS, y=without_last),
    Bad("fewer labels than positions", r"y\[2\] has 2 labels, X\[2\] has 3 rows; pass", LISTS,
        y=lambda y: [*y[:2], y[2][:2]]),
    Bad("text for labels", r"y\[1\] is 'bc'; pass a list of 2 labels", LISTS,
        y=lambda y: [y[0], "bc", y[2]]),
    Bad("one class", r"y needs at least 2 classes, got 1 class: 'a'; add", CLASSES,
        y=constant(["a"] * 6)),
    Bad("one label in sequences", r"y needs at least 2 classes, got 1 class: 'a'; add",
        ("chain",), y=constant([["a"], ["a"] * 2, ["a"] * 3])),
    Bad("three classes for two", r"Only binary.*y has 3 classes: use MulticlassSVM", ("binary",),
        y=constant(list("abcabc"))),
    Bad("continuous y", r"y\[1\] = 0\.5 is continuous; classes are", CLASSES,
        y=constant([0.0, 0.5, 1.0, 2.0, 0.0, 1.0])),
    Bad("NaN in y", r"y\[3\] is or contains NaN; drop", CLASSES,
        y=constant([0.0, 1.0, 0.0, math.nan, 1.0, 0.0])),
    Bad("NaN in labels of sequences", r"y\[2\] is or contains NaN; drop", ("chain",),
        y=constant([["a"], ["b", math.nan], ["a"] * 3])),
    Bad("fewer numbers than rows", r"X has 6 rows, y has 5 numbers: give one to each",
        ("regression",), y=without_last),
    *(
        Bad(f"{name} in numbers", rf"y contains {name.strip()}.* at row 3; drop", ("regression",),
            y=constant([0.0, 1.0, 0.5, value, 1.0, 0.0]))
        for name, value in BAD_NUMBERS.items()
    ),
    Bad("text for numbers", r"y\[1\] = 'red' cannot be read as a number; encode", ("regression",),
        y=constant([1, "red", 2, 3, 4, 5])),
    Bad("two numbers per row", r"y: y should be a 1d array.*pass one number per row",
        ("regression",), y=constant(np.ones((6, 2)))),
    Bad("labels that are lists", r"y\[0\] is of type list, which is not hashable; use", CLASSES,
        y=constant([["a"], ["b"]] * 3)),
    Bad("a negative relevance", r"y\[4\] = -1 is negative: give relevances such as 0 to 4",
        ("rank",), y=constant([[1], [0, 2], [2, -1, 1]])),
    Bad("a huge relevance", r"y\[0\] = 1000 is more than 500: give relevances such as", ("rank",),
        y=constant([[1000], [0, 2], [2, 0, 1]])),
    *(
        Bad(f"{name} in relevances", rf"y contains {name.strip()}.* at row 2; drop", ("rank",),
            y=constant([[1], [0, value], [2, 0, 1]]))
        for name, value in BAD_NUMBERS.items()
    ),
    Bad("text for relevances", r"y\[0\] = 'red' cannot be read as a number; encode", ("rank",),
        y=constant([["red"], [0, 1], [2, 0, 1]])),
    # groups
    Bad("groups of other rows", r"X has 6 rows, groups has 5 labels: give one label to each",
        ("rank",), X=np.vstack, y=np.concatenate, fit={"groups": [1, 1, 2, 2, 3]}),
    Bad("groups and lengths", r"both groups and lengths are given: give one of them", ("rank",),
        X=np.vstack, y=np.concatenate, fit={"groups": [1] * 6, "lengths": [6]}),
    Bad("NaN in groups", r"groups\[1\] is or contains NaN; drop", ("rank",), X=np.vstack,
        y=np.concatenate, fit={"groups": [1.0, math.nan, 2.0, 2.0, 3.0, 3.0]}),
    Bad("groups that are lists", r"groups\[0\] is of type list, which is not hashable", ("rank",),
        X=np.vstack, y=np.concatenate, fit={"groups": [[1]] * 6}),
    Bad("groups of a list of matrices", r"X is ragged|X has 3 dimensions", ("rank",),
        fit={"groups": [1] * 6}),
    Bad("fewer relevances than rows", r"X has 6 rows, y has 5 labels: give one", ("rank",),
        X=np.vstack, y=constant([1, 0, 2, 1, 0]), fit={"groups": [1, 2, 1, 2, 1, 2]}),
    # sample_weight
    Bad("weights of other rows", r"sample_weight has shape \(2,\), expected \(6,\); pass one", ROWS,
        fit={"sample_weight": [1.0, 2.0]}),
    Bad("weights of positions", r"sample_weight has shape \(6,\), expected \(3,\); pass one weight "
        "per sequence", ("chain",), fit={"sample_weight": np.ones(6)}),
    Bad("weights of documents", r"sample_weight has shape \(6,\), expected \(3,\); pass one weight "
        "per query", ("rank",), fit={"sample_weight": np.ones(6)}),
    Bad("weights of other examples", r"sample_weight has shape \(3,\), expected \(6,\); pass one",
        ("structured",), fit={"sample_weight": np.ones(3)}),
    Bad("a negative weight", r"sample_weight\[1\] = -1\.0 is negative; pass weights >= 0", ROWS,
        fit={"sample_weight": [1, -1, 1, 1, 1, 1]}),
    Bad("a negative weight of a sequence", r"sample_weight\[2\] = -1\.0 is negative; pass",
        LISTS, fit={"sample_weight": [1, 1, -1]}),
    Bad("a NaN weight", r"sample_weight contains NaN at row 1; drop", ROWS,
        fit={"sample_weight": [1, math.nan, 1, 1, 1, 1]}),
    Bad("no weight at all", r"sample_weight is zero everywhere; give at least one",
        fit={"sample_weight": 0.0}),
    Bad("text for a weight", r"sample_weight\[0\] = 'a' cannot be read as a number",
        fit={"sample_weight": ["a"] * 6}),
    # parameters of all
    *(
        Bad(f"C = {value}", rf"C = {value}: it must be positive and finite",
            parameters={"C": value})
        for value in (0.0, -1.0, math.inf)
    ),
    *(
        Bad(f"{name} = {value!r}", rf"{name} = {value!r}: give a number", parameters={name: value})
        for name in ("C", "tol", "max_iter", "time_limit")
        for value in (math.nan, "1")
    ),
    Bad("tol < 0", r"tol = -1e-05: it must be 0 or more", parameters={"tol": -1e-5}),
    Bad("max_iter < 1", r"max_iter = 0: it must be at least 1", parameters={"max_iter": 0}),
    Bad("time_limit = 0", r"time_limit = 0\.0: it must be positive",
        parameters={"time_limit": 0.0}),
    *(
        Bad(f"n_jobs = {value!r}", rf"n_jobs = {value!r}: give a number of threads, or -1",
            parameters={"n_jobs": value})
        for value in (0, -2, 1.5, "2")
    ),
    *(
        Bad(f"solver = {value!r}", r"solver = .*: give 'auto', one of \['dual_coordinate'",
            parameters={"solver": value})
        for value in ("newton", None, DualCoordinate, ["auto"])
    ),
    *(
        Bad(f"random_state = {value!r}", r"random_state = -1: give an integer >= 0",
            parameters={"random_state": value})
        for value in (-1, np.int64(-1))
    ),
    *(
        Bad(f"random_state = {value!r}",
            r"random_state = .*: give an integer >= 0, a RandomState or Generator",
            parameters={"random_state": value})
        for value in ("a", 1.5, [1])
    ),
    *(
        Bad(f"verbose = {value!r}", r"verbose = .*: give a number", parameters={"verbose": value})
        for value in ("a", None, math.nan)
    ),
    *(
        Bad(f"warm_start = {value!r}", rf"warm_start = {value!r}: give True or False",
            parameters={"warm_start": value})
        for value in ("no", None, 2)
    ),
    *(
        Bad(f"C = {value}", r"C = 1e\+\d+: it is too large to compute with, give at most 1e\+100",
            parameters={"C": value})
        for value in (1e308, 1e200)
    ),
    Bad("checkpoint = 5", r"checkpoint = 5: give the path of a file, as text",
        parameters={"checkpoint": 5}),
    *(
        Bad(f"{name} of {value}", rf"{name} = {value}: give finite numbers",
            parameters={name: value})
        for name in ("prior_mean", "prior_precision")
        for value in (math.nan, math.inf)
    ),
    *(
        Bad(f"{value} in {name}", rf"{name}\[1\] = {value}: give finite numbers", ROWS,
            {name: [0.0, value]}, y=lambda y: ["a", "b"] * 3 if isinstance(y[0], str) else y)
        for name in ("prior_mean", "prior_precision")
        for value in (math.nan, -math.inf)
    ),
    *(
        Bad(f"callbacks = {value!r}", r"callbacks = .*: give a list of functions",
            parameters={"callbacks": value})
        for value in (print, None, ["print"])
    ),
    Bad("checkpoint in no folder", r"checkpoint = 'no/where': there is no folder no; create",
        parameters={"checkpoint": "no/where"}),
    # parameters of some
    *(
        Bad(f"fit_intercept = {value!r}", rf"fit_intercept = {value!r}: give True or False",
            ROWS, {"fit_intercept": value})
        for value in ("no", None, 0.5)
    ),
    *(
        Bad(f"boundary = {value!r}", rf"boundary = {value!r}: give True or False", ("chain",),
            {"boundary": value})
        for value in ("a", None, 2)
    ),
    *(
        Bad(f"intercept_scaling = {value}", r"intercept_scaling = \S+: it must be positive",
            ROWS, {"intercept_scaling": value})
        for value in (0.0, -1.0, math.inf)
    ),
    Bad("intercept_scaling = NaN", r"intercept_scaling = nan: give a number", ROWS,
        {"intercept_scaling": math.nan}),
    *(
        Bad(f"epsilon = {value}", rf"epsilon = {value}: it must be 0 or more, and finite",
            ("regression",), {"epsilon": value})
        for value in (-0.1, math.inf)
    ),
    *(
        Bad(f"epsilon = {value!r}", rf"epsilon = {value!r}: give a number", ("regression",),
            {"epsilon": value})
        for value in (math.nan, "0", None)
    ),
    Bad("class_weight of another label",
        r"class_weight has the key 'z', .*its classes are 'a', 'b'", CLASSES,
        {"class_weight": {"a": 1.0, "z": 2.0}}),
    *(
        Bad(f"class_weight of {value!r}", r"class_weight\['b'\] = .*; give finite numbers >= 0",
            CLASSES, {"class_weight": {"b": value}})
        for value in (-1.0, math.nan, math.inf, "2")
    ),
    Bad("class_weight of zero", r"class_weight is zero for all classes; give", CLASSES,
        {"class_weight": dict.fromkeys("abc", 0)}, y=constant(list("abcabc"))),
    Bad("class_weight by another name", r"class_weight = 'even': give None, 'balanced' or a dict",
        CLASSES, {"class_weight": "even"}),
    Bad("rescaling of neither", r"rescaling = 'both': give one of \('margin', 'slack'\)",
        ("multiclass",), {"rescaling": "both"}),
    Bad("cost of other classes", r"cost has shape \(2, 2\), the 3 classes need \(3, 3\)",
        ("multiclass",), {"cost": 1 - np.eye(2)}),
    Bad("cost of one dimension", r"cost has shape \(3,\), the 3 classes need \(3, 3\)",
        ("multiclass",), {"cost": [0.0, 1.0, 1.0]}),
    *(
        Bad(f"cost of {value}", r"cost\[2, 1\] = \S+: costs are finite and not negative",
            ("multiclass",), {"cost": number(value)(1 - np.eye(3))})
        for value in (-1.0, math.nan, math.inf)
    ),
    Bad("cost of the truth", r"cost\[1, 1\] = 0\.5: the truth must cost 0", ("multiclass",),
        {"cost": number(0.5, row=1)(1 - np.eye(3))}),
    *(
        Bad(f"loss = {value!r}", r"loss = .*: give one of \['hamming', 'mean_hamming'\]",
            ("chain",), {"loss": value})
        for value in ("hinge", None, ["hamming"])
    ),
    *(
        Bad(f"loss = {value!r}", r"loss = .*: give one of \['ndcg', 'pairwise'\]", ("rank",),
            {"loss": value})
        for value in ("hinge", None, ["ndcg"])
    ),
    *(
        Bad(f"k = {value!r}", rf"k = {value!r}: give the number of ranks that count, or None",
            ("rank",), {"k": value, "loss": "ndcg"})
        for value in (0, -1, 2.5, "3")
    ),
    *(
        Bad(f"structure = {value!r}", r"structure = .* has no .*loss and no argmax: subclass taut",
            ("structured",), {"structure": value})
        for value in (None, "tags", 3)
    ),
    Bad("structure that is a class", r"structure = Tags is a class: give an object, Tags\(",
        ("structured",), {"structure": Tags}),
]  # fmt: skip

EACH = [pytest.param(bad, on, id=f"{on}-{bad.name}") for bad in TABLE for on in bad.on]


def refitted(name, bad):
    """A fitted model with bad parameters, and the arguments of the fit that must fail."""
    _, X, y = GOOD[name]
    X = X if bad.X is None else bad.X(X)
    y = y if bad.y is None else bad.y(y)
    return copy.copy(fitted(name)).set_params(**bad.parameters), (X, y), bad.fit


def assert_unchanged(model, before):
    assert vars(model).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(model).items())


@pytest.mark.parametrize(("bad", "name"), EACH)
def test_bad_input_is_named_and_changes_nothing(bad, name):
    model, data, more = refitted(name, bad)
    before = dict(vars(model))
    with pytest.raises(InvalidData, match=bad.words):
        model.fit(*data, **more)
    assert_unchanged(model, before)


@pytest.mark.parametrize("name", EVERY)
def test_a_failing_callback_changes_nothing(name):
    def fail(record):
        raise RuntimeError("disk full")

    model = copy.copy(fitted(name)).set_params(callbacks=[fail], C=9.0)
    before = dict(vars(model))
    with pytest.raises(RuntimeError, match="disk full"):
        model.fit(*GOOD[name][1:])
    assert_unchanged(model, before)


# Structures of one's own: what they return is known when they are asked.


class Negative(Tags):
    def loss(self, truth, label):
        return -1.0

    def argmax(self, x, w, truth=None):
        return (0, 0)


class NotANumber(Negative):
    def loss(self, truth, label):
        return math.nan


class Unbounded(Negative):
    def loss(self, truth, label):
        return math.inf


class Undefined(Tags):
    def features(self, x, label):
        return super().features(x, label) * (math.nan if label == (0, 0) else 1.0)

    def argmax(self, x, w, truth=None):
        return (0, 0)


class Matrix(Tags):
    def features(self, x, label):
        return super().features(x, label)[None]


class Ragged(Tags):
    def features(self, x, label):
        return super().features(x, label)[: 4 if label == (0, 0) else 5]

    def argmax(self, x, w, truth=None):
        return (0, 0)


class Short(Ragged):
    """Of a length that numpy would stretch."""

    def features(self, x, label):
        return np.ones(1 if label == (0, 0) else 5)


@pytest.mark.parametrize(
    ("structure", "words"),
    [
        (Negative, r"Negative\.loss of example \d is -1\.0: losses are >= 0"),
        (NotANumber, r"NotANumber\.loss of example \d is nan: losses are"),
        (Unbounded, r"Unbounded\.loss of example \d is inf: losses"),
        (Undefined, r"Undefined\.features of example \d contains NaN, infinity or .*: check"),
        (Matrix, r"Matrix\.features of example 0 has shape \(1, 5\): return a 1-D array"),
        (Ragged, r"Ragged\.features of example \d .*4"),
        (Short, r"Short\.features of example \d .*1"),
    ],
)
def test_bad_structures_are_named_and_change_nothing(structure, words):
    model = copy.copy(fitted("structured")).set_params(structure=structure(2), max_iter=50)
    for check, expected in ((False, words), (True, structure.__name__)):
        model.set_params(check=check)
        before = dict(vars(model))
        with pytest.raises((InvalidData, InvalidStructure), match=expected):
            model.fit(*GOOD["structured"][1:])
        assert_unchanged(model, before)


# Prediction

METHODS = [
    (name, method)
    for name in EVERY
    for method in ("predict", "decision_function", "score")
    if hasattr(GOOD[name][0], method)
]


def call(model, method, name, X):
    y = GOOD[name][2]
    return getattr(model, method)(X, y) if method == "score" else getattr(model, method)(X)


@pytest.mark.parametrize(("name", "method"), METHODS)
def test_unfitted_models_say_so(name, method):
    model = clone(GOOD[name][0])
    with pytest.raises(NotFittedError, match=rf"{type(model).__name__} .*not fitted.*Call 'fit'"):
        call(model, method, name, GOOD[name][1])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("name", "method"), [m for m in METHODS if m[0] in MATRICES])
def test_other_numbers_of_features_are_refused(name, method, form):
    wide = (
        [form(np.ones((len(x), 3))) for x in SEQUENCES] if name in LISTS else form(np.ones((6, 3)))
    )
    words = rf"X has 3 features, but {type(fitted(name)).__name__} is expecting 2 features"
    with pytest.raises(ValueError, match=words):
        call(fitted(name), method, name, wide)


@pytest.mark.parametrize("method", ["predict", "score"])
def test_other_joint_features_are_refused(method):
    model = StructuredSVM(Multiclass(3), random_state=0).fit(X, np.arange(6) % 3)
    data = (np.ones((6, 3)), np.arange(6) % 3)[: 1 + (method == "score")]
    with pytest.raises(InvalidData, match=r"X has 9 joint features, .* expecting 6: give"):
        getattr(model, method)(*data)


@pytest.mark.parametrize(("name", "method"), [m for m in METHODS if m[0] in MATRICES])
def test_missing_values_are_refused_in_prediction(name, method):
    bad = number(math.nan)(GOOD[name][1])
    place = "sequence 1, row 1" if name in LISTS else "row 2"
    with pytest.raises(InvalidData, match=f"X contains NaN at {place}, column 1; drop"):
        call(fitted(name), method, name, bad)


@pytest.mark.parametrize("name", EVERY)
def test_scores_of_other_lengths_are_refused(name):
    with pytest.raises(InvalidData, match=r"X has .*y has|y has .* X has"):
        fitted(name).score(GOOD[name][1], GOOD[name][2][:-1])


@pytest.mark.parametrize("name", MATRICES)
def test_bad_weights_of_scores_are_refused(name):
    with pytest.raises(InvalidData, match=r"sample_weight has shape \(2,\), expected"):
        fitted(name).score(*GOOD[name][1:], [1.0, 2.0])


# Objects and files


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda path: Checkpoint(path, seconds="a"), r"seconds = 'a': give a number"),
        (lambda path: Checkpoint(path, seconds=-1), r"seconds = -1: give 0 or more"),
        (lambda path: Checkpoint(3), r"checkpoint = 3: give the path of a file, as text"),
        (lambda path: OnlineCache(online_gap="a"), r"online_gap = 'a': give a number"),
        (lambda path: OnlineCache(cache_gap=None), r"cache_gap = None: give a number"),
        (lambda path: OnlineCache(max_rounds="a"), r"max_rounds = 'a': give a number"),
        (lambda path: OnlineCache(reach=math.nan), r"reach = nan: give a number"),
        (lambda path: taut.load(3), r"path = 3: give the path of a file, as text"),
        (lambda path: taut.load(None), r"path = None: give the path of a file, as text"),
        (lambda path: fitted("binary").save(3), r"path = 3: give the path of a file, as text"),
        (
            lambda path: fitted("binary").save(path / "none" / "m.taut"),
            r"path = '.*m\.taut': there is no folder .*none; create it, or give another path",
        ),
        (
            lambda path: taut.path_cv(BinarySVM(), X, list("abbaab"), 0.1, 1.0, verbose="a"),
            r"verbose = 'a': give a number",
        ),
        (
            lambda path: taut.path(BinarySVM(), X, list("abbaab"), 0.1, 1.0, verbose="a"),
            r"verbose = 'a': give a number",
        ),
    ],
)
def test_what_is_no_parameter_of_these_is_named(call, words, tmp_path):
    with pytest.raises(InvalidData, match=words):
        call(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_also_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        fitted("binary").save(tmp_path / "none" / "m.taut")


@pytest.mark.parametrize("seed", [np.int64(3), np.random.RandomState(3), np.random])
def test_seeds_of_numpy(seed):
    model, X, y = GOOD["binary"]
    assert clone(model).set_params(random_state=seed).fit(X, y).score(X, y) > 0.0


def test_generators_of_numpy_are_seeds(tmp_path):
    model, X, y = GOOD["binary"]
    models = [
        clone(model).set_params(random_state=np.random.default_rng(7)).fit(X, y) for _ in range(2)
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    models[0].save(tmp_path / "m.taut")
    assert taut.load(tmp_path / "m.taut").random_state is None
