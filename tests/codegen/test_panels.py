"""Panels of operands that were packed beforehand are asked for while the one before is computed with: all of them, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.kernel.packer import split_all
from tensorlang.codegen.target import target
from tensorlang.ir import Const, Expr, For, Nest, Prefetch, Stmt, const
from tensorlang.ir.machine import LINE_BYTES
from tensorlang.ir.traverse import statements, substatements, substitute
from tensorlang.schedules.rewriting.edit import literal_extent
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.loops.panels import panels_ahead

EVERYTHING = 1 << 40
"""A cache that keeps two panels of anything."""


def matrices(m: int, n: int, k: int) -> Any:
    A, B, r = tl.placeholder((m, k), name="A"), tl.placeholder((k, n), name="B"), tl.reduce_axis(k, name="k")
    return tl.compute((m, n), lambda i, j: tl.sum(A[i, r] * B[r, j], axis=r), name="C")


def packed(m: int, n: int, k: int, columns: int, rows: int, depth: int) -> Nest:
    """A product in panels of B that are tensors of an input."""
    s = tl.Schedule(matrices(m, n, k))
    j_o, j_i = s.split("j", columns)
    i_o, i_i = s.split("i", rows)
    k_o, k_i = s.split("k", depth)
    s.reorder(j_o, k_o, i_o, k_i, i_i, j_i)
    s.pack("B", k_o)
    s.unroll(i_i)
    s.vectorize(j_i)
    _, rest = split_all(s.nest, ["B"])
    return rest


def asked(nest: Nest) -> Iterator[tuple[dict[str, int], int]]:
    """Where each hint points, as a number of an element, with the values of the loops around it."""

    def walk(stmt: Stmt, around: tuple[For, ...]) -> Iterator[tuple[dict[str, int], int]]:
        if isinstance(stmt, Prefetch):
            for values in product(*(range(literal_extent(loop) or 0) for loop in around)):
                at = dict(zip((loop.loop for loop in around), values, strict=True))
                place = 0
                for index, extent in zip(stmt.index, stmt.buffer.shape, strict=True):
                    known: dict[str, Expr] = {name: const(value) for name, value in at.items()}
                    here = simplify(substitute(index, known))
                    assert isinstance(here, Const) and isinstance(extent, Const)
                    place = place * int(extent.value) + int(here.value)
                yield at, place
        for part in substatements(stmt):
            yield from walk(part, (*around, stmt) if isinstance(stmt, For) else around)

    yield from walk(nest.body, ())


@pytest.mark.parametrize(("columns", "rows", "depth"), [(16, 4, 64), (48, 2, 32), (64, 8, 16), (64, 32, 16), (32, 16, 48)])
def test_the_steps_of_a_panel_ask_for_every_line_of_the_next_one(columns: int, rows: int, depth: int) -> None:
    whole = packed(32, 4 * columns, 4 * depth, columns, rows, depth)
    name = next(buffer.name for buffer in whole.inputs if buffer.name != "A")
    nest = panels_ahead(whole, name, EVERYTHING // 8)
    assert nest is whole  # all of it stays in such a cache
    size = columns * depth
    nest = panels_ahead(whole, name, 16 * size)
    hints = [part for part in statements(nest.body) if isinstance(part, Prefetch)]
    if rows == 32:  # no rows are left while a next panel could come
        assert not hints
        return
    assert hints and all(hint.level == 2 for hint in hints)
    found: dict[tuple[int, int], set[int]] = {}
    for at, place in asked(nest):
        found.setdefault((at["C.j_o"], at["C.k_o"]), set()).add(place * 4 // LINE_BYTES)
    for (j, k), lines in found.items():
        number = 4 * j + k + 1
        wanted = set(range(number * size * 4 // LINE_BYTES, (number + 1) * size * 4 // LINE_BYTES))
        assert wanted <= lines and len(lines) <= 2 * len(wanted) + 2


def test_panels_of_which_no_cache_keeps_two_are_not_asked_for() -> None:
    nest = packed(32, 64, 64, 16, 4, 64)
    name = next(buffer.name for buffer in nest.inputs if buffer.name != "A")
    assert panels_ahead(nest, name, 4 * 16 * 64 * 4 - 1) is nest
    assert panels_ahead(nest, name, 4 * 16 * 64 * 4) is not nest


def test_weights_that_stay_come_ahead_and_the_product_is_the_same() -> None:
    m, n, k = 64, 768, 1536
    x, w = (np.random.default_rng(seed).random(shape, dtype=np.float32) for seed, shape in ((0, (m, k)), (1, (k, n))))
    kernel = tl.compile(matrices(m, n, k)).prepack(B=w)
    assert "prefetch" in kernel.inspect("nest")
    np.testing.assert_allclose(kernel(x), x @ w, rtol=1e-4)


@pytest.mark.parametrize("cpu", ["sapphirerapids", "znver4", "cascadelake"])
def test_the_depth_for_weights_leaves_room_for_two_panels(cpu: str) -> None:
    machine = target(cpu)
    X, W = tl.placeholder((1, 512, 7, 7), name="X"), tl.placeholder((512, 512, 3, 3), name="W")
    outputs = tl.ops.conv2d(X, W, padding=1)
    strategy = choose(outputs, machine, 1, frozenset({"W"}))
    _, rest = split_all(strategy.schedule(strategy.default).nest, ["W"])
    name = next(buffer.name for buffer in rest.inputs if buffer.name != "X")
    assert panels_ahead(rest, name, machine.l2) is not rest
