"""Directives on recurrences, scans and scatters: what keeps their order is legal, the rest is refused with two iterations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.definition.tensor import Tensor
from tests.schedules.programs import check


def recurrence(offsets: tuple[tuple[int, int], ...] = ((1, 0),), rows: Any = 7, columns: Any = 13, *, read: bool = False) -> Tensor:
    """Y[t, j] = X[t, j] + a quarter of Y at each offset before; with `read`, Z = 2 Y."""
    X = tl.placeholder((rows, columns), name="X")

    def body(t: Any, j: Any, self: Any) -> Any:
        value = X[t, j]
        for up, left in offsets:
            value = value + 0.25 * self[t - up, j - left]
        return value

    Y: Tensor = tl.recurrence((rows, columns), body, name="Y")
    return tl.compute((rows, columns), lambda t, j: Y[t, j] * 2, name="Z") if read else Y


def cell(keep: Any = "all", steps: Any = 5, size: int = 12) -> Tensor:
    """h = 0.1 W h + X[t]."""
    X, W = tl.placeholder((steps, size), name="X"), tl.placeholder((size, size), name="W")
    H = tl.placeholder((size,), name="H")

    def step(t: Any, h: Any) -> Any:
        k = tl.reduce_axis(size, name="k")
        product = tl.compute((size,), lambda i: tl.sum(W[i, k] * h[k], axis=k), name="product")
        return tl.compute((size,), lambda i: product[i] * 0.1 + X[t, i], name="next")

    result: Tensor = tl.scan(step, H, steps, keep=keep, name="S")
    return result


def histogram(reduce: str = "add", *, read: bool = False) -> Tensor:
    """S[X[r]] += V[r]."""
    X, V = tl.placeholder((40,), "int64", name="X"), tl.placeholder((40,), "int32", name="V")
    zero = tl.compute((8,), lambda b: tl.cast(0, "int32"), name="zero")
    S = tl.scatter(zero, tl.reduce_axis(40, name="r"), lambda r: tl.clamp(X[r], 0, 7), lambda r: V[r], reduce, name="S")
    return tl.compute((8,), lambda b: S[b] + 1, name="Z") if read else S


def refused(s: tl.Schedule, directive: str, *args: Any, code: str, says: str, shown: bool = False, **options: Any) -> None:
    """The directive is refused with this code and reason, and changes nothing."""
    before = str(s)
    with pytest.raises(tl.ScheduleError, match=says) as error:
        getattr(s, directive)(*args, **options)
    assert error.value.code == code
    assert bool(error.value.counterexample) == shown
    assert str(s) == before


# Recurrences ---------------------------------------------------------------------------------------------------------------------


def test_a_stencil_in_time_is_parallel_in_space_only() -> None:
    s = tl.Schedule(recurrence(((1, 0), (1, 2), (2, -1))))
    refused(s, "parallel", "t", code="TL-S101", says="would race: one (reads|writes) Y", shown=True)
    s.parallel("j")
    check(s)


def test_the_refusal_shows_an_iteration_that_writes_and_one_that_reads() -> None:
    error = tl.Schedule(recurrence()).can("parallel", "t").error
    assert error is not None
    example = error.counterexample
    assert example is not None
    first, second = example["first"], example["second"]
    writer, reader = (first, second) if first["does"] == "writes" else (second, first)
    assert reader["at"]["t"] == writer["at"]["t"] + 1
    assert example["element"] == f"Y[{writer['at']['t']}, {writer['at']['j']}]"


@pytest.mark.parametrize(
    ("offsets", "t", "j", "order"),
    [
        (((1, 0),), False, True, True),
        (((0, 1),), True, False, True),
        (((1, 1),), False, True, True),
        (((1, -1),), False, True, False),
        (((1, 0), (0, 1)), False, False, True),
        (((2, -3), (0, 2)), False, False, False),
    ],
)
def test_each_dependence_decides_what_may_run_together_and_in_which_order(
    offsets: tuple[tuple[int, int], ...], t: bool, j: bool, order: bool
) -> None:
    s = tl.Schedule(recurrence(offsets))
    assert bool(s.can("parallel", "t")) == t
    assert bool(s.can("parallel", "j")) == j
    assert bool(s.can("vectorize", "j")) == j
    assert bool(s.can("reorder", "j", "t")) == order


def test_lanes_may_be_closer_than_the_dependence() -> None:
    s = tl.Schedule(recurrence(((0, 4),)))
    outer, inner = s.split("j", 4)
    assert not s.can("parallel", outer)
    s.vectorize(inner)
    check(s)
    refused(s.copy(), "vectorize", "t", code="TL-S107", says="vector loop")
    wide = tl.Schedule(recurrence(((0, 4),)))
    refused(wide, "vectorize", wide.split("j", 5)[1], code="TL-S102", says="two lanes of 'j_i' would race", shown=True)


def test_a_tail_that_computes_twice_is_refused() -> None:
    s = tl.Schedule(recurrence())
    refused(s, "split", "t", 4, tail="shift", code="TL-S106", says="this loop both reads and writes 'Y'")
    for tail in ("guard", "mask", "peel"):
        split = s.copy()
        split.split("t", 4, tail=tail)  # type: ignore[arg-type]
        split.vectorize(split.split("j", 8, tail=tail)[1])  # type: ignore[arg-type]
        check(split)


@pytest.mark.parametrize("size", [0, 1, 9])
def test_symbolic_recurrences_are_scheduled_too(size: int) -> None:
    s = tl.Schedule(recurrence(((1, 0), (1, 1)), tl.dim("n"), tl.dim("m")))
    s.vectorize(s.split("j", 4)[1])
    s.parallel("j_o")
    check(s, dims={"n": size, "m": size + 2})


@pytest.mark.parametrize(
    ("directive", "says"),
    [
        ("compute_at", "reads its own elements"),
        ("store_at", "computed whole; compute_at it first"),
        ("compute_inline", "reads its own elements"),
        ("compute_root", "computed whole already"),
    ],
)
def test_a_recurrence_is_computed_whole_and_in_order(directive: str, says: str) -> None:
    s = tl.Schedule(recurrence(read=True))
    args = ("Y", "Z.t") if directive.endswith("at") else ("Y",)
    refused(s, directive, *args, code="TL-S301", says=says)


@pytest.mark.parametrize(
    ("directive", "code"), [("accumulate", "TL-S302"), ("cache_read", "TL-S302"), ("pack", "TL-S302"), ("cache_write", "TL-S302")]
)
def test_no_copy_of_a_recurrence_stands_inside_it(directive: str, code: str) -> None:
    X, k = tl.placeholder((5, 6), name="X"), tl.reduce_axis(6, name="k")
    Y = tl.recurrence((5, 6), lambda t, j, self: X[t, j] + tl.sum(self[t - 1, k], axis=k), name="Y")
    says = "is not computed|is written|also read|needs one reduction|is not read|reduction into"
    with pytest.raises(tl.ScheduleError, match=says) as error:
        getattr(tl.Schedule(Y), directive)("Y", "t")
    assert error.value.code in (code, "TL-S304")


def test_the_reductions_of_a_recurrence_are_complete_before_its_element() -> None:
    X, k = tl.placeholder((5, 6), name="X"), tl.reduce_axis(6, name="k")
    s = tl.Schedule(tl.recurrence((5, 6), lambda t, j, self: tl.sum(self[t - 1, k] * X[t, k] + X[t, j], axis=k), name="Y"))
    assert s.stages() == ("Y.1.init", "Y.1", "Y")
    s.compute_at("Y.1", "t")
    s.parallel("Y.j")
    check(s)
    refused(tl.Schedule(s.outputs), "compute_root", "Y.1", code="TL-S103", says="Y", shown=True)


# Scans ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", ["all", "last"])
def test_time_is_serial_and_the_stages_of_a_step_are_not(keep: str) -> None:
    s = tl.Schedule(cell(keep))
    refused(s, "parallel", "S.t", code="TL-S101", says="would race", shown=True)
    s.parallel("product.i")
    s.vectorize(s.split("next.i", 4)[1])
    check(s, rtol=1e-4)


@pytest.mark.parametrize("keep", ["all", "last"])
def test_the_product_of_a_step_is_tiled_like_any_other(keep: str) -> None:
    s = tl.Schedule(cell(keep))
    outer, inner = s.split("product.i", 4)
    s.reorder("product.k", inner)
    s.accumulate("product", at=outer)
    s.vectorize(inner)
    check(s, rtol=1e-4)


@pytest.mark.parametrize("keep", ["all", "last"])
def test_a_reduction_into_the_state_is_accumulated_beside_the_one_before(keep: str) -> None:
    A = tl.placeholder((6, 6), name="A")
    k = tl.reduce_axis(6, name="k")
    S = tl.scan(lambda t, a: tl.compute((6, 6), lambda i, j: tl.sum(a[i, k] * 0.1 * a[k, j], axis=k), name="P"), A, 3, keep=keep, name="S")  # type: ignore[arg-type]
    s = tl.Schedule(S)
    target = s.nest.outputs[0].name if keep == "all" else "S.ring"
    s.reorder("P.k", "P.j")
    s.accumulate(target, at="P.i")
    s.vectorize("P.j")
    check(s, rtol=1e-4)


@pytest.mark.parametrize("size", [0, 1, 6])
def test_a_scan_of_symbolic_length_is_scheduled(size: int) -> None:
    s = tl.Schedule(cell("all", tl.dim("n")))
    s.compute_at("product", "next.i")
    s.split("S.t", 4)
    check(s, dims={"n": size}, rtol=1e-4)


def test_what_holds_the_state_is_computed_whole() -> None:
    def program(keep: str) -> tl.Schedule:
        S = cell(keep)
        return tl.Schedule(tl.compute(S.shape, lambda *i: S[i] * 2, name="Z"))

    refused(program("last"), "compute_inline", "next", code="TL-S301", says="writes the tensor of 'next' too")
    refused(program("last"), "compute_inline", "S.start", code="TL-S301", says="writes the tensor of 'S.start' too")
    for directive, args in (("compute_inline", ("next",)), ("compute_at", ("next", "Z.i0"))):
        with pytest.raises(tl.ScheduleError) as error:
            getattr(program("all"), directive)(*args)
        assert error.value.code == "TL-S301"


# Scatters ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduce", ["add", "min", "max", "set"])
def test_stores_at_computed_indices_conflict(reduce: str) -> None:
    s = tl.Schedule(histogram(reduce))
    refused(s, "parallel", "S.r", code="TL-S101", says="would race", shown=True)
    _, inner = s.split("S.r", 8)
    s.vectorize(inner)  # lanes take turns
    check(s)


def test_only_a_combination_may_change_its_order() -> None:
    for reduce, legal in (("add", True), ("max", True), ("set", False)):
        s = tl.Schedule(histogram(reduce))
        outer, inner = s.split("S.r", 8)
        assert bool(s.can("reorder", inner, outer)) == legal
        if legal:
            s.reorder(inner, outer)
        check(s)


def test_an_order_that_cannot_show_may_change_under_set() -> None:
    X = tl.placeholder((5, 6), name="X")
    zero = tl.compute((6, 5), lambda i, j: tl.cast(0.0, "float32"), name="zero")
    i, j = tl.reduce_axis(5, name="i"), tl.reduce_axis(6, name="j")
    turned = tl.Schedule(tl.scatter(zero, (i, j), lambda i, j: (j, i), lambda i, j: X[i, j], "set", name="S"))
    turned.reorder("S.j", "S.i")
    turned.parallel("S.j")
    turned.vectorize("S.i")
    check(turned)
    last = tl.Schedule(tl.scatter(zero, (i, j), lambda i, j: (j, i // 2), lambda i, j: X[i, j], "set", name="S"))
    assert last.can("parallel", "S.j")
    assert not last.can("parallel", "S.i")
    last.reorder("S.j", "S.i")
    check(last)


def test_what_a_loop_inside_decides_is_not_the_same_value() -> None:
    C, A = tl.placeholder((7, 7), "int64", name="C"), tl.placeholder((7,), name="A")
    zero = tl.compute((2,), lambda b: tl.cast(-1.0, "float32"), name="zero")
    p, q = tl.reduce_axis(7, name="p"), tl.reduce_axis(7, name="q")
    s = tl.Schedule(tl.scatter(zero, (p, q), lambda p, q: tl.clamp(C[p, q], 0, 1), lambda p, q: A[q], "set", name="S"))
    outer, inner = s.split("S.p", 4)
    assert not s.can("reorder", inner, outer)
    assert not s.can("parallel", "S.p_o")


@pytest.mark.parametrize("steps", [0, tl.dim("n")])
def test_what_differs_between_steps_is_not_written_to_where_there_are_none(steps: Any) -> None:
    """Of no steps nothing is proved: what is computed in each of them may stand before them, where nobody has it."""
    H = tl.placeholder((0,), name="H")

    def step(t: Any, h: Any) -> Any:
        k = tl.reduce_axis(0, name="k")
        twice = tl.compute((0,), lambda i: h[i] * 2 + tl.cast(t, "float32"), name="twice")
        total = tl.compute((), lambda: tl.sum(twice[k], axis=k), name="total")
        return tl.compute((0,), lambda i: twice[i] + total[()], name="next")

    s = tl.Schedule(tl.scan(step, H, steps, name="S"))
    s.compute_root("total")
    refused(s, "compute_inline", "twice", code="TL-S301", says="'twice' differs between iterations of 't', and is read outside that loop")


@pytest.mark.parametrize("directive", ["accumulate", "cache_write"])
def test_a_copy_would_hold_an_element_twice(directive: str) -> None:
    s = tl.Schedule(histogram())
    outer, _ = s.split("S.r", 8)
    refused(s, directive, "S", outer, code="TL-S103", says="of which a copy of 'S' would hold two", shown=True)


def table(order: str, start: Any = 0) -> Tensor:
    """S[X[q]] = V[p, q], of which the last one stays: p from `start` on, and the axes in this order."""
    X, V = tl.placeholder((7,), "int64", name="X"), tl.placeholder((5, 7), name="V")
    zero = tl.compute((4,), lambda b: tl.cast(-1.0, "float32"), name="zero")
    q = tl.reduce_axis(7, name="q")
    p = tl.reduce_axis((start if isinstance(start, int) else start(q), 5), name="p")
    if order == "pq":
        return tl.scatter(zero, (p, q), lambda p, q: tl.clamp(X[q], 0, 3), lambda p, q: V[p, q], "set", name="S")
    return tl.scatter(zero, (q, p), lambda q, p: tl.clamp(X[q], 0, 3), lambda q, p: V[p, q], "set", name="S")


@pytest.mark.parametrize(("order", "cut"), [("pq", "S.p"), ("qp", "S.q"), ("qp", "S.p")])
def test_what_is_set_again_is_copied_back_in_order_where_the_other_loops_run_alike(order: str, cut: str) -> None:
    s = tl.Schedule(table(order))
    outer, _ = s.split(cut, 2)
    s.cache_write("S", at=outer)
    assert ("float32[7]" if order == "pq" else "float32[2]" if cut == "S.q" else "float32[]") in str(s).split("S_cache: ")[1]
    check(s)


def test_what_is_set_again_is_not_copied_back_where_the_other_loops_differ_from_place_to_place() -> None:
    slanted = tl.Schedule(table("qp"))
    outer, _ = slanted.split("S.q", 4)
    slanted.skew("S.p", by="S.q_i")
    refused(slanted, "cache_write", "S", outer, code="TL-S103", says="of which a copy of 'S' would hold two", shown=True)
    some = tl.Schedule(table("qp", lambda q: tl.minimum(q, 3)))
    outer, _ = some.split("S.q", 4)
    refused(some, "cache_write", "S", outer, code="TL-S303", says="depends on more than where they are")


@pytest.mark.parametrize("tail", ["guard", "peel", "mask"])
def test_what_is_copied_back_knows_the_tails_of_axes_that_no_index_uses(tail: str) -> None:
    V, zero = tl.placeholder((7,), name="V"), tl.compute((9,), lambda b: tl.cast(-1.0, "float32"), name="zero")
    p, q = tl.reduce_axis(3, name="p"), tl.reduce_axis(7, name="q")
    s = tl.Schedule(tl.scatter(zero, (p, q), lambda p, q: q, lambda p, q: V[q], "set", name="S"))
    outer, inner = s.split("S.p", 4, tail=tail)
    half, last = s.split(inner, 2)
    s.skew("S.q", by=last)
    s.fuse(half, last)
    s.cache_write("S", at=outer)
    check(s)


def test_a_scatter_is_computed_whole() -> None:
    s = tl.Schedule(histogram(read=True))
    refused(s, "compute_inline", "S", code="TL-S301", says="writes the tensor of 'S' too")
    refused(s, "compute_at", "S", "Z.b", code="TL-S301", says="writes the tensor of 'S' too")
    s.compute_inline("zero")
    s.pack("X", at=s.split("S.r", 8)[0])
    check(s)


# All ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        recurrence,
        lambda: recurrence(((1, 0), (0, 1)), read=True),
        cell,
        lambda: cell("last"),
        histogram,
        lambda: histogram("set", read=True),
    ],
)
def test_there_is_a_default_schedule_and_its_moves_are_legal(program: Callable[[], Tensor]) -> None:
    output = program()
    plain = tl.Schedule(output)
    for stage in plain.stages():
        for loop in plain.loops(stage):
            for move in plain.legal_moves(loop):
                trial = plain.copy()
                trial.apply(move)
    tl.build(output)


def test_schedules_of_sequential_stages_are_data() -> None:
    for output in (recurrence(), cell("last"), histogram()):
        s = tl.Schedule(output)
        s.split(s.loops(s.stages()[-1])[-1], 4)
        assert str(tl.Schedule.from_json(output, s.to_json())) == str(s)
        np.testing.assert_equal(len(s.directives), 1)


def test_lanes_of_a_set_whose_place_data_tell_share_no_element_of_a_copy() -> None:
    """Data tell where lanes write, one after the other; in the copy it is one element for all of them."""
    q, r = tl.reduce_axis(3, name="q"), tl.reduce_axis(8, name="r")
    where = tl.placeholder((3,), "int8", name="B")
    start = tl.compute((4,), lambda i: tl.cast(0, "int32"), name="Z")
    at = lambda q, _: tl.clamp(tl.cast(where[q], "int64"), 0, 3)  # noqa: E731
    s = tl.Schedule(tl.scatter(start, (q, r), at, lambda q, r: tl.cast(r, "int32"), reduce="set", name="T"))
    s.vectorize("T.r")
    refused(s, "cache_write", "T", "T.q", code="TL-S107", says="lanes of 'r' would write one element of the buffer at once")
    check(s)
