"""Threads share the loop that costs least: outermost, with even parts, packing inside of it."""

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ir
from tensorlang.codegen.target import target
from tensorlang.ir import For
from tensorlang.ir.integers import value_of
from tensorlang.ir.mentions import allocations
from tensorlang.ir.traverse import statements
from tensorlang.schedules.rewriting.edit import literal_extent
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.loops.thread_loop import ThreadLoop, cheapest_thread_loop
from tests.thinned import crossed

WORK, FORK = 3e-2, 4e-6


def test_a_fork_for_each_iteration_of_the_loops_around_is_dear() -> None:
    assert cheapest_thread_loop([ThreadLoop("outer", 8, 1), ThreadLoop("inner", 64, 1000)], WORK, 0, 2, FORK) == "outer"


def test_uneven_parts_leave_threads_waiting() -> None:
    assert cheapest_thread_loop([ThreadLoop("three", 3, 1), ThreadLoop("many", 100, 4)], WORK, 0, 2, FORK) == "many"
    assert cheapest_thread_loop([ThreadLoop("four", 4, 1), ThreadLoop("many", 100, 4)], WORK, 0, 2, FORK) == "four"


def test_the_last_tile_runs_when_the_others_are_done() -> None:
    """It is peeled: of two tiles of which one is not whole, one thread has both."""
    loops = [ThreadLoop("two", 1, 1, rest=0.9), ThreadLoop("many", 20, 2, rest=0.9)]
    assert cheapest_thread_loop(loops, WORK, 0, 2, FORK) == "many"
    assert cheapest_thread_loop(loops[:1], WORK, 0, 2, FORK) == "none"
    assert ThreadLoop("three", 2, 1, rest=0.5).seconds(1.0, 2, 0.0) == pytest.approx(1.5 / 2.5)


def test_what_stays_outside_is_not_shared() -> None:
    assert cheapest_thread_loop([ThreadLoop("inside", 64, 1, WORK), ThreadLoop("around", 64, 1)], WORK, WORK, 2, FORK) == "around"


@pytest.mark.parametrize("threads", [2, 4, 64])
def test_little_work_stays_on_one_thread(threads: int) -> None:
    assert cheapest_thread_loop([ThreadLoop("outer", 64, 1)], FORK, 0, threads, FORK) == "none"
    assert cheapest_thread_loop([ThreadLoop("outer", 1, 1)], WORK, 0, threads, FORK) == "none"
    assert cheapest_thread_loop([], WORK, 0, threads, FORK) == "none"


@crossed(
    {
        "threads": [2, 4, 8],
        "definition": [
            lambda P: tl.ops.matmul(P((512, 512), name="A"), P((512, 768), name="B")),
            lambda P: tl.ops.batch_matmul(P((24, 128, 128), name="A"), P((24, 128, 128), name="B")),
            lambda P: tl.ops.conv2d(P((1, 128, 28, 28), name="X"), P((128, 128, 3, 3), name="W"), padding=1),
            lambda P: tl.ops.attention(*(P((24, 512, 64), name=name) for name in "QKV")),
        ],
    }
)
def test_a_default_whose_parts_are_even_forks_once(definition, threads: int) -> None:
    strategy = choose((definition(tl.placeholder),), target("x86-64-v4"), threads)
    nest = strategy.schedule(strategy.default).nest
    shared = [part for part in statements(nest.body) if isinstance(part, For) and part.kind == "parallel"]
    repeated = [part for part in statements(nest.body) if isinstance(part, For) and literal_extent(part) != 1]
    assert shared and not [inner.loop for part in repeated for inner in statements(part.body) if inner in shared]


@pytest.mark.parametrize("side", [14, 28, 56])
def test_an_image_alone_is_shared_by_rows_or_channels(side: int) -> None:
    """Its batch has one iteration, which threads cannot share; what they share is forked for once, and has even parts."""
    X, W = tl.placeholder((1, 64, side, side), name="X"), tl.placeholder((64, 64, 3, 3), name="W")
    strategy = choose(tl.ops.conv2d(X, W, padding=1), target("znver4"), 2)
    nest = strategy.schedule(strategy.default).nest
    shared = [
        part for part in statements(nest.body) if isinstance(part, For) and part.kind == "parallel" and part.loop.startswith("conv2d.")
    ]
    around = [part for part in statements(nest.body) if isinstance(part, For) and any(inner in shared for inner in statements(part.body))]
    assert shared and all(part.lo == ir.const(0) and part.hi == ir.const(1) for part in around if part not in shared)


def test_what_stands_in_the_steps_of_a_scan_forks_in_each() -> None:
    x = tl.placeholder((200, 200), name="D")
    step = lambda t, d: tl.compute((200, 200), lambda i, j: tl.minimum(d[i, j], d[i, t] + d[t, j]), name="d")  # noqa: E731
    strategy = choose(tl.scan(step, x, 200, keep="last"), target("znver4"), 2)
    assert not [
        loop for loop in statements(strategy.schedule(strategy.default).nest.body) if isinstance(loop, For) and loop.kind == "parallel"
    ]


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("shape", [(9, 70, 500), (1, 64, 700), (40, 33, 49), (30, 16, 400)])
def test_every_loop_that_threads_may_share_gives_the_same(shape: tuple[int, int, int], threads: int) -> None:
    m, k, n = shape
    A, B = tl.placeholder((m, k), name="A"), tl.placeholder((k, n), name="B")
    strategy = choose(tl.ops.matmul(A, B), target(), threads)
    a, b = (np.random.default_rng(0).integers(-4, 4, part).astype(np.float32) for part in ((m, k), (k, n)))
    knob = next(knob for knob in strategy.space.knobs if knob.name == "parallel")
    for value in knob.values:
        for order in next((knob.values for knob in strategy.space.knobs if knob.name == "order"), ("",)):
            point = {**strategy.default, "parallel": value, **({"order": order} if order else {})}
            if strategy.space.contains(point):
                s = strategy.schedule(point)
                assert not s.faults
                assert np.array_equal(tl.build(s)(a, b), a @ b)


def test_columns_are_shared_where_parts_of_the_depth_stand_around_them() -> None:
    A, B = tl.placeholder((32, 4096), name="A"), tl.placeholder((4096, 4096), name="B")
    strategy = choose(tl.ops.matmul(A, B), target("znver4"), 4)
    assert strategy.default["order"][0] == "k" and strategy.default["parallel"] == "columns"
    loops = [part for part in statements(strategy.schedule(strategy.default).nest.body) if isinstance(part, For)]
    assert loops[0].kind == "parallel" and loops[0].hi == ir.const(4)


def test_a_thread_keeps_partial_sums_of_a_few_columns_at_a_time() -> None:
    """However many each has of a row: those of all would be more than a kernel may keep."""
    A, B = tl.placeholder((1, 4096), name="A"), tl.placeholder((4096, 1 << 25), name="B")
    strategy = choose(tl.ops.matmul(A, B), target("znver4"), 2)
    s = strategy.schedule({**strategy.default, "parallel": "columns"})
    assert not s.faults
    assert all(value_of(extent, {}) <= 1024 for buffer in allocations(s.nest.body) for extent in buffer.shape)
