# make demo | test | test-long | lint | format | types | bench | wheel | clean
#   PYTHON=python3.12      the interpreter that the virtual environment is made from
#   WORKERS=               tests in one process, as debuggers need it
#   ARGS="-k chain -x"     passed on to pytest, the demo or the benchmarks

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
# A file of tests is one worker's: what it compiles is compiled once.
# In the order of tests/conftest.py, the longest first.
WORKERS ?= --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
BIN := $(VENV)/bin

.DEFAULT_GOAL := test
.PHONY: demo test test-long lint format types bench wheel clean
# Two installations into one environment at a time corrupt it.
.NOTPARALLEL:

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py $(ARGS)

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest $(WORKERS) $(ARGS)

# What `make test` leaves out.
test-long: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m long $(WORKERS) $(ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

bench: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/run.py $(ARGS)

wheel: $(VENV)/.installed
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

clean:
	rm -rf build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# pip, not python, is the target: venv writes it last, so a half-made environment is made again.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "taut needs Python 3.11 or newer, this is " + sys.version.split()[0] + ": make PYTHON=/path/to/python3.11")'
	@$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu install python3-venv" >&2; exit 1; }

$(VENV)/.installed: pyproject.toml | $(BIN)/pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-%: pyproject.toml | $(BIN)/pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	@touch $@ $(VENV)/.installed
