"""What few lanes need stands once in a module, out of line, and its callers lose nothing by it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.compilation import of_schedule
from tensorlang.codegen.emission.emit import emit
from tensorlang.codegen.emission.math.rare_paths import PREFIX
from tensorlang.codegen.llvm.binding import render
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.reports.assembly import read
from tensorlang.codegen.runtime.symbols import undefined_symbols
from tensorlang.codegen.target import target
from tests.thinned import crossed

N = 1003
MACHINES = ("native", "x86-64", "x86-64-v3") if target("native").is_x86 else ("native",)
FOREIGN = ("aarch64-unknown-linux-gnu:neoverse-n1", "x86_64-unknown-linux-gnu:skylake-avx512")
WAVES = {"sin": tl.sin, "cos": tl.cos, "tan": tl.tan}


def waves(x: Any, many: int = 6) -> Any:
    """Sines and others of one number, with constants and sums that are kept in registers meanwhile."""
    return sum((function(x * (n + 1.5)) * (n + 2.5) for n, function in zip(range(many), 3 * list(WAVES.values()), strict=False)), start=x)


def in_lanes(dtype: str, body: Callable[[Any], Any] = waves, lanes: int = 8) -> tl.Schedule:
    x = tl.placeholder((N,), dtype, name="x")
    s = tl.Schedule(tl.compute((N,), lambda i: body(x[i]), name="y"))
    s.vectorize(s.split("i", lanes)[1])
    return s


def functions(text: str) -> list[str]:
    return re.findall(rf'define internal void @"?({re.escape(PREFIX)}[\w.]+)"?\(', text)


def test_a_module_has_it_once_for_vectors_and_for_what_is_left_of_them() -> None:
    for dtype, count in (("float64", 1), ("float32", 2)):  # the tangent of a float32 is reduced in float64
        text = emit(lower(in_lanes(dtype).nest, target()), target(), name="f")
        found = functions(text)
        assert len(found) == len(set(found)) == count
        assert text.count(f'call void @"{PREFIX}') >= 6


def test_it_is_for_the_processor_of_its_callers_and_keeps_their_registers() -> None:
    text = emit(lower(in_lanes("float32").nest, target("x86-64-v3")), target("x86-64-v3"), name="f")
    (whole,) = {*re.findall(r'^define i32 @"f".*?"target-features"="(.*?)"', text, re.MULTILINE)}
    rare = [line for line in text.splitlines() if line.startswith(f'define internal void @"{PREFIX}')]
    for line in rare:
        assert f'"target-features"="{whole},-vzeroupper"' in line
        assert all(said in line for said in ("noinline", "memory(argmem: readwrite)", '"no_caller_saved_registers"'))
    other = emit(lower(in_lanes("float32").nest, target(FOREIGN[0])), target(FOREIGN[0]), name="f")
    assert functions(other) and "no_caller_saved_registers" not in other and "vzeroupper" not in other


@crossed({"dtype": ["float32", "float64"], "machine": MACHINES, "share": [0.02, 0.5, 1.0]})
def test_some_lanes_that_need_it_change_nothing_of_the_others(dtype: str, machine: str, share: float) -> None:
    """Bit for bit as in plain loops: what callers keep in registers is as it was, the upper halves too."""
    rng = np.random.default_rng(0)
    huge = np.resize([1e5, -3e22, 2.0**19 + 1, np.inf, -np.inf, np.nan, 1.5e38, -65537.0], N)
    x = np.where(rng.random(N) < share, huge, rng.standard_normal(N)).astype(dtype)
    with np.errstate(invalid="ignore"):
        plain = tl.build(tl.Schedule(in_lanes(dtype).outputs), target=machine)(x)
        for lanes in (2, 8, 16):
            np.testing.assert_array_equal(tl.build(in_lanes(dtype, lanes=lanes), target=machine)(x), plain)
    calm = np.abs(x) < 1000
    want = waves_of(x.astype(np.float64))
    np.testing.assert_allclose(plain[calm], want[calm], rtol=1e-3 if dtype == "float32" else 1e-9, atol=1e-4)


def waves_of(x: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return x + sum(function(x * (n + 1.5)) * (n + 2.5) for n, function in enumerate(2 * [np.sin, np.cos, np.tan]))


def test_threads_have_it_as_well() -> None:
    x = tl.placeholder((64, N), "float64", name="x")
    s = tl.Schedule(tl.compute((64, N), lambda i, j: waves(x[i, j]), name="y"))
    s.vectorize(s.split("j", 8)[1])
    alone = tl.build(s)
    s.parallel("i")
    values = np.random.default_rng(0).standard_normal((64, N)) * np.logspace(0, 200, N)
    np.testing.assert_array_equal(tl.build(s)(values), alone(values))


@pytest.mark.parametrize("machine", [*MACHINES, *FOREIGN])
def test_objects_ask_for_no_other_function(machine: str) -> None:
    for dtype in ("float32", "float64"):
        assert undefined_symbols(of_schedule(in_lanes(dtype), target(machine)).program().compiled.object) == ()


def test_what_does_not_change_is_loaded_before_the_loop_around_it() -> None:
    x, c = tl.placeholder((1024,), "float64", name="x"), tl.placeholder((1,), "float64", name="c")
    s = tl.Schedule(tl.compute((1024,), lambda i: tl.sin(x[i]) * c[0], name="y"))
    s.vectorize(s.split("i", 8)[1])
    before, _, loop = tl.build(s).inspect("llvm").partition(" = phi ")
    assert "load double, ptr %c" in before and "load double, ptr %c" not in loop


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v4"])
def test_calls_from_behind_a_loop_make_no_loops(name: str) -> None:
    compiled = of_schedule(in_lanes("float64"), target(name)).program().compiled
    whole, *rest = read(render(compiled.source, compiled.machine, "asm")).loops
    assert whole.share == 1 and len(rest) <= 2  # that of the last elements, and that around both


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v4"])
def test_it_is_no_hot_loop(name: str) -> None:
    plain = tl.Schedule(in_lanes("float64", tl.sin).outputs)
    compiled = of_schedule(plain, target(name)).program().compiled
    hot = read(render(compiled.source, compiled.machine, "asm")).hot
    assert hot is not None and hot.label.startswith(".LBB0_") and 0 < hot.scalar < 80
