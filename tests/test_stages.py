"""Long chains of stages and deep expressions: in time that grows with their length, or refused at once; never by Python's own limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from bench.stages import chain, mirrored, pointwise
from tensorlang.codegen.compilation import default_schedule
from tensorlang.codegen.emission.storage import SPARE
from tensorlang.codegen.target import target
from tensorlang.definition.expr import MAX_DEPTH
from tensorlang.definition.tensor import Tensor, definitions
from tensorlang.schedules.directives.compute_inline import ComputeInline
from tensorlang.serialization.canonical import describe, family, fingerprint
from tensorlang.serialization.rebuild import rebuild
from tests.work import work


@pytest.mark.parametrize("step", [pointwise, mirrored])
def test_a_stage_costs_the_same_to_define_wherever_it_stands(step: Any) -> None:
    short, long = work(lambda: chain(step, 100)), work(lambda: chain(step, 400))
    assert long <= 4.2 * short


def test_a_stage_costs_the_same_to_lower_wherever_it_stands() -> None:
    short, long = chain(mirrored, 100), chain(mirrored, 400)
    assert work(lambda: tl.Schedule(long)) <= 4.5 * work(lambda: tl.Schedule(short))


def test_a_default_schedule_takes_work_that_hardly_outgrows_the_chain() -> None:
    """In proportion it would be 4; what looks at every stage again for every stage would make it 16."""
    machine = target("native")
    short, long = chain(pointwise, 50), chain(pointwise, 200)
    assert work(lambda: default_schedule(long, machine)) <= 10 * work(lambda: default_schedule(short, machine))


@pytest.mark.parametrize("stages", [400, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("step", [pointwise, mirrored])
def test_everything_can_be_asked_of_hundreds_of_stages(step: Any, stages: int) -> None:
    x = chain(step, stages)
    np.testing.assert_array_equal(tl.evaluate(x, {Tensor(next(iter(definitions((x,))))): np.zeros(8, "f4")}), stages)
    assert fingerprint(x) == fingerprint(rebuild(describe(x))) and family(x)
    s = tl.Schedule(x)
    assert len(s.stages()) == stages and len(str(s).splitlines()) == 1 + (stages - 1) + 2 * stages
    s.split("s200.i", 4)
    s.vectorize("s200.i_i")
    assert str(tl.Schedule.from_json(x, s.to_json())) == str(s)


def test_a_chain_of_some_hundred_stages_is_right_scheduled_or_not() -> None:
    x = chain(pointwise, 150)
    for kernel in (tl.build(tl.Schedule(x)), tl.build(x)):
        np.testing.assert_array_equal(kernel(np.zeros(8, "f4")), np.full(8, 150, "f4"))


@pytest.mark.slow
def test_a_chain_of_a_thousand_stages_is_right() -> None:
    np.testing.assert_array_equal(tl.build(chain(pointwise, 1000))(np.zeros(8, "f4")), np.full(8, 1000, "f4"))


def test_many_large_intermediates_do_not_fill_the_stack() -> None:
    """Each of 16 KiB, which one alone would have there; their storage is on the heap, and is freed."""
    x = tl.placeholder((4096,), name="x")
    y = x
    for number in range(60):
        y = tl.compute(y.shape, lambda i, y=y: y[4095 - i] + 1.0, name=f"s{number}")
    kernel = tl.build(tl.Schedule(y))
    assert kernel.workspace_bytes == (59 - 16) * 16384 + SPARE  # 256 KiB are on the stack
    np.testing.assert_array_equal(kernel(np.zeros(4096, "f4")), np.full(4096, 60, "f4"))


def test_chains_of_scatters_know_their_shape() -> None:
    x: Any = tl.placeholder((4,), name="x")
    k = tl.reduce_axis(4, name="k")
    for number in range(700):
        x = tl.scatter(x, k, lambda i: i, lambda i: tl.cast(i, "float32"), name=f"s{number}")
    assert x.shape == (4,) and x.dtype == "float32"
    np.testing.assert_array_equal(tl.evaluate(x, {placeholder_of(x): np.zeros(4, "f4")}), 700.0 * np.arange(4))


def placeholder_of(x: Any) -> Any:
    return Tensor(definitions((x,))[0])


def test_an_expression_as_deep_as_may_be_travels_the_whole_path() -> None:
    x = tl.placeholder((8,), name="x")

    def body(i: Any) -> Any:
        value = x[i]
        while value.depth < MAX_DEPTH:
            value = value + 1.0
        return value

    y = tl.compute((8,), body, name="y")
    want = np.full(8, MAX_DEPTH - 2, "f4")
    np.testing.assert_array_equal(tl.evaluate(y, {x: np.zeros(8, "f4")}), want)
    np.testing.assert_array_equal(tl.build(y)(np.zeros(8, "f4")), want)
    assert fingerprint(y) == fingerprint(rebuild(describe(y))) and str(tl.Schedule(y))


def test_deeper_and_larger_expressions_are_refused_at_once() -> None:
    x = tl.placeholder((8,), name="x")

    def repeated(grow: Callable[[Any], Any], times: int) -> Callable[[Any], Any]:
        def body(i: Any) -> Any:
            value = x[i]
            for _ in range(times):
                value = grow(value)
            return value

        return body

    with pytest.raises(tl.DefinitionError, match=f"{MAX_DEPTH + 1} deep, is too large.*make a part of it a tensor"):
        tl.compute((8,), repeated(lambda value: value + 1.0, 100_000))
    tl.compute((8,), repeated(lambda value: value * value, 40))  # 2**40 nodes, were they written out, in a few parts
    with pytest.raises(tl.DefinitionError, match="nodes, .* deep, is too large"):
        tl.compute((8,), repeated(lambda value: value * value, 400))


def test_inlining_makes_no_expression_deeper_than_may_be_written() -> None:
    s = tl.Schedule(chain(pointwise, 300))
    refused = None
    for number in range(299):
        if not s.attempt(ComputeInline(f"s{number}")):
            refused = s.can("compute_inline", f"s{number}").error
            break
    assert refused is not None and refused.code == "TL-S202"
    assert f"deep (at most {MAX_DEPTH})" in refused.reason
    np.testing.assert_array_equal(tl.build(s)(np.zeros(8, "f4")), np.full(8, 300, "f4"))


def test_a_shared_part_that_is_inlined_counts_as_often_as_it_is_read() -> None:
    x: Any = tl.placeholder((8,), name="x")
    for number in range(40):
        x = tl.compute((8,), lambda i, x=x: x[i] * x[i], name=f"s{number}")
    s = tl.Schedule(x)
    first = next(number for number in range(39) if not s.attempt(ComputeInline(f"s{number}")))
    assert first > 0
    refused = s.can("compute_inline", f"s{first}").error
    assert refused is not None and refused.code == "TL-S202" and "nodes (at most" in refused.reason
