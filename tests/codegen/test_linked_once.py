"""What is linked once for a process: one of it, made by one thread, however many ask first at the same time."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from tensorlang.codegen.llvm.linked_once import LinkedOnce

FIRST_KERNELS = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import tensorlang as tl
from tensorlang.codegen.llvm import binding

dropped = []
unload = binding.Library.__del__
binding.Library.__del__ = lambda library: dropped.append(library._addresses) or unload(library)
sys.setswitchinterval(1e-6)
start = threading.Barrier(4)

def built(n):
    A = tl.placeholder((300, 300), name="A")
    B = tl.compute((300, 300), lambda i, j: A[i, j] * n, name="B")  # whole, and so in a workspace
    s = tl.Schedule(tl.compute((300, 300), lambda i, j: B[j, i] + B[i, j], name="C"))
    start.wait()
    return tl.build(s)

with ThreadPoolExecutor(4) as pool:
    kernels = list(pool.map(built, range(4)))
a = np.arange(90000, dtype="f4").reshape(300, 300)
print([bool((kernel(a) == (a + a.T) * n).all()) for n, kernel in enumerate(kernels)], dropped)
"""


def test_one_thread_makes_what_several_ask_for() -> None:
    made = list[object]()

    @LinkedOnce
    def slowly(number: int) -> list[int]:
        made.append(number)
        time.sleep(0.02)
        return [number]

    assert not slowly.is_made()
    found = list[list[int]]()
    threads = [threading.Thread(target=lambda: found.append(slowly(3))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [3] and len(found) == 5 and all(one is found[0] for one in found)
    assert slowly.is_made()


def test_threads_whose_first_kernels_take_workspaces_share_one_pool() -> None:
    """With `functools.cache` a second pool took the place of the first, which kernels that were linked meanwhile called: a segfault.

    llvmlite's table of escaped letters is filled without a lock: threads that were first side by side found it half full (KeyError).
    """
    told = subprocess.run([sys.executable, "-c", FIRST_KERNELS], capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout) == (0, "[True, True, True, True] []\n"), told.stderr
