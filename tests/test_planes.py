"""Storage of planes: blocks move, pools grow, and nothing is lost."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cases import STRUCTURES, chain
from reference import chain_blocks
from taut import Problem, solve
from taut.duals.plane_steps import corrective_steps
from taut.duals.planes import (
    CAPACITY,
    N_PLANES,
    SLOT,
    SQUARE,
    TEXT,
    Planes,
    append,
    make_room,
)
from taut.solvers import DualCoordinate
from taut.structures import Chain


class Model:
    """The same planes as plain lists: label, loss, coefficient and psi of each."""

    def __init__(self, weights, truths, n_features):
        self.blocks = [
            [(tuple(truth), 0.0, weight, np.zeros(n_features))]
            for truth, weight in zip(truths, weights, strict=True)
        ]

    def assert_equals(self, planes):
        for i, expected in enumerate(self.blocks):
            start, count = planes.arrays.places[i, SLOT], planes.arrays.places[i, N_PLANES]
            labels, gram = planes.labels(i), planes.gram(i)
            found = {tuple(labels[q].tolist()): q for q in range(count)}
            # A block that was full may have dropped what has no weight, never anything else.
            needed = {label for label, _, coef, _ in expected if coef > 0.0}
            assert needed <= found.keys() <= {label for label, *_ in expected}
            kept = [plane for plane in expected if plane[0] in found]
            assert tuple(labels[0].tolist()) == expected[0][0]
            for label, loss, coef, psi in kept:
                q = found[label]
                assert planes.arrays.loss[start + q] == loss
                assert planes.arrays.coef[start + q] == coef
                for other, _, _, other_psi in kept:
                    assert gram[q, found[other]] == psi @ other_psi


@pytest.mark.parametrize("with_weight", [0.0, 0.5, 1.0])
def test_growing_loses_nothing(with_weight, rng):
    """Blocks of labels of one to three integers, given up to 60 planes each, in random order."""
    sizes = np.array([1, 3, 2, 3, 1])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    weights = rng.uniform(1.0, 2.0, size=len(sizes))
    truths = [rng.integers(1000, size=size).tolist() for size in sizes]
    planes = Planes(weights, np.concatenate(truths).astype(np.int32), offsets)
    model = Model(weights, truths, 4)
    model.assert_equals(planes)
    growths = 0
    for step in range(300):
        i = int(rng.integers(len(sizes)) ** 2 // len(sizes))  # some blocks far more than others
        while not make_room(planes.arrays, i, 1, 0):
            planes.grow()
            growths += 1
        # Integers, so that Gram entries are exact; a label of its own for each plane.
        label, psi = np.full(sizes[i], 1000 + step, dtype=np.int32), rng.integers(9, size=4) * 1.0
        loss = float(rng.uniform())
        q = append(planes.arrays, i, label, loss)
        coef = 0.25 * (rng.random() < with_weight)
        planes.arrays.coef[planes.arrays.places[i, SLOT] + q] = coef
        model.blocks[i].append((tuple(label.tolist()), loss, coef, psi))
        psi_of = {name: other for name, _, _, other in model.blocks[i]}
        labels, gram = planes.labels(i), planes.gram(i)
        for r in range(q + 1):
            gram[q, r] = gram[r, q] = psi @ psi_of[tuple(labels[r].tolist())]
        if step % 20 == 0:
            model.assert_equals(planes)
    model.assert_equals(planes)
    assert_allclose(
        planes.loss_sum,
        sum(loss * coef for block in model.blocks for _, loss, coef, _ in block),
        rtol=1e-12,
    )
    assert planes.nbytes == sum(array.nbytes for array in planes.arrays)
    if with_weight == 1.0:
        assert growths > 2
        assert planes.arrays.places[:, CAPACITY].max() >= 64
    if with_weight == 0.0:  # planes without weight make room for new ones
        assert growths == 0


def test_rescaling_and_completing(rng):
    weights = np.array([1.0, 2.0, 0.0])
    planes = Planes(weights, np.array([5, 6, 7], dtype=np.int32), np.arange(4))
    assert make_room(planes.arrays, 1, 1, 0)
    append(planes.arrays, 1, np.array([9], dtype=np.int32), 0.5)
    planes.arrays.coef[planes.arrays.places[1, SLOT] : planes.arrays.places[1, SLOT] + 2] = [
        1.5,
        0.5,
    ]
    planes.rescale(np.array([3.0, 0.5, 1.0]))
    planes.complete(np.array([3.0, 2.0, 4.0]))
    starts = planes.arrays.places[:, SLOT]
    assert_array_equal(planes.arrays.coef[starts], [3.0, 0.75 + 1.0, 4.0])
    assert planes.arrays.coef[starts[1] + 1] == 0.25
    assert_array_equal(planes.numbers(), [5, 6, 9, 7])


def test_planes_of_a_solve_have_the_gram_of_their_psi(rng):
    """Long chains under a large weight have many planes: blocks move and pools grow."""
    n_labels, lengths = 3, (4, 5, 1, 5, 4, 2)
    xs = [rng.normal(size=(length, 2)) for length in lengths]
    ys = [rng.integers(n_labels, size=length) for length in lengths]
    X, y = chain().pack(xs, ys)
    problem = Problem(Chain(n_labels, boundary=True), X, y, C=300.0)
    state = solve(problem, tol=1e-9, max_iter=300, random_state=0).state
    assert state["places"][:, CAPACITY].max() >= 16
    assert state["places"][:, CAPACITY].min() == 4
    psi, losses = chain_blocks(xs, ys, n_labels, boundary=True)
    for i, length in enumerate(lengths):
        count, room = state["places"][i, N_PLANES], state["places"][i, CAPACITY]
        labels = state["labels"][state["places"][i, TEXT] :][: count * length].reshape(
            count, length
        )
        rows = labels @ n_labels ** np.arange(length)[::-1]
        gram = state["gram"][state["places"][i, SQUARE] :][: room * room].reshape(room, room)
        assert len(set(rows)) == count
        gram = gram[:count, :count] - gram[:1, :count] - gram[:count, :1] + gram[0, 0]
        assert_allclose(gram, psi[i][rows] @ psi[i][rows].T, atol=1e-10)
        assert_allclose(state["loss"][state["places"][i, SLOT] :][:count], losses[i][rows])


def test_corrective_steps_are_exact(rng):
    """Enough steps reach the optimum over the block's planes; each keeps the sum of weights."""
    psi = np.vstack([np.zeros(3), rng.normal(size=(3, 3))])
    losses = np.array([0.0, 1.0, 2.0, 1.5])
    planes = Planes(np.array([2.0]), np.array([0], dtype=np.int32), np.array([0, 1]))
    for label in range(1, 4):
        append(planes.arrays, 0, np.array([label], dtype=np.int32), losses[label])
    planes.gram(0)[:] = psi @ psi.T
    change = np.empty(4)
    answer = corrective_steps(planes.arrays, 0, losses.copy(), 1.0, 10_000, change)
    coef = planes.arrays.coef[:4]
    assert coef.min() >= 0.0
    assert_allclose(coef.sum(), 2.0, rtol=1e-14)
    assert_allclose(change, coef - [2.0, 0.0, 0.0, 0.0], atol=1e-15)
    assert_allclose(answer, [change @ losses, change @ psi @ psi.T @ change], rtol=1e-12)
    violation = losses - psi @ psi.T @ coef
    assert violation.max() <= violation[coef > 0.0].min() + 1e-2 * losses.max()


def filled(rng, sizes, counts):
    """Planes of blocks with labels of these sizes, and these numbers of planes beside the truth."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    planes = Planes(np.ones(len(sizes)), np.arange(offsets[-1], dtype=np.int32), offsets)
    for i, count in enumerate(counts):
        for k in range(count):
            while not make_room(planes.arrays, i, 1, 0):
                planes.grow()
            q = append(
                planes.arrays, i, np.full(sizes[i], 100 * i + k, dtype=np.int32), rng.random()
            )
            planes.arrays.coef[planes.arrays.places[i, SLOT] + q] = rng.random() + 0.1
            planes.gram(i)[:] = rng.random(planes.gram(i).shape)
    return planes


def content(planes, i):
    start, count = planes.arrays.places[i, SLOT], planes.arrays.places[i, N_PLANES]
    slots = slice(start, start + count)
    return (
        planes.arrays.coef[slots].tolist(),
        planes.arrays.loss[slots].tolist(),
        planes.labels(i).tolist(),
        planes.gram(i)[:count, :count].tolist(),
    )


@pytest.mark.parametrize("how", [Planes.take, Planes.packed])
@pytest.mark.parametrize("blocks", [[0], [3, 1], [4, 0, 2], [0, 1, 2, 3, 4]])
def test_what_is_taken_can_be_put(blocks, how, rng):
    sizes, counts = np.array([1, 3, 2, 3, 1]), [0, 9, 2, 30, 4]
    planes, blocks = filled(rng, sizes, counts), np.array(blocks)
    before = [content(planes, i) for i in range(5)]
    taken = how(planes, blocks)
    own = Planes(np.ones(len(blocks)), np.zeros(sizes[blocks].sum(), dtype=np.int32),
                 np.concatenate([[0], np.cumsum(sizes[blocks])]))  # fmt: skip
    own.arrays = taken
    assert [content(own, q) for q in range(len(blocks))] == [before[i] for i in blocks]
    fresh = filled(rng, sizes, [1, 1, 1, 1, 1])
    others = [content(fresh, i) for i in range(5)]
    fresh.put(blocks, taken)
    for i in range(5):
        assert content(fresh, i) == (before[i] if i in blocks else others[i])
    # Blocks can still grow there.
    for i in range(5):
        while not make_room(fresh.arrays, i, 1, 0):
            fresh.grow()
        append(fresh.arrays, i, np.zeros(sizes[i], dtype=np.int32), 0.0)


def test_packed_planes_are_those_with_weight(rng):
    planes, blocks = filled(rng, np.array([1, 3, 2]), [5, 0, 9]), np.array([2, 0])
    before = [content(planes, i) for i in blocks]
    for i, idle in ((0, [1, 5]), (2, [0, 4, 9])):
        planes.arrays.coef[planes.arrays.places[i, SLOT] + idle] = 0.0
    own = Planes(np.ones(2), np.zeros(3, dtype=np.int32), np.array([0, 2, 3]))
    own.arrays = planes.packed(blocks)
    for q, kept in enumerate([[0, 1, 2, 3, 5, 6, 7, 8], [0, 2, 3, 4]]):
        coef, loss, labels, gram = before[q]
        coef[0] = 0.0 if q == 0 else coef[0]
        assert content(own, q) == (
            [coef[k] for k in kept],
            [loss[k] for k in kept],
            [labels[k] for k in kept],
            [[gram[k][j] for j in kept] for k in kept],
        )


@pytest.mark.parametrize("how", ["take", "packed"])
@pytest.mark.parametrize("form", ["multiclass", "chain", "tags-plain"])
def test_dual_variables_that_are_taken_can_be_put(form, how):
    """In all three forms: what is moved to another state adds up to the same."""
    case = STRUCTURES[form]
    problem, rng = case.problem(C=30.0), np.random.default_rng(0)
    solver = DualCoordinate()
    states = [solver.init(problem, rng) for _ in range(3)]
    for state in states[:2]:  # the second one is elsewhere
        for _ in range(40 if state is states[0] else 3):
            solver.pass_(problem, state, 1.0, lambda: True)
    full, other, empty = (state.part.duals for state in states)
    some = np.arange(0, case.n_blocks, 2)
    rest = np.setdiff1d(np.arange(case.n_blocks), some)
    other.put(rest, getattr(full, how)(rest))
    other.put(some[::-1], getattr(full, how)(some[::-1]))
    empty.put(some, getattr(other, how)(some))
    empty.put(rest, getattr(other, how)(rest))
    vectors = np.zeros((3, problem.data.size))
    for duals, U in zip((full, other, empty), vectors, strict=True):
        duals.sum_up(U)
        assert_allclose(duals.loss_sum, full.loss_sum, rtol=1e-12)
        assert_array_equal(duals.in_use(), full.in_use())
    assert_allclose(vectors[1:], vectors[:1].repeat(2, axis=0), atol=1e-10)
    if form == "tags-plain":
        # A plane that was dropped leaves its number behind the others, and its psi nowhere.
        i = int(np.flatnonzero(full.in_use())[0])
        last = full.planes.arrays.places[i, N_PLANES] - 1
        del full.psi[int(full.planes.labels(i)[last, 0])]
        full.planes.arrays.places[i, N_PLANES] = last
        empty.put(np.array([i]), full.take(np.array([i])))
        assert empty.planes.arrays.places[i, N_PLANES] == last
