"""Several levels in one library, of which a call takes the best that is there; and objects for processors that are not here."""

from __future__ import annotations

import ctypes
import json
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.export import dispatch
from tensorlang.codegen.runtime.soft_floats import missing
from tensorlang.codegen.runtime.symbols import defined_symbols, undefined_symbols
from tensorlang.codegen.target import target
from tests.codegen.exported import needs_cc, run
from tests.thinned import crossed

LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")
here_is_x86 = pytest.mark.skipif(not target().is_x86, reason="asks an x86-64 processor")


def matmul() -> tl.Tensor:
    return tl.ops.matmul(tl.placeholder((30, 40), name="A"), tl.placeholder((40, 50), name="B"), name="C")


def exponential(dtype: str = "float32") -> tl.Tensor:
    x = tl.placeholder((40,), dtype, name="x")
    made: tl.Tensor = tl.compute((40,), lambda i: tl.exp(x[i]) + 1.0, name="y")
    return made


@here_is_x86
@needs_cc
def test_a_library_of_several_levels_runs_the_best_that_is_here(tmp_path: Any) -> None:
    """The same bits as the kernel of that level alone."""
    kernel = tl.build(matmul(), name="mm")
    made = kernel.export(tmp_path, formats=("o", "so", "ll", "json"), targets=LEVELS)
    rng = np.random.default_rng(0)
    a, b, c = rng.random((30, 40), "f4"), rng.random((40, 50), "f4"), np.zeros((30, 50), "f4")
    assert ctypes.CDLL(str(made["so"])).mm(*(ctypes.c_void_p(array.ctypes.data) for array in (a, b, c))) == 0
    best = [name for name in LEVELS if target(name).is_native][-1]
    assert c.tobytes() == tl.build(matmul(), target=best, name="mm")(a, b).tobytes()
    assert [found["cpu"] for found in json.loads(made["json"].read_text())["targets"]] == list(LEVELS[::-1])
    assert {f"mm.kernel.{place}" for place in range(4)} <= defined_symbols(made["o"].read_bytes()) | {"mm.kernel.3"}


@here_is_x86
@needs_cc
def test_every_feature_that_this_processor_has_is_found_by_asking_it(tmp_path: Any) -> None:
    """The table of bits against what LLVM finds here: a library for one feature and all others but it."""
    here = target().isa
    words = {name: place for name, place in dispatch.BITS.items() if name not in ("64bit", "prfchw", "lwp", "crc32")}
    lines = ["#include <cpuid.h>", "#include <stdio.h>", "int main(void) { unsigned r[4];"]
    for name, ((leaf, part, register), bit) in words.items():
        ask = f"__get_cpuid_count({leaf}u, {part}, r, r + 1, r + 2, r + 3)"
        lines.append(f'if ({ask} && r[{register}] >> {bit} & 1) puts("{name}");')
    (tmp_path / "ask.c").write_text("\n".join([*lines, "return 0; }"]))
    run("cc", "ask.c", "-o", "ask", folder=tmp_path)
    found = set(run("./ask", folder=tmp_path).split())
    assert {name for name in words if name in here} <= found  # a hypervisor may hide some from LLVM alone


@here_is_x86
@needs_cc
def test_where_no_level_is_here_the_library_says_so(tmp_path: Any) -> None:
    levels = ("x86-64-v4,+avx512fp16", "x86-64-v4,+avx512fp16,+avx512vp2intersect")
    if target(levels[0]).is_native:
        pytest.skip("this processor has the least of both")
    made = tl.build(exponential(), name="exponential").export(tmp_path, formats=("so",), targets=levels)
    x = np.zeros(40, "f4")
    assert ctypes.CDLL(str(made["so"])).exponential(*(ctypes.c_void_p(array.ctypes.data) for array in (x, x.copy()))) == 6


@pytest.mark.parametrize(
    ("targets", "match"),
    [
        (("aarch64-linux-gnu:cortex-a72", "x86-64"), "levels of x86-64"),
        (("x86-64-v3", "x86-64-v3"), "name each level once"),
        (("x86-64-v3,-fma", "x86-64-v3,-avx2"), "has to have the least of all"),
        (("x86-64", "x86-64,+cldemote,+hreset,+usermsr,+zu"), "does not test the processor"),
        (("nonsense",), "nonsense"),
        ("x86-64-v3", "a sequence"),
        (3, "a sequence"),
    ],
)
def test_targets_that_cannot_be_one_library_are_refused(tmp_path: Any, targets: Any, match: str) -> None:
    kernel = tl.build(exponential(), name="exponential")
    with pytest.raises(tl.BuildError, match=match):
        kernel.export(tmp_path, formats=("o",), targets=targets)
    assert list(tmp_path.iterdir()) == []


def test_a_loaded_kernel_has_the_target_that_it_was_built_for(tmp_path: Any) -> None:
    kernel = tl.build(exponential(), name="exponential")
    kernel.save(tmp_path / "exponential.tlk")
    with pytest.raises(tl.BuildError, match="it was read from a file"):
        tl.load(tmp_path / "exponential.tlk").export(tmp_path, formats=("o",), targets=("x86-64", "x86-64-v3"))


@crossed(
    {
        "name, machine, bits": [
            ("armv7-unknown-linux-gnueabihf:cortex-a9", 40, 32),
            ("thumbv7em-none-eabihf:cortex-m7", 40, 32),
            ("riscv32-unknown-elf:generic-rv32,+m,+f,+d", 243, 32),
            ("riscv64-unknown-linux-gnu:generic-rv64,+m,+f,+d", 243, 64),
            ("aarch64-linux-gnu:cortex-a72", 183, 64),
        ]
    },
    count=2,
)
def test_objects_for_other_processors_are_complete(tmp_path: Any, name: str, machine: int, bits: int) -> None:
    """Made and looked into; nothing here runs them."""
    for tensor in (matmul(), exponential("float64")):
        kernel = tl.build(tensor, target=name)
        code = kernel.export(tmp_path, formats=("o", "h", "a", "c", "ll", "s"))["o"].read_bytes()
        assert code[:4] == b"\x7fELF"
        assert code[4] == bits // 32
        assert int.from_bytes(code[18:20], "little") == machine
        assert {kernel.name, f"{kernel.name}_dltensor", f"{kernel.name}_metadata"} <= defined_symbols(code)
        assert missing(code) == []
        outside = {called for called in undefined_symbols(code) if not called.startswith("__")}  # 64-bit integers, by the compiler
        assert outside <= {"malloc", "free", "memset", "memcpy"}
        with pytest.raises(tl.CallError, match="cannot run here"):
            kernel(np.zeros(3))


def test_webassembly_is_a_target(tmp_path: Any) -> None:
    kernel = tl.build(matmul(), target="wasm32-unknown-unknown:generic", name="mm")
    code = kernel.export(tmp_path, formats=("o", "h"))["o"].read_bytes()
    assert code[:4] == b"\0asm"
    assert b"mm_dltensor" in code


@pytest.mark.parametrize(
    ("name", "dtype", "calls"),
    [
        ("riscv64-unknown-linux-gnu:generic-rv64", "float32", "__addsf3"),
        ("thumbv6m-none-eabi:cortex-m0", "float32", "__addsf3"),
        ("thumbv7em-none-eabihf:cortex-m4", "float64", "__adddf3"),
    ],
)
def test_a_processor_without_floating_point_is_refused(name: str, dtype: str, calls: str) -> None:
    with pytest.raises(tl.BuildError, match=f"lacks instructions for floating point, and the code would call {calls}"):
        tl.build(exponential(dtype), target=name)


def test_integers_need_no_floating_point() -> None:
    x = tl.placeholder((40,), "int32", name="x")
    made = tl.compute((40,), lambda i: x[i] * 3 + 1, name="y")
    assert tl.build(made, target="riscv64-unknown-linux-gnu:generic-rv64").program.compiled.object


@pytest.mark.parametrize("name", ["aarch64-linux-gnu:cortex-a72", "thumbv7em-none-eabihf:cortex-m7"])
def test_a_shared_library_for_another_processor_needs_its_linker(tmp_path: Any, name: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(tl.BuildError, match="no linker for it here"):
        tl.build(matmul(), target=name).export(tmp_path, formats=("so",))


def test_a_target_that_llvm_lacks_is_a_build_error() -> None:
    for name in ("z80-unknown-none:generic", "s390x-linux-gnu:z13", "armv7-unknown-linux-gnueabihf:cortex-z9"):
        with pytest.raises(tl.BuildError):
            tl.build(matmul(), target=name)
