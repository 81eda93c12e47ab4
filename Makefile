# Two commands matter to a newcomer: `make run` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# A lock is complete: --no-deps keeps an old pip from resolving what is already decided.
LOCKED := $(PIP) --no-deps --require-hashes -r
STAMP := $(VENV)/.installed
DEV := $(VENV)/.installed-dev

# Several targets install into one environment.
.NOTPARALLEL:
.PHONY: help setup dev deploy-packages neural run test test-optional stack fullstack slurm soak lint format bench bench-scale mutants wheels resolve docs lock audit system clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

setup: $(STAMP) ## an environment in .venv with what running needs, exactly as locked

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fkd needs Python 3.11 or newer; name one by `make PYTHON=python3.12 setup`")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(LOCKED) requirements.lock
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

dev: $(DEV) ## the same with what tests, linters and benchmarks need

$(DEV): $(STAMP) requirements-dev.lock
	$(LOCKED) requirements-dev.lock
	@touch $@

deploy-packages: setup ## the packages of a team's servers and clusters: S3, PostgreSQL, SLURM, Kubernetes
	$(LOCKED) requirements-deploy.lock

neural: setup ## PyTorch, numba and the packages of the optional methods
	$(LOCKED) requirements-neural.lock
	@# The Linux build of torch that indexes usually have needs CUDA libraries. Where pip finds a CPU build, it is taken.
	@if $(BIN)/python -m pip install --quiet --disable-pip-version-check --dry-run --ignore-installed --no-deps --report - $$($(NEEDS) neural) | grep -q '+cpu'; \
	  then $(LOCKED) requirements-torch-cpu.lock; else $(LOCKED) requirements-torch.lock; fi

run: setup ## the default experiment: data, trials, champion, report
	@$(BIN)/fkd run

# One BLAS thread each, because two files of tests run at a time.
QUICK := not stack and not slow and not network and not fullstack and not slurm
test: dev ## the tests, but for those with whole stacks of processes
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m "$(QUICK)" -n 2 --dist loadfile --durations 15

test-optional: dev ## only the tests that `make test` skips without `make neural` and `make system`
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m "needs and $(QUICK)" -n 2 --dist loadfile --durations 15

stack: dev ## servers, kills, schedules: one quick instance of every fault, with real processes
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m "stack and not slow and not network" -n 2 --dist loadfile --durations 15

# Debian's slurmctld, slurmd, slurm-client and munge: `bash .ci/system-packages slurm` installs them.
slurm: dev ## sweeps in the queue of a real SLURM that the tests start on loopback (root)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m slurm --durations 15

fullstack: dev ## sweeps through the commands of compose.yaml as processes: passwords, TLS, S3, kills (some minutes)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m fullstack --durations 15 --timeout 2400

soak: dev ## the long, repeated fault tests (at most 40 minutes)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -n 2 --dist loadfile --timeout 2400

lint: dev ## ruff, ruff format, mypy strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: dev ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: dev ## the benchmarks; ratios of one run into benchmarks/results/
	$(BIN)/python -m benchmarks

bench-scale: dev neural ## a pass over 1.66 million rows, a whole run, measures of as many; makes the table first (half an hour)
	$(BIN)/python -m benchmarks streaming scale_run measures

mutants: dev ## mutation tests of the numerical core: semantic mutants, then a sample of 300 by mutmut (half an hour)
	$(PIP) $$($(NEEDS) mutation)
	$(BIN)/python -m tools.mutation semantic
	$(BIN)/python -m tools.mutation sample

wheels: dev ## the application and the library, built, each tried in an empty environment
	$(BIN)/python -m tools.wheels

# Resolved, not run: it tells whether an install would find packages there, no more.
resolve: dev ## can both be installed under Python 3.12 to 3.14?
	@for version in 3.12 3.13 3.14; do for project in tools/library/pyproject.toml pyproject.toml; do \
	  $(BIN)/uv pip compile --quiet --python-version $$version $$project -o $(VENV)/resolved.txt && \
	  echo "$$project resolves under Python $$version" || exit 1; done; done

docs: dev neural ## the site into build/site: examples run, every internal link followed (no network once installed)
	$(LOCKED) requirements-docs.lock
	@# Anew each time: what an example draws depends on the library, not on its own text alone.
	@rm -rf build/site docs/api/generated docs/gallery
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -E -d build/doctrees docs build/site
	$(BIN)/python docs/links.py build/site

COMPILE = $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 $(UPGRADE)
UPGRADE ?= --upgrade
# The requirements of these extras and groups alone, without those of the project itself.
NEEDS = $(BIN)/python -c 'import sys, tomllib; p = tomllib.load(open("pyproject.toml", "rb")); e = p["dependency-groups"] | p["project"]["optional-dependencies"]; print("\n".join(line for name in sys.argv[1:] for line in e[name]))'

lock: dev ## renew all lock files from pyproject.toml; `make lock UPGRADE=` keeps versions that still fit
	$(COMPILE) --group editable pyproject.toml -o requirements.lock
	$(COMPILE) --group editable --extra dev --constraint requirements.lock pyproject.toml -o requirements-dev.lock
	$(NEEDS) deploy | $(COMPILE) --constraint requirements-dev.lock - -o requirements-deploy.lock
	$(NEEDS) docs | $(COMPILE) --constraint requirements-dev.lock - -o requirements-docs.lock
	@mkdir -p build && cat requirements-neural.lock requirements-torch.lock >build/neural.lock
	$(NEEDS) neural erasure fast oracles | $(COMPILE) --constraint requirements-dev.lock - -o build/neural.lock
	@awk '/^[a-z]/ { torch = /^(torch|cuda|nvidia|triton)/ } { print > (torch ? "requirements-torch.lock" : "requirements-neural.lock") }' build/neural.lock
	@# uv does not see a CPU build that pip finds. If there is one, its hash is renewed.
	@rm -rf build/torch
	$(BIN)/python -m pip download --quiet --no-deps --dest build/torch $$($(NEEDS) neural)
	@if ls build/torch/*+cpu*.whl >/dev/null 2>&1; then \
	  echo "$$($(NEEDS) neural) --hash=sha256:$$(sha256sum build/torch/*.whl | cut -d' ' -f1)" >requirements-torch-cpu.lock; fi

# --strict: a release whose advisories cannot be asked for counts as a fault, or nothing asked would pass for clean.
audit: dev ## known vulnerabilities of the packages in requirements-dev.lock (asks PyPI)
	$(BIN)/uv tool run pip-audit --strict --disable-pip --require-hashes -r requirements-dev.lock

system: ## Debian's chromium and PostgreSQL, which some tests drive (root)
	bash .ci/system-packages

clean: ## remove the environment; results in FKD_HOME stay
	rm -rf $(VENV)
