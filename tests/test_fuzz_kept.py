"""Faults that only storage shared by several iterations shows: a program for each, in which an oracle notices it, and how it is drawn."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import pytest

import tensorlang as tl
from tests.fuzz.definitions import definition
from tests.fuzz.kept import (
    copied_across,
    copied_outside,
    in_partial_results,
    past_the_end,
    reused,
    scattered_in_partial_results,
    window_exchanged,
)
from tests.fuzz.mutants import FAULTS
from tests.fuzz.oracles import Judge
from tests.fuzz.program import Builder
from tests.fuzz.reached import replacements, watch
from tests.fuzz.replay import Tally, Wrong, attempt
from tests.fuzz.sequences import SEQUENCES, moved_inward, sequence, short_rows, slanted
from tests.fuzz.view import Coming, View, call

Node = Any


def case(
    extents: dict[str, int], operands: dict[str, list[str]], *stages: dict[str, Any], symbolic: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {
        "seed": 11, "extents": extents, "symbolic": [*symbolic], "outputs": [stages[-1]["name"]], "steps": [], "fill": "small",
        "inputs": [{"name": name, "shape": shape, "dtype": "int64"} for name, shape in operands.items()], "stages": [*stages],
        "more": [dict.fromkeys(symbolic, size) for size in (1, 5)] if symbolic else [],
    }  # fmt: skip


def stage(name: str, axes: str, shape: list[Any], body: Node, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "pointwise", "type": "int64", "axes": [*axes], "shape": shape, "body": [body], **more}


def at(name: str, *index: Any) -> Node:
    return ["ld", name, [["ax", part] if isinstance(part, str) else part for part in index]]


def total(axes: dict[str, str], value: Node, reducer: str = "sum") -> Node:
    return ["red", reducer, [[axis, 0, extent] for axis, extent in axes.items()], value, None, "int64"]


def scattered(reduce: str, over: list[list[str]], index: Node) -> dict[str, Any]:
    value = at("A", *(axis for axis, _ in over))
    return stage("S", "i", ["e0"], value, form="scatter", over=over, index=[index], reduce=reduce, outside=1, where=None, start=None)


ROWS = case({"e0": 3, "e1": 4, "e2": 5}, {"A": ["e0", "e1", "e2"]}, stage("S", "i", ["e0"], total({"k": "e1", "l": "e2"}, at("A", *"ikl"))))
TO_TWO = case({"e0": 2, "e1": 5, "e2": 3}, {"A": ["e1", "e2"]}, scattered("add", [["p", "e1"], ["q", "e2"]], ["%", ["ax", "p"], 2]))
LAST = case({"e0": 4, "e1": 10}, {"A": ["e1", "e0"]}, scattered("set", [["q", "e1"], ["p", "e0"]], ["ax", "p"]))
PAIRS = case(
    {"e0": 5, "e1": 7}, {"A": ["e0", "e1"]}, stage("S", "ij", ["e0", "e1"], ["+", at("A", *"ij"), 1]),
    stage("T", "ij", ["e0", ["-", "e1", 1]], ["+", at("S", *"ij"), at("S", "i", ["+", ["ax", "j"], 1])]),
)  # fmt: skip
PRODUCT = case(
    {"e0": 5, "e1": 7, "e2": 3}, {"A": ["e0"], "B": ["e0", "e1"]}, stage("S", "i", ["e0"], ["+", at("A", "i"), 1]),
    stage("T", "ij", ["e2", "e1"], total({"k": "e0"}, ["*", at("S", "k"), at("B", *"kj")])),
)  # fmt: skip
EARLIER = total({"k9": "e0"}, ["self", [["-", ["ax", "i"], 1], ["ax", "k9"]]], "max")
STEPS = case(
    {"e0": 4, "e1": 3}, {"A": ["e0"]}, stage("S", "ij", ["e1", "e0"], ["+", EARLIER, at("A", "j")], form="recurrence", outside=1),
    stage("T", "ij", ["e1", "e0"], ["*", at("S", *"ij"), 2]),
)  # fmt: skip
BOTH = case(
    {"e0": 2, "e1": 5}, {"A": ["e0", "e1"]},
    stage("S", "ij", ["e0", "e1"], ["+", ["self", [["-", ["ax", "i"], 1], ["ax", "j"]]], at("A", *"ij")], form="recurrence", outside=1),
    symbolic=("e1",),
)  # fmt: skip
SLANTED = case({"e0": 4, "e1": 5}, {"A": ["e0", "e1"]}, stage("S", "ij", ["e0", "e1"], ["+", at("A", *"ij"), 1]))

SHOWN: dict[str, tuple[dict[str, Any], list[dict[str, Any]], Callable[[View], list[Coming]]]] = {
    "partials-twice": (ROWS, [call("fuse", "S.i", "S.k"), call("rfactor", "S.l")], in_partial_results),
    "tile-visited-again": (TO_TWO, [call("rfactor", "S.q"), call("accumulate", "S_rf", at="S_rf.p")], scattered_in_partial_results),
    "copy-unreached": (
        LAST, [call("split", "S.q", 4), call("split", "S.q_i", 3), call("cache_write", "S", at="S.q_i_o")], copied_across,
    ),
    "tile-bounds-vary": (PAIRS, [call("compute_at", "S", "T.j"), call("pack", "A", at="T.i")], copied_outside),
    "refilled-in-part": (
        PAIRS, [call("compute_at", "S", "T.j"), call("store_root", "S"), call("split", "T.j", 2), call("reorder", "T.j_i", "T.j_o")],
        window_exchanged,
    ),
    "producer-stale": (
        STEPS,
        [
            call("compute_at", "S.1", "S.i"), call("fuse_loops", "S.i", "T.i"),
            call("fold_storage", "S", 0, 1), call("compute_at", "S.1", "S.j"),
        ],
        reused,
    ),
    "fused-outer-short": (BOTH, [call("fuse", "S.i", "S.j"), call("parallel", "S.i_j")], short_rows),
    "slid-start-kept": (
        PRODUCT, [call("compute_at", "S", "T.j"), call("store_at", "S", "T.i"), call("compute_at", "S", "T.k")], moved_inward,
    ),
    "lanes-bounds-vary": (SLANTED, [call("skew", "S.j", by="S.i", factor=1), call("vectorize", "S.i")], slanted),
}  # fmt: skip
"""For each fault a program, the steps of a schedule that show it, and the family of steps that they are one of."""


@pytest.fixture
def injected(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """What injects a fault for the length of a test."""

    def inject(name: str) -> None:
        for owner, attribute, wrap in replacements(FAULTS[name][1]):
            monkeypatch.setattr(owner, attribute, functools.partial(wrap, getattr(owner, attribute)))

    return inject


@pytest.mark.parametrize("fault", SHOWN)
def test_an_oracle_notices_the_fault_where_it_shows_and_nothing_without_it(fault: str, injected: Callable[[str], None]) -> None:
    program, steps, _ = SHOWN[fault]
    Judge().check({**program, "steps": steps})
    injected(fault)
    with pytest.raises(Wrong):
        Judge().check({**program, "steps": steps})


@pytest.mark.parametrize("fault", [name for name in SHOWN if name != "lanes-bounds-vary"])
def test_a_family_of_steps_reaches_the_fault_on_such_a_program(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, _, family = SHOWN[fault]
    seen: set[str] = set()
    for owner, attribute, _ in replacements(FAULTS[fault][1]):
        monkeypatch.setattr(owner, attribute, getattr(owner, attribute))  # as it is, to be put back
    watch(fault, seen)
    for seed in range(300):
        schedule, rng = tl.Schedule(Builder(program).program().outputs), random.Random(seed)
        for coming in family(View(rng, schedule.nest)):
            step = coming(View(rng, schedule.nest)) if callable(coming) else coming
            if step is not None:
                attempt(schedule, step, Tally())
        if seen:
            return
    pytest.fail(f"{family.__name__} does not reach {fault}")


@pytest.mark.parametrize("program", [ROWS, LAST, PAIRS, STEPS], ids=["rows", "last", "pairs", "steps"])
def test_where_one_sequence_does_not_fit_another_one_is_drawn(program: dict[str, Any]) -> None:
    nest = tl.Schedule(Builder(program).program().outputs).nest
    assert all(sequence(View(random.Random(seed), nest)) for seed in range(50))
    assert any(not family(View(random.Random(0), nest)) for family in SEQUENCES)


@pytest.mark.parametrize("extent", [0, 1, 3, 5, 10, 17, 64])
def test_the_last_part_of_a_loop_begins_where_it_has_ended(extent: int) -> None:
    for outer, inner in past_the_end(extent):
        starts = [a + b for a in range(0, extent, outer) for b in range(0, outer, inner)]
        assert extent <= starts[-1] < extent + outer
    assert bool(past_the_end(extent)) == (extent > 4)


def test_recurrences_over_whole_rows_before_are_drawn() -> None:
    kinds = [[stage["kind"] for stage in definition(seed)["stages"]] for seed in range(100)]
    assert kinds.count(["recurrence", "pointwise"]) > 2
