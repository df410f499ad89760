"""Readers of text: what they make of files, and where they say a file is wrong."""

import gzip

import pytest

import taut
from taut.errors import InvalidData, InvalidFile
from taut.features import SequenceFeatures

CONLL = "-DOCSTART- -X- O\n\nThe DT B-NP\ncat  NN I-NP\n\n\n \nSleep VB B-VP"
WANTED = [[("The", "DT"), ("cat", "NN")], [("Sleep", "VB")]], [["B-NP", "I-NP"], ["B-VP"]]


@pytest.fixture
def write(tmp_path):
    def write(text, name="data.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize(
    "text", [CONLL, CONLL.replace("\n", "\r\n"), "\ufeff" + CONLL, gzip.compress(CONLL.encode())]
)
def test_conll(write, text):
    assert tuple(taut.read(write(text, "a.conll"))) == WANTED


def test_tabs_divide_columns_that_hold_spaces_or_nothing(write):
    path = write("New York\t\tB\nis\tVBZ\tO\n")
    X, y = taut.read(path, format="conll")
    assert X == [[("New York", ""), ("is", "VBZ")]]
    assert y == [["B", "O"]]


def test_columns_and_target_of_conll(write):
    path = write(CONLL)
    X, y = taut.read(path, format="conll", columns=[-2], target=0)
    assert (X, y) == ([[("DT",), ("NN",)], [("VB",)]], [["The", "cat"], ["Sleep"]])
    assert taut.read(path, format="conll", target=None).y is None
    assert taut.read(path, format="conll", target=None).X[1] == [("Sleep", "VB", "B-VP")]


def test_parts_are_whole_sentences(write):
    conll = taut.readers.FORMATS["conll"]()
    parts = list(conll.parts(taut.readers.DataFile(write(CONLL)), 1))
    assert [part.X for part in parts] == [WANTED[0][:1], WANTED[0][1:]]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a b c\nd e\n", {}, "data.txt, line 2, column 3: has 2 columns"),
        ("a b\n", {"target": 2}, "line 1: has 2 columns, and column 2 is asked for"),
        ("a\n", {}, "line 1: has one column"),
        (b"a b\n\xff b\n", {}, "line 2, column 1: byte 0xff is not UTF-8"),
        ("\n\n", {}, "has no rows"),
    ],
)
def test_faults_of_conll(write, text, options, message):
    with pytest.raises(InvalidFile, match=message):
        taut.read(write(text), format="conll", **options)


UNIVERSAL = "\t".join(["{}", "{}", "_", "{}", *["_"] * 6]) + "\n"


def test_conllu(write):
    rows = [("1-2", "It's", "_"), (1, "It", "PRON"), (2, "'s", "AUX"), ("2.1", "gone", "VERB")]
    text = "# text = It's\n" + "".join(UNIVERSAL.format(*row) for row in rows) + "\n"
    path = write(text * 2, "a.conllu")
    X, y = taut.read(path)
    assert X == [[("It",), ("'s",)]] * 2
    assert y == [["PRON", "AUX"]] * 2
    X, y = taut.read(path, columns=["upos", "form"], target=None)
    assert (X[0], y) == ([("PRON", "It"), ("AUX", "'s")], None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\tIt\n", "a.conllu, line 1, column 3: has 2 columns divided by tabs"),
        (UNIVERSAL.format("x", "It", "PRON"), "line 1, column 1: begins with 'x'"),
        (UNIVERSAL.format("1-", "It", "PRON"), "begins with '1-'"),
    ],
)
def test_faults_of_conllu(write, text, message):
    with pytest.raises(InvalidFile, match=message):
        taut.read(write(text, "a.conllu"))


def test_crfsuite(write):
    text = "B:x\tw=a\\:b\tc\\\\:2\tn:.5\tn:1\n\\:\td:\t\t\\\\\n\nO\n"
    X, y = taut.read(write(text, "a.crfsuite"))
    assert X == [[{"w=a:b": 1.0, "c\\": 2.0, "n": 1.5}, ["d", "\\"]], [[]]]
    assert y == [["B:x", ":"], ["O"]]
    found = SequenceFeatures(None).fit_transform(X).matrix
    assert found.sum(axis=1).tolist() == [4.5, 2.0, 0.0]
    assert taut.read(write("a\tb\n"), format="crfsuite", target=False).X == [[["a", "b"]]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("B\tabc:x\n", "a.crfsuite, line 1, column 7: 'x' is no finite number"),
        ("B\ta:inf\n", "column 5: 'inf'"),
        ("@weight:2\nB\ta\n", "line 1, column 1: has the weight"),
    ],
)
def test_faults_of_crfsuite(write, text, message):
    with pytest.raises(InvalidFile, match=message):
        taut.read(write(text, "a.crfsuite"))


def test_text_lines(write):
    path = write("good  A fine film\n\n bad\tDull film\n")
    assert tuple(taut.read(path, format="text_lines")) == (
        ["A fine film", "Dull film"], ["good", "bad"],
    )  # fmt: skip
    path = write("good film,+\nbad,film,-\n")
    X, y = taut.read(path, format="text_lines", target="last", separator=",")
    assert (X, y) == (["good film", "bad,film"], ["+", "-"])
    table = taut.read(path, format="text_lines", target="none")
    assert (table.X, table.y) == (["good film,+", "bad,film,-"], None)
    latin = write("caf\xe9 au lait\n".encode("latin1"))
    assert taut.read(latin, format="text_lines", encoding="latin1").y == ["caf\xe9"]


def test_faults_of_text_lines(write):
    with pytest.raises(InvalidFile, match="line 2: 'alone' is not a label and a text"):
        taut.read(write("a b\nalone\n"), format="text_lines")


@pytest.mark.parametrize(
    ("format_", "options", "message"),
    [
        ("conll", {"encoding": "no such"}, "encoding = 'no such'"),
        ("conll", {"target": "x"}, "target has 'x'"),
        ("conll", {"columns": [True]}, "columns has True"),
        ("conllu", {"target": "pos"}, "'pos' is not among"),
        ("conllu", {"columns": "form"}, "'form' is not among"),
        ("conllu", {"columns": ()}, "give some of"),
        ("text_lines", {"target": "middle"}, "target = 'middle'"),
        ("text_lines", {"separator": ""}, "separator = ''"),
    ],
)
def test_options_that_are_none(write, format_, options, message):
    with pytest.raises(InvalidData, match=message):
        taut.read(write("a b\n"), format=format_, **options)
