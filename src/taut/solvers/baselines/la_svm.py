"""LaSVM: online steps on single examples, of which the most violated are looked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from taut.binding import CompiledData, Data
from taut.checks import check_flag, check_number
from taut.compiled.jit import helper, kernel
from taut.compiled.xorshift import below, scrambled, stepped
from taut.duals import BlockDual, EnumeratedDual
from taut.engines.naming import Arrays
from taut.engines.part import Reply
from taut.engines.serial import Serial
from taut.engines.turns import KeepGoing, draw_seed, until_report
from taut.errors import InvalidData
from taut.problem import Problem
from taut.solvers._block_ascent import BlockAscent
from taut.solvers._subsets import is_count
from taut.solvers.base import PassEvent, PassReport
from taut.storage.stored import Stored, check, require

_DRAWN = 12_800  # rows that are drawn between two questions whether to go on
_MOVED = 1_000_000  # potentials that steps of a finishing change between two such questions
_FINISHING = 50  # steps of a finishing for each row, at most
_ROUNDING = 8.0 * np.finfo(np.float64).eps  # of the largest terms of violations
_AHEAD = 8  # picks whose rows are computed together

#: What a pass goes through again and again, and in the end.
_PICK, _PROCESS, _REPROCESS, _FINISH = range(4)
#: Places in the array of counters: picks of this pass that are done, what comes next, the row that
#: was picked or is wanted, how many rows are in the set, picks so far, and steps of this finishing.
_DONE, _NEXT, _ROW, _SIZE, _SEEN, _STEPS = range(6)


@helper
def _violation(f, sign, loss, i):
    return loss[i] - sign[i] * f[i]


@helper
def _step(gram, slots, f, alpha, sign, loss, norm, weight, i):
    """The best step of one dual variable, and what it does to the potentials of all rows.

    Returns whether it moved.
    """
    step = _violation(f, sign, loss, i) / norm[i]
    step = max(min(step, weight[i] - alpha[i]), -alpha[i])
    if alpha[i] + step == alpha[i]:
        return False
    alpha[i] += step
    amount, row = sign[i] * step, gram[slots[i]]
    for u in range(f.shape[0]):
        f[u] += amount * row[u]
    return True


@helper
def _worst_member(f, alpha, sign, loss, weight, members, inside, counters):
    """The row of the set that violates its condition most, and by how much; -1 for none.

    Rows without weight that w keeps far enough away leave the set.
    """
    worst, most = -1, 0.0
    k = 0
    while k < counters[_SIZE]:
        i = members[k]
        violation = _violation(f, sign, loss, i)
        if alpha[i] <= 0.0 and violation <= 0.0:
            counters[_SIZE] -= 1
            members[k] = members[counters[_SIZE]]
            inside[i] = False
            continue
        k += 1
        free = alpha[i] < weight[i] if violation > 0.0 else alpha[i] > 0.0
        if free and abs(violation) > most:
            worst, most = i, abs(violation)
    return worst, most


@helper
def _picked(f, sign, loss, norm, weight, inside, seed, number, candidates):
    """The row with the largest violation of some that are drawn and not in the set, or -1."""
    worst, most = -1, 0.0
    x = scrambled(seed + np.uint64(number))
    for _ in range(candidates):
        x = stepped(x)
        i = below(x, f.shape[0])
        if weight[i] > 0.0 and norm[i] > 0.0 and not inside[i]:
            violation = _violation(f, sign, loss, i)
            if violation > most:
                worst, most = i, violation
    return worst


@kernel
def _foreseen(f, sign, loss, norm, weight, inside, counters, seed, candidates, out):
    """The rows that picks from here on would take if nothing moved, -1 for none."""
    for k in range(out.shape[0]):
        number = counters[_DONE] + k
        out[k] = _picked(f, sign, loss, norm, weight, inside, seed, number, candidates)


@kernel
def _process(
    gram, slots, f, alpha, sign, loss, norm, weight, members, inside, counters, seed, drawn, end
):  # fmt: skip
    """Pick, process and reprocess, until so many picks are done or a row is not at hand."""
    while counters[_DONE] < end:
        if counters[_NEXT] == _PICK:
            i = _picked(f, sign, loss, norm, weight, inside, seed, counters[_DONE], drawn)
            counters[_ROW] = i
            counters[_NEXT] = _PROCESS if i >= 0 else _REPROCESS
        if counters[_NEXT] == _PROCESS:
            i = counters[_ROW]
            if slots[i] < 0:
                return True
            inside[i] = True
            members[counters[_SIZE]] = i
            counters[_SIZE] += 1
            _step(gram, slots, f, alpha, sign, loss, norm, weight, i)
            counters[_NEXT] = _REPROCESS
        i, _most = _worst_member(f, alpha, sign, loss, weight, members, inside, counters)
        if i >= 0:
            if slots[i] < 0:
                counters[_ROW] = i
                return True
            _step(gram, slots, f, alpha, sign, loss, norm, weight, i)
        counters[_NEXT] = _PICK
        counters[_DONE] += 1
        counters[_SEEN] += 1
    return False


@kernel
def _finish(
    gram, slots, f, alpha, sign, loss, norm, weight, members, inside, counters, precision, limit
):  # fmt: skip
    """Reprocess until no member violates by more than `precision`, or steps change nothing.

    Returns whether that is so. It ends before after so many steps, or where a row is not at hand:
    that is then noted.
    """
    counters[_ROW] = -1
    while counters[_STEPS] < limit:
        i, most = _worst_member(f, alpha, sign, loss, weight, members, inside, counters)
        if most <= precision:
            return True
        if slots[i] < 0:
            counters[_ROW] = i
            return False
        counters[_STEPS] += 1
        if not _step(gram, slots, f, alpha, sign, loss, norm, weight, i):
            return True
    return False


class ProcessState(Serial):
    """Dual variables of all rows, and the set of those that steps look at."""

    steady = True  # no centre moves around single steps
    ascent: LaSVM

    def __init__(self, problem: Problem, ascent: LaSVM, rng: np.random.Generator) -> None:
        super().__init__(problem, ascent, rng)
        super().widen()  # sums of terms as large as C cancel
        duals: Any = self.part.duals
        self.features = duals.data.blocks.features
        self.signs, self.losses = (np.asarray(given) for given in duals.data.signed_rows)
        self.alpha = duals.alpha[:, 0]
        # Rows without length cannot move w, and their part of the dual is linear.
        still = np.flatnonzero((self.features.norms[: len(self.alpha)] == 0.0) & (self.losses > 0))
        self.alpha[still] = problem.block_weight[still]
        n = problem.n_blocks
        self.members, self.inside = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)
        self.counters = np.zeros(6, dtype=np.int64)
        self.seed = np.uint64(1)

    @property
    def seen(self) -> int:
        """Picks so far."""
        return int(self.counters[_SEEN])

    @property
    def candidates(self) -> int:
        """Rows that are drawn for a pick; more than there are would only be drawn twice."""
        return min(self.ascent.candidates, len(self.alpha))

    @property
    def rounding(self) -> float:
        """What violations may be by rounding alone."""
        potentials = self.features.shares(self.w)[0][0]
        own = self.alpha * self.features.norms[: len(self.alpha)]
        return _ROUNDING * float(max(np.abs(potentials).max(), own.max()))

    @property
    def rows(self) -> tuple[np.ndarray, ...]:
        """What steps work on: rows of the matrix at hand, potentials, dual variables, the set."""
        cache = self.features.cache
        return (
            cache.gram, cache.slots(np.arange(len(self.alpha))), self.features.shares(self.w)[0][0],
            self.alpha, self.signs, self.losses, self.features.norms, self.problem.block_weight,
            self.members, self.inside, self.counters,
        )  # fmt: skip

    def hold(self, ahead: int = 0) -> None:
        """Have the row that is wanted at hand, and those that picks ahead of it seem to want.

        Some rows at once take a fraction of the time that they take one by one.
        """
        cache, candidates = self.features.cache, self.candidates
        _gram, slots, *rows, _members, inside, counters = self.rows
        foreseen = np.empty(ahead, dtype=np.int64)
        f, _alpha, *rest = rows
        _foreseen(f, *rest, inside, counters, self.seed, candidates, foreseen)
        wanted = np.unique(np.append(foreseen, counters[_ROW]))
        cache.hold(wanted[(wanted >= 0) & (slots[wanted] < 0)])

    def sweep(self, stiffness: float, keep_going: KeepGoing) -> Reply:
        """What a look at all rows finds, after steps; nothing moves."""
        _potentials, coefficients, _tail = self.features.shares(self.w)
        coefficients[0] = self.signs * self.alpha
        self.part.loss_sum = float(self.alpha @ self.losses)
        violation = self.losses - self.signs * self.features.shares(self.w)[0][0]
        weight = self.problem.block_weight
        gap = np.maximum(weight * np.maximum(violation, 0.0) - self.alpha * violation, 0.0)
        return Reply(float(gap.sum()), 0.0, len(gap), True, True)

    def arrays(self) -> Arrays:
        """Everything, as named arrays."""
        members = self.members[: self.counters[_SIZE]]
        own = {"members": members, "picks": self.counters, "seed": np.array([self.seed])}
        return super().arrays() | own

    def restore(self, arrays: Arrays) -> None:
        """Go on exactly where `arrays` were taken."""
        n, members = self.problem.n_blocks, arrays["members"]
        check(
            arrays,
            {
                "members": Stored("i8", (None,), 0, n - 1),
                "picks": Stored("i8", (6,), -1),
                "seed": Stored("u8", (1,), 1),
            },
        )
        counters = arrays["picks"]
        require(counters[_SIZE] == len(members) == len(np.unique(members)), "rows are miscounted")
        done = counters[_DONE]
        require(counters[_ROW] < n and 0 <= done <= counters[_SEEN], "picks are miscounted")
        picked = counters[_ROW] >= 0 and counters[_ROW] not in members
        following = {_PICK: True, _REPROCESS: True, _PROCESS: picked, _FINISH: done >= n}
        require(following.get(int(counters[_NEXT]), False), "no row was picked")
        super().restore(arrays)
        self.members[: len(members)] = members
        self.inside[:] = False
        self.inside[members] = True
        self.counters[:] = counters
        self.seed = arrays["seed"][0]


@dataclass
class LaSVM(BlockAscent):
    """LaSVM (Bordes, Ertekin, Weston and Bottou, 2005), for two classes and a kernel.

    Problem: max_a sum_i a_i loss_i - 1/2 |sum_i a_i sign_i phi_i|^2, 0 <= a_i <= C_i.
    Given: rows of a kernel matrix. Comes out: feasible a, and w = sum_i a_i sign_i phi_i.

    A set of rows grows and shrinks. Each pick draws some rows, and takes the most violated one into
    the set by an exact step of its dual variable ("process"). Then the row of the set that violates
    its condition most takes a step ("reprocess"), and rows leave that have no weight and are far
    enough away. A pass has as many picks as there are rows, and ends by reprocessing until no row
    of the set violates by more than `precision`, and no more than rounding does ("finishing"). That
    takes at most 50 steps for each row of the data: features that are not scaled may need any
    number.

    Published with a free bias, which ties pairs of steps together. Here there is none, and steps
    are single ones. The scores of all rows are kept up to date, where the published method computes
    those of the drawn rows anew from the set: a row of the matrix for each row that joins, instead
    of many short ones.

    Cost per pass: some steps for each row, each a sum over all rows.
    Memory: rows of the matrix within the cache, and some numbers for each row.
    Certificate: exact; the dual never falls.

    Parameters
    ----------
    candidates : int, default=50
        Rows that are drawn for a pick, and not more than there are; 1 for no choice.
    finishing : bool, default=True
    precision : float, default=1e-3

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.kernels import RBF
    >>> from taut.solvers import LaSVM
    >>> from taut.spaces.kernel import through_kernel
    >>> from taut.structures import Scalar
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, -1.0, 1.0])
    >>> problem = Problem(Scalar(), X, y, C=10.0, space=through_kernel(RBF(gamma=1.0)))
    >>> solve(problem, LaSVM(), tol=1e-3, random_state=0).certificate.status.name
    'CONVERGED'
    """

    name: ClassVar[str] = "la_svm"
    takes: ClassVar[tuple[str, ...]] = ("whole", "rows")

    candidates: int = 50
    finishing: bool = True
    precision: float = 1e-3

    def __post_init__(self) -> None:
        check_flag("finishing", self.finishing)
        if not is_count(self.candidates):
            raise InvalidData(f"candidates = {self.candidates!r}: give a whole number from 1 on")
        check_number("precision", self.precision)
        if not 0.0 < self.precision < 1.0:
            raise InvalidData(f"precision = {self.precision}: give a number between 0 and 1")

    def check(self, problem: Problem) -> None:
        """Refuse what has not one row and one candidate, or no kernel."""
        super().check(problem)
        if problem.quadratic.of_weights:
            raise InvalidData(
                f"{self.name} steps along rows of a kernel matrix: give a kernel, such as "
                "kernel=taut.kernels.Linear(), or use solver='dual_coordinate'"
            )
        if problem.data.signed_rows is None:
            raise InvalidData(
                f"{self.name} is for two classes, and {type(problem.structure).__name__} has "
                "others: use solver='dual_coordinate'"
            )

    def duals_of(self, data: Data, weight: np.ndarray, n_jobs: int) -> BlockDual:
        """A number for each row."""
        assert isinstance(data, CompiledData)
        return EnumeratedDual(data, weight, n_jobs)

    def init(self, problem: Problem, rng: np.random.Generator) -> ProcessState:
        """a = 0."""
        return ProcessState(problem, self, rng)

    def pass_(
        self,
        problem: Problem,
        state: ProcessState,
        stiffness: float,
        keep_going: KeepGoing,
    ) -> PassReport:
        """As many picks as there are rows, and the finishing, or a part of them."""
        n, counters = problem.n_blocks, state.counters
        with state.features.turns:
            if counters[_DONE] >= n and counters[_NEXT] != _FINISH:
                counters[_DONE], counters[_NEXT] = 0, _PICK
            if counters[_DONE] == 0 and counters[_NEXT] == _PICK:
                state.seed = draw_seed(state.rng)
            in_time = until_report(keep_going)
            while counters[_DONE] < n:
                end = min(counters[_DONE] + max(_DRAWN // state.candidates, 1), n)
                while _process(*state.rows, state.seed, state.candidates, end):
                    state.hold(_AHEAD)
                if not in_time():
                    break
            over = counters[_DONE] >= n
            if over and self.finishing:
                over = self._finished(state, in_time)
            reply = state.sweep(stiffness, keep_going)
        event = PassEvent.COMPLETE if over else PassEvent.PART
        return PassReport(reply.gap, reply.movement, reply.calls, event)

    def _finished(self, state: ProcessState, in_time: KeepGoing) -> bool:
        """Reprocess the rows of the set, at most so often; whether there was time for it."""
        n, counters = len(state.alpha), state.counters
        if counters[_NEXT] != _FINISH:
            counters[_NEXT], counters[_STEPS] = _FINISH, 0
        precision = max(self.precision, state.rounding)
        while counters[_STEPS] < _FINISHING * n:
            end = min(counters[_STEPS] + max(_MOVED // n, 1), _FINISHING * n)
            if _finish(*state.rows, precision, end):
                break
            if counters[_ROW] >= 0:
                state.hold()
            if not in_time():
                return False
        counters[_NEXT] = _PICK
        return True
