"""Planted wrong labels among the first suspects, without and with training again.

python benchmarks/suspects.py --data FOLDER

5 % of the training labels are replaced by others, drawn at random. Each row of the table is the
share of them among the first 5 % of rows, or of positions of sequences, by a ranking: "margin", by
how much the given label's score leads at the trained w; "slack", rows whose dual variables have all
their weight first, by their hinge; "suspects", the order of `model.suspects`; and "five folds", the
same margin by models of five folds which have not seen the row. Times are CPU seconds of one
thread, those of five folds for five fits.

Which ranking `suspects` takes was chosen on digits, sector and UD English EWT (`--choose`). Its
limit of directions was set for time after usps and trec_qc had been tried once.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from datasets import data_folder, digits, parser, sector, trec, usps
from tagging import Vocabulary, conll2000, ud_english_ewt
from taut import ChainSVM, MulticlassSVM
from taut.errors import NotConverged
from taut.explanations.sequences import Potentials
from timing import cpu_time, markdown, write_json

SHARE = 0.05
FOLDS = 5
SEED = 0
#: A limit of sentences keeps the choice short.
N_CHOICE = 1500


@dataclass
class Rows:
    """Rows with a class each."""

    X: Any
    y: np.ndarray

    @property
    def layout(self):
        """What methods take beside X and y."""
        return {}

    def part(self, which):
        """Some of the rows."""
        return Rows(self.X[which], self.y[which])

    @property
    def n(self):
        """How many can be held out."""
        return len(self.y)

    @property
    def owner(self):
        """The row of each label."""
        return np.arange(len(self.y))

    def margins(self, model):
        """By how much the given label leads, -inf where the model does not know it."""
        scores = model.decision_function(self.X)
        known = model.classes_ == self.y[:, None]
        given = np.where(known, scores, -np.inf).max(axis=1)
        return given - np.where(known, -np.inf, scores).max(axis=1)


@dataclass
class Sequences:
    """Sequences with a label for each position, stacked."""

    X: Any
    y: np.ndarray
    lengths: np.ndarray

    @property
    def layout(self):
        """What methods take beside X and y."""
        return {"lengths": self.lengths}

    def part(self, which):
        """Some of the sequences."""
        inside = np.isin(self.owner, which)
        return Sequences(self.X[inside], self.y[inside], self.lengths[np.sort(which)])

    @property
    def n(self):
        """How many can be held out."""
        return len(self.lengths)

    @property
    def owner(self):
        """The sequence of each label."""
        return np.repeat(np.arange(self.n), self.lengths)

    def margins(self, model):
        """By how much the best labels with the given one lead, at each position."""
        out, ends = np.empty(len(self.y)), np.cumsum(self.lengths)
        codes = np.searchsorted(model.classes_, self.y)
        potentials = Potentials(
            np.asarray(self.X @ model.coef_.T), model.transition_,
            np.stack([model.start_, model.end_]),
        )  # fmt: skip
        for first, last in zip(ends - self.lengths, ends, strict=True):
            own, places = codes[first:last], np.arange(last - first)
            best = potentials._replace(nodes=potentials.nodes[first:last]).best(own)
            given = best[places, own].copy()
            best[places, own] = -np.inf
            out[first:last] = given - best.max(axis=1)
        return out


def rows_of(read):
    """Training rows alone."""
    X, y, *_ = read
    return Rows(X, y)


def sequences_of(sentences):
    """Sentences by the columns of their attributes."""
    X = Vocabulary(sentences).matrix(sentences)
    return Sequences(X, sentences.stacked_labels, sentences.lengths)


def linear(C):
    """Classes by weights of features."""
    return MulticlassSVM(C=C, random_state=0)


def rbf(C):
    """Classes by a kernel."""
    return MulticlassSVM(C=C, kernel="rbf", random_state=0)


def chain(C):
    """Sequences, to a gap that tagging needs."""
    return ChainSVM(C=C, tol=1e-2, max_iter=30, random_state=0)


def text(read):
    """Words are columns; only the training part is used."""
    return lambda folder: rows_of(read(folder))


#: Data, estimator and values of C.
CHOICE = [
    ("digits", lambda folder: rows_of(digits()), linear, (0.1, 1.0)),
    ("digits, rbf", lambda folder: rows_of(digits()), rbf, (1.0,)),
    ("sector", text(sector), linear, (1.0, 10.0)),
    (
        "UD English EWT", lambda folder: sequences_of(ud_english_ewt(folder, "train", N_CHOICE)),
        chain, (0.02, 0.5),
    ),
]  # fmt: skip
REPORT = [
    ("usps", text(usps), linear, (0.01, 0.1)),
    ("usps, rbf", text(usps), rbf, (1.0,)),
    ("trec_qc", text(trec), linear, (1.0, 10.0)),
    ("conll2000", lambda folder: sequences_of(conll2000(folder, "train")), chain, (0.1,)),
]


def planted(y):
    """Labels of which some are wrong, and which are."""
    rng = np.random.default_rng(SEED)
    y, classes = y.copy(), np.unique(y)
    wrong = np.zeros(len(y), dtype=bool)
    wrong[rng.choice(len(y), int(SHARE * len(y)), replace=False)] = True
    for i in np.flatnonzero(wrong):
        y[i] = rng.choice(classes[classes != y[i]])
    return y, wrong


def recall(score, wrong):
    """The share of wrong labels among as many of lowest score."""
    first = np.argsort(score, kind="stable")[: wrong.sum()]
    return float(wrong[first].mean())


def places_of(data, found):
    """The number of each label in the order of suspects."""
    if found.positions is None:
        return found.examples
    begins = np.cumsum(data.lengths) - data.lengths
    return begins[found.positions.example] + found.positions.position


def by_folds(data, new):
    """Margins by models that have not seen the rows."""
    out = np.empty(len(data.y))
    for seen, held in KFold(FOLDS, shuffle=True, random_state=SEED).split(np.arange(data.n)):
        part = data.part(seen)
        model = new().fit(part.X, part.y, **part.layout)
        held = np.sort(held)
        out[np.isin(data.owner, held)] = data.part(held).margins(model)
    return out


def measure(name, data, make, C):
    """A row of the table."""
    data.y, wrong = planted(data.y)
    model, fitting = cpu_time(lambda: make(C).fit(data.X, data.y, **data.layout))
    found, searching = cpu_time(lambda: model.suspects(data.X, data.y, **data.layout))
    margins = data.margins(model)
    order = places_of(data, found)
    place = np.empty(len(order))
    place[order] = np.arange(len(order))
    whole = np.zeros(len(found))
    whole[found.examples] = found.slack + 1e6 * (found.influence > 1.0 - 1e-9)
    folds, training = cpu_time(lambda: by_folds(data, lambda: make(C)))
    return {
        "data": name,
        "C": C,
        "margin": recall(margins, wrong),
        "slack": recall(-whole, wrong) if data.n == len(data.y) else None,
        "suspects": recall(place, wrong),
        "five folds": recall(folds, wrong),
        "fit": fitting,
        "search": searching,
        "folds": training,
    }


def main():
    """All cells, as a table."""
    arguments = parser(__doc__)
    arguments.add_argument("--choose", action="store_true", help="the data of the choice")
    arguments.add_argument("--only", help="the cells whose data begin so")
    options = arguments.parse_args()
    warnings.simplefilter("ignore", NotConverged)
    rows = []
    for name, read, make, values in CHOICE if options.choose else REPORT:
        for C in values if not options.only or name.startswith(options.only) else ():
            rows.append(measure(name, read(data_folder(options)), make, C))
            print(rows[-1], flush=True)
    figures = ("margin", "slack", "suspects", "five folds")
    print(
        markdown(
            ("data", "C", *figures, "fit, s", "search, s", "five fits, s"),
            [
                [row["data"], row["C"],
                 *("" if row[figure] is None else f"{row[figure]:.3f}" for figure in figures),
                 *(f"{row[time]:.2f}" for time in ("fit", "search", "folds"))]
                for row in rows
            ],
        )
    )  # fmt: skip
    write_json(options.results / "suspects.json", rows)


if __name__ == "__main__":
    main()
