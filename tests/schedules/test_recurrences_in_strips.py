"""A recurrence is computed for an iteration of its reader all along what it follows, and in a box of the other dimensions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.strategies import choose
from tests.schedules.programs import check, refused


def summed(up: int = 1, left: int = 0, m: Any = 7, n: Any = 12) -> Tensor:
    """Z[j, i] = Y[i, j] where Y[i, j] is X[i, j] and half of Y[i - up, j - left]: turned, so that a strip of Z needs columns of Y."""
    x = tl.placeholder((m, n), name="X")

    def body(i: Any, j: Any, y: Any) -> Any:
        return x[i, j] + 0.5 * y[i - up, j - left]

    y = tl.recurrence((m, n), body, name="Y")
    result: Tensor = tl.compute((n, m), lambda j, i: y[i, j], name="Z")
    return result


def test_what_a_recurrence_follows_is_whole_and_the_rest_a_box() -> None:
    s = tl.Schedule(summed())
    outer, _ = s.split("Z.j", 4)
    s.compute_at("Y", outer)
    assert "Y: float32[7, 4]" in str(s)
    s.vectorize("Y.j")
    check(s)


@pytest.mark.parametrize("tail", ["guard", "peel", "mask", "shift"])
@pytest.mark.parametrize("columns", [1, 5, 11])
def test_strips_of_any_width(columns: int, tail: Any) -> None:
    s = tl.Schedule(summed())
    outer, _ = s.split("Z.j", columns, tail)
    s.compute_at("Y", outer)
    check(s)


def test_a_reader_of_other_columns_has_a_wider_box() -> None:
    x = tl.placeholder((6, 14), name="X")
    y = tl.recurrence((6, 14), lambda i, j, y: x[i, j] + 0.5 * y[i - 1, j], name="Y")
    z = tl.compute((12, 6), lambda j, i: y[i, j] + y[5 - i, j + 2], name="Z")
    s = tl.Schedule(z)
    outer, inner = s.split("Z.j", 4)
    s.compute_at("Y", outer)
    assert "Y: float32[6, 6]" in str(s)
    check(s)
    s.compute_at("Y", inner)
    s.store_at("Y", outer)  # columns that an earlier iteration has computed are there
    assert "select(" in str(s)
    check(s)


def test_several_states_follow_together() -> None:
    x = tl.placeholder((6, 9), name="X")

    def body(i: Any, j: Any, one: Any, other: Any) -> Any:
        return x[i, j] + 0.5 * other[i - 1, j], one[i - 1, j] - 0.25 * x[i, j]

    first, second = tl.recurrence((6, 9), body, name="Y")
    s = tl.Schedule(tl.compute((9, 6), lambda j, i: first[i, j] * second[5 - i, j], name="Z"))
    s.compute_at("Y", "Z.j")
    check(s)


def test_a_recurrence_goes_back_and_elsewhere() -> None:
    s = tl.Schedule(summed())
    outer, inner = s.split("Z.j", 4)
    whole = str(s)
    s.compute_at("Y", inner)
    assert "Y: float32[7, 1]" in str(s)
    check(s)
    s.compute_at("Y", outer)
    assert "Y: float32[7, 4]" in str(s)
    check(s)
    s.compute_root("Y")
    assert str(s) == whole.replace("j - 0", "j")
    check(s)


@pytest.mark.parametrize(("up", "left", "loop"), [(1, 0, "i"), (0, 1, "j"), (1, 1, "j"), (1, 1, "i")])
def test_strips_along_what_is_followed_are_refused(up: int, left: int, loop: str) -> None:
    s = tl.Schedule(summed(up, left))
    if loop == "i":
        s.reorder("Z.i", "Z.j")
    refused(s, "TL-S301", "reads its own elements", "compute_at", "Y", f"Z.{loop}")
    check(s)


def test_rows_of_sums_along_the_row_are_one_by_one() -> None:
    s = tl.Schedule(summed(0, 1))
    s.reorder("Z.i", "Z.j")
    s.compute_at("Y", "Z.i")
    assert "Y: float32[1, 12]" in str(s)
    check(s)


def test_a_recurrence_is_not_written_into_its_readers() -> None:
    refused(tl.Schedule(summed()), "TL-S301", "reads its own elements", "compute_inline", "Y")


def passes(rows: int = 600, columns: int = 1200) -> Tensor:
    """Down the columns, up again, and turned: what Halide's `iir_blur` does by hand in strips of columns."""
    x = tl.placeholder((rows, columns), name="X")
    down = tl.recurrence((rows, columns), lambda i, j, y: tl.select(i == 0, x[0, j], 0.25 * x[i, j] + 0.75 * y[i - 1, j]), name="down")
    up = tl.recurrence(
        (rows, columns),
        lambda i, j, y: tl.select(i == 0, down[rows - 1, j], 0.25 * down[rows - 1 - i, j] + 0.75 * y[i - 1, j]),
        name="up",
    )
    result: Tensor = tl.compute((columns, rows), lambda j, i: up[rows - 1 - i, j], name="turned")
    return result


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("strips", [8, 64])
def test_two_passes_and_a_transposition_share_a_strip(strips: int, threads: int) -> None:
    strategy = choose(passes(), target("native"), threads=threads)
    point = {**strategy.default, "strip": strips, "slides": False, "down.at": "strip", "up.at": "strip"}
    s = strategy.schedule({**point, "parallel": "outer"} if threads > 1 else point)
    assert not s.faults
    assert ("parallel j_o" in str(s) or "parallel turned.j_o" in str(s)) == (threads > 1)
    computes_passes(s)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("piece", [64, 512])
def test_what_goes_down_the_columns_is_cut_into_pieces_of_the_rows(piece: int, threads: int) -> None:
    """The rows of a strip of `up` come in order: a strip of rows would need all of `down` each time, a piece of them needs a piece."""
    strategy = choose(passes(), target("native"), threads=threads)
    point = strategy.space.complete({**strategy.default, "piece": piece, "down.at": "strip", "up.at": "whole"})
    assert strategy.space.contains(point)
    s = strategy.schedule(point)
    assert not s.faults
    assert f"down: float32[600, {piece}]" in str(s)
    around = re.search(r"(\w+ up\.j_o in .*\n)( *down: .*\n)", str(s))
    assert around is not None and around.group(1).startswith("parallel" if threads > 1 else "for")
    computes_passes(s)


def computes_passes(s: tl.Schedule) -> None:
    given = np.random.default_rng(0).random((600, 1200), "float32")
    wanted = given.astype("float64")
    for i in range(1, 600):
        wanted[i] = 0.25 * wanted[i] + 0.75 * wanted[i - 1]
    for i in range(598, -1, -1):
        wanted[i] = 0.25 * wanted[i] + 0.75 * wanted[i + 1]
    np.testing.assert_allclose(tl.build(s)(given), wanted.T, rtol=1e-5)
