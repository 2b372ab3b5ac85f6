"""`cache_write`, `set_memory`, `transform_layout`, `pad_to`, `align`: how a value is stored never changes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.directives.transform_layout import layout_text, parsed
from tests.schedules.programs import EXTENTS, blur, check, matmul, refused, scale
from tests.thinned import crossed


def mirrored(m: Any = 5, n: Any = 9) -> Tensor:
    """h = 2 X, v[c, y] = h[c, y] + h[c, n - 1 - y]."""
    x = tl.placeholder((m, n), name="X")
    h = tl.compute((m, n), lambda c, y: x[c, y] * 2, name="h")
    result: Tensor = tl.compute((m, n), lambda c, y: h[c, y] + h[c, n - 1 - y], name="v")
    return result


# cache_write


def test_results_go_through_a_buffer_in_the_order_of_the_loops() -> None:
    s = tl.Schedule(scale(5, 9))
    io, ii = s.split("i", 4)
    s.reorder(io, "j", ii)
    s.cache_write("Y", at=io)
    assert (
        str(s)
        == """\
Y(X: float32[5, 9]) -> Y: float32[5, 9]
    for i_o in range(2):                                     # i = 4 i_o + i_i   guard
        Y_cache: float32[9, 4]
        for j in range(9):
            for i_i in range(4):
                Y_cache[j, i_i] = X[i, j] * 3.0 + 1.0        # Y
        for j in range(9):
            for i_i in range(4):
                Y[i, j] = Y_cache[j, i_i]                    # Y_cache.store"""
    )
    check(s)


@crossed({"tail": ["guard", "mask", "peel"], "shape": [(0, 3, 2), (2, 3, 0), (1, 1, 1), (7, 11, 5)]})
def test_a_reduction_starts_from_what_the_tensor_holds(tail: Any, shape: tuple[int, int, int]) -> None:
    s = tl.Schedule(matmul(*shape))
    io, jo, ii, ji = s.tile("i", "j", 3, 4, tail)
    ko, ki = s.split("k", 2, tail)
    s.reorder(jo, ko, io, ki, ii, ji)
    s.cache_write("C", at=ko)
    s.vectorize(ji)
    s.unroll(ii)
    s.parallel(jo)
    check(s)


def test_copies_run_only_where_the_loops_wrote() -> None:
    x = tl.placeholder((6, 4), name="X")
    m = tl.dim("m")
    z = tl.placeholder((m,), name="Z")
    k = tl.reduce_axis(4, name="k")
    s = tl.Schedule(tl.compute((6,), lambda i: tl.sum(x[i, k], axis=k, where=i < 4), name="C"))
    s.cache_write("C", at="C.i")
    check(s)
    r = tl.reduce_axis(m, name="r")
    s = tl.Schedule(tl.compute((6,), lambda i: tl.max(z[r] + x[i, 0], axis=r), name="D"))
    s.reorder("r", "i")
    s.cache_write("D", at="r")
    for size in (0, 1, 5):
        check(s, dims={"m": size})


def test_cache_write_names_why_not() -> None:
    s = tl.Schedule(matmul())
    refused(s, "TL-S302", "'A' is not computed inside 'i'", "cache_write", "A", "C.i")
    s = tl.Schedule(tl.recurrence((5,), lambda t, self: self[t - 1] + 1.0, name="Y"))
    refused(s, "TL-S302", "'Y' is also read inside 't', before it is copied back", "cache_write", "Y", "t")
    s = tl.Schedule(blur())
    s.compute_at("h", "v.y")
    refused(s, "TL-S302", "'h' is local to 'y' already", "cache_write", "h", "v.y")
    s = tl.Schedule(scale(4, 32))
    s.vectorize("j")
    refused(s, "TL-S107", "it stands inside the vector loop 'j'", "cache_write", "Y", "j")


# transform_layout


def test_blocks_of_an_axis_become_the_last_dimension() -> None:
    s = tl.Schedule(mirrored())
    s.transform_layout("h", lambda c, y: (c // 4, y, c % 4))
    assert getattr(s.directives[-1], "fn", "") == "lambda c, y: (c // 4, y, c % 4)"
    assert (
        str(s)
        == """\
v(X: float32[5, 9]) -> v: float32[5, 9]
    h: float32[2, 9, 4]
    for c in range(5):
        for y in range(9):
            h[c // 4, y, c % 4] = X[c, y] * 2.0              # h
    for c in range(5):
        for y in range(9):
            v[c, y] = h[c // 4, y, c % 4] + h[c // 4, -y + 8, c % 4] # v"""
    )
    check(s)


LAYOUTS: tuple[Callable[..., object] | str, ...] = (
    lambda c, y: (y, c),
    lambda c, y: (c // 4, y // 8, c % 4, y % 8),
    lambda c, y: c * 9 + y,
    lambda c, y: (4 - c, y + 3),
    lambda c, y: c * 4096 + y,
    "lambda a, b: (a % 2, b, a // 2)",
)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_injective_layout_is_accepted_and_changes_nothing(layout: Any) -> None:
    s = tl.Schedule(mirrored(5, 9))
    s.transform_layout("h", layout)
    s.vectorize(s.split("v.y", 8)[1])
    s.vectorize(s.split("h.c", 4, "mask")[1])
    check(s)


def test_layouts_of_run_time_extents() -> None:
    n = tl.dim("n")
    s = tl.Schedule(mirrored(tl.dim("m"), n))
    s.transform_layout("h", lambda c, y: (y, c // 8, c % 8))
    s.transform_layout("h", lambda y, co, ci: (n - 1 - y, co, ci))
    s.pad_to("h", -1, 16)
    s.align("h", 256)
    for m, size in EXTENTS:
        check(s, dims={"m": m, "n": size})


def test_a_layout_that_would_merge_elements_is_refused_with_two_of_them() -> None:
    s = tl.Schedule(mirrored())
    error = refused(s, "TL-S305", "would share one place", "transform_layout", "h", lambda c, y: (c // 2, y))
    assert error.counterexample is not None
    assert error.counterexample["first"] != error.counterexample["second"]


@pytest.mark.parametrize(
    ("layout", "code", "sentence"),
    [
        (lambda c: c, "TL-S005", "the map takes 1 indices, and 'h' has 2"),
        (lambda c, y: (c - 1, y), "TL-S303", "the new index c - 1 has no simple range from zero on"),
        (lambda c, y: (c, 1.5 * y), "TL-S005", "the layout function cannot be followed"),
        (lambda c, y: (c or y, y), "TL-S005", "the layout function cannot be followed"),
        ("lambda c, y: (__import__('os'), y)", "TL-S005", "has no place in a layout"),
        ("c, y", "TL-S005", "is no layout"),
        ("lambda c, y: (c,", "TL-S005", "cannot be read as a layout"),
        ("lambda c, y: (c, q)", "TL-S005", "'q' is neither an index of the map nor a dim"),
        ("lambda c, y: (c * 1073741824, y)", "TL-S203", "bytes (at most"),
        (7, "TL-S005", "a layout is a function"),
    ],
)
def test_what_is_no_layout_is_refused(layout: Any, code: str, sentence: str) -> None:
    refused(tl.Schedule(mirrored()), code, sentence, "transform_layout", "h", layout)


def test_the_text_of_a_layout_reads_back() -> None:
    for layout in LAYOUTS:
        written = layout_text(layout)
        assert layout_text(written) == written
        assert len(parsed(written)[0]) == 2


# set_memory, pad_to, align


@pytest.mark.parametrize("memory", ["register", "stack", "heap"])
def test_storage_lives_where_it_is_told(memory: str) -> None:
    s = tl.Schedule(blur())
    outer, _ = s.split("v.y", 4)
    s.compute_at("h", outer)
    s.set_memory("h", memory)
    s.pad_to("h", 1, 16)
    s.align("h", 128)
    where = {"register": "in registers", "stack": "on stack", "heap": "on heap"}[memory]
    assert f"h: float32[6, 32] {where} aligned to 128" in str(s)
    s.parallel(outer)
    check(s)


def test_alignment_holds_at_run_time() -> None:
    for memory in ("stack", "heap"):
        s = tl.Schedule(mirrored(4, 16))
        s.set_memory("h", memory)
        s.align("h", 1024)
        text = tl.build(s).inspect("llvm")
        assert "1024" in text
        check(s)


def test_the_heap_serves_run_time_extents() -> None:
    s = tl.Schedule(mirrored(tl.dim("m"), tl.dim("n")))
    s.set_memory("h", "heap")
    for m, n in EXTENTS:
        check(s, dims={"m": m, "n": n})
    refused(s, "TL-S204", "in stack memory needs a literal shape; use the heap", "set_memory", "h", "stack")


@pytest.mark.parametrize(
    ("step", "code", "sentence"),
    [
        (("set_memory", "h", "disk"), "TL-S005", "memory 'disk' is not one of register, stack, heap"),
        (("set_memory", "v", "heap"), "TL-S301", "'v' is a result of the kernel, whose storage belongs to the caller"),
        (("set_memory", "X", "heap"), "TL-S301", "'X' is an input of the kernel"),
        (("set_memory", "g", "heap"), "TL-S003", "there is no intermediate tensor 'g'"),
        (("set_memory", "h", "register"), "TL-S203", "do not fit registers"),
        (("set_memory", "h", "stack"), "TL-S203", "bytes would be kept on the stack (at most 65536)"),
        (("pad_to", "h", 2, 8), "TL-S005", "the axis of 'h' must be in -2..1, not 2"),
        (("pad_to", "h", 0, 0), "TL-S005", "the multiple of pad_to must be in"),
        (("align", "h", 48), "TL-S005", "an alignment is a power of two, not 48"),
        (("align", "h", 1 << 20), "TL-S005", "the alignment must be in 1..4096"),
    ],
)
def test_what_cannot_be_stored_so_is_refused(step: tuple[Any, ...], code: str, sentence: str) -> None:
    refused(tl.Schedule(mirrored(128, 256)), code, sentence, *step)


def test_the_stack_is_counted_for_every_unrolled_iteration() -> None:
    x = tl.placeholder((32, 64), name="X")
    h = tl.compute((32, 64, 64), lambda i, j, k: x[i, j] * x[i, k], name="h")
    r = tl.reduce_axis(64, name="r")
    s = tl.Schedule(tl.compute((32, 64), lambda i, j: tl.sum(h[i, j, r], axis=r), name="v"))
    s.compute_at("h", "v.i")
    s.set_memory("h", "stack")
    refused(s, "TL-S203", "bytes would be kept on the stack", "unroll", "v.i")
    check(s, interpret=False, rtol=1e-4)


def test_a_stored_intermediate_of_every_type() -> None:
    for dtype in ("int8", "uint16", "float64", "bfloat16", "bool"):
        x = tl.placeholder((5, 6), dtype, name="X")
        h = tl.compute((5, 6), lambda i, j, x=x: x[4 - i, j], name="h")
        s = tl.Schedule(tl.compute((5, 6), lambda i, j, h=h: h[i, 5 - j], name="v"))
        s.transform_layout("h", lambda i, j: (j // 4, i, j % 4))
        s.set_memory("h", "heap")
        s.vectorize("v.j")
        a = np.arange(30).reshape(5, 6).astype(x.dtype.numpy)
        np.testing.assert_array_equal(tl.build(s)(a), a[::-1, ::-1])


def test_a_tile_of_a_cached_reduction_starts_from_the_cache() -> None:
    s = tl.Schedule(matmul(5, 9, 5))
    s.cache_write("C", at="C.i")
    s.accumulate("C_cache", at="C.j")
    assert "# C.init" in str(s)
    check(s, rtol=1e-4)


@pytest.mark.parametrize("clamped", [False, True])
def test_a_copy_is_not_made_where_what_only_a_condition_fills_says(clamped: bool) -> None:
    """An index out of a copy that is not filled may be anything, also where it was looked at, or clamped, a moment before."""
    a, b = tl.placeholder((4, 4), name="A"), tl.placeholder((4, 4), "int64", name="B")

    def looked_up(i: Any, j: Any) -> Any:
        if clamped:
            return tl.select(i >= 3, a[tl.clamp(b[i - 3, j], 0, 3), i], 0)
        inside = (b[i - 3, j] >= 0) & (b[i - 3, j] < 4)
        return tl.select(i >= 3, tl.select(inside, a[b[i - 3, j], i], 1), 0)

    s = tl.Schedule(tl.compute((4, 4), looked_up, name="S"))
    s.pack("B", at="S.i", along="S.i")
    refused(s, "TL-S302", "'A' is touched is read from 'B_pack', and that element exists only under a condition", "pack", "A", "S.j")
    check(s)


def test_storage_is_not_placed_where_a_copy_takes_its_padding_too() -> None:
    x = tl.placeholder((1,), name="X")
    h = tl.compute((1,), lambda i: x[i] + 1, name="H")
    s = tl.Schedule(tl.compute((1,), lambda i: h[i] * 2, name="C"))
    at = s.fuse(*s.split("C.i", 2, "guard"))
    s.pad_to("H", 0, 16)
    s.cache_read("H", at=at)
    s.compute_at("H", "H_cache.d0")
    refused(s, "TL-S301", "'H_cache' reads 'H' at ", "store_at", "H", at)
    check(s)
