"""The calibration: rounds keep within their budget, figures follow from times, nonsense is not believed, and a run of it is sane."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.calibration import calibrate as calibration, figures, kernels, probes, rounds
from tensorlang.codegen.calibration.figures import believed, get, paths, put
from tensorlang.codegen.calibration.probes import PAGES, Bench
from tensorlang.codegen.calibration.rounds import CALL, BoundKernel, Budget, Probe, measure
from tensorlang.codegen.reports import assembly
from tensorlang.codegen.target.cores import shipped
from tensorlang.codegen.target.described import faults
from tests.machines import MACHINES

ZEN = tl.machine("znver3")


class Time:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float) -> Any:
        return lambda: setattr(self, "now", self.now + seconds)


# Rounds ----------------------------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(1e-6, 0.1), st.floats(0, 1)), min_size=1, max_size=20), st.floats(0.01, 20))
def test_nothing_is_begun_after_the_budget(costs: list[tuple[float, float]], seconds: float) -> None:
    time, begun = Time(), list[float]()

    def made(call: float, making: float) -> Any:
        def make() -> BoundKernel:
            begun.append(time.now)
            time.now += making
            return BoundKernel(time.passes(call), 1.0)

        return make

    measure([Probe(str(place), made(*cost)) for place, cost in enumerate(costs)], Budget(seconds, time))
    assert all(moment < seconds for moment in begun)
    longest = max(making + 2 * call + 0.006 for call, making in costs)
    assert time.now <= seconds + longest + 0.1


def test_the_fastest_call_of_all_rounds_counts_without_what_a_call_costs() -> None:
    time = Time()
    slow = iter([5.0, 4.0, 0.5, 0.3, 0.7] + [0.32] * 10_000)
    varied = Probe("one", lambda: BoundKernel(lambda: setattr(time, "now", time.now + next(slow)), 2.0))
    found = measure([varied, Probe(CALL, lambda: BoundKernel(time.passes(0.1), 1.0))], Budget(100, time))
    assert found["one"] == pytest.approx((0.3 - 0.1) / 2)
    assert found[CALL] == pytest.approx(0.1)


def test_rounds_end_when_nothing_gets_faster() -> None:
    time = Time()
    measure([Probe("one", lambda: BoundKernel(time.passes(0.001), 1.0))], Budget(1000, time))
    assert time.now < 1


def test_what_must_be_warm_is_warmed_in_every_round() -> None:
    time, warmed = Time(), list[float]()
    measure([Probe("one", lambda: BoundKernel(time.passes(0.01), 1.0, lambda: warmed.append(time.now)))], Budget(10, time))
    assert len(warmed) == rounds.QUIET + 1


def test_what_there_was_no_time_for_is_not_found() -> None:
    time = Time()
    found = measure(
        [
            Probe("one", lambda: BoundKernel(time.passes(2.0), 1.0)),
            Probe("two", lambda: BoundKernel(time.passes(1.0), 1.0)),
        ],
        Budget(1, time),
    )
    assert found == {}
    assert measure([Probe("one", lambda: BoundKernel(time.passes(1), 1))], Budget(0, time)) == {}


def test_what_no_two_rounds_agree_on_is_not_found() -> None:
    time = Time()
    lonely, waits = Probe("one", lambda: BoundKernel(lambda: setattr(time, "now", time.now + next(costs)), 1.0)), [1.0, 0.1, *[0.3] * 1000]
    costs = iter(waits)
    agreed = Probe("two", lambda: BoundKernel(time.passes(0.1), 1.0))
    assert set(measure([lonely, agreed], Budget(100, time))) == {"two"}


# Figures ---------------------------------------------------------------------------------------------------------------------------

SECONDS = {
    "cycle": 0.3e-9, "multiply-add": 0.15e-9, "multiply-add chain": 1.2e-9, "read L1": 0.3e-9 / 64, "read L2": 0.3e-9 / 30,
    "read L3": 0.3e-9 / 20, "read memory": 0.05e-9, "chase L1": 1.5e-9, "chase L2": 3.9e-9, "chase L3": 15e-9, "chase memory": 120e-9,
    "random": 6e-9, "stream": 0.05e-9, CALL: 0.3e-6, "share": 2.6e-6, "fork": 4.6e-6, "add in place": 0.3e-9, "gather": 0.3e-9,
    "division": 0.9e-9,
    "read half": 0.06e-9, "copy half": (0.05**2 + 0.06**2) ** 0.5 * 1e-9, "read half together": 0.03e-9,
    "root": 1.5e-9, "division chain": 3.3e-9, "root chain": 4.5e-9, "pages of arrays": 9e-9, "chase pages": 12.3e-9, "chase lines": 3.9e-9,
    **{f"lines {count}": 0.6e-9 for count in PAGES}, **{f"pages {count}": 0.6e-9 if count <= 2048 else 9e-9 for count in PAGES},
}  # fmt: skip


def test_figures_follow_from_times() -> None:
    found = figures.figures(ZEN, SECONDS)
    assert found == pytest.approx(
        {
            "hertz": 1e9 / 0.3, "ports.arithmetic": 2, "ports.latency": 4, "ports.loads": 2, "ports.stores": 1, "ports.divisions": 1 / 3,
            "ports.roots": 1 / 5, "ports.gathers": 1, "latencies.division": 11, "latencies.root": 15, "caches.0.bandwidth": 64,
            "caches.1.bandwidth": 30, "caches.2.bandwidth": 20, "caches.0.latency": 4, "caches.1.latency": 12, "caches.2.latency": 49,
            "memory.bandwidth": 6, "memory.latency": 400 - 1 - 28, "memory.streaming": 6, "pages.walk": 28, "pages.entries": 2048,
            "pages.size": 4096, "outstanding": 20, "fork": 2e-6, "memory.both": 2, "together": 2,
        }
    )  # fmt: skip
    machine, told = believed(ZEN, found)
    assert not [figure for figure in told if figure.why]
    assert {figure.path for figure in told} == set(found) == set(paths(ZEN))
    assert all(get(machine, path) == pytest.approx(value, rel=0.01) for path, value in found.items())


def test_large_pages_of_arrays_are_seen() -> None:
    assert figures.figures(ZEN, {**SECONDS, "pages of arrays": 0.7e-9}, 1 << 21)["pages.size"] == 1 << 21


def test_without_a_clock_nothing_is_told_and_without_walks_no_pages() -> None:
    assert figures.figures(ZEN, {name: value for name, value in SECONDS.items() if name != "cycle"}) == {}
    flat = {name: 0.6e-9 if name.startswith("pages") else value for name, value in SECONDS.items()}
    assert not [path for path in figures.figures(ZEN, flat) if path.startswith("pages")]


@given(st.sets(st.sampled_from(sorted(SECONDS))))
def test_what_is_told_does_not_change_with_what_else_was_measured(names: set[str]) -> None:
    found, whole = figures.figures(ZEN, {name: SECONDS[name] for name in names}), figures.figures(ZEN, SECONDS)
    pages = {"pages.size", "pages.entries", "pages.walk", "memory.latency"}  # these follow from as many numbers of pages as there are
    assert {path: value for path, value in found.items() if path not in pages}.items() <= whole.items()
    assert not list(faults(believed(ZEN, found)[0]))


def test_a_chain_through_pages_stays_on_its_own_lines_beside_one_through_lines() -> None:
    """Both are in one table: one that ran into the other measured a walk of 0.1 cycles on a Zen 4."""
    bench = Bench(tl.target("native"), tl.machine("native"))
    table, seen = bench._small_pages, list[set[int]]()
    bounds = [probe.make() for probe in bench.probes() if probe.name in ("chase pages", "chase lines")]
    for start in (0, probes.BESIDE):
        at, visited = start, set[int]()
        while at not in visited:
            visited.add(at)
            at = int(table[at])
        assert at == start
        seen.append(visited)
    assert len(bounds) == 2
    assert len(seen[0]) == len(seen[1]) > 4096
    assert not seen[0] & seen[1]


NUMBERS = st.one_of(st.floats(), st.floats(1e-12, 1e12), st.sampled_from([0.0, -1.0, math.nan, math.inf]))


@given(st.sampled_from([*MACHINES, "apple-m1", "cortex-a72"]), st.data())
def test_whatever_was_measured_the_machine_is_valid_and_no_level_beats_the_one_before(name: str, data: st.DataObject) -> None:
    before = tl.machine(name)
    found = {}
    for path in sorted(data.draw(st.sets(st.sampled_from(paths(before))), label="measured")):
        factor, number = data.draw(st.floats(0.05, 20), label=path), data.draw(st.none() | NUMBERS)
        found[path] = get(before, path) * factor if number is None else number
    machine, told = believed(before, found)
    assert not list(faults(machine))
    for outer, inner in (("bandwidth", False), ("latency", True)):
        values = [getattr(level, outer) for level in (*machine.caches, machine.memory)]
        assert all((b >= a / 1.06) if inner else (b <= a * 1.06) for a, b in pairwise(values)), (outer, values)
    for figure in told:
        assert figure.value == get(machine, figure.path)
        assert figure.why or figure.value == pytest.approx(found[figure.path], rel=0.01)
    changed = {figure.path for figure in told if figure.value != figure.shipped}
    assert all(get(machine, path) == get(before, path) for path in set(paths(before)) - changed)


def test_what_is_not_believed_is_kept_and_says_why() -> None:
    def why(path: str, value: float, **others: float) -> tuple[float, str]:
        _, told = believed(ZEN, {"hertz": 3e9, path: value, **others})
        return next((figure.value, figure.why) for figure in told if figure.path == path)

    assert why("caches.1.bandwidth", 70) == (30, "faster than the level before")
    assert why("caches.1.latency", 3) == (12, "sooner than the level before")
    assert why("caches.2.latency", 4700) == (65, "more than 5 times more than what ships")
    assert why("fork", 1e-9)[1] == "more than 30 times less than what ships"
    assert why("memory.latency", math.nan) == (400, "no positive number")
    assert why("ports.latency", 4, hertz=3e12) == (4, "the clock is not known")
    assert why("fork", 3e-6, hertz=3e12) == (3e-6, "")
    assert why("caches.0.bandwidth", 15)[0] == 15
    _, told = believed(ZEN, {"hertz": 3e9, "caches.0.bandwidth": 15})
    assert next(figure.value for figure in told if figure.path == "caches.1.bandwidth") == 15


def test_a_path_is_read_where_it_was_written() -> None:
    for path in paths(ZEN):
        assert get(put(ZEN, path, 123), path) == 123
        assert get(ZEN, path) != 123


# Kernels ---------------------------------------------------------------------------------------------------------------------------

HERE = tl.target("native")


@pytest.mark.skipif(not HERE.is_x86, reason="reads x86 assembly")
@pytest.mark.parametrize("name", ["haswell", "znver3", "znver5"])
def test_the_peak_is_multiply_adds_in_registers(name: str) -> None:
    machine = tl.target(name)
    hot = assembly.read(tl.build(kernels.multiply_adds(machine, 1, kernels.FLOAT), machine).inspect("asm")).hot
    rows, columns = kernels.tile_of(machine)
    assert hot is not None
    assert (hot.fused, hot.scalar, hot.width) == (rows * columns, 0, machine.vector_bits)
    assert hot.chains == rows * columns  # no sum goes through memory
    assert hot.instructions <= 1.5 * hot.fused


@pytest.mark.skipif(not HERE.is_x86, reason="reads x86 assembly")
def test_chains_stay_in_registers() -> None:
    chase = tl.build(kernels.chase(1 << 16)).inspect("asm")
    inner = [loop for loop in assembly.read(chase).loops if loop.label]
    assert inner and inner[0].instructions <= 7  # two masks, two loads, the counter
    assert "(%rsp)" not in chase
    divisions = assembly.read(tl.build(kernels.quotients(HERE, 8)).inspect("asm")).hot
    assert divisions is not None and (divisions.vector, divisions.spills, divisions.width) == (16, 0, HERE.vector_bits)


def test_kernels_compute_what_they_say() -> None:
    table = np.roll(np.arange(64), -1).astype(np.int64)
    assert tl.build(kernels.chase(64))(table, np.zeros(1, np.int64), n=10).tolist() == [20]
    places = np.array([3, 5, 9], np.int32)
    assert tl.build(kernels.indexed(64))(table, places).tolist() == [4 + 6 + 10]
    x = np.arange(32, dtype=np.float32)
    np.testing.assert_array_equal(tl.build(kernels.doubled(HERE, 1000, 2))(np.ones(1000, np.float32)), np.full(1000, 2, np.float32))
    np.testing.assert_array_equal(tl.build(kernels.filled(HERE, 1000))(np.full(1, 7, np.float32)), np.full(1000, 7, np.float32))
    np.testing.assert_array_equal(tl.build(kernels.gathered(HERE, 32, 2))(x, np.arange(31, -1, -1, dtype=np.int32)), [x[::-1]] * 2)
    np.testing.assert_array_equal(tl.build(kernels.added(HERE, 64, 3))(np.full(3, 2, np.float32)), np.full(64, 6, np.float32))


def test_a_ring_goes_through_all_lines_of_its_bytes_and_no_others() -> None:
    bench = Bench(HERE, replace(shipped(HERE), line=64))
    ring = bench._ring(1 << 16)
    seen, place = set(), 0
    for _ in range(1 << 10):
        seen.add(place)
        place = int(ring[place])
    assert place == 0
    assert seen == set(range(0, 1 << 13, 8))


# The whole -------------------------------------------------------------------------------------------------------------------------


def test_a_calibration_is_sane(monkeypatch: pytest.MonkeyPatch) -> None:
    """On this machine, whatever else it does; on a small part of memory, to be quick."""
    monkeypatch.setattr(probes, "LEAST", 1 << 20)
    monkeypatch.setattr(probes, "MOST", 1 << 22)
    monkeypatch.setattr(probes, "PAGES", (64, 128))
    monkeypatch.setattr(figures, "PAGES", (64, 128))
    monkeypatch.setattr(rounds, "QUIET", 1)
    found = calibration.calibrate(20)
    machine = found.machine
    assert not list(faults(machine))
    assert machine.source.startswith("measured here")
    assert 2e8 < machine.hertz < 1e10
    assert "hertz" in found.measured or set(found.measured) <= set(figures.ABSOLUTE)  # where two rounds did not fit
    assert all(level.bandwidth > 0 for level in machine.caches)
    assert {figure.path for figure in found.figures} == set(paths(machine))
    assert all(figure.why or figure.measured for figure in found.figures)


def test_a_calibration_without_time_is_what_ships() -> None:
    found = calibration.calibrate(0)
    assert replace(found.machine, source="") == replace(shipped(HERE), source="")
    assert found.measured == ()
    assert {figure.why for figure in found.figures} == {figures.NOT}
