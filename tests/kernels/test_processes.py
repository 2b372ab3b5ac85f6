"""Many processes and threads: one build for each key, whoever dies meanwhile; other runtimes beside ours; and the end of a process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import tensorlang as tl
from bench import callers
from tensorlang.codegen.cache import object_files
from tensorlang.codegen.kernel.kernel import forget
from tests.kernels.programs import product

ROOT = str(Path(__file__).parents[2])

BUILD = """
import os, sys, threading, time
import numpy as np, tensorlang as tl
from tensorlang import kernels
from tensorlang.codegen import compilation
from tensorlang.codegen.cache import program_key
program_key._LOADED = 1 << 62  # whoever edits the sources now does not disturb
real = compilation.compile_nest
def counted(*args):
    with open(sys.argv[1], "a") as file:
        file.write("built\\n")
    if len(sys.argv) > 2:
        print("begun", flush=True)
        time.sleep(60)
    return real(*args)
compilation.compile_nest = counted
a, b = np.ones((60, 50), "f4"), np.ones((50, 70), "f4")
wrong = []
def work():
    C = tl.ops.matmul(tl.placeholder((60, 50)), tl.placeholder((50, 70)))
    if not (kernels.compile(C, threads=1)(a, b) == 50).all():
        wrong.append(1)
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
sys.exit(len(wrong))
"""


def started(folder: Path, *args: str) -> Any:
    environment = {**os.environ, "TENSORLANG_CACHE": str(folder / "kept"), "PYTHONPATH": ROOT}
    return subprocess.Popen(
        [sys.executable, "-c", BUILD, str(folder / "builds"), *args], env=environment, stdout=subprocess.PIPE, text=True
    )


def test_three_processes_of_eight_threads_build_a_key_once(tmp_path: Path) -> None:
    processes = [started(tmp_path) for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    for process in processes:
        process.stdout.close()
    assert (tmp_path / "builds").read_text() == "built\n"
    assert all(path.suffix == ".tlk" for path in (tmp_path / "kept").iterdir())  # and no lock is left


def test_a_process_that_dies_while_it_builds_keeps_nobody_waiting(tmp_path: Path) -> None:
    first = started(tmp_path, "and wait")
    assert first.stdout.readline() == "begun\n"
    second = started(tmp_path)
    time.sleep(0.2)
    assert second.poll() is None  # it waits
    first.kill()
    assert second.wait(timeout=50) == 0
    assert (tmp_path / "builds").read_text() == "built\n" * 2
    for process in (first, second):
        process.wait()
        process.stdout.close()


def test_a_process_that_does_not_come_on_is_waited_for_only_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORLANG_CACHE", str(tmp_path))
    monkeypatch.setattr(object_files, "generator", lambda: "this version")
    monkeypatch.setattr(object_files, "PATIENCE", 0.2)
    path = object_files.path_of("a name")
    assert path is not None
    made = tl.build(product()).program
    with object_files.only_here(path):
        assert object_files.cached_program("a name", lambda: made) is made
    assert object_files.cached_program("a name", lambda: pytest.fail("it was kept")).signature == made.signature
    forget()


BESIDE = {
    "numba": (
        "import numba\n@numba.njit(parallel=True)\ndef other(x):\n    s = 0.0\n"
        "    for i in numba.prange(x.size):\n        s += x[i]\n    return s"
    ),
    "torch": "import torch\ntorch.set_num_threads(2)\ndef other(x):\n    return float((torch.from_numpy(x).double()).sum())",
    "jax": "import jax\ntotal = jax.jit(lambda x: x.sum())\ndef other(x):\n    return float(total(x))",
}


@pytest.mark.parametrize("first", [True, False], ids=["first", "after"])
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.extras(name)) for name in sorted(BESIDE)])
def test_another_runtime_of_threads_runs_in_the_same_process(name: str, first: bool) -> None:
    ours = "import tensorlang as tl\nfrom tensorlang import kernels\nf = kernels.compile(kernels.Spec('softmax', ((600, 300),)), threads=2)"
    code = f"""
import numpy as np
{BESIDE[name] if first else ours}
{ours if first else BESIDE[name]}
x = np.random.default_rng(0).random((600, 300), np.float32)
for _ in range(20):
    assert abs(other(x.reshape(-1)) - x.sum(dtype="f8")) < 1
    assert np.allclose(f(x).sum(1), 1, atol=1e-5)
print("done")
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "done\n", done.stderr


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_a_process_ends_with_kernels_alive_and_calls_on_their_way(times: int) -> None:
    code = """
import atexit, threading, numpy as np, tensorlang as tl
from tensorlang import kernels
a = np.ones((64, 64), "f4")
f = kernels.compile(kernels.Spec("matmul", ((64, 64), (64, 64))), threads=2)
g = kernels.compile(kernels.Spec("matmul", ((64, 64), (64, 64))), level="tuned")
packed, bound = f.prepack(B=a), f.bind(a, a)
class Late:
    def __del__(self):
        bound()
cycle = [f, g]; cycle.append(cycle); late = Late()
def forever():
    while True:
        f(a, a); bound()
for _ in range(3):
    threading.Thread(target=forever, daemon=True).start()
atexit.register(lambda: f(a, a))
print(float(packed(a)[0, 0]))
"""
    done = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False) for _ in range(times)]
    assert [(one.returncode, one.stdout, one.stderr) for one in done] == [(0, "64.0\n", "")] * times


def test_a_kernel_that_is_dropped_leaves_little_behind() -> None:
    """In short, where few are kept: until the last caches are full each leaves some 9 KiB; a kernel that stayed would leave 200."""
    code = """
from bench import callers
from tensorlang.codegen import compilation as programs
from tensorlang.codegen.kernel import kernel as built
from tensorlang.kernels import compilation as served
for cache in (programs._programs, built._kernels, served._codes, served._by_spec):
    cache.size = 8
print(callers.growth(80, 60))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, timeout=200)
    assert float(done.stdout) < 40 << 10


def test_eight_threads_that_call_one_kernel_get_no_wrong_element() -> None:
    assert callers.wrong_calls(8, 150) == 0
