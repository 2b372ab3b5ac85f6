"""Our kernels beside those of every peer that is installed: one process, one core, in turns.

    python -m bench.peers                       every family; a line for each row in bench/results/peers.jsonl
    python -m bench.peers --family matmul       one family (--only NAME: one workload; --quick: does everything work?)
    python -m bench.peers.page                  docs/performance.md from that history
    make bench-peers                            both
    make bench-peers-suites                     the same workloads as pytest-benchmark suites (SUITES=bench/peers/bench_rows.py)

`workloads` says what is computed, `engines` how each library does it, `rounds` how candidates take turns, `worker` is the process in
which they do, `run` starts workers and survives them, `summary` pools what they found into ratios and verdicts.
"""
