"""The lists whose products are tested: a structure or a solver is one line here.

A case is a problem small enough to enumerate. Its blocks can be repeated and left out, and come
with psi and losses from `reference`, in the layout of w that the library uses.
"""

import dataclasses
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from own_structures import (
    CompiledTags,
    ListedCompiledTags,
    ListedTags,
    MappedTags,
    Tags,
)
from reference import (
    bags_blocks,
    binary_blocks,
    chain_blocks,
    graph_blocks,
    latent_multiclass_blocks,
    multiclass_blocks,
    ndcg_blocks,
    ndcg_labels,
    pairwise_blocks,
    pairwise_labels,
    regression_blocks,
    slack_blocks,
)
from taut import Problem
from taut.solvers import (
    DualCoordinate,
    ExponentiatedGradient,
    FrankWolfe,
    HardNegatives,
    MultiSample,
    NSlack,
    OneSlack,
    OnlineCache,
    PartialLinearization,
    Subgradient,
    WorkingSet,
)
from taut.structures import (
    Bags,
    Chain,
    Graph,
    LatentMulticlass,
    Multiclass,
    NdcgRanking,
    PairwiseRanking,
    Regression,
    Scalar,
    SlackRescaled,
    Tree,
)


@dataclass(frozen=True)
class Case:
    """Blocks (xs[i], ys[i]) of a structure.

    `pack` turns lists of x and y into what the structure takes, `enumerated` into psi and losses;
    `labels` gives all labels of a block, in the order of psi, as int32 rows or as the user's own.
    Predictions are those of the case `base`, where there is one.
    """

    structure: Any
    xs: list
    ys: list
    pack: Callable
    enumerated: Callable
    labels: Callable
    base: Any = None

    @property
    def n_blocks(self):
        return len(self.xs)

    def data(self, blocks=None):
        """X and y of these blocks, all by default."""
        blocks = range(self.n_blocks) if blocks is None else blocks
        return self.pack([self.xs[i] for i in blocks], [self.ys[i] for i in blocks])

    def problem(self, C=1.0, sample_weight=None, blocks=None):
        return Problem(self.structure, *self.data(blocks), C=C, sample_weight=sample_weight)

    @cached_property
    def reference(self):
        """psi and losses of all labels of all blocks."""
        return self.enumerated(self.xs, self.ys)


def _rows(kind):
    """Pack rows of numbers and one number for each as a matrix of some kind and an array."""
    return lambda xs, ys: (kind(np.array(xs)), np.array(ys))


def _stacked(kind):
    """Pack matrices and arrays of numbers one below the other, with the offsets of each."""

    def pack(xs, ys):
        offsets = np.cumsum([0] + [len(y) for y in ys])
        return (kind(np.vstack(xs)), offsets), np.concatenate(ys)

    return pack


def _features(rng, n, d, least=0.0):
    """Rows of numbers, those below the least size left out."""
    X = rng.normal(size=(n, d))
    return X * (np.abs(X) > least)


def _least(kind, sparse=0.9):
    """Rows of most structures are stored as they are given if they are full or mostly empty."""
    return sparse if kind is sp.csr_array else 0.0


def scalar(kind=np.asarray, bias=0.0):
    rng = np.random.default_rng(1)
    return Case(
        Scalar(bias=bias),
        list(_features(rng, 9, 3, _least(kind))),
        list(rng.choice([-1.0, 1.0], 9)),
        _rows(kind),
        lambda xs, ys: binary_blocks(np.array(xs), np.array(ys), bias),
        lambda i: np.array([[1]], dtype=np.int32),
    )


def regression(kind=np.asarray, epsilon=0.3, bias=0.0):
    rng = np.random.default_rng(17)
    return Case(
        Regression(epsilon, bias),
        list(_features(rng, 9, 3, _least(kind)).astype(np.float32).astype(np.float64)),
        list(rng.normal(size=9)),
        _rows(kind),
        lambda xs, ys: regression_blocks(np.array(xs), np.array(ys), epsilon, bias),
        lambda i: np.array([[1], [-1]], dtype=np.int32),
    )


def multiclass(kind=np.asarray, bias=0.0, costs=False, n_classes=4):
    rng = np.random.default_rng(2)
    cost = rng.uniform(0.5, 2.0, size=(n_classes, n_classes)) * (1.0 - np.eye(n_classes))
    cost = cost if costs else None
    # Exact in single precision, so that one reference serves both.
    xs = _features(rng, 9, 3, _least(kind)).astype(np.float32).astype(np.float64)
    return Case(
        Multiclass(n_classes, cost, bias),
        list(xs),
        list(rng.integers(n_classes, size=9)),
        _rows(kind),
        lambda xs, ys: multiclass_blocks(np.array(xs), np.array(ys), n_classes, cost, bias),
        lambda i: np.arange(n_classes, dtype=np.int32)[:, None],
    )


def chain(kind=np.asarray, normalize=False, boundary=False, n_labels=3):
    rng = np.random.default_rng(3)
    lengths = (1, 4, 2, 3, 3, 1)
    ys = [rng.integers(n_labels, size=length) for length in lengths]

    def labels(i):
        return np.array(list(itertools.product(range(n_labels), repeat=lengths[i])), dtype=np.int32)

    return Case(
        Chain(n_labels, normalize, boundary),
        [_features(rng, length, 2, _least(kind)) for length in lengths],
        ys,
        _stacked(kind),
        lambda xs, ys: chain_blocks(xs, ys, n_labels, normalize, boundary),
        labels,
    )


# Nodes and edges: a pair, a star, a node alone, a forest, a path; then a triangle and a square.
FORESTS = [(2, "10"), (4, "01 02 03"), (1, ""), (3, "12"), (3, "01 12")]
GRAPHS = [*FORESTS, (3, "01 12 20"), (4, "01 12 23 30")]


def graph(
    structure, shapes=GRAPHS, kind=np.asarray, pairwise="full", normalize=False, n_edge_features=1
):
    rng = np.random.default_rng(8)
    n_labels = structure.n_labels
    xs = []
    for n_nodes, text in shapes:
        edges = [[int(u), int(v)] for u, v in text.split()]
        weights = rng.uniform(0.5, 1.5, size=(len(edges), n_edge_features))
        xs.append((_features(rng, n_nodes, 2, least=0.4), edges, weights))

    def labels(i):
        choices = itertools.product(range(n_labels), repeat=shapes[i][0])
        return np.array(list(choices), dtype=np.int32)

    return Case(
        structure,
        xs,
        [rng.integers(n_labels, size=n_nodes) for n_nodes, _ in shapes],
        lambda xs, ys: ([(kind(x), *edges) for x, *edges in xs], ys),
        lambda xs, ys: graph_blocks(xs, ys, n_labels, pairwise, normalize),
        labels,
    )


# Ties, one document, documents that are all equally relevant, and relevances that are no integers.
RELEVANCES = [[2, 0, 1, 0], [1], [0, 0.5, 3], [1, 1], [0, 0, 0], [1, 0], [0, 2, 2, 1], [4, 0, 0]]


def pairwise(kind=np.asarray):
    rng = np.random.default_rng(6)
    return Case(
        PairwiseRanking(),
        [_features(rng, len(relevance), 3, _least(kind)) for relevance in RELEVANCES],
        RELEVANCES,
        _stacked(kind),
        pairwise_blocks,
        lambda i: pairwise_labels(RELEVANCES[i]),
    )


def ndcg(kind=np.asarray, k=10):
    rng = np.random.default_rng(7)
    return Case(
        NdcgRanking(k),
        [_features(rng, len(relevance), 3, _least(kind)) for relevance in RELEVANCES],
        RELEVANCES,
        _stacked(kind),
        lambda xs, ys: ndcg_blocks(xs, ys, k or 4),
        lambda i: ndcg_labels(RELEVANCES[i], k or 4),
    )


def _stack(kind, xs):
    """Matrices as one of some kind, and where each begins."""
    return kind(np.vstack(xs)), np.cumsum([0] + [len(x) for x in xs])


def bags(kind=np.asarray, bias=0.0):
    rng = np.random.default_rng(6)
    lengths = (1, 4, 2, 3, 3, 1, 2, 5)
    ys = [0, -1, 1, -1, 2, -1, 0, -1]

    def labels(i):
        candidates = [0, *range(1, lengths[i] + 1)] if ys[i] < 0 else [ys[i] + 1, 0]
        return np.array(candidates, dtype=np.int32)[:, None]

    return Case(
        Bags(bias),
        [_features(rng, length, 3, _least(kind)) for length in lengths],
        ys,
        lambda xs, ys: (_stack(kind, xs), np.array(ys)),
        lambda xs, ys: bags_blocks(xs, ys, bias),
        labels,
    )


def latent_multiclass(kind=np.asarray, bias=0.0, costs=False, n_classes=3):
    rng = np.random.default_rng(8)
    lengths = (1, 4, 2, 3, 3, 1, 2)
    cost = rng.uniform(0.5, 2.0, size=(n_classes, n_classes)) * (1.0 - np.eye(n_classes))
    cost = cost if costs else None
    least = _least(kind, 0.4)  # with emptier frames a large C takes very many passes
    xs = [_features(rng, n, 3, least).astype(np.float32).astype(np.float64) for n in lengths]

    def labels(i):
        pairs = itertools.product(range(lengths[i]), range(n_classes))
        return np.array([(k, z) for z, k in pairs], dtype=np.int32)

    return Case(
        LatentMulticlass(n_classes, cost, bias),
        xs,
        [(rng.integers(n_classes), rng.integers(n)) for n in lengths],
        lambda xs, ys: (_stack(kind, xs), np.array(ys)),
        lambda xs, ys: latent_multiclass_blocks(xs, ys, n_classes, cost, bias),
        labels,
    )


def tags(structure=CompiledTags, n_tags=3):
    rng = np.random.default_rng(4)
    plain = Tags(n_tags)
    rows = np.array(plain.subsets, dtype=np.int32)

    def enumerated(xs, ys):
        phi = [np.array([plain.features(x, label) for label in plain.subsets]) for x in xs]
        psi = [plain.features(x, y) - p for x, y, p in zip(xs, ys, phi, strict=True)]
        losses = [np.array([plain.loss(y, label) for label in plain.subsets], float) for y in ys]
        return psi, losses

    return Case(
        structure(n_tags),
        list(rng.normal(size=(8, 2))),
        [tuple(bits) for bits in rng.integers(2, size=(8, n_tags)).tolist()],
        lambda xs, ys: (np.array(xs), list(ys)),
        enumerated,
        lambda i: plain.subsets if issubclass(structure, Tags) else rows,
    )


def slack(case):
    """The same with its slacks rescaled."""
    return dataclasses.replace(
        case,
        structure=SlackRescaled(case.structure),
        enumerated=lambda xs, ys: slack_blocks(*case.enumerated(xs, ys)),
        base=case,
    )


def with_truth(case):
    """The same with the truth, label 0, among the labels of each block."""

    def enumerated(xs, ys):
        psi, losses = case.enumerated(xs, ys)
        return [np.vstack([0.0 * p[:1], p]) for p in psi], [np.append(0.0, c) for c in losses]

    return dataclasses.replace(
        case, enumerated=enumerated, labels=lambda i: np.vstack([[[0]], case.labels(i)])
    )


def _single(X):
    return np.asarray(X, dtype=np.float32)


STRUCTURES = {
    "scalar": scalar(),
    "scalar-bias": scalar(bias=0.5),
    "scalar-csr": scalar(sp.csr_array),
    "scalar-csr-bias": scalar(sp.csr_array, bias=2.0),
    "regression": regression(),
    "regression-bias": regression(bias=0.5),
    "regression-absolute": regression(epsilon=0.0),
    "regression-single": regression(_single, bias=1.0),
    "regression-csr-bias": regression(sp.csr_array, bias=2.0),
    "multiclass": multiclass(),
    "multiclass-bias": multiclass(bias=0.5),
    "multiclass-cost": multiclass(costs=True),
    "multiclass-cost-bias": multiclass(costs=True, bias=2.0),
    "multiclass-single": multiclass(_single, bias=1.0),
    "multiclass-csr": multiclass(sp.csr_array),
    "multiclass-csr-cost-bias": multiclass(sp.csr_array, costs=True, bias=2.0),
    "chain": chain(),
    "chain-normalize": chain(normalize=True),
    "chain-boundary": chain(boundary=True),
    "chain-csr": chain(sp.csr_array),
    "chain-csr-normalize-boundary": chain(sp.csr_array, normalize=True, boundary=True),
    "tree": graph(Tree(3), FORESTS),
    "graph": graph(Graph(2), n_edge_features=2),
    "graph-potts": graph(Graph(3, "potts", normalize=True), pairwise="potts", normalize=True),
    "graph-symmetric": graph(Graph(2, "symmetric"), pairwise="symmetric"),
    "graph-csr-symmetric": graph(Graph(2, "symmetric"), kind=sp.csr_array, pairwise="symmetric"),
    "pairwise": pairwise(),
    "pairwise-csr": pairwise(sp.csr_array),
    "ndcg": ndcg(),
    "ndcg-2": ndcg(k=2),
    "ndcg-all": ndcg(k=None),
    "ndcg-csr-all": ndcg(sp.csr_array, k=None),
    "bags": bags(),
    "bags-bias": bags(bias=0.5),
    "bags-csr-bias": bags(sp.csr_array, bias=0.5),
    "latent-multiclass": latent_multiclass(),
    "latent-multiclass-cost-bias": latent_multiclass(bias=0.5, costs=True),
    "latent-multiclass-csr-cost-bias": latent_multiclass(sp.csr_array, bias=0.5, costs=True),
    "tags-plain": tags(Tags),
    "tags-compiled": tags(CompiledTags),
    "tags-mapped": tags(MappedTags),
    "scalar-slack": slack(with_truth(scalar(bias=0.5))),
    "multiclass-slack": slack(multiclass(costs=True)),
    "multiclass-slack-bias": slack(multiclass(costs=True, bias=2.0)),
    "multiclass-csr-slack-bias": slack(multiclass(sp.csr_array, costs=True, bias=2.0)),
    "tags-plain-slack": slack(tags(ListedTags, n_tags=2)),  # more take plain Python long
    "tags-compiled-slack": slack(tags(ListedCompiledTags)),
}

SOLVERS = {
    "default": DualCoordinate(),
    "recentring-0": DualCoordinate(recentring=0.0),
    "shrink-0": DualCoordinate(shrink=0.0),
    "order-gap": DualCoordinate(order="gap"),
    "cached-0": DualCoordinate(cached_passes=0),
    "online": OnlineCache(memory="10MB"),
    "partial-linearization": PartialLinearization(),
    "partial-linearization-batch": PartialLinearization(0.1, update="batch", recentring=0.0),
    "exponentiated-gradient": ExponentiatedGradient(20.0),
    "frank-wolfe": FrankWolfe(recentring=0.0),
    "frank-wolfe-batch": FrankWolfe(update="batch", recentring=0.0),
    "frank-wolfe-away": FrankWolfe("away"),
    "frank-wolfe-pairwise-gap": FrankWolfe("pairwise", order="gap"),
    "multi-sample": MultiSample(),
    "multi-sample-2": MultiSample(2, recentring=0.0),
    "one-slack": OneSlack(),
    "n-slack": NSlack(),
    "n-slack-batch": NSlack(batch=3),
    "working-set": WorkingSet(batch=3, check_every=5, patience=2),
    "working-set-closed": WorkingSet(2, 2, "auto", "closed_form", "gap", eps=1e-12),
    "hard-negatives": HardNegatives(inner_gap=1e-9),
    # Passive-aggressive steps and the perceptron do not converge to the optimum: their bounds are
    # tested in test_sequential.py.
    "subgradient": Subgradient(),
}

#: Relative gaps that solvers reach in some thousand passes, where they are slow in the end.
REACH = {
    "partial-linearization": 2e-5,
    "partial-linearization-batch": 1e-4,
    "exponentiated-gradient": 1e-3,
    "frank-wolfe": 2e-3,
    "frank-wolfe-batch": 2e-3,
    "multi-sample": 1e-3,
    "multi-sample-2": 2e-3,
    "subgradient": 1e-2,
}

#: Those of them that work on labels, and need no means.
BY_LABELS = ("frank-wolfe", "multi-sample", "multi-sample-2", "subgradient")

#: Structures that differ from others in how rows are stored, in their precision, in the bias, in
#: who lists labels or in what has its slacks rescaled, and in nothing else. Scalars, classes and
#: chains are tested in all ways by every change, the structures here by long tests.
TWINS = (
    "scalar-csr",
    "regression-single",
    "multiclass-csr",
    "bags",
    "latent-multiclass",
    "multiclass-slack",
    "scalar-slack",
    "tags-compiled-slack",
    "regression-csr-bias",
    "graph-csr-symmetric",
    "pairwise-csr",
    "ndcg-csr-all",
    "bags-csr-bias",
    "latent-multiclass-csr-cost-bias",
    "multiclass-csr-slack-bias",
)

#: Structures for solvers that work with few forms of dual variables: compiling for all takes long.
SOME = ("multiclass-cost-bias", "chain", "tags-plain")
MORE = (
    "scalar-bias",
    "multiclass-single",
    "multiclass-csr-cost-bias",
    "chain-csr-normalize-boundary",
    "tags-compiled",
)

#: Solvers whose kernels resemble those of others that run on chains: for these, chains take long.
ALIKE = (
    "partial-linearization-batch",
    "exponentiated-gradient",
    "multi-sample-2",
    "n-slack-batch",
    "working-set",
    "hard-negatives",
    "frank-wolfe",  # classes have planes that are labels too
    "frank-wolfe-batch",
    "frank-wolfe-away",
    "frank-wolfe-pairwise-gap",
    "working-set-closed",
)

#: Structures whose blocks the online solver keeps: each form of dual variables, and each way in
#: which rows are stored. Its passes are those of the default solver. Copies of blocks are tested
#: for all structures that make them (test_taking.py); others, as tags, have theirs encoded anew.
KEPT = (
    "scalar-bias",
    "regression-bias",
    "multiclass-cost-bias",
    "multiclass-single",
    "multiclass-csr-cost-bias",
    "chain",
    "latent-multiclass-cost-bias",
    "tags-plain",
    "tags-compiled",
    "multiclass-slack-bias",
)

#: Variants of a solver, which run on SOME alone.
VARIANTS = (
    "frank-wolfe-batch",
    "frank-wolfe-pairwise-gap",
    "multi-sample-2",
    "n-slack-batch",
    "working-set-closed",
)

#: Pairs beyond SOME that no change may break: where slacks are those of another objective for all
#: but scalars, and one solver with cutting planes and one without that work in single precision.
ALSO = (
    ("scalar-bias", "hard-negatives"),
    ("multiclass-single", "n-slack"),
    ("multiclass-single", "subgradient"),
)


def names(structures=tuple(STRUCTURES), long=TWINS):
    """Names of structures as parameters of tests."""
    return [long_if(name in long, name) for name in structures]


def long_if(condition, *values, **options):
    """Parameters of a test, which is a long one under a condition."""
    return pytest.param(*values, marks=[pytest.mark.long] * bool(condition), **options)


def pairs():
    """Structures and solvers that go together, as parameters of tests.

    Means are oracles of their own, so that all structures that have them are tried, most of them
    by long tests.
    """
    for structure, case in STRUCTURES.items():
        for name, solver in SOLVERS.items():
            foundation = isinstance(solver, DualCoordinate | OnlineCache)
            by_means = name in REACH and name not in BY_LABELS
            has_means = getattr(case.structure, "expect", None) is not None
            some = structure in SOME
            more = (structure in MORE and name not in VARIANTS) or name == "partial-linearization"
            if foundation:
                kept = structure in KEPT or not isinstance(solver, OnlineCache)
                yield long_if(structure in TWINS or not kept, structure, name)
            elif (some or more) and (has_means or not by_means):
                quick = some and (structure != "chain" or name not in ALIKE)
                yield long_if(not quick and (structure, name) not in ALSO, structure, name)
