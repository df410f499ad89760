"""Structures in plain Python that keep all laws, in unusual ways."""

from __future__ import annotations

import numpy as np

from misuses.own import Table


class Fine(Table):
    """Nothing is wrong."""


class Asymmetric(Table):
    """Nothing is wrong: costs of tables are not symmetric."""


class Lists(Table):
    """Nothing is wrong: features as a list."""

    def features(self, x, label):
        return self.clean_features(x, label).tolist()


class Bounded(Table):
    """Nothing is wrong: it states its error."""

    share = 1.0

    def bounded_argmax(self, x, w, truth=None):
        values = np.array(self.values(x, w, truth))
        order = np.argsort(values)
        label = int(order[-2] if x[0] > 0.5 else order[-1])
        return label, self.share * float(values.max() - values[label])


class RandomTies(Table):
    """Nothing is wrong: of equally good labels any may come."""

    def __init__(self, *args):
        super().__init__(*args)
        self.rng = np.random.default_rng(0)

    def argmax(self, x, w, truth=None):
        values = np.array(self.values(x, w, truth))
        return int(self.rng.choice(np.flatnonzero(values == values.max())))


class OtherOrder(Table):
    """Nothing is wrong: the same sums in another order, with another rounding."""

    def argmax(self, x, w, truth=None):
        rows = w.reshape(self.n_labels, self.d)
        values = (rows[:, ::-1] * (self.scale * np.asarray(x)[::-1])).sum(axis=1)
        if truth is not None:
            values = self.factor * self.cost[truth] + values
        return int(np.argmax(values))


class ZeroCosts(Table):
    """Nothing is wrong: some wrong labels cost nothing, and some have the same features."""

    def __init__(self, *args):
        super().__init__(*args)
        self.cost = self.cost * (self.cost > 1.0)

    def clean_features(self, x, label):
        return super().clean_features(x, label // 2)


class SmallTypes(Table):
    """Nothing is wrong: features in single precision, losses as integers of numpy."""

    def __init__(self, *args):
        super().__init__(*args)
        self.cost = np.ceil(self.cost)

    def clean_features(self, x, label):
        return super().clean_features(np.asarray(x, dtype=np.float32), label)

    def features(self, x, label):
        return self.clean_features(x, label).astype(np.float32)

    def loss(self, truth, label):
        return np.int64(self.clean_loss(truth, label))


LAWFUL = (Fine, Asymmetric, Lists, Bounded, RandomTies, OtherOrder, ZeroCosts, SmallTypes)
