"""Tagging data: readers, indicator features and the F1 of chunks.

CoNLL-2000 chunking has the attributes of CRFsuite's own chunking example, and a bias. This module
is for the other benchmarks; `python benchmarks/chunking.py --data FOLDER` starts one of them.
"""

from __future__ import annotations

import gzip
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import scipy.sparse as sp

Attributes = list[list[str]]  # the names of the features that are 1, per token of a sentence

#: Column (0 word, 1 part of speech) and offsets from the token, joined into one attribute.
CHUNKING_TEMPLATES = (
    *((0, (offset,)) for offset in (-2, -1, 0, 1, 2)),
    *((0, offsets) for offsets in ((-1, 0), (0, 1))),
    *((1, (offset,)) for offset in (-2, -1, 0, 1, 2)),
    *((1, offsets) for offsets in ((-2, -1), (-1, 0), (0, 1), (1, 2))),
    *((1, offsets) for offsets in ((-2, -1, 0), (-1, 0, 1), (0, 1, 2))),
)
AFFIXES = (1, 2, 3, 4)


@dataclass(frozen=True)
class Sentences:
    """Attributes and labels, sentence by sentence."""

    attributes: list[Attributes]
    labels: list[list[str]]

    def __getitem__(self, part: slice) -> Sentences:
        return Sentences(self.attributes[part], self.labels[part])

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens per sentence."""
        return np.array([len(labels) for labels in self.labels])

    @property
    def stacked_labels(self) -> np.ndarray:
        """The labels of all tokens in one array."""
        return np.array(list(chain.from_iterable(self.labels)))

    def split(self, stacked: Sequence[str]) -> list[Sequence[str]]:
        """Labels of all tokens, sentence by sentence."""
        return np.split(np.asarray(stacked), np.cumsum(self.lengths)[:-1])


class Vocabulary:
    """A column for each attribute of the training sentences; others are left out."""

    def __init__(self, sentences: Sentences) -> None:
        self.column: dict[str, int] = {}
        for name in chain.from_iterable(chain.from_iterable(sentences.attributes)):
            self.column.setdefault(name, len(self.column))

    def __len__(self) -> int:
        return len(self.column)

    def matrix(self, sentences: Sentences, dtype: type = np.float64) -> sp.csr_array:
        """One row of ones per token, the sentences stacked."""
        columns, ends = array("i"), array("q", [0])
        for names in chain.from_iterable(sentences.attributes):
            known = {self.column[name] for name in names if name in self.column}
            columns.extend(sorted(known))
            ends.append(len(columns))
        parts = (np.ones(len(columns), dtype), np.array(columns), np.array(ends, np.int32))
        return sp.csr_array(parts, shape=(len(ends) - 1, len(self)))


def conll2000(folder: Path, split: str, limit: int | None = None) -> Sentences:
    """Chunks of "train" or "test", the first `limit` sentences."""
    rows = _blocks(folder / "conll2000" / f"{split}.txt.gz", " ", limit)
    sentences = [[(word, pos) for word, pos, _chunk in block] for block in rows]
    labels = [[chunk for _word, _pos, chunk in block] for block in rows]
    return Sentences([chunking_attributes(sentence) for sentence in sentences], labels)


def ud_english_ewt(folder: Path, split: str, limit: int | None = None) -> Sentences:
    """Universal parts of speech of "train", "dev" or "test", the first `limit` sentences."""
    path = folder / "ud_english_ewt" / f"en_ewt-ud-{split}.conllu.gz"
    # Besides words, rows are comments, ranges of multiword tokens (1-2) and empty nodes (1.1).
    rows = [[row for row in block if row[0].isdigit()] for block in _blocks(path, "\t", limit)]
    sentences = [[row[1] for row in block] for block in rows]
    labels = [[row[3] for row in block] for block in rows]
    return Sentences([upos_attributes(sentence) for sentence in sentences], labels)


def _blocks(path: Path, separator: str, limit: int | None) -> list[list[list[str]]]:
    """Blocks of non-empty lines, split into columns."""
    blocks: list[list[list[str]]] = [[]]
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            text = line.rstrip("\n")
            if not text.strip():
                blocks.append([])
            else:
                blocks[-1].append(text.split(separator))
    return [block for block in blocks if block][:limit]


def chunking_attributes(sentence: Sequence[tuple[str, str]]) -> Attributes:
    """Words, parts of speech and their combinations around each token, as CRFsuite's example."""
    attributes = []
    for t in range(len(sentence)):
        names = ["bias"]
        for column, offsets in CHUNKING_TEMPLATES:
            if t + offsets[0] >= 0 and t + offsets[-1] < len(sentence):
                values = "|".join(sentence[t + offset][column] for offset in offsets)
                names.append(f"{'wp'[column]}{offsets}={values}")
        attributes.append(names)
    attributes[0].append("first")
    attributes[-1].append("last")
    return attributes


def upos_attributes(sentence: Sequence[str]) -> Attributes:
    """Words around each token, its prefixes and suffixes, and its shape."""
    words = [word.lower() for word in sentence]
    attributes = []
    for t, word in enumerate(sentence):
        names = ["bias", *shape(word)]
        for offset in (-2, -1, 0, 1, 2):
            inside = 0 <= t + offset < len(words)
            names.append(f"w{offset}={words[t + offset] if inside else '<outside>'}")
        sizes = [size for size in AFFIXES if size <= len(word)]
        names += [f"prefix={words[t][:size]}" for size in sizes]
        names += [f"suffix={words[t][-size:]}" for size in sizes]
        attributes.append(names)
    return attributes


def shape(word: str) -> Iterator[str]:
    """What the letters of a word look like."""
    if word[0].isupper():
        yield "capitalised"
    if word.isupper():
        yield "upper case"
    if any(letter.isdigit() for letter in word):
        yield "digit"
    if "-" in word:
        yield "hyphen"


def chunks(labels: Iterable[str]) -> Iterator[tuple[str, int, int]]:
    """Kind, first and one past the last position of each chunk, as conlleval counts them.

    A chunk begins at B, and at an I that does not go on with a chunk of its kind.
    """
    kind, first, t = "", 0, -1
    for t, label in enumerate(labels):
        prefix, _, new = label.partition("-")
        if kind and (prefix != "I" or new != kind):
            yield kind, first, t
            kind = ""
        if new and not kind:
            kind, first = new, t
    if kind:
        yield kind, first, t + 1


def chunk_f1(truth: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> float:
    """Harmonic mean of the shares of predicted chunks that are right and of true ones found."""
    right = found = true = 0
    for labels, guess in zip(truth, predicted, strict=True):
        expected, actual = set(chunks(labels)), set(chunks(guess))
        right += len(expected & actual)
        true += len(expected)
        found += len(actual)
    return 2.0 * right / (true + found) if true + found else 0.0
