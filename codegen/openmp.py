"""The OpenMP runtime that parallel loops call: one that is already there, never a thread pool of our own.

In order: the runtime that is loaded in this process (NumPy's or torch's threads and ours then share one pool), the system's
libgomp, the copy that scikit-learn brings along. libomp answers to the same `GOMP_parallel`. Where there is none, parallel loops
run on the calling thread: a stub with the same entry points calls the loop body once.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tensorlang.codegen import binding
from tensorlang.codegen.binding import Library

SYMBOLS: Final = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
"""The entry points that generated code uses."""

_NAMES: Final = ("libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so")
_LOADED: Final = re.compile(r"\s(/\S*lib(?:gomp|omp|iomp5)[-.\w]*\.so[.\d]*)$", re.MULTILINE)

_SERIAL: Final = """
define void @GOMP_parallel(ptr %body, ptr %data, i32 %threads, i32 %flags) {
  call void %body(ptr %data)
  ret void
}
define i32 @omp_get_thread_num() {
  ret i32 0
}
define i32 @omp_get_num_threads() {
  ret i32 1
}
"""


@dataclass(frozen=True, slots=True)
class Runtime:
    """An OpenMP runtime: where it came from, and the addresses of its entry points."""

    origin: str
    addresses: dict[str, int]
    keep: ctypes.CDLL | Library

    def address(self, name: str) -> int:
        """The address of an entry point."""
        return self.addresses[name]

    @property
    def is_parallel(self) -> bool:
        """Whether loops really run on several threads."""
        return isinstance(self.keep, ctypes.CDLL)


@cache
def runtime() -> Runtime:
    """The runtime of this process, chosen once."""
    for candidate in candidates():
        try:
            library = ctypes.CDLL(candidate)
            addresses = {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in SYMBOLS}
        except (OSError, AttributeError):
            continue
        return Runtime(candidate, addresses, library)
    return serial()


def candidates() -> Iterator[str]:
    """Paths and names of runtimes to try, best first."""
    maps = Path("/proc/self/maps")
    if maps.exists():
        yield from dict.fromkeys(_LOADED.findall(maps.read_text(errors="replace")))
    yield from _NAMES
    found = importlib.util.find_spec("sklearn")
    for folder in (found.submodule_search_locations or []) if found is not None else []:
        yield from map(str, sorted(Path(folder).parent.glob("scikit_learn.libs/libgomp*")))


@cache
def serial() -> Runtime:
    """The stub that runs the body of a parallel loop once, on the calling thread."""
    machine = binding.host()
    library = binding.link(binding.compile_module(_SERIAL, machine).object, SYMBOLS, {})
    return Runtime("serial", {name: library.address(name) for name in SYMBOLS}, library)
