"""The cost model against what it counts: every element visited one by one, and a cache that is simulated."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.codegen.target.cores import GENERIC, TABLE, digest, machine_of
from tensorlang.schedules.model.estimate import beside_neighbours, estimate, estimated
from tensorlang.schedules.model.footprints import scope
from tensorlang.schedules.model.movement import CacheGeometry, cache_traffic
from tensorlang.schedules.model.parts import Loop, Part, statements
from tensorlang.schedules.model.program import program
from tensorlang.schedules.model.walks import Followed, LinearAccess
from tests.goldens.steps import SCHEDULES
from tests.strategies import programs
from tests.thinned import crossed, few

LINE = 64
CASCADELAKE = machine_of(target("cascadelake"))


def matmul(m: int, n: int, k: int) -> tl.Tensor:
    A, B = tl.placeholder((m, k), name="A"), tl.placeholder((k, n), name="B")
    r = tl.reduce_axis(k, name="k")
    product: tl.Tensor = tl.compute((m, n), lambda i, j: tl.sum(A[i, r] * B[r, j], axis=r), name="C")
    return product


def addresses(parts: tuple[Part, ...], at: dict[str, int] | None = None) -> Iterator[tuple[str, int]]:
    """Every byte address of every access of a program whose trips are whole, in the order in which it runs."""
    at = at or {}
    for part in parts:
        if isinstance(part, Loop):
            for step in range(int(part.trips)):
                yield from addresses(part.body, {**at, part.name: step})
        else:
            yield from ((access.buffer.name, address(access, tap, at)) for access in part.accesses for tap in access.taps)


def address(access: LinearAccess, tap: tuple[int, ...], at: dict[str, Any]) -> Any:
    """The address of a tap of an access where loops are at some step; many where they are at many."""
    place: Any = 0
    for offset, terms, extent in zip(tap, access.terms, access.extents, strict=True):
        index = offset + sum(int(term.coefficient) * at.get(name, 0) for name, term in terms.items())
        place = place * int(extent) + index
    return place * access.element


def lines_touched(parts: tuple[Part, ...]) -> Counter[str]:
    """How many lines of each buffer the accesses of a program touch whose trips are whole: all iterations of a nest at once."""
    return Counter(name for name, _ in _lines(parts, {}))


def _lines(parts: tuple[Part, ...], at: dict[str, Any]) -> set[tuple[str, int]]:
    found = set[tuple[str, int]]()
    for part in parts:
        if isinstance(part, Loop):
            found |= _lines(part.body, {**at, part.name: np.arange(int(part.trips)).reshape(-1, *(1,) * len(at))})
        else:
            for access in part.accesses:
                for tap in access.taps:
                    found |= {(access.buffer.name, line) for line in np.unique(address(access, tap, at) // LINE).tolist()}
    return found


def misses(trace: list[tuple[str, int]], lines: int) -> int:
    """Lines that a cache of so many, which replaces what was used longest ago, fetches in the second run of a trace."""
    held: OrderedDict[tuple[str, int], None] = OrderedDict()
    count = 0
    for run in range(2):
        for name, byte in trace:
            line = name, byte // LINE
            if line in held:
                held.move_to_end(line)
                continue
            count += run
            held[line] = None
            if len(held) > lines:
                held.popitem(last=False)
    return count


SHAPES = st.tuples(*(st.integers(1, 40),) * 3)


@given(SHAPES, st.permutations(["i", "j", "k"]))
def test_the_lines_of_a_loop_are_those_that_its_iterations_touch(shape, order):
    s = tl.Schedule(matmul(*shape))
    s.reorder(*order)
    parts = program(s.nest)
    lines = lines_touched(parts)
    for box in scope(parts).once:
        assert lines[box.name] <= box.units(LINE).total + 1 <= 1.3 * lines[box.name] + 3


@given(st.integers(2, 30), st.integers(2, 30), st.sampled_from([2, 3, 16, 40]), st.integers(0, 3))
def test_strided_and_shifted_reads_touch_the_lines_that_are_counted(rows, columns, step, taps):
    A = tl.placeholder((rows, columns * step + taps), name="A")
    B = tl.compute((rows, columns), lambda i, j: sum((A[i, j * step + tap] for tap in range(taps + 1)), tl.cast(0, "float32")), name="B")
    parts = program(tl.Schedule(B).nest)
    (box,) = (box for box in scope(parts).once if box.name == "A")
    touched = lines_touched(parts)["A"]
    assert touched / 2 - 1 <= box.units(LINE).total <= 2 * touched + 1


@crossed({"order": ["ijk", "ikj", "kij", "kji", "jik"], "lines": [12, 60, 2000]})
def test_what_a_cache_fetches_is_near_what_a_simulated_one_does(order, lines):
    s = tl.Schedule(matmul(12, 20, 32))
    s.reorder(*order)
    parts = program(s.nest)
    stores = [box for box in scope(parts).once if box.writes]
    assert [box.name for box in stores] == ["C", "C"] or [box.name for box in stores] == ["C"]
    found = cache_traffic(scope(parts), CacheGeometry(LINE, 1, lines, (0.9, 1.1), Followed(32, 8, 4096)))
    fetched = sum(found.ahead.values()) + sum(found.alone.values())
    simulated = misses(list(addresses(parts)), lines)
    assert simulated / 2.5 - 8 <= fetched <= 2.5 * simulated + 8


def test_rows_a_power_of_two_apart_contend_for_few_sets():
    """Cascade Lake's L2 holds 128 lines 8 KiB apart, and a thousand that lie 4160 bytes apart."""
    found = {}
    for columns in (2048, 1040):
        A = tl.placeholder((512, columns), name="A")
        r = tl.reduce_axis(512, name="r")
        s = tl.Schedule(tl.compute((8,), lambda i, A=A, r=r: tl.sum(A[r, 0] * tl.cast(i, "float32"), axis=r), name="S"))
        found[columns] = estimate(s.nest, CASCADELAKE).bytes["L3"]
    assert found[2048] > 50 * max(found[1040], LINE)


def test_rows_that_are_skipped_leave_sets_empty():
    """128 rows of 4 KiB fall into 16 of Cascade Lake's sets, each of which holds 16 lines; every other one of 256 into 8."""
    found = {}
    for step in (1, 2):
        A = tl.placeholder((256, 1024), name="A")
        r = tl.reduce_axis(128, name="r")
        s = tl.Schedule(tl.compute((8,), lambda i, A=A, r=r, step=step: tl.sum(A[step * r, 0] * tl.cast(i, "float32"), axis=r), name="S"))
        found[step] = estimate(s.nest, CASCADELAKE).bytes["L3"]
    assert found[2] > 50 * max(found[1], LINE)


@given(programs())
def test_every_program_has_an_estimate(program):
    nest = tl.Schedule(program.outputs).nest
    found = estimate(nest, CASCADELAKE)
    assert math.isfinite(found.seconds)
    assert found.seconds >= 0
    assert found.seconds == pytest.approx(sum(found.stages.values()))
    assert found == estimate(nest, CASCADELAKE)


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_directive_leaves_a_nest_that_has_an_estimate(name):
    definition, steps = SCHEDULES[name]
    s = tl.Schedule(definition)
    before = s.estimate("cascadelake").seconds
    for method, *arguments in steps:
        getattr(s, method)(*arguments)
        assert 0 < s.estimate("cascadelake").seconds < 20 * before


def test_an_estimate_is_asked_of_a_schedule():
    n = tl.dim("n")
    X = tl.placeholder((n,), name="X")
    s = tl.Schedule(tl.compute((n,), lambda i: X[i] * 2, name="Y"))
    assert s.estimate("znver5", n=1 << 24).seconds > 100 * s.estimate("znver5", n=1 << 12).seconds
    assert s.estimate("cascadelake", n=1 << 24).bound == "memory"
    assert s.estimate(n=1000).seconds > 0
    assert "bound by memory" in str(s.estimate("cascadelake", n=1 << 24))
    with pytest.raises(tl.ScheduleError, match="no dim 'm'"):
        s.estimate(m=3)
    with pytest.raises(tl.ScheduleError, match="must be an extent"):
        s.estimate(n=-1)
    with pytest.raises(tl.BuildError):
        s.estimate("cascadelaker")


def test_vectors_tiles_and_packing_are_seen_to_help():
    plain = tl.Schedule(matmul(512, 512, 512))
    lanes = plain.copy()
    j_o, j_i = lanes.split("j", 32)
    lanes.reorder(j_o, "k", j_i)
    lanes.vectorize(j_i)
    tiled = plain.copy()
    i_o, i_i = tiled.split("i", 8)
    j_o, j_i = tiled.split("j", 32)
    tiled.reorder(j_o, i_o, "k", i_i, j_i)
    tiled.accumulate("C", at=i_o)
    tiled.vectorize(j_i)
    tiled.unroll(i_i)
    times = [estimate(s.nest, CASCADELAKE).seconds for s in (plain, lanes, tiled)]
    assert times[0] > 4 * times[1]
    assert times[1] > 3 * times[2]


def test_a_faster_clock_and_a_wider_memory_take_less_time():
    nest = tl.Schedule(matmul(300, 300, 300)).nest
    slow = estimate(nest, CASCADELAKE)
    assert estimate(nest, replace(CASCADELAKE, hertz=2 * CASCADELAKE.hertz)).seconds == pytest.approx(slow.seconds / 2)
    X = tl.placeholder((1 << 22,), name="X")
    nest = tl.Schedule(tl.compute(X.shape, lambda i: X[i] * 2, name="Y")).nest
    wide = replace(CASCADELAKE, memory=replace(CASCADELAKE.memory, bandwidth=2 * CASCADELAKE.memory.bandwidth))
    assert estimate(nest, wide).seconds < estimate(nest, CASCADELAKE).seconds


NAMES = [name for cores in TABLE.values() for core in cores for name in core.names.split()]


@pytest.mark.parametrize("name", few(NAMES, 12))
def test_every_core_of_the_table_is_a_target_with_a_source(name):
    arch = next(arch for arch, cores in TABLE.items() for core in cores if name in core.names.split())
    machine = machine_of(target(f"{arch}-unknown-linux-gnu:{name}"))
    assert machine.source
    sizes = [cache.size for cache in machine.caches]
    assert sizes == sorted(sizes)
    latencies = [cache.latency for cache in machine.caches] + [machine.memory.latency]
    assert latencies == sorted(latencies)
    assert machine.ports.arithmetic > 0
    assert digest(machine) == digest(machine_of(target(f"{arch}-unknown-linux-gnu:{name}")))


def test_an_unknown_core_is_described_by_its_architecture():
    assert set(GENERIC) >= {"x86_64", "aarch64"}
    assert machine_of(target("riscv64-unknown-linux-gnu:generic-rv64")).source


def test_halves_of_vectors_take_two_slots():
    whole, half = machine_of(target("znver5")), machine_of(target("znver4"))
    assert whole.vector_bits == half.vector_bits == 512
    assert half.ports.arithmetic == whole.ports.arithmetic / 2


def sites(parts: Any) -> list[str]:
    return [statement.stage for statement in statements(parts)]


def test_loops_that_run_once_are_no_loops():
    s = tl.Schedule(matmul(1, 8, 1))
    parts = program(s.nest)
    assert sites(parts) == ["C.init", "C"]
    assert all(part.name in {"C.init.j", "C.j"} for part in parts if isinstance(part, Loop))


def column_sums(rows: int, row_bytes: int) -> tl.Schedule:
    """Sums of the first columns of a matrix, fifty times: one line of each row, in a page of its own."""
    X = tl.placeholder((rows, row_bytes // 4), name="X")
    r = tl.reduce_axis(rows, name="r")
    s = tl.Schedule(tl.compute((50, 16), lambda n, i: tl.sum(X[r, i], axis=r), name="Y"))
    s.reorder("r", "i")
    s.vectorize("i")
    return s


@pytest.mark.parametrize("apart", [1, 2, 4])
@pytest.mark.parametrize("share", [0.5, 0.75, 2.0])
def test_a_tlb_with_sets_keeps_fewer_of_pages_that_lie_apart(apart, share):
    """A chain of loads on a Zen 4 walks from 1,536 of every second page on and from 768 of every fourth, of 3,072 (24 ways)."""
    zen = tl.machine("znver4")
    room = zen.pages.entries // apart
    shares = estimate(column_sums(int(share * room), 4096 * apart).nest, zen).shares
    open_sets = replace(zen, pages=replace(zen.pages, ways=0))
    assert (shares["pages"] > 0) == (share > 0.8)
    if apart > 1 and share > 1:
        assert shares["pages"] > estimate(column_sums(int(share * room), 4096 * apart).nest, open_sets).shares["pages"]


def test_rows_a_power_of_two_apart_stay_in_a_cache_whose_sets_a_hash_chooses():
    zen = tl.machine("znver4")
    by_address = replace(zen, caches=(zen.caches[0], replace(zen.caches[1], ways=8), *zen.caches[2:]))
    hashed, plain = (estimate(column_sums(1024, 8192).nest, machine).bytes["L3"] for machine in (zen, by_address))
    assert hashed < 0.1 * plain


def test_a_walk_and_the_line_behind_it_are_waited_for_one_after_the_other():
    """Rows in pages that the TLB of a Zen 4 has not take 45 cycles, and 20 where it has them (2,048 rows of 8,192 bytes and of 8,256)."""
    zen = tl.machine("znver4")
    near, far = (estimate(column_sums(2048, size).nest, zen).seconds for size in (8256, 8192))
    assert far > 1.5 * near


def test_what_quotients_read_beside_each_other_is_apart() -> None:
    """An image twice as large reads two neighbours in two loads: counted as one, pyramids were predicted at half of their time."""
    x = tl.placeholder((100,), name="X")

    def element(i: Any) -> Any:
        return x[i // 2] + x[(i + 1) // 2] + x[tl.clamp((i + 3) // 2, 0, 99)] + x[tl.maximum((i - 1) // 2, 0)]

    (statement,) = statements(program(tl.Schedule(tl.compute((190,), element, name="Y")).nest))
    assert sorted(tap for access in statement.accesses if access.reads for tap in access.taps) == [(-1,), (0,), (1,), (2,)]


def test_of_a_part_of_a_program_the_rest_comes_between_two_runs() -> None:
    """A group of stages that is estimated alone would find its operands in the cache of the run before."""
    x = tl.placeholder((1000, 1000), name="X")
    parts = program(tl.Schedule(tl.compute((1000, 1000), lambda i, j: x[i, j] + 1, name="Y")).nest)
    machine = tl.machine("znver4")
    alone, beside = (estimated(parts, machine, apart).bytes["memory"] for apart in (0.0, 1e9))
    assert alone < 0.5 * beside
    assert beside == pytest.approx(estimated(parts, machine, 1e10).bytes["memory"])
    assert beside >= 8e6


@pytest.mark.parametrize("cpu", ["znver4", "cascadelake", "neoverse-n1"])
def test_what_neighbours_leave_is_the_share_of_the_last_level_that_a_machine_keeps(cpu: str) -> None:
    core, parts = tl.machine(cpu), program(tl.Schedule(matmul(300, 900, 2000)).nest)
    shares = (1.0, 0.5, 0.1, 0.01)
    found = beside_neighbours(parts, core, shares)
    assert found == tuple(estimated(parts, replace(core, kept=kept)) for kept in shares)
    memory = [each.bytes["memory"] for each in found]
    assert memory == sorted(memory) and memory[0] < memory[-1]


def test_data_that_name_places_in_a_volume_touch_no_more_than_there_are() -> None:
    """Sixteen points of a volume are sixteen lines, and not the box of 16 x 16 x 16 elements that indices apart would reach."""
    v, p = tl.placeholder((64, 64, 64), name="V"), tl.placeholder((50000, 3), "int32", name="P")
    at = tl.compute((50000,), lambda i: v[tuple(tl.clamp(p[i, a], 0, 63) for a in range(3))], name="Y")
    s = tl.Schedule(at)
    s.vectorize(s.split("i", 16)[1])
    found = estimate(s.nest, tl.machine("znver4"))
    assert found.bytes["L2"] < 1.5 * (50000 * 64 + 50000 * 16)
