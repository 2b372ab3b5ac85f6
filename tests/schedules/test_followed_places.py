"""What prefetchers follow at once: so many places, and of those that fall into one set of the first level as many as it has ways."""

import math

import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.model.movement import followed
from tensorlang.schedules.model.walks import Followed
from tensorlang.schedules.rewriting.edit import find_loop, literal_extent
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies import choose

KIB = 1 << 10


def test_places_of_one_set_are_as_many_as_its_ways() -> None:
    prefetchers = Followed(32.0, 8, 4 * KIB)
    assert prefetchers.at_once(16 * KIB) == 8  # all in one set
    assert prefetchers.at_once(10 * KIB) == 16  # in two
    assert prefetchers.at_once(16 * KIB + 64) == 32  # in sets of their own


@pytest.mark.parametrize("cpu", ["znver3", "cascadelake", "haswell", "znver4"])
def test_the_first_level_says_how_many(cpu: str) -> None:
    machine = target(cpu).core
    found = followed(machine)
    assert found.ways * found.period == machine.caches[0].size and found.at_once(math.lcm(found.period, 64)) <= found.ways


def seconds(rows: int, columns: int) -> float:
    """What a vector times a matrix takes on a Zen 3 along so many rows at once."""
    product = tl.ops.matmul(tl.placeholder((1, 4096), name="A"), tl.placeholder((4096, columns), name="B"))
    s = Schedule(product)
    i, j, k = s.loops("matmul")
    k_o, k_i = s.split(k, rows, "peel")
    j_o, j_i = s.split(j, 16, "peel")
    s.reorder(k_o, j_o, i, k_i, j_i)
    s.vectorize(j_i)
    return float(s.estimate(target("znver3")).seconds)


def test_rows_a_power_of_two_apart_are_read_few_at_once() -> None:
    """As measured: 67 MB in 4.4 ms along 8 rows, 6.9 along 16 and 9.1 along 32; of rows 64 bytes longer 4.2 and 4.7 along 8 and 16."""
    assert seconds(16, 4096) > 1.4 * seconds(8, 4096)
    assert seconds(32, 4096) > 1.8 * seconds(8, 4096)
    assert seconds(12, 4112) < 1.1 * seconds(8, 4112)


@pytest.mark.parametrize("rows", [1, 32])
def test_a_default_reads_few_of_them_at_once(rows: int) -> None:
    product = tl.ops.matmul(tl.placeholder((rows, 4096), name="A"), tl.placeholder((4096, 4096), name="B"))
    strategy = choose(product, target("znver3"), 1)
    nest = strategy.schedule(strategy.default)
    innermost = [loop for loop in nest.loops("matmul") if ".k" in loop][-1]
    assert (literal_extent(find_loop(nest.nest, innermost)) or 0) <= 8
