"""The coverage table of the fuzzer: what a stage is, which cells there are, and that an empty one is reported."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tensorlang as tl
from tests.fuzz import coverage
from tests.fuzz.case import to_json, value_of
from tests.fuzz.coverage import (
    IMPOSSIBLE,
    KINDS,
    MODES,
    cells,
    concerned,
    empty,
    kind_of,
    modes_of,
    rarest,
    reductions,
    refuted,
    spelled,
    table,
)
from tests.fuzz.directed import aimed
from tests.fuzz.inner import TERMS
from tests.fuzz.mutants import FAULTS
from tests.fuzz.oracles import Judge
from tests.fuzz.program import Builder
from tests.fuzz.replay import Tally, attempt
from tests.fuzz.run import main
from tests.thinned import crossed, few


def test_every_directive_has_cells_or_a_reason_why_not() -> None:
    known = {cell[0] for cell in cells()} | {name for entry in IMPOSSIBLE for name in entry.directives}
    assert known == set(coverage.DIRECTIVES)
    assert all(entry.reason and set(entry.kinds) <= set(KINDS) and set(entry.modes) <= set(MODES) for entry in IMPOSSIBLE)


@crossed({"kind": KINDS, "mode": MODES})
def test_a_definition_is_drawn_for_each_kind_in_each_mode(kind: str, mode: str) -> None:
    drawn = [found for seed in range(30) if (found := aimed(seed, ("split", kind, mode))) is not None]
    assert drawn
    for case, aim in drawn:
        stages = [stage for stage in case["stages"] if stage["name"] in aim.stages]
        assert stages
        assert any(kind_of(stage) == kind and mode in modes_of(case, stage) for stage in case["stages"])


@crossed({"directive": ["tensorize", "rfactor", "accumulate", "decompose_reduction"], "kind": [kind for kind in KINDS if kind != "store"]})
def test_any_statement_may_have_a_reduction_inside_for_the_directives_of_reductions(directive: str, kind: str) -> None:
    drawn = [found for seed in range(30) if (found := aimed(seed, (directive, kind, "plain"))) is not None]
    inside = [(case, node) for case, aim in drawn for stage in case["stages"] if stage["name"] in aim.stages for node in reductions(stage)]
    assert inside or kind in ("scatter add", "scatter min", "scatter max")
    if directive == "tensorize":
        assert any(node[5] == "int32" and value_of(node[2][0][2], case["extents"]) == TERMS for case, node in inside)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "store"])
def test_two_reductions_of_one_length_are_drawn_where_they_are_to_be_joined(kind: str) -> None:
    drawn = [found for seed in range(30) if (found := aimed(seed, ("join_reductions", kind, "plain"))) is not None]
    lengths = [[node[2] for stage in case["stages"] if stage["name"] in aim.stages for node in reductions(stage)] for case, aim in drawn]
    assert any(len(set(map(repr, every))) < len(every) for every in lengths)


RARE = [
    ("join_reductions", "reduction", "where"),
    ("join_reductions", "scatter min", "where"),
    ("join_reductions", "scan last", "empty"),
    ("tensorize", "scan all", "empty"),
    ("cache_write", "recurrence", "plain"),
    ("reverse_compute_inline", "scan all", "plain"),
    ("reverse_compute_inline", "recurrence", "where"),
    ("reverse_compute_inline", "recurrence", "symbolic"),
    ("reverse_compute_inline", "recurrence", "empty"),
]
"""Cells that need several steps before, or a definition made for them."""


@pytest.mark.parametrize("cell", few(RARE, 3), ids=" ".join)
def test_a_rare_cell_is_hit_within_twenty_cases_aimed_at_it(cell: coverage.Cell) -> None:
    def hit(seed: int) -> bool:
        case = Judge().generate(seed, cell)
        return any(cell in covered for covered in accepted(case))

    assert any(hit(seed) for seed in range(20))


def accepted(case: dict[str, Any]) -> Iterator[set[coverage.Cell]]:
    """What each step of a case covers that is accepted."""
    schedule = tl.Schedule(Builder(case).program().outputs)
    for step in case["steps"]:
        before = schedule.nest
        if attempt(schedule, step, Tally()):
            yield concerned(case, before, step)


def test_the_cells_to_aim_at_are_those_that_few_cases_have_covered() -> None:
    counts = {spelled(cell): 1000 for cell in cells()}
    del counts[spelled(("fuse", "gather", "empty"))]
    assert {rarest(counts, random.Random(seed)) for seed in range(20)} == {("fuse", "gather", "empty")}


def test_a_case_says_what_it_was_aimed_at_and_is_the_same_every_time() -> None:
    cell = ("tensorize", "scan all", "plain")
    case = Judge().generate(4, cell)
    assert case["cell"] == list(cell)
    assert to_json(case) == to_json(Judge().generate(4, cell))
    assert "cell" not in Judge().generate(4)


def example() -> dict[str, Any]:
    """A reduction under a condition, over an extent of run time."""
    where = [">=", ["-", ["ax", "k"], 1], 0]
    body = [["red", "sum", [["k", 0, "e1"]], ["ld", "A", [["ax", "i"], ["-", ["ax", "k"], 1]]], where, "float32"]]
    stage = {"name": "S", "kind": "reduce", "type": "float32", "axes": ["i"], "shape": ["e0"], "body": body}
    return {
        "seed": 1, "extents": {"e0": 5, "e1": 6}, "symbolic": ["e1"], "inputs": [{"name": "A", "shape": ["e0", "e1"], "dtype": "float32"}],
        "stages": [stage], "outputs": ["S"], "steps": [], "fill": "small",
    }  # fmt: skip


def test_a_step_covers_the_kind_and_the_modes_of_the_statements_in_its_loop() -> None:
    case = example()
    nest = tl.Schedule(Builder(case).program().outputs).nest
    step = {"call": "split", "args": ["S.k", 4]}
    assert concerned(case, nest, step) == {("split", "reduction", "where"), ("split", "reduction", "symbolic")}


def test_the_table_names_its_empty_cells() -> None:
    every = {spelled(cell): 1 for cell in cells()}
    assert empty(every) == []
    assert "No cell is empty." in table(every)
    del every[spelled(("split", "store", "plain"))]
    assert empty(every) == [("split", "store", "plain")]
    assert "Empty cells: `split` on a store (plain)." in table(every)


def test_a_cell_that_no_program_has_and_a_case_covered_is_named() -> None:
    assert refuted({spelled(cell): 1 for cell in cells()}) == []
    assert refuted({spelled(("tensorize", "store", "plain")): 1}) == [("tensorize", "store", "plain")]


def test_the_command_fails_where_a_cell_is_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = {spelled(cell): 1 for cell in cells()}
    shard = {"seed": 1, "cases": 5, "seconds": 1, "date": "2026-01-01", "failures": {}, "open": {}, "counts": counts}
    file, page = tmp_path / "fuzz.json", tmp_path / "page.md"
    file.write_text(json.dumps({"shards": [shard]}))
    assert main(["--table", str(file), str(page)]) == 0
    counts.popitem()
    file.write_text(json.dumps({"shards": [shard]}))
    assert main(["--table", str(file), str(page)]) == 1
    assert "1 empty cells" in capsys.readouterr().out
    assert "Empty cells" in page.read_text()


def test_every_fault_replaces_something_that_exists() -> None:
    """A fault whose target was renamed would live for ever without being one."""
    for name, (_, inject) in FAULTS.items():
        parts = [inject, *(cell.cell_contents for cell in inject.__closure__ or ())]
        targets = [part for part in parts if getattr(part, "__closure__", None) and {"owner", "name"} <= set(part.__code__.co_freevars)]
        for target in targets:
            held = dict(zip(target.__code__.co_freevars, (cell.cell_contents for cell in target.__closure__), strict=True))
            assert hasattr(held["owner"], held["name"]), f"{name}: {held['owner']} has no {held['name']}"
