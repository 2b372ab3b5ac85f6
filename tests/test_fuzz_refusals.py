"""The judgement of refusals: needed where some data or sizes go wrong, whichever the case has itself."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl
from tensorlang.schedules.directives.fission import Fission
from tensorlang.schedules.directives.loop_kinds import Parallel, Vectorize
from tests.fuzz.arrays import blank
from tests.fuzz.forward import Forward
from tests.fuzz.program import Program
from tests.fuzz.refusals import Question, refused
from tests.fuzz.replay import without_proof
from tests.oracle.marks import marked
from tests.oracle.question import dependences, observed
from tests.test_oracle import PROGRAMS


def case(inputs: dict[str, tuple[list[Any], str]], extents: dict[str, int], symbolic: list[str]) -> dict[str, Any]:
    operands = [{"name": name, "shape": shape, "dtype": of} for name, (shape, of) in inputs.items()]
    return {"seed": 3, "fill": "small", "extents": extents, "symbolic": symbolic, "inputs": operands}


def verdict(of: dict[str, Any], output: tl.Tensor, operands: dict[str, tl.Tensor], step: Any, first: Any = None) -> str:
    s = tl.Schedule(output)
    forward = Forward(s.nest)
    if first is not None:
        first(s)
        forward.follow(s.directives, s.nest)
    forced = without_proof(s.nest, step)
    assert forced is not None
    return Question(of, Program((output,), operands, {}), forward).needed(s.nest, forced, step)


def histogram(extent: Any) -> tuple[tl.Tensor, dict[str, tl.Tensor]]:
    """H[I[p]] is one more for each p."""
    i = tl.placeholder((extent,), "int64", name="I")
    start = tl.compute((8,), lambda x: tl.cast(x, "int32"), name="Z")
    p = tl.reduce_axis(extent, name="p")
    h = tl.scatter(start, p, lambda p: tl.clamp(i[p], 0, 7), lambda p: tl.cast(p, "int32"), name="H")
    return h, {"I": i}


@pytest.mark.parametrize(("kind", "wanted"), [(Parallel, "needed"), (Vectorize, "not needed")])
def test_places_that_data_make_one_are_found_whichever_are_drawn(kind: type[Parallel | Vectorize], wanted: str) -> None:
    """Threads race for them, and lanes take turns."""
    made, operands = histogram(2)
    assert verdict(case({"I": ([2], "int64")}, {}, []), made, operands, kind("H.p")) == wanted


def test_sizes_are_those_at_which_the_directive_itself_is_refused() -> None:
    extent = tl.dim("e0")
    made, operands = histogram(extent)
    s = tl.Schedule(made)
    s.split("H.p", 16)
    step = Parallel("H.p_o")
    assert refused(s.nest, step, 16) is None
    assert refused(s.nest, step, 17) is not None
    assert verdict(case({"I": (["e0"], "int64")}, {"e0": 3}, ["e0"]), made, operands, step, lambda s: s.split("H.p", 16)) == "needed"


def test_what_goes_right_at_all_sizes_was_not_needed() -> None:
    x = tl.placeholder((4, 3), "int32", name="X")
    made = tl.compute((4, 3), lambda i, j: x[i, j] + 1, name="Y")
    assert verdict(case({"X": ([4, 3], "int32")}, {}, []), made, {"X": x}, Parallel("Y.i")) == "not needed"


def test_one_constant_in_every_element_is_one_of_other_values() -> None:
    """Both rows of storage for one hold the same number, by chance."""
    z = tl.compute((2, 3), lambda i, j: tl.cast(1, "int32"), name="Z")
    made = tl.compute((2, 3), lambda i, j: z[i, j] * 2, name="Y")

    def first(s: tl.Schedule) -> None:
        s.compute_at("Z", "Y.i")
        s.store_root("Z")
        s.fold_storage("Z", 0, 1)

    assert verdict(case({}, {}, []), made, {}, Fission("Y.i"), first) == "needed for other values"


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_run_shows_the_dependences_that_isl_finds(program: Any) -> None:
    outputs, arrays = program()
    plain = tl.Schedule(outputs).nest
    arrays = {**arrays, **blank(plain, {})}
    wanted, found = dependences(plain, arrays, {}), observed(plain, marked(plain), arrays, {})
    assert found.keys() == wanted.keys()
    assert all(found[who].value == need.value and found[who].combines == need.combines for who, need in wanted.items())


def test_a_condition_that_only_what_is_no_number_meets_is_met() -> None:
    """`x != x` lets no iteration of any numbers run, and all of them where there are none."""
    x = tl.placeholder((4,), "float32", name="X")
    r = tl.reduce_axis(4, name="r")
    made = tl.compute((), lambda: tl.sum(x[r] + 1.0, r, where=x[r] != x[r]), name="Y")
    assert verdict(case({"X": ([4], "float32")}, {}, []), made, {"X": x}, Parallel("Y.r")) == "needed"


@pytest.mark.parametrize("unequal", [False, True])
def test_conditions_that_only_numbers_of_the_program_or_unlike_operands_meet_are_met(unequal: bool) -> None:
    """Two iterations race where the condition holds of both, which no operands that are filled alike make it do."""
    b, c = tl.placeholder((4,), "float64", name="B"), tl.placeholder((4,), "float64", name="C")
    r = tl.reduce_axis(4, name="r")
    held = b[r] < c[3 - r] - 2.0 if unequal else b[r] == -1.5
    made = tl.compute((), lambda: tl.sum(c[r] + tl.cast(r, "float64"), axis=r, where=held), name="S")
    of = case({"B": ([4], "float64"), "C": ([4], "float64")}, {}, [])
    assert verdict(of, made, {"B": b, "C": c}, Parallel("S.r")) == "needed"
