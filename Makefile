# Development tasks; `make` lists them. Needs Python 3.11 or newer, choose one with PYTHON=python3.12 make test.

VENV ?= .venv
# An environment that exists keeps its interpreter unless PYTHON names another.
PYTHON ?= $(firstword $(wildcard $(VENV)/bin/python) python3)
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Stamps: the environment of one Python version; the package with its dependencies; the same with the development tools.
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
CREATED := $(VENV)/.python-$(VERSION)
PACKAGE := $(VENV)/.package
TOOLS := $(VENV)/.tools
# What an installation copies: dependencies and entry points, and the version.
INSTALLED := pyproject.toml shufflesim/_version.py

BENCHMARKS := $(sort $(wildcard benchmarks/[a-z]*.py))

.DEFAULT_GOAL := help
.PHONY: help demo test check format docs bench setup clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(PACKAGE)  ## run the main job on the bundled data and print where the results are
	$(BIN)/shufflesim demo

test: $(TOOLS)  ## run the whole test suite, doctests included, with coverage
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term:skip-covered

check: $(TOOLS)  ## lint, formatting, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

format: $(TOOLS)  ## format the code and fix what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(TOOLS)  ## build the documentation site; a warning is an error
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -d docs/_build/doctrees -c docs . docs/_build/html
	@echo "The site is docs/_build/html/index.html"

bench: $(TOOLS)  ## run every script of benchmarks/, one after another
	@set -e; for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python $$script; done

setup: $(TOOLS)  ## create .venv with the package (editable) and the development tools

clean:  ## remove .venv and everything that tools and builds leave behind
	rm -rf $(VENV) build dist *.egg-info .coverage .pytest_cache .hypothesis .mypy_cache .ruff_cache docs/_build docs/generated
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(CREATED):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "shufflesim needs Python 3.11 or newer, got $(PYTHON) $(or $(VERSION),(does not run)): choose with PYTHON=python3.12 make" >&2; exit 1; }
	$(PYTHON) -m venv $(if $(wildcard $(VENV)/.python-*),--clear )$(VENV)
	@touch $@

$(PACKAGE): $(CREATED) $(INSTALLED)
	@echo "Installing shufflesim into $(VENV)"
	@$(PIP) install --editable .
	@touch $@

# After the package, never beside it: two installers in one environment would collide under make -j.
$(TOOLS): $(PACKAGE)
	@echo "Installing the development tools into $(VENV)"
	@$(PIP) install --editable '.[dev]'
	@touch $@
