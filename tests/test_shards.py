"""Shards come back exactly as written, chunk by chunk, or are refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import taut.data
from taut.data import Chunk, Shards, open_shards, write_shards
from taut.data.arrays import Checked
from taut.data.chunks import concatenate
from taut.data.memory import as_bytes, size_of
from taut.data.shard_format import sealed
from taut.errors import InvalidData, InvalidFile, InvalidType

N = 23
SIZES = [1, 4, 2, 7, 3, 1, 5]
TEXT = ["no", "yes", "änder"]

LABELS = {
    "none": lambda n: None,
    "text": lambda n: [TEXT[i % 3] for i in range(n)],
    "text array": lambda n: np.array([TEXT[i % 3] for i in range(n)]),
    "int": lambda n: [(5 * i) % 7 for i in range(n)],
    "int8": lambda n: np.arange(n, dtype=np.int8) % 4,
    "whole": lambda n: np.arange(n, dtype=float) % 3 - 1,
    "real": lambda n: np.linspace(-1, 1, n, dtype=np.float32),
    "bool": lambda n: np.arange(n) % 2 == 0,
    "tuple": lambda n: [("a", i % 2) for i in range(n)],
    "mixed": lambda n: [None if i % 2 else "x" for i in range(n)],
    "large": lambda n: [2**70 + i % 2 for i in range(n)],
}


def make_rows(rng, n, dtype, sparse):
    X = rng.standard_normal((n, 5)).astype(dtype)
    return sp.random_array((n, 5), density=0.4, format="csr", dtype=dtype, rng=rng) if sparse else X


def make_sequences(rng, dtype, sparse, sizes=SIZES):
    return [make_rows(rng, size, dtype, sparse) for size in sizes]


def dense(X):
    return X.toarray() if sp.issparse(X) else np.asarray(X)


def assert_same_rows(found, X):
    if isinstance(X, list):
        assert len(found) == len(X)
        for a, b in zip(found, X, strict=True):
            assert_same_rows(a, b)
    else:
        assert sp.issparse(found) == sp.issparse(X)
        assert found.dtype == X.dtype
        np.testing.assert_array_equal(dense(found), dense(X))


def flat(values):
    return [x for v in values for x in (v if isinstance(v, list | np.ndarray) else [v])]


def plain(values):
    return [v.item() if isinstance(v, np.generic) else v for v in flat(values)]


def labels_of(shards, chunk):
    return chunk.y if shards._target != "label" else shards.classes[chunk.y]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "set"


@pytest.fixture
def written(path, rng):
    """A set with every kind of file, in several chunks and shards."""
    X = make_sequences(rng, np.float64, True)
    y = [[TEXT[i % 3] for i in range(size)] for size in SIZES]
    n = len(SIZES)
    write_shards(path, X, y, sample_weight=np.arange(n), margin=2.0, chunk_size=200, shard_size=500)
    return path


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_round_trip(path, rng, dtype, sparse, labels):
    X, y = make_rows(rng, N, dtype, sparse), LABELS[labels](N)
    shards = write_shards(path, X, y, chunk_size=150, shard_size=400)
    assert shards.n_chunks > 3
    assert (shards.n_blocks, shards.n_rows, shards.n_features) == (N, N, 5)
    assert shards.dtype == dtype
    found, targets = shards.load()
    assert_same_rows(found, X)
    if y is None:
        assert targets is None
        assert shards.classes is None
    else:
        assert plain(targets) == plain(y)
        expected = None if labels == "real" else set(plain(y))
        assert (None if shards.classes is None else set(shards.classes.tolist())) == expected
    first = 0
    for number, chunk in enumerate(shards.chunks()):
        assert (chunk.number, chunk.first) == (number, first)
        stop = first + chunk.n_blocks
        assert_same_rows(chunk.X, X[first:stop])
        assert isinstance(chunk.examples, Checked)
        if shards.classes is not None:
            codes = shards.codes(chunk)
            assert codes.dtype == np.int32
            assert shards.classes[codes].tolist() == plain(y)[first:stop]
        first = stop
    assert first == N


@pytest.mark.parametrize("per", ["list", "stacked", "block"])
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("given", ["list", "stacked"])
def test_sequences_round_trip(path, rng, given, sparse, labels, per):
    X = make_sequences(rng, np.float32, sparse)
    ends = np.cumsum([0, *SIZES])
    y = LABELS[labels](len(SIZES) if per == "block" else N)
    if labels == "tuple" and per == "block":
        pytest.skip("as many tuples as sequences are sequences of labels")
    if y is not None and per == "list":
        y = [y[a:b] for a, b in pairwise(ends)]
    whole = (sp.vstack(X, format="csr") if sparse else np.concatenate(X), SIZES)
    data, lengths = (X, None) if given == "list" else whole
    shards = write_shards(path, data, y, lengths=lengths, chunk_size=200, shard_size=500)
    assert shards.ragged
    assert shards.n_chunks > 2
    assert (shards.n_blocks, shards.n_rows) == (len(SIZES), N)
    found, targets = shards.load()
    assert_same_rows(found, X)
    assert (targets is None) == (y is None)
    if y is not None:
        assert plain(targets) == plain(y)
    for chunk in shards.chunks():
        blocks = range(chunk.first, chunk.first + chunk.n_blocks)
        assert np.diff(chunk.offsets).tolist() == [SIZES[i] for i in blocks]
        assert_same_rows(chunk.X[: chunk.offsets[1]], X[chunk.first])
        matrix, offsets = chunk.examples
        assert isinstance(matrix, Checked)
        assert offsets is chunk.offsets
        if sp.issparse(chunk.X):
            assert (chunk.X.indices.dtype, chunk.X.indptr.dtype) == (np.int32, np.int64)


@pytest.mark.parametrize("sparse", [False, True])
def test_weights_and_margins(path, rng, sparse):
    X, weight, margin = make_rows(rng, N, np.float64, sparse), rng.random(N), rng.normal(size=N)
    shards = write_shards(path, X, sample_weight=weight, margin=margin, chunk_size=300)
    chunks = [chunk.take(np.arange(chunk.n_blocks)) for chunk in shards.chunks()]
    np.testing.assert_array_equal(np.concatenate([c.sample_weight for c in chunks]), weight)
    np.testing.assert_array_equal(np.concatenate([c.margin for c in chunks]), margin)
    whole = write_shards(path.with_name("one"), X, sample_weight=2, margin=3)
    (chunk,) = whole.chunks()
    assert chunk.sample_weight.tolist() == [2.0] * N
    assert chunk.margin.tolist() == [3.0] * N


@pytest.mark.parametrize(
    "X",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]], dtype=np.int16),
        np.asfortranarray([[1.0, 2.0], [3.0, 4.0]]),
        np.array([[1, 2], [3, 4]], dtype=object),
        sp.coo_matrix([[1.0, 2.0], [3.0, 4.0]]),
        sp.csc_array([[1.0, 2.0], [3.0, 4.0]]),
    ],
)
def test_any_rows(path, X):
    found, _ = write_shards(path, X, chunk_size=1).load()
    np.testing.assert_array_equal(dense(found), [[1.0, 2.0], [3.0, 4.0]])
    assert sp.issparse(found) == sp.issparse(X)


@pytest.mark.parametrize("form", [iter, lambda parts: lambda: iter(parts), list, tuple])
@pytest.mark.parametrize("sparse", [False, True])
def test_parts_give_the_same_set_as_the_whole(tmp_path, rng, form, sparse):
    X, y, weight = make_rows(rng, N, np.float64, sparse), LABELS["text"](N), rng.random(N)
    cuts = [0, 1, 9, 10, 20, N]
    parts = [(X[a:b], y[a:b], weight[a:b]) for a, b in pairwise(cuts)]
    for size in (1, 100, 333, 10**6):
        whole = write_shards(
            tmp_path / f"whole{size}", X, y, sample_weight=weight, chunk_size=size, shard_size=999
        )
        pieces = write_shards(
            tmp_path / f"parts{size}", form(parts), chunk_size=size, shard_size=999
        )
        assert_same_rows(pieces.load()[0], X)
        assert plain(pieces.load()[1]) == y
        assert abs(pieces.n_chunks - whole.n_chunks) <= 2


def test_parts_of_sequences_and_single_examples(tmp_path, rng):
    X = make_sequences(rng, np.float32, False)
    y = [["a"] * size for size in SIZES]
    parts = ((X[i : i + 2], y[i : i + 2]) for i in range(0, len(X), 2))
    shards = write_shards(tmp_path / "sequences", parts)
    assert_same_rows(shards.load()[0], X)
    rows = np.concatenate(X)
    shards = write_shards(tmp_path / "rows", ((x, i) for i, x in enumerate(rows)), chunk_size=100)
    assert_same_rows(shards.load()[0], rows)
    assert shards.load()[1].tolist() == list(range(N))
    assert shards.n_chunks > 3


def test_a_generator_may_use_its_memory_again(path):
    def parts():
        X = np.empty((3, 2))
        for k in range(5):
            X[:] = k
            yield X, np.full(3, k)

    X, y = write_shards(path, parts(), chunk_size=64).load()
    np.testing.assert_array_equal(X[:, 0], np.repeat(np.arange(5.0), 3))
    np.testing.assert_array_equal(y, np.repeat(np.arange(5), 3))


def test_many_small_parts_make_full_chunks(path):
    parts = ((np.full((1, 10), k, dtype=float), [k]) for k in range(1000))
    shards = write_shards(path, parts, chunk_size="8kB")
    assert [chunk.n_blocks for chunk in shards.chunks()] == [90] * 11 + [10]
    assert shards.load()[1].tolist() == list(range(1000))


def test_chunks_and_shards_have_the_sizes_asked_for(path, rng):
    X = rng.random((1000, 10))
    shards = write_shards(path, X, np.arange(1000), chunk_size="10kB", shard_size="30kB")
    sizes = [chunk.nbytes for chunk in shards.chunks()]
    assert max(sizes) <= 10_000
    assert min(sizes[:-1]) > 9_000
    files = list(path.glob("X-*.npy"))
    assert len(files) == len(shards._shards) == 3
    assert shards.nbytes == sum(sizes) == 88_000
    np.testing.assert_array_equal(np.concatenate([np.load(f) for f in sorted(files)]), X)


def test_files_are_plain_npy(written):
    parts = []
    for k in range(len(list(written.glob("data-*.npy")))):
        data, indices, indptr = (
            np.load(written / f"{name}-{k:05}.npy") for name in ("data", "indices", "indptr")
        )
        parts.append(sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, 5)).toarray())
    assert len(parts) > 1
    X, _ = open_shards(written).load()
    np.testing.assert_array_equal(np.concatenate(parts), np.concatenate([x.toarray() for x in X]))


def test_equal_data_give_equal_files(path, rng):
    X, y = make_rows(rng, N, np.float64, True), LABELS["text"](N)
    folders = path, path.with_name("again"), path.with_name("parts")
    given = (X, y), (X.copy(), list(y)), (iter([(X[:1], y[:1]), (X[1:], y[1:])]),)
    digests = [write_shards(f, *g, chunk_size=300).digest for f, g in zip(folders, given)]
    assert len(set(digests)) == 1
    for file in path.iterdir():
        assert all((f / file.name).read_bytes() == file.read_bytes() for f in folders)


def test_any_order_of_chunks(written, rng):
    shards = open_shards(written)
    chunks = [chunk.take(np.arange(chunk.n_blocks)) for chunk in shards.chunks()]
    order = rng.permutation(shards.n_chunks)
    for part in (order, order[:3], order[:1], order[:0]):
        found = []
        for chunk in shards.chunks(part):
            found.append(chunk.number)
            expected = chunks[chunk.number]
            np.testing.assert_array_equal(chunk.X.toarray(), expected.X.toarray())
            np.testing.assert_array_equal(chunk.y, expected.y)
        assert found == part.tolist()
    for wrong in ([0, 0], [-1], [shards.n_chunks]):
        with pytest.raises(InvalidData, match="order has"):
            shards.chunks(wrong)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("per", ["rows", "blocks"])
def test_take_is_indexing(path, rng, ragged, sparse, per):
    sizes = SIZES * 4
    n = len(sizes)
    X = (
        make_sequences(rng, np.float64, sparse, sizes)
        if ragged
        else make_rows(rng, n, "f8", sparse)
    )
    y = np.arange(sum(sizes) if ragged and per == "rows" else n)
    ends = np.cumsum([0, *sizes])
    shards = write_shards(path, X, y, sample_weight=np.arange(n) + 1.0, chunk_size=500)
    for blocks in ([0], [n - 1], [2, 3, 11, 11, 20], np.arange(n), np.arange(0, n, 3)):
        chunk = shards.take(blocks)
        assert chunk.first == -1 or len(blocks) == 1
        assert chunk.n_blocks == len(blocks)
        assert chunk.sample_weight.tolist() == [b + 1.0 for b in blocks]
        columns = chunk.columns()
        assert all(a.flags.c_contiguous and a.flags.owndata for a in columns.values())
        if ragged:
            assert np.diff(chunk.offsets).tolist() == [sizes[b] for b in blocks]
            expected = np.concatenate([dense(X[b]) for b in blocks])
            runs = [y[ends[b] : ends[b + 1]] if per == "rows" else [b] for b in blocks]
            assert chunk.y.tolist() == [int(v) for run in runs for v in run]
        else:
            expected = dense(X)[blocks]
            assert chunk.y.tolist() == list(blocks)
        np.testing.assert_array_equal(dense(chunk.X), expected)
    for wrong in ([], [3, 2], [-1], [n], [[1]]):
        with pytest.raises(InvalidData, match="block"):
            shards.take(wrong)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("ragged", [False, True])
def test_concatenate_undoes_cutting(path, rng, ragged, sparse):
    X = make_sequences(rng, "f4", sparse) if ragged else make_rows(rng, N, "f4", sparse)
    shards = write_shards(path, X, LABELS["text"](N), chunk_size=120)
    chunks = [replace(c.take(np.arange(c.n_blocks)), first=c.first) for c in shards.chunks()]
    whole = concatenate(chunks)
    assert (whole.first, whole.n_blocks) == (0, shards.n_blocks)
    np.testing.assert_array_equal(
        dense(whole.X), np.concatenate([dense(x) for x in X]) if ragged else dense(X)
    )
    assert shards.classes[whole.y].tolist() == LABELS["text"](N)
    assert concatenate(chunks[::-1]).first == -1
    with pytest.raises(InvalidData, match="concatenate"):
        concatenate([])
    with pytest.raises(InvalidData, match="concatenate"):
        concatenate([whole, replace(whole, y=None)])


def test_lists_of_examples():
    a = Chunk(0, 0, ["x", {"k": np.zeros(1000)}], y=[1, (2, 3)])
    b = Chunk(1, 2, ["z"], y=["t"], sample_weight=np.ones(1))
    assert a.examples == a.X
    assert 8000 < a.nbytes < 10_000
    assert a.take([1]).y == [(2, 3)]
    both = concatenate([a, replace(b, sample_weight=None)])
    assert (both.X[2], both.y, both.first, both.number) == ("z", [1, (2, 3), "t"], 0, -1)
    with pytest.raises(InvalidData, match="alike"):
        concatenate([a, b])


def test_chunks_hold_until_the_next(path, rng):
    X = rng.random((500, 8))
    shards = write_shards(path, X, chunk_size=1000)
    for n_buffers in (3, 2):  # the first reading verifies, in one more thread
        seen = []
        for chunk in shards.chunks():
            time.sleep(0.001)  # the threads are ahead by now
            np.testing.assert_array_equal(chunk.X, X[chunk.first : chunk.first + chunk.n_blocks])
            assert chunk.X.ctypes.data % 64 == 0
            seen.append(chunk.X.ctypes.data)
        assert len(set(seen)) == n_buffers


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_shape_and_size(tmp_path_factory, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 100)))
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=12))
    width = data.draw(st.integers(1, 9))
    ragged, sparse = data.draw(st.booleans()), data.draw(st.booleans())
    rows = rng.integers(0, 3, (sum(sizes), width)).astype(data.draw(st.sampled_from(["f4", "f8"])))
    X = sp.csr_array(rows) if sparse else rows
    shards = write_shards(
        tmp_path_factory.mktemp("any") / "set",
        X,
        lengths=sizes if ragged else None,
        chunk_size=data.draw(st.integers(1, 500)),
        shard_size=data.draw(st.integers(1, 1000)),
    )
    assert shards.n_blocks == (len(sizes) if ragged else sum(sizes))
    found = [dense(chunk.X).copy() for chunk in shards.chunks()]
    np.testing.assert_array_equal(np.concatenate(found), rows)
    blocks = np.sort(rng.integers(0, shards.n_blocks, 5))
    ends = np.cumsum([0, *sizes])
    expected = (
        np.concatenate([rows[ends[b] : ends[b + 1]] for b in blocks]) if ragged else rows[blocks]
    )
    np.testing.assert_array_equal(dense(shards.take(blocks).X), expected)


CAPPED = """
    import resource, sys
    import numpy as np
    from taut.data import open_shards, write_shards
    path = sys.argv[1]

    def parts():
        for k in range(64):
            yield np.full((2500, 100), k, dtype=np.float32), np.full(2500, k % 3)

    def cap(extra):
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + extra, used + extra))

    np.zeros((300, 300)) @ np.zeros((300, 300))  # threads of the linear algebra are there
    list(open_shards(write_shards(path + "0", np.ones((9, 2)), np.ones(9)).path).chunks())
    cap(48 << 20)
    shards = write_shards(path, parts())
    assert shards.nbytes > 64_000_000
    total = sum(float(chunk.X[:, 0].sum(dtype=float)) for chunk in shards.chunks())
    assert total == 2500 * 63 * 32, total
    assert shards.take([0, 159_999]).X[:, 0].tolist() == [0.0, 63.0]
    assert shards.classes.tolist() == [0, 1, 2]
    try:
        shards.load()
    except MemoryError:
        print("capped")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
def test_memory_does_not_grow_with_the_data(path, environment):
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CAPPED), str(path)],
        env=environment | {"MALLOC_ARENA_MAX": "1"},
        capture_output=True,
        text=True,
    )
    assert answer.stdout == "capped\n", answer.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
def test_a_memmap_is_not_loaded(tmp_path):
    import tracemalloc

    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float16, (100_000, 50))
    X[:] = 1
    tracemalloc.start()
    try:
        write_shards(tmp_path / "set", X, chunk_size="100kB")
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


def damage(file, place, mask=1):
    content = bytearray(file.read_bytes())
    content[place] ^= mask
    file.write_bytes(content)


def read_all(path):
    for _ in open_shards(path).chunks():
        pass


NAMES = ["data", "indices", "indptr", "offsets", "y", "sample_weight", "margin"]


@pytest.mark.parametrize("name", [*(f"{name}-00001.npy" for name in NAMES), "header.json"])
def test_every_flipped_bit_is_refused(written, name):
    read_all(written)
    file = written / name
    size = file.stat().st_size
    for place in sorted({*range(0, size, 1 + size // 60), size - 1}):
        damage(file, place, 1 << place % 8)
        with pytest.raises(InvalidFile, match=r"set.*; .*(again|upgrade|write_shards)"):
            read_all(written)
        damage(file, place, 1 << place % 8)
    read_all(written)


def test_damage_is_named(written):
    damage(written / "data-00001.npy", -1)
    shards = open_shards(written)
    with pytest.raises(InvalidFile, match=r"chunk \d+ \(rows .*data-00001\.npy.*SHA-256; copy"):
        list(shards.chunks())
    with pytest.raises(InvalidFile, match="SHA-256"):
        shards.load()
    with pytest.raises(InvalidFile, match="SHA-256"):
        shards.take(np.arange(shards.n_blocks))
    list(open_shards(written, verify=False).chunks())


def test_chunks_are_verified_once(written, monkeypatch):
    """And again where a file has changed."""
    shards = open_shards(written)
    list(shards.chunks())
    with monkeypatch.context() as patch:
        patch.delattr(Shards, "_check")
        list(shards.chunks())
    damage(written / "data-00001.npy", -1)
    with pytest.raises(InvalidFile, match="has changed since it was opened: chunk"):
        list(shards.chunks())
    with pytest.raises(InvalidFile, match="is damaged: chunk"):
        read_all(written)


@pytest.mark.parametrize("name", [*(f"{name}-00000.npy" for name in NAMES), "header.json"])
def test_missing_truncated_and_longer_files_are_refused(written, name):
    file = written / name
    content = file.read_bytes()
    for part in (b"", content[:50], content[:-1], content + b"\0"):
        file.write_bytes(part)
        with pytest.raises(InvalidFile, match=f"{name} .*; copy"):
            open_shards(written)
    file.unlink()
    with pytest.raises(InvalidFile, match=f"{name}.*; (copy|pass)"):
        open_shards(written)


def test_files_that_change_later_are_refused(written):
    shards = open_shards(written)
    file = written / "y-00000.npy"
    content = file.read_bytes()
    file.write_bytes(content[:-20])
    with pytest.raises(InvalidFile, match="shorter since"):
        list(shards.chunks())
    file.unlink()
    with pytest.raises(InvalidFile, match="cannot be read"):
        list(shards.chunks())


def test_foreign_folders_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        open_shards(tmp_path / "absent")
    with pytest.raises(InvalidFile, match="no folder of shards"):
        open_shards(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidFile, match="no folder of shards"):
        open_shards(tmp_path / "file")
    for text in ("", "{", "[]", "1", "{}", '{"format": "x"}', "NaN", "[" * 100_000):
        (tmp_path / "header.json").write_text(text)
        with pytest.raises(InvalidFile, match=r"not complete JSON|not written by taut"):
            open_shards(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, r"has version 2.*upgrade taut"),
        ({"version": 0}, "unknown version"),
        ({"version": "1"}, "unknown version"),
        ({"format": "other"}, "not written by taut"),
        ({"chunks": None}, "inconsistent"),
        ({"chunks": [{}]}, "inconsistent"),
        ({"dtype": "nothing"}, "inconsistent"),
        ({"classes": [[1]]}, "not a stored label"),
        ({"shards": []}, "inconsistent"),
    ],
)
def test_other_headers_are_refused(written, changes, message):
    file = written / "header.json"
    header = json.loads(file.read_text())
    del header["sha256"]
    assert sealed(header) == file.read_text()
    file.write_text(sealed(header | changes))
    with pytest.raises(InvalidFile, match=message):
        read_all(written)
    file.write_text(json.dumps(json.loads(sealed(header)) | {"n_features": 4}))
    with pytest.raises(InvalidFile, match="SHA-256"):
        open_shards(written)


def test_what_is_there_is_refused(path):
    for make in (path.mkdir, lambda: path.write_text("x"), lambda: path.symlink_to("nowhere")):
        make()
        with pytest.raises(FileExistsError, match="set exists already; choose"):
            write_shards(path, [[1.0]])
        path.rmdir() if path.is_dir() else path.unlink()
    with pytest.raises(FileNotFoundError):
        write_shards(path / "deeper", [[1.0]])


def good_then(*bad):
    yield np.ones((3, 2)), ["a", "b", "a"]
    yield bad


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            (np.array([[1, 2], [np.nan, 1]]), ["a", "b"]),
            "part 1: X contains NaN at row 1, column 0",
        ),
        ((np.array([[1, np.inf]]), ["a"]), "part 1: X contains infinity.* at row 0, column 1"),
        ((np.ones((2, 3)), ["a", "b"]), "part 1: X has 3 features, the first part has 2"),
        (
            (sp.csr_array(np.ones((2, 2))), ["a", "b"]),
            "part 1: X is sparse, the first part is dense",
        ),
        ((np.ones((2, 2)), ["a"]), "part 1: X has 2 rows, y has 1 labels"),
        ((np.ones((0, 2)), []), "part 1: Found X with 0 sample"),
        ((np.ones((2, 2)), None), "part 1: y is missing here"),
        ((np.ones((2, 2)), ["a", "b"], [1, 1]), "part 1: sample_weight is given here"),
        ((np.ones((2, 2)), ["a", "b"], None, [1, 1]), "part 1: margin is given here"),
        ((np.ones((2, 2)), ["a", "b"], [1, -1]), r"part 1: sample_weight\[1\] .* is negative"),
        ((np.ones(2), "a"), "part 1 is a single example"),
        (([np.ones((1, 2))], ["a"]), "part 1: X has 3 dimensions"),
        ((np.ones((1, 2)),), "part 1 is of type tuple with 1 entries; give"),
        ((np.ones((3, 2)), ["a", "b", np.nan]), r"part 1: y\[2\] is or contains NaN"),
        ((np.ones((3, 2)), ["a", "b", ["c"]]), r"part 1: y\[2\] is of type list, .* not hashable"),
        ((np.ones((2, 2)), ["a", b"c"]), "part 1: label b'c' of type bytes cannot be stored"),
        ((np.ones((1, 2)), [float("nan")]), "part 1: .*NaN"),
    ],
)
def test_bad_parts_are_refused_with_their_place(path, bad, message):
    with pytest.raises(InvalidData, match=message):
        write_shards(path, good_then(*bad))
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (np.r_[np.ones((99, 2)), [[1, np.nan]]], {}, "X contains NaN at row 99, column 1"),
        (sp.csr_array([[1.0, 0], [0, np.inf]]), {}, "infinity .* at row 1, column 1"),
        ([np.ones((2, 2))] * 9 + [np.full((1, 2), np.nan)], {}, "NaN at sequence 9, row 0"),
        ([np.ones((2, 2))] * 9 + [np.ones((1, 3))], {}, r"X(\[9\])? has 3 features, "),
        ([np.ones((2, 2))] * 9 + [np.ones((0, 2))], {}, r"X\[9\] has zero length"),
        ([np.ones((2, 2))] * 9 + [5], {}, r"X\[9\] has "),
        (np.r_[np.ones((9, 2)), [[1, np.nan]]], {"lengths": [5, 5]}, "sequence 1, row 4, column 1"),
        (np.ones((9, 2)), {"lengths": [5, 5]}, "lengths sum to 10, X has 9 rows"),
        (np.ones((3, 2)), {"y": [1, 2]}, "X has 3 rows, y has 2"),
        (np.ones((3, 2)), {"y": [1, 2, np.nan]}, "y contains NaN at row 2"),
        (np.ones((9, 2)), {"y": ["a"] * 8 + [np.nan]}, r"y\[8\] is or contains NaN"),
        (np.ones((3, 2)), {"y": ["a", "b", b"c"]}, "label b'c' of type bytes cannot be stored"),
        (np.ones((3, 2)), {"y": ["a", "b", ["c"]]}, "not hashable"),
        (np.ones((3, 2)), {"y": np.array([1, 2, 2**63], "u8")}, "exceeds int64"),
        (np.ones((3, 2)), {"sample_weight": [1, 2]}, "sample_weight has shape"),
        (np.ones((3, 2)), {"sample_weight": 0}, "zero everywhere"),
        (np.ones((3, 2)), {"margin": [1, 2, np.inf]}, "margin contains infinity"),
        (np.ones(3), {}, "Expected 2D array"),
        (np.ones((0, 2)), {}, "0 sample"),
        (np.ones((2, 0)), {}, "0 feature"),
        ([], {}, "Expected 2D|0 sample"),
        (iter([]), {}, "there are no parts"),
        (iter([(np.ones((1, 1)), [1], [0.0])]), {}, "zero in all parts"),
        (iter([(np.ones((1, 1)), [1])]), {"y": [1]}, "y is given beside parts"),
        (5, {}, "X is of type int"),
        (np.ones((3, 2)), {"chunk_size": 0}, "chunk_size = 0 is no amount"),
        (np.ones((3, 2)), {"shard_size": "4 apples"}, "shard_size = '4 apples' is no amount"),
    ],
)  # fmt: skip
def test_bad_data_are_refused_with_their_place(path, X, options, message):
    with pytest.raises(InvalidData, match=message):
        write_shards(path, X, **({"chunk_size": 48} | options))
    assert os.listdir(path.parent) == []


def test_types_of_targets_cannot_change(path):
    one = np.ones((1, 1))
    for first, second in ([[1], [0.5]], [[1], ["a"]], [[0.5], ["a"]]):
        with pytest.raises(InvalidData, match=r"part 1: y are .* convert y to one type"):
            write_shards(path, iter([(one, first), (one, second)]))
    shards = write_shards(path, iter([(one, [0.5]), (one, [1])]))
    assert shards.load()[1].tolist() == [0.5, 1.0]
    X = [np.ones((2, 1)), np.ones((1, 1))]
    with pytest.raises(InvalidData, match="part 1: y has one per sequence"):
        write_shards(path.with_name("other"), iter([(X, [1, 2, 3]), (X, [1, 2])]))


def test_the_first_dtype_holds(path):
    wide = np.array([[1.0], [2.0]])
    shards = write_shards(path, iter([(wide.astype("f4"), [0, 1]), (wide, [0, 1])]))
    assert shards.dtype == np.float32
    with pytest.raises(InvalidData, match=r"part 1: X contains .* too large .* at row 1"):
        write_shards(
            path.with_name("other"),
            iter([(wide.astype("f4"), [0, 1]), (np.array([[1.0], [1e300]]), [0, 1])]),
        )


@pytest.mark.parametrize("step", ["fsync", "rename"])
@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failed_write_leaves_nothing(path, monkeypatch, step, failure):
    def fail(*args):
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(type(failure)):
            write_shards(path, [[1.0]], [1])
    assert os.listdir(path.parent) == []


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_killed_write_leaves_no_set(path, environment):
    code = """
        import sys, time
        import numpy as np
        from taut.data import write_shards

        def parts():
            for k in range(10**6):
                if k == 50:
                    print("going", flush=True)
                yield np.ones((100, 10)), np.ones(100)
        write_shards(sys.argv[1], parts(), chunk_size="8kB", shard_size="16kB")
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(path)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "going\n"
        process.send_signal(signal.SIGKILL)
    assert not path.exists()
    (left,) = os.listdir(path.parent)
    assert left.startswith(".set.")
    with pytest.raises(InvalidFile, match=r"no header\.json"):
        open_shards(path.parent / left)
    write_shards(path, [[1.0]])


def test_names_and_text(written):
    shards = open_shards(written)
    assert repr(shards).startswith(f"Shards({str(written)!r}, n_blocks=7, n_features=5, sequences")
    assert "3 classes" in repr(shards)
    assert isinstance(shards, Shards)
    assert len(shards.digest) == 32
    assert sorted(taut.data.__all__) == taut.data.__all__
    assert set(taut.data.__all__) <= set(dir(taut.data))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        taut.data.nothing  # noqa: B018
    moved = written.with_name("moved")
    shutil.move(written, moved)
    assert open_shards(moved).digest == shards.digest


def test_progress_is_shown_on_a_terminal_only(path, monkeypatch, capsys):
    write_shards(path, np.ones((10, 2)), verbose=1)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    write_shards(path.with_name("shown"), np.ones((10, 2)), verbose=1, chunk_size=40)
    out, err = capsys.readouterr()
    assert out == ""
    assert "writing" in err


def test_real_targets_have_no_codes(path):
    shards = write_shards(path, [[1.0], [2.0]], [0.5, 1.0])
    (chunk,) = shards.chunks()
    with pytest.raises(InvalidData, match="no classes"):
        shards.codes(chunk)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (1, 1), (np.int32(7), 7), ("12B", 12), ("1kB", 1000), ("500MB", 5 * 10**8),
        ("1.5 GB", 1_500_000_000), ("2TB", 2 * 10**12), ("1KiB", 1024), ("3 MiB", 3 << 20),
        ("1GiB", 1 << 30),
    ],
)  # fmt: skip
def test_amounts_of_memory(text, size):
    assert as_bytes(text) == size


@pytest.mark.parametrize("text", [0, -1, True, 1.5, None, "", "MB", "5", "5 m", "-1MB", "1e3MB"])
def test_other_amounts_are_refused(text):
    with pytest.raises(InvalidData, match=r"budget = .* is no amount of memory; give"):
        as_bytes(text, "budget")


def test_sizes_of_objects():
    cycle = [np.zeros(100)]
    cycle.append(cycle)
    assert 800 < size_of(cycle) < 1100
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert size_of(deep) > 100_000
    assert size_of(sp.csr_array(np.ones((10, 10)))) > 1200
    assert isinstance(InvalidType("x"), InvalidData)
