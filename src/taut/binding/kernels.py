"""Loops over blocks, compiled around a structure's oracles (`taut.compiled.jit.specialise`)."""

from __future__ import annotations

import math

from taut.spaces.labels import adding_of, products_of, score_of

_DOUBT = 1e-6  # relative difference of values that must be equal, beyond which one is wrong


def make_hinges(operations):
    """The largest violation of each block."""
    pull, argmax, score = operations.pull, operations.argmax, score_of(operations)

    def hinges(space, data, offsets, w, work, first, last, truth, loss_weight, labels, out):
        """out[i] = the largest violation of block i, its losses times a weight.

        The flat array `labels` gets the labels that it belongs to.
        """
        for i in range(first, last):
            pull(space, i, w, work)
            base = score(data, i, work, truth[offsets[i] : offsets[i + 1]])
            label = labels[offsets[i] : offsets[i + 1]]
            out[i] = max(argmax(data, i, work, loss_weight, label) - base, 0.0)

    return hinges


def make_hinge_sum(operations):
    """The sum of the largest violations."""
    pull, argmax, score = operations.pull, operations.argmax, score_of(operations)

    def hinge_sum(space, data, offsets, w, work, first, last, truth, weight, label):
        """The sum of C_i hinge_i over some blocks, and one more than a block with a wrong argmax.

        That is one below the truth. `label` is room for the longest label.
        """
        total = 0.0
        doubt = 0
        for i in range(first, last):
            pull(space, i, w, work)
            base = score(data, i, work, truth[offsets[i] : offsets[i + 1]])
            best = argmax(data, i, work, 1.0, label[: offsets[i + 1] - offsets[i]])
            total += weight[i] * max(best - base, 0.0)
            doubt = i + 1 if best < base - _DOUBT * (1.0 + abs(base)) else doubt
        return total, doubt

    return hinge_sum


def make_lengths(operations):
    """The lengths of features."""
    pull, argmax, products = operations.pull, operations.argmax, products_of(operations)

    def lengths(space, data, offsets, truth, w, work, loss_weight, label, room, row, out):
        """out[i] = the larger of |phi(truth)| and |phi(label)|, the label that violates most."""
        for i in range(out.shape[0]):
            size = offsets[i + 1] - offsets[i]
            own, found = truth[offsets[i] : offsets[i + 1]], label[:size]
            pull(space, i, w, work)
            argmax(data, i, work, loss_weight, found)
            out[i] = 0.0
            for side in range(2):  # one call, which is compiled into this once
                side_label = own if side == 0 else found
                products(data, i, side_label, side_label.reshape((1, size)), room, row)
                out[i] = max(out[i], math.sqrt(max(row[0], 0.0)))

    return lengths


def make_audit(operations):
    """Doubts about an argmax."""
    pull, argmax, score = operations.pull, operations.argmax, score_of(operations)
    loss_of = operations.loss

    def audit(space, data, offsets, truth, w, work, blocks, loss_weights, label, doubts):
        """Look for blocks whose argmax is not what it must be; doubts[0] is one more than the last.

        The first of the weights of losses is 1: its label has the value that is returned, and
        neither the truth nor labels that are best under other weights beat it.
        """
        for i in blocks:
            found = label[: offsets[i + 1] - offsets[i]]
            pull(space, i, w, work)
            best = score(data, i, work, truth[offsets[i] : offsets[i + 1]])
            for q in range(loss_weights.shape[0]):
                claimed = argmax(data, i, work, loss_weights[q], found)
                value = score(data, i, work, found) + loss_of(data, i, found)
                slack = _DOUBT * (1.0 + abs(best) + abs(value))
                if q == 0 and (abs(claimed - value) > slack or value < best - slack):
                    doubts[0] = i + 1
                if q == 0:
                    best = value
                elif value > best + slack:
                    doubts[0] = i + 1

    return audit


def make_features(operations):
    """Features of labels, added up."""
    add_labels = adding_of(operations)

    def features(space, data, i, labels, scales, statistics, w):
        """Add sum_q scales[q] phi(labels[q]) of block i to w."""
        add_labels(space, data, i, labels, scales, statistics, w)

    return features


def make_worst_planes(operations):
    """The sum of the planes of highest violation."""
    pull, argmax, score = operations.pull, operations.argmax, score_of(operations)
    loss_of, add_labels = operations.loss, adding_of(operations)

    def worst_planes(space, data, blocks, weight, w, room, first, last, psi, sums):
        """Add the planes of highest violation of some blocks, times their weights.

        `blocks` is (offsets, truth), `room` is (work, statistics, pair, scales): a label beside the
        truth.
        """
        offsets, truth = blocks
        work, statistics, pair, scales = room
        for i in range(first, last):
            if weight[i] == 0.0:
                continue
            size = offsets[i + 1] - offsets[i]
            own = truth[offsets[i] : offsets[i + 1]]
            found = pair[size : 2 * size]
            pull(space, i, w, work)
            value = argmax(data, i, work, 1.0, found) - score(data, i, work, own)
            if value > 0.0:
                for t in range(size):
                    pair[t] = own[t]
                scales[0], scales[1] = weight[i], -weight[i]
                rows = pair[: 2 * size].reshape((2, size))
                add_labels(space, data, i, rows, scales, statistics, psi)
                sums[0] += weight[i] * loss_of(data, i, found)
                sums[1] += weight[i] * value

    return worst_planes


def make_argmaxes(operations):
    """Predictions."""
    pull, argmax = operations.pull, operations.argmax

    def argmaxes(space, data, offsets, w, work, first, last, out):
        """Write the highest scoring label of each block into the flat array `out`."""
        for i in range(first, last):
            pull(space, i, w, work)
            argmax(data, i, work, 0.0, out[offsets[i] : offsets[i + 1]])

    return argmaxes


def make_draws(operations):
    """Labels that a structure chooses beside the best one."""
    pull, sample, score = operations.pull, operations.sample, score_of(operations)

    def draws(space, data, offsets, w, work, first, last, room, labels, scores):
        """Write the labels that the structure's own sample chooses without losses, and scores.

        Those of a block one after the other, in the order in which they are chosen.
        """
        count = scores.shape[1]
        for i in range(first, last):
            size = offsets[i + 1] - offsets[i]
            found = room[: count * size].reshape((count, size))
            pull(space, i, w, work)
            for q in range(sample(data, i, work, 0.0, 0, found)):
                scores[i, q] = score(data, i, work, found[q])
                for t in range(size):
                    labels[q, offsets[i] + t] = found[q, t]

    return draws


def make_prediction_losses(operations):
    """Losses of predictions."""
    loss = operations.loss

    def prediction_losses(data, offsets, labels, out):
        """out[i] = loss of the label of block i in the flat array `labels`."""
        for i in range(out.shape[0]):
            out[i] = loss(data, i, labels[offsets[i] : offsets[i + 1]])

    return prediction_losses


def make_completions(operations):
    """Latent parts of truths."""
    pull, complete = operations.pull, operations.complete

    def completions(space, data, offsets, w, work, first, last, out):
        """Give the truths in the flat array `out` their best latent parts."""
        for i in range(first, last):
            pull(space, i, w, work)
            complete(data, i, work, out[offsets[i] : offsets[i + 1]])

    return completions
