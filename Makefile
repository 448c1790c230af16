# Two commands to know: `make demo` (set up, then the main job) and `make test` (set up, then the tests).
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
# Idle OpenMP threads that spin cost a factor of ten on a busy machine; this must be set before torch is imported.
export OMP_WAIT_POLICY = PASSIVE
export GOMP_SPINCOUNT  = 0

.PHONY: demo test test-slow check format bench setup clean help

help:           ## list the targets
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: setup     ## collect, train, drive the arm and write a report (about ten minutes on two cores)
	$(BIN)/mgp demo

test: setup     ## the fast tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-slow: setup ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

check: setup    ## formatting, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: setup   ## rewrite the files as `check` wants them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup    ## speed, as ratios against a peer in the same run
	$(BIN)/python -m benchmarks

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 -c constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,dev]' -c constraints.txt
	# for the tests of `mgp serve`; it works with numpy 2, although it says it does not
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps openpi-client -c constraints.txt
	touch $@

clean:          ## remove the virtual environment and caches (data and runs stay)
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache build dist src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
