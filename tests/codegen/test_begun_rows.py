"""Rows of which a choice takes a part that ends elsewhere in each: tiles before the end, the one that it is in, and those behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.ir import Buffer, For, Load, Nest, Select
from tensorlang.ir.traverse import expressions, nodes, statements
from tensorlang.schedules.strategies import choose
from tests.thinned import crossed

N = 150
ENDS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "reversed": (lambda t, i: i < t, lambda t, i: t - 1 - i, lambda t, i: tl.maximum(t - 1 - i, 0)),
    "behind": (lambda t, i: i > t, lambda t, i: i - 1 - t, lambda t, i: tl.maximum(i - 1 - t, 0)),
    "from_the_end": (lambda t, i: i <= N - 1 - t, lambda t, i: i + t, lambda t, i: tl.minimum(i + t, N - 1)),
    "twice_as_far": (lambda t, i: 2 * i < t, lambda t, i: t - 2 * i, lambda t, i: tl.clamp(t - 2 * i, 0, N - 1)),
}
"""Where a row is chosen, and what it reads there; the same with a clamp."""


def rows(end: str, clamped: bool, extent: Any = N) -> Any:
    """The elements of a row that are chosen, and twice those of another tensor beyond them."""
    chosen, *reads = ENDS[end]
    x, y = tl.placeholder((N,), name="X"), tl.placeholder((extent, N), name="Y")
    return tl.compute((extent, N), lambda t, i: tl.select(chosen(t, i), x[reads[clamped](t, i)], 2 * y[t, i]), name="Z")


def expected(end: str, x: Any, y: Any) -> Any:
    chosen, read, _ = ENDS[end]
    t, i = np.ogrid[: len(y), :N]
    return np.where(chosen(t, i), x[read(t, i) % N], 2 * y)


def tiled(result: Any, lanes: int) -> tl.Schedule:
    s = tl.Schedule(result)
    s.vectorize(s.split("i", lanes, "peel")[1])
    return s


@crossed({"end": list(ENDS), "clamped": [False, True], "lanes": [4, 16, 64], "unknown": [False, True]})
def test_they_are_those_of_numpy(end: str, clamped: bool, lanes: int, unknown: bool) -> None:
    rng = np.random.default_rng(lanes)
    x, y = rng.random(N).astype("f4"), rng.random((N, N)).astype("f4")
    kernel = tl.build(tiled(rows(end, clamped, tl.dim("n", 1, N) if unknown else N), lanes))
    for count in (1, 77, N) if unknown else (N,):
        np.testing.assert_array_equal(kernel(x, y[:count]), expected(end, x, y[:count]))


def _rows_of(nest: Nest) -> list[tuple[bool, bool]]:
    """The loops of whole tiles: does each of them choose, and does it read what is chosen?"""
    found = list[tuple[bool, bool]]()
    for part in statements(lower(nest, target("znver4")).body):
        if isinstance(part, For) and part.loop == "Z.i_o":
            inside = [node for each in statements(part) for expr in expressions(each) for node in nodes(expr)]
            read = any(isinstance(node, Load) and isinstance(node.buffer, Buffer) and node.buffer.name == "X" for node in inside)
            found.append((any(isinstance(node, Select) for node in inside), read))
    return found


@pytest.mark.parametrize("clamped", [False, True])
@pytest.mark.parametrize("end", ["reversed", "from_the_end"])
def test_one_tile_of_a_row_asks(end: str, clamped: bool) -> None:
    """Those before read what is chosen without a question, those behind do not read it at all."""
    assert _rows_of(tiled(rows(end, clamped), 16).nest) == [(False, True), (True, True), (False, False)]


def test_one_tile_asks_where_most_of_a_row_lies_behind_the_end() -> None:
    """What holds in the middle of the loops is the end of the rows here: what comes before has a part that asks nothing as well."""
    x = tl.placeholder((N,), name="X")
    short = tl.compute((N // 2 + 20, N), lambda t, i: tl.select(i + 2 * t < N, x[i + 2 * t], 0.0), name="Z")
    assert _rows_of(tiled(short, 16).nest) == [(False, True), (True, True), (False, False)]
    data = np.random.default_rng(0).random(N).astype("f4")
    t, i = np.ogrid[: N // 2 + 20, :N]
    np.testing.assert_array_equal(tl.build(tiled(short, 16))(data), np.where(i + 2 * t < N, data[(i + 2 * t) % N], 0))


def test_what_no_lane_asks_is_not_worth_the_code() -> None:
    """A comparison for each element, beside three copies of the loop."""
    assert len(_rows_of(tl.Schedule(rows("reversed", False)).nest)) <= 2


@pytest.mark.parametrize(("end", "vectors"), [("reversed", 1), ("odd", 2)])
def test_such_rows_have_tiles_of_one_vector(end: str, vectors: int) -> None:
    """All of the tile at the end is masked; where lanes ask in each tile it is as long as usual."""
    x = tl.placeholder((N,), name="X")
    odd = tl.compute((N, N), lambda t, i: tl.select((t + i) % 2 == 1, x[i], 0.0), name="Z")
    strategy = choose(rows(end, False) if end in ENDS else odd, target("znver4"), threads=1)
    assert strategy.default["vectors"] == vectors and {**strategy.default, "vectors": 2} in strategy.space


def test_a_recurrence_of_levinson_and_durbin_is_that_of_numpy() -> None:
    """A scan whose step reads as much of the last one as there were steps."""
    r = tl.placeholder((N,), name="r")

    def step(t: Any, state: Any) -> Any:
        return tl.compute((N,), lambda i: tl.select(i < t, state[i] + r[t] * state[t - 1 - i], tl.select(i == t, r[t], 0.0)), name="next")

    zero = tl.compute((N,), lambda _: 0.0, name="zero")
    given = (np.random.default_rng(0).random(N) / N).astype("f4")
    found = tl.build(tl.scan(step, zero, N, keep="last", name="S"))(given)
    state = np.zeros(N)
    for t in range(N):
        state[:t] = state[:t] + given[t] * state[:t][::-1]
        state[t] = given[t]
    np.testing.assert_allclose(found, state, rtol=1e-5)
