"""Stages that stand beside one another and touch the same rows run in one loop where the model says that this is faster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.signal import lfilter

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.lowering.program import lower_program
from tensorlang.schedules.directives.fold_storage import FoldStorage
from tensorlang.schedules.directives.fuse_loops import FuseLoops
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.loops.neighbours import may_meet
from tests.schedules.programs import code_and_reason

ZNVER4 = target("znver4")


def waves(n: int, steps: int) -> tl.Tensor:
    """The wave equation: each step keeps the state before it."""

    def step(_: Any, state: Any) -> Any:
        now, before = state

        def element(i: Any, j: Any) -> Any:
            bent = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1] - 4 * now[i, j]
            inside = (i > 0) & (i < n - 1) & (j > 0) & (j < n - 1)
            return tl.select(inside, 2 * now[i, j] - before[i, j] + 0.2 * bent, 0.0)

        return tl.compute((n, n), element, name="next"), now

    now, before = (tl.placeholder((n, n), name=name) for name in ("now", "before"))
    found: tl.Tensor = tl.scan(step, (now, before), steps, keep="last", name="waves")[0]
    return found


def _waves(now: Any, before: Any, steps: int) -> Any:
    for _ in range(steps):
        following = np.zeros_like(now)
        inner = now[1:-1, 1:-1]
        bent = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4 * inner
        following[1:-1, 1:-1] = 2 * inner - before[1:-1, 1:-1] + np.float32(0.2) * bent
        now, before = following, now
    return now


@pytest.mark.parametrize(("n", "steps"), [(1, 1), (5, 4), (200, 3)])
def test_waves_are_what_numpy_says(n: int, steps: int) -> None:
    now, before = np.random.default_rng(0).random((2, n, n), dtype="float32")
    expected = _waves(now, before, steps) if n > 1 else np.zeros_like(now)
    np.testing.assert_allclose(tl.build(waves(n, steps))(now, before), expected, rtol=1e-4, atol=1e-5)


def test_what_keeps_a_state_runs_in_the_rows_of_what_reads_it() -> None:
    strategy = choose(waves(400, 20), ZNVER4, 1)
    assert strategy.default["together"]
    s = strategy.schedule(strategy.default)
    assert next(step for step in s.directives if isinstance(step, FuseLoops)) == FuseLoops("next.i", "waves_1.next.i0")
    assert not s.faults


def test_both_ways_are_points_that_compute_the_same() -> None:
    strategy = choose(waves(200, 3), target("native"), 1)
    now, before = np.random.default_rng(1).random((2, 200, 200), dtype="float32")
    for together in (False, True):
        s = strategy.schedule({**strategy.default, "together": together})
        np.testing.assert_allclose(tl.build(s)(now, before), _waves(now, before, 3), rtol=1e-4, atol=1e-5)


def test_what_the_first_level_holds_is_no_choice() -> None:
    assert not may_meet(tl.Schedule(lower_program(waves(40, 3))), ZNVER4)
    strategy = choose(waves(40, 3), ZNVER4, 1)
    assert FuseLoops("next.i", "waves_1.next.i0") not in strategy.schedule({**strategy.default, "together": True}).directives


def test_what_begins_a_sum_is_no_neighbour_of_it() -> None:
    a, b = (tl.placeholder((256, 256), name=name) for name in "AB")
    assert not may_meet(tl.Schedule(lower_program(tl.ops.matmul(a, b))), ZNVER4)


@pytest.mark.parametrize("away", [0, 1])
def test_rows_that_are_not_there_yet_keep_loops_apart(away: int) -> None:
    rows, columns = 700, 600
    a = tl.placeholder((rows + 1, columns), name="A")
    first = tl.compute((rows, columns), lambda i, j: a[i, j] * 2, name="B")
    second = tl.compute((rows, columns), lambda i, j: first[tl.minimum(i + away, rows - 1) if away else i, j] + a[i, j], name="C")
    assert may_meet(tl.Schedule(lower_program([first, second])), ZNVER4) == (away == 0)
    strategy = choose([first, second], target("native"), 1)
    values = np.random.default_rng(2).random((rows + 1, columns), dtype="float32")
    for config in strategy.space.sample(np.random.default_rng(away), 2):
        b, c = tl.build(strategy.schedule(config))(values)
        np.testing.assert_array_equal(b, values[:rows] * 2)
        np.testing.assert_array_equal(c, b[np.minimum(np.arange(rows) + away, rows - 1)] + values[:rows])


def test_loops_inside_of_those_of_one_image_are_tried_with_them() -> None:
    """Around a single image there is nothing to gain; channel by channel there is."""
    shape = 1, 64, 64, 80
    a = tl.placeholder(shape, name="A")
    first = tl.compute(shape, lambda m, c, i, j: a[m, c, i, j] * 2, name="B")
    second = tl.compute(shape, lambda m, c, i, j: first[m, c, 63 - i, j] + a[m, c, i, j], name="C")
    strategy = choose([first, second], ZNVER4, 1)
    s = strategy.schedule(strategy.default)
    assert [step for step in s.directives if isinstance(step, FuseLoops)] == [FuseLoops("B.m", "C.m"), FuseLoops("B.c", "C.c")]
    values = np.random.default_rng(3).random(shape, dtype="float32")
    b, c = tl.build(s)(values)
    np.testing.assert_array_equal(b, values * 2)
    np.testing.assert_array_equal(c, b[:, :, ::-1] + values)


def cloth(n: int, steps: int) -> tl.Tensor:
    """Two states: the second, a speed, is told by neighbours of the first, and moves it."""

    def step(_: Any, state: Any) -> Any:
        at, speed = state

        def bent(i: Any, j: Any) -> Any:
            return tl.tanh(at[tl.maximum(i - 1, 0), j] + at[tl.minimum(i + 1, n - 1), j] - 2 * at[i, j])

        faster = tl.compute((n, n), lambda i, j: 0.9 * speed[i, j] + bent(i, j), name="faster")
        return tl.compute((n, n), lambda i, j: at[i, tl.maximum(j - 1, 0)] + 0.1 * faster[i, j], name="moved"), faster

    at, speed = (tl.placeholder((n, n), name=name) for name in ("at", "speed"))
    found: tl.Tensor = tl.scan(step, (at, speed), steps, keep="last", name="cloth")[0]
    return found


def test_threads_share_one_loop_of_two_stages_over_the_same_rows() -> None:
    strategy = choose(cloth(128, 30), ZNVER4, 2)
    s = strategy.schedule(strategy.default)
    assert FuseLoops("faster.i", "moved.i") in s.directives
    assert str(s).count("parallel i in") == 1


def test_what_threads_share_is_right() -> None:
    n, steps = 40, 12
    at, speed = np.random.default_rng(0).random((2, n, n), dtype="float32")
    s = tl.Schedule(cloth(n, steps))
    s.parallel("faster.i")
    s.parallel("moved.i")
    s.fuse_loops("faster.i", "moved.i")
    found = tl.build(s)(at, speed)
    for _ in range(steps):
        edged = np.pad(at, ((1, 1), (0, 0)), mode="edge")
        speed = 0.9 * speed + np.tanh(edged[:-2] + edged[2:] - 2 * at)
        at = np.pad(at, ((0, 0), (1, 0)), mode="edge")[:, :-1] + 0.1 * speed
    np.testing.assert_allclose(found, at, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("above", [-1, 1])
def test_parallel_loops_of_which_one_reads_other_rows_of_the_other_stay_apart(above: int) -> None:
    x = tl.placeholder((20, 20), name="X")
    y = tl.compute((20, 20), lambda i, j: x[i, j] * 2, name="Y")
    s = tl.Schedule(tl.compute((20, 20), lambda i, j: y[tl.clamp(i + above, 0, 19), j] + 1, name="Z"))
    if above < 0:
        assert s.copy().can("fuse_loops", "Y.i", "Z.i")  # in turn each row is there
    s.parallel("Y.i")
    reason = "the loop 'i' is already parallel; join it before"
    assert code_and_reason(s, "fuse_loops", "Y.i", "Z.i") == ("TL-S107", reason)
    s.parallel("Z.i")
    assert code_and_reason(s, "fuse_loops", "Y.i", "Z.i")[0] == "TL-S101"


def sections(n: int, count: int) -> tl.Tensor:
    """A signal through recursive filters of the second order, one after the other."""
    x, c = tl.placeholder((n,), "float64", name="x"), tl.placeholder((count, 4), "float64", name="c")
    signal = x
    for k in range(count):

        def filtered(t: Any, y: Any, k: int = k, signal: Any = signal) -> Any:
            past = tl.select(t >= 1, signal[tl.maximum(t - 1, 0)], 0.0)
            return c[k, 0] * signal[t] + c[k, 1] * past - c[k, 2] * y[t - 1] - c[k, 3] * y[t - 2]

        signal = tl.recurrence((n,), lambda t, y, filtered=filtered: filtered(t, y), name=f"y{k}")
    return signal


@pytest.mark.parametrize("cpu", ["haswell", "znver3", "znver4", "cascadelake"])
def test_filters_that_wait_for_themselves_wait_together(cpu: str) -> None:
    strategy = choose(sections(10_000, 3), target(cpu), 1)
    s = strategy.schedule(strategy.default)
    assert sum(isinstance(step, FuseLoops) for step in s.directives) >= 2 and not s.faults
    apart = strategy.schedule({**strategy.default, "together": False})
    machine = target(cpu)
    assert s.estimate(machine).seconds < 0.6 * apart.estimate(machine).seconds


@pytest.mark.parametrize("n", [1, 2, 17, 5000])
def test_filters_in_one_loop_are_scipys(n: int) -> None:
    rng = np.random.default_rng(n)
    x, c = rng.standard_normal(n), rng.uniform(-0.4, 0.4, (3, 4))
    want = x
    for b0, b1, a1, a2 in c:
        want = lfilter([b0, b1], [1, a1, a2], want)
    np.testing.assert_allclose(tl.build(sections(n, 3))(x, c), want, rtol=1e-9, atol=1e-12)


def sums(n: int) -> list[tl.Tensor]:
    """The sums of words, of these, and of these again."""
    x = tl.placeholder((n,), "int16", name="x")
    found = [tl.compute((n,), lambda i: tl.cast(x[i], "int64"), name="wide")]
    for k in range(3):
        found.append(tl.recurrence((n,), lambda i, me, k=k: me[i - 1] + found[k][i], name=f"sum{k}"))
    return found[1:]


@pytest.mark.parametrize("cpu", ["haswell", "znver3", "znver4", "cascadelake"])
def test_sums_of_sums_in_one_loop_keep_the_last_of_each(cpu: str) -> None:
    strategy = choose(sums(20_000)[-1], target(cpu), 1)
    s = strategy.schedule(strategy.default)
    assert {step for step in s.directives if isinstance(step, FoldStorage)} == {FoldStorage(f"sum{k}", 0, 1) for k in range(2)}
    assert not s.faults


@pytest.mark.parametrize("results", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 16, 20_000])
def test_sums_of_sums_are_numpys_and_results_are_stored(n: int, results: int) -> None:
    x = np.random.default_rng(n).integers(-9, 9, n).astype("int16")
    want = [x.cumsum(), x.cumsum().cumsum(), x.cumsum().cumsum().cumsum()]
    found = tl.build(sums(n)[-results:])(x)
    for got, sum_of in zip(found if results > 1 else [found], want[-results:], strict=True):
        np.testing.assert_array_equal(got, sum_of)


def test_a_step_that_needs_what_the_next_filter_made_before_waits_for_both() -> None:
    """Two states of a scan tell one another, so that a step is as long as both chains."""
    start = tuple(tl.placeholder((4,), "float64", name=name) for name in "ab")

    def step(_: Any, state: Any) -> Any:
        a, b = state
        first = tl.compute((4,), lambda i: a[i] * 0.5 + b[i], name="first")
        return first, tl.compute((4,), lambda i: b[i] * 0.25 - first[i], name="second")

    outputs = tl.scan(step, start, 50, keep="last", name="pair")
    a, b = np.random.default_rng(0).random((2, 4))
    got = tl.build(outputs)(a, b)
    for _ in range(50):
        a = a * 0.5 + b
        b = b * 0.25 - a
    np.testing.assert_allclose(got, (a, b), rtol=1e-9)
