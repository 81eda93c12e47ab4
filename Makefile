# Two commands matter to a newcomer: `make run` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help setup neural run test stack soak lint format bench mutants lock system clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

setup: $(STAMP) ## an isolated environment in .venv, exactly as locked

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fkd needs Python 3.11 or newer; name one by `make PYTHON=python3.12 setup`")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# The lock is complete: --no-deps keeps an old pip from resolving what is already decided.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

neural: setup ## PyTorch (CPU build where the index has one) with the packages of the optional methods
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-neural.lock

run: setup ## the default experiment: data, trials, champion, report
	@$(BIN)/fkd run

# One BLAS thread each, because two files of tests run at a time.
test: setup ## the tests, but for those with whole stacks of processes
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m "not stack and not slow and not network" -n 2 --dist loadfile --durations 15

stack: setup ## servers, kills, schedules: one quick instance of every fault, with real processes
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m "stack and not slow and not network" -n 2 --dist loadfile --durations 15

soak: setup ## the long, repeated fault tests (at most 40 minutes)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -n 2 --dist loadfile --timeout 2400

lint: setup ## ruff, ruff format, mypy strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## the benchmarks; ratios of one run into benchmarks/results/
	$(BIN)/python -m benchmarks

mutants: setup ## faults on purpose, each of which a test must notice; writes docs/mutants.md (at most 40 minutes)
	$(BIN)/python -m mutants

lock: setup ## renew requirements.lock from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
	  --extra dev --upgrade pyproject.toml -o requirements.lock

system: ## Debian's chromium and PostgreSQL, which some tests drive (root)
	bash .ci/system-packages

clean: ## remove the environment; results in FKD_HOME stay
	rm -rf $(VENV)
