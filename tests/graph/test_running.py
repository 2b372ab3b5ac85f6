"""A compiled graph is one native call: cheap, for any number of inputs, on other threads, beside others."""

from __future__ import annotations

import re
import threading
from concurrent.futures import Future

import numpy as np
import pytest
from hypothesis import given, settings

import tensorlang as tl
from bench.models import calls
from tensorlang.graph import Builder, Graph
from tests.graph.graphs import arguments, array, batched, random_graphs
from tests.thinned import few


@given(random_graphs())
@settings(max_examples=4)
def test_work_side_by_side_gives_the_bits_of_work_in_turn(g: Graph) -> None:
    given = arguments(g)
    for found, wanted in zip(g.compile(threads=2)(*given), g.compile(threads=1)(*given), strict=True):
        np.testing.assert_array_equal(found, wanted)


def branches(count: int, size: int) -> Graph:
    b = Builder("branches")
    x = b.input((size, size), name="x")
    return b.finish(*[b("linear", x, array(size, size, seed=seed)) for seed in range(count)])


@pytest.mark.usefixtures("node_by_node")
def test_long_work_that_needs_nothing_of_each_other_is_side_by_side() -> None:
    g = branches(4, 256)
    compiled = g.compile(threads=2)
    assert [[len(lane) for lane in stage] for stage in compiled.assembly().stages] == [[2, 2]]
    assert all(len(stage) == 1 for stage in g.compile(threads=1).assembly().stages)
    assert all(len(stage) == 1 for stage in branches(4, 4).compile(threads=2).assembly().stages)
    x = array(256, 256)
    for found, wanted in zip(compiled(x), g.compile(threads=1)(x), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.usefixtures("node_by_node")
def test_nothing_that_is_wanted_beside_a_lane_has_its_memory() -> None:
    """Long branches in lanes, each with a value in the arena, and a join: for any number of calls the same bits."""
    b = Builder("join")
    x = b.input((192, 192), name="x")
    made = [b("linear", b("softmax", b("linear", x, array(192, 192, seed=n)), dim=-1), array(192, 192, seed=n)) for n in range(3)]
    g = b.finish(b("add", b("add", made[0], made[1]), made[2]))
    compiled, alone = g.compile(threads=2), g.compile(threads=1)
    assert any(len(stage) > 1 for stage in compiled.assembly().stages)
    given = array(192, 192)
    wanted = alone(given)[0]
    assert all(np.array_equal(compiled(given)[0], wanted) for _ in range(20))


def test_a_future_gives_what_a_call_gives() -> None:
    g = batched()
    compiled = g.compile(threads=1)
    given = [array(1 + n % 8, 4, seed=n) for n in range(24)]
    futures = [compiled.run_async(x) for x in given]
    assert all(isinstance(future, Future) for future in futures)
    for x, future in zip(given, futures, strict=True):
        for found, wanted in zip(future.result(60), compiled(x), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_a_future_raises_what_a_call_raises() -> None:
    future = batched().compile().run_async(array(9, 4))
    with pytest.raises(tl.CallError, match="batched: input x: .* the dim n is from 1 to 8, and not 9"):
        future.result(60)


def test_calls_run_beside_each_other() -> None:
    """While one thread is in a long call, another one gets through many short ones: the interpreter is free."""
    long, short = branches(2, 700).compile(threads=1), branches(1, 4).compile(threads=1)
    x, y = array(700, 700), array(4, 4)
    long(x), short(y)
    done, calls = threading.Event(), 0
    future = long.run_async(x)
    future.add_done_callback(lambda _: done.set())
    while not done.is_set():
        short(y)
        calls += 1
    assert calls > 10
    future.result()


@pytest.mark.slow
def test_a_call_costs_at_most_half_of_its_kernels_called_one_by_one() -> None:
    assert calls.overhead() <= 0.5


@pytest.mark.usefixtures("node_by_node")
@pytest.mark.parametrize("count", few([1, 5, 14, 15, 16, 40], 2))
def test_a_graph_takes_any_number_of_inputs(count: int) -> None:
    b = Builder("many")
    inputs = [b.input((3, 2), name=f"x{number}") for number in range(count)]
    value = b("relu", inputs[0])
    for other in inputs[1:]:
        value = b("softmax", b("add", value, other), dim=-1)
    g = b.finish(value, inputs[-1])
    compiled = g.compile(threads=1)
    for _ in range(3):
        for found, wanted in zip(compiled(*arguments(g)), g.run(*arguments(g)), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(tl.CallError, match=re.escape(f"many: input x{count - 1}: float32[3, 2]: expected shape (3, 2), got (2, 3)")):
        compiled(*arguments(g)[:-1], array(2, 3))


def test_sessions_of_one_graph_share_code_and_packed_weights() -> None:
    g = branches(3, 96)
    one, two = g.compile(threads=1), g.compile(threads=1)
    for mine, theirs in zip(one.kernels, two.kernels, strict=True):
        assert mine is not theirs and mine.address == theirs.address
        packed = [kernel.program.bound for kernel in (mine, theirs)]
        assert packed[0] and all(packed[0][name] is packed[1][name] for name in packed[0])


def test_results_of_one_call_are_not_those_of_the_next() -> None:
    compiled = branches(2, 4).compile()
    first = compiled(array(4, 4))
    kept = [result.copy() for result in first]
    second = compiled(array(4, 4, seed=5))
    assert not any(np.shares_memory(one, two) for one in first for two in second)
    for result, before in zip(first, kept, strict=True):
        np.testing.assert_array_equal(result, before)


def test_what_waits_between_calls_goes_back_on_demand() -> None:
    b = Builder("large")
    g = b.finish(b("softmax", b("softmax", b.input((256, 1024)), dim=-1), dim=0))
    compiled = g.compile(threads=1)
    assert compiled.plan.bytes >= 256 * 1024 * 4
    x = array(256, 1024)
    before = compiled(x)[0]
    tl.release_workspaces()
    np.testing.assert_array_equal(compiled(x)[0], before)


@pytest.mark.usefixtures("node_by_node")
def test_a_change_of_the_number_of_threads_plans_again() -> None:
    b = Builder("wide")
    g = b.finish(b("softmax", b("softmax", b.input((64, 5000)), dim=-1), dim=-1))
    x = array(64, 5000)
    threads = tl.get_threads()
    try:
        tl.set_threads(2)
        compiled = g.compile()  # for threads, as many as there will be
        tl.set_threads(1)
        wanted, one = compiled(x)[0], compiled.plan.bytes
        tl.set_threads(3)
        np.testing.assert_array_equal(compiled(x)[0], wanted)
        assert compiled.plan.bytes > one
    finally:
        tl.set_threads(threads)


@pytest.mark.usefixtures("node_by_node")
def test_views_that_cannot_be_seen_are_copied_before_they_are_read() -> None:
    b = Builder("moved")
    x = b.input((3, 4), name="x")
    flat = b("reshape", b("permute", x, dims=(1, 0)), shape=(12,))
    held = b("reshape", b("permute", b.constant(array(3, 4, seed=3), "held"), dims=(1, 0)), shape=(12,))
    g = b.finish(b("add", b("relu", flat), held), flat, b("reshape", flat, shape=(2, 6)))
    compiled = g.compile(threads=1, passes=())
    given = array(3, 4)
    for found, wanted in zip(compiled(given), g.run(given), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert sum(" = a copy (" in str(step) for step in compiled.steps) == 1, "of the second output"
