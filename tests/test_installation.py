"""The wheel in a fresh environment: every command that the README and its page show."""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from taut.cli.exits import Exit
from taut.cli.main import make_parser

ROOT = Path(__file__).parents[1]
README, PAGE = ROOT / "README.md", ROOT / "docs" / "command_line.md"
VERSIONS = ["3.11", "3.12", "3.13", "3.14"]

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^ {4}((?:taut|pip install|eval) .*)$", re.MULTILINE)
_INVOCATION = re.compile(r"\btaut ([a-z][^)|>]*)")
_SUBSTITUTED = re.compile(r"\$\((.*)\)")
_FILE = re.compile(r"(?<!\S)[\w/]+\.[a-z]+(?!\S)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")


def commands_of(page):
    """What a page tells to type into a shell, as far as it is about taut."""
    return _INDENTED.findall(_FENCED.sub("", page.read_text(encoding="utf-8")))


def programs_of(page):
    blocks = _FENCED.findall(page.read_text(encoding="utf-8"))
    return [text for language, text in blocks if language == "python"]


def test_every_command_that_a_page_shows_parses():
    assert commands_of(README)
    lines = [line for page in (README, *ROOT.glob("docs/*.md")) for line in commands_of(page)]
    words = [
        shlex.split(found[1], comments=True)
        for line in lines
        if (found := _INVOCATION.search(line))
    ]
    for each in words:
        assert make_parser(each[:1]).parse_args(each).command == each[0]
    assert {each[0] for each in words} >= {"demo", "train", "predict", "evaluate", "certify"}


# What follows installs, and takes minutes and a network.


def call(*command, **settings):
    """Run a command, of which nothing is found but by the settings."""
    hidden = ("PYTHON", "NUMBA", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    env |= settings.pop("env", {})
    return subprocess.run(
        list(map(str, command)), env=env, capture_output=True, text=True, check=False, **settings
    )


def checked(*command, **settings):
    done = call(*command, **settings)
    assert done.returncode == 0, f"{shlex.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done


def python_of(version):
    """An interpreter of a version that can make environments, or None."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [
        sys.executable,
        shutil.which(f"python{version}"),
        *sorted(pyenv.glob(f"versions/{version}.*/bin/python")),
    ]
    program = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    for candidate in filter(None, candidates):
        # What pyenv puts on the path is there even where it runs nothing.
        done = call(candidate, "-c", program)
        if done.returncode == 0 and done.stdout.strip() == version:
            return candidate
    return None


@dataclass(frozen=True)
class Installation:
    """An environment that has the wheel and what it needs."""

    folder: Path
    wheel: Path

    @property
    def python(self):
        return self.folder / "bin" / "python"

    def shell(self, line, folder, run=checked):
        """Run a line as somebody would who has activated the environment."""
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return run("bash", "-c", line, cwd=folder, env={"PATH": path})

    def install(self, extras=""):
        checked(self.python, "-m", "pip", "install", "--quiet", f"{self.wheel}{extras}")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip"]
    found = call(*pip, "download", "--quiet", "--no-deps", "--dest", folder / "probe", "rich")
    if found.returncode:
        pytest.skip(f"no package index is reachable: {found.stderr.strip()[-300:]}")
    checked(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module", params=VERSIONS)
def installation(request, wheel, tmp_path_factory):
    python = python_of(request.param)
    if python is None:
        pytest.skip(f"there is no Python {request.param} that can make environments")
    made = Installation(tmp_path_factory.mktemp(f"python{request.param}"), wheel)
    checked(python, "-m", "venv", made.folder)
    made.install()
    print(made.shell("python --version; pip list", made.folder).stdout)  # shown with failures
    yield made
    shutil.rmtree(made.folder)  # hundreds of megabytes


SENTENCES = """\
He PRP B-NP
reckons VBZ B-VP
the DT B-NP
deficit NN I-NP
will MD B-VP
narrow VB I-VP

Rates NNS B-NP
fell VBD B-VP
in IN B-PP
May NNP B-NP
. . O

"""


@pytest.fixture
def folder(installation, tmp_path):
    """The files that the pages name: those that their program makes, and others of their kind."""
    checked(installation.python, "-c", programs_of(PAGE)[0], cwd=tmp_path)
    rng = np.random.default_rng(0)
    ages = rng.integers(1, 80, 60).tolist()
    rows = [
        f"{'yes' if age < 40 else 'no'},{('first', 'second')[i % 2]},{age}"
        for i, age in enumerate(ages)
    ]
    (tmp_path / "passengers.csv").write_text("\n".join(["survived,class,age", *rows]) + "\n")
    (tmp_path / "train.conll").write_text(10 * SENTENCES)
    (tmp_path / "chunks.template").write_text("U00:%x[0,0]\nU01:%x[-1,1]/%x[0,1]\nB\n")
    write_photographs(tmp_path / "photographs", rng)
    return tmp_path


def write_photographs(folder, rng):
    """Bright cards before noise, most of them to train on."""
    folder.mkdir()
    listed = []
    for i in range(12):
        image = rng.integers(90, 110, (64, 80, 3), dtype=np.uint8)
        x, y = rng.integers(0, 36, 2).tolist()
        image[y : y + 20, x : x + 30] = 230
        name = f"{i}.ppm"
        (folder / name).write_bytes(b"P6 80 64 255\n" + image.tobytes())
        split = "test" if i % 4 == 3 else "train"
        listed.append(
            f'{{"file": "{name}", "split": "{split}", '
            f'"boxes": [["card", {x}, {y}, {x + 30}, {y + 20}]]}}'
        )
    (folder / "boxes.json").write_text(f"[{', '.join(listed)}]")


@pytest.mark.long
def test_the_wheel_has_every_module_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    files = (path for path in source.rglob("*") if path.suffix in (".py", ".typed"))
    assert packed == {path.relative_to(source).as_posix() for path in files}


@pytest.mark.long
def test_the_wheel_is_what_is_installed(installation, tmp_path):
    place = installation.shell("python -c 'import taut; print(taut.__file__)'", tmp_path).stdout
    assert Path(place).is_relative_to(installation.folder)
    versions = [
        installation.shell(f"{command} --version", tmp_path).stdout
        for command in ("taut", "python -m taut")
    ]
    assert versions[0] == versions[1]
    assert versions[0].split()[1] == installation.wheel.name.split("-")[1]
    installation.shell("python -m pip check", tmp_path)


@pytest.mark.long
def test_the_first_program_prints_what_it_says(installation, tmp_path):
    program = programs_of(README)[0]
    tree, lines = ast.parse(program), program.splitlines()
    said = []
    for place, statement in enumerate(tree.body):
        if isinstance(statement, ast.Expr):
            said.append(lines[statement.end_lineno - 1].partition("  # ")[2])
            tree.body[place] = ast.parse(f"print({ast.unparse(statement)})").body[0]
    printed = installation.shell(f"python -c {shlex.quote(ast.unparse(tree))}", tmp_path).stdout
    figures = [
        (_NUMBER.findall(comment), _NUMBER.findall(output))
        for comment, output in zip(said, printed.splitlines(), strict=True)
        if _NUMBER.search(comment)
    ]
    assert figures
    for expected, found in figures:
        np.testing.assert_allclose(
            np.array(found, float), np.array(expected[: len(found)], float), rtol=0.5
        )


# Before the pages' commands, which install the extra.
@pytest.mark.long
def test_an_extra_that_is_missing_is_named(installation, folder):
    line = "taut train photographs/boxes.json detector.taut"
    done = installation.shell(line, folder, run=call)
    assert done.returncode == Exit.FAILED
    assert "pip install 'taut[vision]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("page", [README, PAGE], ids=lambda page: page.stem)
def test_every_command_runs(page, installation, folder):
    for line in commands_of(page):
        extras = re.fullmatch(r"pip install '?taut(\[\w+\])'?", line)
        if extras:
            installation.install(extras[1])
            continue
        # eval succeeds whatever became of the command that writes for it.
        for each in (*_SUBSTITUTED.findall(line), line):
            done = installation.shell(each, folder)
            assert "warning" not in done.stderr.lower(), f"{each}\n{done.stderr}"
        missing = [name for name in _FILE.findall(line) if not (folder / name).exists()]
        assert not missing, f"{line}: {missing} did not appear"
