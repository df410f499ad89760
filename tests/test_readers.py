"""svmlight files: each number as float() reads it, each fault with its place, whole or in parts."""

import bz2
import gzip
import io
import lzma
import random
import struct
import sys
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import taut
from taut.errors import InvalidData, InvalidFile, InvalidType
from taut.readers import DataFile, Table


@pytest.fixture
def written(tmp_path):
    """A function that writes a file and returns its path."""

    def write(content, name="file.svm"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def slow(text):
    """Targets and rows of a clean file whose columns count from 1, one word after the other."""
    y, rows = [], []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words:
            pairs = [word.split(":") for word in words[1:] if not word.startswith("qid:")]
            y.append(float(words[0]))
            rows.append({int(k): float(v) for k, v in pairs})
    X = np.zeros((len(rows), max(max(row, default=0) for row in rows)))
    for x, row in zip(X, rows):
        for k, v in row.items():
            x[k - 1] = v
    return X, np.array(y)


def some_numbers():
    """Numbers of all kinds, as text."""
    rng = random.Random(0)
    for _ in range(2000):
        bits = struct.unpack("d", rng.randbytes(8))[0]
        if abs(bits) < 1e300:
            yield repr(bits)
        yield f"{rng.uniform(-1, 1) * 10 ** rng.randint(-30, 30):.{rng.randint(1, 19)}g}"
        yield str(rng.getrandbits(54) | 1)  # half-way between two
        yield f"{rng.randint(0, 10 ** rng.randint(1, 19))}e{rng.randint(-345, 280)}"
        yield f"0.{'0' * rng.randint(0, 30)}{rng.getrandbits(64)}"
    yield from (
        "0", "-0", "+0.0", "-.0e5", "1e-400", "5e-324", "2.2250738585072011e-308", "1.", "+.5",
        "00001", "000.0001e3", "9007199254740993", "1E5", "1e+05", "1" * 400 + "e-395",
        "0." + "0" * 400 + "1e395", "1.7976931348623157e308", "4.9406564584124654e-324",
    )  # fmt: skip


def test_numbers_are_those_of_python(written):
    texts = list(some_numbers())
    X, y = taut.read(written("".join(f"{text} 1:{text}\n" for text in texts)))
    wanted = np.array([float(text) for text in texts])
    assert X.data.tobytes() == wanted.tobytes()
    assert y.tobytes() == wanted.tobytes()


TEXT = (
    "# a comment\n+1 1:0.5 3:2e-3 # c: 1\r\n\n  \t\n-1\t2:1   3:-4\n2.5 \n1 4:3.14159265358979323"
)


def test_comments_blank_lines_and_ends_do_not_matter(written):
    X, y = taut.read(written(TEXT))
    wanted = slow(TEXT)
    assert (X.toarray() == wanted[0]).all()
    assert (y == wanted[1]).all()
    for text in (TEXT.replace("\n", "\r\n"), TEXT + "\n\n\n#", "\n" + TEXT):
        again = taut.read(written(text))
        assert (again.X != X).nnz == 0


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_what_is_read_part_by_part_is_what_is_read_as_a_whole(tmp_path_factory, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    lines = [
        f"{rng.integers(-2, 3)} "
        + " ".join(f"{k}:{rng.normal():.{rng.integers(1, 18)}g}" for k in sorted(columns))
        + ("" if rng.random() < 0.8 else " # " + "long" * 300)
        for columns in (rng.choice(2000, rng.integers(200), False) + 1 for _ in range(30))
    ]
    path = tmp_path_factory.mktemp("parts") / "file"
    path.write_text("\n".join(lines))
    wanted, y = slow("\n".join(lines))
    table = taut.read(path, "svmlight")
    assert (table.X.toarray() == wanted).all()
    assert (table.y == y).all()
    source = taut.open_file(path, "svmlight", chunk_size=int(rng.integers(1, 20_000)))
    chunks = list(source.chunks())
    assert (np.vstack([chunk.X.toarray() for chunk in chunks]) == wanted).all()
    assert (np.concatenate([chunk.y for chunk in chunks]) == y).all()
    assert (source.n_blocks, source.n_features) == wanted.shape
    assert source.classes.tolist() == sorted(set(y))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 1:2\n1 1:2 1:3\n", "line 2, column 7: the index in '1:3' comes twice"),
        ("# x\n\n1 3:1 2:1", "line 3, column 7: the index in '2:1' is less than the one before"),
        ("1,2 1:3", "line 1, column 1: '1,2' are several targets"),
        ("1 1:nan", "line 1, column 3: '1:nan' is not finite"),
        ("1 1:1\n-inf 1:1", "line 2, column 1: '-inf' is not finite"),
        ("1 1:1e999", "column 3: '1:1e999' is too large"),
        ("1:3 2:3", "'1:3', without a target"),
        ("spam 1:2", "'spam' is no number"),
        ("1 99999999999:1", "more than 2147483646"),
        ("1 2147483647:1", "more than 2147483646"),
        ("1 -1:1", "'-1:1' is no index:value"),
        ("1 2", "'2' is no index:value"),
        ("1 2:", "the value in '2:' is no number"),
        ("1 2:0x1p3", "the value in '2:0x1p3' is no number"),
        ("1 2:1_0", "is no number"),
        ("1 2:1e", "is no number"),
        ("1 2:3,4", "is no number"),
        ("1 qid:1 1:1\n2 1:1", "line 2, column 3: some lines have a qid"),
        ("1 1:1\n2 qid:1 1:1", "line 2, column 9: some lines have a qid"),
        ("1 qid:x 1:1", "'qid:x' is no query"),
        ("1 1:1 qid:1", "'qid:1' comes twice, or after"),
        ("1 cost:-1 1:1", "'cost:-1' is no cost"),
        ("1 cost:1 1:1\n1 1:1", "some lines have a cost"),
        ("1 sid:2 1:1", "slack variable"),
        (b"1 \xff\xfe:3", r"'\\xff\\xfe:3' is no index:value"),
        (b"1 1:1\x002", "is no number"),
        (b"\xef\xbb\xbf1 1:1", "is no number"),
        ("", "has no rows"),
        ("# nothing\n\n", "has no rows"),
    ],
)
def test_faults_have_places(written, content, message):
    path = written(content)
    for reader in (taut.read, taut.open_file):
        with pytest.raises(InvalidFile, match=r"^file\.svm[,:] .*" + message):
            reader(path)


def test_places_are_right_behind_a_block(written):
    path = written("1 1:1\n" * 3000 + "1 1:1 2:x\n")
    with pytest.raises(InvalidFile, match="line 3001, column 7"):
        list(taut.open_file(path, chunk_size=100).chunks())


def test_columns_are_counted_from_0_or_1(written):
    assert taut.read(written("1 1:2 3:4\n")).X.toarray().tolist() == [[2.0, 0.0, 4.0]]
    assert taut.read(written("1 0:2 2:4\n")).X.toarray().tolist() == [[2.0, 0.0, 4.0]]
    path = written("1 1:2\n")
    assert taut.read(path, zero_based=True).X.toarray().tolist() == [[0.0, 2.0]]
    assert taut.read(path, n_features=3).X.toarray().tolist() == [[2.0, 0.0, 0.0]]
    with pytest.raises(InvalidFile, match="'0:2' is 0, and columns are counted from 1"):
        taut.read(written("1 0:2\n"), zero_based=False)
    with pytest.raises(InvalidFile, match="line 1, column 3: the index in '4:2' is beyond"):
        taut.read(written("1 4:2\n"), n_features=3)
    with pytest.raises(InvalidData, match="n_features = 3: give a larger number"):
        taut.read(written("1 0:1 3:2\n"), n_features=3)
    with pytest.raises(InvalidData, match="no columns"):
        taut.read(written("1\n2\n"))
    with pytest.raises(InvalidData, match="no columns"):
        taut.open_file(written("1\n2\n"))


def test_test_data_are_read_like_training_data(written):
    train = taut.read(written("1 0:2 5:4\n", "train.svm"))
    test = taut.read(written("1 1:2\n"), like=train)
    assert test.X.toarray().tolist() == [[0.0, 2.0, 0.0, 0.0, 0.0, 0.0]]
    source = taut.open_file(written("1 1:2\n"), like=train)
    assert source.n_features == 6
    assert taut.read(written("1 1:2\n"), like=source).X.shape == (1, 6)
    with pytest.raises(InvalidFile, match="'6:1' is beyond"):
        taut.read(written("1 6:1\n"), like=train)
    with pytest.raises(InvalidData, match="zero_based is given beside like"):
        taut.read(written("1 1:1\n"), like=train, zero_based=True)
    with pytest.raises(InvalidType, match="like is of type csr_array"):
        taut.read(written("1 1:1\n"), like=train.X)


def test_huge_columns_take_no_memory(written):
    table = taut.read(written("1 2147483646:1\n-1 1:1\n"))
    assert table.X.shape == (2, 2**31 - 2)
    assert table.X.nnz == 2


def test_targets_are_whole_numbers_only_if_all_are(written):
    assert taut.read(written("1 1:1\n+2 1:1\n")).y.dtype == np.int64
    assert taut.read(written("1 1:1\n2.0 1:1\n")).y.dtype == np.float64
    assert taut.read(written("123456789012345678 1:1\n")).y.dtype == np.float64
    # Whether later parts are real decides of the first one too.
    source = taut.open_file(written("1 1:1\n" * 100 + "0.5 1:1\n"), chunk_size=50)
    assert {chunk.y.dtype for chunk in source.chunks()} == {np.dtype("f8")}
    assert source.classes is None


def test_queries_stand_together(written):
    text = "".join(f"{k % 3} qid:{k // 4} 1:{k}\n" for k in range(1, 30))
    table = taut.read(written(text))
    assert table.queries.tolist() == [k // 4 for k in range(1, 30)]
    for size in (1, 60, 1000):
        source = taut.open_file(written(text), chunk_size=size)
        lengths = np.concatenate([np.diff(chunk.offsets) for chunk in source.chunks()])
        assert lengths.tolist() == [3, 4, 4, 4, 4, 4, 4, 2]
    tokens = taut.read(written(text), "svm_hmm")
    assert tokens.lengths.tolist() == lengths.tolist()
    text = "1 qid:1 1:1\n1 qid:2 1:1\n1 qid:1 1:1\n"
    assert len(taut.read(written(text)).queries) == 3
    with pytest.raises(InvalidFile, match="the rows of query 1 do not stand together"):
        taut.open_file(written(text))
    with pytest.raises(InvalidFile, match="sequence 1 do not stand together"):
        taut.read(written(text), "svm_hmm")
    with pytest.raises(InvalidFile, match="line 1, column 3: some lines have a qid"):
        taut.read(written("1 1:1\n"), "svm_hmm")


def test_costs_are_weights(written):
    table = taut.read(written("1 cost:2.5 1:1\n1 cost:0 1:1\n"))
    assert table.sample_weight.tolist() == [2.5, 0.0]
    text = "1 qid:1 cost:2 1:1\n0 qid:1 cost:2 1:2\n1 qid:2 cost:3 1:1\n"
    assert taut.read(written(text), "svm_hmm").sample_weight.tolist() == [2.0, 3.0]
    with pytest.raises(InvalidFile, match="sequence 1 have different costs"):
        taut.read(written(text.replace("cost:2 1:2", "cost:4 1:2")), "svm_hmm")


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_files_are_read_whatever_their_names(written, compress):
    content = compress(TEXT.encode())
    wanted = taut.read(written(TEXT)).X
    assert (wanted != taut.read(written(content)).X).nnz == 0
    assert taut.open_file(written(content), chunk_size=10).n_blocks == 4
    for damaged in (content[:-4], content[: len(content) // 2]):
        with pytest.raises(InvalidFile, match=r"file\.svm: cannot be read"):
            taut.read(written(damaged))


def test_zstd_needs_a_package_or_says_so(written, monkeypatch):
    if sys.version_info < (3, 14):
        for name in ("zstandard", "pyzstd"):
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(InvalidFile, match="pip install zstandard"):
            taut.read(written(b"\x28\xb5\x2f\xfd" + b"0" * 20))


def test_zstd_is_read_to_its_end(written):
    zstandard = pytest.importorskip("zstandard")
    frames = zstandard.compress(TEXT.encode()) + zstandard.compress(b"\n5 1:1\n")
    assert taut.read(written(frames)).X.shape[0] == 5
    for damaged in (frames[:-5], frames[:3] + frames[:20]):
        with pytest.raises(InvalidFile):
            taut.read(written(damaged))


def test_standard_input_is_read_once(monkeypatch):
    for text, rows in ((TEXT, 4), ("a,b\n1,2\n", 1)):
        stdin = types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(text.encode())))
        monkeypatch.setattr(sys, "stdin", stdin)
        assert taut.read("-", "svmlight" if rows == 4 else "csv").X.shape[0] == rows
    stdin = types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(TEXT.encode())))
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(InvalidData, match="can be read only once"):
        taut.open_file("-", "svmlight")
    assert taut.read("-").X.shape[0] == 4  # known by its beginning


def test_formats_are_told_by_names_and_beginnings(written):
    assert taut.read(written("1 1:2\n", "a9a")).X.shape == (1, 1)
    assert taut.read(written("1 1:2\n", "a.SVM.GZ")).X.shape == (1, 1)
    with pytest.raises(InvalidData, match="neither its name nor its beginning tells"):
        taut.read(written("what is this", "unknown"))
    with pytest.raises(InvalidData, match="format = 'svm': give one of"):
        taut.read(written("1 1:2\n"), "svm")
    with pytest.raises(InvalidType, match="no option 'n_feature'; do you mean n_features"):
        taut.read(written("1 1:2\n"), n_feature=3)
    with pytest.raises(FileNotFoundError):
        taut.read("nowhere.svm")
    with pytest.raises(InvalidType, match="path = 3"):
        taut.read(3)


def test_a_file_that_changes_is_noticed(written):
    source = taut.open_file(written("1 1:2\n-1 2:2\n"))
    list(source.chunks())
    written("1 1:2\n-1 2:3\n")
    with pytest.raises(InvalidData, match="gave other data"):
        list(source.chunks())


def test_lines_of_text_have_numbers(written):
    file = DataFile(written("\ufeffeins\r\nzwei\n\nvier".encode()))
    assert list(file.lines()) == [(1, "eins"), (2, "zwei"), (3, ""), (4, "vier")]
    with pytest.raises(InvalidFile, match="line 2, column 3: byte 0xff is not UTF-8"):
        list(DataFile(written(b"a\nbc\xff\n")).lines())


def test_a_line_that_never_ends_is_refused(written, monkeypatch):
    monkeypatch.setattr("taut.readers.files._LONGEST_LINE", 10_000)
    with pytest.raises(InvalidFile, match="a line of more than 10000 bytes"):
        taut.open_file(written("1 1:1" + "1" * 50_000), chunk_size=100)


def test_tables_say_what_they_are(written):
    table = taut.read(written(TEXT))
    assert repr(table) == (
        "Table('file.svm', 4 rows, 4 features, CSR float64, 5 values, numbers as targets)"
    )
    X, y = table
    assert X is table.X
    assert y is table.y
    assert isinstance(table, Table)
