"""Ends of rows that ask where to read are peeled off where they are few, and every element is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.ir import Binary, For, Select
from tensorlang.ir.traverse import expressions, statements, walk
from tensorlang.schedules.strategies import choose

Read = Callable[[Any, Any, Any, int], Any]
"""An element of an image at a place that may lie beyond its border."""

BORDERS: dict[str, tuple[Read, Any]] = {
    "wrap": (lambda x, i, j, n: x[i, j % n], "wrap"),
    "edge": (lambda x, i, j, n: x[i, tl.clamp(j, 0, n - 1)], "edge"),
    "constant": (lambda x, i, j, n: tl.select((j >= 0) & (j < n), x[i, j], 0.0), "constant"),
    "reflect": (lambda x, i, j, n: x[i, tl.select(j < 0, -j, tl.select(j >= n, 2 * n - 2 - j, j))], "reflect"),
}


def neighbours(border: str, columns: int, offsets: tuple[int, ...], dtype: str = "float32") -> Any:
    x, (read, _) = tl.placeholder((5, columns), dtype, name="X"), BORDERS[border]
    return tl.compute((5, columns), lambda i, j: sum(read(x, i, j + offset, columns) for offset in offsets), name="Y")


@pytest.mark.parametrize("border", ["wrap", "edge", "reflect"])
def test_the_middle_of_a_row_asks_nothing(border: str) -> None:
    kinds = choose(neighbours(border, 200, (-2, 0, 1)), target("znver4"), 1)
    assert kinds.default["ends"] is True
    s = kinds.schedule(kinds.default)
    assert "for j_first in range(2)" in str(s) and "for j_last in range(199, 200)" in str(s)
    parts = statements(lower(s.nest, target("znver4")).body)
    vectors = [part for part in parts if isinstance(part, For) and part.kind == "vector"]
    nodes = [node for part in vectors for inner in statements(part) for expr in expressions(inner) for node in walk(expr)]
    assert nodes and not any(isinstance(node, Select) or (isinstance(node, Binary) and node.op in ("min", "max", "mod")) for node in nodes)


@pytest.mark.parametrize("columns", [3, 8, 18, 19, 64, 100])
@pytest.mark.parametrize(("border", "dtype"), [*((border, "float32") for border in BORDERS), ("wrap", "uint8"), ("reflect", "uint8")])
def test_every_element_is_that_of_numpy(border: str, columns: int, dtype: str) -> None:
    x = np.random.default_rng(columns).integers(0, 50, (5, columns)).astype(dtype)
    around = np.pad(x, ((0, 0), (2, 2)), mode=BORDERS[border][1])
    want = around[:, :columns] + around[:, 2 : 2 + columns] + around[:, 3 : 3 + columns]
    kinds = choose(neighbours(border, columns, (-2, 0, 1), dtype), target(), 1)
    for ends in {kinds.default.get("ends", False), False}:
        config = {**kinds.default, "ends": ends} if "ends" in kinds.default else kinds.default
        assert np.array_equal(tl.build(kinds.schedule(config))(x), want)


def test_lanes_that_read_nothing_beyond_a_border_are_off() -> None:
    assert "ends" not in choose(neighbours("constant", 200, (-2, 0, 1)), target("znver4"), 1).default


def test_ends_of_many_elements_stay() -> None:
    assert "ends" not in choose(neighbours("edge", 200, (-5, 0)), target("znver4"), 1).default
    assert choose(neighbours("edge", 200, (-5, 0, 1)), target("znver4"), 1).default["ends"] is True  # the other end is short


def test_what_data_or_another_axis_asks_has_no_ends() -> None:
    x, at = tl.placeholder((5, 200), name="X"), tl.placeholder((5,), "int32", name="at")
    shifted = tl.compute((5, 200), lambda i, j: x[i, tl.clamp(j + tl.cast(at[i], "int64"), 0, 199)], name="Y")
    slanted = tl.compute((5, 200), lambda i, j: x[i, tl.clamp(j - i, 0, 199)], name="Y")
    for defined in (shifted, slanted):
        assert "ends" not in choose(defined, target("znver4"), 1).default


def test_a_row_that_is_all_ends_stays_whole() -> None:
    assert "ends" not in choose(neighbours("wrap", 18, (-2, 1)), target("znver4"), 1).default


SAMPLED: dict[str, Callable[[Any], Any]] = {
    "between": lambda j: (j + 1) // 2,
    "pairs": lambda j: 2 * (j // 2) - 1,
    "near and far": lambda j: j // 2 - 1 + 2 * (j % 2),
    "thirds": lambda j: (j - 1) // 3,
    "of pairs": lambda j: 2 * ((j + 1) // 2) + 1,
    "down": lambda j: 40 - (j + 2) // 2,
}
"""Places in a row of 40 that an image of another size reads, beyond its borders too."""


def sampled(name: str, columns: int, n: int = 40) -> Any:
    x = tl.placeholder((5, n), name="X")
    return tl.compute((5, columns), lambda i, j: x[i, tl.clamp(SAMPLED[name](j), 0, n - 1)] + x[i, tl.clamp(j // 2, 0, n - 1)], name="Y")


@pytest.mark.parametrize("columns", [3, 17, 40, 77, 80])
@pytest.mark.parametrize("name", SAMPLED)
def test_an_image_of_another_size_is_that_of_numpy(name: str, columns: int) -> None:
    x, at = np.random.default_rng(columns).random((5, 40), dtype=np.float32), np.arange(columns)
    want = x[:, np.clip(SAMPLED[name](at), 0, 39)] + x[:, np.clip(at // 2, 0, 39)]
    kinds = choose(sampled(name, columns), target(), 1)
    for ends in {kinds.default.get("ends", False), False}:
        for lanes in {kinds.default.get("lanes", False), True}:
            config = {**kinds.default, **{knob: value for knob, value in (("ends", ends), ("lanes", lanes)) if knob in kinds.default}}
            np.testing.assert_array_equal(tl.build(kinds.schedule(config))(x), want)


@pytest.mark.parametrize("name", ["between", "pairs", "near and far"])
def test_places_that_are_quotients_ask_nothing_in_the_middle(name: str) -> None:
    kinds = choose(sampled(name, 1024, 1024 if name == "pairs" else 512), target("znver4"), 1)
    ways = {"ends": (False, True), "phases": (False, True)}
    for knob, values in ways.items():
        for choice in values if knob in kinds.default else ():
            s = kinds.schedule({**kinds.default, "lanes": True, knob: choice})
            vectors = [part for part in statements(lower(s.nest, target("znver4")).body) if isinstance(part, For) and part.kind == "vector"]
            inner = [[node for part in statements(loop) for expr in expressions(part) for node in walk(expr)] for loop in vectors]
            assert any(not any(isinstance(node, Binary) and node.op in ("min", "max") for node in nodes) for nodes in inner)
    assert ways.keys() & kinds.default.keys()
