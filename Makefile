# Every target sets up what it needs; see scripts/set_up.py.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help set-up bench test check test-gpu wheel clean

help:
	@echo "make bench     compare codecs between two processes on this machine, on real tensors"
	@echo "make test      format, lint, types and all tests"
	@echo "make check     format, lint and types alone"
	@echo "make test-gpu  the tests that need a GPU"
	@echo "make wheel     build the wheel into dist/"
	@echo "make clean     remove what the targets above made, results/ excepted"

set-up:
	@$(PYTHON) scripts/set_up.py

bench: set-up
	@$(BIN)/wirezip bench quick

check: set-up
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: check
	$(BIN)/pytest -n 2 --dist worksteal -q

test-gpu: set-up
	$(BIN)/pytest -q -m gpu

wheel: set-up
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
