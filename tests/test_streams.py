"""Streams are checked as they come, read ahead, and never in memory as a whole."""

import gc
import hashlib
import itertools
import threading
import time
import tracemalloc
import weakref

import numpy as np
import pytest
import scipy.sparse as sp

from taut.data import Stream
from taut.data.arrays import Checked
from taut.data.chunks import concatenate
from taut.data.source import read_ahead
from taut.errors import InvalidData, InvalidType

LABELS = {
    "none": [None] * 6,
    "text": ["b", "a", "b", "c", "a", "a"],
    "int": [3, 1, 3, 2, 2, 1],
    "whole": [3.0, 1.0, 3.0, 2.0, 2.0, 1.0],
    "bool": [True, False, False, True, True, True],
    "tuple": [("a", 1), ("a", 2), ("b", 1), ("a", 1), ("a", 2), ("b", 1)],
}
FORMS = {
    "list": lambda parts: list(parts),
    "function": lambda parts: lambda: iter(parts),
    "generator": lambda parts: (part for part in parts),
}


def threads():
    return [t for t in threading.enumerate() if t.name == "taut-read-ahead"]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert threads() == []


def make_parts(kind, sparse, labels):
    rng = np.random.default_rng(0)

    def rows(n):
        X = sp.random_array((n, 4), density=0.5, format="csr", rng=rng)
        return X if sparse else X.toarray()

    parts = []
    for start, stop in ((0, 1), (1, 4), (4, 6)):
        y = None if labels == "none" else LABELS[labels][start:stop]
        if kind == "rows":
            X = rows(stop - start)
        elif kind == "sequences":
            X = [rows(i + 1) for i in range(start, stop)]
            y = None if y is None else [[label] * (start + k + 1) for k, label in enumerate(y)]
        else:
            X = [{"i": i} for i in range(start, stop)]
        parts.append((X, y, np.arange(start, stop) + 1.0))
    return parts


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", ["rows", "sequences", "examples"])
def test_parts_come_as_chunks(kind, sparse, labels, form):
    parts = make_parts(kind, sparse, labels)
    known = None if labels == "none" else set(LABELS[labels])
    stream = Stream(FORMS[form](parts), kind=kind)
    assert stream.repeatable == (form != "generator")
    assert stream.n_blocks is None
    assert stream.n_features == (None if kind == "examples" else 4)
    chunks = list(stream.chunks())
    assert (stream.n_blocks, stream.n_chunks) == (6, 3)
    assert [c.number for c in chunks] == [0, 1, 2]
    assert [c.first for c in chunks] == [0, 1, 4]
    whole = concatenate(chunks)
    assert whole.first == 0
    assert whole.sample_weight.tolist() == [1, 2, 3, 4, 5, 6]
    given = [x for part in parts for x in part[0]] if kind != "rows" else [p[0] for p in parts]
    if kind == "examples":
        assert given == whole.X
        assert whole.examples is whole.X
    else:
        stack = sp.vstack(given).toarray() if sparse else np.concatenate(given)
        np.testing.assert_array_equal(whole.X.toarray() if sparse else whole.X, stack)
        assert isinstance(whole.examples[0], Checked | np.ndarray | sp.csr_array)
    if kind == "sequences":
        assert np.diff(whole.offsets).tolist() == [1, 2, 3, 4, 5, 6]
    if form == "generator":
        with pytest.raises(InvalidData, match=r"read only once.* pass classes"):
            _ = stream.classes
        with pytest.raises(InvalidData, match="only once, and has been"):
            list(stream.chunks())
        with pytest.raises(InvalidData, match="write_shards"):
            stream.take([0])
        return
    again = concatenate(list(stream.chunks(np.arange(3))))
    assert again.n_blocks == 6
    if kind == "examples":
        assert [given[0], given[5]] == stream.take([0, 5]).X
    taken = stream.take([1, 3, 5])
    assert taken.sample_weight.tolist() == [2, 4, 6]
    if known is None:
        assert stream.classes is None
    else:
        assert set(stream.classes.tolist()) == known
        assert list(stream.classes) == sorted(known)
        codes = stream.codes(whole)
        assert codes.dtype == np.int32
        expected = LABELS[labels]
        if kind == "sequences":
            expected = [label for i, label in enumerate(expected) for _ in range(i + 1)]
        assert stream.classes[codes].tolist() == [
            list(e) if isinstance(e, tuple) and stream.classes.dtype != object else e
            for e in expected
        ]


def test_classes_can_be_given():
    stream = Stream(iter([(np.ones((2, 1)), ["b", "a"])]), classes=["c", "b", "a"])
    assert stream.classes.tolist() == ["a", "b", "c"]
    (chunk,) = stream.chunks()
    assert stream.codes(chunk).tolist() == [1, 0]
    for classes, y in ((["a", "c"], ["a", "b"]), ([0, 2], [0, 1]), ([0, 1], [0.0, 0.5])):
        stream = Stream([(np.ones((2, 1)), y)], classes=classes)
        (chunk,) = stream.chunks()
        with pytest.raises(InvalidData, match=r"y\[1\] = .* is none of the classes .*; name all"):
            stream.codes(chunk)
    with pytest.raises(InvalidData, match="classes needs at least 2"):
        Stream([(np.ones((2, 1)), ["b", "a"])], classes=["a"])


def test_real_targets_have_no_classes():
    stream = Stream([(np.ones((2, 1)), [0.5, 1.0])])
    assert stream.classes is None
    with pytest.raises(InvalidData, match="no classes"):
        stream.codes(next(stream.chunks()))


def test_large_parts_are_cut_and_single_examples_gathered(rng):
    X = rng.random((3000, 500))
    chunks = list(Stream([(X, np.arange(3000))]).chunks())
    assert [c.n_blocks for c in chunks] == [998, 998, 998, 6]
    np.testing.assert_array_equal(concatenate(chunks).X, X)
    stream = Stream(lambda: ((x, i, 2.0) for i, x in enumerate(X)))
    chunks = list(stream.chunks())
    assert all(c.nbytes < 4_100_000 for c in chunks)
    assert len(chunks) in (3, 4, 5, 6)
    whole = concatenate(chunks)
    np.testing.assert_array_equal(whole.X, X)
    assert whole.y.tolist() == list(range(3000))
    assert set(whole.sample_weight) == {2.0}


def test_a_generator_may_use_its_memory_again():
    def parts():
        X = np.empty((2, 1))
        for k in range(20):
            X[:] = k
            yield X, [k, k]

    for chunk in Stream(parts).chunks():
        time.sleep(0.001)
        assert chunk.X.tolist() == [[chunk.number]] * 2


def test_memory_does_not_grow_with_the_stream():
    def parts():
        for k in range(50):
            yield np.full((1000, 100), k, dtype=np.float32), np.arange(1000)

    stream = Stream(parts)
    tracemalloc.start()
    try:
        for _ in stream.chunks():
            pass
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_the_digest_tells_streams_apart():
    def objects():
        return [{"a": np.arange(3), "b": ("x", 1)}, object()]

    made = [
        Stream([(np.ones((2, 1)), [0, 1])]),
        Stream([(np.zeros((2, 1)), [0, 1])]),
        Stream([(np.ones((2, 1)), [0, 2])]),
        Stream([(np.ones((2, 1)), ["a", "b"])]),
        Stream([(np.ones((2, 1), dtype=np.float32), [0, 1])]),
        Stream([(sp.csr_array(np.ones((2, 1))), [0, 1])]),
        Stream([([np.ones((2, 1))], [[0, 1]])], kind="sequences"),
        Stream([(objects(), [0, 1])], kind="examples"),
        Stream([([np.ones(2), np.ones(1)], [0, 1])], kind="examples"),
        Stream([([np.ones(2), np.zeros(1)], [0, 1])], kind="examples"),
    ]
    assert len({stream.digest for stream in made}) == len(made)
    assert Stream([(objects(), [0, 1])], kind="examples").digest == made[7].digest
    assert len(made[0].digest) == hashlib.sha256().digest_size


def test_only_the_natural_order():
    stream = Stream([(np.ones((1, 1)), [k]) for k in range(3)])
    for order in ([0, 1, 2], [2, 1, 0]):
        with pytest.raises(InvalidData, match="own order; write it to disk"):
            stream.chunks(order)
    list(stream.chunks())
    assert len(list(stream.chunks([0, 1, 2]))) == 3
    for order in ([2, 1, 0], [0], []):
        with pytest.raises(InvalidData, match="own order; write it to disk"):
            stream.chunks(order)


def test_take_stops_where_it_can():
    asked = []

    def parts():
        for k in range(100):
            asked.append(k)
            yield np.full((1, 1), k), [k]

    assert Stream(parts).take([1, 3]).y.tolist() == [1, 3]
    assert max(asked) <= 5


@pytest.mark.parametrize(
    ("parts", "options", "message"),
    [
        ([], {}, "there are no parts"),
        (iter([]), {}, "there are no parts"),
        (lambda: iter([]), {}, "there are no parts"),
        ([np.ones((2, 2))], {}, "part 0 is of type ndarray; give tuples"),
        ([(np.ones((1, 1)),)], {}, "part 0 is of type tuple with 1 entries; give"),
        ([(np.ones((1, 1)), [np.nan])], {}, "part 0: y contains NaN"),
        ([(np.ones((1, 1)), [1], [0])], {}, None),
        ([([[1.0, 2.0]], [1])], {}, None),
        ([(np.ones((2, 2)), [1, 2])], {"kind": "sequences"}, "part 0: X is of type ndarray"),
        ([("abc", [1])], {"kind": "examples"}, "part 0: X is of type str"),
        ([(["abc"], [1, 2])], {"kind": "examples"}, "part 0: X has 1 examples, y has 2"),
        ([([], [])], {"kind": "examples"}, "part 0: X has no examples"),
        ([(np.ones(2), 1), (np.ones(3), 1)], {}, "example 1 has 3 values"),
        ([(np.ones(2), 1), (np.array([1, np.nan]), 1)], {}, "examples 0 to 1: .* row 1, column 1"),
        ([(np.ones(2), 1), (np.ones((1, 2)), [1])], {}, "part 1 is no single example"),
        ([(np.ones((1, 1)), [1])], {"kind": "trees"}, "kind = 'trees'; use one of"),
        (5, {}, "parts is of type int"),
    ],
)
def test_bad_streams_are_refused_at_once(parts, options, message):
    if message is None:
        Stream(parts, **options)
        return
    with pytest.raises(InvalidData, match=message):
        Stream(parts, **options)


def test_bad_parts_are_refused_when_they_come():
    good = (np.ones((2, 2)), [1, 2])
    bad = [
        ((np.array([[1, 2], [3, np.nan]]), [1, 2]), "part 1: X contains NaN at row 1, column 1"),
        ((np.ones((2, 3)), [1, 2]), "part 1: X has 3 features"),
        ((sp.csr_array(np.ones((2, 2))), [1, 2]), "part 1: X is sparse"),
        ((np.ones((2, 2)), ["a", "b"]), "part 1: y are labels"),
        (5, "part 1 is of type int"),
    ]
    for part, message in bad:
        stream = Stream([good, part])
        chunks = stream.chunks()
        next(chunks)
        with pytest.raises(InvalidData, match=message):
            next(chunks)
        assert stream.n_blocks is None
    with pytest.raises(InvalidData, match="zero in all parts"):
        list(Stream([(*good, [0, 0])]).chunks())


def test_passes_must_agree():
    passes = itertools.count()
    stream = Stream(lambda: [(np.ones((1, 1)), [0])] * (2 + next(passes)))
    list(stream.chunks())
    with pytest.raises(InvalidData, match="had 3 blocks before and 4 now"):
        list(stream.chunks())
    source = iter([(np.ones((1, 1)), [0])])
    stream = Stream(lambda: source)
    with pytest.raises(InvalidData, match=r"no parts.*used up"):
        list(stream.chunks())


def test_names():
    stream = Stream(iter([(np.ones((1, 2)), [0])]))
    assert repr(stream) == "Stream(kind='rows', n_blocks=?, n_features=2, read once)"
    list(stream.chunks())
    assert "n_blocks=1" in repr(stream)
    with pytest.raises(InvalidType):
        Stream(None)


def test_read_ahead_gives_all_in_order():
    for depth in (1, 2, 5):
        assert list(read_ahead(range(100), depth)) == list(range(100))
        assert list(read_ahead(iter([]), depth)) == []


def test_read_ahead_is_ahead_but_not_far():
    made = []

    def items():
        for k in range(10):
            made.append(k)
            yield k

    for depth in (1, 3):
        made.clear()
        ahead = read_ahead(items(), depth)
        assert made == []
        assert next(ahead) == 0
        deadline = time.monotonic() + 10
        while len(made) < depth + 1 and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.01)
        assert made == list(range(depth + 1))
        ahead.close()


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt(), SystemExit(3)])
def test_exceptions_travel(error):
    def items():
        yield 1
        yield 2
        raise error

    ahead = read_ahead(items())
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(type(error)) as caught:
        next(ahead)
    assert caught.value is error
    assert "items" in [entry.name for entry in caught.traceback]


@pytest.mark.parametrize("taken", [0, 1, 5])
@pytest.mark.parametrize("how", ["close", "delete", "raise"])
def test_closing_early_ends_the_thread(taken, how):
    closed = []

    def items():
        try:
            yield from itertools.count()
        finally:
            closed.append(True)

    ahead = read_ahead(items())
    for _ in range(taken):
        next(ahead)
    assert len(threads()) == bool(taken)
    if how == "close":
        ahead.close()
    elif how == "delete":
        del ahead
    else:
        with pytest.raises(ZeroDivisionError):
            ahead.throw(ZeroDivisionError)
    assert threads() == []
    assert closed == ([True] if taken else [])


def test_items_are_let_go():
    class Item:
        pass

    alive = weakref.WeakSet()

    def items():
        for _ in range(20):
            item = Item()
            alive.add(item)
            yield item
            del item

    most = 0
    for item in read_ahead(items(), 2):
        most = max(most, len(alive))
        del item
    assert most <= 4
    gc.collect()
    assert len(alive) == 0


def test_many_at_once():
    streams = [read_ahead(range(200)) for _ in range(20)]
    assert [sum(values) for values in zip(*streams)] == [20 * k for k in range(200)]


def test_examples_may_come_in_memory_that_is_used_again():
    buffer = np.empty(2)

    def parts():
        for k in range(3):
            buffer[:] = k
            yield [buffer], [k]

    chunks = list(Stream(parts, kind="examples").chunks())
    assert [chunk.X[0].tolist() for chunk in chunks] == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
