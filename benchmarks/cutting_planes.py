"""Cutting planes: the QP of n slacks by sweeps and by Clarabel, and passes to a gap.

python benchmarks/cutting_planes.py --data FOLDER

The QP is that over the labels which a run on OCR words has found: as `NSlack` solves it in its last
pass, by sweeps of pair steps from the solution before; from all weight on the truths to a relative
gap of its own, by sweeps and by Clarabel, an interior point, whose time does not include the Gram
matrix. CPU seconds, one thread.
"""

from __future__ import annotations

import os
import time

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import clarabel
import numpy as np
import scipy.sparse as sp

from datasets import Letters, data_folder, parser, usps
from taut import Problem, solve
from taut.binding.kernels import make_features
from taut.duals.planes import N_PLANES, SLOT
from taut.engines.part import Sweep
from taut.solvers import DualCoordinate, NSlack, OneSlack
from taut.structures import Chain, Multiclass
from timing import markdown

PLANES = (500, 1000, 2000)
GAPS = (1e-3, 1e-6)
LAMBDA = 0.01
PASSES = 12
SOLVERS = {
    "one slack": OneSlack(),
    "n slacks": NSlack(),
    "n slacks, batches of 100": NSlack(batch=100),
    "dual coordinate": DualCoordinate(),
}


class Timed(NSlack):
    """Knows how long the last QP took."""

    seconds = 0.0

    def _solve(self, *arguments):
        start = time.process_time()
        super()._solve(*arguments)
        self.seconds = time.process_time() - start


def words(letters, n):
    """The problem of the first n words."""
    X, y, lengths = letters.take(np.arange(len(letters.lengths)) < n)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Problem(Chain(26, True, True), (X, offsets), y, C=1.0 / (LAMBDA * n))


def found(problem):
    """A solver and its state after some passes, with all weight back on the truths."""
    solver = Timed()
    state = solver.init(problem, np.random.default_rng(0))
    for _ in range(PASSES):
        solver.pass_(problem, state, 1.0, lambda: True)
    planes = state.part.duals.planes.arrays
    planes.coef[:] = 0.0
    planes.coef[planes.places[:, SLOT]] = state.part.duals.weight
    state.w[:] = 0.0
    return solver, state


def by_sweeps(state, gaps):
    """Seconds and sweeps to each gap, and the dual value at the end."""
    order, sums = np.flatnonzero(state.part.duals.revisitable()), np.zeros(3)
    seconds, answers = 0.0, []
    for k in range(1, 100_000):
        sums[2] = 0.0
        sweep = Sweep(False, order, order, order, np.uint64(1), sums)
        start = time.process_time()
        state.part.visit_in_turn(sweep, state.w, 1.0, lambda: True)
        seconds += time.process_time() - start
        dual = sums[0] - 0.5 * float(state.w @ state.w)
        # As w stands still, the gap over the planes is that of the QP.
        while len(answers) < len(gaps) and own_gap(state, order) <= gaps[len(answers)] * dual:
            answers.append((seconds, k))
        if len(answers) == len(gaps):
            return answers, dual
    raise RuntimeError("the sweeps did not come to an end")


def own_gap(state, order):
    """The gap of the QP at the present point."""
    steps, sums = state.part.duals.max_steps, np.zeros(3)
    state.part.duals.max_steps = 0
    state.part.duals.visit(order, state.w, 1.0, False, state.part.gap, sums)
    state.part.duals.max_steps = steps
    return sums[2]


def as_qp(problem, state):
    """Gram matrix, losses and blocks of all planes but the truths."""
    planes = state.part.duals.planes
    data, blocks = problem.data, problem.data.blocks
    psi, losses, owners = [], [], []
    for i in range(problem.n_blocks):
        labels = planes.labels(i)
        start = planes.arrays.places[i, SLOT]
        for q in range(1, planes.arrays.places[i, N_PLANES]):
            row = np.zeros(data.size)
            pair = np.ascontiguousarray(labels[[0, q]])
            data.kernel(make_features)(
                data.space(float), blocks.data, i, pair, np.array([1.0, -1.0]),
                data.statistics(float), row,
            )  # fmt: skip
            psi.append(row)
            losses.append(planes.arrays.loss[start + q])
            owners.append(i)
    psi = np.array(psi)
    return psi @ psi.T, np.array(losses), np.array(owners)


def by_interior_point(gram, losses, owners, weight, gap):
    """Seconds, and the dual value of what comes out, made feasible."""
    members, n = np.unique(owners), len(losses)
    G = (owners == members[:, None]).astype(float)
    A = sp.csc_matrix(np.vstack([G, -np.eye(n)]))
    bound = np.concatenate([weight[members], np.zeros(n)])
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_feas = settings.tol_gap_abs = settings.tol_gap_rel = gap
    start = time.process_time()
    cone = [clarabel.NonnegativeConeT(len(bound))]
    P = sp.csc_matrix(np.triu(gram))
    solver = clarabel.DefaultSolver(P, -losses, A, bound, cone, settings)
    a = np.maximum(solver.solve().x, 0.0)
    seconds = time.process_time() - start
    share = np.minimum(1.0, weight[members] / np.maximum(G @ a, 1e-300))
    a *= share[np.searchsorted(members, owners)]
    return seconds, losses @ a - 0.5 * a @ gram @ a


def main():
    """Print two tables."""
    folder = data_folder(parser(__doc__).parse_args())
    letters = Letters(folder)
    rows = []
    for wanted in PLANES:
        n = 16
        while True:
            problem = words(letters, n)
            solver, state = found(problem)
            count = int(state.part.duals.planes.arrays.places[:, N_PLANES].sum()) - n
            if count >= wanted:
                break
            n = int(1.2 * n)
        sweeps, dual = by_sweeps(state, GAPS)
        qp = as_qp(problem, state)
        for gap, (seconds, k) in zip(GAPS, sweeps, strict=True):
            other, value = by_interior_point(*qp, problem.block_weight, gap)
            miss = (dual - value) / dual
            cold, warm = f"{seconds:.2g} ({k})", f"{solver.seconds:.2g}"
            rows.append([count, n, warm, gap, cold, f"{other:.2g}", f"{miss:.1e}"])
    header = ["planes", "words", "last QP, s", "gap", "sweeps, s (number)", "Clarabel, s", "misses"]
    print(markdown(header, rows))
    X, y, *_ = usps(folder)
    y = np.unique(y, return_inverse=True)[1]
    problems = {
        "usps, 1e-3": (Problem(Multiclass(10), X, y, C=1.0 / (LAMBDA * len(y))), 1e-3),
        "626 words, 1e-2": (words(letters, 626), 1e-2),
    }
    rows = []
    for name, (problem, tol) in problems.items():
        for label, solver in SOLVERS.items():
            solve(problem, solver, max_iter=1, random_state=0)
            start = time.process_time()
            certificate = solve(
                problem, solver, tol=tol, max_iter=10**6, time_limit=30.0, random_state=0
            ).certificate
            seconds = f"{time.process_time() - start:.2g}"
            calls = certificate.oracle_calls / problem.n_blocks
            gap = f"{certificate.relative_gap:.2g}"
            rows.append([name, label, certificate.passes, f"{calls:.0f}", seconds, gap])
    print(markdown(["data", "solver", "passes", "calls per block", "CPU s", "gap"], rows))


if __name__ == "__main__":
    main()
