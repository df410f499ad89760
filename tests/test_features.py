"""Extractors: what they give, against the slow and obvious way to compute it."""

import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from taut.data import Sequences
from taut.errors import InvalidData, InvalidFile, InvalidType
from taut.features import (
    RowFeatures,
    SequenceFeatures,
    TextFeatures,
    read_template,
    shape,
    window_template,
)
from taut.features.columns import Hashed, Vocabulary

WORDS = st.sampled_from(["the", "The", "cat", "U.S.", "1990-91", "é", "_B-1", "a|b"])
TOKENS = st.tuples(WORDS, st.sampled_from(["DT", "NN", ""]))
SEQUENCES = st.lists(st.lists(TOKENS, min_size=1, max_size=5), min_size=1, max_size=4)
TEMPLATE = [
    "U",
    "U00:%x[-2,0]",
    "U01:%x[-1,0]/%x[0,0]",
    "U02:%x[0,1]%x[2,1]",
    "Ut:%x[-1,1]|%x[0,1]|%x[1,1]",
    "Up:%prefix[0,0,2]",
    "Us:%suffix[1,0,3]",
    "Ul:%lower[0,0]",
    "Ush:%shape[-1,0]",
    "B",
]


def macro_value(function, sequence, t, arguments):
    """The value of one macro, or None; position by position and straight from the definition."""
    place, column = t + int(arguments[0]), int(arguments[1])
    if place < 0:
        return f"_B{place}"
    if place >= len(sequence):
        return f"_B+{place - len(sequence) + 1}"
    value = sequence[place][column]
    if function in ("prefix", "suffix"):
        size = int(arguments[2])
        if len(value) < size:
            return None
        return value[:size] if function == "prefix" else value[len(value) - size :]
    return {"x": value, "lower": value.lower(), "shape": shape(value)}[function]


def expected_names(sequence, t, lines):
    """The features of a position, line by line."""
    for line in lines:
        if line == "B":
            continue
        macros = list(re.finditer(r"%(\w+)\[([^\]]*)\]", line))
        values = [macro_value(m[1], sequence, t, m[2].split(",")) for m in macros]
        if None not in values:
            for macro, value in zip(reversed(macros), reversed(values), strict=True):
                line = line[: macro.start()] + value + line[macro.end() :]
            yield line


def rows_as_counts(extractor, matrix):
    """The features of each row by name."""
    names = extractor.get_feature_names_out()
    return [Counter({names[j]: matrix[r, j] for j in matrix[r].nonzero()[-1]}) for r in
            range(matrix.shape[0])]  # fmt: skip


@given(SEQUENCES, st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_templates_equal_the_definition(X, min_count):
    wanted = [Counter(expected_names(s, t, TEMPLATE)) for s in X for t in range(len(s))]
    counts = sum(wanted, Counter())
    extractor = SequenceFeatures(TEMPLATE, min_count=min_count)
    if max(counts.values()) < min_count:
        with pytest.raises(InvalidData, match="lower min_count"):
            extractor.fit(X)
        return
    found = extractor.fit_transform(X)
    kept = [Counter({k: v for k, v in row.items() if counts[k] >= min_count}) for row in wanted]
    assert rows_as_counts(extractor, found.matrix) == kept
    assert found.lengths.tolist() == [len(s) for s in X]
    assert found.matrix.has_canonical_format


@given(SEQUENCES, SEQUENCES)
@settings(max_examples=30, deadline=None)
def test_unknown_features_are_left_out(X, other):
    extractor = SequenceFeatures(TEMPLATE).fit(X)
    known = set(extractor.get_feature_names_out())
    wanted = [
        Counter(name for name in expected_names(s, t, TEMPLATE) if name in known)
        for s in other for t in range(len(s))
    ]  # fmt: skip
    assert rows_as_counts(extractor, extractor.transform(other).matrix) == wanted


@given(SEQUENCES)
@settings(max_examples=20, deadline=None)
def test_hashing_sums_what_collides(X):
    width = 5
    hashed = SequenceFeatures(TEMPLATE, hashing=width).fit_transform(X).matrix.toarray()
    extractor = SequenceFeatures(TEMPLATE)
    exact = extractor.fit_transform(X).matrix.toarray()
    summed = np.zeros_like(hashed)
    for j, column in enumerate(Hashed(width).places(extractor.get_feature_names_out())):
        summed[:, column] += exact[:, j]
    assert np.array_equal(hashed, summed)


def test_tokens_of_all_kinds_agree():
    pairs = [[("the", "DT"), ("cat", "NN")], [("cats", "NNS")]]
    named = [[{"0": word, "1": tag} for word, tag in s] for s in pairs]
    wanted = SequenceFeatures(TEMPLATE).fit_transform(pairs).matrix.toarray()
    lists = [[list(token) for token in s] for s in pairs]
    for X in (named, lists):
        assert np.array_equal(SequenceFeatures(TEMPLATE).fit_transform(X).matrix.toarray(), wanted)
    words = [[word for word, _ in s] for s in pairs]
    alone = [[(word,) for word, _ in s] for s in pairs]
    lines = window_template()
    assert np.array_equal(
        SequenceFeatures(lines).fit_transform(words).matrix.toarray(),
        SequenceFeatures(lines).fit_transform(alone).matrix.toarray(),
    )


def test_numbers_of_tokens_are_features():
    X = [[{"word": "a", "size": 2.5}, {"word": "b"}], [{"word": "a", "size": 0}]]
    extractor = SequenceFeatures(["U:%x[0,word]"], dtype="float64")
    found = extractor.fit_transform(X).matrix
    assert rows_as_counts(extractor, found) == [{"U:a": 1, "size": 2.5}, {"U:b": 1}, {"U:a": 1}]
    assert found.dtype == np.float64


def test_missing_values_make_no_feature():
    X = [[{"a": "x", "b": None}, {"b": "y"}]]
    extractor = SequenceFeatures(["U0:%x[0,a]%x[0,b]", "U1:%x[0,b]", "U2:%x[-1,a]"])
    found = rows_as_counts(extractor, extractor.fit_transform(X).matrix)
    assert found == [{"U2:_B-1": 1}, {"U1:y": 1, "U2:x": 1}]


def test_attributes_as_positions_list_them():
    X = [[{"w": "a", "n": 2, "yes": True, "no": False, "all": ["p", "q"]}, ["w=a", "w=a"]], ["n"]]
    extractor = SequenceFeatures(None)
    assert rows_as_counts(extractor, extractor.fit_transform(X).matrix) == [
        {"w=a": 1, "n": 2, "yes": 1, "all=p": 1, "all=q": 1},
        {"w=a": 2},
        {"n": 1},
    ]
    rows = [token for sequence in X for token in sequence]
    flat = RowFeatures().fit(rows)
    assert flat.get_feature_names_out().tolist() == extractor.get_feature_names_out().tolist()
    assert (flat.transform(rows) != extractor.transform(X).matrix).nnz == 0


def test_the_default_template_tells_words_from_tags():
    X = [[("Cats", "NNS"), ("sleep", "VBP")]]
    lines = SequenceFeatures().fit(X).template_
    assert {"U0.suffix3:%suffix[0,0,3]", "U0.shape:%shape[0,0]"} < set(lines)
    assert "U1[-1..1]:%x[-1,1]|%x[0,1]|%x[1,1]" in lines
    assert not any(line.startswith("U1.") for line in lines)


def test_template_files_are_read_as_those_of_crfpp(tmp_path):
    path = tmp_path / "template"
    path.write_text("# Unigram\nU00:%x[-2,0]\nU05:%x[-1,0]/%x[0,0]\n\n# Bigram\nB\n")
    lines = read_template(path)
    assert lines == ["U00:%x[-2,0]", "U05:%x[-1,0]/%x[0,0]", "B"]
    names = SequenceFeatures(lines).fit([["a", "b"]]).get_feature_names_out()
    assert sorted(names) == ["U00:_B-1", "U00:_B-2", "U05:_B-1/a", "U05:a/b"]
    path.write_text("U00:%x[0,0]\nU01:%x[0]\n")
    with pytest.raises(InvalidFile, match=r"template, line 2: .*%x\[position,column\]"):
        read_template(path)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["%x[0,0]"], "begin with U"),
        (["B01:%x[0,0]"], "give 'B' alone"),
        (["U:%y[0,0]"], "has the macro %y: there are %x"),
        (["U:%prefix[0,0]"], r"%prefix\[position,column,size\]"),
        (["U:%x[a,0]"], "a is no number"),
        (["U:%x[0,0"], "without ]"),
        (["U:%x[0,7]"], "asks for column '7', the tokens of X have columns of text '0'"),
        ("U:%x[0,0]", "give a list of lines"),
        ([7], "give lines of text"),
    ],
)
def test_templates_that_are_none(lines, message):
    with pytest.raises(InvalidData, match=message):
        SequenceFeatures(lines).fit([["a"]])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("text", "give a list of sequences"),
        ([], "no sequences"),
        ([["a"], []], r"X\[1\] has zero length"),
        ([{"a": 1}], r"X\[0\] is of type dict"),
        ([["a", 3]], r"X\[0\]\[1\] is of type int"),
        ([[{"a": float("nan"), "0": "b"}]], r"X\[0\]\[0\]\['a'\] is nan"),
        ([[{"0": "a", "1": object()}]], r"X\[0\]\[0\]\['1'\] is of type object"),
    ],
)
def test_sequences_that_are_none(X, message):
    with pytest.raises(InvalidData, match=message):
        SequenceFeatures(["U:%x[0,0]"]).fit(X)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"min_count": 0}, "min_count = 0"),
        ({"min_count": 1.5}, "min_count = 1.5"),
        ({"hashing": 0}, "hashing = 0"),
        ({"hashing": 8, "min_count": 2}, "have no names to count"),
        ({"dtype": "int8"}, "dtype = 'int8'"),
    ],
)
def test_settings_that_are_none(settings_, message):
    with pytest.raises(InvalidData, match=message):
        RowFeatures(**settings_).fit([{"a": 1.0}])


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"words": None}, "leave no features"),
        ({"words": (2, 1)}, r"words = \(2, 1\)"),
        ({"characters": 3}, "characters = 3"),
        ({"norm": "l1"}, "norm = 'l1'"),
        ({"binary": 2}, "binary = 2"),
    ],
)
def test_settings_of_texts_that_are_none(settings_, message):
    with pytest.raises(InvalidData, match=message):
        TextFeatures(**settings_).fit(["a text"])


@pytest.mark.parametrize("row", [3.0, [3.0], {"a": object()}, {"a": [1]}, {"a": float("inf")}])
def test_rows_that_are_none(row):
    with pytest.raises(InvalidData, match=r"X\[1\]"):
        RowFeatures().fit([["fine"], row])


def test_texts_are_counted_by_definition():
    texts = ["The cat, the CAT!", ["a", "Cat"]]
    extractor = TextFeatures((1, 2), (2, 3), shapes=True, norm="none")
    found = rows_as_counts(extractor, extractor.fit_transform(texts))
    for text, row in zip(
        [["The", "cat", ",", "the", "CAT", "!"], ["a", "Cat"]], found, strict=True
    ):
        low = [word.lower() for word in text]
        wanted = Counter(low) + Counter(map(" ".join, pairwise(low)))
        for word in low:
            inside = f" {word} "
            wanted.update(
                f"c:{inside[i : i + n]}" for n in (2, 3) for i in range(len(inside) - n + 1)
            )
        assert row == wanted + Counter(f"shape:{shape(word)}" for word in text)
    once = TextFeatures((1, 1), binary=True, norm="none").fit_transform(texts)
    assert set(once.data) == {1.0}
    scaled = TextFeatures((1, 1)).fit_transform(texts)
    np.testing.assert_allclose(scaled.power(2).sum(axis=1), 1.0, rtol=1e-6)


@given(st.lists(st.text(max_size=6), unique=True, min_size=1, max_size=20))
@settings(max_examples=50, deadline=None)
def test_vocabularies_are_stored_exactly(names):
    known = Vocabulary.of(names)
    again = Vocabulary.restored(known.stored())
    assert again.names() == names
    assert again.places([*names, "no name of these"]).tolist() == [*range(len(names)), -1]


def test_long_names_have_wide_sizes():
    names = ["a" * 300, "b" * 70_000, "\udc80"]
    assert Vocabulary.restored(Vocabulary.of(names).stored()).names() == names


def test_frequent_features_come_first_and_clones_are_unfitted():
    extractor = RowFeatures(min_count=2).fit([["a", "b"], ["b"], ["b", "a"], ["c"]])
    assert extractor.get_feature_names_out().tolist() == ["b", "a"]
    assert extractor.n_features_out_ == 2
    assert not hasattr(clone(extractor), "columns_")


def test_stacked_sequences_are_a_list_of_matrices():
    matrix = np.arange(12.0).reshape(6, 2)
    stacked = Sequences(matrix, [0, 1, 4, 6])
    assert [part.tolist() for part in stacked] == [s.tolist() for s in np.split(matrix, [1, 4])]
    assert [part.tolist() for part in stacked[::-1]] == [
        s.tolist() for s in reversed(np.split(matrix, [1, 4]))
    ]
    assert stacked[-1].tolist() == matrix[4:].tolist()
    with pytest.raises(IndexError):
        stacked[3]
    for ends in ([0, 6, 6], [1, 6], [0, 5], [6]):
        with pytest.raises(InvalidData, match="offsets do not rise"):
            Sequences(matrix, ends)


def test_what_is_not_iterable_is_refused():
    for extractor in (RowFeatures(), TextFeatures(), SequenceFeatures()):
        with pytest.raises(InvalidType, match="give a list of"):
            extractor.fit(7)
