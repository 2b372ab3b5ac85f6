"""`prefetch` and `stream_stores` tell the caches something and change no value, whatever the alignment."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tests.schedules.programs import EXTENTS, blur, check, matmul, refused, scale


def asm(s: tl.Schedule, target: str = "native") -> str:
    """The machine code of a schedule."""
    text: str = tl.build(s, target=target).inspect("asm")
    return text


def test_each_line_of_the_next_iteration_is_asked_for() -> None:
    s = tl.Schedule(scale(5, 40))
    s.prefetch("X", "i", distance=2)
    assert (
        str(s)
        == """\
Y(X: float32[5, 40]) -> Y: float32[5, 40]
    for i in range(5):
        unroll d1 in range(4):
            prefetch X[i + 2, minimum(16 * d1, 39)]
        for j in range(40):
            Y[i, j] = X[i, j] * 3.0 + 1.0                    # Y"""
    )
    assert "prefetcht0" in asm(s, "x86-64-v3")
    check(s)


def test_what_is_read_at_the_same_place_in_each_iteration_is_not_asked_for() -> None:
    x = tl.placeholder((40, 64), name="X")
    s = tl.Schedule(tl.compute((39, 64), lambda i, j: tl.select(i == 0, x[0, j], x[i + 1, j] + x[0, j]), name="Y"))
    s.prefetch("X", "i", 3)
    assert "prefetch X[i + 4," in str(s)
    check(s)
    first = tl.Schedule(tl.compute((39, 64), lambda i, j: x[0, j] * 2, name="Y"))
    refused(first, "TL-S303", "does not move", "prefetch", "X", "i", 3)


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 3, 0), (1, 1, 1), (7, 37, 5)])
def test_prefetch_works_with_tiles_and_copies(shape: tuple[int, int, int]) -> None:
    s = tl.Schedule(matmul(*shape))
    io, jo, ii, ji = s.tile("i", "j", 3, 16)
    s.reorder(io, jo, "k", ii, ji)
    s.prefetch("B", "k", 4)
    s.accumulate("C", at=jo)
    s.vectorize(ji)
    s.unroll(ii)
    s.parallel(io)
    check(s)


def test_prefetch_of_run_time_extents() -> None:
    s = tl.Schedule(scale(tl.dim("m"), tl.dim("n")))
    jo, _ = s.split("j", 16)
    s.prefetch("X", jo)
    for m, n in EXTENTS:
        check(s, dims={"m": m, "n": n})


def test_hints_go_with_the_storage_that_they_are_about() -> None:
    for move in (
        lambda s: s.compute_at("h", "v.y"),
        lambda s: s.compute_inline("h"),
        lambda s: s.transform_layout("h", lambda y, x: (x, y)),
    ):
        s = tl.Schedule(blur())
        s.prefetch("h", "v.y")
        move(s)
        check(s)


def test_a_hint_inside_a_loop_that_becomes_a_vector_asks_once() -> None:
    s = tl.Schedule(blur(3, 16))
    s.reorder("v.x", "v.y")
    s.prefetch("h", "v.y")
    s.vectorize("v.x")
    check(s)


@pytest.mark.parametrize(
    ("step", "code", "sentence"),
    [
        (("prefetch", "Z", "i"), "TL-S003", "no tensor 'Z' is read in this nest"),
        (("prefetch", "A", "C.init.i"), "TL-S302", "'A' is not read inside 'i'"),
        (("prefetch", "A", "j"), "TL-S303", "does not move with 'j' in a simple way"),
        (("prefetch", "B", "k", 0), "TL-S005", "the distance of prefetch must be in 1..65536"),
        (("stream_stores", "A"), "TL-S302", "'A' is an input, which is never stored to"),
        (("stream_stores", "Z"), "TL-S003", "no tensor 'Z' is stored to"),
        (("stream_stores", "C"), "TL-S302", "is read again by the reduction that stores to it; accumulate it first"),
    ],
)
def test_hints_that_help_nothing_are_refused(step: tuple[Any, ...], code: str, sentence: str) -> None:
    loop = {"i": "C.i", "j": "C.j", "k": "C.k"}
    refused(tl.Schedule(matmul()), code, sentence, *(loop.get(part, part) for part in step))


def test_a_region_without_a_literal_size_or_with_too_many_lines_is_refused() -> None:
    refused(tl.Schedule(scale(5, tl.dim("n"))), "TL-S204", "has no literal size; split first", "prefetch", "X", "i")
    refused(tl.Schedule(scale(5, 1 << 20)), "TL-S202", "reads 65537 lines of 'X' (at most 4096)", "prefetch", "X", "i")
    s = tl.Schedule(blur())
    s.compute_at("h", "v.y")
    refused(s, "TL-S302", "'h' exists only inside 'y'", "prefetch", "h", "v.y")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize("offset", [0, 1, 4, 12, 16])
def test_streamed_stores_reach_every_element_at_every_alignment(dtype: str, offset: int) -> None:
    s = tl.Schedule(scale(7, 133, dtype))
    _, lanes = s.split("j", 16)
    s.vectorize(lanes)
    s.stream_stores("Y")
    s.parallel("i")
    assert "# Y   stream" in str(s)
    check(s)
    x = np.random.default_rng(0).integers(0, 9, (7, 133)).astype(dtype)
    whole = np.full(7 * 133 + 32, 77, dtype)
    tl.build(s)(x, out=whole[offset : offset + 7 * 133].reshape(7, 133))
    np.testing.assert_array_equal(whole[offset : offset + 7 * 133].reshape(7, 133), x * 3 + 1)
    assert (whole[:offset] == 77).all()
    assert (whole[offset + 7 * 133 :] == 77).all()


def test_streamed_stores_are_followed_by_a_fence_on_x86_and_plain_elsewhere() -> None:
    s = tl.Schedule(scale(4, 64))
    s.vectorize(s.split("j", 16)[1])
    assert "movnt" not in asm(s, "x86-64-v4")
    s.stream_stores("Y")
    code = asm(s, "x86-64-v4")
    assert "vmovntps" in code
    assert "sfence" in code
    assert "sfence" not in asm(s, "cortex-a72")


@pytest.mark.parametrize(("cpu", "register"), [("x86-64-v4", "zmm"), ("haswell", "ymm")])
def test_parts_of_a_vector_are_streamed_where_the_whole_may_not_be(cpu: str, register: str) -> None:
    """NumPy's arrays begin 16 bytes behind a line."""
    s = tl.Schedule(scale(4, 64))
    s.vectorize(s.split("j", 16)[1])
    s.stream_stores("Y")
    assert set(re.findall(r"vmovnt\w+\s+%([xyz]mm)", asm(s, cpu))) == {register, "xmm"}


def test_the_copy_of_a_tile_streams_and_the_tile_does_not() -> None:
    s = tl.Schedule(matmul(7, 37, 5))
    io, jo, ii, ji = s.tile("i", "j", 3, 16)
    s.reorder(io, jo, "k", ii, ji)
    s.accumulate("C", at=jo)
    s.stream_stores("C")
    s.vectorize(ji)
    assert str(s).count("stream") == 1
    check(s)
    s = tl.Schedule(scale(5, 48))
    s.stream_stores("Y")
    s.cache_write("Y", at="i")
    assert str(s).count("stream") == 1
    assert "# Y_cache.store   stream" in str(s)
    refused(s, "TL-S301", "'X' is an input", "set_memory", "X", "heap")
    check(s)


def test_a_hint_stays_with_the_statement_that_follows_it() -> None:
    s = tl.Schedule(matmul())
    s.prefetch("A", "C.i")
    refused(s, "TL-S105", "holds a single statement", "fission", "C.i")
    s = tl.Schedule(blur())
    s.compute_at("h", "v.y")
    s.prefetch("X", "v.y")
    s.compute_root("h")
    check(s)


def scanned() -> tl.Schedule:
    w, x0, u = (
        tl.placeholder((3, 3), "int32", name="W"),
        tl.placeholder((3,), "int32", name="x0"),
        tl.placeholder((4, 3), "int32", name="U"),
    )

    def step(t: Any, x: Any) -> Any:
        k = tl.reduce_axis(3, name="k")
        m = tl.compute((3,), lambda i: tl.sum(w[i, k] * u[t, k], axis=k), name="m")
        return tl.compute((3,), lambda i: m[i] + x[i], name="nx")

    return tl.Schedule(tl.scan(step, x0, 4))


def test_a_hint_inside_of_a_stage_moves_with_it() -> None:
    """The storage of an implicit stage gets an axis where it is computed whole, and so does what is asked for ahead."""
    s = scanned()
    s.prefetch("m", "m.i")
    s.compute_root("m")
    assert "prefetch m[t, i + 1]" in str(s)
    check(s)


def test_a_hint_about_a_part_goes_where_the_whole_is_computed() -> None:
    x, k = tl.placeholder((8, 6), "int32", name="X"), tl.reduce_axis(6, name="k")
    h = tl.compute((8, 6), lambda i, j: tl.sum(x[i, k] * x[i, j], axis=k), name="H")
    s = tl.Schedule(tl.compute((8, 6), lambda i, j: h[i, j] + h[tl.maximum(i - 1, 0), j], name="C"))
    s.compute_at("H", "C.i")
    s.set_memory("H", "stack")
    s.prefetch("H", "H.i")
    s.compute_root("H")
    assert "prefetch" not in str(s) and "d1" not in str(s)
    check(s)
