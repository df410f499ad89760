"""Digests tell content apart, in any process, and nothing but content."""

import collections
import datetime
import functools
import itertools
import os
import subprocess
import sys
import threading
import types

import numpy as np
import pytest
import scipy.sparse as sp

from taut.errors import InvalidData
from taut.storage.digest import Digest, digest_of
from taut.structures import Chain, Multiclass, SlackRescaled


class Thing:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


class Lazy(Thing):
    @functools.cached_property
    def found(self):
        return 3

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "calls"}


class AttributeDict(dict):
    __getattr__ = dict.__getitem__


class Odd(set):
    """One that raises whatever it is asked."""

    def __reduce_ex__(self, protocol):
        raise OSError("not today")


class Derived(Thing):
    @functools.cached_property
    def found(self):
        return 3


class Mine(Multiclass):
    pass


def looped(value):
    thing = Thing(value=value)
    thing.me = [thing]
    return thing


def sparse(changed=0.0):
    X = np.eye(3)
    X[0, 2] = changed
    return sp.csr_array(X)


# Makers: equal values at each call, and no two of them alike.
VALUES = [
    *(lambda value=value: value for value in (None, 0, 1, 0.0, 1.0, True, "", "1", b"1", 2j, ...)),
    *(lambda value=value: value for value in ([], (), {}, set(), [1], (1,), {1}, [[1]], [1, 1])),
    lambda: 10**5000,
    lambda: {"a": 1, "b": 2},
    lambda: {"a": 2, "b": 1},
    lambda: {"one", "two", "three"},
    lambda: frozenset({"one", "two", "three"}),
    lambda: np.float32(1.0),
    lambda: np.float64(1.0),
    lambda: np.arange(4),
    lambda: np.arange(4.0),
    lambda: np.arange(4).reshape(2, 2),
    lambda: np.arange(4).reshape(2, 2).T,
    lambda: np.array(["a", "b"]),
    lambda: np.array(["a", "b"], dtype=object),
    lambda: np.array([1, None, [2]], dtype=object),
    lambda: np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]),
    lambda: np.ma.array([1, 2], mask=[0, 1]),
    lambda: np.ma.array([1, 2], mask=[1, 0]),
    lambda: np.array("2020-01-01", dtype="datetime64[D]"),
    lambda: np.empty((0, 3)),
    lambda: np.empty((3, 0)),
    lambda: sparse(),
    lambda: sparse(1.0),
    lambda: sparse().tocsc(),
    lambda: Thing(a=1),
    lambda: Thing(a=2),
    lambda: Thing(b=1),
    lambda: Slotted(1),
    lambda: Slotted(2),
    lambda: AttributeDict(a=1),
    lambda: AttributeDict(a=2),
    lambda: Thing(py_func=abs, a=1),
    lambda: Thing(py_func=sparse, a=1),
    lambda: Thing(py_func=sparse, a=2),
    lambda: functools.cache(sparse),
    lambda: looped(1),
    lambda: looped(2),
    lambda: collections.Counter("abb"),
    lambda: collections.OrderedDict(a=1),
    lambda: collections.deque([1]),
    lambda: datetime.date(2020, 1, 1),
    lambda: datetime.date(2020, 1, 2),
    lambda: range(3),
    lambda: np.random.default_rng(0),
    lambda: np.random.default_rng(1),
    lambda: functools.partial(max, 1),
    lambda: functools.partial(max, 2),
    lambda: np.mean,
    lambda: np.exp,
    lambda: len,
    lambda: Thing,
    lambda: itertools,
    lambda: lambda x: x + 1,
    lambda: lambda x: x + 2,
    lambda: lambda x, y=1: x + 2,
    lambda: Thing(a=1).__init__,
    lambda: Multiclass(3),
    lambda: Multiclass(3, bias=1.0),
    lambda: Multiclass(3, cost=2.0 * (1.0 - np.eye(3))),
    lambda: Chain(3),
    lambda: Chain(3, True),
    lambda: SlackRescaled(Multiclass(3)),
]


def test_equal_content_alone_is_equal():
    found = digests()
    assert found == digests()
    half = len(VALUES)
    assert len(set(found[:half])) == len(set(found[half:])) == half


def test_values_side_by_side_are_not_confused():
    texts = [("a", "bc"), ("ab", "c"), ("abc",), ("abc", ""), (["a", "bc"],), (["a"], "bc")]
    assert len({digest_of(*values) for values in texts}) == len(texts)


def test_sharing_does_not_matter():
    inner = [1, (2, 3)]
    assert digest_of([inner, inner]) == digest_of([[1, (2, 3)], [1, (2, 3)]])
    array = np.zeros(10_000)
    assert digest_of((array, array)) == digest_of((array, array.copy()))


def test_shared_objects_are_gone_through_once():
    deep = [0]
    for _ in range(60):
        deep = [deep, deep]
    digest_of((deep,))


def test_layout_does_not_matter(tmp_path):
    array = np.random.default_rng(0).normal(size=(300, 7))
    mapped = np.memmap(tmp_path / "array", dtype=float, mode="w+", shape=array.shape)
    mapped[:] = array
    wide = np.zeros((600, 14))
    wide[::2, ::2] = array
    for other in (np.asfortranarray(array), mapped, wide[::2, ::2]):
        assert digest_of(other) == digest_of(array)


@pytest.mark.parametrize("order", ["C", "F"])
def test_every_byte_counts(order):
    """More than 16 MB, in one piece or not."""
    array = np.zeros((2100, 1009), order=order)
    seen = {digest_of(array)}
    for place in ((0, 0), (1, 1), (1234, 567), (2099, 1008)):
        array[place] = 1e-300
        seen.add(digest_of(array))
    assert len(seen) == 5


def test_what_is_derived_or_left_out_does_not_count():
    for kind in (Lazy, Derived):
        fresh, used = kind(a=1), kind(a=1)
        assert used.found == 3
        assert digest_of(fresh) == digest_of(used)
    used = Lazy(a=1, calls=5)
    assert digest_of(used) == digest_of(Lazy(a=1, calls=6)) != digest_of(Lazy(a=2, calls=5))


def test_scipy_may_look_at_its_indices():
    X = sp.csr_array((np.ones(2), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    before = digest_of(X)
    assert X.has_canonical_format
    assert digest_of(X) == before


MODULE = """
import numpy as np
from functools import lru_cache

FACTOR = 2.0
TABLE = {"a": [1.0]}
COSTS = np.ones(3)

def half(x):
    return x / FACTOR

@lru_cache
def kept(x):
    return half(x)

class Base:
    scale = 1.0
    def loss(self, x):
        return self.scale * COSTS[0] * TABLE["a"][0] * kept(x)

class Kind(Base):
    def features(self, x):
        return [half(y) for y in x]
"""


def module_of(text):
    module = types.ModuleType("their_module")
    sys.modules["their_module"] = module
    module.__file__ = "their_module.py"
    exec(compile(text, "their_module.py", "exec"), module.__dict__)
    return module


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("FACTOR = 2.0", "FACTOR = 3.0"),
        ('"a": [1.0]', '"a": [2.0]'),
        ("np.ones(3)", "np.zeros(3)"),
        ("x / FACTOR", "x * FACTOR"),
        ("half(x)\n\nclass", "half(x) + 1\n\nclass"),
        ("scale = 1.0", "scale = 2.0"),
        ("self.scale * COSTS", "self.scale + COSTS"),
        ("[half(y) for y in x]", "[half(-y) for y in x]"),
    ],
)
def test_code_and_what_it_reads_count(before, after):
    assert before in MODULE
    own, same, other = (
        digest_of(module_of(text).Kind(), code=True)
        for text in (MODULE, MODULE + "\nUNUSED = 1\n", MODULE.replace(before, after))
    )
    sys.modules.pop("their_module")
    assert own == same != other


def test_objects_of_users_are_told_from_others():
    for value, expected in (
        (Multiclass(3), False), (np.arange(3), False), (datetime.date(2020, 1, 1), False),
        (Thing(), True), ([Slotted(1)], True), (SlackRescaled(Mine(2)), True),
    ):  # fmt: skip
        digest = Digest()
        digest.add(value)
        assert digest.of_users == expected


def test_closures_count():
    def make(factor, helper):
        return lambda x: helper(x) * factor

    made = [make(1.0, abs), make(2.0, abs), make(1.0, lambda x: x), make(1.0, lambda x: -x)]
    assert len({digest_of(function) for function in made}) == 4


def test_what_cannot_be_read_is_refused():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    linked = [Thing() for _ in range(2000)]
    for before, after in itertools.pairwise(linked):
        before.next, after.previous = after, before
    generator = (x for x in ())
    plain = (threading.Lock(), [threading.Lock()], generator, Thing(f=sys.stdout), Odd({1}))
    for value in (*plain, deep, linked[0]):
        digest = Digest()
        digest.add(value)
        digest.add(1)
        assert digest.opaque
        assert len(digest.digest()) == 32
        with pytest.raises(InvalidData, match=r"of type .* cannot be read, .* __getstate"):
            digest.strict()


def digests():
    return [digest_of(make(), code=code).hex() for code in (False, True) for make in VALUES]


def test_processes_agree(environment):
    """Whatever the order of sets: this process has another seed of hashes."""
    seed = 1 + (os.environ.get("PYTHONHASHSEED") == "1")
    answer = subprocess.run(
        [sys.executable, "-c", "import test_digest; print(*test_digest.digests())"],
        env=environment | {"PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.split() == digests()
