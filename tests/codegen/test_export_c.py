"""The C source of a kernel gives what its definition means: compiled without a warning, called by ctypes, compared with the evaluator."""

from __future__ import annotations

import itertools
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import tensorlang as tl
from tensorlang.codegen.export import c_source
from tensorlang.ir.dtype import DTYPES
from tensorlang.ir.functions import FUNCTIONS
from tests.codegen.exported import STRICT, called, compiled, needs_cc, run
from tests.fuzz.case import sizes
from tests.fuzz.oracles import Judge
from tests.fuzz.program import Builder, operands
from tests.strategies import Program, programs

pytestmark = needs_cc

SEEDS, MORE = (2, 13, 29, 37), (7, 22, 35, 38, *range(100, 300))
"""Cases of the fuzzer: schedules, extents of run time, every kind of stage; `python -m pytest -m slow` takes more."""
INTEGERS = [dtype for dtype in DTYPES if dtype.is_integer]
FLOATS = [dtype for dtype in DTYPES if dtype.is_floating]


def exported(folder: Any, kernels: list[tl.Kernel], *flags: str) -> Any:
    """A library of the C sources of kernels."""
    for kernel in kernels:
        kernel.export(folder, formats=("c", "h"))
    return compiled(folder, [kernel.name for kernel in kernels], *flags)


def corners(dtype: Any, size: int) -> Any:
    """Values at which arithmetic of a type is special, then random ones."""
    rng = np.random.default_rng(len(dtype) + size)
    if dtype.is_integer:
        low, high = int(dtype.lowest), int(dtype.highest)
        special = np.array([low, low + 1, 0, 1, 2, 3, high - 1, high, *([-1, -2, -7] if low else [])], dtype.numpy)
        return np.concatenate([special, rng.integers(low, high, size - len(special), dtype.numpy, endpoint=True)])
    special = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, np.inf, -np.inf, np.nan, 1e-3, -1e-7, 65504.0, 300.25, -129.0])
    return np.concatenate([special, rng.normal(size=size - len(special)) * 5]).astype(dtype.numpy)


def pairs(dtype: Any) -> tuple[Any, Any]:
    """Every special value beside every other one."""
    found = corners(dtype, 24)
    first, second = np.array(list(itertools.product(found, found)), dtype.numpy).T
    return np.ascontiguousarray(first), np.ascontiguousarray(second)


def agrees(got: Any, want: Any, ulps: float = 0) -> None:
    """Equal, NaN where NaN; floating point within so many units in the last place."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if not np.issubdtype(want.dtype, np.inexact) and want.dtype.kind != "V":
        np.testing.assert_array_equal(got, want)
        return
    eps = float((np.finfo if want.dtype.kind == "f" else ml_dtypes.finfo)(want.dtype).eps)
    np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=ulps * eps, atol=ulps * 1e-40)


def test_integer_arithmetic_is_total_and_wraps(tmp_path: Any) -> None:
    kernels, cases = [], []
    for dtype in INTEGERS:
        a, b = pairs(dtype)
        A, B = tl.placeholder(a.shape, dtype, name="A"), tl.placeholder(b.shape, dtype, name="B")
        made = tl.compute(
            a.shape,
            lambda i, A=A, B=B: (
                A[i] + B[i], A[i] - B[i], A[i] * B[i], A[i] // B[i], A[i] % B[i], A[i] & B[i], A[i] | B[i], A[i] ^ B[i], A[i] << B[i],
                A[i] >> B[i], A[i] << (B[i] & 7), A[i] >> (B[i] & 7), tl.minimum(A[i], B[i]), tl.maximum(A[i], B[i]), tl.abs(A[i]),
                -A[i], ~A[i], A[i] * 3 + 1, A[i] // 3, A[i] % 8, A[i] >> 2,
            ),
            name="R",
        )  # fmt: skip
        kernels.append(tl.build(made, name=f"k_{dtype}", inputs=[A, B]))
        cases.append((made, {A: a, B: b}))
    for flags in (("-O0",), ("-O2",)):
        library = exported(tmp_path, kernels, *flags)
        for kernel, (made, feeds) in zip(kernels, cases, strict=True):
            for got, want in zip(called(library, kernel, named(feeds), {}), tl.evaluate(made, feeds), strict=True):
                agrees(got, want)


def named(feeds: dict[tl.Tensor, Any]) -> dict[str, Any]:
    """Operands by name."""
    return {str(tensor.name): array for tensor, array in feeds.items()}


def test_floating_point_arithmetic_is_that_of_the_definition(tmp_path: Any) -> None:
    kernels, cases = [], []
    for dtype in FLOATS:
        a, b = pairs(dtype)
        A, B = tl.placeholder(a.shape, dtype, name="A"), tl.placeholder(b.shape, dtype, name="B")
        made = tl.compute(
            a.shape,
            lambda i, A=A, B=B: (
                A[i] + B[i], A[i] - B[i], A[i] * B[i], A[i] / B[i], tl.minimum(A[i], B[i]), tl.maximum(A[i], B[i]), tl.fmin(A[i], B[i]),
                tl.fmax(A[i], B[i]), tl.abs(A[i]), -A[i], tl.select(A[i] < B[i], A[i], B[i]), A[i] - (B[i] - 1.5), A[i] * 0.1,
            ),
            name="R",
        )  # fmt: skip
        kernels.append(tl.build(made, name=f"k_{dtype}", inputs=[A, B]))
        cases.append((made, {A: a, B: b}))
    library = exported(tmp_path, kernels, "-O2")
    for kernel, (made, feeds) in zip(kernels, cases, strict=True):
        for got, want in zip(called(library, kernel, named(feeds), {}), tl.evaluate(made, feeds), strict=True):
            agrees(got, want)


def test_every_cast_saturates_and_wraps_as_defined(tmp_path: Any) -> None:
    kernels, cases = [], []
    for source in DTYPES:
        values = np.array([False, True]) if source == "bool" else corners(source, 60)
        if source.is_floating:
            edges = [int(dtype.highest) for dtype in INTEGERS] + [int(dtype.lowest) for dtype in INTEGERS]
            with np.errstate(all="ignore"):
                values = np.concatenate([values, np.array([edge + part for edge in edges for part in (-1.5, 0, 1.5)]).astype(source.numpy)])
        A = tl.placeholder(values.shape, source, name="A")
        made = tl.compute(values.shape, lambda i, A=A: tuple(tl.cast(A[i], to) for to in DTYPES), name="R")
        kernels.append(tl.build(made, name=f"k_{source}"))
        cases.append((made, {A: values}))
    library = exported(tmp_path, kernels, "-O2")
    for kernel, (made, feeds) in zip(kernels, cases, strict=True):
        for got, want in zip(called(library, kernel, named(feeds), {}), tl.evaluate(made, feeds), strict=True):
            agrees(got, want, ulps=0)


def test_every_function_is_within_the_bound_of_the_language(tmp_path: Any) -> None:
    kernels, cases = [], []
    for dtype in FLOATS:
        a, b = corners(dtype, 200), corners(dtype, 200)[::-1].copy()
        A, B = tl.placeholder(a.shape, dtype, name="A"), tl.placeholder(b.shape, dtype, name="B")
        rows = list(FUNCTIONS.values())
        made = tl.compute(
            a.shape, lambda i, A=A, B=B, rows=rows: tuple(getattr(tl, row.name)(*(A[i], B[i])[: row.arity]) for row in rows), name="R"
        )
        kernels.append(tl.build(made, name=f"k_{dtype}", inputs=[A, B]))
        cases.append((made, {A: a, B: b}))
    library = exported(tmp_path, kernels, "-O2")
    for kernel, (made, feeds) in zip(kernels, cases, strict=True):
        for got, want in zip(called(library, kernel, named(feeds), {}), tl.evaluate(made, feeds), strict=True):
            agrees(got, want, ulps=4)


@given(programs())
@settings(max_examples=4, deadline=None, phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck))
def test_any_definition_is_printed_as_c_that_means_the_same(tmp_path_factory: Any, program: Program) -> None:
    folder = tmp_path_factory.mktemp("c")
    kernel = tl.build(program.outputs, name="kernel", inputs=list(program.feeds))
    library = exported(folder, [kernel], "-O1")
    for got, want in zip(called(library, kernel, named(program.feeds), {}), tl.evaluate(program.outputs, program.feeds), strict=True):
        agrees(got, np.asarray(want))  # the data are such that sums are exact


@pytest.mark.parametrize(
    "seeds", [pytest.param(SEEDS, id="few"), pytest.param((7, 22, 35, 38, *range(100, 300)), id="many", marks=pytest.mark.slow)]
)
def test_scheduled_programs_of_the_fuzzer_mean_the_same_in_c(tmp_path: Any, seeds: Any) -> None:
    judge, made = Judge(), []
    for seed in seeds:
        case = judge.generate(seed)
        program = Builder(case).program()
        schedule, *_ = judge.scheduled(case, program)
        made.append((case, program, schedule, tl.build(schedule, name=f"k{seed}")))
    library = exported(tmp_path, [kernel for *_, kernel in made], "-O1")
    for case, program, schedule, kernel in made:
        for extents in sizes(case)[:2]:
            feeds, dims = operands(program, case, extents, twin=False), {name: extents[name] for name in schedule.nest.dims}
            found = called(library, kernel, feeds, dims)
            judge.agree(case, program, found, extents, "C", twin=False)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_conversions_bring_only_what_they_use(tmp_path: Any, dtype: str) -> None:
    """Compilers warn of a static function that nothing calls."""
    A = tl.placeholder((8,), dtype, name="A")
    bodies = {
        "copy": lambda i: A[i], "choice": lambda i: tl.select(A[i] > 1, A[i], 0), "wide": lambda i: tl.cast(A[i], "float32"),
        "sum": lambda i: A[i] + A[i], "other": lambda i: tl.cast(A[i], "bfloat16" if dtype == "float16" else "float16"),
    }  # fmt: skip
    for name, body in bodies.items():
        tl.build(tl.compute((8,), body, name="Y"), name=name).export(tmp_path, formats=("c", "h"))
        run("cc", "-std=c99", "-Wall", "-Werror", "-ffreestanding", "-c", f"{name}.c", folder=tmp_path)


def test_what_is_folded_while_the_text_is_written_leaves_nothing_behind(tmp_path: Any) -> None:
    """A factor that becomes 0 leaves a helper and what that alone needs; an element is not compared with itself."""
    H, P, Q = (tl.placeholder((8,), dtype, name=name) for name, dtype in (("H", "float16"), ("P", "int32"), ("Q", "bool")))
    A = tl.placeholder((8, 8), "int32", name="A")
    turned = tl.compute((8, 8), lambda i, j: A[j, i] * 3, name="T")

    def nothing(i: Any, j: Any) -> Any:
        return P[j] + tl.cast(tl.cast(H[i], "float32"), "int32") * (P[j] & tl.fmin(tl.cast(Q[i], "int32"), P[i] % P[i]))

    bodies = {
        "nothing": tl.compute((8, 8), nothing, name="Y"),
        "itself": tl.compute((8,), lambda i: tl.select(turned[i, i] <= turned[i, i], P[i], 1), name="Y"),
    }
    for name, body in bodies.items():
        tl.build(body, name=name).export(tmp_path, formats=("c", "h"))
        run("cc", "-std=c99", "-Wall", "-Werror", "-ffreestanding", "-c", f"{name}.c", folder=tmp_path)


def test_a_name_is_not_read_out_of_that_of_a_type(tmp_path: Any) -> None:
    """`int32_t` holds t32_: what is numbered so and read nowhere is left out as everything else is."""
    A, k = tl.placeholder((9,), "int32", name="A"), tl.reduce_axis((0, 5), name="k")
    stages = [tl.compute((4,), lambda i, n=n: tl.argmax(A[i + k] * n, axis=k), name=f"S{n}") for n in range(1, 7)]
    schedule = tl.Schedule(*stages)
    for n in range(1, 7):
        schedule.accumulate(f"S{n}", at=f"S{n}.i", partial=True)
    path = tl.build(schedule, name="many").export(tmp_path, formats=("c", "h"))["c"]
    words = re.findall(r"\b\w+\b", path.read_text())
    assert {"t8_", "t16_", "t32_"} <= set(words) and all(words.count(word) > 1 for word in words if re.fullmatch(r"t\d+_", word))
    run("cc", "-std=c99", "-Wall", "-Werror", "-ffreestanding", "-c", "many.c", folder=tmp_path)
    told = ["  const int32_t t32_ = (int32_t)i;", "  const int64_t t1_ = k;", "  S[i] = t1_;"]
    assert c_source._used(told) == told[1:]


def test_the_source_is_short_has_the_names_of_the_nest_and_needs_no_library(tmp_path: Any) -> None:
    X = tl.placeholder((16,), name="X")
    tl.build(tl.compute((16,), lambda i: X[i] + 1.0, name="Y"), name="inc").export(tmp_path, formats=("c", "h"))
    text = (tmp_path / "inc.c").read_text()
    assert len(text) < 3000
    assert "i_i" in text
    assert "+ 1.0f;" in text
    run("cc", "-std=c99", "-Wall", "-Werror", "-ffreestanding", "-c", "inc.c", folder=tmp_path)
    assert run("nm", "-u", "inc.o", folder=tmp_path).split() == []


@pytest.mark.parametrize("name", ["threads", "parallel", "allocate", "release", "error", "num_threads", "status", "kernel", "data_b"])
def test_a_kernel_and_its_fixed_operands_may_be_called_as_what_a_source_has_of_its_own(name: str, tmp_path: Any) -> None:
    A, B = tl.placeholder((4, 300), name="A"), tl.buffer(np.arange(4, dtype="f4"), name=name if name != "data_b" else "kernel_data_b")
    h = tl.compute((4, 300), lambda i, j: tl.exp(A[i, j]) * B[i], name="h")
    k = tl.reduce_axis(300, name="k")
    schedule = tl.Schedule(tl.compute((4, 300), lambda i, j: tl.sum(h[i, k] - h[i, j], axis=k), name="C"))
    schedule.parallel("C.i")
    tl.build(schedule, name=name).export(tmp_path, formats=("c", "h"))
    run("cc", "-std=c99", "-Wall", "-Werror", "-c", f"{name}.c", folder=tmp_path)


def test_a_source_without_a_header_holds_the_declarations(tmp_path: Any) -> None:
    X = tl.placeholder((16,), name="X")
    tl.build(tl.compute((16,), lambda i: X[i] + 1.0, name="Y"), name="inc").export(tmp_path, formats=("c",))
    assert [path.name for path in tmp_path.iterdir()] == ["inc.c"]
    run("cc", "-std=c99", "-Wall", "-Werror", "-ffreestanding", "-c", "inc.c", folder=tmp_path)


def test_shared_parts_are_written_once(tmp_path: Any) -> None:
    X = tl.placeholder((8,), "int32", name="X")

    def doubled(i: Any) -> Any:
        value = X[i] * 3 + 1
        for _ in range(3):
            value = tl.select(value > 5, value * value + X[7 - i], value + value)
        return value

    made = tl.compute((8,), doubled, name="Y")
    kernel = tl.build(made, name="shared")
    library = exported(tmp_path, [kernel], "-O1")
    x = np.arange(8, dtype="i4")
    np.testing.assert_array_equal(called(library, kernel, {"X": x}, {})[0], tl.evaluate(made, {X: x}))
    assert (tmp_path / "shared.c").read_text().count("X[") <= 12  # as a tree it has thousands


def test_names_of_the_source_s_own_functions_may_be_those_of_operands(tmp_path: Any) -> None:
    names = ("bits", "real", "t1_", "status", "error", "floordiv_i32", "expf", "end", "kernel", "failed", "i", "x")
    operands_ = [tl.placeholder((5,), "int32", name=name) for name in names[:-1]]
    made = tl.compute((5,), lambda i: sum((p[i] for p in operands_[1:]), operands_[0][i]) // (operands_[1][i] - 3), name="memory")
    half = tl.compute((5,), lambda i: tl.cast(tl.exp(tl.cast(operands_[0][i], "float16")), "float16"), name="widen_half_f32")
    kernel = tl.build((made, half), name="named")
    library = exported(tmp_path, [kernel], "-O1")
    feeds = {name: np.arange(5, dtype="i4") + n for n, name in enumerate(names[:-1])}
    wanted = tl.evaluate((made, half), {p: feeds[str(p.name)] for p in operands_})
    for got, want in zip(called(library, kernel, feeds, {}), wanted, strict=True):
        agrees(got, want, ulps=1)


@pytest.mark.parametrize("name", ["a__b", "tensorlang_i", "k_i0", "x_f32", "t1_", "while", "_", "main", "sin", "memory_bool"])
def test_a_loop_may_have_any_name(tmp_path: Any, name: str) -> None:
    A = tl.placeholder((5, 3), name="A")
    k = tl.reduce_axis(3, name=name)
    kernel = tl.build(tl.Schedule(tl.compute((5,), lambda i: tl.sum(A[i, k], axis=k), name="total")), name="sums")
    kernel.export(tmp_path, formats=("c",))
    run("cc", *STRICT, "-c", "sums.c", folder=tmp_path)


def test_parallel_loops_are_those_of_openmp_where_that_is_on(tmp_path: Any) -> None:
    A = tl.placeholder((40, 8), name="A")
    s = tl.Schedule(tl.compute((40, 8), lambda i, j: A[i, j] * 2.0, name="B"))
    s.parallel("B.i")
    kernel = tl.build(s, name="twice")
    kernel.export(tmp_path, formats=("c", "h"))
    run("cc", "-fopenmp", "-Wall", "-Werror", "-c", "twice.c", folder=tmp_path)
    assert "GOMP_parallel" in run("nm", "-u", "twice.o", folder=tmp_path)
