# Two commands matter to a newcomer: `make run` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help setup neural run test stack fullstack slurm soak lint format bench bench-scale mutants wheels resolve docs lock audit system clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

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
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m "not stack and not slow and not network and not fullstack and not slurm" -n 2 --dist loadfile --durations 15

stack: setup ## servers, kills, schedules: one quick instance of every fault, with real processes
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m "stack and not slow and not network" -n 2 --dist loadfile --durations 15

# Debian's slurmctld, slurmd, slurm-client and munge: `bash .ci/system-packages slurm` installs them.
slurm: setup ## sweeps in the queue of a real SLURM that the tests start on loopback (root)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m slurm --durations 15

fullstack: setup ## a sweep through everything that `fkd up` starts: passwords, TLS, S3, kills (some minutes)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m fullstack --durations 15 --timeout 2400

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

bench-scale: setup ## a pass over 1.66 million rows, a whole run, measures of as many; makes the table first (half an hour)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check numba
	$(BIN)/python -m benchmarks streaming scale_run measures

mutants: setup ## faults on purpose, each of which a test must notice; writes docs/mutants.md (at most 40 minutes)
	$(BIN)/python -m mutants

wheels: setup ## the application and the library, built, each tried in an empty environment
	$(BIN)/python -m wheels

# Resolved, not run: it tells whether an install would find packages there, no more.
resolve: setup ## can both be installed under Python 3.12 to 3.14?
	@for version in 3.12 3.13 3.14; do for project in library/pyproject.toml pyproject.toml; do \
	  $(BIN)/uv pip compile --quiet --python-version $$version $$project -o $(VENV)/resolved.txt && \
	  echo "$$project resolves under Python $$version" || exit 1; done; done

docs: setup neural ## the site into build/site: examples run, every internal link followed (no network once installed)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-docs.lock
	@# Anew each time: what an example draws depends on the library, not on its own text alone.
	@rm -rf build/site docs/api/generated docs/gallery
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -E -d build/doctrees docs build/site
	$(BIN)/python docs/links.py build/site

lock: setup ## renew requirements.lock and requirements-docs.lock from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
	  --extra dev --upgrade pyproject.toml -o requirements.lock
	@# What the site needs beyond that, in versions that fit it: `make setup` stays without it.
	$(BIN)/python -c 'import tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; print("\n".join(extras["docs"]))' | \
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
	  --constraint requirements.lock --upgrade - -o requirements-docs.lock

# --strict: a release whose advisories cannot be asked for counts as a fault, or nothing asked would pass for clean.
audit: setup ## known vulnerabilities of every locked package (asks PyPI)
	$(BIN)/uv tool run pip-audit --strict --disable-pip --require-hashes -r requirements.lock

system: ## Debian's chromium and PostgreSQL, which some tests drive (root)
	bash .ci/system-packages

clean: ## remove the environment; results in FKD_HOME stay
	rm -rf $(VENV)
