# The same stages as .ci/run, one by one, in the environment that is active.
PYTHON ?= python

.PHONY: check test test-as test-slow test-graphs campaign bench bench-tuner bench-noise bench-lending bench-model bench-peers bench-tuned bench-peers-suites conformance shipped docs site fuzz faults figures-campaign figures-coverage figures-injected figures-files figures-stages bench-models bench-programs

check:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	lint-imports

test:
	$(PYTHON) -m pytest

# What the test command leaves out: the same claims at more places, and real signals, hosts and browsers.
test-slow:
	$(PYTHON) -m pytest -m slow

# As on another CPU, with its instructions and caches: `make test-as CPU=haswell`. Tests of clusters start processes that are not.
CPU ?= haswell
test-as:
	TENSORLANG_TEST_CPU=$(CPU) $(PYTHON) -m pytest --ignore tests/autotune/test_cluster.py

# What the test command skips without torch, onnx and tvm-ffi (the extras of these names): bridges, importers, models.
test-graphs:
	$(PYTHON) -m pytest -m "extras and not slow"

# The node tests of ONNX, beside the list of those that do not pass; needs the extra `onnx`.
conformance:
	$(PYTHON) -m tensorlang.bridges.onnx.conformance

bench:
	$(PYTHON) -m bench

# Every bench of the tuner; a bound that is not kept does not keep the others from running, but make fails at the end.
KILLS ?= 200
bench-tuner:
	failed=0; \
	for bench in "bench tuner" "bench.database" "bench.search" "bench.log_faults" "bench.tuner_faults --kills $(KILLS)"; do \
	    echo "== $$bench"; $(PYTHON) -m $$bench || failed=1; \
	done; exit $$failed

# Verdicts beside busy processes on the measured core; and what a database lends, of logs that are made in LENT.
RUNS ?= 20
bench-noise:
	$(PYTHON) -m bench.noise --runs $(RUNS)

LENT ?= out/lent
PAIRS ?= 200
bench-lending:
	$(PYTHON) -m bench.lending $(LENT) --pairs $(PAIRS)

# Beside every peer that is installed (the extra `peers`): the comparison and its page; and the same workloads as pytest-benchmark suites.
# ISA=x86-64-v3 holds ours and the peers to AVX2, which is another machine where vectors are wider. Each machine has a table of its own.
BUDGET ?= 25
ISA ?= native
bench-peers:
	$(PYTHON) -m bench.peers --budget $(BUDGET) --isa $(ISA)
	$(PYTHON) -m bench.peers.page

# The same with a named subset tuned before: some 17 searches of at most SEARCH seconds each.
SEARCH ?= 600
TUNED ?= out/tuned
bench-tuned:
	$(PYTHON) -m bench.peers.tuning $(TUNED) --budget $(SEARCH)
	TENSORLANG_BENCH_DATABASE=$(TUNED) $(MAKE) bench-peers

SUITES ?= bench/peers
bench-peers-suites:
	$(PYTHON) -m pytest -n 0 $(SUITES) -o python_files='bench_*.py' --benchmark-enable --benchmark-columns=min,median,rounds

# Programs without a line of schedule beside loops that Numba compiles, and as arrays by JAX and torch.compile; what two threads gain: ten
# minutes.
bench-programs:
	$(PYTHON) -m bench.programs --page --threads --peers all

# The cost model: against recorded logs; then the defaults that it names against tuned schedules, on this machine, for hours. What was
# measured stands in out/model, and the same command goes on: TRIALS, TASKS, and MINUTES after which it stops (0: never).
TRIALS ?= 200
TASKS ?= 40
MINUTES ?= 0
bench-model:
	$(PYTHON) -m bench.model --page
	$(PYTHON) -m bench.defaults --trials $(TRIALS) --tasks $(TASKS) --budget $(MINUTES)

# Four models beside torch, torch.compile, ONNX Runtime and OpenVINO: latency, memory, compilation. Some minutes on an idle machine.
bench-models:
	$(PYTHON) -m bench.models --page

# The database that comes with the package, for the class of processors of this machine, or with ISA=x86-64-v3 for those of AVX2: hours, in
# rounds; what OUT has is gone on with.
OUT ?= out/shipped
shipped:
	$(PYTHON) -c "from autotune_command import main; main()" job jobs/shipped.toml --log $(OUT)/$(ISA) --target $(ISA)
	$(PYTHON) -m bench.ship --measure --target $(ISA) $(OUT)/$(ISA)/

docs:
	$(PYTHON) -m docs.make_errors
	$(PYTHON) -m pytest tests/test_readme.py

# Into out/site (the extra `site`); what does not resolve fails it. To search in it: python -m http.server -d out/site
site:
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict

CASES ?= 2000
SEED ?= 0
WORKERS ?= 2
fuzz:
	$(PYTHON) -m tests.fuzz.run --cases $(CASES) --seed $(SEED) --workers $(WORKERS)

# Property tests and fuzz cases that no run has drawn before, all from one number; `make campaign FRESH=...` repeats what it printed.
campaign:
	@seed=$(or $(FRESH),$$($(PYTHON) -c "import secrets; print(secrets.randbelow(10**6))")); failed=0; \
	echo "== make campaign FRESH=$$seed CASES=$(CASES)"; \
	$(PYTHON) -m pytest -m hypothesis --hypothesis-profile=campaign --hypothesis-seed=$$seed --timeout 3600 || failed=1; \
	$(PYTHON) -m tests.fuzz.run --cases $(CASES) --seed $$seed --workers $(WORKERS) || failed=1; \
	exit $$failed

# Every figure of docs/fuzzing.md, each a target of its own; one that is not kept does not keep the others from running, but make fails at
# the end. Cases and faults accumulate in docs/fuzz.json and docs/faults.json.
FIGURES = figures-campaign figures-coverage figures-injected figures-files figures-stages
faults:
	failed=0; for figure in $(FIGURES); do echo "== $$figure"; $(MAKE) $$figure || failed=1; done; exit $$failed

figures-campaign:
	$(PYTHON) -m tests.fuzz.run --cases $(CASES) --seed $(SEED) --workers $(WORKERS) --tally docs/fuzz.json

figures-coverage:
	$(PYTHON) -m tests.fuzz.run --table docs/fuzz.json docs/fuzzing.md

# How many cases an injected fault may live.
LIVES ?= 2000
figures-injected:
	$(PYTHON) -m tests.fuzz.faults --cases $(LIVES)
	$(PYTHON) -m tests.fuzz.faults --cases $(LIVES) --table docs/fuzzing.md

MUTATIONS ?= 100000
figures-files:
	$(PYTHON) -m tests.fuzz.files --mutations $(MUTATIONS) --seed $(SEED) --workers $(WORKERS) --tally docs/fuzz_files.json
	$(PYTHON) -m tests.fuzz.files --table docs/fuzz_files.json docs/fuzzing.md

figures-stages:
	$(PYTHON) -m bench.stages
