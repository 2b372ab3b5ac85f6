"""Tables of bytes: lanes do not pay where they take elements out of vectors and put others in, one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.directives.loop_kinds import Vectorize
from tensorlang.schedules.strategies import choose

N = 1000
LEVELS, ROWS, TABLE = (
    np.random.default_rng(seed).integers(0, 200, shape).astype("uint8") for seed, shape in enumerate([(N,), (200, 64), (256,)])
)


def has_lanes(definition: Any, cpu: str = "cascadelake") -> bool:
    strategy = choose(definition, target(cpu), 1)
    return any(isinstance(step, Vectorize) for step in strategy.schedule(strategy.default).directives)


def level() -> Any:
    return tl.placeholder((N,), "uint8", name="level")


def looked_up(then: Callable[[Any], Any] = lambda value: value, dtype: str = "uint8") -> Any:
    at, table = level(), tl.placeholder((256,), dtype, name="table")
    return tl.compute((N,), lambda i: then(table[at[i]]), name="Y")


def rows() -> Any:
    at, table = level(), tl.placeholder((200, 64), "uint8", name="table")
    return tl.compute((N, 64), lambda i, j: table[tl.clamp(at[i], 0, 199), j], name="Y")


def long_chain(value: Any) -> Any:
    found = tl.cast(value, "float32")
    return tl.exp(tl.sin(found * 0.5 + 1)) * found + tl.sqrt(found + 2) / (found + 3) - found * found


@pytest.mark.parametrize(
    ("definition", "lanes"),
    [
        (looked_up(dtype="uint16"), False),
        (looked_up(lambda value: value * 2 + 1, dtype="uint16"), False),
        (looked_up(dtype="float32"), True),  # processors gather these
        (looked_up(long_chain), True),  # lanes make up for it
        (rows(), True),  # rows lie contiguous
    ],
)
def test_what_looks_bytes_up_and_does_little_else_has_no_lanes(definition: Any, lanes: bool) -> None:
    assert has_lanes(definition) is lanes


@pytest.mark.parametrize("then", [lambda value: value, lambda value: value * 2 + 1])
def test_bytes_of_few_are_looked_up_in_lanes_where_registers_hold_them(then: Callable[[Any], Any]) -> None:
    assert has_lanes(looked_up(then)) and not has_lanes(looked_up(then), "x86-64-v2")


def test_what_is_looked_up_is_what_numpy_finds() -> None:
    np.testing.assert_array_equal(tl.build(looked_up())(LEVELS, TABLE), TABLE[LEVELS])
    np.testing.assert_array_equal(tl.build(rows())(LEVELS, ROWS), ROWS[np.clip(LEVELS, 0, 199)])
