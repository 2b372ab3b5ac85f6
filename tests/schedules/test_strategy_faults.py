"""What a strategy is refused stands on the schedule and in the report; what may be illegal, it asks before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen import compilation
from tensorlang.codegen.compilation import plain_loops
from tensorlang.codegen.target import target
from tensorlang.errors import ScheduleError
from tensorlang.schedules.directives.loop_kinds import Parallel, Vectorize
from tensorlang.schedules.directives.reverse_compute_inline import ReverseComputeInline
from tensorlang.schedules.faults import TOO_MUCH_CODE, Fault, unforeseen
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.contractions.micro_kernel import LanewiseProducts
from tests.schedules.programs import matmul


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A micro-kernel that vectorizes a loop which is not there."""
    monkeypatch.setattr(LanewiseProducts, "compute", lambda _self, s, _lanes: s.vectorize("nowhere"))


def default(outputs: object, threads: int = 1) -> Schedule:
    strategy = choose(outputs, target("znver4"), threads)
    schedule: Schedule = strategy.schedule(strategy.default)
    return schedule


@pytest.mark.usefixtures("faulty")
def test_a_refused_step_is_recorded_and_the_stage_keeps_its_plain_loops(strategy_faults: list[Fault]) -> None:
    s = default(matmul())
    (fault,) = s.faults
    assert (fault.stage, fault.code, s.directives) == ("C", "TL-S001", ())
    assert "there is no loop 'nowhere'" in fault.reason
    assert strategy_faults == [fault]
    strategy_faults.clear()


@pytest.mark.usefixtures("faulty")
def test_copies_keep_faults_and_the_repr_shows_them_in_comments(strategy_faults: list[Fault]) -> None:
    s = default(matmul())
    strategy_faults.clear()
    assert s.copy().faults == s.faults
    assert repr(s).splitlines()[-1].startswith("# C keeps its plain loops: ")
    compile(repr(s), "schedule", "exec")


@pytest.mark.usefixtures("faulty")
def test_a_report_says_what_was_refused(strategy_faults: list[Fault], tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORLANG_CACHE_DIR", str(tmp_path))
    report = tl.build(matmul(9, 13, 6)).report(repeats=1)
    strategy_faults.clear()
    assert [text.split(":")[0] for text in report.faults] == ["C keeps its plain loops"]
    assert report.faults[0] in " ".join(str(report).split())
    assert report.to_json()["faults"] == list(report.faults)


def test_users_steps_are_no_faults() -> None:
    s = Schedule(matmul())
    with pytest.raises(ScheduleError):
        s.vectorize("nowhere")
    assert s.faults == ()


def test_a_scatter_that_may_write_an_element_twice_has_no_tile_in_registers() -> None:
    at, x, y = tl.placeholder((24,), "int32", name="at"), tl.placeholder((24,), name="x"), tl.placeholder((12,), name="y")
    zeros = tl.compute((8,), lambda _: 0.0, name="Z")
    p, q = tl.reduce_axis(12, name="p"), tl.reduce_axis(24, name="q")
    highest = tl.scatter(zeros, (p, q), lambda _, q: tl.clamp(at[q], 0, 7), lambda p, q: x[q] * y[p], reduce="max", name="S")
    s = default(highest)
    assert (s.faults, [step for step in s.directives if getattr(step, "tensor", "") == "S"]) == ((), [])


def test_a_scatter_whose_places_its_loops_tell_has_a_tile_in_registers_where_no_two_are_one() -> None:
    x = tl.placeholder((15,), name="x")
    start = tl.compute((2,), lambda _: 9.0, name="Z")
    p, q = tl.reduce_axis(15, name="p"), tl.reduce_axis(1, name="q")
    s = default(tl.scatter(start, (p, q), lambda p, _: p % 2, lambda p, _: tl.minimum(x[p], x[p]), reduce="min", name="S"))
    given = np.random.default_rng(0).random(15, dtype=np.float32)
    assert s.faults == ()
    assert np.array_equal(tl.build(s)(given), [given[::2].min(), given[1::2].min()])


def test_a_scatter_that_no_data_let_run_has_no_lanes_that_share_an_element() -> None:
    """The statement alone is safe in any order, and the ends of its tile are not."""
    at = tl.placeholder((8,), "int64", name="at")
    start = tl.compute((17,), lambda x: tl.cast(x, "int32"), name="Z")
    p, q = tl.reduce_axis(15, name="p"), tl.reduce_axis(8, name="q")

    def never(p: Any, q: Any) -> Any:
        return (at[q] >= 0) & (at[q] < 17) & (p >= 0) & (at[q] > at[q])

    s = default(tl.scatter(start, (p, q), lambda p, q: at[q], lambda p, q: tl.cast(p + q, "int32"), "max", where=never, name="S"))
    assert s.faults == ()


def test_partial_sums_of_lanes_are_asked_for_one_by_one() -> None:
    n, m = tl.dim("n"), tl.dim("m")
    x = tl.placeholder((n, n, m), name="x")
    q, p = tl.reduce_axis(m, name="q"), tl.reduce_axis(n, name="p")
    mean = tl.compute((n,), lambda i: tl.sum(x[i, p, q], axis=(q, p)) / 3, name="S")
    s = default(mean)
    assert s.faults == ()
    assert [step for step in s.directives if isinstance(step, Vectorize)]


def test_the_steps_of_a_scan_of_none_get_no_tiles() -> None:
    x = tl.placeholder((8, 16), name="X")
    u = tl.reduce_axis(3, name="u")

    def blur(_t: Any, state: Any) -> Any:
        rows = tl.pad(state, ((1, 1), (0, 0)))
        return tl.compute((8, 16), lambda i, j: tl.sum(rows[i + u, j], axis=u), name="c")

    last = tl.scan(blur, x, 0, keep="last")
    assert default(last).faults == ()
    given = np.arange(128, dtype=np.float32).reshape(8, 16)
    np.testing.assert_array_equal(tl.build(last)(given), given)


def test_a_result_that_is_computed_from_tiles_has_no_rows_of_its_own() -> None:
    m, n = tl.dim("m"), tl.dim("n")
    y, k = tl.placeholder((n, n), name="Y"), tl.reduce_axis(n, name="k")
    copies = tl.compute((m, n, n), lambda _, a, b: y[a, b] + 1, name="t1")
    product = tl.compute((n, n), lambda i, j: tl.sum(y[i, k] * y[k, j], axis=k), name="P")
    both = copies, tl.compute((n, n), lambda i, j: product[i, j] + 1, name="Q")
    s = default(both)
    assert s.faults == ()
    assert [step for step in s.directives if isinstance(step, ReverseComputeInline)]
    given = np.arange(9, dtype=np.float32).reshape(3, 3)
    np.testing.assert_array_equal(tl.build(both)(given, m=2)[1], given @ given + 1)


def test_a_contraction_inside_the_rows_of_another_stage_does_not_fork() -> None:
    a, b, e = tl.placeholder((2000, 8), name="A"), tl.placeholder((8, 64), name="B"), tl.placeholder((2000, 64, 100), name="E")
    k = tl.reduce_axis(8, name="k")
    c = tl.compute((2000, 64), lambda i, j: tl.sum(a[i, k] * b[k, j], axis=k), name="C")
    f = tl.compute((2000, 64, 100), lambda i, j, q: c[i, j] * e[i, j, q] + c[i, j], name="F")
    s = default(f, threads=4)
    assert [step.loop for step in s.directives if isinstance(step, Parallel)] == ["F.i"]


def test_the_default_of_a_wide_product_of_one_row_is_a_point_whose_epilogue_sums_the_whole_depth() -> None:
    a, x = tl.placeholder((40, 200_000), name="A"), tl.placeholder((40,), name="x")
    k = tl.reduce_axis(40, name="k")
    y = tl.compute((200_000,), lambda i: tl.sum(a[k, i] * x[k], axis=k), name="y")
    z = tl.compute((200_000,), lambda i: tl.maximum(y[i], 0), name="z")
    strategy = choose(z, target("znver4"), 1)
    assert strategy.default in strategy.space
    assert "s.accumulate('y'" in repr(strategy.schedule(strategy.default))
    given = [np.ones((40, 200_000), np.float32), np.full(40, 0.5, np.float32)]
    np.testing.assert_array_equal(tl.build(z)(*given), np.full(200_000, 20, np.float32))


def test_elements_that_the_inner_loop_of_a_scatter_tells_are_summed_in_registers_around_the_other_loop() -> None:
    n, x = tl.dim("n"), tl.placeholder((64,), name="x")
    p, q = tl.reduce_axis(n, name="p"), tl.reduce_axis(64, name="q")
    summed = tl.scatter(x, (p, q), lambda _, q: q, lambda p, q: tl.cast(p + q, "float32"), name="S")
    s = default(summed)
    assert (s.faults, s.loops("S")[-1]) == ((), "S.q_i")
    assert "s.accumulate('S', at='S.q_o')" in repr(s)
    given = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(tl.build(summed)(given, n=9), given + 9 * np.arange(64) + 36)


@pytest.mark.parametrize("extents", [(0, 64), (64, 0)])
def test_a_stage_that_never_runs_gets_no_directives(extents: tuple[int, int]) -> None:
    size, length = extents
    x, start = tl.placeholder((64,), name="x"), tl.placeholder((size,), name="start")
    p = tl.reduce_axis(length, name="p")
    s = default(tl.scatter(start, p, lambda p: p, lambda p: x[p], where=lambda p: p < size, name="S"))
    assert (s.faults, s.loops("S"), [step for step in s.directives if getattr(step, "loop", "").startswith("S.p")]) == ((), ("S.p",), [])


def test_a_strategy_that_breaks_costs_speed_and_not_the_kernel(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The report and the schedule tell of it, and one line in the log asks to report it."""
    monkeypatch.setattr(compilation, "plain_loops", plain_loops)
    monkeypatch.setattr(LanewiseProducts, "compute", lambda *_: list[str]().pop())
    product = matmul(10, 14, 7)
    s = compilation.default_schedule(product, target("native"))
    (fault,) = s.faults
    assert s.directives == () and str(fault).startswith(
        "C keeps its plain loops: the choice of a schedule was refused, internal: IndexError"
    )
    assert [record.levelname for record in caplog.records] == ["WARNING"] and "please report this" in caplog.text
    a, b = np.random.default_rng(0).random((10, 7), "f4"), np.random.default_rng(1).random((7, 14), "f4")
    np.testing.assert_allclose(tl.build(product)(a, b), a @ b, rtol=1e-5)


def test_sums_of_which_a_scatter_reads_where_it_writes_have_a_default_schedule() -> None:
    """Beside its index it reads nothing of the program, so that no reader of tiles is to be computed from them."""
    x = tl.placeholder((3, 26), "int64", name="X")
    k, r = tl.reduce_axis(3, name="k"), tl.reduce_axis(26, name="r")
    total = tl.compute((26,), lambda i: tl.sum(x[k, i], axis=k), name="S")
    zero = tl.compute((13,), lambda b: tl.cast(0, "int64"), name="Z")
    last = tl.scatter(zero, r, lambda r: tl.clamp(total[r], 0, 12), lambda r: tl.cast(r, "int64"), "max", name="T")
    data = np.arange(78).reshape(3, 26) % 5
    wanted = np.zeros(13, "int64")
    np.maximum.at(wanted, np.minimum(data.sum(0), 12), np.arange(26))
    assert not default(last).faults
    np.testing.assert_array_equal(tl.build(last)(data), wanted)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_sorting_network_is_not_written_into_one_expression(dtype: str) -> None:
    """Each of its stages that is computed anew where it is read doubles the code."""
    x = tl.placeholder((4, 32), dtype, name="X")
    network: tl.Tensor = x
    for k, j in ((2 << up, 1 << down) for up in range(5) for down in reversed(range(up + 1))):

        def exchanged(q: Any, i: Any, rows: Any = network, j: int = j, k: int = k) -> Any:
            own, other, up, low = rows[q, i], rows[q, i ^ j], (i & k) == 0, (i & j) == 0
            return tl.select((up & low) | (~up & ~low), tl.minimum(own, other), tl.maximum(own, other))

        network = tl.compute((4, 32), exchanged, name="N")
    median = tl.compute((4,), lambda q: network[q, 16], name="M")
    given = np.random.default_rng(0).integers(0, 200, (4, 32)).astype(dtype)
    assert not unforeseen(default(median).faults)
    np.testing.assert_array_equal(tl.build(median)(given), np.sort(given, 1)[:, 16])


def test_a_default_that_is_too_much_code_once_it_is_lowered_gives_way_to_plain_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "MAX_EMITTED", 100)
    s = compilation.default_schedule(matmul(64, 64, 64), target("znver4"))
    (fault,) = s.faults
    assert (s.directives, fault.stage, fault.code) == ((), "C", TOO_MUCH_CODE)
    assert str(fault).startswith("C keeps its plain loops: the default schedule was refused, TL-S202: the code would be about ")


def powers(terms: int) -> tl.Tensor:
    """Little to write down, and much code."""
    x = tl.placeholder((64,), "float64", name="X")
    made: tl.Tensor = tl.compute((64,), lambda i: sum(((x[i] ** (0.5 + n)) ** 1.25 for n in range(terms)), start=x[i]), name="Y")
    return made


def test_a_stage_whose_lanes_are_too_much_code_is_told_of() -> None:
    large = powers(60)
    s = default(tl.compute((64,), lambda i: tl.sqrt(large[i]), name="S"))
    (fault,) = s.faults
    assert str(fault).startswith("Y keeps its plain loops: s.vectorize('Y.i_i') was refused, TL-S202: the code would be about ")
    assert [step.loop for step in s.directives if isinstance(step, Vectorize)] == ["S.i_i"]


def test_of_vectors_that_are_too_much_code_together_there_is_one() -> None:
    strategy = choose(powers(30), target("x86-64-v3"), 1)
    s = strategy.schedule(strategy.default)
    assert strategy.default["vectors"] > 1 and not s.faults
    assert "s.split('Y.i', 4, tail='peel')" in repr(s) and isinstance(s.directives[-1], Vectorize)


def test_a_product_inside_the_steps_of_a_scan_has_lanes_along_its_result() -> None:
    """It is computed as a stage of its own, in the step."""
    a, b, k = tl.placeholder((48, 48), name="A"), tl.placeholder((20, 48), name="B"), tl.reduce_axis(48, name="k")
    step = lambda t, v: tl.compute((48,), lambda j: tl.max(v[k] + a[k, j], axis=k) + b[t, j], name="V")  # noqa: E731
    best = tl.scan(step, tl.placeholder((48,), name="v"), 20, keep="last")
    s = default(best)
    assert s.faults == ()
    assert [step.loop for step in s.directives if isinstance(step, Vectorize) and step.loop.startswith("V")] == ["V.1.j_i"]
    rng = np.random.default_rng(0)
    given = [rng.random(shape, np.float32) for shape in ((48, 48), (20, 48), (48,))]
    wanted = given[2]
    for row in given[1]:
        wanted = (wanted[:, None] + given[0]).max(0) + row
    np.testing.assert_allclose(tl.build(best)(*given), wanted, rtol=1e-6)


def test_rows_that_are_all_alike_are_stored_along_themselves() -> None:
    """As a contraction whose lanes are the other axis they would be stored an element at a time."""
    for n in (300, tl.dim("n", 1, 1000)):
        x, r = tl.placeholder((n,), "uint16", name="X"), tl.reduce_axis(8, name="r")
        highest = tl.compute((n, n), lambda i, j, x=x, n=n, r=r: tl.max(x[tl.clamp(i + r, 0, n - 1)], axis=r), name="H")
        s = default(highest)
        assert {step.loop for step in s.directives if isinstance(step, Vectorize) and step.loop.startswith("H.")} == {"H.j_i"}
        given = np.arange(300, dtype=np.uint16)[::-1].copy()
        wanted = [given[i : i + 8].max() for i in range(300)]
        np.testing.assert_array_equal(tl.build(highest)(given), np.repeat(np.array(wanted)[:, None], 300, 1))


def test_rows_of_a_program_of_any_extent_are_not_counted_one_by_one() -> None:
    """Blocks of rows that do not stay in the cache are not looked at: there may be 2**36 of them."""
    n, k = 1 << 36, tl.reduce_axis(64, name="k")
    x, w = tl.placeholder((n, 64), name="X"), tl.placeholder((64, 32), name="W")
    root = tl.compute((n, 64), lambda i, j: tl.sqrt(x[i, j]), name="R")
    s = default(tl.compute((n, 32), lambda i, j: tl.sum(root[i, k] * w[k, j], axis=k), name="P"))
    assert s.faults == ()


def test_tiles_that_are_too_much_code_beside_others_are_smaller_ones() -> None:
    """Each alone fits; the second of them kept its plain loops, and took ten times as long."""
    d, k = tl.placeholder((20, 45), "int32", name="d"), tl.reduce_axis(45, name="k")
    less = tl.compute((20, 45), lambda r, t: tl.sum(d[r, k] < d[r, t], axis=k), name="less")
    ties = tl.compute((20, 45), lambda r, t: tl.sum((d[r, k] == d[r, t]) & (k < t), axis=k), name="ties")
    strategy = choose((less, ties), target("znver4"), 1)
    s = strategy.schedule(strategy.default)
    assert not s.faults
    assert all(any(step.startswith(f"s.vectorize('{name}") for step in repr(s).splitlines()) for name in ("less", "ties"))
    data = np.random.default_rng(0).integers(0, 9, (20, 45)).astype("int32")
    before = np.arange(45)[:, None] < np.arange(45)
    found = tl.build((less, ties))(data)
    np.testing.assert_array_equal(found[0], (data[:, :, None] < data[:, None]).sum(1))
    np.testing.assert_array_equal(found[1], ((data[:, :, None] == data[:, None]) & before).sum(1))


@pytest.mark.parametrize(("steps", "depth", "width"), [(8, 9, 5), (8, 8, 8), (16, 32, 5), (64, 64, 64), (8, 3, 3)])
def test_a_sum_whose_condition_no_element_fulfils_has_no_strategy(steps: int, depth: int, width: int) -> None:
    """What a chunk reads of the one before it, where there is one chunk: of a sum that never runs nothing is to be tiled."""
    q, state = tl.placeholder((steps, 2, depth), name="q"), tl.placeholder((2, depth, width), name="S")
    d = tl.reduce_axis(depth, name="d")
    read = tl.compute(
        (steps, 2, width), lambda t, h, b: tl.select(t >= steps, tl.sum(q[t, h, d] * state[h, d, b], axis=d), 0.5), name="read"
    )
    given = [np.ones(part.shape, "float32") for part in (q, state)]
    assert choose(read, target("znver4"), 1).name == "rows"
    np.testing.assert_array_equal(tl.build(read)(*given), np.full((steps, 2, width), 0.5, "float32"))
