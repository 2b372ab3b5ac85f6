"""What bounds a kernel follows from its numbers; each verdict says what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tensorlang.codegen.reports.assembly import InnerLoop
from tensorlang.codegen.reports.bounds import Evidence, verdict
from tensorlang.codegen.reports.instructions import Issue
from tensorlang.codegen.reports.machine import Rates

GOOD = InnerLoop(".L", 30, vector=24, scalar=0, fused=24, operations=48, chains=24, spills=0, width=512)
RATES = Rates(100e9, {"L1": 400e9, "L2": 200e9, "L3": 100e9, "memory": 20e9}, call=100e-9, fork=2e-6, kind="float32", threads=1)
FACTS = Evidence(time=1e-3, flops=90_000_000, rates=RATES, least=1000, hot=GOOD)
SLOW = replace(FACTS, flops=10_000_000)


@pytest.mark.parametrize(
    ("facts", "bound", "says"),
    [
        (FACTS, "compute", "90% of the measured multiply-add peak"),
        (replace(SLOW, sent={"L1": 100, "memory": 15_000_000}, least=15_000_000), "memory", "75% of what was measured.*fuse it"),
        (replace(SLOW, sent={"L2": 160_000_000}), "L2", "a tile that stays in L1"),
        (replace(SLOW, sent={"L1": 360_000_000}), "L1", "a tile that stays in registers"),
        (replace(SLOW, time=150e-9, flops=16), "call", "passing arguments takes 100 ns of 150 ns"),
        (replace(SLOW, forks=300, threads=2, available=2), "threads", "300 parallel loops a call, 2.00 us each, are 60%"),
        (replace(SLOW, issue=Issue(2.4e6, 2.0e6), calls={"exp": 1_000_000}), "functions", "1,000,000 of exp, are 83%"),
        (
            replace(SLOW, flops=30_000_000, integers=True, issue=Issue(2.4e6, 0), hot=replace(GOOD, fused=0, operations=24)),
            "instructions",
            "24 of 24 in the hot loop do one operation each.*`tensorize`",
        ),
        (replace(SLOW, issue=Issue(2.4e6, 0), hot=replace(GOOD, width=256)), "instructions", "256 of 512 bits.*larger factor"),
        (replace(SLOW, issue=Issue(2.4e6, 0), target_bits=256, hot=replace(GOOD, width=256)), "instructions", "Build it for this machine"),
        (replace(SLOW, issue=Issue(2.4e6, 0), hot=replace(GOOD, vector=0, scalar=9, width=0)), "scalar", "9 of 9 .* Vectorize"),
        (replace(SLOW, hot=replace(GOOD, vector=1, scalar=9)), "scalar", "holds it back: 9 of 10"),
        (replace(SLOW, hot=replace(GOOD, spills=46)), "spills", "moves 46 vectors to or from the stack"),
        (replace(SLOW, hot=replace(GOOD, vector=1, chains=1)), "latency", "1 sum, .*rfactor"),
        (SLOW, "unclear", r"at its limit \(compute 10%, call under 1%\)"),
        (replace(SLOW, hot=None), "unclear", "tune it"),
    ],
)
def test_the_verdict_names_what_bounds_it(facts: Evidence, bound: str, says: str) -> None:
    import re

    found, sentence = verdict(facts)
    assert found == bound
    assert re.search(says, sentence), sentence


def test_a_kernel_on_one_of_several_threads_is_told_so() -> None:
    assert verdict(replace(FACTS, available=8))[1].endswith("It runs on one of 8 threads: make an outer loop parallel.")
    assert "threads" not in verdict(replace(FACTS, available=8, threads=8, forks=1))[1]


def test_measurements_that_differ_a_little_are_no_share_of_more_than_all() -> None:
    assert "reaches 100% of the measured" in verdict(replace(FACTS, flops=105_000_000))[1]


def test_arithmetic_that_was_not_done_bounds_nothing() -> None:
    """A definition may write more than its schedule does: what would be above the peak is no reason."""
    found, sentence = verdict(replace(FACTS, flops=422_000_000, sent={"L1": 280_000_000}))
    assert (found, "70% of what was measured" in sentence) == ("L1", True)
    found, sentence = verdict(replace(FACTS, flops=422_000_000, issue=Issue(6e6, 0)))
    assert (found, "compute" in sentence) == ("unclear", False)


def test_dot_products_are_instructions_above_the_peak_of_multiply_adds() -> None:
    dots = replace(GOOD, operations=8 * GOOD.fused)
    found, sentence = verdict(replace(FACTS, flops=380_000_000, integers=True, issue=Issue(380e6 / 8 / 16, 0), hot=dots))
    assert found == "compute"
    assert sentence.startswith("Arithmetic instructions bound it: they fill 95% of what the machine can issue.")


def test_bytes_that_cannot_have_moved_are_told_from_those_that_were_measured() -> None:
    found, sentence = verdict(replace(SLOW, sent={"L1": 800_000_000}))
    assert found == "L1"
    assert sentence.startswith(
        "L1 bandwidth may bound it: about 763 MiB would move, by what the loops tell, to and from L1 at 800 GB/s, 200%"
    )


def test_a_count_that_data_decides_is_told_as_one() -> None:
    assert "it reaches at most 90% of the measured" in verdict(replace(FACTS, exact=False))[1]
