# Two commands do everything on a machine with Python >= 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.dpone-installed
OLDER_AIRFLOW := .venv-airflow-2.11 .venv-airflow-3.1
PYTEST_ARGS ?=
WORKERS ?= 2
# A module stays with one worker, for its fixtures; in the order of the folders the long ones come first.
SPREAD := --dist loadfile --no-loadscope-reorder
# make test-full SHARD=3/8 LEDGER=DIRECTORY: one part of the matrix, and where to keep how it ended
SHARD ?=
LEDGER ?=
# make soak SEED=7 ITERATIONS=500 MINUTES=60 ONLY=duckdb
SEED ?=
ITERATIONS ?= 500
MINUTES ?= 60
ONLY ?=

# Tests, demo and pods start thousands of processes: what one compiled the next need not.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo airflow screenshots test test-full outcomes soak check schemas docs bench lock clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 14

install: $(STAMP) ## create .venv with the pinned requirements

$(STAMP): requirements/dev.txt pyproject.toml
	@echo "installing the pinned requirements into $(VENV): once, for a few minutes"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -r requirements/dev.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

.venv-airflow-%/.installed: requirements/airflow-%.txt $(STAMP)
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(BIN)/uv pip install --quiet --python $(@D)/bin/python -r $<
	@touch $@

demo: $(STAMP) ## the main job end to end: CLI load, run-spec, real Airflow tasks, outcome gate
	@$(BIN)/python examples/flights/demo.py

airflow: $(STAMP) ## the demo in Airflow's own pages at 127.0.0.1 until Ctrl-C; PORT=N, POSTGRES=URI for mapped pods
	@$(BIN)/python examples/flights/airflow_up.py $(if $(PORT),--port $(PORT)) $(if $(POSTGRES),--postgres "$(POSTGRES)")

test: $(STAMP) ## the quick suite
	@$(BIN)/python -m pytest -q -n $(WORKERS) $(SPREAD) -m "not slow" $(PYTEST_ARGS)

test-full: $(STAMP) $(OLDER_AIRFLOW:%=%/.installed) ## the whole matrix, older Airflow in environments of their own included
	@$(BIN)/python -m pytest -q -n $(WORKERS) $(SPREAD) $(if $(SHARD),--shard=$(SHARD)) $(if $(LEDGER),"--ledger=$(LEDGER)") $(PYTEST_ARGS)

outcomes: $(STAMP) ## every way in which a pod ends, in the worker and deferred: what Airflow and the gate then say
	@$(BIN)/python -m pytest -q -m slow tests/airflow/provider/test_kpo_matrix.py

soak: $(STAMP) ## seeded runs under kills, cuts, rivals, moved clocks and full disks; SEED=N, ITERATIONS=N, MINUTES=N, ONLY=WORD
	@$(BIN)/python -m tests.soak $(if $(SEED),--seed $(SEED)) --iterations $(ITERATIONS) --minutes $(MINUTES) "--only=$(ONLY)"

check: $(STAMP) ## lint, types, architecture, sizes, schema and docs drift
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check -q .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo --no-cache
	@$(BIN)/python tools/fitness.py --check
	@$(BIN)/python -m dpone_core.manifest.schema --check schemas
	@$(BIN)/python docs/generate.py --check

schemas: $(STAMP) ## regenerate schemas/ from the authoring models
	@$(BIN)/python -m dpone_core.manifest.schema --write schemas

docs: $(STAMP) ## regenerate docs/reference
	@$(BIN)/python docs/generate.py --write

screenshots: $(STAMP) ## retake docs/images; needs chromium and a running `make airflow`
	@$(BIN)/python docs/screenshots.py

bench: $(STAMP) ## whole processes side by side; prints ratios
	@$(BIN)/python benchmarks/bench.py

lock: ## compile the pinned requirement files
	@$(BIN)/uv pip compile -q requirements/dev.in -o requirements/dev.txt --python-version 3.11 --no-emit-index-url --no-header
	@$(BIN)/uv pip compile -q requirements/airflow-2.11.in -o requirements/airflow-2.11.txt --python-version 3.11 --no-emit-index-url --no-header
	@$(BIN)/uv pip compile -q requirements/airflow-3.1.in -o requirements/airflow-3.1.txt --python-version 3.11 --no-emit-index-url --no-header

clean: ## remove everything the targets above made
	@rm -rf $(VENV) $(OLDER_AIRFLOW) .dpone .demo .airflow build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
