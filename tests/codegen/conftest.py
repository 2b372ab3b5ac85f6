"""Running hand-made nests: `run` compiles one and calls it, `guarded` places an array right before memory that must not be touched."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorlang import ir
from tensorlang.codegen import compilation
from tensorlang.codegen.cache import object_files
from tensorlang.codegen.emission.emit import emit
from tensorlang.codegen.kernel.kernel import forget
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.runtime.symbols import load_object
from tensorlang.codegen.runtime.threads import get_threads, set_threads
from tensorlang.codegen.target import Target, target
from tests.codegen import handmade
from tests.codegen.nests import Array, Guarded, Run


@cache
def _compiled(nest: ir.Nest, machine: Target) -> tuple[binding.Library, Callable[[int], Callable[..., int]]]:
    text = emit(nest, machine, name="kernel")
    library = load_object(binding.compile_module(text, machine.machine).object, ("kernel",))
    arguments = [ctypes.c_void_p] * (len(nest.inputs) + len(nest.outputs)) + [ctypes.c_int64] * len(nest.dims)
    return library, ctypes.CFUNCTYPE(ctypes.c_int32, *arguments)


def call(nest: ir.Nest, *arrays: Array, dims: tuple[int, ...] = (), on: str = "native") -> int:
    """Compile a nest and call it with inputs, then outputs; gives its status."""
    library, prototype = _compiled(nest, target(on))
    return prototype(library.address("kernel"))(*(array.ctypes.data for array in arrays), *dims)


@pytest.fixture
def run() -> Run:
    """`run(nest, *arrays, dims=(), on="native")` compiles and calls a nest; it gives the status that the kernel returned."""
    return call


@pytest.fixture
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """As many threads as a test is parametrised with, indirectly."""
    before = get_threads()
    set_threads(request.param)
    yield request.param
    set_threads(before)


@pytest.fixture
def guarded() -> Guarded:
    """`guarded(array)` is a copy that ends where a page begins that no one may read or write."""
    keep = []
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

    def make(array: Array, *, before: bool = False) -> Array:
        page = mmap.PAGESIZE
        pages = -(-array.nbytes // page)
        memory = mmap.mmap(-1, (pages + 2) * page)
        keep.append(memory)
        base = np.frombuffer(memory, np.uint8).ctypes.data
        for start in (base, base + (pages + 1) * page):
            assert libc.mprotect(start, page, 0) == 0
        at = page if before else (pages + 1) * page - array.nbytes
        copy = np.frombuffer(memory, array.dtype, array.size, at).reshape(array.shape)
        copy[...] = array
        return copy

    return make


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is kept when a test begins, and a source that changes while tests run does not switch files off."""
    monkeypatch.delenv(object_files.VARIABLE, raising=False)
    monkeypatch.setattr(object_files, "generator", lambda: "this compiler")
    object_files._say.cache_clear()
    object_files._written.clear()
    handmade.add()(np.zeros(16, "f4"), np.zeros(16, "f4"))  # the code that all kernels share is there
    forget()
    yield
    forget()


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the nests that were compiled since the test began."""
    names: list[str] = []
    real = compilation.compile_nest

    def compile_nest(origin: Any, *args: Any) -> Any:
        names.append(origin.nest.name)
        return real(origin, *args)

    monkeypatch.setattr(compilation, "compile_nest", compile_nest)
    return names


@pytest.fixture
def cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder for kernels, not made yet."""
    home = tmp_path / "some" / "kernels"
    monkeypatch.setenv(object_files.VARIABLE, str(home))
    return home
