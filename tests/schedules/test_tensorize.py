"""`tensorize` replaces loops by an instruction that computes the same, where the target has it, and only where they are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.directives.instructions import Instruction, Register, dpbf16ps, dpbusd
from tests.schedules.programs import check, refused
from tests.thinned import crossed


def product(m: Any, n: Any, k: Any, left: str, right: str, sums: str) -> Tensor:
    """A matrix product of narrow operands in wide sums."""
    a, b = tl.placeholder((m, k), left, name="A"), tl.placeholder((k, n), right, name="B")
    r = tl.reduce_axis(k, name="k")
    result: Tensor = tl.compute((m, n), lambda i, j: tl.sum(tl.cast(a[i, r], sums) * tl.cast(b[r, j], sums), axis=r), name="C")
    return result


def tiled(out: Tensor, width: int, tail: Any = "guard") -> tl.Schedule:
    """Tiles of 16 columns and `width` products, the right operand packed in the order of the tile."""
    s = tl.Schedule(out)
    jo, ji = s.split("C.j", 16, tail)
    ko, ki = s.split("C.k", width, tail)
    s.reorder(jo, "C.i", ko, ji, ki)
    s.pack("B", at=jo, layout=(ko, ji, ki))
    s.accumulate("C", at="C.i")
    return s


def bytes_product(m: int, n: int, k: int) -> Tensor:
    """Unsigned by signed bytes."""
    return product(m, n, k, "uint8", "int8", "int32")


def test_the_loops_stay_as_what_the_instruction_means() -> None:
    s = tiled(bytes_product(5, 32, 8), 4)
    s.tensorize("C.j_i", "dpbusd")
    lines = [line.strip() for line in str(s).splitlines()]
    assert "tensor j_i in range(16):                     # dpbusd" in lines
    assert "tensor k_i in range(4):" in lines
    check(s)


def test_rfactor_of_what_an_instruction_computes_is_refused_without_another_loop_to_name() -> None:
    s = tiled(bytes_product(5, 32, 8), 4)
    s.tensorize("C.j_i", "dpbusd")
    for loop in ("C.k_o", "C.k_i"):
        error = s.can("rfactor", loop).error
        assert error.code == "TL-S107"
        assert error.alternatives == ()


@crossed({"tail": ["guard", "mask", "peel"], "shape": [(0, 16, 4), (2, 0, 3), (2, 3, 0), (1, 16, 4), (5, 53, 29)]})
def test_dpbusd_gives_exactly_the_integer_product(shape: tuple[int, int, int], tail: Any) -> None:
    m, n, k = shape
    s = tiled(bytes_product(m, n, k), 4, tail)
    s.tensorize("C.j_i", dpbusd())
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (m, k)).astype("uint8"), rng.integers(-128, 128, (k, n)).astype("int8")
    want = a.astype("int32") @ b.astype("int32")
    for machine in ("native", "x86-64-v2"):
        kernel = tl.build(s, target=machine)
        if target(machine).is_native:
            np.testing.assert_array_equal(kernel(a, b), want)
    check(s)


@crossed(
    {
        "tail": ["guard", "mask", "peel"],
        "shape": [(6, 64, 8), (7, 53, 29), (13, 33, 6), (1, 17, 1)],
        "types, instruction, lanes, cpu": [
            (("uint8", "int8"), "dpbusd", 16, "icelake-server"),
            (("int8", "uint8"), "dpbsud", 16, "icelake-server"),
            (("int8", "int8"), "dpbssd", 16, "icelake-server"),
            (("uint8", "int8"), "maddusd", 8, "haswell"),
            (("int8", "uint8"), "maddsud", 8, "haswell"),
            (("int8", "int8"), "maddssd", 8, "haswell"),
        ],
    },
    count=3,
)
def test_register_tiles_of_dot_products_are_exact_at_every_edge(
    types: tuple[str, str], instruction: str, lanes: int, cpu: str, shape: tuple[int, int, int], tail: Any
) -> None:
    """Tiles of 4 x 2 vectors, the short ones at the edges computed with zeros for what they lack."""
    m, n, k = shape
    s = tl.Schedule(product(m, n, k, *types, "int32"))
    jo, ji = s.split("C.j", 2 * lanes, tail)
    jv, jl = s.split(ji, lanes, tail)
    ko, ki = s.split("C.k", 4, tail)
    io, ii = s.split("C.i", 4, tail)
    s.reorder(jo, io, ko, ii, jv, jl, ki)
    s.pack("B", at=jo)
    s.accumulate("C", at=io)
    s.tensorize(jl, instruction)
    s.unroll(ii)
    s.unroll(jv)
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, size, endpoint=True).astype(kind)
        for kind, size in zip(types, ((m, k), (k, n)), strict=True)
    )
    for machine in {"native", cpu} if target(cpu).is_native else {"native"}:
        np.testing.assert_array_equal(tl.build(s, target=machine)(a, b), a.astype("int32") @ b.astype("int32"))
    check(s)
    if tail == "peel":
        scalar = [line for line in tl.build(s, target=cpu).inspect("asm").splitlines() if "imull" in line]
        assert not scalar, "a partial tile ran as loops"


def test_the_instruction_is_chosen_only_where_the_cpu_has_it() -> None:
    s = tiled(bytes_product(5, 53, 29), 4)
    s.tensorize("C.j_i", "dpbusd")
    assert "vpdpbusd" in tl.build(s, target="icelake-server").inspect("asm")
    assert "vpdpbusd" not in tl.build(s, target="x86-64-v4").inspect("asm")
    assert tl.build(s, target="cortex-a72").inspect("asm")


@pytest.mark.parametrize("cpu", ["haswell", "x86-64-v4", "icelake-server"])
def test_sums_of_products_of_bytes_do_not_end_at_those_of_words(cpu: str) -> None:
    """AVX2's `vpmaddubsw` adds two products in 16 bits and stops there; two of words are added in 32."""
    x, w, k = tl.placeholder((2, 4), "uint8", name="A"), tl.placeholder((8, 4), "int8", name="B"), tl.reduce_axis(4, name="k")
    s = tl.Schedule(tl.compute((2, 8), lambda i, j: tl.sum(tl.cast(x[i, k], "int32") * tl.cast(w[j, k], "int32"), axis=k), name="C"))
    s.tensorize("C.j", "maddusd")
    a, b = np.full((2, 4), 255, "uint8"), np.full((8, 4), -128, "int8")
    kernel = tl.build(s, target=cpu)
    assert "vpmaddubsw" not in kernel.inspect("asm") and "vpmaddwd" in kernel.inspect("asm")
    if target(cpu).is_native:
        np.testing.assert_array_equal(kernel(a, b), np.full((2, 8), 4 * 255 * -128))


@pytest.mark.parametrize("shape", [(3, 16, 2), (5, 53, 29), (1, 5, 1)])
def test_dpbf16ps_sums_in_float32(shape: tuple[int, int, int]) -> None:
    s = tiled(product(*shape, "bfloat16", "bfloat16", "float32"), 2)
    s.tensorize("C.j_i", dpbf16ps())
    check(s, rtol=1e-5)
    assert ("vdpbf16ps" in tl.build(s, target="cooperlake").inspect("asm")) == (shape[1] >= 16 and shape[2] >= 2)


def test_an_instruction_works_in_unrolled_and_parallel_loops() -> None:
    s = tl.Schedule(bytes_product(11, 37, 21))
    io, ii = s.split("C.i", 2)
    jo, ji = s.split("C.j", 16)
    ko, ki = s.split("C.k", 4)
    s.reorder(io, jo, ko, ii, ji, ki)
    s.pack("B", at=jo, layout=(ko, ji, ki))
    s.accumulate("C", at=jo)
    s.tensorize(ji, "dpbusd")
    s.unroll(ii)
    s.parallel(io)
    check(s)
    refused(s, "TL-S107", "the loop is already tensor", "split", ki, 2)
    refused(s, "TL-S107", "the loop is already tensor", "vectorize", ji)
    refused(s, "TL-S107", "stands inside", "vectorize", ko)


def test_an_instruction_on_run_time_extents() -> None:
    s = tiled(product(tl.dim("m"), tl.dim("n"), 8, "uint8", "int8", "int32"), 4)
    s.tensorize("C.j_i", "dpbusd")
    for m, n in [(0, 3), (3, 0), (1, 1), (2, 16), (3, 37)]:
        check(s, dims={"m": m, "n": n})


# Definitions of a user


def scaled_add() -> Tensor:
    """y[i] = 2 x[i] + z[i] over four float32."""
    x, z = tl.placeholder((4,), name="x"), tl.placeholder((4,), name="z")
    result: Tensor = tl.compute((4,), lambda i: x[i] * 2 + z[i], name="y")
    return result


def wide_add(builder: Any, tiles: dict[str, Any]) -> None:
    """2 x + z, written with the builder."""
    from llvmlite import ir

    four = ir.VectorType(ir.FloatType(), 4)
    x, z = (builder.load(tiles[name], typ=four, align=4) for name in ("x", "z"))
    builder.store(builder.fadd(builder.fadd(x, x), z), tiles["y"], align=4)


def axpy(n: Any) -> Tensor:
    """Y = Z + X * 2."""
    x, z = tl.placeholder((n,), name="X"), tl.placeholder((n,), name="Z")
    result: Tensor = tl.compute((n,), lambda i: z[i] + x[i] * 2, name="Y")
    return result


@pytest.mark.parametrize("n", [0, 1, 4, 11])
def test_a_user_defines_an_instruction_by_a_builder(n: int) -> None:
    s = tl.Schedule(axpy(n))
    s.split("i", 4)
    s.tensorize("i_i", Instruction("wide_add", scaled_add(), wide_add))
    check(s)


def test_the_registers_of_an_instruction_hold_its_tiles() -> None:
    x, z = tl.placeholder((8,), name="x"), tl.placeholder((8,), name="z")
    largest = tl.compute((8,), lambda i: tl.fmax(x[i], z[i]), name="y")
    registers = (Register("x", "float", 8), Register("z", "float", 8))
    s = tl.Schedule(tl.compute((8,), lambda i: tl.fmax(x[i], z[i]), name="Y"))
    step = ("tensorize", "i")
    refused(
        s, "TL-S005", "has no register for its result 'y'", *step, Instruction("largest", largest, "llvm.x86.avx.max.ps.256", registers)
    )
    wrong = (Register("y", "float", 4), *registers)
    refused(
        s,
        "TL-S005",
        "the tile 'y' have 32 bytes, and its register has 16",
        *step,
        Instruction("largest", largest, "llvm.x86.avx.max", wrong),
    )
    refused(s, "TL-S005", "an intrinsic is named llvm...", *step, Instruction("largest", largest, "abort", registers))


def test_an_instruction_that_llvm_cannot_compile_is_a_build_error() -> None:
    doubled = tl.compute((8,), lambda i: tl.placeholder((8,), name="x")[i] * 2, name="y")
    registers = (Register("y", "float", 8), Register("x", "float", 8))
    x = tl.placeholder((8,), name="X")
    s = tl.Schedule(tl.compute((8,), lambda i: x[i] * 2, name="Y"))
    s.tensorize("i", Instruction("careless", doubled, "llvm.x86.avx.max.ps.256", registers))
    with pytest.raises(tl.BuildError, match="'careless' cannot be compiled for x86-64; state what it requires"):
        tl.build(s, target="x86-64")


# Refusals


def test_loops_that_are_not_the_instruction_are_refused_with_the_difference() -> None:
    s = tiled(bytes_product(5, 32, 8), 4)
    refused(s, "TL-S003", "there is no instruction 'dpbusb'", "tensorize", "C.j_i", "dpbusb")
    refused(s, "TL-S306", "it has loops of 16 x 4 iterations, and here are loops of 4", "tensorize", "C.k_i", "dpbusd")
    refused(s, "TL-S306", "it has loops of 16 x 2 iterations, and here are loops of 16 x 4", "tensorize", "C.j_i", "dpbf16ps")
    refused(s, "TL-S105", "are not perfectly nested around one statement", "tensorize", "C.i", "dpbusd")
    s.reorder("C.k_i", "C.j_i")
    refused(s, "TL-S306", "here are loops of 4 x 16", "tensorize", "C.k_i", "dpbusd")
    s.unroll("C.k_i")
    refused(s, "TL-S107", "is already unroll", "tensorize", "C.k_i", "dpbusd")


def test_other_types_other_strides_and_other_arithmetic_are_refused() -> None:
    s = tiled(product(5, 32, 8, "int8", "int8", "int32"), 4)
    refused(s, "TL-S306", "'A' is int8, and 'a' is uint8", "tensorize", "C.j_i", "dpbusd")
    s = tl.Schedule(bytes_product(5, 32, 8))
    jo, ji = s.split("C.j", 16)
    ko, ki = s.split("C.k", 4)
    s.reorder(jo, "C.i", ko, ji, ki)
    refused(s, "TL-S306", "'B' is walked at strides 1 x 32, and 'b' at 4 x 1", "tensorize", ji, "dpbusd")
    s = tl.Schedule(axpy(16))
    s.split("i", 4)
    x, z = tl.placeholder((4,), name="x"), tl.placeholder((4,), name="z")
    other = tl.compute((4,), lambda i: z[i] + x[i] * 3, name="y")
    refused(s, "TL-S306", "2.0 stands for 3.0", "tensorize", "i_i", Instruction("triple_add", other, wide_add))
    refused(s, "TL-S006", "another instruction is named 'dpbusd'", "tensorize", "i_i", Instruction("dpbusd", other, wide_add))


def test_a_tile_that_is_read_and_written_is_refused() -> None:
    y = tl.recurrence((8, 4), lambda t, j, self: self[t - 1, j] * 2 + self[t - 1, j], name="Y")
    s = tl.Schedule(y)
    x, z = tl.placeholder((4,), name="x"), tl.placeholder((4,), name="z")
    step = tl.compute((4,), lambda i: x[i] * 2 + z[i], name="y")
    error = s.can("tensorize", "Y.j", Instruction("step", step, wide_add)).error
    assert error is not None
    assert error.code in ("TL-S306", "TL-S105")


def test_a_partial_tile_leaves_what_lies_beyond_its_row_as_it_is() -> None:
    """Sixteen lanes of a row of ten end in the next row, where 0 * inf would be none."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    A, B, k = tl.placeholder((2, 2), "bfloat16", name="A"), tl.placeholder((10, 2), "bfloat16", name="B"), tl.reduce_axis(2, name="k")
    C = tl.compute((2, 10), lambda i, j: tl.sum(tl.cast(A[i, k], "float32") * tl.cast(B[j, k], "float32"), axis=k), name="C")
    s = tl.Schedule(tl.compute((2, 10), lambda i, j: C[i, j] + 1, name="R"))
    s.split("C.j", 16)
    s.reorder("C.j_o", "C.i", "C.j_i", "k")
    for loop in ("C.j_o", "C.i"):
        s.unroll(loop)
    s.tensorize("C.j_i", "dpbf16ps")
    got = tl.build(s)(np.array([[np.inf, 1], [1, 1]], ml_dtypes.bfloat16), np.ones((10, 2), ml_dtypes.bfloat16))
    np.testing.assert_array_equal(got, [[np.inf] * 10, [3] * 10])


def _of_four(name: str, body: Any, padded: bool = False) -> Instruction:
    a = tl.placeholder((4,), "int32", name="a")
    registers = (Register("c", "i32", 4), Register("a", "i32", 4))
    return Instruction(name, tl.compute((4,), lambda i: body(a, i), name="c"), lambda b, c, a: b.add(a, a), registers, padded=padded)


def test_a_partial_tile_of_what_is_no_reduction_leaves_its_neighbours_as_they_are() -> None:
    A = tl.placeholder((3, 6), "int32", name="A")
    h = tl.compute((3, 6), lambda i, j: A[i, j] * 2, name="h")
    s = tl.Schedule(tl.compute((3, 6), lambda i, j: h[i, j] + 1, name="R"))
    s.split("h.j", 4)
    s.reorder("h.j_o", "h.i", "h.j_i")
    for loop in ("h.j_o", "h.i"):
        s.unroll(loop)
    s.tensorize("h.j_i", _of_four("twice_padded", lambda a, i: a[i] * 2, padded=True))
    check(s)


def test_an_axis_of_the_definition_begins_where_the_loop_does() -> None:
    A = tl.placeholder((10,), "int32", name="A")
    s = tl.Schedule(tl.compute((10,), lambda i: A[i] + tl.cast(i, "int32"), name="C"))
    s.peel("i", first=1, last=5)
    with pytest.raises(tl.ScheduleError, match="i begins at 1, and i at 0"):
        s.tensorize("i", _of_four("with_place", lambda a, i: a[i] + tl.cast(i, "int32")))


def test_a_tile_that_may_be_read_in_part_is_refused() -> None:
    """Registers are loaded whole, and there are but three elements here."""
    A = tl.placeholder((3,), "int32", name="A")
    s = tl.Schedule(tl.compute((4,), lambda i: tl.select(i < 3, A[i], 0), name="C"))
    with pytest.raises(tl.ScheduleError, match="reads 'a' only in part or under a condition"):
        s.tensorize("i", _of_four("three_of_four", lambda a, i: tl.select(i < 3, a[i], 0)))
