# The same stages as .ci/run, one by one, in the environment that is active.
PYTHON ?= python

.PHONY: check test bench bench-tuner bench-peers bench-tuned bench-peers-suites docs fuzz

check:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	lint-imports

test:
	$(PYTHON) -m pytest

bench:
	$(PYTHON) -m bench

# Every bench of the tuner; a bound that is not kept does not keep the others from running, but make fails at the end.
KILLS ?= 200
bench-tuner:
	failed=0; \
	for bench in "bench tuner" "bench.database" "bench.search" "bench.log_faults" "bench.tuner_faults --kills $(KILLS)"; do \
	    echo "== $$bench"; $(PYTHON) -m $$bench || failed=1; \
	done; exit $$failed

# Beside every peer that is installed (the extra `peers`): the comparison and its page; and the same workloads as pytest-benchmark suites.
BUDGET ?= 25
bench-peers:
	$(PYTHON) -m bench.peers --budget $(BUDGET)
	$(PYTHON) -m bench.peers.page

# The same with a named subset tuned before: some 17 searches of at most SEARCH seconds each.
SEARCH ?= 600
TUNED ?= out/tuned
bench-tuned:
	$(PYTHON) -m bench.peers.tuning $(TUNED) --budget $(SEARCH)
	TENSORLANG_BENCH_DATABASE=$(TUNED) $(MAKE) bench-peers

SUITES ?= bench/peers
bench-peers-suites:
	$(PYTHON) -m pytest $(SUITES) -o python_files='bench_*.py' --benchmark-enable --benchmark-columns=min,median,rounds

docs:
	$(PYTHON) -m docs.make_errors
	$(PYTHON) -m pytest tests/test_readme.py

CASES ?= 2000
SEED ?= 0
fuzz:
	$(PYTHON) -m tests.fuzz.run --cases $(CASES) --seed $(SEED) --workers 2
