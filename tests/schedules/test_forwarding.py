"""Loads that lie on several stores of a moment ago wait for these; loads inside one, and of what was stored long ago, do not."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.codegen.target.cores import machine_of
from tensorlang.schedules.model import forwarding
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.model.forwarding import STALL, waits
from tensorlang.schedules.model.parts import Loop, Part
from tensorlang.schedules.model.program import program

MACHINE = machine_of(target("cascadelake"))


def rows(shift: int = 1, columns: int = 64, lanes: tuple[int, int] = (16, 16)) -> tl.Schedule:
    """A row that is made just before it is read, `shift` elements to the right; by vectors of so many lanes (1: by elements)."""
    x = tl.placeholder((40, columns + shift), name="X")
    made = tl.compute((40, columns + shift), lambda i, j: x[i, j] * 2.0, name="P")
    k = tl.reduce_axis(2, name="k")
    s = tl.Schedule(tl.compute((40, columns), lambda i, j: tl.sum(made[i, j + k * shift], axis=k), name="Y"))
    s.compute_at("P", "Y.i")
    for axis, width in (("P.j", lanes[0]), ("Y.j", lanes[1])):
        if width > 1:
            s.split(axis, width, tail="mask")
            s.vectorize(f"{axis}_i")
    return s


def found(s: tl.Schedule) -> list[float]:
    """The cycles for which statements wait in an iteration of each loop."""

    def all_of(parts: tuple[Part, ...]) -> Any:
        for part in parts:
            if isinstance(part, Loop):
                yield from (cycles for _, cycles in waits(part, MACHINE))
                yield from all_of(part.body)

    return list(all_of(program(s.nest)))


@pytest.mark.parametrize(
    ("options", "fails"),
    [
        ({}, True),
        ({"shift": 3}, True),
        ({"shift": 16}, False),
        ({"lanes": (16, 1)}, False),
        ({"lanes": (1, 16), "columns": 32}, True),
        ({"lanes": (1, 1)}, False),
        ({"columns": 4096}, False),
    ],
)
def test_a_load_waits_where_it_needs_bytes_of_several_stores_that_wait(options: dict[str, Any], fails: bool) -> None:
    cycles = found(rows(**options))
    assert bool(cycles) == fails
    assert all(one >= STALL * MACHINE.caches[0].latency for one in cycles)


def test_rows_above_and_below_are_where_they_were_stored() -> None:
    """Rows of 10 elements begin at no multiple of a vector, and are read as they were stored."""
    x = tl.placeholder((42, 10), name="X")
    made = tl.compute((42, 10), lambda i, j: x[i, j] * 2.0, name="P")
    k = tl.reduce_axis(3, name="k")
    s = tl.Schedule(tl.compute((40, 10), lambda i, j: tl.sum(made[i + k, j], axis=k), name="Y"))
    s.compute_at("P", "Y.i")
    for axis in ("P.j", "Y.j"):
        s.split(axis, 16, tail="mask")
        s.vectorize(f"{axis}_i")
    assert not found(s)


def test_what_waits_is_part_of_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    s = rows()
    with_waits = estimate(s.nest, MACHINE)
    monkeypatch.setattr(forwarding, "waits", lambda *_: ())
    without = estimate(s.nest, MACHINE)
    cycles = (with_waits.shares["arithmetic"] - without.shares["arithmetic"]) * MACHINE.hertz
    assert cycles == pytest.approx(40 * sum(found(s)))
