"""The model of scans: both places of a ring, tiles whose loops begin where others are, and vectors that are read a few elements on."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.model.touched import sliding
from tests.machines import MACHINES

STEPS = 20


def scan(side: int, taps: int = 1) -> tl.Schedule:
    """Means of neighbours along both axes, `taps` either way along rows."""
    X = tl.placeholder((side, side), name="X")

    def element(x: Any, i: Any, j: Any) -> Any:
        inside = (i > 0) & (i < side - 1) & (j >= taps) & (j < side - taps)
        along = sum((x[i, j - at] + x[i, j + at] for at in range(2, taps + 1)), start=x[i, j - 1] + x[i, j + 1])
        return tl.select(inside, 0.2 * (x[i, j] + along + x[i - 1, j] + x[i + 1, j]), x[i, j])

    step = lambda _, x: tl.compute((side, side), lambda i, j: element(x, i, j), name="next")  # noqa: E731
    s = tl.Schedule(tl.scan(step, X, STEPS, keep="last", name="scan"))
    for loop in ("scan.start.i1", "scan.i1"):
        s.vectorize(s.split(loop, 16)[1])
    return s


def in_vectors(s: tl.Schedule, count: int) -> tl.Schedule:
    s.vectorize(s.split("next.j", 16 * count)[1])
    return s


@pytest.mark.parametrize("machine", MACHINES)
def test_a_step_reads_one_state_and_writes_the_other(machine: str) -> None:
    """Where no cache holds either, each step brings both, and takes one back."""
    core = target(machine).core
    side = int(2 * (core.caches[-1].size / 4) ** 0.5) // 16 * 16
    moved = estimate(in_vectors(scan(side), 1).nest, core).bytes["memory"]
    state = side * side * 4
    assert moved == pytest.approx((3 * STEPS + 2 * 3) * state, rel=0.05)  # and what begins and ends it, each read, brought, taken back


@pytest.mark.parametrize("band", [16, 64])
def test_a_band_of_several_steps_comes_once(band: int) -> None:
    core = target("znver4").core
    s = scan(4000)
    _, time_i = s.split("scan._", 10)
    s.skew("next.i", by=time_i)
    s.reorder("next.i_s", time_i)
    _, rows = s.split("next.i_s", band)
    s.reorder(time_i, rows)
    tiled, plain = (estimate(in_vectors(each, 1).nest, core) for each in (s, scan(4000)))
    state = 4000 * 4000 * 4
    copies = 6 * state
    assert plain.bytes["memory"] - copies == pytest.approx(3 * STEPS * state, rel=0.01)
    assert tiled.bytes["memory"] - copies == pytest.approx(2 * 4 * state, rel=0.05)  # two tiles, each of both states there and back
    assert tiled.seconds < plain.seconds


def test_registers_of_neighbours_are_loaded_once() -> None:
    """Of three taps in two registers: two of the one in the middle, and one of each of the others at its end."""
    found = sliding([(0, -1), (0, 0), (0, 1)], 16, 2, 4)
    assert sorted(found.loads) == [(0, -1), (0, 0), (0, 0), (0, 1)] and found.shuffled == 2
    assert found.share == pytest.approx(4 / 6)
    far = sliding([(0, 0), (0, 40)], 16, 4, 4)
    assert len(far.loads) == 8 and not far.shuffled
    rows = sliding([(0, 0), (1, 0), (1, 1)], 16, 4, 4)
    assert len(rows.loads) == 9 and rows.shuffled == 3
    words = sliding([(0, 0), (0, 1), (0, 2)], 32, 2, 2)  # by multiples of 4 bytes
    assert sorted(words.loads) == [(0, 0), (0, 0), (0, 1), (0, 1), (0, 2)] and words.shuffled == 1


def test_more_vectors_in_flight_pay_where_a_register_is_a_line() -> None:
    wide, narrow = (target(cpu).core for cpu in ("znver4", "znver3"))
    two, four = (in_vectors(scan(64, 3), count).nest for count in (1, 4))
    assert estimate(four, wide).seconds < 0.9 * estimate(two, wide).seconds
    gained = [estimate(four, core).shares["L1"] / estimate(two, core).shares["L1"] for core in (wide, narrow)]
    assert gained[0] < 0.8 and gained[1] == pytest.approx(1.0, rel=0.1)


def test_vectors_off_their_lines_take_longer() -> None:
    """Stores of 512 bits as well, in two halves: 2.6 cycles on two lines, 2.05 on one (measured on a Zen 4)."""
    core = target("znver4").core
    X, Y = tl.placeholder((64, 4096), name="X"), tl.placeholder((64, 4100), name="Y")

    def copied(source: Any) -> float:
        s = tl.Schedule(tl.compute(source.shape, lambda i, j: source[i, j], name="Z"))
        s.vectorize(s.split("j", 16)[1])
        return float(estimate(s.nest, core).shares["L1"])

    assert copied(Y) > 1.1 * copied(X)
