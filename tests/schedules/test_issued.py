"""What a core issues, and what waits for what: tiles and their ends, turned stores, numbers that copies share, tiles handed on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.codegen.target.cores import machine_of
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.model.parts import statements
from tensorlang.schedules.model.program import program
from tests.schedules.test_model import CASCADELAKE
from tests.strategies import programs


def tiled(m: int, n: int, k: tuple[int, ...], rows: int, columns: int) -> tl.Schedule:
    """A product in tiles of so many rows and columns; its reduction is a loop for each of the extents `k`."""
    A, B = tl.placeholder((m, *k), name="A"), tl.placeholder((*k, n), name="B")
    axes = tuple(tl.reduce_axis(extent, name=f"k{place}") for place, extent in enumerate(k))
    s = tl.Schedule(tl.compute((m, n), lambda i, j: tl.sum(A[(i, *axes)] * B[(*axes, j)], axis=axes), name="C"))
    (i_o, i_i), (j_o, j_i) = s.split("i", rows, "peel"), s.split("j", columns, "peel")
    s.reorder(j_o, i_o, *(f"k{place}" for place in range(len(k))), i_i, j_i)
    s.accumulate("C", at=i_o)
    s.vectorize(j_i)
    s.unroll(i_i)
    return s


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 6), st.sampled_from(["haswell", "znver3", "cascadelake", "znver5"]))
def test_a_tile_at_the_end_takes_what_it_takes_alone(whole, vectors, left, core):
    machine = machine_of(target(core))
    columns, end = vectors * machine.lanes(32), min(left, vectors) * machine.lanes(32)

    def arithmetic(n: int) -> float:
        return estimate(tiled(6, n, (512,), 6, columns).nest, machine).shares["arithmetic"]

    if end < columns:
        assert arithmetic(whole * columns + end) == pytest.approx(arithmetic(whole * columns) + arithmetic(end), rel=0.03)


@pytest.mark.parametrize("core", ["znver3", "haswell", "cascadelake", "znver5"])
def test_a_part_of_a_vector_takes_as_long_as_a_whole_one(core):
    """Lanes that are off in every step need not keep what they held; rows that begin off a line ask for some lines twice (3 % at most)."""
    machine = machine_of(target(core))
    lanes = machine.lanes(32)
    part, whole = (estimate(tiled(6, lanes + end, (512,), 6, lanes).nest, machine).shares["arithmetic"] for end in (lanes - 3, lanes))
    assert part == pytest.approx(whole, rel=0.04)


@pytest.mark.parametrize("core", ["znver3", "haswell", "cascadelake", "znver5"])
def test_a_single_tile_that_is_a_part_of_one_is_not_blended_either(core):
    machine = machine_of(target(core))
    lanes = machine.lanes(32)
    part, whole = (
        estimate(tiled(4, columns, (512,), 4, 2 * lanes).nest, machine).shares["arithmetic"] for columns in (2 * lanes - 3, 2 * lanes)
    )
    assert part <= 1.2 * whole  # rows that begin anywhere cost loads on any core


@given(st.integers(1, 6), st.sampled_from([(4, 4, 32), (2, 256), (64, 2, 4), (512,)]))
def test_a_sum_waits_for_itself_in_all_loops_of_its_reduction(rows, extents):
    machine = machine_of(target("znver3"))
    cycles = estimate(tiled(rows, 8, extents, rows, 8).nest, machine).shares["arithmetic"] * machine.hertz
    assert cycles >= 0.6 * machine.ports.latency * 512


def copied(m: int, n: int, lanes: str, beside: str, tile: int = 8, width: int = 8) -> tl.Schedule:
    """A transposition whose lanes, `width` of them, run along one of `i` and `j` beside `tile` of the other one."""
    X = tl.placeholder((n, m), name="X")
    s = tl.Schedule(tl.compute((m, n), lambda i, j: X[j, i], name="Y"))
    (i_o, i_i), (j_o, j_i) = (s.split(name, width if name == lanes else tile) for name in ("i", "j"))
    inner = {"i": i_i, "j": j_i}
    s.reorder(i_o, j_o, inner[beside], inner[lanes])
    s.vectorize(inner[lanes])
    s.unroll(inner[beside])
    return s


def test_stores_across_lanes_are_turned_in_registers_and_loads_across_them_are_gathered():
    stores, loads = (estimate(copied(64, 64, *loops).nest, machine_of(target("znver3"))).shares for loops in (("i", "j"), ("j", "i")))
    assert loads["arithmetic"] > 1.5 * stores["arithmetic"]
    assert loads["L1"] > 1.5 * stores["L1"]


def turned(m: int, n: int, tile: int) -> float:
    """Seconds of a transposition on a core with 16 lanes, whose results are stored in runs of `tile` numbers."""
    return estimate(copied(m, n, "i", "j", tile, 16).nest, machine_of(target("sapphirerapids"))).seconds


def test_turned_stores_that_lie_on_two_lines_wait_where_the_lines_come_from_afar():
    """Measured on a Granite Rapids: stores of whole vectors take 2.2 times those of 16 bytes, which no line's end can part."""
    near, far = (turned(m, n, 16) / turned(m, n, 4) for m, n in ((256, 272), (1040, 1040)))
    assert near < 1
    assert far > 1.3


def test_turned_rows_that_fall_into_one_set_are_stored_in_whole_lines():
    """2048 rows of 8 KiB: 16 of them have one set of L1, and a line that is stored in four parts comes in four times.

    Walks of pages take as long either way, so they are left out.
    """
    machine = machine_of(target("sapphirerapids"))
    machine = replace(machine, pages=replace(machine.pages, entries=1 << 20))
    parts, whole = (estimate(copied(2048, 2048, "i", "j", tile, 16).nest, machine).seconds for tile in (4, 16))
    assert parts > 1.5 * whole


def scaled(rows: int, columns: int, *, by_row: bool) -> float:
    """Cycles of the arithmetic of a matrix times a function of a number, of each row or of each element."""
    X = tl.placeholder((rows, columns), name="X")
    Y = tl.placeholder((rows, 1) if by_row else (rows, columns), name="Y")
    s = tl.Schedule(tl.compute((rows, columns), lambda i, j: X[i, j] * tl.tanh(Y[i, 0 if by_row else j]), name="Z"))
    s.vectorize(s.split("j", 32)[1])
    return estimate(s.nest, CASCADELAKE).shares["arithmetic"]


def test_what_does_not_follow_the_loop_of_the_lanes_is_computed_once_for_all_of_its_steps():
    """LLVM moves it out: the function of a row's number is as good as free where the row is long."""
    assert scaled(64, 4096, by_row=True) < 0.15 * scaled(64, 4096, by_row=False)


def test_copies_that_go_through_a_block_in_several_orders_read_each_of_its_elements_once():
    """Nine elements of each of 16 blocks: as they stand, turned, and one of them by itself are as many loads as in one order."""

    def loads(element: Callable[..., Any]) -> float:
        A = tl.placeholder((20000, 3, 3), name="A")
        s = tl.Schedule(tl.compute((20000, 3, 3), lambda b, i, j: element(A, b, i, j), name="T"))
        inner = s.split("b", 16)[1]
        s.reorder("i", "j", inner)
        s.vectorize(inner)
        s.unroll("j")
        s.unroll("i")
        return estimate(s.nest, CASCADELAKE).shares["L1"]

    assert loads(lambda A, b, i, j: A[b, i, j] + A[b, (j + 1) % 3, i] + A[b, 2, 0]) == pytest.approx(loads(lambda A, b, i, j: A[b, i, j]))


def test_lanes_that_read_elements_of_neighbouring_lines_read_a_run():
    """One element of each of 16 rows of 36 bytes, then the next ones: prefetchers see lines, whatever the order."""

    def waited(order: tuple[str, ...]) -> float:
        X = tl.placeholder((200000, 9), name="X")
        s = tl.Schedule(tl.compute((200000, 9), lambda b, i: 2 * X[b, i], name="Y"))
        _, inner = s.split("b", 16)
        s.reorder(*(name if name == "i" else inner for name in order))
        return estimate(s.nest, CASCADELAKE).shares["memory"]

    assert waited(("i", "b_i")) < 1.05 * waited(("b_i", "i"))


@pytest.mark.parametrize(("cpu", "often"), [("znver4", 2.0), ("cascadelake", 1.0), ("znver2", 1.0)])
def test_single_numbers_are_issued_as_often_as_the_datapath_lets_them(cpu, often):
    """Tiles of 4 rows by 4 elements of a dynamic time warping: 4.6 cycles an element on a Zen 4, whose vectors take each unit twice."""
    machine = tl.machine(cpu)
    a, b = tl.placeholder((600,), name="a"), tl.placeholder((600,), name="b")
    s = tl.Schedule(tl.recurrence((600, 600), lambda i, j, c: tl.abs(a[i] - b[j]) + tl.minimum(c[i - 1, j], c[i, j - 1]), name="C"))
    (i, ii), (j, jj) = s.split("i", 4), s.split("j", 4)
    s.reorder(i, j, jj, ii)
    s.unroll(ii)
    s.unroll(jj)
    assert machine.often(32) == often
    whole = replace(machine, ports=replace(machine.ports, narrow=1.0))
    fast, slow = (estimate(s.nest, one).shares["arithmetic"] for one in (machine, whole))
    assert fast <= slow and (fast < 0.9 * slow) == (often > 1)


def test_rows_in_lanes_hand_a_tile_on_through_memory():
    """A second-order filter of 64 rows on a Zen 4: tiles of 4 steps take 1.7 times those of 16, since each waits for the one before."""

    def seconds(tile: int) -> float:
        X = tl.placeholder((64, 4000), name="X")
        s = tl.Schedule(tl.recurrence((64, 4000), lambda i, j, y: X[i, j] + 1.1 * y[i, j - 1] - 0.4 * y[i, j - 2], name="Y"))
        (i, ii), (j, jj) = s.split("i", 8), s.split("j", tile)
        s.reorder(i, j, jj, ii)
        s.vectorize(ii)
        s.unroll(jj)
        return estimate(s.nest, tl.machine("znver4")).seconds

    assert seconds(4) > 1.25 * seconds(16)


def test_what_is_the_same_in_all_lanes_is_asked_once_in_a_body():
    """Sixteen steps of a row's past ask whether there is one; the interior of the loop has neither the questions nor the choices."""

    def slots(asks: bool) -> float:
        X = tl.placeholder((64, 4000), name="X")
        s = tl.Schedule(tl.compute((64, 4000), lambda i, j: X[i, j] + (tl.select(j >= 1, X[i, j - 1], 0.0) if asks else X[i, j]), name="Y"))
        (i, ii), (j, jj) = s.split("i", 16), s.split("j", 16)
        s.reorder(i, j, jj, ii)
        s.vectorize(ii)
        s.unroll(jj)
        return estimate(s.nest, CASCADELAKE).shares["arithmetic"]

    assert slots(asks=True) < 1.1 * slots(asks=False)


@given(programs())
def test_operations_that_stand_apart_are_some_of_those_of_their_statement(drawn):
    for statement in statements(program(tl.Schedule(drawn.outputs).nest)):
        assert 0 <= sum(part.operations for part in statement.apart) <= statement.operations


def pixels(channels: int, *, woven: bool) -> float:
    """Seconds of planes that become pixels on a Zen 4, all channels side by side or one after the other."""
    X = tl.placeholder((channels, 64, 64), name="X")
    s = tl.Schedule(tl.compute((64, 64, channels), lambda i, j, c: X[c, i, j], name="Y"))
    outer, inner = s.split("j", 16)
    s.reorder(outer, "c", inner)
    s.vectorize(inner)
    if woven:
        s.unroll("c")
    return estimate(s.nest, tl.machine("znver4")).seconds


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_rows_that_fill_what_lies_between_lanes_are_stored_as_vectors(channels):
    """Measured on a Zen 4: 1536 x 2560 pixels of three bytes in 0.5 ms, where each was stored by itself 3.8 ms."""
    assert pixels(channels, woven=True) < 0.35 * pixels(channels, woven=False)


def test_elements_that_several_lanes_take_are_loaded_together_whatever_their_bits():
    """Each column twice takes as long as by even and odd columns: of 1024 rows 163 and 167 us on a Zen 4, of bytes 33 either way."""

    def seconds(dtype: str, *, apart: bool) -> float:
        X = tl.placeholder((64, 64), dtype, name="X")
        s = tl.Schedule(tl.compute((64, 128), lambda i, j: X[i, j // 2], name="Y"))
        _, inner = s.split("j", 128)
        if apart:
            lanes, phase = s.split(inner, 2)
            s.reorder(phase, lanes)
            s.unroll(phase)
            inner = lanes
        s.vectorize(inner)
        return estimate(s.nest, tl.machine("znver4")).seconds

    for dtype in ("uint8", "float32"):
        assert 0.5 < seconds(dtype, apart=False) / seconds(dtype, apart=True) < 2


def test_pieces_with_less_than_a_line_between_them_are_a_run():
    """One channel of three: tiles of 16 pixels end 8 bytes before the next ones begin, and are read as fast as all channels are."""

    def seconds(channels: int) -> float:
        X = tl.placeholder((1536, 2560, 3), name="X")
        s = tl.Schedule(tl.compute((1536, 2560), lambda i, j: sum(X[i, j, c] for c in range(channels)), name="Y"))
        s.vectorize(s.split("j", 16)[1])
        return estimate(s.nest, tl.machine("znver4")).shares["memory"]

    assert seconds(1) < 1.1 * seconds(3)


def test_what_an_outer_loop_alone_moves_is_computed_once_for_all_loops_inside() -> None:
    def more(*inner: int) -> float:
        """Seconds of the exponentials of what the outermost loop moves."""
        X, v = tl.placeholder((100, *inner), name="X"), tl.placeholder((100,), name="v")
        each = [tl.compute((100, *inner), lambda i, *at, f=f: X[(i, *at)] * f(v[i]), name="Y") for f in (tl.exp, lambda x: x)]
        slow, fast = (estimate(tl.Schedule(Y).nest, CASCADELAKE).shares["arithmetic"] for Y in each)
        return slow - fast

    assert more(7, 7) == pytest.approx(more(49), rel=0.05)
