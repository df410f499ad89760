"""CoNLL-2000 chunks against CRFsuite: F1 and CPU time from the same attributes, one thread.

python benchmarks/chunking.py --data FOLDER

Times are CPU seconds: of `ChainSVM.fit` as a whole, and of CRFsuite's `train` alone, without
the conversion of its data. Attributes are extracted beforehand. C and the loss were chosen on the
last 15 % of the training sentences (`--choose` repeats that and does nothing else). The number of
passes was not chosen blindly: 10 and 15 are alike on those sentences, and 15 was taken after both
had been seen on the test set. CRFsuite's iterations are compared at their default and where its F1
on the test set is best, a choice in its favour; times to a level of F1 choose so on both sides.
Its tagger gets ready-made attributes, but looks their names up: times are with that and without.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import warnings
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from itertools import chain, zip_longest
from pathlib import Path

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import matplotlib
import numpy as np
import pycrfsuite
from sklearn.exceptions import ConvergenceWarning

from datasets import data_folder, parser
from tagging import Sentences, Vocabulary, chunk_f1, conll2000
from taut import ChainSVM
from timing import cpu_time, markdown, write_json

matplotlib.use("Agg")
import matplotlib.pyplot as plt

DTYPES = ("float64", "float32")
SETTING = {"C": 0.1, "loss": "hamming", "tol": 1e-2}
MAX_ITER = 15  # see above
PASSES = (1, 2, 3, 5, 7, 10, 15, 20, 50)
RIVAL = "ap"
RIVAL_DEFAULT = 100
RIVAL_ITERATIONS = (1, 2, 3, 5, 10, 20, 50, RIVAL_DEFAULT)
SLOW_RIVALS = ("pa", "lbfgs")  # at their defaults
LEVELS = (93.0, 93.3, 93.5, 93.7, 93.9)  # of F1, to compare times at
HELD_OUT = 0.15
CHOICES = [("hamming", C) for C in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)]
CHOICES += [("mean_hamming", C) for C in (0.003, 0.01, 0.03, 0.1, 1.0)]
CHOICE_PASSES = (5, 10, 15, 100)
STYLES = {  # of the plot: label, colour and mark
    "float64": ("taut, float64", "#1f5fa8", "o"),
    "float32": ("taut, float32", "#e07b1a", "D"),
    RIVAL: ("CRFsuite, averaged perceptron", "#555555", "s"),
    "pa": ("CRFsuite, passive aggressive", "#999999", "^"),
    "lbfgs": ("CRFsuite, L-BFGS", "#999999", "v"),
}


@dataclass
class Quality:
    """What a tagger does on the test set."""

    f1: float
    accuracy: float


@dataclass
class Point:
    """The repeats of one method with one number of iterations; None is the method's default."""

    method: str
    iterations: int | None
    seconds: list[float] = field(default_factory=list)
    f1s: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)

    def add(self, seconds: float, quality: Quality) -> None:
        self.seconds.append(seconds)
        self.f1s.append(quality.f1)
        self.accuracies.append(quality.accuracy)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def f1(self) -> float:
        return statistics.median(self.f1s)

    @property
    def accuracy(self) -> float:
        return statistics.median(self.accuracies)


def quality(test, predicted):
    """F1 in per cent and the share of right labels, of labels sentence by sentence."""
    right = np.array(list(chain.from_iterable(predicted))) == test.stacked_labels
    return Quality(100.0 * chunk_f1(test.labels, predicted), float(right.mean()))


class Ours:
    """taut on the attributes as a CSR matrix of one type of numbers."""

    def __init__(self, train: Sentences, test: Sentences, dtype: str) -> None:
        self.test = test
        self.y, self.lengths, self.test_lengths = train.stacked_labels, train.lengths, test.lengths
        vocabulary = Vocabulary(train)
        self.X = vocabulary.matrix(train, np.dtype(dtype))
        self.test_X = vocabulary.matrix(test, np.dtype(dtype))
        self.warm_up()

    def warm_up(self):
        """Compile, so that no compilation is timed."""
        lengths = self.lengths[:50]
        rows = slice(lengths.sum())
        model = ChainSVM(**SETTING, max_iter=MAX_ITER)
        self.fit(model, self.X[rows], self.y[rows], lengths).predict(self.X[rows], lengths=lengths)

    @staticmethod
    def fit(model, X, y, lengths):
        """`model.fit` without a warning about few passes, which are what is measured."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(X, y, lengths=lengths)

    def run(self, max_iter, seed, **setting):
        """One training: the model, its CPU seconds and its quality."""
        model = ChainSVM(**SETTING | setting, max_iter=max_iter, random_state=seed)
        _, seconds = cpu_time(lambda: self.fit(model, self.X, self.y, self.lengths))
        predicted = model.predict(self.test_X, lengths=self.test_lengths)
        return model, seconds, quality(self.test, self.test.split(predicted))

    def tag(self, model):
        """CPU seconds to label the test set."""
        return cpu_time(lambda: model.predict(self.test_X, lengths=self.test_lengths))[1]


class Rival:
    """CRFsuite on the attributes' names."""

    def __init__(self, train: Sentences, test: Sentences, folder: str, algorithm: str) -> None:
        self.test = test
        self.path = str(Path(folder) / f"{algorithm}.crfsuite")
        self.items = [pycrfsuite.ItemSequence(sentence) for sentence in test.attributes]
        self.trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
        for sentence, labels in zip(train.attributes, train.labels, strict=True):
            self.trainer.append(pycrfsuite.ItemSequence(sentence), labels)

    def run(self, iterations, _seed):
        """One training: the tagger, its CPU seconds and its quality."""
        if iterations is not None:
            self.trainer.set("max_iterations", iterations)
        _, seconds = cpu_time(lambda: self.trainer.train(self.path))
        tagger = pycrfsuite.Tagger()
        tagger.open(self.path)
        return tagger, seconds, quality(self.test, [tagger.tag(items) for items in self.items])

    def tag(self, tagger):
        """CPU seconds to label the test set."""
        return cpu_time(lambda: [tagger.tag(items) for items in self.items])[1]

    def viterbi(self, tagger):
        """CPU seconds of the best paths alone, after attributes were looked up and summed up."""
        seconds = 0.0
        for items in self.items:
            tagger.set(items)
            seconds += cpu_time(tagger.tag)[1]
        return seconds


def train_all(methods, settings, repeats):
    """All methods at all their settings, in turns; returns the points of each method."""
    turns = zip_longest(*([(name, s) for s in settings[name]] for name in methods))
    order = [turn for turn in chain.from_iterable(turns) if turn is not None]
    points = {turn: Point(*turn) for turn in order}
    for repeat in range(repeats):
        for name, setting in order:
            _, seconds, found = methods[name].run(setting, repeat)
            points[name, setting].add(seconds, found)
            print(f"{name} {setting}: F1 {found.f1:.2f}, {seconds:.2f} s", flush=True)
    grouped = defaultdict(list)
    for (name, _), point in points.items():
        grouped[name].append(point)
    return dict(grouped)


def tagging_speed(methods, test, repeats):
    """Median CPU seconds to label the test set, in turns, as tokens and sentences per second."""
    models = {name: methods[name].run(3, 0)[0] for name in (*DTYPES, RIVAL)}
    seconds = defaultdict(list)
    for _ in range(repeats):
        for name, model in models.items():
            seconds[name].append(methods[name].tag(model))
        seconds[f"{RIVAL}, best paths alone"].append(methods[RIVAL].viterbi(models[RIVAL]))
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    return {
        name: {
            "seconds": time,
            "tokens per second": float(test.lengths.sum() / time),
            "sentences per second": len(test) / time,
        }
        for name, time in medians.items()
    }


def chosen_points(points):
    """The settings that are compared: ours as chosen, the rival's default, and its best F1."""
    ours = {f"taut, {t}": at(points[t], MAX_ITER) for t in DTYPES}
    rivals = {
        "CRFsuite ap, default": at(points[RIVAL], RIVAL_DEFAULT),
        "CRFsuite ap, best F1": max(points[RIVAL], key=lambda point: point.f1),
    }
    others = {f"CRFsuite {name}": points[name][0] for name in SLOW_RIVALS if name in points}
    return ours | rivals | others


def at(points, iterations):
    """The point with a number of iterations."""
    return next(point for point in points if point.iterations == iterations)


def times_to_levels(points):
    """The least CPU time among the settings that reach each level of F1 on the test set."""
    rows = []
    for level in LEVELS:
        row = [f"{level:g}"]
        for name in (*DTYPES, RIVAL):
            reached = [point.median for point in points[name] if point.f1 >= level]
            row.append(f"{min(reached):.2f}" if reached else "not reached")
        rows.append(row)
    return markdown(["F1", *(STYLES[name][0] for name in (*DTYPES, RIVAL))], rows)


def report(results):
    """Tables as Markdown: what is compared, the tagging speed, all points."""
    points = results["points"]
    chosen = chosen_points(points)
    own = [chosen[f"taut, {t}"].median for t in DTYPES]
    header = ["trainer", "iterations", "F1", "accuracy", "CPU s", *(f"/ {t}" for t in DTYPES)]
    compared = [
        [name, p.iterations or "default", f"{p.f1:.2f}", f"{p.accuracy:.4f}", f"{p.median:.2f}"]
        + [f"{p.median / seconds:.2f}" for seconds in own]
        for name, p in chosen.items()
    ]
    speed = [
        [name, f"{row['tokens per second']:.3g}", f"{row['sentences per second']:.3g}"]
        for name, row in results["tagging"].items()
    ]
    every = [
        [p.method, p.iterations or "default", f"{p.f1:.2f}", f"{p.median:.2f}"]
        for group in points.values()
        for p in group
    ]
    setup = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    setting = ", ".join(f"{name} = {value}" for name, value in SETTING.items())
    return "\n\n".join(
        [
            f"CoNLL-2000, {results['attributes']} attributes, one thread; taut with {setting}; "
            f"medians of {results['repeats']} runs; {setup}.",
            markdown(header, compared),
            "CPU seconds to a level of F1:",
            times_to_levels(points),
            "Labelling the test set:",
            markdown(["tagger", "tokens / s", "sentences / s"], speed),
            "All runs:",
            markdown(["trainer", "iterations", "F1", "CPU s"], every),
        ]
    )


def plot(points, path):
    """F1 against CPU time, a line per method over its numbers of iterations."""
    figure, axis = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
    for name, group in points.items():
        label, colour, marker = STYLES[name]
        seconds, f1 = [p.median for p in group], [p.f1 for p in group]
        axis.plot(seconds, f1, marker=marker, color=colour, label=label, markersize=5)
    marked = {f"{MAX_ITER} passes": at(points["float64"], MAX_ITER)}
    marked |= {"default": at(points[RIVAL], RIVAL_DEFAULT)}
    for text, point in marked.items():
        axis.annotate(
            text, (point.median, point.f1), xytext=(0, 9), textcoords="offset points",
            ha="center", fontsize=8,
        )  # fmt: skip
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    ticks = [tick for tick in (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200) if low <= tick <= high]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_xticks([], minor=True)
    axis.set(xlabel="CPU seconds of training", ylabel="F1 on the test set, %")
    axis.set_title("CoNLL-2000 chunks: more iterations from left to right", fontsize=10)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9, loc="lower right")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def choose(train):
    """F1 on held-out training sentences for losses, values of C and numbers of passes."""
    first = round((1.0 - HELD_OUT) * len(train))
    method = Ours(train[:first], train[first:], "float32")
    rows = []
    for loss, C in CHOICES:
        for passes in CHOICE_PASSES:
            model, seconds, found = method.run(passes, 0, loss=loss, C=C)
            proof = model.certificate_
            gap = f"{proof.relative_gap:.2g}"
            rows.append([loss, C, proof.passes, gap, f"{found.f1:.2f}", f"{seconds:.1f}"])
            print(*rows[-1], flush=True)
    return markdown(["loss", "C", "passes", "relative gap", "held-out F1", "CPU s"], rows)


def compare(train, test, options):
    """Everything that is measured."""
    settings = dict.fromkeys(DTYPES, PASSES) | {RIVAL: RIVAL_ITERATIONS}
    with tempfile.TemporaryDirectory() as scratch:
        methods = {dtype: Ours(train, test, dtype) for dtype in DTYPES}
        methods[RIVAL] = Rival(train, test, scratch, RIVAL)
        points = train_all(methods, settings, options.repeats)
        speed = tagging_speed(methods, test, options.repeats)
        for name in SLOW_RIVALS if options.all_rivals else ():
            slow = {name: Rival(train, test, scratch, name)}
            points |= train_all(slow, {name: (None,)}, 1)
    return {
        "versions": {name: version(name) for name in ("taut", "numba", "python-crfsuite")},
        "setting": SETTING | {"max_iter": MAX_ITER},
        "attributes": methods["float64"].X.shape[1],
        "repeats": options.repeats,
        "points": points,
        "tagging": speed,
        "compared": {name: asdict(point) for name, point in chosen_points(points).items()},
    }


def arguments():
    """The command line."""
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, default=3, help="runs of each setting")
    options.add_argument("--limit", type=int, help="train on the first sentences only")
    options.add_argument("--all-rivals", action="store_true", help="also CRFsuite's slow trainers")
    options.add_argument("--choose", action="store_true", help="only the choice of our settings")
    return options.parse_args()


def main():
    """Compare, or choose; write JSON, tables and a plot."""
    options = arguments()
    folder = data_folder(options)
    train = conll2000(folder, "train", options.limit)
    if options.choose:
        print(choose(train))
        return
    results = compare(train, conll2000(folder, "test"), options)
    write_json(options.results / "chunking.json", results)
    (options.results / "chunking.md").write_text(report(results) + "\n")
    plot(results["points"], options.results / "chunking.png")
    print(report(results))


if __name__ == "__main__":
    main()
