# One command for everything; .ci/run calls the same ones. `make help` lists them.
# Needs: make and Python 3.11+ (PYTHON=python3.12 selects another than python3). All else is fetched by hash.
PYTHON ?= python3
POLICY ?= policies/quickstart.toml
PYTEST_ARGS ?=
LAWS ?=
SECONDS ?= 60
BIN := .venv/bin
RUN := PYTHON='$(PYTHON)' sh scripts/environment.sh run
DEV := PYTHON='$(PYTHON)' sh scripts/environment.sh dev

.DEFAULT_GOAL := help
.PHONY: help run demo env test test-slow test-extra chaos bench fuzz extra-packages check fmt openapi openapi-check docs docs-check lock upgrade clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name text; do printf '%-12s %s\n' "$$name" "$$text"; done

run: ## build .venv from the lock and serve policies/quickstart.toml (POLICY=… for another)
	@$(RUN)
	@exec $(BIN)/fencegate serve $(POLICY)

demo: ## the story in one minute: a stale holder is refused on a file, an object and a row
	@$(RUN)
	@exec $(BIN)/fencegate demo

env: ## .venv with what checks and tests need
	@$(DEV)

test: env ## all tests that need packages from the lock only
	$(BIN)/python -m pytest -n 3 --dist worksteal -m 'not slow and not extra' $(PYTEST_ARGS)

test-slow: env ## long explorations and soaks
	$(BIN)/python -m pytest -m 'slow and not extra' $(PYTEST_ARGS)

test-extra: env extra-packages ## tests against servers and tools from Debian's packages (installs them; needs root)
	$(BIN)/python -m pytest -m extra $(PYTEST_ARGS)

chaos: env ## every fault x store x registry, judged from outside; writes docs/reliability.md (about 25 minutes)
	$(BIN)/python -m tests.chaos --write docs/reliability.md

fuzz: ## look for inputs that break a parser's law (LAWS='head token' SECONDS=600; x86-64)
	@PYTHON='$(PYTHON)' sh scripts/environment.sh fuzz
	.venv-fuzz/bin/python -m tests.fuzz.explore --seconds $(SECONDS) $(LAWS)

bench: env ## what registries are asked and what raises cost; what slow clients cost the others
	$(BIN)/python -m bench.registries
	$(BIN)/python -m bench.slow_clients

extra-packages:
	@sh scripts/extra-packages.sh

check: env openapi-check docs-check ## lint, format, types, import rules, repository laws, OpenAPI drift
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -q tests/tidy

fmt: env ## format, and apply the safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

openapi: env ## write openapi/ from the app
	$(BIN)/python scripts/openapi.py

openapi-check: env
	$(BIN)/python scripts/openapi.py --check

docs: env ## write docs/reference/ from the code
	$(BIN)/python scripts/reference.py

docs-check: env
	$(BIN)/python scripts/reference.py --check

lock: env ## requirements/*.txt from pyproject.toml, keeping pins that still fit
	sh scripts/lock.sh

upgrade: env ## the same, with the newest releases
	sh scripts/lock.sh --upgrade

clean: ## remove .venv and caches (data/ stays: it holds marks)
	rm -rf .venv .venv-fuzz .fuzz .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.* htmlcov dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
