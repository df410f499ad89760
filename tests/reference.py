"""Answers for tiny problems, by enumeration and an interior-point QP.

Shares no code with the library. A problem is a list of blocks: ``psi[i]`` has one row per
candidate, ``losses[i]`` one loss per candidate, ``weights[i]`` is C_i.
"""

import itertools

import clarabel
import numpy as np
from scipy import sparse

Blocks = list[np.ndarray]


def primal(w: np.ndarray, psi: Blocks, losses: Blocks, weights: np.ndarray) -> float:
    """P(w) = 1/2 ||w||^2 + sum_i C_i max(0, max_y [l_i(y) - <w, psi_i(y)>])."""
    value = 0.5 * float(w @ w)
    for block_psi, block_losses, weight in zip(psi, losses, weights, strict=True):
        value += weight * max(0.0, float(np.max(block_losses - block_psi @ w)))
    return value


def dual(alpha: Blocks, psi: Blocks, losses: Blocks) -> float:
    """D(alpha) = sum_iy alpha_iy l_i(y) - 1/2 ||sum_iy alpha_iy psi_i(y)||^2."""
    w = sum(a @ p for a, p in zip(alpha, psi, strict=True))
    return float(sum(a @ c for a, c in zip(alpha, losses, strict=True))) - 0.5 * float(w @ w)


def solve_qp(
    psi: Blocks, losses: Blocks, weights: np.ndarray, rtol: float = 1e-9
) -> tuple[float, np.ndarray]:
    """Minimise P by Clarabel over (w, slacks); return (min P, its w).

    The multipliers of the solution, made feasible, bound the optimum from below: an answer whose
    own gap exceeds `rtol` times P is an error, whatever status the QP solver reports.
    """
    d = psi[0].shape[1]
    weights = np.asarray(weights, dtype=float)
    # A slack that costs nothing has no optimum for an interior point to converge to.
    paid = np.flatnonzero(weights > 0)
    psi = [np.asarray(psi[i], dtype=float) for i in paid]
    losses = [np.asarray(losses[i], dtype=float) for i in paid]
    weights = weights[paid]

    w = np.zeros(d)
    value = primal(w, psi, losses, weights)
    if value == 0:
        return value, w
    # Clarabel's tolerances are absolute below 1: the problem is put to it in units in which P is
    # about 1, known better after each solution.
    for _ in range(4):
        v, alpha, status = _solve_scaled([np.sqrt(value) * p for p in psi], losses, weights / value)
        w, alpha = np.sqrt(value) * v, [value * a for a in alpha]
        value = primal(w, psi, losses, weights)
        gap = value - dual(alpha, psi, losses)
        if gap <= rtol * value:
            return value, w
    raise RuntimeError(f"reference QP: gap {gap:.1e} at {value:.6g}, status {status}")


def _solve_scaled(
    psi: Blocks, losses: Blocks, weights: np.ndarray
) -> tuple[np.ndarray, Blocks, str]:
    """Return w, feasible alpha and what Clarabel says about them."""
    n, d = len(psi), psi[0].shape[1]
    # <w, psi_i(y)> + xi_i >= l_i(y) and xi_i >= 0, as A z + s = b with s >= 0.
    block_of_row = np.repeat(np.arange(n), [len(block) for block in losses])
    A = -np.block([[np.vstack(psi), np.eye(n)[block_of_row]], [np.zeros((n, d)), np.eye(n)]])
    b = -np.concatenate([*losses, np.zeros(n)])
    P = sparse.diags(np.concatenate([np.ones(d), np.zeros(n)]), format="csc")
    q = np.concatenate([np.zeros(d), weights])

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = 500
    settings.tol_feas = settings.tol_gap_abs = settings.tol_gap_rel = 1e-13
    cones = [clarabel.NonnegativeConeT(len(b))]
    solution = clarabel.DefaultSolver(P, q, sparse.csc_matrix(A), b, cones, settings).solve()

    multipliers = np.maximum(np.array(solution.z)[: len(block_of_row)], 0)
    alpha = [multipliers[block_of_row == i] for i in range(n)]
    alpha = [a * min(1, C / a.sum()) if a.any() else a for a, C in zip(alpha, weights)]
    return np.array(solution.x)[:d], alpha, str(solution.status)


def prior_primal(
    w: np.ndarray, psi: Blocks, losses: Blocks, weights: np.ndarray, mean, precision
) -> float:
    """P(w) with 1/2 (w - mean)' precision (w - mean), a full matrix, for 1/2 ||w||^2."""
    plain = primal(w, psi, losses, weights) - 0.5 * float(w @ w)
    return plain + 0.5 * float((w - mean) @ precision @ (w - mean))


def solve_prior_qp(
    psi: Blocks,
    losses: Blocks,
    weights: np.ndarray,
    mean: np.ndarray,
    precision: np.ndarray,
    bounded: np.ndarray,
    lower: np.ndarray | float = 0.0,
) -> tuple[float, np.ndarray]:
    """Minimise `prior_primal` with w >= lower where w is `bounded`; return (minimum, its w)."""
    n, d = len(psi), len(mean)
    block_of_row = np.repeat(np.arange(n), [len(block) for block in losses])
    signs = np.eye(d)[bounded]
    least = np.broadcast_to(lower, (d,))[bounded]
    A = -np.block(
        [
            [np.vstack(psi), np.eye(n)[block_of_row]],
            [np.zeros((n, d)), np.eye(n)],
            [signs, np.zeros((len(signs), n))],
        ]
    )
    b = -np.concatenate([*losses, np.zeros(n), least])
    P = np.zeros((d + n, d + n))
    P[:d, :d] = precision
    q = np.concatenate([-precision @ mean, weights])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_feas = settings.tol_gap_abs = settings.tol_gap_rel = 1e-12
    solution = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(P)),
        q,
        sparse.csc_matrix(A),
        b,
        [clarabel.NonnegativeConeT(len(b))],
        settings,
    ).solve()
    if "Solved" not in str(solution.status):
        raise RuntimeError(f"reference QP: status {solution.status}")
    w = np.array(solution.x)[:d]
    w[bounded] = np.maximum(w[bounded], least)
    return prior_primal(w, psi, losses, weights, mean, precision), w


def multiclass_blocks(
    X: np.ndarray,
    codes: np.ndarray,
    n_classes: int,
    cost: np.ndarray | None = None,
    bias: float = 0.0,
) -> tuple[Blocks, Blocks]:
    """All classes of each row: w is (d, K) row-major, the cost of y for y_i is cost[y_i, y]."""
    if cost is None:
        cost = 1 - np.eye(n_classes)
    X = _with_bias(X, bias)

    def phi(x: np.ndarray, y: int) -> np.ndarray:
        w = np.zeros((len(x), n_classes))
        w[:, y] = x
        return w.ravel()

    psi = [
        np.array([phi(x, truth) - phi(x, y) for y in range(n_classes)])
        for x, truth in zip(X, codes, strict=True)
    ]
    losses = [np.array([cost[truth][y] for y in range(n_classes)], dtype=float) for truth in codes]
    return psi, losses


def binary_blocks(X: np.ndarray, signs: np.ndarray, bias: float = 0.0) -> tuple[Blocks, Blocks]:
    """One candidate per row: psi = sign * (x, bias), loss 1."""
    X = _with_bias(X, bias)
    return [sign * x[None, :] for x, sign in zip(X, signs, strict=True)], [np.ones(1) for _ in X]


def regression_blocks(
    X: np.ndarray, targets: np.ndarray, epsilon: float, bias: float = 0.0
) -> tuple[Blocks, Blocks]:
    """Two candidates per row: psi = +-(x, bias), loss = +-y - epsilon."""
    X = _with_bias(X, bias)
    return [np.array([x, -x]) for x in X], [np.array([y, -y]) - epsilon for y in targets]


def bags_blocks(X: Blocks, chosen: np.ndarray, bias: float = 0.0) -> tuple[Blocks, Blocks]:
    """The truth (psi = 0, loss 0) and the candidates of each bag, all of loss 1.

    A negative bag (chosen = -1): psi = -(x, bias) of each instance. A positive one: psi = (x, bias)
    of the chosen instance.
    """
    psi, losses = [], []
    for x, z in zip(X, chosen, strict=True):
        x = _with_bias(x, bias)
        candidates = -x if z < 0 else x[z][None, :]
        psi.append(np.vstack([0 * x[:1], candidates]))
        losses.append(np.append(0.0, np.ones(len(candidates))))
    return psi, losses


def latent_multiclass_blocks(
    X: Blocks,
    pairs: np.ndarray,
    n_classes: int,
    cost: np.ndarray | None = None,
    bias: float = 0.0,
) -> tuple[Blocks, Blocks]:
    """All pairs of frame and class of each bag, frames outermost; the loss is that of the class."""
    if cost is None:
        cost = 1 - np.eye(n_classes)

    def phi(x: np.ndarray, k: int, z: int) -> np.ndarray:
        w = np.zeros((x.shape[1], n_classes))
        w[:, k] = x[z]
        return w.ravel()

    psi, losses = [], []
    for x, (truth, frame) in zip((_with_bias(x, bias) for x in X), pairs, strict=True):
        labels = [(k, z) for z in range(len(x)) for k in range(n_classes)]
        psi.append(np.array([phi(x, truth, frame) - phi(x, k, z) for k, z in labels]))
        losses.append(np.array([cost[truth][k] for k, _ in labels], dtype=float))
    return psi, losses


def chain_blocks(
    X: Blocks, codes: Blocks, n_labels: int, normalize: bool = False, boundary: bool = False
) -> tuple[Blocks, Blocks]:
    """All K**L labelings of each sequence.

    w = [node weights (d, K) | transitions (K, K), previous label first | first (K) | last (K)], the
    last two only with `boundary`; Hamming loss, divided by L if `normalize`.
    """

    def phi(x: np.ndarray, labels: tuple[int, ...]) -> np.ndarray:
        node = np.zeros((x.shape[1], n_labels))
        edge = np.zeros((n_labels, n_labels))
        first, last = np.zeros(n_labels), np.zeros(n_labels)
        for t, label in enumerate(labels):
            node[:, label] += x[t]
        for previous, label in itertools.pairwise(labels):
            edge[previous, label] += 1
        first[labels[0]] += 1
        last[labels[-1]] += 1
        parts = [node.ravel(), edge.ravel()]
        return np.concatenate(parts + [first, last] if boundary else parts)

    psi, losses = [], []
    for x, truth in zip(X, codes, strict=True):
        x, truth = np.asarray(x, dtype=float), tuple(int(label) for label in truth)
        labelings = list(itertools.product(range(n_labels), repeat=len(truth)))
        psi.append(np.array([phi(x, truth) - phi(x, labels) for labels in labelings]))
        hamming = [sum(a != b for a, b in zip(truth, labels)) for labels in labelings]
        losses.append(np.array(hamming, dtype=float) / (len(truth) if normalize else 1))
    return psi, losses


def graph_features(graph: tuple, labels: tuple, n_labels: int, pairwise: str) -> np.ndarray:
    """Phi of a graph (features, edges, edge features): nodes (K, d), then pairs (d_e, G)."""
    x, edges, weights = graph
    pairs = [(a, b) for a in range(n_labels) for b in range(n_labels)]
    if pairwise == "symmetric":
        pairs = [(a, b) for a, b in pairs if a <= b]
    node = np.zeros((n_labels, x.shape[1]))
    edge = np.zeros((weights.shape[1], 1 if pairwise == "potts" else len(pairs)))
    for t, label in enumerate(labels):
        node[label] += x[t]
    for (u, v), weight in zip(edges, weights, strict=True):
        a, b = labels[u], labels[v]
        if pairwise == "potts":
            edge[:, 0] += weight * (a == b)
        else:
            edge[:, pairs.index((a, b) if (a, b) in pairs else (b, a))] += weight
    return np.concatenate([node.ravel(), edge.ravel()])


def graph_blocks(
    X: list[tuple], codes: Blocks, n_labels: int, pairwise: str = "full", normalize: bool = False
) -> tuple[Blocks, Blocks]:
    """All K**n labelings of each graph; Hamming loss, divided by n if `normalize`."""
    psi, losses = [], []
    for graph, truth in zip(X, codes, strict=True):
        labelings = list(itertools.product(range(n_labels), repeat=len(truth)))
        phi = np.array([graph_features(graph, y, n_labels, pairwise) for y in labelings])
        psi.append(graph_features(graph, tuple(truth), n_labels, pairwise) - phi)
        hamming = [sum(a != b for a, b in zip(truth, labels)) for labels in labelings]
        losses.append(np.array(hamming, dtype=float) / (len(truth) if normalize else 1))
    return psi, losses


def solve_relaxed_graph_qp(
    X: list[tuple], codes: Blocks, n_labels: int, pairwise: str, weights: np.ndarray
) -> float:
    """The minimum of P with the labels of graphs relaxed to the local polytope, Hamming loss.

    The maximum over the polytope is replaced by its dual: z_t >= a node's scores plus what its
    edges lend it, z_e >= an edge's scores minus that; the hinge is sum z - <w, phi(truth)>.
    """
    K = n_labels
    ordered = list(itertools.product(range(K), repeat=2))
    ties = {
        "full": ordered,
        "symmetric": [(a, b) for a, b in ordered if a <= b],
        "potts": ["equal"],
    }[pairwise]
    tie = {
        "full": lambda a, b: (a, b),
        "symmetric": lambda a, b: (min(a, b), max(a, b)),
        "potts": lambda a, b: "equal" if a == b else None,
    }[pairwise]
    d, d_e = X[0][0].shape[1], X[0][2].shape[1]
    n_weights = K * d + d_e * len(ties)

    def node(x: np.ndarray, k: int) -> np.ndarray:
        phi = np.zeros(n_weights)
        phi[k * d : (k + 1) * d] = x
        return phi

    def edge(f: np.ndarray, a: int, b: int) -> np.ndarray:
        phi = np.zeros(n_weights)
        if tie(a, b) in ties:
            phi[K * d + ties.index(tie(a, b)) :: len(ties)] = f
        return phi

    rows, sides, cost = [], [], [np.zeros(n_weights)]
    size = sum(len(x) + len(edges) * (1 + 2 * K) for x, edges, _ in X)
    at = 0
    for (x, edges, features), truth, C in zip(X, codes, weights, strict=True):
        n, m = len(x), len(edges)
        z_edge, lent = at + n, at + n + m
        for t, k in itertools.product(range(n), range(K)):
            auxiliary = np.zeros(size)
            auxiliary[at + t] = -1.0
            for e, (u, v) in enumerate(edges):
                auxiliary[lent + 2 * K * e + k] += u == t
                auxiliary[lent + 2 * K * e + K + k] += v == t
            rows.append(np.append(node(x[t], k), auxiliary))
            sides.append(-float(k != truth[t]))
        for e, (a, b) in itertools.product(range(m), ordered):
            auxiliary = np.zeros(size)
            auxiliary[z_edge + e] = -1.0
            auxiliary[[lent + 2 * K * e + a, lent + 2 * K * e + K + b]] = -1.0
            rows.append(np.append(edge(features[e], a, b), auxiliary))
            sides.append(0.0)
        for t in range(n):
            cost[0] -= C * node(x[t], truth[t])
        for e, (u, v) in enumerate(edges):
            cost[0] -= C * edge(features[e], truth[u], truth[v])
        cost.append(np.repeat([C, 0.0], [n + m, 2 * K * m]))
        at = lent + 2 * K * m
    P = sparse.diags(np.repeat([1.0, 0.0], [n_weights, size]), format="csc")
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_feas = settings.tol_gap_abs = settings.tol_gap_rel = 1e-11
    solution = clarabel.DefaultSolver(
        P, np.concatenate(cost), sparse.csc_matrix(np.array(rows)), np.array(sides),
        [clarabel.NonnegativeConeT(len(rows))], settings,
    ).solve()  # fmt: skip
    if str(solution.status) not in ("Solved", "AlmostSolved"):
        raise RuntimeError(f"reference QP: {solution.status}")
    return solution.obj_val


def pairwise_blocks(X: Blocks, relevances: Blocks) -> tuple[Blocks, Blocks]:
    """All subsets of the pairs of each query: psi and loss are sums over pairs."""
    labels = [pairwise_labels(relevance) for relevance in relevances]
    psi = [c[:, :-1] @ np.asarray(x, dtype=float) for c, x in zip(labels, X, strict=True)]
    return psi, [c[:, -1].astype(float) for c in labels]


def pairwise_labels(relevance: np.ndarray) -> np.ndarray:
    """The coefficients of a query's documents, and the number of pairs, of all subsets of pairs."""
    n = len(relevance)
    pairs = [(a, b) for a in range(n) for b in range(n) if relevance[a] > relevance[b]]
    labels = set()
    for chosen in itertools.product((0, 1), repeat=len(pairs)):
        label = [0] * n + [sum(chosen)]
        for (a, b), taken in zip(pairs, chosen, strict=True):
            label[a] += taken
            label[b] -= taken
        labels.add(tuple(label))
    return np.array(sorted(labels), dtype=np.int32)


def ndcg_blocks(X: Blocks, relevances: Blocks, k: int) -> tuple[Blocks, Blocks]:
    """All rankings of each query, in the order of `ndcg_labels`: 1 - NDCG@k is the loss."""
    psi, losses = [], []
    for x, relevance in zip(X, relevances, strict=True):
        x, n = np.asarray(x, dtype=float), len(relevance)
        worth = np.array([1 / np.log2(2 + r) if r < k else 0.0 for r in range(n + k + 1)])
        # The truth: the mean of all rankings by relevance.
        right = [
            worth[list(ranks)]
            for ranks in itertools.permutations(range(n))
            if all(
                relevance[a] >= relevance[b] for a in range(n) for b in range(n)
                if ranks[a] < ranks[b]
            )
        ]  # fmt: skip
        truth, gain = np.mean(right, axis=0), 2.0 ** np.asarray(relevance) - 1
        weights = [truth if ranks[0] < 0 else worth[ranks] for ranks in ndcg_labels(relevance, k)]
        psi.append(np.array([(truth - weight) @ x for weight in weights]))
        best = max(gain @ weight for weight in right)
        lost = [1 - gain @ weight / best if best > 0 else 0.0 for weight in weights]
        losses.append(np.array(lost))
    return psi, losses


def ndcg_labels(relevance: np.ndarray, k: int) -> np.ndarray:
    """The truth, as -1, and all ranks of a query's documents; the truth alone if all are equal."""
    n = len(relevance)
    rankings = {tuple(min(r, k) for r in ranks) for ranks in itertools.permutations(range(n))}
    others = sorted(rankings) if len(set(relevance)) > 1 else []
    return np.array([(-1,) * n, *others], dtype=np.int32)


def slack_blocks(psi: Blocks, losses: Blocks) -> tuple[Blocks, Blocks]:
    """Slack rescaling: max_y l(y) (1 - <w, psi(y)>) has psi multiplied by the loss."""
    return [c[:, None] * p for p, c in zip(psi, losses, strict=True)], losses


def _with_bias(X: np.ndarray, bias: float) -> np.ndarray:
    X = np.asarray(X, dtype=float)
    return np.column_stack([X, np.full(len(X), bias)]) if bias != 0 else X


def svm_primal(
    scores: np.ndarray,
    square: float,
    y: np.ndarray,
    weight: np.ndarray,
    *,
    epsilon: float | None = None,
    power: int = 1,
) -> float:
    """1/2 square + sum_i weight_i excess_i^power, of signs y or, with an epsilon, of numbers."""
    excess = 1.0 - y * scores if epsilon is None else np.abs(y - scores) - epsilon
    return 0.5 * square + float(weight @ np.maximum(excess, 0.0) ** power)


def solve_svm(
    X: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    *,
    epsilon: float | None = None,
    power: int = 1,
    free: bool = False,
) -> float:
    """The minimum of `svm_primal` over the weights of columns, and over a bias if it is free."""
    paid = weight > 0
    X, y, weight = X[paid], y[paid], weight[paid]
    n, d = X.shape
    rows = np.hstack([X, np.ones((n, 1))]) if free else X
    if epsilon is None:
        A, b = y[:, None] * rows, np.ones(n)
    else:
        A, b = np.vstack([rows, -rows]), np.concatenate([y, -y]) - epsilon
    slack = np.vstack([np.eye(n)] * (len(b) // n))
    zeros = np.zeros((n, rows.shape[1]))
    constraints = sparse.csc_matrix(-np.block([[A, slack], [zeros, np.eye(n)]]))
    squares, linear = (weight, 0.0 * weight) if power == 2 else (0.0 * weight, weight)
    P = np.concatenate([np.ones(d), np.zeros(int(free)), 2.0 * squares])
    q = np.concatenate([np.zeros(rows.shape[1]), linear])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_feas = settings.tol_gap_abs = settings.tol_gap_rel = 1e-11
    bounds = np.concatenate([-b, np.zeros(n)])
    solution = clarabel.DefaultSolver(
        sparse.diags(P, format="csc"), q, constraints, bounds,
        [clarabel.NonnegativeConeT(len(bounds))], settings,
    ).solve()  # fmt: skip
    w = np.array(solution.x)[: rows.shape[1]]
    square = float(w[:d] @ w[:d])
    value = svm_primal(rows @ w, square, y, weight, epsilon=epsilon, power=power)
    if not value - solution.obj_val_dual <= 1e-8 * value + 1e-10:
        raise RuntimeError(f"reference QP: {solution.obj_val_dual} to {value}, {solution.status}")
    return value
