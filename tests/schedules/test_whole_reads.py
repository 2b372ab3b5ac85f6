"""A copy of the box of a producer is made under no condition; the whole of the producer need not have what it reads."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl
from tests.schedules.judged import judge

SHAPE = (6, 2, 4)


def shifted(kind: str) -> tl.Schedule:
    """Y reads a row of h two further on, where there is one; `kind` says how it asks. Of "whole" there always is."""
    n = SHAPE[0]
    x = tl.placeholder(SHAPE, "int32", name="X")
    h = tl.compute(SHAPE, lambda i, r, j: x[i, r, j] * 2, name="h")
    k = tl.reduce_axis(3, name="k")
    rows = n - 2 if kind == "whole" else n

    def value(i: Any, r: Any, j: Any) -> Any:
        match kind:
            case "whole":
                return h[i + 2, r, j]
            case "select":
                return tl.select(i + 2 < n, h[i + 2, r, j], 0)
            case _:
                return tl.sum(h[i + k * 2, r, j], axis=k, where=i + k * 2 < n)

    return tl.Schedule(tl.compute((rows, *SHAPE[1:]), value, name="Y"))


MOVES = (("compute_root", "h"), ("store_root", "h"), ("store_at", "h", "Y.i"), ("compute_at", "h", "Y.i"))


@pytest.mark.parametrize("kind", ["select", "where"])
@pytest.mark.parametrize("copy", ["cache_read", "pack"])
def test_a_producer_whose_box_was_copied_without_a_condition_stays_where_it_is(kind: str, copy: str) -> None:
    """Whatever is accepted touches nothing that there is not: the judges look at every access."""
    for move in MOVES:
        s = shifted(kind)
        s.compute_at("h", "Y.r" if move[0] in ("store_at", "compute_at") else "Y.i")
        getattr(s, copy)("h", at="Y.j" if copy == "pack" or move[0] in ("store_at", "compute_at") else "Y.r")
        accepted = s.can(*move)
        if not accepted:
            assert accepted.error.code == "TL-S301"
            assert "'h'" in accepted.error.reason
        else:
            getattr(s, move[0])(*move[1:])
        judge(s)


def test_the_refusal_says_which_copy_it_is_and_what_to_do() -> None:
    s = shifted("select")
    s.compute_at("h", "Y.i")
    s.cache_read("h", at="Y.r")
    error = s.can("compute_root", "h").error
    assert error.reason == (
        "'h_cache' reads 'h' at d0 + i + 2, which it need not have as a whole: a copy of its box, or of its padding, is made under no "
        "condition; move 'h' first, then copy or pad it"
    )


@pytest.mark.parametrize("move", MOVES)
def test_a_producer_of_which_the_whole_is_there_is_moved(move: tuple[str, ...]) -> None:
    s = shifted("whole")
    s.compute_at("h", "Y.r" if move[0] in ("store_at", "compute_at") else "Y.i")
    s.cache_read("h", at="Y.j" if move[0] in ("store_at", "compute_at") else "Y.r")
    getattr(s, move[0])(*move[1:])
    judge(s)


def test_a_copy_of_the_whole_has_the_condition() -> None:
    s = shifted("select")
    s.cache_read("h", at="Y.r")
    s.compute_at("h", "Y.i")
    s.compute_root("h")
    judge(s)


def test_a_producer_is_not_written_into_a_copy_of_its_padding() -> None:
    """The copy takes rows 6 and 7 of storage that was padded to 8; of what h is computed from there are six."""
    s = shifted("select")
    s.pad_to("h", 0, 4)
    s.cache_read("h", at="Y.j")
    error = s.can("compute_inline", "h").error
    assert error.reason == "'h_cache' reads more of 'h' than is computed: its padding; inline it first"
    judge(s)
    s = shifted("select")
    s.pad_to("h", 0, 4)
    s.compute_inline("h")
    judge(s)


def test_what_is_legal_instead_of_a_tile_is_legal_where_the_tile_was_refused() -> None:
    """Halfway through, after two splits, other steps are legal than before them."""
    x = tl.placeholder((9,), "int32", name="X")
    one = tl.compute((9,), lambda i: x[8 - i] * 3, name="s0")
    s = tl.Schedule(tl.compute((9,), lambda i: tl.select(i >= 1, one[i - 1], 0) * 3, name="s1"))
    s.compute_at("s0", "s1.i")
    s.cache_read("X", at="s1.i")
    s.compute_at("X_cache", "s0.i")
    s.store_root("X_cache")
    s.fold_storage("s0", 0, 1)
    s.compute_root("X_cache")
    error = s.can("tile", "X_cache.d0", "s0.i", 3, 3).error
    assert all(s.can(step) for step in error.alternatives)
