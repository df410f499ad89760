"""Joint kernels: the optimum of an independent QP, what is computed how often, what is refused."""

import pickle
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from cases import long_if
from reference import primal, solve_qp
from taut import Problem, Status, StructuredSVM, load, solve
from taut.data import Stream
from taut.errors import InvalidData, InvalidStructure, InvalidType, MemoryUsedUp, NotConverged
from taut.kernels import (
    RBF,
    ClassSimilarity,
    Linear,
    PairFunction,
    PairProduct,
    Precomputed,
    VonMisesLabels,
)
from taut.solvers import DualCoordinate, FrankWolfe, OneSlack, WorkingSet
from taut.spaces.joint import PairTable
from taut.spaces.kernel import through_kernel
from taut.structures import JointKernel, Multiclass, SimilarClasses

N, K = 14, 4
TREE = {"a": [0, 1], "b": [2, 3]}
SOLVERS = {
    "dual-coordinate": DualCoordinate(),
    "working-set": WorkingSet(batch=3),
    "working-set-3": WorkingSet(batch=3, n_planes=3, update="closed_form"),
    "one-slack": OneSlack(),
    "frank-wolfe": FrankWolfe("pairwise"),
}


@pytest.fixture
def data():
    rng = np.random.default_rng(5)
    return rng.normal(size=(N, 3)), rng.integers(K, size=N)


def values(kernel, pairs):
    """The matrix of a kernel over pairs, by its formula."""
    return np.array([[kernel(x, y, z, v) for z, v in pairs] for x, y in pairs])


def by_tree(x, y, z, v):
    """RBF times the share of common groups."""
    alike = 1.0 if y == v else 0.5 if y // 2 == v // 2 else 0.0
    return np.exp(-0.5 * ((x - z) ** 2).sum()) * alike


def by_sum(x, y, z, v):
    """No product: both the class and its parity count."""
    return (x @ z) * (y == v) + (1.0 + x @ z) ** 2 * (y % 2 == v % 2)


KERNELS = {
    "product": (by_tree, PairProduct(RBF(0.5), ClassSimilarity(TREE))),
    "function": (by_sum, lambda A, B: np.array([[by_sum(*a, *b) for b in B] for a in A])),
}


def cost(truth, label):
    return float(truth != label) * (1.0 + (truth // 2 != label // 2))


def enumerated(formula, X, y):
    """psi and losses of all labels, through a root of the matrix of all pairs."""
    pairs = [(x, k) for x in X for k in range(K)]
    eigenvalues, vectors = np.linalg.eigh(values(formula, pairs))
    phi = (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))).reshape(len(X), K, -1)
    psi = [phi[i, y[i]] - phi[i] for i in range(len(X))]
    return psi, [np.array([cost(truth, k) for k in range(K)]) for truth in y]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_optimum_is_that_of_an_independent_qp(kernel, solver, data):
    X, y = data
    formula, ours = KERNELS[kernel]
    problem = Problem(JointKernel(ours, labels=range(K), loss=cost), X, y, C=2.0)
    result = solve(problem, SOLVERS[solver], tol=1e-6, max_iter=3000, random_state=0)
    psi, losses = enumerated(formula, X, y)
    best, _w = solve_qp(psi, losses, np.full(N, 2.0))
    certificate = result.certificate
    assert certificate.status is Status.CONVERGED
    assert_allclose(certificate.primal, best, rtol=2e-6)
    assert certificate.dual <= best * (1.0 + 1e-9)
    assert_allclose(problem.primal(result.w), certificate.primal, rtol=1e-9)


def test_primal_of_any_point_is_that_of_the_formula(data):
    X, y = data
    problem = Problem(JointKernel(KERNELS["product"][1], labels=range(K), loss=cost), X, y, C=0.7)
    rng = np.random.default_rng(0)
    numbers = {(i, k): problem.data.table.entry(i, k) for i in range(N) for k in range(K)}
    w = np.zeros(problem.n_features)
    w[: N * K] = rng.normal(size=N * K)
    psi, losses = enumerated(by_tree, X, y)
    pairs = [(x, k) for x in X for k in range(K)]
    eigenvalues, vectors = np.linalg.eigh(values(by_tree, pairs))
    phi = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    explicit = sum(w[numbers[i, k]] * phi[K * i + k] for i in range(N) for k in range(K))
    assert_allclose(problem.primal(w), primal(explicit, psi, losses, np.full(N, 0.7)), rtol=1e-9)


@pytest.mark.parametrize("update", ["solve", "closed_form"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_bounds_of_working_sets_follow_from_the_kernel_alone(kernel, update, data):
    X, y = data
    formula, ours = KERNELS[kernel]
    problem = Problem(JointKernel(ours, labels=range(K), loss=cost), X, y, C=2.0)
    solver = WorkingSet(batch=3, n_planes=2, update=update, check_every=2, patience=2)
    state = solver.init(problem, np.random.default_rng(0))
    for _ in range(4):
        solver.pass_(problem, state, 1.0, lambda: True)
    w = problem.weights(state.w)
    pairs = [(pair.x, pair.label) for pair in w.pairs.values()]
    b = np.asarray(w)[list(w.pairs)]
    number = {x.tobytes(): i for i, x in enumerate(X)}
    moved, loss = np.zeros((2, N)), 0.0
    for coefficient, (x, label) in zip(b, pairs, strict=True):
        i = number[x.tobytes()]
        share = coefficient if label == y[i] else -coefficient  # of a, and its sum at the truth
        assert share > -1e-12
        moved[int(label == y[i]), i] += share
        loss += share * cost(y[i], label)
    assert_allclose(moved[0], moved[1], atol=1e-12)
    assert moved[0].max() <= 2.0 + 1e-12
    square = b @ values(formula, pairs) @ b
    scores = np.array([[sum(c * formula(x, k, *p) for c, p in zip(b, pairs, strict=True))
                        for k in range(K)] for x in X])  # fmt: skip
    hinges = [
        max(cost(y[i], k) + scores[i, k] - scores[i, y[i]] for k in range(K)) for i in range(N)
    ]
    primal = 0.5 * square + 2.0 * sum(hinges)
    assert_allclose(problem.dual(state.loss_sum, state.w), loss - 0.5 * square, rtol=1e-9)
    assert_allclose(problem.primal(w), primal, rtol=1e-9)
    assert loss - 0.5 * square < primal


# The finite map


@pytest.mark.parametrize("rows", ["linear", long_if(True, "rbf")])
def test_finite_map_is_the_joint_kernel(rows, data):
    X, y = data
    kernel = {"linear": Linear(), "rbf": RBF(0.5)}[rows]
    costs = np.array([[cost(a, b) for b in range(K)] for a in range(K)])
    space = None if rows == "linear" else through_kernel(kernel, dtype=np.float64)
    explicit = Problem(SimilarClasses(K, TREE, cost=costs), X, y, C=2.0, space=space)
    product = PairProduct(kernel, ClassSimilarity(TREE))
    implicit = Problem(JointKernel(product, labels=range(K), loss=cost), X, y, C=2.0)
    ours, theirs = (
        solve(p, WorkingSet(batch=4), tol=1e-8, max_iter=5000, random_state=0).certificate
        for p in (explicit, implicit)
    )
    assert_allclose(ours.primal, theirs.primal, rtol=1e-6)


def test_identity_gives_classes_that_share_nothing(data):
    X, y = data
    ours, theirs = (
        solve(Problem(structure, X, y), WorkingSet(), tol=1e-8, random_state=0).certificate
        for structure in (SimilarClasses(K, bias=0.5), Multiclass(K, bias=0.5))
    )
    assert_allclose(ours.primal, theirs.primal, rtol=1e-7)


LINEAR = PairProduct(Linear(), ClassSimilarity(TREE))


@pytest.mark.parametrize("solver", ["dual-coordinate", "working-set", "one-slack"])
def test_written_features_are_the_joint_kernel(solver, data):
    X, y = data
    ours, theirs = (
        solve(
            Problem(JointKernel(LINEAR, range(K), loss=cost, explicit=explicit), X, y, C=2.0),
            SOLVERS[solver], tol=1e-6, max_iter=3000, random_state=0,
        )
        for explicit in (True, False)
    )  # fmt: skip
    assert_allclose(ours.certificate.primal, theirs.certificate.primal, rtol=2e-6)
    new = np.random.default_rng(9).normal(size=3)
    structure = JointKernel(LINEAR, range(K), explicit=True)
    scores = [ours.w @ structure.features(new, k) for k in range(K)]
    assert_allclose(scores, theirs.w.scores(new, range(K)), atol=2e-3 * np.abs(scores).max())


@pytest.mark.parametrize(
    "kernel", [2.0 * Linear(), Linear() + Linear() * Linear()], ids=["multiple", "sum-product"]
)
def test_maps_of_combined_kernels(kernel, rng):
    rows = rng.normal(size=(5, 3))
    mapped = np.array([kernel.finite_map(row) for row in rows])
    assert_allclose(mapped @ mapped.T, kernel(rows), rtol=1e-12)


def test_a_search_through_written_features(data):
    X, y = data
    listed, searched = (
        StructuredSVM(structure, C=2.0, tol=1e-6, random_state=0).fit(X, y)
        for structure in (
            JointKernel(LINEAR, range(K), loss=cost, explicit=True),
            JointKernel(LINEAR, argmax=search, loss=cost, explicit=True),
        )
    )
    assert_allclose(searched.certificate_.primal, listed.certificate_.primal, rtol=2e-6)
    forgetful = JointKernel(
        LINEAR, argmax=lambda x, w, truth: search(x, w), loss=cost, explicit=True
    )
    with pytest.raises(InvalidStructure, match="below that of"):
        StructuredSVM(forgetful, C=2.0, random_state=0).fit(X, y)


def test_written_features_take_all_that_weights_do(data, tmp_path):
    X, y = data
    structure, path = JointKernel(LINEAR, range(K), explicit=True), tmp_path / "run.taut"
    model = StructuredSVM(structure, nonneg=True, checkpoint=path, max_iter=1, random_state=0)
    with pytest.warns(NotConverged):
        model.fit(X, y)
    model.set_params(max_iter=1000).fit(X, y)
    assert model.certificate_.status is Status.CONVERGED
    assert (model.coef_ >= 0.0).all()
    model.save(tmp_path / "model.taut")
    again = load(tmp_path / "model.taut", structure=structure)
    assert again.predict(X) == model.predict(X)
    read = StructuredSVM(structure, solver="online_cache", random_state=0)
    read.fit(Stream([(list(X[:7]), list(y[:7])), (list(X[7:]), list(y[7:]))], kind="examples"))
    assert read.certificate_.status is Status.CONVERGED


@pytest.mark.parametrize("explicit", [False, True])
def test_sparse_rows_are_dense_ones(explicit, data):
    X, y = data
    structure = JointKernel(LINEAR, range(K), explicit=explicit)
    ours, theirs = (
        StructuredSVM(structure, tol=1e-8, random_state=0).fit(rows, y)
        for rows in (sp.csr_array(X), X)
    )
    assert_allclose(ours.certificate_.primal, theirs.certificate_.primal, rtol=1e-8)
    assert ours.predict(sp.csr_matrix(X)) == theirs.predict(X)


def test_samples_of_labels(data):
    X, y = data

    def sample(x, w, truth, count):
        losses = [cost(truth, k) for k in range(K)]
        return np.argsort(-(w.scores(x, range(K)) + losses))[:count].tolist()

    solver = WorkingSet(batch=3, n_planes=2, sampler="own")
    for explicit in (True, False):
        structure = JointKernel(LINEAR, range(K), loss=cost, sample=sample, explicit=explicit)
        problem = Problem(structure, X, y, C=2.0)
        ours, theirs = (
            solve(problem, s, tol=1e-6, max_iter=3000, random_state=0).certificate.primal
            for s in (solver, SOLVERS["dual-coordinate"])
        )
        assert_allclose(ours, theirs, rtol=2e-6)


@pytest.mark.parametrize("kappa", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("precision", [1e-3, 1e-12])
def test_fourier_terms_are_the_von_mises_kernel(kappa, precision, rng):
    kernel, angles = VonMisesLabels(kappa), rng.uniform(-np.pi, np.pi, 50)
    mapped = kernel.map(angles, precision)
    error = np.abs(mapped @ mapped.T - kernel.between(angles, angles)).max()
    assert error <= 1.01 * precision + 1e-14
    assert mapped.shape[1] < 120


def test_angles_by_fourier_terms_are_those_by_the_matrix(data):
    X, y = data
    angles = 2.0 * np.pi * np.arange(K) / K
    kernel = VonMisesLabels(2.0)
    ours, theirs = (
        solve(Problem(structure, X, y), WorkingSet(), tol=1e-8, random_state=0).certificate
        for structure in (
            SimilarClasses(K, label_map=kernel.map(angles, 1e-12)),
            SimilarClasses(K, kernel.between(angles, angles)),
        )
    )
    assert_allclose(ours.primal, theirs.primal, rtol=1e-6)


# What is computed, and how often


def counted(count):
    def kernel(A, B):
        for x, y in A:
            for z, v in B:
                count[frozenset([(x.tobytes(), int(y)), (z.tobytes(), int(v))])] += 1
        return np.array([[by_tree(*a, *b) for b in B] for a in A])

    return kernel


@pytest.mark.parametrize("solver", ["dual-coordinate", "working-set", "one-slack"])
def test_no_two_pairs_are_compared_twice(solver, data, monkeypatch):
    """But for a few, whose values are held against what they were."""
    monkeypatch.setattr(PairTable, "_check_values", lambda table, some: None)
    X, y = data
    count = Counter()
    problem = Problem(JointKernel(counted(count), labels=range(K), loss=cost), X, y, C=2.0)
    solve(problem, SOLVERS[solver], tol=1e-6, max_iter=3000, random_state=0)
    assert set(count.values()) == {1}
    assert len(count) <= N * K * (N * K + 1) // 2


def test_features_are_computed_once_for_each_part():
    rng, calls = np.random.default_rng(0), Counter()
    X = [rng.normal(size=(6, 3)) for _ in range(8)]
    angles = np.linspace(0.0, 2.0 * np.pi, 5)[:-1]
    labels = [(box, angle) for box in range(6) for angle in angles]
    y = [labels[k] for k in rng.integers(len(labels), size=8)]

    def features(x, box):
        calls[x.tobytes(), box] += 1
        return x[box]

    kernel = PairProduct(
        Linear(), VonMisesLabels(1.0), features, lambda label: label[0], lambda label: label[1]
    )

    def loss(truth, label):
        return 0.5 * (truth[0] != label[0]) + 0.5 * (truth[1] != label[1])

    model = StructuredSVM(
        JointKernel(kernel, labels=labels, loss=loss), C=10.0, solver=WorkingSet(4), random_state=0
    ).fit(X, y)
    assert set(calls.values()) == {1}
    assert model.certificate_.relative_gap <= 1e-3
    assert all(label in labels for label in model.predict(X))


def test_pairs_without_weight_make_room(data):
    X, y = data
    solver = WorkingSet(batch=3, n_planes=3, check_every=1, patience=1)

    def solved(memory):
        structure = JointKernel(KERNELS["function"][1], range(K), loss=cost, memory=memory)
        problem = Problem(structure, X, y, C=0.05)
        result = solve(problem, solver, tol=1e-6, max_iter=3000, random_state=0)
        return problem.data.table, result.certificate.primal

    ample, best = solved("1MB")
    used = int(ample.weighted.sum())
    assert used < ample.n
    tight, primal = solved(16 * (ample.n - 1) ** 2)
    assert tight.n == tight.capacity < ample.n
    assert_allclose(primal, best, rtol=2e-6)


def test_dropped_pairs_leave_no_trace(data):
    X, y = data
    table = Problem(JointKernel(KERNELS["function"][1], labels=range(K)), X, y).data.table
    first = [table.entry(0, k) for k in range(K)]
    rows = table.rows(1, range(K)).copy()
    dropped = [e for e in first if e >= N]
    table.release(np.array(dropped))
    table._drop()
    assert sorted(table.free) == sorted(dropped)
    again = [table.entry(2, k) for k in range(K)]
    pairs = [(pair.x, pair.label) for pair in table.pairs if pair is not None]
    live = [e for e, pair in enumerate(table.pairs) if pair is not None and e not in table.free]
    pairs = [(table.pairs[e].x, table.pairs[e].label) for e in live]
    assert_allclose(table.gram[np.ix_(live, live)], values(by_sum, pairs), rtol=1e-12)
    for k in range(K):
        expected = [by_sum(X[1], k, *pair) for pair in pairs]
        assert_allclose(table.rows(1, [k])[0, live], expected, rtol=1e-12)
    assert rows.shape[1] == len(first) + N - 1
    assert max(again) < N + K


def test_a_full_matrix_says_so(data):
    X, y = data
    kernel = KERNELS["function"][1]
    with pytest.raises(InvalidData, match="truths of 14 examples are more: give at least"):
        Problem(JointKernel(kernel, labels=range(K), memory=16 * (N - 1) ** 2), X, y)
    problem = Problem(JointKernel(kernel, labels=range(K), memory=16 * (N + 1) ** 2), X, y, C=10.0)
    table = problem.data.table
    with pytest.raises(MemoryUsedUp, match=r"kernel matrix of 15 pairs uses up memory = 3600"):
        [table.entry(0, k) for k in range(K)]


@pytest.mark.parametrize("solver", ["dual-coordinate", "working-set-3", "one-slack"])
def test_a_full_matrix_ends_a_run_with_the_best_model(solver, data, capsys):
    X, y = data
    structure = JointKernel(KERNELS["function"][1], range(K), loss=cost, memory=16 * (N + 9) ** 2)
    model = StructuredSVM(structure, C=10.0, solver=SOLVERS[solver], verbose=1, random_state=0)
    with pytest.warns(NotConverged, match="raise memory"):
        model.fit(X, y)
    certificate = model.certificate_
    assert certificate.status is Status.OUT_OF_MEMORY
    psi, losses = enumerated(by_sum, X, y)
    best, _w = solve_qp(psi, losses, np.full(N, 10.0))
    assert certificate.dual <= best * (1.0 + 1e-9)
    assert certificate.primal >= best * (1.0 - 1e-9)
    assert len(model.predict(X)) == N


def test_values_beyond_the_memory_are_computed_again(data, monkeypatch):
    X, y = data
    kernel = KERNELS["function"][1]
    monkeypatch.setattr("taut.spaces.joint._GRAM_SHARE", 0.9)
    memory = int(8 * (N * K) ** 2 / 0.9)
    problem = Problem(JointKernel(kernel, labels=range(K), loss=cost, memory=memory), X, y, C=2.0)
    result = solve(problem, WorkingSet(batch=3), tol=1e-6, max_iter=3000, random_state=0)
    best, _w = solve_qp(*enumerated(by_sum, X, y), np.full(N, 2.0))
    assert_allclose(result.certificate.primal, best, rtol=2e-6)


# Models


def test_predictions_are_by_the_formula(data):
    X, y = data
    model = StructuredSVM(
        JointKernel(KERNELS["product"][1], labels=range(K), loss=cost), C=5.0, random_state=0
    ).fit(X, y)
    new = np.random.default_rng(9).normal(size=(20, 3))
    pairs = model.coef_.pairs
    scores = np.array(
        [
            [
                sum(model.coef_[e] * by_tree(x, k, pair.x, pair.label) for e, pair in pairs.items())
                for k in range(K)
            ]
            for x in new
        ]
    )
    assert model.predict(new) == scores.argmax(axis=1).tolist()
    losses = [cost(a, b) for a, b in zip(y, model.predict(X), strict=True)]
    assert_allclose(model.score(X, y), -np.mean(losses))
    again = pickle.loads(pickle.dumps(model.coef_))
    assert_array_equal(again.scores(new[0], range(K)), model.coef_.scores(new[0], range(K)))


def search(x, w, truth=None):
    """As labels= does it, in steps."""
    scores = np.concatenate([w.scores(x, [0, 1]), w.scores(x, [2, 3])])
    return int(np.argmax(scores + (0.0 if truth is None else [cost(truth, k) for k in range(K)])))


def test_a_search_instead_of_a_list(data):
    X, y = data
    kernel = KERNELS["product"][1]
    listed, searched = (
        StructuredSVM(structure, C=2.0, tol=1e-6, random_state=0).fit(X, y)
        for structure in (
            JointKernel(kernel, labels=range(K), loss=cost),
            JointKernel(kernel, argmax=search, loss=cost),
        )
    )
    assert_allclose(searched.certificate_.primal, listed.certificate_.primal, rtol=2e-6)
    assert searched.predict(X) == listed.predict(X)


def test_a_search_that_forgets_the_loss_is_refused(data):
    X, y = data
    kernel = KERNELS["product"][1]
    forgetful = JointKernel(kernel, argmax=lambda x, w, truth: search(x, w), loss=cost)
    with pytest.raises(InvalidStructure, match="below that of"):
        StructuredSVM(forgetful, C=2.0, random_state=0).fit(X, y)


def test_a_start_from_another_table_is_refused(data):
    X, y = data
    problems = [Problem(JointKernel(KERNELS["product"][1], labels=range(K)), X, y) for _ in "ab"]
    result = solve(problems[0], random_state=0)
    assert solve(problems[0], start=result.state, random_state=0).certificate.passes <= 2
    with pytest.raises(InvalidData):
        solve(problems[1], start=result.state, random_state=0)


# What is refused


@pytest.mark.parametrize(
    ("similarity", "words"),
    [
        ([[1.0, 2.0], [2.0, 1.0]], r"smallest eigenvalue is -1, so no model"),
        ([[1.0, 0.5], [0.4, 1.0]], r"not symmetric: \[0, 1\] is 0.5"),
        ([[1.0, np.nan], [np.nan, 1.0]], r"similarity\[0, 1\] = nan"),
        (np.ones((2, 3)), r"shape \(2, 3\): give a square"),
        (np.array([["a"]]), "no matrix of numbers"),
    ],
)
def test_similarities_that_are_none(similarity, words):
    with pytest.raises(InvalidData, match=words):
        ClassSimilarity(similarity)


def test_gaussian_of_angles_is_refused():
    angles = 2.0 * np.pi * np.arange(16) / 16
    difference = np.abs(angles[:, None] - angles)
    difference = np.minimum(difference, 2.0 * np.pi - difference)
    with pytest.raises(InvalidData, match=r"smallest eigenvalue is -0.326.*VonMisesLabels"):
        ClassSimilarity(np.exp(-0.1 * difference**2))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda A, B: np.ones(len(A)), "returned shape"),
        (lambda A, B: np.ones((len(A), len(B)), np.float16), "numbers of type float16"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "returned NaN"),
        (lambda A, B: [["a"] * len(B)] * len(A), "numbers of type"),
    ],
)
def test_kernels_that_return_no_values(answer, words, data):
    with pytest.raises(InvalidStructure, match=words):
        Problem(JointKernel(answer, labels=range(K)), *data)


def test_an_indefinite_joint_kernel_is_refused(data):
    def distance(A, B):
        return np.array([[-float(((x - z) ** 2).sum()) for z, _ in B] for x, _ in A])

    with pytest.raises(InvalidData, match=r"distance is not positive definite: the smallest"):
        Problem(JointKernel(distance, labels=range(K)), *data)


def test_a_kernel_that_is_indefinite_on_wrong_labels_alone_is_refused(data):
    """Truths are of two classes, the third label is like the second by more than itself."""
    X, y = data
    alike = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 2.0], [0.0, 2.0, 1.0]])

    def kernel(A, B):
        return np.array([[alike[u, v] * np.exp(-((x - z) ** 2).sum()) for z, v in B] for x, u in A])

    for solver in ("dual-coordinate", "one-slack", "working-set"):
        problem = Problem(JointKernel(kernel, labels=range(3)), X, y % 2, C=10.0)
        with pytest.raises((InvalidData, InvalidStructure), match="is not positive definite: "):
            solve(problem, SOLVERS[solver], max_iter=20, random_state=0)


def test_kernels_that_are_not_symmetric(data):
    def skewed(A, B):
        return np.array([[(x @ z) * (u == v) + 0.1 * (u > v) for z, v in B] for x, u in A])

    with pytest.raises(InvalidStructure, match="skewed is not symmetric: for the labels"):
        Problem(JointKernel(skewed, labels=range(K)), *data)


def test_kernels_that_change(data):
    X, y = data
    width = [0.5]

    def kernel(A, B):
        return np.array(
            [[np.exp(-width[0] * ((x - z) ** 2).sum()) * (u == v) for z, v in B] for x, u in A]
        )

    def change(record):
        width[0] = 0.7

    problem = Problem(JointKernel(kernel, labels=range(K)), X, y, C=5.0)
    with pytest.raises(InvalidStructure, match="kernel is not always the same"):
        solve(problem, tol=1e-9, max_iter=2, callbacks=[change], random_state=0)


@pytest.mark.parametrize(
    ("kernel", "y", "words"),
    [
        (LINEAR, [0, 7], r"y\[1\] = 7 is none of the labels of JointKernel"),
        (PairProduct(Linear(), ClassSimilarity(np.eye(2))), [0, 3], "is none of the 2 classes"),
        (PairProduct(Linear(), VonMisesLabels(1.0)), ["a", 0], "no angles in radians"),
        (PairProduct(Linear(), VonMisesLabels(1.0)), [np.inf, 0], "no angles in radians"),
        (PairProduct(Linear(), VonMisesLabels(1.0)), [90.0, 0], "angle 90, more than .*deg2rad"),
        (LINEAR, ["a", 0], "compares classes 0..3"),
        (LINEAR, [0.5, 0], "compares classes 0..3"),
    ],
)
def test_labels_that_are_none(kernel, y, words):
    labels = [0, 1, 2, 3, *(own for own in y if not isinstance(own, int))]
    for explicit in (False, True):
        structure = JointKernel(kernel, labels=labels, explicit=explicit)
        with pytest.raises(InvalidData, match=words):
            StructuredSVM(structure).fit(np.ones((2, 3)), y)


def test_features_of_other_lengths(data):
    X, y = data
    for explicit in (False, True):
        structure = JointKernel(LINEAR, labels=range(K), explicit=explicit)
        with pytest.raises(InvalidData, match="features"):
            StructuredSVM(structure).fit([*X, np.ones(2)], [*y, 0])
        model = StructuredSVM(structure, random_state=0).fit(X, y)
        with pytest.raises(InvalidData, match=r"features.* 5 numbers"):
            model.predict(np.ones((2, 5)))


def test_pairs_of_one_process_are_in_no_file(data, tmp_path):
    X, y = data
    structure = JointKernel(LINEAR, labels=range(K))
    with pytest.raises(InvalidData, match=r"run\.taut': dual variables of JointKernel belong to"):
        StructuredSVM(structure, checkpoint=tmp_path / "run.taut").fit(X, y)
    model = StructuredSVM(structure, warm_start=True, random_state=0).fit(X, y)
    with pytest.raises(InvalidType, match=r"coef_ .* cannot be stored: pickle"):
        model.save(tmp_path / "model.taut")
    with pytest.raises(InvalidData, match="made with another table of pairs"):
        model.fit(X, y)


@pytest.mark.parametrize("solver", ["online_cache", "one_slack"])
def test_parts_of_the_data_have_no_common_table(solver, data):
    X, y = list(data[0]), list(data[1])
    model = StructuredSVM(JointKernel(LINEAR, labels=range(K)), solver=solver)
    with pytest.raises(InvalidData, match="compares all examples with each other"):
        model.fit(Stream([(X[:7], y[:7]), (X[7:], y[7:])], kind="examples"))
    if solver == "online_cache":
        with pytest.raises(InvalidData, match="compares all examples with each other"):
            model.fit(X, y)
        with pytest.raises(InvalidData, match="compares all examples with each other"):
            model.partial_fit(X, y)


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: JointKernel(by_sum, [0], explicit=True), InvalidData, "by_sum does not have"),
        (
            lambda: JointKernel(KERNELS["product"][1], [0], explicit=True),
            InvalidData,
            r"RBF\(gamma=0.5\), ClassSimilarity\(4 classes\)\) does not have finitely many",
        ),
        (lambda: JointKernel(LINEAR, [0], explicit="yes"), InvalidType, "explicit = 'yes'"),
        (lambda: JointKernel(LINEAR, [0], sample=3), InvalidType, "sample = 3"),
        (
            lambda: PairProduct(Precomputed(), ClassSimilarity(np.eye(2))),
            InvalidData,
            "compares rows by their numbers",
        ),
        (lambda: JointKernel(by_sum), InvalidData, "give either labels"),
        (lambda: JointKernel(by_sum, [0], search), InvalidData, "give either labels"),
        (lambda: JointKernel("rbf", [0]), InvalidType, "kernel = 'rbf'"),
        (lambda: JointKernel(by_sum, argmax=3), InvalidType, "argmax = 3"),
        (lambda: PairProduct("rbf", ClassSimilarity(np.eye(2))), InvalidType, "kernel = 'rbf'"),
        (lambda: PairProduct(RBF(), np.eye(2)), InvalidType, "give ClassSimilarity"),
        (lambda: PairFunction(1), InvalidType, "give a function"),
        (lambda: SimilarClasses(3, np.eye(2)), InvalidData, "of 2 classes, and there are 3"),
        (lambda: SimilarClasses(2, np.eye(2), np.eye(2)), InvalidData, "both given"),
        (lambda: SimilarClasses(2, label_map=np.ones(2)), InvalidData, "label_map has shape"),
    ],
)
def test_wrong_settings(make, kind, words):
    with pytest.raises(kind, match=words):
        make()


def test_a_prior_is_refused(data):
    structure = JointKernel(KERNELS["product"][1], labels=range(K))
    with pytest.raises(InvalidData, match="points of JointKernel are no weights"):
        StructuredSVM(structure, nonneg=True).fit(*data)
