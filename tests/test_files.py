"""Files come back exactly as written, or are refused."""

import json
import os
import stat

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file, save_file

from taut.errors import InvalidData, InvalidFile, InvalidType
from taut.storage import files

TENSORS = {"w": np.arange(3.0), "on": np.array([True, False])}
META = {"C": 0.1, "names": ["a", "ä"], "deep": {"x": None}}

DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(sizes=(16, 32, 64)),
)
SHAPES = hnp.array_shapes(min_dims=0, min_side=0, max_side=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)  # fmt: skip
LABELS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner).map(tuple),
)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "w.taut"
    files.write(path, "model", TENSORS, META)
    return path


def assert_same(found, tensors, meta=META):
    assert found[1] == meta
    assert found[0].keys() == tensors.keys()
    for name, array in tensors.items():
        assert found[0][name].dtype == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(found[0][name], array, strict=False)
        assert found[0][name].shape == array.shape


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.dictionaries(
        st.text().filter(lambda name: name != "__metadata__"),
        DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, SHAPES)),
        max_size=4,
    ),
    st.dictionaries(st.text(), JSON),
)
def test_round_trip(tmp_path, tensors, meta):
    files.write(tmp_path / "f", "checkpoint", tensors, meta)
    assert_same(files.read(tmp_path / "f", "checkpoint"), tensors, meta)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24.0).reshape(2, 3, 4)[:, ::2].T,
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(9)[::-1],
        np.broadcast_to(np.float32(2), (3, 2)),
        np.empty((0, 3)),
        np.array(1.5),
        np.arange(3, dtype=">i4"),
        np.array([np.nan, np.inf, -0.0]),
    ],
)
def test_any_layout(tmp_path, array):
    files.write(tmp_path / "f", "model", {"a": array, "b": np.ones(1, bool)}, {})
    found, _ = files.read(tmp_path / "f", "model")
    np.testing.assert_array_equal(found["a"], array)
    assert found["a"].shape == array.shape
    found["a"][...] = 0  # writable


def test_any_safetensors_reader_reads_it(path):
    np.testing.assert_array_equal(load_file(path)["w"], TENSORS["w"])


def test_equal_content_gives_equal_bytes(path, tmp_path):
    other = tmp_path / "other"
    files.write(other, "model", dict(reversed(TENSORS.items())), dict(reversed(META.items())))
    assert other.read_bytes() == path.read_bytes()


def test_every_truncation_is_refused(path):
    content = path.read_bytes()
    for size in [*range(0, len(content), 10), len(content) - 1]:
        path.write_bytes(content[:size])
        with pytest.raises(InvalidFile, match=r"w\.taut .*; .*again"):
            files.read(path, "model")


def test_appended_bytes_are_refused(path):
    with open(path, "ab") as file:
        file.write(b"\0")
    with pytest.raises(InvalidFile):
        files.read(path, "model")


@pytest.mark.parametrize("mask", [*(1 << bit for bit in range(8)), 0xFF])
def test_every_damaged_byte_is_refused_or_harmless(path, mask):
    content = bytearray(path.read_bytes())
    for k in range(len(content)):
        content[k] ^= mask
        path.write_bytes(content)
        content[k] ^= mask
        try:
            found = files.read(path, "model")
        except InvalidFile:
            continue
        assert content[k : k + 1] == b" "
        assert_same(found, TENSORS)


def rewritten(path, **changes):
    """The file with some of its header's metadata changed or, where None, removed."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8:start])["__metadata__"] | changes
    save_file(load_file(path), path, {k: v for k, v in metadata.items() if v is not None})
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": None}, "not written by taut"),
        ({"format": "pt"}, "not written by taut"),
        ({"version": "2"}, r"has version 2.*upgrade taut"),
        ({"version": "99999"}, "upgrade taut"),
        ({"version": None}, "unknown version"),
        ({"version": "x"}, "unknown version"),
        ({"version": "0"}, "unknown version"),
        ({"kind": "checkpoint"}, "holds a checkpoint, not a model"),
        ({"meta": None}, "no metadata"),
        ({"meta": "{}"}, "SHA-256"),
        ({"sha256": None}, "SHA-256"),
        ({"sha256": "0" * 64}, "SHA-256"),
    ],
)
def test_foreign_headers_are_refused(path, changes, message):
    assert_same(files.read(rewritten(path), "model"), TENSORS)
    with pytest.raises(InvalidFile, match=message):
        files.read(rewritten(path, **changes), "model")


@pytest.mark.parametrize("meta", ["", "{", "[]", '{"a": NaN}', "[" * 100_000])
def test_metadata_that_is_not_json_is_refused(path, meta):
    digest = files._digest("model", meta, TENSORS.items())
    with pytest.raises(InvalidFile, match="not JSON"):
        files.read(rewritten(path, meta=meta, sha256=digest), "model")


def test_the_kind_is_covered_by_the_checksum(path):
    with pytest.raises(InvalidFile, match="SHA-256"):
        files.read(rewritten(path, kind="checkpoint"), "checkpoint")


@pytest.mark.parametrize("content", [b"", b"\0", b"text" * 9, b"\x80\x04}.", b"\xff" * 64])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(InvalidFile, match=r"f is (empty|not a complete safetensors file)"):
        files.read(tmp_path / "f", "model")


def test_safetensors_of_another_program_is_refused(tmp_path):
    save_file(TENSORS, tmp_path / "f")
    with pytest.raises(InvalidFile, match="not written by taut"):
        files.read(tmp_path / "f", "model")


def test_missing_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        files.read(tmp_path / "absent", "model")
    with pytest.raises(InvalidFile, match="not a regular file"):
        files.read(tmp_path, "model")
    with pytest.raises(FileNotFoundError):
        files.write(tmp_path / "absent" / "f", "model", TENSORS, META)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        files.write(tmp_path / "folder", "model", TENSORS, META)
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize(
    ("tensors", "meta", "error"),
    [
        ({"a": np.array(["x"])}, {}, InvalidType),
        ({"a": np.array([None])}, {}, InvalidType),
        ({"a": np.array([1j])}, {}, InvalidType),
        ({"__metadata__": np.ones(1)}, {}, InvalidData),
        ({1: np.ones(1)}, {}, InvalidData),
        ({}, {"a": float("nan")}, InvalidData),
        ({}, {"a": np.ones(1)}, InvalidData),
        ({}, {"a": {1, 2}}, InvalidData),
    ],
)
def test_what_cannot_be_stored_leaves_the_old_file(path, tensors, meta, error):
    with pytest.raises(error, match="cannot be stored"):
        files.write(path, "model", tensors, meta)
    assert_same(files.read(path, "model"), TENSORS)


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(path, monkeypatch, step, failure):
    def fail(*args):
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(type(failure)):
            files.write(path, "model", {}, {})
    assert os.listdir(path.parent) == [path.name]
    assert_same(files.read(path, "model"), TENSORS)


@pytest.mark.skipif(os.name != "posix", reason="modes and links of POSIX")
def test_mode_follows_umask_and_links_are_kept(path, tmp_path):
    (tmp_path / "plain").touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    link = tmp_path / "link"
    link.symlink_to(path)
    files.write(link, "model", {}, {})
    assert link.is_symlink()
    assert files.read(path, "model") == ({}, {})


def exact(label):
    """Type and value, all the way down."""
    if isinstance(label, tuple):
        return tuple, tuple(map(exact, label))
    return type(label), repr(label)


@given(LABELS)
def test_labels_round_trip(label):
    text = json.dumps(files.encode_label(label), allow_nan=False)
    assert exact(files.decode_label(json.loads(text))) == exact(label)


@given(
    st.recursive(
        st.text() | st.integers() | st.tuples(st.integers(), st.text()),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.text() | st.tuples(st.integers()), inner)
            | st.sets(st.text())
        ),
    )
)
def test_nested_labels_round_trip(value):
    text = json.dumps(files.encode_nested(value), allow_nan=False)
    assert files.decode_nested(json.loads(text)) == value


@pytest.mark.parametrize(
    ("label", "plain"),
    [
        (np.int8(3), 3),
        (np.str_("a"), "a"),
        (np.bool_(True), True),
        (np.float32(0.5), 0.5),
        ((np.int64(1), ("a", np.float64("inf"))), (1, ("a", float("inf")))),
    ],
)
def test_numpy_scalars_become_python(label, plain):
    assert exact(files.decode_label(files.encode_label(label))) == exact(plain)


@pytest.mark.parametrize(
    "label", [[1], {"a": 1}, b"a", 1j, frozenset(), np.datetime64("2020-01-01"), np.longdouble(1)]
)
def test_other_labels_are_refused(label):
    for value in (label, ("a", label)):
        with pytest.raises(InvalidType, match=r"label .* cannot be stored; use str, int"):
            files.encode_label(value)


@pytest.mark.parametrize("value", [[1], {}, {"tuple": 1}, {"float": "1"}, {"tuple": [], "x": 1}])
def test_what_is_not_a_label_is_refused(value):
    with pytest.raises(InvalidFile, match="not a stored label"):
        files.decode_label(value)
