"""Measures of label sequences: cases by hand, and rules of chunks written a second time."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taut import ChainSVM
from taut.errors import InvalidData
from taut.metrics import chunk_f1, position_accuracy, sequence_accuracy

METRICS = {
    "accuracy": position_accuracy,
    "sequence": sequence_accuracy,
    "chunk_f1": chunk_f1,
}

Y = [["B-NP", "I-NP", "O"], ["B-VP"], ["O", "B-NP"]]
PREDICTED = [["B-NP", "I-NP", "O"], ["B-NP"], ["O", "O"]]


@pytest.mark.parametrize(
    ("metric", "plain", "weighted"),
    [
        # Positions 3 + 0 + 1 of 3 + 1 + 2; with the weights 2, 1, 3, 6 + 0 + 3 of 6 + 1 + 6.
        (position_accuracy, 4 / 6, 9 / 13),
        (sequence_accuracy, 1 / 3, 2 / 6),
        # Right 1, true 3, predicted 2; with weights 2, 2 + 1 + 3, 2 + 1.
        (chunk_f1, 2 / 5, 4 / 9),
    ],
)
def test_by_hand(metric, plain, weighted):
    assert metric(Y, PREDICTED) == pytest.approx(plain)
    assert metric(Y, PREDICTED, sample_weight=[2, 1, 3]) == pytest.approx(weighted)
    stacked = np.concatenate(Y), np.concatenate(PREDICTED)
    assert metric(*stacked, lengths=[3, 1, 2]) == pytest.approx(plain)
    assert metric(Y, np.concatenate(PREDICTED)) == pytest.approx(plain)


def test_stacked_labels_without_lengths_are_one_sequence():
    assert sequence_accuracy([0, 1, 2], [0, 1, 2]) == 1.0
    assert sequence_accuracy([0, 1, 2], [0, 1, 1]) == 0.0
    assert position_accuracy(np.array([0, 1]), [0, 1.5]) == 0.5


@pytest.mark.parametrize(
    ("y", "predicted", "value"),
    [
        # An I without a B begins a chunk: first, after O, after another type.
        (["B-NP", "I-NP"], ["I-NP", "I-NP"], 1.0),
        (["O", "B-NP"], ["O", "I-NP"], 1.0),
        (["B-NP", "B-VP"], ["B-NP", "I-VP"], 1.0),
        # A B always begins a chunk; a chunk that is cut or too long is wrong.
        (["B-NP", "I-NP"], ["B-NP", "B-NP"], 0.0),
        (["B-NP", "B-NP"], ["B-NP", "I-NP"], 0.0),
        (["B-NP", "I-NP", "I-NP"], ["B-NP", "I-NP", "O"], 0.0),
        # Chunks of types with hyphens, and without types.
        (["B-a-b", "I-a-b"], ["B-a-b", "I-a-c"], 0.0),
        (["B", "I", "O", "B"], ["B", "I", "O", "O"], 2 / 3),
        # Nothing to find.
        (["O", "O"], ["O", "O"], 1.0),
        (["O", "O"], ["O", "B-NP"], 0.0),
    ],
)
def test_rules_of_chunks(y, predicted, value):
    assert chunk_f1([y], [predicted]) == pytest.approx(value)


def test_the_end_of_a_sequence_ends_a_chunk():
    assert chunk_f1([["B-NP"], ["I-NP"]], [["B-NP"], ["B-NP"]]) == 1.0
    assert chunk_f1(["B-NP", "I-NP"], ["B-NP", "B-NP"]) == 0.0


def chunks_by_pattern(tags):
    """Chunks as matches in a text in which each tag is two letters."""
    text = "".join(tag.replace("-", "").ljust(2, ".") for tag in tags)
    pattern = r"(?:BX|IX)(?:IX)*|(?:BY|IY)(?:IY)*"
    return {(m.start(), m.end(), m.group()[1]) for m in re.finditer(pattern, text)}


@given(
    st.lists(
        st.lists(st.tuples(*[st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"])] * 2), min_size=1),
        min_size=1,
    )
)
def test_chunks_equal_those_of_a_pattern(pairs):
    y, predicted = ([[pair[side] for pair in part] for part in pairs] for side in (0, 1))
    found = [
        (chunks_by_pattern(a), chunks_by_pattern(b)) for a, b in zip(y, predicted, strict=True)
    ]
    right = sum(len(a & b) for a, b in found)
    marked = sum(len(a) + len(b) for a, b in found)
    assert chunk_f1(y, predicted) == pytest.approx(2 * right / marked if marked else 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: chunk_f1([["B-NP", "NP"]], [["O", "O"]]), r"y has the label 'NP' at position 1"),
        (lambda: chunk_f1([["O"]], [["O-NP"]]), r"predicted has the label 'O-NP' at position 0"),
        (lambda: chunk_f1([[1, 2]], [[1, 2]]), r"y has the label 1 at .*'B-TYPE' and 'I-TYPE'"),
        (
            lambda: position_accuracy([["a"], ["b", "c"]], [["a"], ["b"]]),
            r"predicted\[1\] has 1 labels, y\[1\] has 2 rows",
        ),
        (
            lambda: sequence_accuracy(["a", "b"], ["a", "b", "c"]),
            r"predicted has 3 entries, y has 2 rows in 1 sequences",
        ),
        (lambda: position_accuracy(["a", "b"], ["a", "b"], lengths=[3]), "lengths sum to 3, y has"),
        (lambda: position_accuracy([["a"]], [["a"]], sample_weight=[0]), "zero everywhere"),
    ],
)
def test_what_cannot_be_compared_is_refused(call, message):
    with pytest.raises(InvalidData, match=message):
        call()


@pytest.mark.parametrize("metric", METRICS)
def test_scores_of_chains_are_these(metric):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(len(labels), 2)) for labels in Y]
    model = ChainSVM(C=0.1, random_state=0).fit(X, Y)
    expected = METRICS[metric](Y, model.predict(X), sample_weight=[2, 1, 3])
    assert model.score(X, Y, [2, 1, 3], metric=metric) == expected


def test_an_unknown_metric_is_refused():
    model = ChainSVM(random_state=0).fit([np.eye(2)], [["a", "b"]])
    with pytest.raises(InvalidData, match=r"metric = 'f1': give one of \['accuracy', 'chunk_f1'"):
        model.score([np.eye(2)], [["a", "b"]], metric="f1")
