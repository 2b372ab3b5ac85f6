"""Sketches take the steps of a schedule: what the model reads of them is what it reads of the nest."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.model.estimate import estimate, estimated
from tensorlang.schedules.model.program import program
from tensorlang.schedules.model.sketch import Sketch, numbered
from tests.schedules.programs import matmul

MACHINE = target("cascadelake").core


def sketched(s: tl.Schedule) -> Sketch:
    return Sketch.of(program(s.nest), "C")


def seconds(stages: Mapping[str, float]) -> float:
    """Seconds of all stages but the one that begins the sums, which sketches leave out."""
    return sum(value for stage, value in stages.items() if not stage.endswith(".init"))


def same(s: tl.Schedule, sketch: Sketch) -> bool:
    found = seconds(estimate(s.nest, MACHINE).stages)
    return found == pytest.approx(seconds(estimated(numbered(sketch.parts()), MACHINE).stages), rel=0.02)


@given(
    st.tuples(*(st.integers(2, 90),) * 3),
    st.permutations(["C.i", "C.j", "C.k"]),
    st.sampled_from(["C.i", "C.j", "C.k"]),
    st.integers(2, 20),
)
def test_loops_that_are_split_and_reordered_cost_the_same(shape: tuple[int, int, int], order: list[str], loop: str, factor: int) -> None:
    s = tl.Schedule(matmul(*shape))
    sketch = sketched(s)
    s.reorder(*order)
    sketch.reorder(*order)
    if factor < dict(zip(("C.i", "C.j", "C.k"), shape, strict=True))[loop]:
        s.split(loop, factor)
        sketch.split(loop, factor)
    assert same(s, sketch)


@pytest.mark.parametrize("kind", ["plain", "accumulate", "pack"])
def test_a_tile_in_registers_and_a_packed_panel_cost_the_same(kind: str) -> None:
    s = tl.Schedule(matmul(48, 64, 40))
    sketch = sketched(s)
    for steps in (s, sketch):
        j_o, j_i = steps.split("C.j", 32)
        i_o, i_i = steps.split("C.i", 6)
        steps.reorder(j_o, i_o, "C.k", i_i, j_i)
    sketch.mark("C.j_i", "vector")
    sketch.mark("C.i_i", "unroll")
    names = s.loops("C")
    if kind == "pack":
        s.pack("B", at=names[0])
        s.vectorize("B_pack.j_i")
        sketch.pack("B", "C.j_o", 16)
    if kind != "plain":
        s.accumulate("C", at=names[1])
        sketch.accumulate("C.i_o", loads=False)
    s.vectorize(names[-1])
    s.unroll(names[-2])
    assert same(s, sketch)


def test_what_was_packed_beforehand_is_not_copied() -> None:
    sketch = sketched(tl.Schedule(matmul(64, 64, 64)))
    sketch.pack("B", "", 16, copied=False)
    assert {access.buffer.name for access in sketch.statement.accesses} == {"A", "B_pack", "C"}
    assert sketch.before == {}


def test_a_single_element_is_no_panel() -> None:
    """`A[0, k]` inside the loop over k, and all of one column."""
    sketch = sketched(tl.Schedule(matmul(64, 64, 64)))
    before = sketch.statement
    sketch.reorder("C.i", "C.k", "C.j")
    sketch.pack("A", "C.k", 16)
    assert sketch.statement == before and sketch.before == {}


def test_a_stage_that_is_not_there_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        Sketch.of(program(tl.Schedule(matmul(4, 4, 4)).nest), "D")
