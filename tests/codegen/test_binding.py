"""LLVM is told only what it can take, gives its memory back, and never takes the process with it."""

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.llvm.pipelines import DEFAULT_PASSES, Passes, needs_whole_pipeline
from tensorlang.codegen.runtime import symbols
from tensorlang.codegen.target import target
from tensorlang.errors import BuildError, InternalError
from tests.codegen import handmade

HERE = Path(__file__).parent
HOST = binding.host()


def test_a_text_beyond_the_budget_never_reaches_llvm() -> None:
    with pytest.raises(BuildError, match="too large to compile: 8 MiB"):
        binding.compile_module(";" * (binding.MAX_TEXT + 1), HOST)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "define i32 @f() {\n  ret i64 0\n}",
        "define i32 @f() {\na:\n  br label %b\nb:\n  %x = add i32 %y, 1\n  %y = add i32 1, 1\n  ret i32 %x\n}",
    ],
)
def test_invalid_code_is_our_fault_and_an_error(text: Any) -> None:
    with pytest.raises(InternalError):
        binding.compile_module(text, HOST)


def test_a_missing_symbol_is_an_error_when_linking(capfd: Any) -> None:
    text = "declare i32 @nowhere()\ndefine i32 @f() {\n  %x = call i32 @nowhere()\n  ret i32 %x\n}"
    code = binding.compile_module(text, HOST).object
    assert symbols.undefined_symbols(code) == ("nowhere",)
    with pytest.raises(BuildError, match="'nowhere'"):
        symbols.load_object(code, ("f",))
    with pytest.raises(BuildError, match="cannot be linked"):
        binding.link(code, ("f",), {})
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("code", [b"", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + b"\xff" * 80, b"MZ" + bytes(100)])
def test_what_is_not_an_object_is_refused(code: Any) -> None:
    with pytest.raises(BuildError):
        symbols.load_object(code, ("f",))


def test_the_same_text_gives_the_same_object_in_every_process() -> None:
    code = "import hashlib, handmade; print(hashlib.sha256(handmade.add().program.compiled.object).hexdigest())"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(digests) == 1


def test_vectorising_and_unrolling_are_ours() -> None:
    """A plain loop stays scalar and rolled by default; LLVM's own transformations can be asked for."""
    loop = """
define i32 @f(ptr noalias %a, ptr noalias %c, i64 %n) {
start:
  br label %next
next:
  %i = phi i64 [ 0, %start ], [ %j, %next ]
  %p = getelementptr float, ptr %a, i64 %i
  %q = getelementptr float, ptr %c, i64 %i
  %x = load float, ptr %p
  %y = fmul float %x, 3.0
  store float %y, ptr %q
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %next, label %done
done:
  ret i32 0
}"""
    plain, helped = binding.render(loop, HOST, "llvm"), binding.render(loop, HOST, "llvm", Passes(3, vectorize=True, unroll=True))
    assert "x float>" not in plain
    assert plain.count("fmul") == 1
    assert "x float>" in helped


def test_the_whole_pipeline_runs_where_its_end_finds_something() -> None:
    """Vectors that are put together from others under masks, functions to be put into others, and what was asked for."""
    plain = "define float @f(float %x) {\n  ret float %x\n}"
    adds = "\n  %c = add i32 %c, 1" * 8
    spread = "\n  %b = shufflevector <4 x i1> %a, <4 x i1> poison, <4 x i32> splat (i32 0)"
    floats, masks = (
        f"\n  %b = shufflevector <4 x {kind}> %a, <4 x {kind}> %c, <4 x i32> <i32 0, i32 4, i32 1, i32 5>" for kind in ("float", "i1")
    )
    masked = '\n  call <4 x i32> @"llvm.masked.load.v4i32.p0"(ptr %p)'
    modules = {
        plain: False, plain + masks + floats: False, masked + spread: False, adds + masked + floats: False,
        masked + floats: True, adds + masked + masks: True,
    }  # fmt: skip
    for text, whole in modules.items():
        assert needs_whole_pipeline(text, DEFAULT_PASSES) == whole
    assert needs_whole_pipeline(plain + " alwaysinline", DEFAULT_PASSES)
    for asked in (Passes(level=0), Passes(vectorize=True), Passes(unroll=True)):
        assert needs_whole_pipeline(plain, asked)


def test_what_llvm_makes_invalid_is_compiled_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """SROA of LLVM 22 joins what was stored behind the store of the highest address, here the second of four."""
    lines = ["define i32 @joined(ptr %x, ptr %y) {", "  %a = alloca [16 x i16], align 64"]
    for place in (0, 12, 4, 8):
        lines += [f"  %{name}{place} = getelementptr i16, ptr %{name}, i64 {place}" for name in ("x", "a")]
        lines += [f"  %v{place} = load <4 x i16>, ptr %x{place}, align 2", f"  store <4 x i16> %v{place}, ptr %a{place}, align 2"]
    lines += ["  %all = load <16 x i16>, ptr %a, align 2", "  store <16 x i16> %all, ptr %y, align 2", "  ret i32 0", "}"]
    binary = binding.compile_module("\n".join(lines), HOST)
    assert "is not optimised, since LLVM makes invalid code of it" in caplog.text
    library, x, y = binding.link(binary.object, ("joined",), {}), np.arange(16, dtype="i2"), np.zeros(16, "i2")
    call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(library.address("joined"))
    assert call(x.ctypes.data, y.ctypes.data) == 0 and (x == y).all()
    assert "store" in binding.render("\n".join(lines), HOST, "llvm")


DOUBLED_SHUFFLE = """
import sys
from tensorlang.codegen.llvm.binding import TargetMachine, compile_module
places = ", ".join(f"i32 {start + lane // 2}" for start in (int(sys.argv[1]),) for lane in range(64))
text = f'''define void @doubled(ptr %x, ptr %y) {{
  %a = load <64 x i8>, ptr %x, align 1
  %s = shufflevector <64 x i8> %a, <64 x i8> poison, <64 x i32> <{places}>
  %b = {sys.argv[2]}
  store <64 x i8> %b, ptr %y, align 1
  ret void
}}'''
compile_module(text, TargetMachine("x86_64-unknown-linux-gnu", "skylake-avx512", "+avx512f,+avx512bw"))
"""


@pytest.mark.parametrize("start", [0, 16, 32])
@pytest.mark.parametrize("twice", ["add <64 x i8> %s, %s", "mul <64 x i8> %s, splat (i8 2)"])
def test_llvm_comes_back_from_twice_a_shuffle_of_bytes(start: int, twice: str) -> None:
    subprocess.run([sys.executable, "-c", DOUBLED_SHUFFLE, str(start), twice], check=True, timeout=20)


def test_functions_are_put_into_others_by_the_whole_pipeline_alone() -> None:
    text = "define internal i32 @g(i32 %x) {\n  %y = xor i32 %x, 3\n  ret i32 %y\n}\n"
    text += "define i32 @f(i32 %x) {\n  %y = call i32 @g(i32 %x)\n  ret i32 %y\n}"
    assert "call i32 @g" in binding.render(text, HOST, "llvm")
    assert "@g" not in binding.render(text, HOST, "llvm", whole=True)


def test_memory_is_given_back() -> None:
    """A compilation and a link leave a few KiB at most: nothing that grows with a tuning job."""

    def resident() -> Any:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4

    def work(times: Any) -> None:
        for _ in range(times):
            Kernel(handmade.add().program)
            binding.compile_module(handmade.ADD_16, HOST)

    work(150)
    before = resident()
    work(150)
    assert (resident() - before) / 150 < 6


def test_a_fork_waits_for_a_compilation_and_the_child_can_compile() -> None:
    code = """
import os, threading, time, warnings
from tensorlang.codegen.llvm import binding
warnings.simplefilter("ignore")
from tests.codegen import handmade
host = binding.host()
body = "".join(f"  %x{n + 1} = fadd float %x{n}, {n}.0\\n" for n in range(4000))
text = "define float @f(float %x0) {\\n" + body + "  ret float %x4000\\n}"
thread = threading.Thread(target=lambda: [binding.compile_module(text, host) for _ in range(3)])
thread.start()
time.sleep(0.02)
child = os.fork()
if child == 0:
    binding.compile_module(handmade.ADD_16, host)
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
thread.join()
"""
    subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}, check=True, timeout=60
    )


def test_the_process_ends_well_while_a_kernel_runs() -> None:
    code = """
import threading, handmade, numpy as np
kernel = handmade.vector("wait", handmade.WAIT)
for call in (kernel, kernel, kernel._linked):
    threading.Thread(target=call, args=(np.zeros(16, "f4"),), daemon=True).start()
import time; time.sleep(0.05)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_process_ends_after_a_compilation_and_before_another() -> None:
    """LLVM's static variables go at the end of the process, and a thread that compiles meanwhile would crash."""
    code = """
import atexit, threading, time
compiled, begun = [], threading.Event()
atexit.register(lambda: print(compiled))  # after what is registered later
from tensorlang.codegen.llvm import binding
def compile_twice():
    for number in range(2):
        with binding.lock:
            begun.set()
            time.sleep(0.2)
            compiled.append(number)
        time.sleep(0.1)
threading.Thread(target=compile_twice, daemon=True).start()
begun.wait()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[0]\n"


def test_compiling_in_many_threads_gives_right_kernels() -> None:
    a = np.arange(16, dtype="f4")
    wrong: list[int] = []

    def work() -> None:
        program = handmade.add().program
        for _ in range(5):
            binding.compile_module(handmade.ADD_16, HOST)
            wrong.extend(1 for _ in range(3) if not np.array_equal(Kernel(program)(a, a), 2 * a))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_loading_llvm_is_left_to_the_first_use() -> None:
    code = "import sys, tensorlang.codegen.kernel.kernel; assert 'llvmlite.binding' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_code_for_other_machines_is_compiled_too() -> None:
    for name in ("aarch64-linux-gnu:neoverse-n1", "x86-64-v2"):
        assert binding.compile_module(handmade.ADD_16, target(name).machine).object[:4] == b"\x7fELF"
