# Everything a person does with this project; `make` alone lists it.
# The first call of any target makes .venv and installs the pinned requirements, later calls go straight on.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
#: Processes that run the tests; 2 fits the smallest machine the project is tested on.
TEST_PROCESSES ?= 2
#: A file's tests run in one process and share what it starts; the slow ones come first.
PYTEST := $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder
#: The other queues that `make bench` measures, each set in an environment of its own: nothing else needs them.
PEERS := .venv-bench
PEER_STAMPS := $(PEERS)/bench/.installed $(PEERS)/bench-redis5/.installed
#: Anything makes `make bench` measure less.
QUICK ?=
#: Port of the rail that `make run` simulates when no other is named.
RAIL_PORT ?= 8099
#: Arguments for the demo and the benchmarks, for example ARGS=--kill-worker-after=200.
ARGS ?=
#: What `make chaos` runs: how long, from which seed, on which broker; FULL=1 kills at every point with every pool first.
SECONDS ?= 60
SEED ?= 1
BROKER ?= redis
FULL ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo run test check bench chaos fmt lint types arch docs lock

help: ## List the targets
	@awk -F ':[^#]*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## Make .venv and install everything (every other target does it too)
	@echo "$(VENV) is ready."

demo: $(STAMP) ## Start the whole stack, settle and deliver the example files, show that the numbers add up, stop
	@$(BIN)/python -m worker.demo $(ARGS)

run: $(STAMP) ## Start the same stack and keep it running until Ctrl-C; without CHIO_RAIL_URL a simulated rail settles
	@mkdir -p .chio
	@cp Procfile .chio/Procfile
	@export PATH="$(CURDIR)/$(BIN):$$PATH"; \
	if [ -z "$$CHIO_RAIL_URL" ] && ! grep -qs '^CHIO_RAIL_URL=.' .env; then \
		echo 'rail: exec chio-worker simulate rail --port $(RAIL_PORT)' >> .chio/Procfile; \
		export CHIO_RAIL_URL=http://127.0.0.1:$(RAIL_PORT)/settle; \
	fi; \
	exec honcho --procfile .chio/Procfile --app-root . start

test: $(STAMP) ## Run every test that can run here
	@$(PYTEST) $(ARGS)

check: lint types arch ## Run what CI runs: lint, format, types, layers, and all tests that need no container
	@$(PYTEST) -m "not containers" $(ARGS)

bench: $(STAMP) $(PEER_STAMPS) ## Measure against other queues, side by side; QUICK=1 takes minutes instead of hours
	@$(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(ARGS)

chaos: $(STAMP) ## Put a deployment under fire and judge it: SECONDS=60 SEED=1 BROKER=redis|rabbitmq FULL=1
	@$(if $(FULL),CHIO_TEST_FULL=1 $(PYTEST) tests/acceptance/test_crash_points.py tests/acceptance/test_crash_points_around.py)
	@$(BIN)/python -m tests.chaos --seconds $(SECONDS) --seed $(SEED) --broker $(BROKER) $(ARGS)

fmt: $(STAMP) ## Format the code and fix what can be fixed by itself
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lint: $(STAMP) ## Check all lint rules and the format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(STAMP) ## Check the types, strictly
	@$(BIN)/mypy

arch: $(STAMP) ## Check that imports point one way
	@$(BIN)/lint-imports

docs: $(STAMP) ## Write the generated pages again
	@$(BIN)/python -m worker.cli.reference
	@$(BIN)/python -m worker.settings_reference
	@$(BIN)/python -c 'from reliability import events; print(events.as_markdown(), end="")' > docs/events.md

lock: $(STAMP) ## Pin the requirements again, with hashes
	@$(BIN)/python -m venv $(VENV)/lock
	@$(VENV)/lock/bin/python -m pip install --quiet uv
	@$(VENV)/lock/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header \
		pyproject.toml --output-file requirements/runtime.txt
	@$(VENV)/lock/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header \
		pyproject.toml --group dev --output-file requirements/dev.txt
	@$(VENV)/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-annotate --no-header --group pyproject.toml:image --output-file requirements/image.txt
	@for peers in bench bench-redis5; do \
		$(VENV)/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
			--no-annotate --no-header --group pyproject.toml:$$peers --output-file requirements/$$peers.txt || exit 1; \
	done

$(PEERS)/%/.installed: requirements/%.txt | $(STAMP)
	@echo "Installing other queues to measure against, once ..."
	@$(BIN)/python -m venv --clear $(PEERS)/$*
	@$(PEERS)/$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "$(PYTHON) is missing or older than Python 3.11; name another one: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -c '' 2>/dev/null || { echo "Making $(VENV), once ..."; $(PYTHON) -m venv --clear $(VENV); }
	@echo "Installing the pinned requirements, once ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
