"""What LLVM is not known to compile is compiled in a process that may die, and its death is an error that says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.llvm import isolated, safe_compilation
from tensorlang.codegen.llvm.binding import compile_module, host
from tests.codegen import handmade

ODD = "define void @f(ptr %p) {\n %x = load <7 x float>, ptr %p\n %y = fadd <7 x float> %x, %x\n store <7 x float> %y, ptr %p\n ret void\n}"
ROOT = Path(__file__).resolve().parents[2]


def pid() -> int:
    """The number of the process that may die."""
    assert isolated._slot.helper is not None
    return isolated._slot.helper.process.pid


def test_the_object_is_the_same_wherever_it_is_made() -> None:
    assert safe_compilation.why_isolated(ODD, host()) == "it has vectors of 7 lanes"
    assert safe_compilation.compiled(ODD, host()).object == compile_module(ODD, host()).object
    assert "vaddps" in safe_compilation.rendered(ODD, host(), "asm") or not host().triple.startswith("x86_64")


def test_powers_of_two_for_this_processor_are_proven_and_nothing_else_is() -> None:
    assert safe_compilation.why_isolated(handmade.ADD_16, host()) is None
    assert (
        safe_compilation.why_isolated(handmade.ADD_16, tl.codegen.target.target("x86-64-v2").machine)
        == "it is for another processor than this one"
    )
    assert safe_compilation.why_isolated(";" * (safe_compilation.QUICK + 1), host()) == "it is long"
    assert safe_compilation.odd_lanes("<8 x i32> <12 x i64> <128 x i8>") == [12, 128]


def test_a_death_is_a_build_error_and_the_next_request_has_a_new_process() -> None:
    other = tl.codegen.target.target("x86-64-v2").machine
    safe_compilation.compiled(handmade.ADD_16, other)
    before = pid()
    os.kill(before, signal.SIGSTOP)
    threading.Timer(0.3, os.kill, (before, signal.SIGKILL)).start()
    with pytest.raises(tl.BuildError, match=r"cannot be built: LLVM ended on SIGKILL.* since it is for another processor"):
        safe_compilation.compiled(handmade.ADD_16, other)
    safe_compilation.compiled(handmade.ADD_16, other)
    assert pid() != before


@pytest.mark.parametrize("survives", [True, False])
def test_odd_lanes_on_which_llvm_ends_are_compiled_without_optimisation(
    survives: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ask, levels = isolated.ask, list[int]()

    def dying(kind: str, *words: str, text: str) -> tuple[bytes, str]:
        levels.append(json.loads(words[-1])[0])
        if levels[-1] or not survives:
            raise isolated.Died("LLVM ended on SIGABRT: Cannot select")
        return ask(kind, *words, text=text)

    monkeypatch.setattr(isolated, "ask", dying)
    with caplog.at_level("WARNING", "tensorlang"):
        if survives:
            assert safe_compilation.compiled(ODD, host()).object
            (record,) = caplog.records
            assert f"code for {host().cpu} is not optimised, since LLVM ended on it" in record.message
            assert "Cannot select; it has vectors of 7 lanes: use a power of two" in record.message
        else:
            with pytest.raises(tl.BuildError, match="Cannot select.* since it has vectors of 7 lanes; vectorize by a power of two lanes"):
                safe_compilation.compiled(ODD, host())
    assert levels == [2, 0]


def test_a_request_that_takes_too_long_is_given_up() -> None:
    safe_compilation.compiled(ODD, host())
    os.kill(pid(), signal.SIGSTOP)
    with pytest.raises(isolated.Died, match="LLVM was not done after 0 s"):
        isolated.ask("compile", *safe_compilation.words(host()), text=ODD, limit=0.4)


def test_what_is_refused_there_is_refused_here() -> None:
    with pytest.raises(tl.errors.InternalError, match="LLVM cannot read the generated code"):
        safe_compilation.compiled("<7 x nonsense>", host())


def test_threads_take_turns_and_a_forked_child_has_a_process_of_its_own() -> None:
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(safe_compilation.compiled(ODD, host()).object)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(found) == 4
    code = f"""
import os
from tensorlang.codegen.llvm import isolated
from tensorlang.codegen.llvm import safe_compilation
from tensorlang.codegen.llvm.binding import host
text = {ODD!r}
safe_compilation.compiled(text, host())
first = isolated._slot.helper.process.pid
child = os.fork()
if not child:
    safe_compilation.compiled(text, host())
    os._exit(int(isolated._slot.helper.process.pid == first))
assert os.waitpid(child, 0)[1] == 0
safe_compilation.compiled(text, host())
assert isolated._slot.helper.process.pid == first
print(first)
"""
    words = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


@pytest.mark.parametrize("cpu", ["x86-64-v3", "skylake-avx512", "znver4"])
@pytest.mark.parametrize(("rows", "lanes"), [(7, 12), (7, 15), (3, 12), (5, 9)])
def test_tiles_of_odd_sides_change_layout_in_what_processors_can_do(cpu: str, rows: int, lanes: int) -> None:
    a = tl.placeholder((rows, 3 * lanes), name="A")
    s = tl.Schedule(tl.compute((3 * lanes, rows), lambda i, j: a[j, i], name="B"))
    s.split("i", lanes)
    s.reorder("i_o", "j", "i_i")
    s.unroll("j")
    s.vectorize("i_i")
    assert tl.build(s, target=cpu).inspect("asm")
    values = np.random.default_rng(0).random((rows, 3 * lanes), np.float32)
    np.testing.assert_array_equal(tl.build(s)(values), values.T)


def test_packed_products_of_odd_tiles_are_built_for_every_vector_width() -> None:
    """Seven rows of twelve lanes are turned while they are packed."""
    a, b, k = tl.placeholder((17, 17), name="A"), tl.placeholder((23, 17), name="B"), tl.reduce_axis(17, name="k")
    s = tl.Schedule(tl.compute((17, 23), lambda i, j: tl.sum(a[i, k] * b[j, k], axis=k), name="C"))
    outer, inner = s.split("C.k", 12, tail="peel")
    pair, one = s.split(inner, 2, tail="peel")
    rows, row = s.split("C.i", 7, tail="peel")
    s.reorder(outer, "C.j", rows, pair, one, row)
    s.pack("A", at=outer)
    copied = s.fuse(f"A_pack.{pair[2:]}", f"A_pack.{one[2:]}")
    s.vectorize(s.split(copied, 12, tail="peel")[1])
    s.unroll(f"A_pack.{row[2:]}")
    for cpu in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "znver5"):
        assert tl.build(s, target=cpu).inspect("asm")
    x, y = np.random.default_rng(1).random((17, 17), np.float32), np.random.default_rng(2).random((23, 17), np.float32)
    np.testing.assert_allclose(tl.build(s)(x, y), x @ y.T, rtol=1e-5)


def test_a_few_modules_for_many_processors_compile() -> None:
    words = [sys.executable, "-m", "tests.fuzz.targets", "--cases", "3", "--seed", "7"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
