"""The hot loop of machine code is found, and what is said of it holds."""

from __future__ import annotations

import pytest

import tensorlang as tl
from tensorlang.codegen.reports.assembly import read
from tensorlang.codegen.reports.instructions import weight
from tensorlang.codegen.target import target
from tensorlang.ir.dtype import dtype
from tensorlang.ir.functions import FUNCTIONS

WIDE, MIDDLE = "x86-64-v4", "x86-64-v3"


def product(n: int = 256) -> tl.Tensor:
    A, B = tl.placeholder((n, n), name="A"), tl.placeholder((n, n), name="B")
    return tl.ops.matmul(A, B)


@pytest.mark.parametrize(("name", "width"), [(WIDE, 512), (MIDDLE, 256)])
def test_the_hot_loop_of_a_matrix_product_is_multiply_adds_on_whole_vectors(name: str, width: int) -> None:
    hot = read(tl.build(product(), target=name).inspect("asm")).hot
    assert hot is not None
    assert hot.width == width
    assert hot.fused == hot.vector >= 8
    assert hot.chains >= 8
    assert hot.fused % hot.chains == 0
    assert hot.share == 1
    assert hot.spills == 0


def test_a_tile_that_registers_cannot_hold_is_spilled() -> None:
    s = tl.Schedule(product())
    io, jo, ii, ji = s.tile("i", "j", 8, 64)
    s.reorder(io, jo, "k", ii, ji)
    s.vectorize(ji)
    s.unroll(ii)
    s.accumulate("matmul", at=jo)
    hot = read(tl.build(s, target=MIDDLE).inspect("asm")).hot
    assert hot is not None
    assert hot.spills > 0


def test_plain_loops_are_scalar_and_one_chain() -> None:
    x, k = tl.placeholder((1000,), name="x"), tl.reduce_axis(1000, name="k")
    hot = read(tl.build(tl.Schedule(tl.compute((1,), lambda i: tl.sum(x[k], axis=k), name="s")), target=MIDDLE).inspect("asm")).hot
    assert hot is not None
    assert (hot.vector, hot.share, hot.width) == (0, 0, 0)
    assert hot.chains == 1


def test_code_without_loops_is_read_as_a_whole() -> None:
    x = tl.placeholder((16,), name="x")
    hot = read(tl.build(tl.compute((16,), lambda i: x[i] + 1, name="y"), target=WIDE).inspect("asm")).hot
    assert hot is not None
    assert (hot.label, hot.vector, hot.scalar, hot.width) == ("", 1, 0, 512)


def test_a_copy_has_vectors_and_no_arithmetic() -> None:
    x = tl.placeholder((4096,), name="x")
    hot = read(tl.build(tl.compute((4096,), lambda i: x[i], name="y"), target=WIDE).inspect("asm")).hot
    assert hot is None or (hot.share is None and hot.spills == 0)


LOOP = """\
f:
	vmovaps	%zmm1, 64(%rsp)
.LBB0_1:
	vmovups	(%rdi), %zmm0
.LBB0_2:
	vfmadd231ps	(%rsi), %zmm0, %zmm1
	vfmadd231ps	128(%rsp), %zmm0, %zmm2
	vaddps	%zmm0, %zmm3, %zmm4
	vaddss	%xmm5, %xmm6, %xmm5
	vmovups	%zmm4, 64(%rsp,%rax)
	addq	$64, %rsi
	jne	.LBB0_2
	vmulps	%zmm0, %zmm1, %zmm1
	jne	.LBB0_1
	retq
"""


def test_only_the_innermost_loop_is_read() -> None:
    (hot,) = read(LOOP).loops
    assert (hot.label, hot.instructions) == (".LBB0_2", 7)
    assert (hot.vector, hot.scalar, hot.fused, hot.operations) == (3, 1, 2, 6)


@pytest.mark.parametrize("name", ["vpdpbusd", "vpdpbusds", "vpdpwssd"])
def test_dot_products_are_vector_arithmetic_whatever_their_names_end_in(name: str) -> None:
    """Names that end in `sd` are of single numbers, but for those of integers in lanes."""
    (hot,) = read(f".L1:\n\t{name}\t%zmm1, %zmm2, %zmm3\n\tvaddsd\t%xmm4, %xmm5, %xmm6\n\tjne\t.L1\n").loops
    assert (hot.vector, hot.scalar, hot.fused, hot.width) == (1, 1, 1, 512)
    assert hot.operations == 1 + (4 if "w" in name else 8)


def test_a_spill_has_a_fixed_place_on_the_stack() -> None:
    (hot,) = read(LOOP).loops
    assert hot.spills == 1


def test_chains_are_what_an_iteration_hands_on() -> None:
    (hot,) = read(LOOP).loops
    assert hot.chains == 3


@pytest.mark.parametrize("text", ["", "f:\n\tretq\n", "not assembly at all"])
def test_any_text_can_be_read(text: str) -> None:
    hot = read(text).hot
    assert hot is None or hot.share is None


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_named_function_has_a_weight(name: str) -> None:
    assert 1 <= weight(name, dtype("float32"), target(MIDDLE)) < 1000


def test_an_exponential_is_some_twenty_instructions() -> None:
    assert 10 <= weight("exp", dtype("float32"), target(WIDE)) <= 40
