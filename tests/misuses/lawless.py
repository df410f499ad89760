"""Structures in plain Python that break a law."""

from __future__ import annotations

import numpy as np

from misuses.lawful import Bounded
from misuses.own import Table


class SharedLabel(Table):
    """Nothing is wrong with its values, but all labels are one object."""

    def __init__(self, *args):
        super().__init__(*args)
        self.room = np.zeros(1, dtype=int)

    def features(self, x, label):
        return self.clean_features(x, int(np.ravel(label)[0]))

    def loss(self, truth, label):
        return self.clean_loss(int(np.ravel(truth)[0]), int(np.ravel(label)[0]))

    def argmax(self, x, w, truth=None):
        self.room[0] = super().argmax(x, w, truth)
        return self.room


class ForgetsLoss(Table):
    def argmax(self, x, w, truth=None):
        return super().argmax(x, w)


class FalsyTruth(Table):
    """`if truth:` in the place of `if truth is not None:`."""

    def argmax(self, x, w, truth=None):
        return super().argmax(x, w, truth if truth else None)


class ForgetsLossSometimes(Table):
    def argmax(self, x, w, truth=None):
        return super().argmax(x, w, truth if x[0] > 0 else None)


class HalfTheLoss(Table):
    def argmax(self, x, w, truth=None):
        values = np.array(self.values(x, w, None))
        if truth is not None:
            values += 0.5 * self.factor * self.cost[truth]
        return int(np.argmax(values))


class WrongSign(Table):
    def argmax(self, x, w, truth=None):
        values = np.array(self.values(x, w, None))
        if truth is not None:
            values -= self.factor * self.cost[truth]
        return int(np.argmax(values))


class Transposed(Table):
    """The loss of the truth where the answer is right: arguments in the wrong order."""

    def argmax(self, x, w, truth=None):
        values = np.array(self.values(x, w, None))
        if truth is not None:
            values += self.factor * self.cost[:, truth]
        return int(np.argmax(values))


class SecondBest(Table):
    """The best but for some examples."""

    def argmax(self, x, w, truth=None):
        order = np.argsort(self.values(x, w, truth))
        return int(order[-2] if x[0] > 0.5 else order[-1])


class SecondBestSometimes(Table):
    """The best but for some weights."""

    def argmax(self, x, w, truth=None):
        order = np.argsort(self.values(x, w, truth))
        return int(order[-2] if np.sin(1e3 * w.sum()) > 0.8 else order[-1])


class Random(Table):
    def __init__(self, *args):
        super().__init__(*args)
        self.rng = np.random.default_rng(0)

    def argmax(self, x, w, truth=None):
        return int(self.rng.integers(self.n_labels))


class RandomSometimes(Random):
    def argmax(self, x, w, truth=None):
        if self.rng.random() < 0.1:
            return int(self.rng.integers(self.n_labels))
        return Table.argmax(self, x, w, truth)


class Misses(Table):
    """One label is never found."""

    def argmax(self, x, w, truth=None):
        return int(np.argmax(self.values(x, w, truth)[:-1]))


class Neighbours(Table):
    """A search that goes from the truth to neighbouring labels only."""

    def argmax(self, x, w, truth=None):
        values = self.values(x, w, truth)
        if truth is None:
            return int(np.argmax(values))
        near = [k for k in (truth - 1, truth, truth + 1) if 0 <= k < self.n_labels]
        return max(near, key=lambda k: values[k])


class Truth(Table):
    """The truth, whatever the weights."""

    def argmax(self, x, w, truth=None):
        return super().argmax(x, w) if truth is None else truth


class Remembers(Table):
    """A cache whose key lacks the weights."""

    def __init__(self, *args):
        super().__init__(*args)
        self.known = {}

    def argmax(self, x, w, truth=None):
        key = (np.asarray(x).tobytes(), truth)
        if key not in self.known:
            self.known[key] = super().argmax(x, w, truth)
        return self.known[key]


class Stale(Table):
    """The weights of the call before."""

    last = None

    def argmax(self, x, w, truth=None):
        before, self.last = self.last, w.copy()
        return super().argmax(x, w if before is None else before, truth)


class HalfPrecision(Table):
    def argmax(self, x, w, truth=None):
        values = np.array(self.values(x, w, truth), dtype=np.float16)
        return int(np.argmax(values))


class TruthCosts(Table):
    def __init__(self, *args):
        super().__init__(*args)
        self.cost = self.cost + 0.5 * np.eye(self.n_labels)


class NegativeLoss(Table):
    def __init__(self, *args):
        super().__init__(*args)
        self.cost = self.cost - 0.8 * (1 - np.eye(self.n_labels))


class NoisyLoss(Table):
    def __init__(self, *args):
        super().__init__(*args)
        self.rng = np.random.default_rng(0)

    def loss(self, truth, label):
        return self.clean_loss(truth, label) * (1 + 0.2 * self.rng.random())


class RisingLoss(Table):
    """A loss with a schedule, which the user meant for each pass."""

    calls = 0

    def loss(self, truth, label):
        self.calls += 1
        return self.clean_loss(truth, label) * min(1.0, 0.5 + self.calls / 500)


class NoisyFeatures(Table):
    """Augmentation inside `features`."""

    def __init__(self, *args):
        super().__init__(*args)
        self.rng = np.random.default_rng(0)

    def features(self, x, label):
        return self.clean_features(np.asarray(x) + 0.1 * self.rng.normal(size=self.d), label)


class DriftingFeatures(Table):
    """Running statistics inside `features`."""

    calls = 0

    def features(self, x, label):
        self.calls += 1
        return self.clean_features(np.asarray(x) * (1 + 1e-4 * self.calls), label)


class Buffer(Table):
    """One array that each call of `features` fills anew and returns."""

    room = None

    def features(self, x, label):
        if self.room is None:
            self.room = np.zeros(self.n_labels * self.d)
        self.room[:] = self.clean_features(x, label)
        return self.room


class Bytes(Table):
    """Features as small unsigned integers; x is rounded to them."""

    def clean_features(self, x, label):
        return super().clean_features(np.round(3 + np.abs(x)), label)

    def features(self, x, label):
        return self.clean_features(x, label).astype(np.uint8)


class MutatesX(Table):
    """Features that normalise the example in place; each time anew it is the same."""

    def features(self, x, label):
        x /= max(np.abs(x).max(), 1e-9)
        return super().features(x, label)


class ShrinksX(Table):
    """Features that change the example a little more with each call."""

    def features(self, x, label):
        x *= 0.999
        return super().features(x, label)


class NanFeatures(Table):
    def features(self, x, label):
        out = self.clean_features(x, label)
        if label == self.n_labels - 1:
            out[0] = np.nan
        return out


class LongFeatures(Table):
    def features(self, x, label):
        out = self.clean_features(x, label)
        return np.append(out, 1.0) if label == self.n_labels - 1 else out


class HugeFeatures(Table):
    """Finite features whose products are not."""

    def clean_features(self, x, label):
        out = super().clean_features(x, label)
        return out * 1e200 if label == self.n_labels - 1 else out


class NanLoss(Table):
    def loss(self, truth, label):
        return np.nan if label == self.n_labels - 1 != truth else self.clean_loss(truth, label)


class InfiniteLoss(Table):
    """A forbidden label."""

    def clean_loss(self, truth, label):
        return np.inf if label == self.n_labels - 1 != truth else super().clean_loss(truth, label)


class OutOfRange(Table):
    """A label that is none, which `features` and `loss` take."""

    def features(self, x, label):
        return (
            self.clean_features(x, label)
            if label < self.n_labels
            else np.zeros_like(self.clean_features(x, 0))
        )

    def loss(self, truth, label):
        return self.clean_loss(truth, label) if label < self.n_labels else 5.0

    def argmax(self, x, w, truth=None):
        best = super().argmax(x, w, truth)
        return self.n_labels if truth is not None and x[0] > 0.5 else best


class NoLabel(Table):
    """A search that now and then finds nothing."""

    def argmax(self, x, w, truth=None):
        return None if truth is not None and x[0] > 0.5 else super().argmax(x, w, truth)


class MutatesW(Table):
    """Scores made in place in the weights that the argmax is given."""

    def argmax(self, x, w, truth=None):
        best = super().argmax(x, w, truth)
        w *= 0.9
        return best


class Understates(Bounded):
    share = 0.3


class StatesNothing(Bounded):
    share = 0.0


class StatesLess(Bounded):
    share = -1.0


class StatesNan(Bounded):
    def bounded_argmax(self, x, w, truth=None):
        return super().bounded_argmax(x, w, truth)[0], float("nan")


class ListsTooFew(Table):
    """`labels` lacks one, and slack rescaling tries them all."""

    n_listed = -1


class SamplesBadly(Table):
    """Nothing is false: samples only choose what visits work on."""

    def sample(self, x, w, truth, count):
        return [0, 0][:count]

    def m_best(self, x, w, truth, count):
        return list(range(self.n_labels))[:count]


LAWLESS = tuple(
    kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Table) and kind.__module__ == __name__
)

#: What can be seen from the values that a fit comes across, whatever the labels of the structure.
CAUGHT = (
    ForgetsLoss, WrongSign, Random, TruthCosts, NoisyLoss, NoisyFeatures, ShrinksX, NanFeatures,
    LongFeatures, NanLoss, StatesNan,
)  # fmt: skip
