# The same stages as .ci/run, one by one, in the environment that is active.
PYTHON ?= python

.PHONY: check test bench docs fuzz

check:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	lint-imports

test:
	$(PYTHON) -m pytest

bench:
	$(PYTHON) -m bench

docs:
	$(PYTHON) -m docs.make_errors
	$(PYTHON) -m pytest tests/test_readme.py

CASES ?= 2000
SEED ?= 0
fuzz:
	$(PYTHON) -m tests.fuzz.run --cases $(CASES) --seed $(SEED) --workers 2
