# Everything runs in .venv inside the checkout; nothing is installed globally.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
LOCK   := requirements/dev.txt
UV      = VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv

.DEFAULT_GOAL := help
.PHONY: help setup lock demo test test-matrix test-frameworks install-check test-collector lint bench backends collector clean

help:           ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1	\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: $(STAMP) ## make .venv with the locked development packages

$(STAMP): $(LOCK) pyproject.toml instrumentation/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.10 or newer is needed, this is %d.%d; try: make PYTHON=/path/to/python3" % sys.version_info[:2] if sys.version_info < (3, 10) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@echo "installing the development packages into $(VENV)"
	@$(UV) pip install --quiet -r $(LOCK) -e . -e instrumentation
	@touch $@

lock: $(STAMP)  ## resolve requirements/dev.txt anew
	@$(UV) pip compile --quiet --upgrade --universal --python-version 3.10 --no-header --no-annotate \
		--no-emit-index-url --group dev --all-extras pyproject.toml -o $(LOCK)

demo: $(STAMP)  ## three questions, first silent, then declared; UI=1 shows them on a local page
ifdef UI
	@$(BIN)/acrux-otel up -- $(BIN)/python examples/report_a_tool_failure.py
else
	@$(BIN)/python examples/report_a_tool_failure.py
endif
	@echo "Several tools in one turn, one of which needs another: $(BIN)/python examples/parallel_tools.py"

test: $(STAMP)  ## the test suite; ARGS="-k name" for a part of it
	@$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

test-matrix: $(STAMP) ## the core's tests on the oldest and newest Python and SDK that are supported
	@$(BIN)/python tests/matrix.py

test-frameworks: $(STAMP) ## the instrumentations on the oldest and newest version of each framework
	@$(BIN)/python tests/frameworks/run_matrix.py $(ARGS)

test-collector: $(STAMP) ## the collector's tests with the long ones: fuzzing, vet, a load (needs Go and prometheus)
	@ACRUX_OTEL_THOROUGH=1 ACRUX_OTEL_REQUIRE_BACKENDS=1 $(BIN)/python -m pytest tests/collector $(ARGS)

install-check: $(STAMP) ## build the wheels and install them in clean environments
	@$(BIN)/python tests/install_check.py

lint: $(STAMP)  ## ruff, strict mypy, the typing test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy --strict tests/typing
	@$(BIN)/pyright --pythonpath $(BIN)/python tests/typing

bench: $(STAMP) ## ratios against bare OpenTelemetry, written to benchmarks/README.md
	@$(BIN)/python benchmarks/run.py
	@$(BIN)/python benchmarks/framework_overhead.py
	@$(BIN)/python benchmarks/catalog_sync.py

backends: $(STAMP) ## build the Jaeger and the collector that the end-to-end tests use (needs Go)
	@$(BIN)/python collector-config/build_backends.py

collector: $(STAMP) ## build the collector alone, acrux-otelcol, and say where it is (needs Go)
	@$(BIN)/python collector-config/build_backends.py collector

clean:          ## remove what the targets above made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
