"""What the model says a nest waits for, on nests that are made to wait for one thing, on machines that are described."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.codegen.target.cores import machine_of
from tensorlang.schedules.model.causes import KINDS, Cause, causes, without
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.model.machine import Machine

ZEN = machine_of(target("znver3"))
LAKE = machine_of(target("cascadelake"))
BOTH = pytest.mark.parametrize("machine", [ZEN, LAKE], ids=["zen", "lake"])


def product(n: int, rows: int, *, packed: bool = False) -> tl.Schedule:
    A, B = tl.placeholder((n, n), name="A"), tl.placeholder((n, n), name="B")
    k = tl.reduce_axis(n, name="k")
    s = tl.Schedule(tl.compute((n, n), lambda i, j: tl.sum(A[i, k] * B[k, j], axis=k), name="C"))
    j_o, j_i = s.split("j", 16)
    i_o, i_i = s.split("i", rows)
    s.reorder(j_o, i_o, "k", i_i, j_i)
    if packed:
        s.pack("B", at=j_o)
    s.accumulate("C", at=i_o)
    s.vectorize(j_i)
    s.unroll(i_i)
    return s


def chain() -> tl.Schedule:
    X, k = tl.placeholder((2048,), name="X"), tl.reduce_axis(2048, name="k")
    return tl.Schedule(tl.compute((1,), lambda i: tl.sum(X[k], axis=k), name="S"))


def turned(n: int) -> tl.Schedule:
    X = tl.placeholder((n, n), name="X")
    s = tl.Schedule(tl.compute((n, n), lambda i, j: X[j, i], name="T"))
    i_o, i_i = s.split("i", 8)
    j_o, j_i = s.split("j", 16)
    s.reorder(i_o, j_o, j_i, i_i)
    s.vectorize(i_i)
    s.unroll(j_i)
    return s


def copied() -> tl.Schedule:
    X = tl.placeholder((1 << 24,), name="X")
    s = tl.Schedule(tl.compute((1 << 24,), lambda i: X[i], name="Y"))
    s.vectorize(s.split("i", 16)[1])
    return s


def dearest(s: tl.Schedule, machine: Machine) -> Cause:
    return causes(s.nest, machine)[1][0]


@BOTH
def test_a_sum_of_one_number_after_the_other_waits_for_its_chain(machine: Machine) -> None:
    whole, found = causes(chain().nest, machine)
    assert found[0].kind == "chain"
    assert found[0].seconds > 0.5 * whole
    assert found[0].stride is None


@BOTH
def test_a_transposed_read_waits_for_the_pages_of_what_it_reads(machine: Machine) -> None:
    whole, dear = causes(turned(4096).nest, machine)
    found = next(cause for cause in dear[:2] if cause.kind == "pages")  # beside the lines, each of which comes alone
    assert found.seconds > 0.3 * whole
    stride = found.stride
    assert stride is not None
    assert (stride.buffer, stride.apart, stride.places, stride.of) == ("X", 4096 * 4, 4096, "pages")
    assert stride.room == machine.pages.entries
    assert not stride.reused


@BOTH
def test_a_product_whose_columns_are_a_power_of_two_apart_waits_for_pages_and_sets_of_what_is_not_packed(machine: Machine) -> None:
    whole, found = causes(product(2048, 4).nest, machine)
    by_kind = {cause.kind: cause for cause in found}
    assert found[0].kind == "pages"
    assert found[0].seconds > 0.5 * whole
    for kind in ("pages", "conflicts"):
        stride = by_kind[kind].stride  # type: ignore[index]
        assert stride is not None
        assert (stride.buffer, stride.loop, stride.apart, stride.reused) == ("B", "C.k", 8192, True)
    conflict = by_kind["conflicts"].stride
    assert conflict is not None
    assert conflict.places < 2048 // 100 < conflict.room


@BOTH
def test_packed_panels_wait_for_neither_sets_nor_many_pages(machine: Machine) -> None:
    whole, found = causes(product(2048, 4, packed=True).nest, machine)
    saved = {cause.kind: cause.seconds / whole for cause in found}
    assert saved.get("conflicts", 0.0) < 0.1
    assert saved.get("pages", 0.0) < 0.2
    assert all(cause.stride is None or cause.stride.buffer != "B" for cause in found if cause.kind == "pages")


@BOTH
def test_a_copy_of_what_no_cache_holds_is_bound_by_memory(machine: Machine) -> None:
    whole, found = causes(copied().nest, machine)
    assert found[0].kind == "memory"
    assert found[0].seconds > 0.5 * whole


def test_a_product_in_a_large_tile_is_bound_by_arithmetic() -> None:
    assert dearest(product(96, 6), replace(ZEN, ports=replace(ZEN.ports, arithmetic=1.0))).kind == "arithmetic"


def test_a_gather_across_lanes_waits_for_shuffles() -> None:
    X = tl.placeholder((64, 3), name="X")
    s = tl.Schedule(tl.compute((3, 64), lambda i, j: X[j, i] * 2, name="Y"))
    s.vectorize("j")
    assert dearest(s, replace(ZEN, ports=replace(ZEN.ports, shuffles=0.2))).kind == "shuffles"


def test_quotients_wait_for_the_divider() -> None:
    X = tl.placeholder((64, 256), name="X")
    s = tl.Schedule(tl.compute((64, 256), lambda i, j: X[i, j] / (1 + X[i, 0]) / (2 + X[i, 1]), name="Y"))
    s.vectorize(s.split("j", 32)[1])
    assert dearest(s, ZEN).kind == "divisions"


@BOTH
def test_without_what_is_waited_for_nothing_takes_longer_and_without_a_rate_not_much(machine: Machine) -> None:
    for s in (chain(), turned(1000), product(256, 4), copied()):
        whole = estimate(s.nest, machine).seconds
        for kind in KINDS:
            waited = kind in ("latency", "conflicts", "pages")  # behind the others waits are hidden
            assert estimate(s.nest, without(machine, kind)).seconds <= whole * (1 + 1e-9 if waited else 1.15), kind


def test_the_seconds_of_a_cause_are_those_that_the_estimate_loses() -> None:
    s = product(1000, 4)
    whole, found = causes(s.nest, ZEN)
    assert whole == estimate(s.nest, ZEN).seconds
    for cause in found:
        assert cause.seconds == pytest.approx(whole - estimate(s.nest, without(ZEN, cause.kind)).seconds)
    assert [cause.seconds for cause in found] == sorted((cause.seconds for cause in found), reverse=True)


def test_extents_that_a_call_tells_are_those_of_the_call() -> None:
    n = tl.dim("n")
    x = tl.placeholder((n,), name="x")
    s = tl.Schedule(tl.compute((n,), lambda i: x[i] * 2, name="y"))
    assert causes(s.nest, ZEN, {"n": 1 << 24})[0] > 100 * causes(s.nest, ZEN, {"n": 1 << 10})[0]
