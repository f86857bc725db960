# make run | test | check | system.  Everything a fresh machine needs; see README.md.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := $(shell if command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1; then echo requirements/cuda.txt; else echo requirements/cpu.txt; fi)
STAMP := $(VENV)/.installed-$(notdir $(LOCK))
RECIPE ?= recipes/pro.yaml
# what `make check` runs: the parts without boxes, engines, processes and databases
QUICK := tests/mimo/test_records.py tests/mimo/algo tests/mimo/recipe tests/mimo/graders tests/recipes \
	tests/mimo/rollouts/test_signal.py tests/mimo/rollouts/test_rates.py

.PHONY: run test check lint system packages clean-venv
run: $(STAMP)
	$(BIN)/mimo run $(RECIPE) $(ARGS)

test: $(STAMP)
	tests/run_all

check: $(STAMP) lint
	$(BIN)/pytest -q -m "not engine and not docker and not gpu and not slow" -n 2 $(QUICK)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

packages:
	@requirements/check-system

system:
	requirements/install-system

$(STAMP): $(LOCK) setup.cfg pyproject.toml requirements/install-venv | packages
	requirements/install-venv $(PYTHON) $(VENV) $(LOCK)
	touch $@
