"""States of a scan that a step changes by scatters: where they stand if nobody wants what was there, and always to the same values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tests.draws import examples

V, STEPS = 9, 6
what = st.sampled_from(["add", "max", "set"])
part = st.tuples(
    st.sampled_from(["stage", "scatter"]),
    st.integers(0, 5),  # which table is read, or begun with, of those that there are
    st.integers(0, 5),  # which one is read besides
    st.integers(1, 3),  # iterations of a scatter
    what,
)


def program(parts: list[tuple[str, int, int, int, str]], following: list[int]) -> tuple[Any, tuple[tl.Tensor, ...]]:
    """Two tables, and a step of stages and scatters that read what there is; the next ones are of those that were made, or of the last."""
    w = tl.placeholder((STEPS, 3), "int32", name="w")
    starts = [tl.placeholder((V,), "int32", name=name) for name in ("x", "y")]

    def step(t: Any, state: Any) -> Any:
        tables: list[Any] = list(state)
        for number, (kind, first, second, count, reduce) in enumerate(parts):
            begin, other = tables[first % len(tables)], tables[second % len(tables)]
            if kind == "stage":
                tables.append(tl.compute((V,), lambda v, a=begin, b=other: a[v] + (b[(v + 1) % V] & 3), name=f"stage{number}"))
                continue
            axis = tl.reduce_axis(count, name=f"a{number}")
            tables.append(
                tl.scatter(
                    begin,
                    axes=(axis,),
                    index=lambda a: tl.clamp(w[t, a], 0, V - 1),
                    value=lambda a, b=other: (b[tl.clamp(w[t, a] + 1, 0, V - 1)] & 7) + 1,
                    reduce=reduce,
                    name=f"scatter{number}",
                )
            )
        return tuple(tables[place % len(tables)] for place in following)

    return tl.scan(step, tuple(starts), STEPS, keep=("last", "last"), name="S"), (*starts, w)


@examples(150)
@given(st.lists(part, min_size=1, max_size=5), st.lists(st.integers(0, 6), min_size=2, max_size=2))
def test_every_table_is_what_it_was(parts: list[tuple[str, int, int, int, str]], following: list[int]) -> None:
    outputs, operands = program(parts, following)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(*ends, shape, dtype=np.int32) for ends, shape in (((-5, 90), V), ((-5, 90), V), ((0, V), (STEPS, 3)))]
    wanted = tl.evaluate(outputs, dict(zip(operands, arrays, strict=True)))
    for kernel in (tl.build(outputs, inputs=operands), tl.build(tl.Schedule(outputs), inputs=operands)):
        for found, right in zip(kernel(*arrays), wanted, strict=True):
            np.testing.assert_array_equal(found, right)


def places(step: Any, tables: int = 1) -> list[int]:
    """Of each table the places of its ring."""
    starts = tuple(tl.placeholder((64,), "int32", name=f"x{number}") for number in range(tables))
    state = starts[0] if tables == 1 else starts
    keep = "last" if tables == 1 else ("last",) * tables
    s = tl.Schedule(tl.scan(step, state, 8, keep=keep, name="S"))
    return [int(count) for count in re.findall(r"S\S*\.ring: int32\[(\d)", str(s))]


W = tl.placeholder((8,), "int32", name="w")


def at(t: Any) -> Any:
    return tl.clamp(W[t], 0, 63)


def added(table: Any, t: Any, value: Any = 1, count: int = 1, name: str = "n") -> Any:
    axis = tl.reduce_axis(count, name=f"{name}_a")
    return tl.scatter(table, axes=(axis,), index=lambda a: (at(t) + a) % 64, value=lambda a: tl.cast(value, "int32"), name=name)


def test_one_element_is_changed_where_it_stands() -> None:
    assert places(lambda t, n: added(n, t)) == [1]


def test_so_are_those_of_one_scatter_after_the_other() -> None:
    def step(t: Any, n: Any) -> Any:
        less = added(n, t, -1, name="less")
        seen = tl.compute((), lambda: less[at(t)], name="seen")
        return added(less, t, seen[()], name="more")

    assert places(step) == [1]


def test_what_reads_the_last_state_moves_before_the_scatter() -> None:
    def step(t: Any, state: Any) -> Any:
        n, total = state
        changed = added(n, t)
        k = tl.reduce_axis(64, name="k")
        return changed, tl.compute((64,), lambda i: total[i] + tl.sum(n[k], axis=k), name="total")

    assert places(step, 2)[0] == 1


def test_where_it_needs_the_scatter_too_the_last_state_stays() -> None:
    def step(t: Any, state: Any) -> Any:
        n, _ = state
        changed = added(n, t)
        return changed, tl.compute((64,), lambda i: changed[i] - n[i], name="difference")

    assert places(step, 2) == [2, 2]


@pytest.mark.parametrize(("count", "found"), [(1, 1), (2, 2)])
def test_a_scatter_that_reads_what_it_changes_has_one_iteration(count: int, found: int) -> None:
    assert places(lambda t, n: added(n, t, n[(at(t) + 1) % 64], count)) == [found]


def test_a_state_that_goes_on_as_another_one_stays() -> None:
    assert places(lambda t, state: (added(state[0], t), state[0]), 2)[0] == 2


def test_time_does_not_grow_with_the_table() -> None:
    """The nest of a step touches one element, whatever the size."""
    s = tl.Schedule(tl.scan(lambda t, n: added(n, t), tl.placeholder((64,), "int32", name="x"), 8, keep="last", name="S"))
    inside = str(s).partition("for t in")[2].partition("for i0")[0]
    assert "range(64)" not in inside
