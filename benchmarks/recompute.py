"""Certificates recomputed from the model and the dual variables, in plain numpy.

Nothing here calls the oracles, the kernels or the bookkeeping of the library: features, losses and
Viterbi are written again from their definitions. Only where a state keeps its planes is taken over.
"""

from __future__ import annotations

import numpy as np

from taut.duals.planes import LABEL_SIZE, N_PLANES, SLOT, TEXT


def binary(X, signs, C, w, alpha):
    """Primal at w and dual at alpha of the hinge with X as it is, without bias."""
    primal = 0.5 * w @ w + C * np.maximum(0.0, 1.0 - signs * (X @ w)).sum()
    assert alpha.min() >= 0.0
    assert alpha.max() <= C * (1.0 + 1e-12)
    U = X.T @ (signs * alpha)
    return primal, alpha.sum() - 0.5 * U @ U


def multiclass(X, y, C, W, alpha):
    """Primal at W, of shape (classes, features), and dual at alpha, of shape (rows, classes)."""
    rows = np.arange(len(y))
    scores = X @ W.T + 1.0
    scores[rows, y] -= 1.0
    primal = 0.5 * (W**2).sum() + C * (scores.max(axis=1) - scores[rows, y]).sum()
    assert alpha.min() >= 0.0
    assert np.allclose(alpha.sum(axis=1), C, rtol=1e-9)
    direction = -alpha
    direction[rows, y] += alpha.sum(axis=1)
    U = X.T @ direction
    return primal, alpha.sum() - alpha[rows, y].sum() - 0.5 * (U**2).sum()


def chain(X, y, lengths, C, coef, transition, planes):
    """Primal at the weights, and dual at `planes`: (word, labels, coefficient) of each plane."""
    starts = np.cumsum(lengths) - lengths
    scores = np.asarray(X @ coef.T)
    hinges = 0.0
    for start, length in zip(starts, lengths, strict=True):
        truth = y[start : start + length]
        nodes = scores[start : start + length] + 1.0 / length
        nodes[np.arange(length), truth] -= 1.0 / length
        best = nodes[0]
        for t in range(1, length):
            best = (best[:, None] + transition).max(axis=0) + nodes[t]
        own = nodes[np.arange(length), truth].sum() + transition[truth[:-1], truth[1:]].sum()
        hinges += best.max() - own
    primal = 0.5 * ((coef**2).sum() + (transition**2).sum()) + C * hinges

    share = np.zeros_like(scores)  # of each label at each position, in U
    pairs = np.zeros_like(transition)
    losses, sums = 0.0, np.zeros(len(lengths))
    for word, labels, coefficient in planes:
        start, length = starts[word], lengths[word]
        truth = y[start : start + length]
        rows = np.arange(start, start + length)
        share[rows, truth] += coefficient
        share[rows, labels] -= coefficient
        np.add.at(pairs, (truth[:-1], truth[1:]), coefficient)
        np.add.at(pairs, (labels[:-1], labels[1:]), -coefficient)
        losses += coefficient * np.mean(labels != truth)
        sums[word] += coefficient
        assert coefficient >= 0.0
    assert sums.max() <= C * (1.0 + 1e-9)
    U = X.T @ share
    return primal, losses - 0.5 * ((U**2).sum() + (pairs**2).sum())


def planes_of(state):
    """The planes in a solver's state, as (block, labels, coefficient)."""
    columns = [N_PLANES, SLOT, TEXT, LABEL_SIZE]
    for i, (count, slot, text, size) in enumerate(state["places"][:, columns].tolist()):
        for q in range(count):
            labels = state["labels"][text + q * size : text + (q + 1) * size]
            yield i, labels, state["coef"][slot + q]
