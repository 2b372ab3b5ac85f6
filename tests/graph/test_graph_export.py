"""Exported graphs: C programs and two virtual machines compute what the graph computes, to the bit; broken files are refused."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tensorlang as tl
from tensorlang import kernels
from tensorlang.graph import Builder, CompiledGraph, Graph
from tests.graph.graphs import arguments, array, random_graphs

COMPILER = shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-O1")


def network(name: str = "network") -> Graph:
    """Convolutions, products, views that are copied, and two outputs."""
    b = Builder(name)
    x = b.input((1, 3, 8, 8), name="x")
    kernel, weight = b.constant(array(4, 3, 3, 3), "kernel"), b.constant(array(6, 64), "weight")
    value = b("relu", b("conv2d", x, kernel, array(4), padding=1))
    flat = b("reshape", b("permute", b("reshape", value, shape=(1, 4, 64)), dims=(0, 2, 1)), shape=(4, 64))
    logits = b("linear", flat, weight, array(6))
    return b.finish(b("softmax", logits, dim=-1), b("permute", logits, dims=(1, 0)))


@given(random_graphs())
@settings(max_examples=5)
def test_a_machine_gives_the_bits_of_the_graph(g: Graph) -> None:
    compiled = g.compile(threads=1)
    made = kernels.Machine.of(compiled.assembly().sequence)(*arguments(g))
    for found, wanted in zip(made if len(g.outputs) > 1 else (made,), compiled(*arguments(g)), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.usefixtures("node_by_node")
def test_bytecode_reads_as_text() -> None:
    b = Builder("few")
    value = b("relu", b.input((2, 3), name="x"))
    g = b.finish(value, b("reshape", value, shape=(6,)))
    machine = kernels.Machine.of(g.compile(threads=1, passes=()).assembly().sequence)
    lines = str(machine.program).splitlines()
    assert lines[:3] == ["arena 0", f"weights {machine.program.weights_bytes}", "input x: float32[2, 3]"]
    assert lines[3:5] == ["output relu: float32[2, 3]", "output reshape: float32[6]"]
    assert lines[5].startswith("relu_") and lines[5].endswith(" x+0 relu+0") and lines[6].startswith("copy relu+0 reshape+0 weights+")


@cache
def code() -> bytes:
    """The bytecode of the network."""
    return network().compile(threads=1).bytecode()


@given(st.deferred(lambda: st.integers(0, len(code()) - 1)))
@settings(max_examples=60)
def test_bytecode_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(tl.BuildError, match="this is no bytecode that can be run"):
        kernels.Machine(code()[:length], lambda *_: 0, np.zeros(0, np.uint8))


@given(st.deferred(lambda: st.integers(0, len(code()) * 8 - 1)))
@settings(max_examples=100)
def test_bytecode_with_another_bit_is_refused(bit: int) -> None:
    changed = bytearray(code())
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(tl.BuildError, match="this is no bytecode that can be run"):
        kernels.Machine(bytes(changed), lambda *_: 0, np.zeros(0, np.uint8))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kernels.Machine(None, lambda *_: 0, np.zeros(0, np.uint8)), "a machine is made of bytecode in bytes, not of None"),
        (lambda: kernels.Machine(code(), 3, np.zeros(0, np.uint8)), "by dispatch"),
        (lambda: kernels.Machine(code(), lambda *_: 0, np.zeros(64)), "the weights of a machine are an array of uint8"),
        (lambda: kernels.Machine(code(), lambda *_: 0, b""), "the weights of a machine are an array of uint8"),
        (lambda: kernels.Machine.of(code()), "Machine.of takes a sequence"),
        (lambda: kernels.Machine.load(None, "g"), "Machine.load takes a folder and the name of a sequence, not None and 'g'"),
        (lambda: kernels.Machine.load(".", None), "Machine.load takes a folder and the name of a sequence, not '.' and None"),
        (lambda: kernels.Machine.load("a\0b", "g"), "cannot be read"),
    ],
)
def test_what_no_machine_is_made_of_is_refused(make, message: str) -> None:
    with pytest.raises(tl.BuildError, match=message):
        make()


def test_bytecode_may_lie_in_any_bytes() -> None:
    weights = kernels.Machine.of(network().compile(threads=1).assembly().sequence)._weights
    for held in (bytearray(code()), memoryview(code())):
        assert str(kernels.Machine(held, lambda *_: 0, weights).program) == str(kernels.Machine(code(), lambda *_: 0, weights).program)


MAIN = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "network.h"
#include "tensorlang_vm.c"

static const char *map(const char *path, int64_t *bytes) {
  struct stat found;
  int file = open(path, O_RDONLY);
  if (file < 0 || fstat(file, &found) != 0) exit(50);
  *bytes = found.st_size;
  void *memory = mmap(0, (size_t)found.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  if (memory == MAP_FAILED) exit(51);
  return memory;
}

int main(int count, char **words) {
  static float x[192], one[24], two[24], one_again[24], two_again[24];
  int64_t bytes, size;
  const char *weights = map(words[1], &bytes), *code = map(words[2], &size);
  void *arena;
  if (count != 3 || posix_memalign(&arena, NETWORK_ALIGNMENT, NETWORK_ARENA_BYTES) != 0) return 52;
  if (network_weights(weights, bytes) != 0) return 53;
  if (fread(x, sizeof x, 1, stdin) != 1) return 54;
  memset(arena, 255, NETWORK_ARENA_BYTES);
  if (network(weights, arena, x, one, two) != 0) return 55;
  tensorlang_program program;
  void *values[] = {x, one_again, two_again};
  int32_t error = tensorlang_vm_open(&program, code, size);
  if (error == 0) error = tensorlang_vm_weights(&program, weights, bytes);
  if (error == 0 && program.arena_bytes > NETWORK_ARENA_BYTES) return 56;
  memset(arena, 255, NETWORK_ARENA_BYTES);
  if (error == 0) error = tensorlang_vm_run(&program, network_dispatch, weights, arena, values);
  if (error != 0) return error;
  if (memcmp(one, one_again, sizeof one) || memcmp(two, two_again, sizeof two)) return 57;
  if (network(0, arena, x, one, two) != TENSORLANG_POINTER_REFUSED) return 58;
  if (network(weights, (char *)arena + 1, x, one, two) != TENSORLANG_POINTER_REFUSED) return 59;
  if (network(arena, arena, x, one, two) != TENSORLANG_WEIGHTS_REFUSED) return 60;
  for (int64_t cut = 0; cut < size; cut++)
    if (tensorlang_vm_open(&program, code, cut) == 0) return 61;
  fwrite(one, sizeof one, 1, stdout);
  fwrite(two, sizeof two, 1, stdout);
  return 0;
}
"""


def run(folder: Path, weights: str = "network.weights", code: str = "network.tlbc", x: np.ndarray | None = None) -> tuple[int, bytes]:
    given = array(1, 3, 8, 8) if x is None else x
    done = subprocess.run(
        [folder / "main", folder / weights, folder / code], input=given.tobytes(), capture_output=True, check=False, timeout=60
    )
    return done.returncode, done.stdout


def meant(compiled: CompiledGraph) -> bytes:
    return b"".join(output.tobytes() for output in compiled(array(1, 3, 8, 8)))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompiledGraph]:
    """A C program of an exported graph."""
    folder = tmp_path_factory.mktemp("built")
    compiled = network().compile(threads=1)
    made = compiled.export(folder)
    assert sorted(made) == ["a", "c", "h", "tlbc", "weights"]
    (folder / "main.c").write_text(MAIN)
    assert COMPILER is not None
    command = [COMPILER, *FLAGS, "-D_POSIX_C_SOURCE=200809L", "main.c", "network.a", "-lm", "-o", "main"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, compiled


@needs_compiler
def test_a_c_program_gives_the_bits_of_the_graph(built: tuple[Path, CompiledGraph]) -> None:
    """By the entry and by the machine in C, from an arena full of NaN."""
    folder, compiled = built
    assert run(folder) == (0, meant(compiled))


@needs_compiler
def test_a_c_program_takes_other_weights_without_a_build(built: tuple[Path, CompiledGraph]) -> None:
    folder, _ = built
    other = network().compile(threads=1)
    other.load_weights({"weight": array(6, 64, seed=7), "kernel": array(4, 3, 3, 3, seed=8)})
    other.save_weights(folder / "other.weights")
    assert run(folder, "other.weights") == (0, meant(other))


@needs_compiler
def test_a_c_program_refuses_weights_and_bytecode_that_are_not_whole(built: tuple[Path, CompiledGraph]) -> None:
    folder, _ = built
    for name, error in (("network.weights", 53), ("network.tlbc", 102)):
        data = (folder / name).read_bytes()
        (folder / "cut").write_bytes(data[:-64])
        assert run(folder, **({"weights": "cut"} if name == "network.weights" else {"code": "cut"}))[0] == error % 256
    wrong = bytearray((folder / "network.tlbc").read_bytes())
    wrong[100] ^= 1
    (folder / "wrong").write_bytes(wrong)
    assert run(folder, code="wrong")[0] == 103
    network("other").compile(threads=1).save_weights(folder / "theirs")
    assert run(folder, "theirs")[0] == 53


@needs_compiler
def test_the_machine_in_c_is_one_small_freestanding_file(tmp_path: Path) -> None:
    source = network().compile(threads=1).export(tmp_path, ("c",))["c"]
    lines = source.read_text().splitlines()
    assert len(lines) < 1000
    assert [line for line in lines if line.startswith("#include")] == ["#include <stdint.h>"]
    assert COMPILER is not None
    done = subprocess.run(
        [COMPILER, *FLAGS, "-ffreestanding", "-pedantic", "-c", source.name], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2])
def test_no_object_asks_for_memory_or_threads(tmp_path: Path, threads: int) -> None:
    b = Builder("wide")
    value = b("softmax", b("linear", b.input((64, 700), name="x"), array(700, 700)), dim=-1)
    compiled = b.finish(b("softmax", value, dim=0)).compile(threads=threads)
    assert any(kernel.workspace_bytes for kernel in compiled.kernels)
    library = ctypes.CDLL(str(compiled.export(tmp_path, ("so", "weights", "a"))["so"]))
    listed = subprocess.run(["nm", "-u", tmp_path / "wide.a"], capture_output=True, text=True, check=True).stdout
    assert not any(word in listed for word in ("malloc", "memalign", "printf", "free", "GOMP", "omp_", "tensorlang_num"))
    x, out = array(64, 700), np.empty((64, 700), np.float32)
    arena = np.empty(compiled.plan.bytes + 64, np.uint8)
    start = arena.ctypes.data + -arena.ctypes.data % 64
    weights = np.memmap(tmp_path / "wide.weights", np.uint8, "r")
    assert library.wide_weights(ctypes.c_void_p(weights.ctypes.data), ctypes.c_int64(weights.size)) == 0
    words = [ctypes.c_void_p(address) for address in (weights.ctypes.data, start, x.ctypes.data, out.ctypes.data)]
    assert library.wide(*words) == 0
    np.testing.assert_array_equal(out, compiled(x)[0])


PROGRAM = """
import sys
import numpy as np
from tensorlang import kernels
machine = kernels.Machine.load(sys.argv[1], "network")
x = np.random.default_rng(0).standard_normal((1, 3, 8, 8), np.float32)
for weights in (None, "other.weights"):
    if weights is not None:
        machine.load_weights(sys.argv[1] + "/" + weights)
    for output in machine(x):
        sys.stdout.buffer.write(output.tobytes())
"""


@needs_compiler
def test_another_process_runs_the_files(tmp_path: Path) -> None:
    compiled = network().compile(threads=1)
    compiled.export(tmp_path, ("so", "weights", "tlbc"))
    wanted = meant(compiled)
    compiled.load_weights({"weight": array(6, 64, seed=9)})
    compiled.save_weights(tmp_path / "other.weights")
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], capture_output=True, check=True, timeout=120)
    assert done.stdout == wanted + meant(compiled)
    with pytest.raises(tl.BuildError, match="cannot be read: No such file"):
        kernels.Machine.load(tmp_path, "nothing")


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="libraries are ELF files on Linux")
def test_a_library_that_was_cut_off_is_refused_before_it_is_mapped(tmp_path: Path) -> None:
    path = network().compile(threads=1).export(tmp_path, ("so", "weights", "tlbc"))["so"]
    data = path.read_bytes()
    cuts = [*range(0, len(data), len(data) // 20), 10, 63, 64, 200, len(data) - 1]
    for length in cuts:
        path.unlink()  # one that was loaded stays as it is
        path.write_bytes(data[:length])
        message = "it was cut off; export the sequence again" if length > 5 else "cannot be loaded"
        with pytest.raises(tl.BuildError, match=message):
            kernels.Machine.load(tmp_path, "network")
    path.unlink()
    path.write_bytes(data)
    kernels.Machine.load(tmp_path, "network")


def test_weights_that_are_not_whole_are_refused_before_they_are_read(tmp_path: Path) -> None:
    compiled = network().compile(threads=1)
    machine = kernels.Machine.of(compiled.assembly().sequence)
    path = compiled.save_weights(tmp_path / "weights")
    data, x = path.read_bytes(), array(1, 3, 8, 8)
    before = machine(x)
    machine.load_weights(path)
    broken = {
        "is none: it does not begin with TLWEIGHT": b"text" * 100,
        "is none": data[:10],
        f"has {len(data) - 1} bytes of {len(data)}: it was cut off": data[:-1],
        "is damaged: its checksum differs": data[:-100] + bytes([data[-100] ^ 1]) + data[-99:],
        "has version 2": data[:8] + b"\2" + data[9:],
        "belongs to another program": network("other").compile(threads=1).save_weights(tmp_path / "theirs").read_bytes(),
    }
    for message, content in broken.items():
        path.write_bytes(content)
        with pytest.raises(tl.BuildError, match=message):
            machine.load_weights(path)
    for found, wanted in zip(machine(x), before, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_machine_refuses_what_does_not_fit() -> None:
    machine = kernels.Machine.of(network().compile(threads=1).assembly().sequence)
    with pytest.raises(tl.CallError, match=r"argument 'x' \(float32\[1, 3, 8, 8\]\): expected shape \(1, 3, 8, 8\), got \(1, 3, 8, 9\)"):
        machine(array(1, 3, 8, 9))
    failing = kernels.Machine(code(), lambda *_: 4, machine._weights)
    with pytest.raises(tl.CallError, match=r"program: instruction 0, .* failed with error 4"):
        failing(array(1, 3, 8, 8))


def test_what_cannot_be_exported_is_refused(tmp_path: Path) -> None:
    compiled = network().compile(threads=1)
    with pytest.raises(tl.BuildError, match="'exe' is no format of an exported sequence"):
        compiled.export(tmp_path, ("exe",))
    (tmp_path / "file").write_text("")
    with pytest.raises(tl.BuildError, match="network cannot be exported to"):
        compiled.export(tmp_path / "file", ("weights",))
    with pytest.raises(tl.BuildError, match="double"):
        network("double").compile(threads=1).export(tmp_path, ("h",))
    b = Builder("turned")
    views = b.finish(b("permute", b.input((2, 3), name="x"), dims=(1, 0))).compile(threads=1)
    with pytest.raises(tl.BuildError, match="turned cannot be exported: it has no kernel, since all its results are views"):
        views.export(tmp_path, ("a",))


def test_a_graph_is_exported_however_small_the_bounds_of_its_intermediates_are(tmp_path: Path) -> None:
    b = Builder("small")
    normed = b("layer_norm", b.input((tl.dim("n", 1, 9), 8), name="x"), array(8, seed=1), array(8, seed=2), normalized_shape=(8,))
    compiled = b.finish(b("softmax", normed, dim=0)).compile(threads=1)
    assert all(path.exists() for path in compiled.export(tmp_path, n=3).values())
    x = array(3, 8)
    np.testing.assert_array_equal(kernels.Machine.of(compiled.assembly(n=3).sequence)(x), compiled(x)[0])


def test_a_graph_with_dims_is_exported_for_a_size(tmp_path: Path) -> None:
    b = Builder("layer")
    g = b.finish(b("relu", b("linear", b.input((tl.dim("n", 1, 8), 4), name="x"), array(5, 4))))
    compiled = g.compile(threads=1)
    assert "const float *x, float *" in (text := compiled.export(tmp_path, ("h",), n=3)["h"].read_text()) and "x[3][4]: read" in text
    x = array(3, 4)
    np.testing.assert_array_equal(kernels.Machine.of(compiled.assembly(n=3).sequence)(x), compiled(x)[0])
    with pytest.raises(tl.CallError, match=r"layer: expected the dims \['n'\] by keyword"):
        compiled.export(tmp_path)
