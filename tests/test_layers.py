"""Imports go one way, importing is cheap, and the library does not print."""

import ast
import operator
import subprocess
import sys
from pathlib import Path

import pytest

import taut

PACKAGE = Path(taut.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))

# A folder, or a module of the root, may import from the rows above its own, and from itself;
# `taut` itself is lazy.
LAYERS = [
    ["errors"],
    ["checks", "console"],
    ["compiled"],
    ["storage"],
    ["data", "result"],
    ["features", "readers", "vision"],
    ["kernels", "metrics"],
    ["spaces"],
    ["inference"],
    ["structures"],
    ["binding"],
    ["problem", "sampling"],
    ["duals", "streamed"],
    ["engines"],
    ["solvers"],
    ["training"],
    ["solving"],
    ["latent", "explanations"],
    ["estimators"],
    ["certification", "exports", "paths"],
    ["report"],
    ["cli"],
    ["__main__"],
]
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}


def part_of(source):
    return source.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(source):
    """Parts of the package that a file imports, wherever in the file it does."""
    folder = source.relative_to(PACKAGE.parent).parent.parts
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(folder[: len(folder) + 1 - node.level]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            head, *rest = name.split(".")
            if head == "taut":
                yield rest[0] if rest else "taut"


@pytest.mark.parametrize(
    "source", [s for s in SOURCES if s != PACKAGE / "__init__.py"], ids=lambda s: s.stem
)
def test_imports_go_one_way(source):
    part = part_of(source)
    assert part in LEVEL, f"give {part} a place in LAYERS"
    for other in imported_parts(source):
        assert other in LEVEL, f"{source.name} imports {other} from the lazy package"
        assert other == part or LEVEL[other] < LEVEL[part], f"{part} imports {other}"


def test_solvers_and_structures_do_not_know_each_other():
    for source in SOURCES:
        if part_of(source) in ("duals", "engines", "solvers"):
            assert "structures" not in imported_parts(source), source.name


def test_nothing_is_built_on_baselines():
    baselines = PACKAGE / "solvers" / "baselines"
    for source in SOURCES:
        if source.parent != baselines and source != PACKAGE / "solvers" / "__init__.py":
            assert "baselines" not in source.read_text(), source.name


def test_importing_is_cheap(environment):
    code = "import sys, taut; print(*sorted(m.partition('.')[0] for m in sys.modules))"
    answer = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    loaded = set(answer.stdout.split())
    assert "taut" in loaded
    assert not loaded & {"numba", "sklearn", "scipy", "numpy", "rich", "safetensors", "matplotlib"}


def test_importing_everything_compiles_nothing(environment):
    code = """
import taut
from numba.core import event
with event.install_recorder("numba:run_pass") as recorder:
    for name in taut.__all__:
        getattr(taut, name)
print(len(recorder.buffer))
"""
    answer = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert answer.stdout == "0\n"


def test_public_names_are_there():
    assert sorted(taut.__all__) == taut.__all__
    assert set(taut.__all__) <= set(dir(taut))
    for name in taut.__all__:
        assert getattr(taut, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        operator.attrgetter("nothing")(taut)


@pytest.mark.parametrize(
    "source", [s for s in SOURCES if part_of(s) != "cli"], ids=lambda s: s.stem
)
def test_nothing_is_printed(source):
    calls = [node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Call)]
    assert not [call.lineno for call in calls if getattr(call.func, "id", "") == "print"]
