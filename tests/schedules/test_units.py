"""What a core issues side by side: sums beside products, halves of vectors, ends of rows in narrower ones, resources that overlap."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.codegen.target.cores import machine_of
from tensorlang.schedules.model.estimate import Estimate, estimate
from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.model.movement import cache_geometries

ZEN4, CASCADELAKE, HASWELL = (machine_of(target(cpu)) for cpu in ("znver4", "cascadelake", "haswell"))


def row(expression, length: int = 4096, vectors: int = 4, lanes: int = 16) -> tl.Schedule:
    """A schedule of one row, in vectors; its operands stay in L1."""
    X, Y = tl.placeholder((length,), name="X"), tl.placeholder((length,), name="Y")
    s = tl.Schedule(tl.compute((length,), lambda i: expression(X[i], Y[i]), name="Z"))
    _, inner = s.split("i", vectors * lanes, tail="peel")
    s.vectorize(inner)
    return s


def arithmetic(expression, machine: Machine) -> float:
    return estimate(row(expression).nest, machine).shares["arithmetic"]


def test_sums_run_beside_products_where_units_of_their_own_add():
    """AMD's cores multiply in two of four units and add in the others; Intel's do either in the same."""
    products, both = (lambda x, y: x * y * y * y * y), (lambda x, y: (x * y + x) * y + y)
    assert arithmetic(both, ZEN4) < 0.7 * arithmetic(products, ZEN4)
    assert arithmetic(both, HASWELL) == pytest.approx(arithmetic(products, HASWELL), rel=0.05)  # one is not as deep


@pytest.mark.parametrize(
    ("expression", "cycles"),
    [(tl.exp, 12.9), (tl.tanh, 24.0), (tl.log, 26.5), (tl.erf, 20.2), (tl.sigmoid, 36.2)],
    ids=["exp", "tanh", "log", "erf", "sigmoid"],
)
def test_functions_take_what_they_were_measured_to_take(expression, cycles: float):
    """Cycles for sixteen numbers that are in L1, on a Zen 4."""
    found = arithmetic(lambda x, _: expression(x), ZEN4) * ZEN4.hertz / (4096 / 16)
    assert found == pytest.approx(cycles, rel=0.2)


def product(rows: int, vectors: int, columns: int = 192) -> Estimate:
    A, B, k = tl.placeholder((240, 256), name="A"), tl.placeholder((256, columns), name="B"), tl.reduce_axis(256, name="k")
    s = tl.Schedule(tl.compute((240, columns), lambda i, j: tl.sum(A[i, k] * B[k, j], axis=k), name="C"))
    j_o, j_i = s.split("j", 16 * vectors, tail="peel")
    i_o, i_i = s.split("i", rows, tail="peel")
    s.reorder(j_o, i_o, "k", i_i, j_i)
    s.accumulate("C", at=i_o)
    s.vectorize(j_i)
    s.unroll(i_i)
    return estimate(s.nest, ZEN4)


@pytest.mark.parametrize(
    ("vectors", "rows", "cycles"),
    [(1, 12, 11.8), (1, 24, 23.8), (2, 6, 11.8), (2, 12, 23.7), (3, 8, 23.8), (4, 6, 23.8), (6, 4, 23.8)],
)
def test_tiles_take_what_they_were_measured_to_take(vectors: int, rows: int, cycles: float):
    """Cycles of a step of the depth on a Zen 4, whose operands come from L2: instructions have single numbers as operands."""
    steps = 240 / rows * 192 / 16 / vectors * 256
    assert product(rows, vectors).seconds * ZEN4.hertz / steps == pytest.approx(cycles, rel=0.15)


def test_what_a_row_has_beyond_whole_vectors_is_code_of_narrower_ones():
    """Half a vector at the end takes half of its time where a whole one takes each unit twice."""
    whole, half, more = (product(12, 1, columns).shares["arithmetic"] for columns in (96, 104, 108))
    assert half - whole == pytest.approx((whole / 6) / 2, rel=0.1)
    assert more - whole == pytest.approx(whole / 6, rel=0.1)


def test_halves_of_vectors_that_lie_inside_of_lines_are_no_slower():
    """A Zen 4 loads 64 bytes in a cycle at multiples of 32 and in one and a half elsewhere; Intel's cores in two on two lines."""

    def loads(shift: int, machine: Machine) -> float:
        X = tl.placeholder((64, 4160), name="X")
        s = tl.Schedule(tl.compute((64, 4096), lambda i, j: X[i, j + shift] + 1.0, name="Y"))
        s.vectorize(s.split("j", 64)[1])
        without = replace(machine, ports=replace(machine.ports, stores=1e3))
        return estimate(s.nest, without).shares["L1"]

    assert loads(8, ZEN4) == loads(0, ZEN4) < loads(1, ZEN4) < 1.6 * loads(0, ZEN4)
    assert loads(1, CASCADELAKE) > 1.7 * loads(0, CASCADELAKE)


def test_what_is_streamed_leaves_the_caches_to_what_is_read_again():
    """16 MB stay in 32, beside 16 that are written past the caches: a Zen 4 normalises rows in 0.64 ms then, and in 1.8."""

    def read(*, stream: bool) -> float:
        X = tl.placeholder((1 << 22,), name="X")
        s = tl.Schedule(tl.compute((1 << 22,), lambda i: X[i] * 2.0, name="Y"))
        s.vectorize(s.split("i", 64)[1])
        if stream:
            s.stream_stores("Y")
        return estimate(s.nest, replace(ZEN4, caches=(*ZEN4.caches[:2], replace(ZEN4.caches[2], size=32 << 20)))).bytes["memory"]

    assert read(stream=True) < 0.75 * read(stream=False)


@given(st.sampled_from([1.0, 2.0, 4.0, 16.0, 64.0]), st.integers(1, 200), st.integers(1, 200))
def test_a_larger_exponent_overlaps_more_and_never_all(overlap: float, rows: int, columns: int):
    X = tl.placeholder((rows, columns), name="X")
    nest = tl.Schedule(tl.compute((rows, columns), lambda i, j: tl.exp(X[i, j]), name="Y")).nest
    found, fewer = (estimate(nest, replace(ZEN4, overlap=value)) for value in (overlap, 1.0))
    assert max(found.shares.values()) * (1 - 1e-9) <= found.seconds <= fewer.seconds * (1 + 1e-9)


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_no_time_is_too_long_or_short_for_a_large_exponent(scale: float):
    machine = replace(ZEN4, overlap=64.0, ports=replace(ZEN4.ports, arithmetic=ZEN4.ports.arithmetic * scale))
    assert 0 < estimate(row(lambda x, y: x + y).nest, machine).seconds < 1e30


def test_a_core_that_shares_its_last_cache_with_many_keeps_less_of_it():
    (_, more), (_, less) = (cache_geometries(machine)[-1].kept for machine in (ZEN4, CASCADELAKE))
    assert less < more == ZEN4.kept
