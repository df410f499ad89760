"""How threads share w: each works on its own, and exchanges news with the others now and then.

Threads that write to one w fight for its cache lines, and where two write at once a move is lost.
So each thread has its own w. Every few visits it publishes the sum of its moves where only it
writes, and adds to its w what is new among the others' sums. Nothing is locked and nothing is lost:
what a thread reads while another writes is old or new, and what is old is read again next time.

An exchange takes as long as reading w a few times. Where w is large and visits touch little of it,
threads share w instead: they rarely meet, and since each also adds up its own moves, what they lose
is put right at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taut.compiled.jit import helper, view
from taut.compiled.lanes import aligned_copy, aligned_zeros
from taut.spaces.labels import adding_of


class Worker(NamedTuple):
    """One thread's view of w.

    `own` receives the thread's moves too where w is shared, and is empty otherwise. `base` is w
    without the thread's own moves. Row k of `moves` holds the sum of the moves of thread k as last
    published, and row k of `seen` what this thread has taken over of it.
    """

    w: np.ndarray
    own: np.ndarray
    base: np.ndarray
    moves: np.ndarray
    seen: np.ndarray
    number: int
    interval: int


def alone(w: np.ndarray) -> Worker:
    """The only thread."""
    nothing = np.empty((1, 0), dtype=w.dtype)
    return Worker(w, nothing[0], nothing[0], nothing, nothing, 0, 0)


def together(w: np.ndarray, n_threads: int, interval: int) -> list[Worker]:
    """Threads that exchange news every `interval` visits, or share w if it is 0."""
    moves = aligned_zeros(n_threads * len(w), w.dtype).reshape(n_threads, -1)
    nothing = np.empty((n_threads, 0), dtype=w.dtype)
    return [
        Worker(
            aligned_copy(w), nothing[k], aligned_copy(w), moves, np.zeros_like(moves), k, interval
        )
        if interval
        else Worker(w, moves[k], nothing[k], moves, nothing, k, interval)
        for k in range(n_threads)
    ]


def collect(w: np.ndarray, before: np.ndarray, workers: list[Worker]) -> None:
    """Put all moves into w, which was `before` at the beginning."""
    for worker in workers:
        if worker.interval:
            np.subtract(worker.w, worker.base, out=worker.moves[worker.number])
    np.add(before, workers[0].moves.sum(axis=0), out=w)


@helper
def exchange(worker, visit):
    """Every few visits, publish the thread's own moves, and take over what is new of others'."""
    w, base, moves, seen = worker.w, worker.base, worker.moves, worker.seen
    if worker.interval > 0 and visit % worker.interval == 0:
        for j in range(w.shape[0]):
            moves[worker.number, j] = w[j] - base[j]
        for k in range(moves.shape[0]):
            if k != worker.number:
                for j in range(w.shape[0]):
                    news = moves[k, j] - seen[k, j]
                    seen[k, j] += news
                    base[j] += news
                    w[j] += news


def pushing_of(operations):
    """A function that adds scale A_i s to a thread's w, and to its own moves where w is shared.

    `s` are the first `size` statistics of block i; `scaled` is room for as many of the type of w.
    """
    push = operations.push

    def push_to(space, i, s, size, scale, scaled, worker):
        for p in range(size):
            scaled[p] = scale * s[p]
        push(space, i, scaled, size, 0.0, worker.w)
        if worker.own.shape[0] > 0:
            push(space, i, scaled, size, 0.0, worker.own)

    return view(push_to)


def moving_of(operations):
    """The same of sum_q scales[q] phi(labels[q])."""
    add_labels = adding_of(operations)

    def move(space, data, i, labels, scales, statistics, worker):
        add_labels(space, data, i, labels, scales, statistics, worker.w)
        if worker.own.shape[0] > 0:
            add_labels(space, data, i, labels, scales, statistics, worker.own)

    return view(move)
