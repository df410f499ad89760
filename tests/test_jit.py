"""The compilation cache: used by later processes, never stale, dispensable."""

import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import taut
from taut import _jit
from taut.errors import CacheUnavailable

FIT = """
import numpy as np
from numba.core import event
with event.install_recorder("numba:compile") as kernels:
    with event.install_recorder("numba:run_pass") as passes:
        from taut import Problem, solve
        from taut.structures import Multiclass
        X = np.eye(3)
        solve(Problem(Multiclass(3), X, np.array([0, 1, 2])), tol=1e-6)
print(len(kernels.buffer), len(passes.buffer))
"""


def compilations(environment, folder):
    """How much one process compiles, with this cache folder."""
    answer = subprocess.run(
        [sys.executable, "-c", FIT],
        env=environment | {"NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not answer.stderr
    return [int(number) for number in answer.stdout.split()]


def test_later_processes_compile_nothing(environment, tmp_path):
    assert min(compilations(environment, tmp_path)) > 0
    assert compilations(environment, tmp_path) == [0, 0]


@pytest.fixture
def package_copy(tmp_path, monkeypatch):
    """A copy of the sources that takes the place of the package."""
    copy = tmp_path / "taut"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(taut.__file__).parent, copy, ignore=ignore)
    monkeypatch.setattr(_jit, "__file__", str(copy / "_jit.py"))
    return copy


def stamp():
    return _jit._package_stamp.__wrapped__()


def test_editing_any_source_changes_the_stamp(package_copy):
    before = stamp()
    assert stamp() == before
    for source in ("planes.py", "structures/chain.py"):
        (package_copy / source).write_text((package_copy / source).read_text() + "\n# edited\n")
        after = stamp()
        assert after != before
        before = after


def double(x):
    return 2.0 * x


def test_a_stale_stamp_is_not_used(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))

    def hits():
        compiled = _jit.kernel(double)
        assert compiled(2.0) == 4.0
        return sum(compiled._cache_hits.values())

    assert hits() == 0
    assert hits() == 1
    monkeypatch.setattr(_jit, "_package_stamp", lambda: "edited")
    assert hits() == 0
    assert hits() == 1


@pytest.fixture
def no_cache(monkeypatch):
    """No folder can be written to, as numba says it."""

    def refuse(self, function, inside):
        raise RuntimeError("cannot cache function 'f': no locator available for file 'f.py'")

    monkeypatch.setattr(_jit._Cache, "__init__", refuse)
    _jit._warn_once.cache_clear()
    yield
    _jit._warn_once.cache_clear()


def test_without_a_cache_one_warning_and_right_results(no_cache):
    message = r"cannot be kept on disk .* Set NUMBA_CACHE_DIR to a writable folder"
    with pytest.warns(CacheUnavailable, match=message):
        assert _jit.kernel(double)(3.0) == 6.0
    assert _jit.kernel(double)(np.float32(3.0)) == 6.0  # a second warning would be an error


def test_code_typed_at_a_prompt_is_not_warned_about(no_cache):
    names = {}
    exec(compile("def triple(x):\n    return 3.0 * x\n", "<stdin>", "exec"), names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _jit.kernel(names["triple"])(2.0) == 6.0
