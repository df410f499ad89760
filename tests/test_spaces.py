"""No solver touches coordinates of w that the space did not hand out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cases import long_if
from quadratic_space import QuadraticFeatures, explicit
from taut import Problem, Regularizer, solve
from taut.errors import InvalidData
from taut.solvers import DualCoordinate, FrankWolfe, MultiSample, NSlack, OneSlack, OnlineCache
from taut.structures import Chain, Graph, Multiclass, Scalar, Tree

SOLVERS = {
    "dual_coordinate": DualCoordinate(),
    "multi_sample": MultiSample(),
    "multi_sample_2": MultiSample(2, "argmax"),
    "frank_wolfe": FrankWolfe(),
    "n_slack": NSlack(),
    "one_slack": OneSlack(),
}


def scalar(rng):
    X = rng.normal(size=(12, 3))
    return Scalar(), lambda rows: rows(X), np.sign(rng.normal(size=12))


def multiclass(rng):
    X = rng.normal(size=(12, 3))
    return Multiclass(3), lambda rows: rows(X), rng.integers(3, size=12)


def chain(rng):
    X, offsets = rng.normal(size=(14, 3)), np.array([0, 3, 4, 8, 10, 14])
    return Chain(3, boundary=True), lambda rows: (rows(X), offsets), rng.integers(3, size=14)


def tree(rng):
    sizes = [4, 1, 5, 3]
    nodes = [rng.normal(size=(n, 3)) for n in sizes]
    edges = [[(rng.integers(v), v) for v in range(1, n)] for n in sizes]
    y = [rng.integers(3, size=n) for n in sizes]
    return Tree(3), lambda rows: list(zip(map(rows, nodes), edges, strict=True)), y


def graph(rng):
    cycle = [(0, 1), (2, 1), (2, 3), (3, 0)]
    nodes, edges = rng.normal(size=(5, 4, 3)), rng.normal(size=(5, 4, 2))
    y = list(rng.integers(3, size=(5, 4)))
    structure = Graph(3, pairwise="potts")
    return (
        structure,
        lambda rows: [(rows(x), cycle, f) for x, f in zip(nodes, edges, strict=True)],
        y,
    )


STRUCTURES = {"scalar": scalar, "multiclass": multiclass, "chain": chain}
GRAPHS = {"tree": tree, "graph": graph}

#: Each solver and each form of dual variables in the pair that is compiled fastest; where samples
#: are merged, that is classes. Others are for long tests.
QUICK = [
    *(("dual_coordinate", name) for name in STRUCTURES),
    ("multi_sample", "multiclass"),
    ("multi_sample_2", "multiclass"),
    ("frank_wolfe", "scalar"),
    ("n_slack", "scalar"),
    ("one_slack", "multiclass"),
    ("one_slack", "chain"),
]


@pytest.mark.parametrize(
    ("solver", "name"),
    [
        *(
            long_if((solver, name) not in QUICK, solver, name)
            for solver in SOLVERS
            for name in STRUCTURES
        ),
        *(long_if(True, "dual_coordinate", name) for name in GRAPHS),
    ],
)
def test_inner_products_alone_lead_to_the_optimum_of_explicit_features(solver, name, rng):
    structure, X, y = (STRUCTURES | GRAPHS)[name](rng)
    kernelised = Problem(structure, X(np.asarray), y, C=0.7, space=QuadraticFeatures)
    written_down = Problem(structure, X(explicit), y, C=0.7)
    options = {"tol": 1e-3, "random_state": 0, "max_iter": 5000}
    ours = solve(kernelised, SOLVERS[solver], **options).certificate
    reference = solve(written_down, tol=1e-8, random_state=0).certificate
    assert ours.status.name == reference.status.name == "CONVERGED"
    assert ours.dual <= reference.primal * (1 + 1e-8)
    assert ours.primal >= reference.dual * (1 - 1e-8)
    assert_allclose(ours.primal, reference.primal, rtol=2e-3)


@pytest.mark.parametrize("name", [*STRUCTURES, "graph", long_if(True, "tree")])
def test_dual_coordinate_takes_the_same_steps_as_with_explicit_features(name, rng):
    structure, X, y = (STRUCTURES | GRAPHS)[name](rng)
    kernelised = Problem(structure, X(np.asarray), y, C=0.7, space=QuadraticFeatures)
    written_down = Problem(structure, X(explicit), y, C=0.7)
    options = {"tol": 1e-12, "random_state": 0, "max_iter": 7}
    ours, theirs = solve(kernelised, **options), solve(written_down, **options)
    assert_allclose(
        [record.dual for record in ours.history], [record.dual for record in theirs.history]
    )


def test_another_space_is_refused_where_data_are_read_chunk_by_chunk(rng):
    structure, X, y = multiclass(rng)
    problem = Problem(structure, X(np.asarray), y, space=QuadraticFeatures)
    with pytest.raises(InvalidData, match=r"space of its own.*leave the kernel or the space out"):
        solve(problem, OnlineCache())


@pytest.mark.parametrize("given", [{"nonneg": True}, {"mean": 1.0}, {"precision": 2.0}])
def test_a_prior_on_weights_is_refused_where_points_are_none(given, rng):
    structure, X, y = multiclass(rng)
    prior = Regularizer(**given)
    with pytest.raises(InvalidData, match="leave out regularizer, or space"):
        Problem(structure, X(np.asarray), y, space=QuadraticFeatures, regularizer=prior)
