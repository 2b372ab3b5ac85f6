"""Tables that registers hold, where the processor picks bytes out of two of them, shuffles those of several, or permutes numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.emission.emit import emit
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target, why_foreign
from tensorlang.schedules.strategies import choose
from tests.thinned import crossed

BYTES = 1000


def looked_up(length: int, of: str, made: str, *, where: bool = False) -> tl.Tensor:
    """Twice what a table has at each byte of X, or 1 where X is odd."""
    x, table = tl.placeholder((BYTES,), "uint8", name="X"), tl.placeholder((length,), of, name="T")

    def element(i: Any) -> Any:
        found = tl.cast(table[tl.clamp(x[i], 0, length - 1)], made)
        twice = tl.cast(found + found, made)
        return tl.select(x[i] % 2 == 0, twice, tl.cast(1, made)) if where else twice

    found: tl.Tensor = tl.compute((BYTES,), element, name="found")
    return found


HERE = [found for found in ("native", "x86-64-v4", "x86-64-v3") if why_foreign(target(found)) is None]


@crossed(
    {
        "machine": HERE,
        "length": [1, 3, 7, 8, 9, 15, 16, 17],
        "of": ["float32", "int32", "uint32"],
        "lanes": [5, 16, 40],
        "where": [False, True],
    },
    count=48,
)
def test_lanes_find_what_a_table_of_numbers_has(length: int, of: str, lanes: int, machine: str, *, where: bool) -> None:
    draw = np.random.default_rng(length)
    x, table = draw.integers(0, 256, BYTES).astype("uint8"), draw.integers(0, 1 << 20, length).astype(of)
    s = tl.Schedule(looked_up(length, of, of, where=where))
    s.vectorize(s.split("found.i", lanes, tail="mask" if lanes == 16 else "peel")[1])
    found = table[np.minimum(x, length - 1)]
    wanted = np.where(x % 2 == 0, found + found, 1) if where else found + found
    assert np.array_equal(tl.build(s, target=machine)(X=x, T=table), wanted.astype(of))


ROWS = 7


def looked_up_in_rows(length: int, of: str, *, where: bool, short: bool) -> tl.Tensor:
    """What a row of a table has where X tells, another row for each row of X; 1 where X is odd, and, if `short`, where it is too large."""
    x, table = tl.placeholder((ROWS, BYTES), "uint8", name="X"), tl.placeholder((2, ROWS, length), of, name="T")

    def element(r: Any, i: Any) -> Any:
        at = tl.cast(x[r, i], "int32") if short else tl.clamp(x[r, i], 0, length - 1)
        found = table[1, (r + 3) % ROWS, at]
        if short:
            found = tl.select(at < length, found, tl.cast(1, of))
        return tl.select(x[r, i] % 2 == 0, found, tl.cast(1, of)) if where else found

    found: tl.Tensor = tl.compute((ROWS, BYTES), element, name="found")
    return found


@crossed(
    {
        "machine": HERE,
        "table": [
            (1, "float32"),
            (4, "float32"),
            (9, "int32"),
            (16, "float32"),
            (17, "float32"),
            (16, "uint8"),
            (64, "int8"),
            (256, "uint8"),
        ],
        "lanes": [5, 16, 40],
        "where": [False, True],
        "short": [False, True],
    },
    count=64,
)
def test_lanes_find_what_a_row_has(table: tuple[int, str], lanes: int, machine: str, *, where: bool, short: bool) -> None:
    length, of = table
    draw = np.random.default_rng(length)
    x, rows = draw.integers(0, 256, (ROWS, BYTES)).astype("uint8"), draw.integers(0, 100, (2, ROWS, length)).astype(of)
    s = tl.Schedule(looked_up_in_rows(length, of, where=where, short=short))
    s.vectorize(s.split("found.i", lanes, tail="mask" if lanes == 16 else "peel")[1])
    own = rows[1, (np.arange(ROWS)[:, None] + 3) % ROWS, np.minimum(x, length - 1)]
    wanted = np.where(short & (x >= length) | where & (x % 2 == 1), np.ones((), of), own)
    np.testing.assert_array_equal(tl.build(s, target=machine)(X=x, T=rows), wanted)


def test_a_row_that_each_lane_has_for_itself_is_gathered() -> None:
    x, table = tl.placeholder((BYTES,), "uint8", name="X"), tl.placeholder((BYTES, 4), name="T")
    s = tl.Schedule(tl.compute((BYTES,), lambda i: table[i, tl.clamp(x[i], 0, 3)], name="found"))
    s.vectorize(s.split("found.i", 16)[1])
    given, rows = np.random.default_rng(0).integers(0, 9, BYTES).astype("uint8"), np.random.default_rng(1).random((BYTES, 4), "float32")
    assert "permvar" not in emit(lower(s.nest, target("znver4")), target("znver4"), name="f")
    np.testing.assert_array_equal(tl.build(s)(X=given, T=rows), rows[np.arange(BYTES), np.minimum(given, 3)])


def test_numbers_of_a_small_table_are_not_gathered() -> None:
    def text(length: int, cpu: str) -> str:
        s = tl.Schedule(looked_up(length, "float32", "float32"))
        s.vectorize(s.split("found.i", 16)[1])
        return emit(lower(s.nest, target(cpu)), target(cpu), name="f")

    assert "permvar.si.512" in text(16, "znver4") and "permd" in text(16, "haswell")
    assert "permvar" not in text(17, "znver4") and "permd" not in text(16, "x86-64-v2")


@pytest.mark.parametrize("where", [False, True])
@pytest.mark.parametrize("lanes", [5, 16, 64, 100])
@pytest.mark.parametrize(("of", "made"), [("uint8", "uint8"), ("int8", "int8"), ("int8", "int32"), ("uint8", "float32")])
@pytest.mark.parametrize("length", [16, 48, 64, 100, 128, 192, 256])
@pytest.mark.parametrize("machine", HERE)
def test_lanes_find_what_the_table_has(length: int, of: str, made: str, lanes: int, machine: str, *, where: bool) -> None:
    draw = np.random.default_rng(length)
    x, table = draw.integers(0, 256, BYTES).astype("uint8"), draw.integers(0, 256, length).astype("uint8").view(of)
    s = tl.Schedule(looked_up(length, of, made, where=where))
    s.vectorize(s.split("found.i", lanes, tail="mask" if lanes == 64 else "peel")[1])
    found = table[np.minimum(x, length - 1)].astype(made)
    with np.errstate(over="ignore"):
        wanted = np.where(x % 2 == 0, found + found, 1) if where else found + found
    assert np.array_equal(tl.build(s, target=machine)(X=x, T=table), wanted.astype(made))


def test_lanes_look_bytes_up_where_the_processor_picks_them() -> None:
    def vectors(cpu: str, length: int) -> bool:
        strategy = choose(looked_up(length, "uint8", "uint8"), target(cpu), 1)
        return "vector" in str(strategy.schedule(strategy.default))

    assert vectors("znver4", 256) and vectors("icelake-server", 128)
    assert vectors("znver3", 256) and vectors("skylake-avx512", 256) and vectors("haswell", 48)
    assert not vectors("x86-64-v2", 256) and not vectors("znver4", 100)


def test_a_table_that_the_program_makes_is_looked_up_after_it() -> None:
    x, y = tl.placeholder((4, BYTES), "uint8", name="X"), tl.placeholder((256,), "uint8", name="Y")
    table = tl.recurrence((256,), lambda v, sums: tl.cast(sums[v - 1] + y[v], "uint8"), name="table", dtype="uint8")
    found = tl.compute((4, BYTES), lambda i, j: table[x[i, j]], name="found")
    draw = np.random.default_rng(0)
    image, steps = draw.integers(0, 256, (4, BYTES)).astype("uint8"), draw.integers(0, 256, 256).astype("uint8")
    assert np.array_equal(tl.build(found)(X=image, Y=steps), np.cumsum(steps, dtype="uint8")[image])
