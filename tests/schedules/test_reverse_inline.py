"""`reverse_compute_inline`: an epilogue is computed where its operand is completed, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl
from tensorlang.codegen.compilation import default_schedule
from tests.schedules.programs import check, matmul, rectified, refused
from tests.thinned import crossed


def test_an_epilogue_is_computed_in_the_registers_of_its_operand() -> None:
    s = tl.Schedule(rectified(4, 8, 5))
    s.reorder("C.i", "C.k", "C.j")
    s.accumulate("C", at="C.i")
    s.reverse_compute_inline("R")
    assert (
        str(s)
        == """\
R(A: float32[4, 5], B: float32[5, 8], bias: float32[8]) -> R: float32[4, 8]
    for i in range(4):
        C_acc: float32[8] in registers
        for j in range(8):
            C_acc[j] = 0.0                                   # C_acc.init
        for k in range(5):
            for j in range(8):
                C_acc[j] += A[i, k] * B[k, j]                # C
        for j in range(8):
            R[i, j] = maximum(C_acc[j] + bias[j], 0.0)       # C_acc.store"""
    )
    check(s)


@crossed({"tail": ["guard", "mask", "peel"], "shape": [(0, 3, 2), (2, 3, 0), (1, 1, 1), (7, 11, 5), (8, 16, 4)]})
def test_it_works_on_vector_tiles_of_any_extent(tail: Any, shape: tuple[int, int, int]) -> None:
    s = tl.Schedule(rectified(*shape))
    io, jo, ii, ji = s.tile("C.i", "C.j", 3, 8, tail)
    s.reorder(io, jo, "C.k", ii, ji)
    s.accumulate("C", at=jo)
    s.vectorize(ji)
    s.unroll(ii)
    s.parallel(io)
    s.reverse_compute_inline("R")
    check(s)


def test_run_time_extents_and_a_transposed_consumer() -> None:
    m, n = tl.dim("m"), tl.dim("n")
    product = matmul(m, n, 5)
    s = tl.Schedule(tl.compute((n, m), lambda j, i: tl.select(product[i, j] > 0, product[i, j], 0.0), name="T"))
    s.accumulate("C", at="C.j")
    s.reverse_compute_inline("T")
    for extents in ((0, 3), (3, 0), (1, 1), (5, 9)):
        check(s, dims=dict(zip("mn", extents, strict=True)))


def test_a_chain_of_intermediates_goes_in_one_after_another_and_a_residual_is_there() -> None:
    """The residual is computed before the product begins; the intermediate between them takes the operand's place."""
    x = tl.placeholder((6, 9), name="X")
    residual = tl.compute((6, 9), lambda i, j: tl.exp(x[i, j]), name="residual")
    product = matmul(6, 9, 5)
    shifted = tl.compute((6, 9), lambda i, j: product[i, j] + residual[i, j], name="shifted")
    s = tl.Schedule(tl.compute((6, 9), lambda i, j: shifted[i, j] * 2, name="R"))
    s.accumulate("C", at="C.j")
    s.reverse_compute_inline("shifted")
    s.reverse_compute_inline("R")
    assert "shifted" not in str(s)
    check(s)


def test_what_it_cannot_prove_is_refused_with_what_to_do() -> None:
    s = tl.Schedule(rectified())
    refused(s, "TL-S301", "'C' is completed by several statements; accumulate 'C' outside", "reverse_compute_inline", "R")
    refused(s, "TL-S301", "it is not one plain statement", "reverse_compute_inline", "C")
    s.accumulate("C", at="C.k")  # inside the reduction: its tile is loaded again
    refused(s, "TL-S301", "there is nothing to go into", "reverse_compute_inline", "R")
    s = tl.Schedule(rectified())
    s.split("R.i", 4)
    refused(s, "TL-S301", "its loops are already scheduled", "reverse_compute_inline", "R")


def test_a_part_of_the_operand_or_another_reader_is_refused() -> None:
    x = tl.placeholder((9,), name="X")
    h = tl.compute((9,), lambda i: x[i] * 2, name="h")
    part = tl.Schedule(tl.compute((7,), lambda i: h[i] + 1, name="v"))
    refused(part, "TL-S301", "whole and element by element", "reverse_compute_inline", "v")
    both = tl.Schedule((tl.compute((9,), lambda i: h[i] + 1, name="v"), tl.compute((9,), lambda i: h[i] - 1, name="w")))
    refused(both, "TL-S301", "whole and element by element", "reverse_compute_inline", "v")
    turned = tl.Schedule(tl.compute((9,), lambda i: h[8 - i] + 1, name="v"))
    refused(turned, "TL-S301", "whole and element by element", "reverse_compute_inline", "v")


@pytest.mark.parametrize("name", ["pad", "select", "product"])
def test_a_consumer_with_elements_of_its_own_is_refused(name: str) -> None:
    """What it reads under a condition has fewer elements than it: the others would be stored by nobody."""
    x = tl.placeholder((4,), name="X")
    h = tl.compute((4,), lambda i: x[i] * 2, name="h")
    p = {
        "pad": lambda: tl.pad(h, ((1, 2),), name="P"),
        "select": lambda: tl.compute((6,), lambda i: tl.select(i < 4, h[i], 9.0), name="P"),
        "product": lambda: tl.pad(matmul(4, 5, 6), ((0, 0), (0, 3)), name="P"),
    }[name]()
    s = tl.Schedule(p)
    if name == "product":
        s.accumulate("C", at="C.j")
    refused(s, "TL-S303", "is not stored for all of its elements", "reverse_compute_inline", "P")
    check(s)
    check(default_schedule(p, tl.target("native")))


def test_a_consumer_that_leaves_a_choice_open_goes_in() -> None:
    h = tl.compute((4,), lambda i: tl.placeholder((4,), name="X")[i] * 2, name="h")
    s = tl.Schedule(tl.compute((4,), lambda i: tl.select((i >= 1) & (i < 3), h[i], 9.0), name="P"))
    s.reverse_compute_inline("P")
    check(s)


def test_an_operand_that_is_computed_before_another_one_waits_for_it() -> None:
    """The later of two intermediates is the one to go into; where it cannot be, the earlier one is not complete enough."""
    x = tl.placeholder((6,), name="X")
    f = tl.compute((6,), lambda i: x[i] + 1, name="f")
    g = tl.compute((6,), lambda i: x[i] * 2, name="g")
    s = tl.Schedule(tl.compute((6,), lambda i: f[i] * g[i], name="v"))
    s.reverse_compute_inline("v")
    assert "g" not in s.stages() or "v" not in s.stages()
    check(s)
    s = tl.Schedule(tl.compute((6,), lambda i: f[i] * g[5 - i], name="v"))
    refused(s, "TL-S301", "'g', which it reads, is not there when 'f' is completed", "reverse_compute_inline", "v")


def test_it_replays_from_json() -> None:
    s = tl.Schedule(rectified())
    s.accumulate("C", at="C.j")
    s.reverse_compute_inline("R")
    again = tl.Schedule.from_json(s.outputs, s.to_json())
    assert str(again) == str(s)
    assert again.directives == s.directives


@pytest.mark.parametrize("length", [0, 1, 4])
def test_what_a_scan_starts_from_is_computed_in_its_first_slot(length: int) -> None:
    a = tl.placeholder((6,), name="A")
    p = tl.compute((6,), lambda i: a[i] * 2.0, name="P")
    s = tl.Schedule(tl.scan(lambda t, x: tl.compute((6,), lambda i: x[i] + a[i], name="N"), p, length, keep="last", name="R"))
    s.parallel("P.i")
    s.reverse_compute_inline("R.start")
    assert "R.ring[0, i] = A[i] * 2.0" in str(s)
    check(s)
