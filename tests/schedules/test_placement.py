"""`compute_root`, `compute_at` of implicit stages, `store_at`: where a stage is computed never changes its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tensorlang as tl
from tensorlang.definition.tensor import Tensor
from tests.schedules.programs import EXTENTS, blur, check, rectified, refused
from tests.thinned import crossed


def centred(m: Any = 5, n: Any = 9) -> Tensor:
    """X minus the largest of its row: an implicit stage that depends on the row alone."""
    x = tl.placeholder((m, n), name="X")
    k = tl.reduce_axis(n, name="k")
    result: Tensor = tl.compute((m, n), lambda i, j: x[i, j] - tl.max(x[i, k], axis=k), name="C")
    return result


def product() -> Tensor:
    """C[i, j] = sum over k of (A[i, k] + 1) * B[j, k]."""
    a, b, k = tl.placeholder((8, 6), name="A"), tl.placeholder((3, 6), name="B"), tl.reduce_axis(6, name="k")
    p = tl.compute((8, 6), lambda i, j: a[i, j] + 1, name="P")
    result: Tensor = tl.compute((8, 3), lambda i, j: tl.sum(p[i, k] * b[j, k], axis=k), name="C")
    return result


# compute_root, and compute_at of implicit stages


@pytest.mark.parametrize("length", [0, 1])
def test_storage_does_not_leave_what_still_uses_it_behind(length: int) -> None:
    """What never runs depends on nothing, so it may stand before what it reads: there is then no loop around all uses."""
    a = tl.placeholder((length,), name="A")

    def step(_: Any, state: Any) -> Any:
        h = tl.compute((length,), lambda i: state[i] + 1, name="h")
        k = tl.reduce_axis(length, name="k")
        following: tl.Tensor = tl.compute((length,), lambda i: h[i] + tl.max(h[k], axis=k), name="N")
        return following

    s = tl.Schedule(tl.scan(step, a, length, name="S"))
    if length:
        refused(s, "TL-S103", "after 'h' has written it inside '_'", "compute_root", "N.1")
    else:
        s.compute_root("N.1")
        refused(s, "TL-S301", "'h' is also used by 'N.1', outside '_'; move that first", "compute_root", "h")
    check(s)


def test_an_implicit_stage_gets_the_dimensions_on_which_it_depends() -> None:
    s = tl.Schedule(centred())
    s.compute_root("C.1")
    nest = """\
C(X: float32[5, 9]) -> C: float32[5, 9]
    C.1: float32[5]
    for i in range(5):
        C.1[i] = -inf                                        # C.1.init
    for i in range(5):
        for k in range(9):
            C.1[i] = max(C.1[i], X[i, k])                    # C.1
    for i in range(5):
        for j in range(9):
            C[i, j] = X[i, j] - C.1[i]                       # C"""
    assert str(s) == nest
    check(s)


def test_an_implicit_stage_at_an_outer_loop_covers_the_loops_in_between() -> None:
    s = tl.Schedule(centred())
    io, _ = s.split("C.i", 2)
    s.compute_at("C.1", io)
    nest = """\
C(X: float32[5, 9]) -> C: float32[5, 9]
    for i_o in range(3):                                     # i = 2 i_o + i_i   guard
        C.1: float32[2]
        for i_i in range(2):
            C.1[i_i] = -inf                                  # C.1.init
        for i_i in range(2):
            for k in range(9):
                C.1[i_i] = max(C.1[i_i], X[i, k])            # C.1
        for i_i in range(2):
            for j in range(9):
                C[i, j] = X[i, j] - C.1[i_i]                 # C"""
    assert str(s) == nest
    check(s)


@crossed({"tail": ["guard", "mask", "peel"], "shape": EXTENTS})
def test_implicit_stages_move_under_every_tail_and_extent(tail: Any, shape: tuple[int, int]) -> None:
    for place in ("root", "C.i_o", "C.i_i"):
        s = tl.Schedule(centred(*shape))
        s.split("C.i", 4, tail)
        s.split("C.j", 4, tail)
        s.split("C.1.k", 3, tail)
        if place == "root":
            s.compute_root("C.1")
        else:
            s.compute_at("C.1", place)
        s.vectorize("C.j_i")
        check(s)


def test_implicit_stages_move_on_run_time_extents() -> None:
    moves: tuple[Callable[[tl.Schedule], object], ...] = (
        lambda s: s.compute_root("C.1"),
        lambda s: s.compute_at("C.1", "C.i"),
        lambda s: (s.fuse("C.i", "C.j"), s.compute_root("C.1")),
        lambda s: (s.split("C.i", 2), s.compute_at("C.1", "C.i_o"), s.parallel("C.i_o")),
    )
    for move in moves:
        s = tl.Schedule(centred(tl.dim("m"), tl.dim("n")))
        move(s)
        for m, n in EXTENTS:
            check(s, dims={"m": m, "n": n})


def test_conditions_around_an_implicit_stage_move_with_it() -> None:
    x = tl.placeholder((5, 4), name="X")
    k = tl.reduce_axis(2, name="k")
    out = tl.compute((4,), lambda i: tl.select(i < 3, tl.sum(x[i + k, i], axis=k), tl.sum(x[i - k, i], axis=k)), name="C")
    s = tl.Schedule(out)
    s.compute_root("C.1")
    s.compute_root("C.2")
    check(s)


def test_a_stage_on_which_no_loop_depends_runs_only_if_the_loops_do() -> None:
    n = tl.dim("n")
    x = tl.placeholder((n,), name="X")
    k = tl.reduce_axis(3, name="k")
    s = tl.Schedule(tl.compute((n,), lambda i: x[i] / tl.sum(x[tl.minimum(k, n - 1)], axis=k), name="C"))
    s.compute_root("C.1")
    assert "if n > 0:" in str(s)
    for size in (0, 1, 6):
        check(s, dims={"n": size})


def test_an_implicit_stage_that_reads_what_its_loops_write_stays() -> None:
    x = tl.placeholder((4, 5), name="X")
    k = tl.reduce_axis(5, name="k")
    y = tl.recurrence((4, 5), lambda t, j, self: x[t, j] + tl.sum(self[t - 1, k], axis=k), name="Y")
    s = tl.Schedule(y)
    s.compute_at("Y.1", "Y.t")
    check(s)
    error = refused(s, "TL-S103", "reads Y[", "compute_root", "Y.1")
    assert error.counterexample is not None
    assert error.counterexample["first"]["stage"] == "Y"


def test_what_a_loop_uses_is_read_in_it_whatever_its_name() -> None:
    """A loop that two stages shared keeps the name of the one that has left it."""
    s = tl.Schedule(product())
    s.fuse_loops("P.i", "C.init.i")
    s.decompose_reduction("C.k")
    verdict = s.can("compute_at", "P", "C.init.i")
    assert verdict.error is not None and "is not used inside" in str(verdict.error)
    check(s)


def test_compute_root_undoes_compute_at() -> None:
    for factor in (1, 4, 5):
        s = tl.Schedule(blur())
        outer, inner = s.split("v.y", factor)
        before = str(s)
        s.compute_at("h", inner)
        s.compute_root("h")
        assert str(s) == before
        s.compute_at("h", outer)
        s.compute_root("h")
        assert str(s) == before
        check(s)


def test_a_placed_producer_moves_from_loop_to_loop() -> None:
    s = tl.Schedule(blur())
    outer, inner = s.split("v.y", 4)
    direct = s.copy()
    direct.compute_at("h", outer)
    s.compute_at("h", inner)
    s.compute_at("h", outer)
    assert str(s) == str(direct)
    check(s)


def test_a_part_of_a_producer_moves_to_a_loop_inside_those_around_it() -> None:
    """It depends on the loops around it, which are around that loop as well."""
    x, k = tl.placeholder((40, 24), name="X"), tl.reduce_axis(24, name="k")
    h = tl.compute((40, 24), lambda y, j: x[y, j] * 2 + 1, name="h")
    v = tl.compute((40,), lambda y: tl.sum(h[y, k], axis=k), name="v")
    s = tl.Schedule(tl.compute((40,), lambda y: v[y] * 3, name="w"))
    outer, _ = s.split("w.y", 8)
    s.compute_at("v", outer)
    s.compute_at("h", outer)
    s.split("v.k", 8)
    s.rfactor("v.k_i")
    s.compute_at("v_rf", "v.y")
    s.compute_at("h", "v_rf.y")
    assert {"v_rf: float32[8, 1]", "h: float32[1, 17]"} <= {line.strip() for line in str(s).splitlines()}
    assert "maximum" not in str(s)
    check(s)


def test_a_stage_that_is_whole_already_is_not_moved() -> None:
    s = tl.Schedule(blur())
    refused(s, "TL-S301", "'h' is computed whole already", "compute_root", "h")
    refused(s, "TL-S301", "'v' is a result of the kernel", "compute_root", "v")
    refused(s, "TL-S003", "there is no stage 'g'", "compute_root", "g")
    s.split("v.y", 4)
    s.compute_at("h", "v.y_o")
    refused(s, "TL-S301", "is computed at 'y_o' already", "compute_at", "h", "v.y_o")
    s.split("h.y", 2)
    refused(s, "TL-S301", "the loops of 'h' are already scheduled", "compute_root", "h")


def test_an_implicit_stage_moves_only_along_the_loops_around_it() -> None:
    inner = centred()
    s = tl.Schedule(tl.compute((5, 9), lambda i, j: inner[i, j] * 2, name="D"))
    refused(s, "TL-S301", "is computed at 'j' already", "compute_at", "C.1", "C.j")

    refused(s, "TL-S301", "depends on the loops around it; name one of i, j", "compute_at", "C.1", "D.i")


# store_at


def test_storage_at_an_outer_loop_holds_what_its_iterations_use() -> None:
    s = tl.Schedule(blur(12, 4))
    outer, inner = s.split("v.y", 4)
    s.compute_at("h", inner)
    s.store_at("h", outer)
    nest = """\
v(X: float32[14, 6]) -> v: float32[12, 4]
    for y_o in range(3):                                     # v.y = 4 y_o + y_i   guard
        h: float32[6, 4]
        for y_i in range(4):
            for h.y in range(4 * y_o + y_i + select(y_i > 0, 2, 0), 4 * y_o + y_i + 3):
                for x in range(4):
                    h[h.y - 4 * y_o, x] = X[h.y, x] + X[h.y, x + 1] + X[h.y, x + 2] # h
            for x in range(4):
                v[v.y, x] = h[v.y - 4 * y_o, x] + h[v.y - 4 * y_o + 1, x] + h[v.y - 4 * y_o + 2, x] # v"""
    assert str(s) == nest
    check(s)


@crossed({"rows": [0, 1, 7, 13], "factors": [(4, 2), (3, 1), (8, 3)]})
def test_storage_moves_outwards_step_by_step(rows: int, factors: tuple[int, int]) -> None:
    s = tl.Schedule(blur(rows))
    outer, inner = s.split("v.y", factors[0])
    middle, inner = s.split(inner, factors[1])
    s.compute_at("h", inner)
    s.store_at("h", middle)
    check(s)
    s.store_at("h", outer)
    s.vectorize(s.split("v.x", 8)[1])
    s.parallel(outer)
    check(s)
    s.compute_root("h")
    check(s)


def test_storage_shared_by_parallel_iterations_is_refused_with_two_of_them() -> None:
    s = tl.Schedule(blur())
    outer, inner = s.split("v.y", 4)
    s.compute_at("h", inner)
    s.parallel(inner)
    error = refused(s, "TL-S101", "iterations of the parallel loop 'y_i' would share h[", "store_at", "h", outer)
    assert error.counterexample is not None


def test_store_at_names_what_it_cannot_move() -> None:
    s = tl.Schedule(blur())
    outer, _ = s.split("v.y", 4)
    refused(s, "TL-S301", "'h' is computed whole; compute_at it first", "store_at", "h", outer)
    s.compute_at("h", outer)
    refused(s, "TL-S301", "is stored there, or outside of it, already", "store_at", "h", outer)
    refused(s, "TL-S301", "does not stand inside 'x'", "store_at", "h", "v.x")
    refused(s, "TL-S001", "no loop 'v.z'", "store_at", "h", "v.z")


@pytest.mark.parametrize(
    "steps",
    [
        lambda s: (s.compute_at("h", "v.x"), s.store_at("h", "v.y")),
        lambda s: (s.split("v.y", 4), s.cache_read("X", at="h.y"), s.compute_root("X_cache"), s.parallel("v.y_o")),
        lambda s: (s.compute_at("h", "v.y"), s.split("v.x", 8, "shift"), s.compute_root("h")),
        lambda s: (s.compute_at("h", "v.y"), s.cache_write("v", at="v.y"), s.compute_root("h"), s.vectorize(s.split("h.x", 8)[1])),
    ],
)
def test_placement_works_with_other_directives(steps: Callable[[tl.Schedule], object]) -> None:
    s = tl.Schedule(blur())
    steps(s)
    check(s)


def test_the_whole_tensor_ends_where_the_tails_of_its_consumer_end() -> None:
    for tail in ("guard", "mask", "peel"):
        s = tl.Schedule(rectified(7, 11, 5))
        s.compute_at("C", "R.j")
        s.split("R.j", 8, tail)
        s.compute_root("C")
        assert "C: float32[7, 11]" in str(s)
        check(s)


def test_a_copy_whose_loops_are_shifted_and_split_stays_where_it_is() -> None:
    s = tl.Schedule(blur())
    s.cache_read("X", at="h.x")
    s.shift("X_cache.d0", 2)
    s.split("X_cache.d0_s", 4)
    refused(s, "TL-S301", "the loops of 'X_cache' are already scheduled", "compute_root", "X_cache")
    check(s)


def test_the_extents_of_storage_are_printed_in_the_names_of_the_loops() -> None:
    x, k = tl.placeholder((11,), "int32", name="X"), tl.reduce_axis(3, name="k")
    h = tl.compute((11,), lambda i: x[i] * 2 + tl.sum(x[tl.clamp(i + k - 1, 0, 10)], axis=k), name="h")
    s = tl.Schedule(tl.compute((11,), lambda i: h[tl.clamp(i + 1, 0, 10)] + h[i], name="Y"))
    s.compute_at("h", "Y.i")
    s.compute_at("h.1", "Y.i")
    assert "h.1: int32[minimum(Y.i + 2, 11) - Y.i]" in str(s)


HALVES: dict[str, tuple[Callable[[Any], Any], tuple[int, int]]] = {
    "halves": (lambda i: i // 2, (8, 4)),
    "shifted": (lambda i: (i + 3) // 2, (9, 4)),
    "thirds": (lambda i: i // 3, (7, 3)),
    "neighbours of halves": (lambda i: tl.clamp(i // 2 - 1 + 2 * (i % 2), 0, 39), (10, 6)),
    "turned": (lambda i: 31 - i // 2, (8, 4)),
    "remainders": (lambda i: 4 * (i // 4) + 3 - i % 4, (19, 11)),
}


@crossed({"index": [*HALVES], "rows": [16, 7], "tail": ["peel", "mask"]})
def test_what_quotients_read_in_a_strip_is_a_part_of_the_producer(index: str, rows: int, tail: Any) -> None:
    """A mosaic of planes, an image between the pixels of another one: strips of it read strips."""
    a, (read, most) = tl.placeholder((40, 5), name="A"), HALVES[index]
    half = tl.compute((40, 5), lambda i, j: 2 * a[i, j], name="half")
    s = tl.Schedule(tl.compute((30, 5), lambda i, j: half[read(i), j] + 1, name="D"))
    outer, _ = s.split("D.i", rows, tail)
    s.compute_at("half", outer)
    (storage,) = [line for line in str(s).splitlines() if line.strip().startswith("half: ")]
    assert int(storage.split("[")[1].split(",")[0]) <= most[rows != 16] + 1
    check(s)
