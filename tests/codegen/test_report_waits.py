"""Reports say in words what the cost model says of a kernel: where it waits, and what would help."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import tensorlang as tl
from tensorlang.codegen.reports.assembly import InnerLoop
from tensorlang.codegen.reports.bounds import Evidence, verdict
from tensorlang.codegen.reports.machine import Rates
from tensorlang.codegen.reports.waits import Waits, listed, where
from tensorlang.codegen.target import target
from tensorlang.codegen.target.cores import machine_of
from tensorlang.schedules.model.causes import Cause, Stride, causes
from tests.schedules.test_causes import chain, copied, product, turned

ZEN = machine_of(target("znver3"))
HOT = InnerLoop(".L", 30, vector=24, scalar=0, fused=24, operations=48, chains=24, spills=0, width=256)
RATES = Rates(100e9, {"L1": 400e9, "L2": 200e9, "L3": 100e9, "memory": 20e9}, call=100e-9, fork=2e-6, kind="float32", threads=1)
IDLE = Evidence(time=1e-3, flops=10_000_000, rates=RATES, hot=HOT)
COLUMN = Stride("B", "C.k", 8192, 2048, "pages", 1400, reused=True, written=False)


def waiting(*found: Cause) -> Evidence:
    return replace(IDLE, waits=Waits(1e-3, found))


@pytest.mark.parametrize(
    ("s", "bound", "says"),
    [
        (product(2048, 4), "pages", ["steps of `k` take B 8.00 KiB on, over 2,048 pages where the TLB keeps", "Pack B (`pack`)"]),
        (turned(4096), "pages", ["take X 16.0 KiB on, over 4,096 pages", "Walk X in blocks"]),
        (chain(), "latency", ["sums, each for its last term", "`rfactor`"]),
    ],
)
def test_a_nest_that_waits_is_told_for_what_and_what_would_help(s: tl.Schedule, bound: str, says: list[str]) -> None:
    found = Waits(*causes(s.nest, ZEN)).verdict()
    assert found is not None
    assert found[0] == bound
    assert all(part in found[1] for part in says), found[1]


def test_a_copy_waits_for_nothing_but_bandwidth() -> None:
    assert Waits(*causes(copied().nest, ZEN)).verdict() is None


def test_what_one_operand_costs_counts_together_and_its_dearest_part_is_told() -> None:
    sets = replace(COLUMN, of="sets of L2", places=8, room=1024)
    pages, conflicts = Cause("pages", 0.1e-3, COLUMN), Cause("conflicts", 0.08e-3, sets)
    assert Waits(1e-3, (pages,)).verdict() is None
    found = Waits(1e-3, (pages, conflicts)).verdict()
    assert found is not None
    assert found[0] == "pages"
    assert "10% less" in found[1]
    other = Cause("conflicts", 0.08e-3, replace(sets, buffer="A"))
    assert Waits(1e-3, (pages, other)).verdict() is None


@pytest.mark.parametrize(
    ("stride", "told"),
    [
        (None, ""),
        (COLUMN, "steps of `k` take B 8.00 KiB on, over 2,048 pages where the TLB keeps 1,400"),
        (replace(COLUMN, of="sets of L2", places=8, room=1024), "steps of `k` take B 8.00 KiB on, over 8 of 1,024 sets of L2"),
        (replace(COLUMN, of="lines"), "steps of `k` take B 8.00 KiB on"),
    ],
)
def test_a_walk_is_told_by_its_loop_its_step_and_the_places_that_it_comes_to(stride: Stride | None, told: str) -> None:
    assert where(stride) == told


@pytest.mark.parametrize(
    ("cause", "bound", "says"),
    [
        (Cause("pages", 0.8e-3, COLUMN), "pages", "80% less without. Pack B"),
        (Cause("conflicts", 0.8e-3, replace(COLUMN, reused=False, of="sets of L1")), "conflicts", "pad its rows"),
        (Cause("latency", 0.8e-3, None), "waits", "innermost ones follow memory"),
        (Cause("shuffles", 0.8e-3), "shuffles", "operands are contiguous"),
        (Cause("loads", 0.8e-3), "ports", "larger tile in registers"),
        (Cause("divisions", 0.8e-3), "divisions", "the divider: by the model a call would take 80% less"),
    ],
)
def test_the_verdict_on_what_reaches_no_limit_is_what_the_model_says(cause: Cause, bound: str, says: str) -> None:
    found, sentence = verdict(waiting(cause))
    assert found == bound
    assert says in sentence


def test_a_limit_that_is_reached_comes_before_what_the_model_says() -> None:
    assert verdict(replace(waiting(Cause("pages", 0.8e-3, COLUMN)), flops=90_000_000))[0] == "compute"


def test_what_the_hot_loop_shows_comes_before_ports_and_after_waits_for_memory() -> None:
    spilled = replace(HOT, spills=40)
    assert verdict(replace(waiting(Cause("loads", 0.8e-3)), hot=spilled))[0] == "spills"
    assert verdict(replace(waiting(Cause("pages", 0.8e-3, COLUMN)), hot=spilled))[0] == "pages"


def test_a_model_that_is_far_from_what_was_measured_says_so() -> None:
    slow = replace(waiting(Cause("pages", 0.8e-3, COLUMN)), time=5e-3)
    assert "5.0 times what the model predicts" in verdict(slow)[1]
    assert "times what the model predicts" not in verdict(replace(slow, time=1.5e-3))[1]


def test_threads_without_work_are_said_to_starve() -> None:
    few = replace(IDLE, threads=4, available=4, forks=1, busy=0.3)
    bound, sentence = verdict(few)
    assert bound == "starved"
    assert "work for 30% of the time of 4 threads" in sentence
    assert verdict(replace(few, busy=0.9))[0] != "starved"


def test_a_report_lists_what_a_call_would_save(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorlang.codegen.reports.make.rates", lambda kind, threads: RATES)
    report = tl.build(chain()).report(repeats=3)
    assert report.waits is not None
    assert report.waits.predicted > 0
    assert "latency of sums" in str(report)
    assert "latency of sums" in report._repr_html_()
    data = json.loads(json.dumps(report.to_json()))
    assert data["predicted"] == report.waits.predicted
    assert [cause["kind"] for cause in data["waits"]] == [cause.kind for cause in report.waits.causes]
    assert len(listed(report.waits)) == len(report.waits.shown)
