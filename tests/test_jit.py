"""The compilation cache: used by later processes, never stale, dispensable."""

import enum
import gc
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import taut
from cases import STRUCTURES
from own_structures import CompiledTags, MappedTags
from taut import CompiledStructure, Problem, Status, check_structure, solve
from taut.binding.kernels import make_prediction_losses
from taut.compiled import jit, linking, sources, whole
from taut.errors import CacheUnavailable, InvalidStructure
from taut.structures import Chain, Multiclass, Scalar, part
from taut.structures.base import EXPECTATION

FIT = """
import numpy as np
from numba.core import event
with event.install_recorder("numba:compile") as kernels:
    with event.install_recorder("numba:run_pass") as passes:
        from taut import Problem, solve
        from taut.structures import Scalar
        solve(Problem(Scalar(), np.eye(2), np.array([1.0, -1.0])), tol=1e-6)
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


@jit.kernel
def _double(numbers):
    for j in range(numbers.shape[0]):
        numbers[j] *= 2.0


@jit.kernel
def _double_twice(numbers):
    for _ in range(2):
        _double(numbers)


def test_kernels_are_called_by_python_and_by_kernels():
    """Inside another one a kernel is not compiled for Python."""
    numbers = np.ones(3)
    _double_twice(numbers)
    assert not _double.signatures
    _double(numbers)
    np.testing.assert_array_equal(numbers, 8.0)
    assert len(_double.signatures) == 1


@pytest.mark.parametrize("collects", [True, False])
def test_compiling_leaves_the_search_for_garbage_as_it_was(collects, request):
    request.addfinalizer(gc.enable)
    (gc.enable if collects else gc.disable)()
    jit.kernel(lambda numbers: numbers[0])(np.ones(1))
    assert gc.isenabled() == collects


def test_later_processes_compile_nothing(environment, tmp_path):
    assert min(compilations(environment, tmp_path)) > 0
    assert compilations(environment, tmp_path) == [0, 0]


@pytest.fixture
def package_copy(tmp_path, monkeypatch):
    """A copy of the sources that takes the place of the package."""
    copy = tmp_path / "taut"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(taut.__file__).parent, copy, ignore=ignore)
    monkeypatch.setattr(jit, "__file__", str(copy / "compiled/jit.py"))
    return copy


def stamp():
    return jit._package_stamp.__wrapped__()


def test_editing_any_source_changes_the_stamp(package_copy):
    before = stamp()
    assert stamp() == before
    for source in ("duals/planes.py", "structures/chain.py", "compiled/rows.py"):
        (package_copy / source).write_text((package_copy / source).read_text() + "\n# edited\n")
        after = stamp()
        assert after != before
        before = after


def test_editing_the_lanes_changes_the_stamp(package_copy):
    before = stamp()
    with (package_copy / "compiled/lanes.py").open("a") as source:
        source.write("\n# edited\n")
    assert stamp() != before


def double(x):
    return 2.0 * x


def test_a_stale_stamp_is_not_used(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))

    def hits():
        compiled = jit.kernel(double)
        assert compiled(2.0) == 4.0
        return sum(compiled._cache_hits.values())

    assert hits() == 0
    assert hits() == 1
    monkeypatch.setattr(jit, "_package_stamp", lambda: "edited")
    assert hits() == 0
    assert hits() == 1


@pytest.fixture
def no_cache(monkeypatch):
    """No folder can be written to, as numba says it."""

    def refuse(self, function):
        raise RuntimeError("cannot cache function 'f': no locator available for file 'f.py'")

    monkeypatch.setattr(jit._Cache, "__init__", refuse)
    jit._warn_once.cache_clear()
    yield
    jit._warn_once.cache_clear()


def test_without_a_cache_one_warning_and_right_results(no_cache):
    message = r"cannot be kept on disk .* Set NUMBA_CACHE_DIR to a writable folder"
    with pytest.warns(CacheUnavailable, match=message):
        assert jit.kernel(double)(3.0) == 6.0
    assert jit.kernel(double)(np.float32(3.0)) == 6.0  # a second warning would be an error


def test_code_typed_at_a_prompt_is_not_warned_about(no_cache):
    names = {}
    exec(compile("def triple(x):\n    return 3.0 * x\n", "<stdin>", "exec"), names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jit.kernel(names["triple"])(2.0) == 6.0


# Oracles of a user's own


OWN = """
import numpy as np
from taut import CompiledStructure
from taut.structures import Blocks, RowFeatures, part

class Own(CompiledStructure):
    "One of three classes, whose loss is SCALE; phi is x in the column of the class."
    def encode(self, X, y=None):
        n = len(X)
        y = np.zeros(n, dtype=np.int32) if y is None else np.array(y, dtype=np.int32)
        return Blocks((y,), RowFeatures(X, columns=3), np.arange(n + 1), y)

    def decode(self, labels, offsets):
        return labels

    @staticmethod
    def parts(data, i, label, each):
        return part(each, label[0], 1.0)

    @staticmethod
    def loss(data, i, label):
        return SCALE * (label[0] != data[0][i])

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        best = -np.inf
        for k in range(3):
            value = work[k] + loss_weight * SCALE * (k != data[0][i])
            if value > best:
                best, label[0] = value, k
        return best
"""

USE = """
import importlib.util, sys
from pathlib import Path
import numpy as np
from numba.core import event

def loss(structure):
    "The mean loss of wrong labels, by the smallest of all kernels around an oracle."
    from taut import Problem
    from taut.binding.kernels import make_prediction_losses
    y, losses = np.arange(20) % 3, np.empty(20)
    data = Problem(structure, np.ones((20, 4)), y).data
    wrong = ((y + 1) % 3).astype(np.int32)
    data.kernel(make_prediction_losses)(data.blocks.data, data.blocks.offsets, wrong, losses)
    return losses.mean()

def own(path):
    spec = importlib.util.spec_from_file_location("own", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["own"] = module
    spec.loader.exec_module(module)
    return module.Own()

with event.install_recorder("numba:run_pass") as passes:
    losses = [loss(own(path)) for path in sys.argv[1:]]
print(len(passes.buffer), *losses)
"""


def written(path, scale):
    """A user's module whose structure has this loss."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(OWN.replace("SCALE", str(scale)))
    return path


def output(environment, cache, *arguments):
    """The numbers that another process prints."""
    answer = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=environment | {"NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    assert not answer.stderr
    return [float(number) for number in answer.stdout.split()]


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "use.py"
    path.write_text(USE)
    return path


def test_own_oracles_are_compiled_once_and_never_stale(environment, tmp_path, script):
    """Modules of the same names, by processes of which each begins with what is on disk."""
    a, b, c = (tmp_path / name / "own.py" for name in "abc")

    def losses(*own, compiles):
        compiled, *found = output(environment, tmp_path / "cache", script, *own)
        assert (compiled > 0) == compiles
        return found

    assert losses(written(a, 1.0), compiles=True) == [1.0]
    assert losses(written(b, 2.0), compiles=True) == [2.0]
    # Compiled apart, loaded together.
    assert losses(a, b, compiles=False) == [1.0, 2.0]
    # One that is edited, and another one, compiled together, then loaded together.
    for compiles in (True, False):
        assert losses(written(a, 3.0), written(c, 4.0), compiles=compiles) == [3.0, 4.0]
    # The file as it was before.
    assert losses(written(a, 1.0), compiles=False) == [1.0]


def test_constants_of_other_files_belong_to_own_oracles(environment, tmp_path, script):
    own = written(tmp_path / "a" / "own.py", "settings.SCALE * share_of()")
    text = "import settings\nfrom settings import share_of\n" + own.read_text()
    own.write_text(text)
    environment = environment | {"PYTHONPATH": f"{tmp_path}:{environment.get('PYTHONPATH', '')}"}
    for scale, share in ((1.0, 1.0), (2.0, 1.0), (2.0, 3.0)):
        (tmp_path / "settings.py").write_text(
            f"import numba\nSCALE, _SHARE = {scale}, {share}\n"
            "@numba.njit\ndef share_of():\n    return _SHARE\n"
        )
        assert output(environment, tmp_path / "cache", script, own)[1:] == [scale * share]


TYPED = """
import sys
namespace = {}
exec(open("use.py").read().split("with event")[0], namespace)
losses = []
for scale in sys.argv[1:]:
    exec(open("own.py").read().replace("SCALE", scale), globals())
    losses.append(namespace["loss"](Own()))
print(*losses)
"""


def test_own_oracles_typed_at_a_prompt_are_never_stale(environment, tmp_path, script, monkeypatch):
    """A cell of a notebook that is edited and run again, in the same process and the next one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    for scales in ((1.0, 2.0), (3.0,)):
        assert output(environment, tmp_path / "cache", "-c", TYPED, *scales) == list(scales)


def made_with(scale):
    def oracle(x):
        return scale * x

    return oracle


FACTOR, TABLE = 2.0, np.ones(3)
KIND = enum.IntEnum("Kind", {"FIRST": 1})


def inner(x):
    return FACTOR * x


def outer(x):
    return inner(x) + TABLE[0] + KIND.FIRST


def test_values_that_functions_read_belong_to_them(monkeypatch):
    digest = sources.source_digest.__wrapped__
    first = digest(outer)
    sources.check_unchanged(outer)
    for name, value in (
        ("FACTOR", 3.0),
        ("TABLE", np.array([1.0, 1.0, 2.0])),
        ("inner", abs),
        ("KIND", enum.IntEnum("Kind", {"FIRST": 2})),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(globals(), name, value)
            assert digest(outer) != first
            with pytest.raises(InvalidStructure, match=f"outer reads {name}, and compiled code"):
                sources.check_unchanged(outer)
    assert digest(outer) == first
    sources.check_unchanged(outer)


class OneOracle(NamedTuple):
    oracle: Callable
    absent: Callable | None = None


def caller(oracles):
    oracle = oracles.oracle
    assert oracles.absent is None

    def call(x):
        return oracle(x)

    return call


def test_what_oracles_enclose_belongs_to_them(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))

    def result(scale):
        compiled = jit.specialise(caller, OneOracle(made_with(scale)))
        return compiled(3.0), sum(compiled._cache_hits.values())

    assert result(2.0) == (6.0, 0)
    assert result(5.0) == (15.0, 0)
    assert result(2.0) == (6.0, 1)


def test_the_same_oracles_are_compiled_in_once():
    oracle = made_with(2.0)
    assert jit.specialise(caller, OneOracle(oracle)) is jit.specialise(caller, OneOracle(oracle))


class Allocating(MappedTags):
    """Its oracles make arrays, copies of their arguments too, and overwrite what they have made."""

    @staticmethod
    def pull(data, i, w, work):
        m, X, own = data[1], data[2], w.copy()
        scores = np.zeros(m)
        for j in range(X.shape[1]):
            for k in range(m):
                scores[k] += X[i, j] * own[j * m + k]
        for k in range(m):
            work[k] = scores[k]
        for p in range(m * (m - 1) // 2):
            work[m + p] = own[X.shape[1] * m + p]

    @staticmethod
    def push(data, i, statistics, w):
        m, X, own = data[1], data[2], statistics.copy()
        for j in range(X.shape[1]):
            for k in range(m):
                w[j * m + k] += X[i, j] * own[k]
        for p in range(m * (m - 1) // 2):
            w[X.shape[1] * m + p] += own[m + p]

    @staticmethod
    def loss(data, i, label):
        wrong = np.zeros(1)
        for t in range(label.shape[0]):
            wrong = wrong + (label[t] != data[0][i, t])
        return wrong[0]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_oracles_may_make_arrays(n_jobs):
    case = STRUCTURES["tags-compiled"]
    X, y = case.data(np.arange(300) % case.n_blocks)
    assert Allocating.allocates
    problem = Problem(Allocating(3), X, y, n_jobs=n_jobs)
    result = solve(problem, tol=1e-6, max_iter=5000, random_state=0).certificate
    expected = solve(Problem(CompiledTags(3), X, y), tol=1e-6, max_iter=5000, random_state=0)
    assert result.relative_gap <= 1e-6
    assert result.primal == pytest.approx(expected.certificate.primal, rel=2e-6)


def test_built_in_structures_make_no_arrays():
    assert CompiledStructure.allocates
    for structure in (Scalar, Multiclass, Chain):
        assert not structure.allocates


# The time it takes


@pytest.fixture
def now(monkeypatch):
    """The time, as compilation sees it."""
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(jit, "time", SimpleNamespace(perf_counter=lambda: now.seconds))
    return now


@pytest.fixture
def announced(monkeypatch):
    texts = []
    monkeypatch.setattr(jit, "announce", texts.append)
    return texts


def compiling(numbers=np.float64):
    """The event of compiling a kernel for an array of these numbers in a tuple."""
    dispatcher = jit.kernel(double)
    arguments = [((np.zeros(1, dtype=int), np.zeros(1, dtype=numbers)),)]
    return SimpleNamespace(
        data={"dispatcher": dispatcher, "args": [jit.numba.typeof(item) for item in arguments]}
    )


def test_compiling_is_timed_and_loading_is_not(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    seconds = [jit.compile_seconds()]
    for _ in range(2):
        assert jit.kernel(double)(2.0) == 4.0
        seconds.append(jit.compile_seconds())
    assert seconds[0] < seconds[1] == seconds[2]


def test_the_clock_stands_still_while_something_compiles(now, monkeypatch):
    compilation = jit._Compilation()
    monkeypatch.setattr(jit, "_compilation", compilation)
    now.seconds = 1.0
    compilation.on_start(compiling())
    now.seconds = 1.5
    compilation.on_start(compiling())  # a function that the first one calls
    assert jit.compile_seconds() == 0.5
    compilation.on_end(None)
    assert jit.clock() == 1.0
    now.seconds = 1.75
    compilation.on_end(None)
    now.seconds = 2.0
    assert jit.clock() == 1.25
    assert jit.compile_seconds() == 0.75


def test_long_compilations_are_announced_once(now, announced):
    compilation = jit._Compilation()
    for start, end in ((0.0, 0.6), (0.7, 0.9), (1.0, 1.5), (2.0, 9.0), (15.0, 15.9), (16.0, 17.0)):
        now.seconds = start
        compilation.on_start(compiling(np.float32))
        compilation.tell_if_long()
        now.seconds = end
        compilation.tell_if_long()  # before a step of the compiler
        compilation.on_end(None)
    assert announced == [" for float32, once on this machine"] * 2


def test_each_fit_announces_its_compilations(now, announced, monkeypatch):
    compilation = jit._Compilation()
    for fit in (1, 2, 2):
        monkeypatch.setattr(jit, "newest", lambda fit=fit: fit)
        compilation.on_start(compiling())
        now.seconds += 1.5
        compilation.tell_if_long()
        compilation.on_end(None)
    assert len(announced) == 2


def test_short_compilations_are_not_announced(now, announced):
    compilation = jit._Compilation()
    for start in (0.0, 10.0, 20.0):
        now.seconds = start
        compilation.on_start(compiling())
        now.seconds += 0.9
        compilation.tell_if_long()
        compilation.on_end(None)
    assert not announced


def test_without_a_cache_nothing_is_promised(now, announced, no_cache):
    compilation = jit._Compilation()
    compilation.on_start(compiling(int))
    now.seconds = 2.0
    with pytest.warns(CacheUnavailable):
        compilation.tell_if_long()
    assert announced == [", for this process"]


def test_code_of_others_is_not_announced(now, announced):
    event, compilation = compiling(), jit._Compilation()
    event.data["dispatcher"] = jit.numba.njit(double)
    compilation.on_start(event)
    now.seconds = 2.0
    compilation.tell_if_long()
    assert not announced


def test_the_compiler_tells_between_its_steps(monkeypatch, announced, tmp_path):
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", str(tmp_path))  # an earlier run's is warm
    monkeypatch.setattr(jit, "_LONG", 0.0)
    monkeypatch.setattr(jit._compilation, "_told", False)

    def triple(x):
        return 3.0 * x[0]

    assert jit._dispatcher(triple)(np.ones(1)) == 3.0
    assert announced == [" for float64, once on this machine"]


def test_compiling_takes_nothing_of_the_time_limit(now):
    def compile_for_long(record):
        jit._compilation.on_start(compiling())
        now.seconds += 100.0
        jit._compilation.on_end(None)

    problem = Problem(Multiclass(3), 2.0 * np.eye(3) - 1.0, np.arange(3))
    result = solve(problem, tol=1e-6, time_limit=1.0, callbacks=[compile_for_long], random_state=0)
    certificate = result.certificate
    assert certificate.status is Status.CONVERGED
    assert max(certificate.seconds, result.history[-1].seconds) < 1e-9
    assert certificate.compile_seconds == pytest.approx(100.0 * len(result.history))


# Oracles that cannot be compiled


def undefined_name(data, i, label):
    wrong = label[0] != data[0][i, 0]
    return scale * wrong  # noqa: F821


def mixed_list(data, i, label):
    values = [1.0, "a"]
    return values[label[0]]


def unsupported_function(data, i, label):
    return np.einsum("t,t", label, label)


def plain_function(data, i, label):
    return double(label[0])


def unsupported_statement(data, i, label):
    with open("file") as file:
        return len(file.read())


def too_few_parameters(data, label):
    return 1.0


def method(self, data, i, label):
    return 1.0


def returns_nothing(data, i, label):
    label.sum()


def returns_an_array(data, i, label):
    return label != data[0][i]


@pytest.mark.parametrize(
    ("mistake", "line", "sentence"),
    [
        (undefined_name, 2, "the name scale is not defined"),
        (mixed_list, 2, "Cannot __getitem__ on a literal list"),
        (unsupported_function, 1, "unsupported NumPy function 'numpy.einsum'"),
        (plain_function, 1, "double is a Python function: decorate it with numba.njit"),
        (unsupported_statement, 0, "'with (context manager) as (variable):'"),
        (too_few_parameters, 0, "2 parameters (data, label), and is called with 3 arguments"),
        (method, 0, "parameter self: make it a static method"),
        (returns_nothing, 0, "it returns nothing, and must return a number"),
        (returns_an_array, 0, "it returns a value of type array(bool, 1d, C), and must return a"),
    ],
)
def test_a_mistake_in_an_oracle_is_explained(mistake, line, sentence):
    # As if it were written in the class.
    mistake.__qualname__ = "Mistaken.loss"
    structure = type("Mistaken", (CompiledTags,), {"loss": staticmethod(mistake)})(3)
    X, y = STRUCTURES["tags-compiled"].data(np.arange(4))
    data = Problem(structure, X, y).data
    with pytest.raises(InvalidStructure) as caught:
        data.kernel(make_prediction_losses)(
            data.blocks.data, data.blocks.offsets, data.blocks.truth, np.empty(4)
        )
    place = f"({__file__}, line {mistake.__code__.co_firstlineno + line})"
    assert str(caught.value).startswith(f"Mistaken.loss cannot be compiled {place}: ")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert type(caught.value.__cause__).__module__ == "numba.core.errors"


def index_that_is_an_array(data, i, label, each):
    return part(each, label, 1.0)


def part_without_amount(data, i, label, each):
    return part(each, label[0])


def parts_of_python(data, i, label, each):
    return sum(part(each, a, bit) for a, bit in enumerate(label))


def parts_without_sum(data, i, label, each):
    for a in range(label.shape[0]):
        part(each, a, label[a])


def pull_by_matrix(data, i, w, work):
    work[:2] = np.einsum("ij,j", data[2], w)


def pull_without_work(data, i, w):
    return w[:2]


def push_by_name(data, i, statistics, w):
    w[0] += features[0] * statistics[0]  # noqa: F821


def push_with_scale(data, i, statistics, scale, w):
    w[0] += scale * statistics[0]


def spread_of_dictionary(data, i, mean, statistics):
    for potential, share in data["shares"]:
        statistics[potential] += share


def mean_loss_of_nothing(data, i, mean):
    mean.sum()


@pytest.mark.parametrize(
    ("name", "mistake", "line", "sentence"),
    [
        ("parts", index_that_is_an_array, 1, "part is called with 3 arguments (Extent("),
        ("parts", part_without_amount, 1, "part is called with 2 arguments (Extent("),
        ("parts", parts_of_python, 1, "The use of yield in a closure is unsupported"),
        ("parts", parts_without_sum, 0, "it returns nothing, and must return a number"),
        ("pull", pull_by_matrix, 1, "unsupported NumPy function 'numpy.einsum'"),
        ("pull", pull_without_work, 0, "3 parameters (data, i, w), and is called with 4"),
        ("push", push_by_name, 1, "the name features is not defined"),
        ("push", push_with_scale, 0, "(data, i, statistics, scale, w), and is called with 4"),
        ("spread", spread_of_dictionary, 1, "getitem"),
        ("mean_loss", mean_loss_of_nothing, 0, "it returns nothing, and must return a number"),
    ],
)
def test_a_mistake_in_another_oracle_is_explained(name, mistake, line, sentence):
    mistake.__qualname__ = f"Mistaken.{name}"
    kind = Multiclass if name in EXPECTATION else MappedTags
    structure = type("Mistaken", (kind,), {name: staticmethod(mistake)})(3)
    X, y = STRUCTURES["tags-mapped"].data(np.arange(4))
    with pytest.raises(InvalidStructure) as caught:
        check_structure(structure, X, np.arange(4) % 3 if kind is Multiclass else y)
    place = f"({__file__}, line {mistake.__code__.co_firstlineno + line})"
    assert str(caught.value).startswith(f"Mistaken.{name} cannot be compiled {place}: ")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_data_that_compiled_code_cannot_read_are_explained():
    class Mistaken(CompiledTags):
        def encode(self, X, y=None):
            blocks = super().encode(X, y)
            return replace(blocks, data=({"truth": y}, *blocks.data[1:]))

    X, y = STRUCTURES["tags-compiled"].data(np.arange(4))
    problem = Problem(Mistaken(3), X, y)
    with pytest.raises(InvalidStructure, match="let encode return a tuple of arrays"):
        problem.primal(np.zeros(problem.n_features))


def test_errors_of_the_library_itself_stay_what_they_are():
    data = Problem(Multiclass(3), np.eye(3), np.arange(3)).data
    with pytest.raises(jit.NumbaError):
        data.kernel(make_prediction_losses)(None, None, None, np.empty(3))


def test_versions_of_numba_that_were_not_tried_compile_by_their_own_means():
    usual = (jit.numba.core.compiler.Compiler,) * 2
    assert linking.compilers("0.60.1") == linking.compilers("0.69.0rc1") == usual
    for version in ("0.61.2", "0.68.1"):
        assert linking.compilers(version) == (whole.WholeCompiler, whole.InsideCompiler)


def test_helpers_cannot_be_called_from_python():
    with pytest.raises(TypeError, match="inner is called by compiled functions alone"):
        jit.helper(inner)(1.0)


def test_without_compiling_nothing_works(environment):
    answer = subprocess.run(
        [sys.executable, "-c", "import taut; taut.BinarySVM"],
        env=environment | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert "NUMBA_DISABLE_JIT is set" in answer.stderr
