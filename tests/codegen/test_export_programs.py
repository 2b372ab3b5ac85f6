"""Programs in C and C++ that link exported objects: alone, and with hooks of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tests.codegen.exported import needs_cc, needs_cxx, run

pytestmark = needs_cc

SMALL = "enum { N = 40, M = 30 };\nstatic float a[N * M], b[N * M];\n"


def matmul(m: int, n: int, k: int) -> tl.Tensor:
    return tl.ops.matmul(tl.placeholder((m, k), name="A"), tl.placeholder((k, n), name="B"), name="C")


def program(folder: Path, text: str, *objects: str, compiler: str = "cc", flags: tuple[str, ...] = ()) -> str:
    """What a program prints that is linked with these files."""
    source = "main.c" if compiler == "cc" else "main.cpp"
    (folder / source).write_text(text)
    standard = "-std=c99" if compiler == "cc" else "-std=c++11"
    run(compiler, standard, "-Wall", "-Werror", source, *objects, "-o", "main", *flags, "-lm", "-Wl,-rpath,.", folder=folder)
    return run("./main", folder=folder)


def rows() -> tl.Kernel:
    """A parallel kernel that takes memory in each thread."""
    A = tl.placeholder((40, 30), name="A")
    T = tl.compute((40, 30), lambda i, j: A[i, j] * 2.0, name="T")
    s = tl.Schedule(tl.compute((40, 30), lambda i, j: T[i, j] + T[i, 29 - j], name="R"))
    s.parallel("R.i")
    s.compute_at("T", "R.i")
    s.set_memory("T", "heap")
    return tl.build(s, name="rows")


ROWS = """
#include <stdio.h>
#include "rows.h"
static float a[40 * 30], r[40 * 30];
HOOKS
int main(void) {
  for (int i = 0; i < 40 * 30; i++) a[i] = (float)i;
  int status = rows(a, r);
  double sum = 0;
  for (int i = 0; i < 40 * 30; i++) sum += r[i];
  printf("%d %.0f TOLD\\n", status, sum MORE);
  return 0;
}
"""
TOTAL = sum(2 * (30 * i + j) + 2 * (30 * i + 29 - j) for i in range(40) for j in range(30))


@pytest.mark.parametrize("form", ["o", "a", "c", "so"])
def test_a_parallel_kernel_links_alone_and_runs_on_one_thread(tmp_path: Any, form: str) -> None:
    kernel = rows()
    assert "parallel" in kernel.inspect()
    kernel.export(tmp_path, formats=("h", form))
    text = ROWS.replace("HOOKS", "").replace("TOLD", "").replace("MORE", "")
    assert program(tmp_path, text, f"./rows.{form}").split() == ["0", str(TOTAL)]


POOL = r"""
#include <pthread.h>
#include <stdlib.h>
static int started, taken, held;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct work { void (*body)(void *); void *data; };
static void *run(void *given) {
  struct work *work = given;
  pthread_mutex_lock(&lock); started++; pthread_mutex_unlock(&lock);
  work->body(work->data);
  return 0;
}
int32_t tensorlang_threads(void) { return 3; }
void tensorlang_parallel(void (*body)(void *), void *data, int32_t threads) {
  pthread_t made[3];
  struct work work = {body, data};
  for (int i = 1; i < threads; i++) pthread_create(&made[i], 0, run, &work);
  run(&work);
  for (int i = 1; i < threads; i++) pthread_join(made[i], 0);
}
void *tensorlang_allocate(int64_t bytes, int64_t alignment) {
  void *memory = 0;
  pthread_mutex_lock(&lock); taken++; held++; pthread_mutex_unlock(&lock);
  return posix_memalign(&memory, (size_t)alignment, (size_t)bytes) ? 0 : memory;
}
void tensorlang_release(void *memory) { pthread_mutex_lock(&lock); held--; pthread_mutex_unlock(&lock); free(memory); }
"""


@pytest.mark.parametrize("form", ["o", "a", "so"])
def test_a_program_s_own_threads_and_memory_are_used(tmp_path: Any, form: str) -> None:
    rows().export(tmp_path, formats=("h", form))
    text = ROWS.replace("HOOKS", POOL).replace("TOLD", "%d %d %d").replace("MORE", ", started, taken > 0, held")
    text = "#define _POSIX_C_SOURCE 200809L\n" + text
    assert program(tmp_path, text, f"./rows.{form}", flags=("-pthread",)).split() == ["0", str(TOTAL), "3", "1", "0"]


FAILING = r"""
#include <string.h>
static int calls; static char said[80];
void *tensorlang_allocate(int64_t bytes, int64_t alignment) { (void)bytes; (void)alignment; return calls++ < LIMIT ? malloc(1 << 16) : 0; }
void tensorlang_release(void *memory) { calls += 100; free(memory); }
void tensorlang_error(const char *kernel, int32_t error, const char *argument) {
  strcat(said, kernel); strcat(said, error == TENSORLANG_NO_MEMORY ? ":none:" : ":other:"); strcat(said, argument);
}
"""


@pytest.mark.parametrize("form", ["o", "c"])
@pytest.mark.parametrize("limit", [0, 1])
def test_without_memory_a_kernel_gives_back_what_it_holds_and_says_so(tmp_path: Any, form: str, limit: int) -> None:
    A = tl.placeholder((200, 100), name="A")
    T = tl.compute((200, 100), lambda i, j: A[i, j] * 2.0, name="T")
    U = tl.compute((200, 100), lambda i, j: T[199 - i, j] + 1.0, name="U")
    s = tl.Schedule(tl.compute((200, 100), lambda i, j: U[199 - i, 99 - j] + T[i, j], name="V"))
    tl.build(s, name="chain").export(tmp_path, formats=("h", form))
    hooks = "#include <stdlib.h>\n" + FAILING.replace("LIMIT", str(limit))
    text = f"""#include <stdio.h>\n#include "chain.h"\n{hooks}
static float a[20000], v[20000];
int main(void) {{ int status = chain(a, v); printf("%d %d %s\\n", status, calls, said); return 0; }}
"""
    assert program(tmp_path, text, f"chain.{form}").split() == ["1", str(1 + 101 * limit), "chain:none:"]


def test_cxx_calls_a_kernel_with_extents_of_run_time_and_several_results(tmp_path: Any) -> None:
    n = tl.dim("n")
    x = tl.placeholder((n,), "float64", name="x")
    half = tl.compute((n,), lambda i: x[i] / 2.0, name="half")
    up = tl.compute((n,), lambda i: x[i] > 1.5, name="up")
    tl.build((half, up), name="both").export(tmp_path, formats=("o", "h", "c"))
    text = """
#include "both.h"
#include <cstdio>
#include <vector>
int main() {
  std::vector<double> x{1, 2, 3}, half(3);
  bool up[3];
  int status = both(x.data(), half.data(), up, 3);
  std::printf("%d %g %g %g %d%d%d\\n", status, half[0], half[1], half[2], up[0], up[1], up[2]);
}
"""
    if needs_cxx.args[0]:
        pytest.skip("needs a C++ compiler")
    assert program(tmp_path, text, "both.o", compiler="c++").split() == ["0", "0.5", "1", "1.5", "011"]
    run("cc", "-std=c99", "-c", "both.c", "-o", "from_c.o", folder=tmp_path)
    assert program(tmp_path, text, "from_c.o", compiler="c++").split() == ["0", "0.5", "1", "1.5", "011"]


def test_several_kernels_link_into_one_program(tmp_path: Any) -> None:
    for name, size in (("first", 4), ("second", 200)):
        tl.build(matmul(size, size, size), name=name).export(tmp_path, formats=("o", "h", "a", "c"))
    text = """#include <stdio.h>\n#include "first.h"\n#include "second.h"
static float a[40000], b[40000], c[40000];
int main(void) {
  for (int i = 0; i < 40000; i++) a[i] = 1, b[i] = 2;
  int status = first(a, b, c) + second(a, b, c);
  printf("%d %g\\n", status, c[39999]);
  return 0;
}
"""
    for files in (("first.o", "second.o"), ("first.c", "second.c"), ("first.a", "second.a"), ("first.o", "second.c")):
        assert program(tmp_path, text, *files).split() == ["0", "400"]


def test_the_object_computes_what_the_kernel_computes_to_the_last_bit(tmp_path: Any) -> None:
    import ctypes

    kernel = tl.build(matmul(67, 45, 89), name="mm")
    library = ctypes.CDLL(str(kernel.export(tmp_path, formats=("so",))["so"]))
    rng = np.random.default_rng(3)
    a, b = rng.random((67, 89), "f4"), rng.random((89, 45), "f4")
    c = np.zeros((67, 45), "f4")
    assert library.mm(*(ctypes.c_void_p(array.ctypes.data) for array in (a, b, c))) == 0
    assert c.tobytes() == kernel(a, b).tobytes()
