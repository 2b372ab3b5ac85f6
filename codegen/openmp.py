"""The OpenMP runtime that parallel loops call: one that is already there, never a thread pool of our own.

In order: the runtime that is loaded in this process (NumPy's or torch's threads and ours then share one pool), the system's
libgomp, the copy that scikit-learn brings along. libomp answers to the same `GOMP_parallel`. Where there is none, parallel loops
run on the calling thread: a stub with the same entry points calls the loop body once.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tensorlang.codegen import binding
from tensorlang.codegen.binding import Library

SYMBOLS: Final = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
"""The entry points that generated code uses."""

_NAMES: Final = ("libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so")
_LOADED: Final = re.compile(r"/.*/lib(?:gomp|omp|iomp5)[-.\w]*\.so[.\d]*")


class _LoadedObject(ctypes.Structure):
    """The head of `struct dl_phdr_info`: where an object is loaded, and its path."""

    _fields_ = (("address", ctypes.c_void_p), ("name", ctypes.c_char_p))


_VISIT: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_LoadedObject), ctypes.c_size_t, ctypes.c_void_p)

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
    yield from dict.fromkeys(loaded())
    yield from _NAMES
    found = importlib.util.find_spec("sklearn")
    for folder in (found.submodule_search_locations or []) if found is not None else []:
        yield from map(str, sorted(Path(folder).parent.glob("scikit_learn.libs/libgomp*")))


def loaded() -> list[str]:
    """Paths of the runtimes that this process has loaded already; none where the system does not tell."""
    found: list[str] = []

    def note(info: Any, _size: int, _data: object) -> int:
        path = os.fsdecode(info.contents.name or b"")
        if _LOADED.fullmatch(path):
            found.append(path)
        return 0

    with contextlib.suppress(AttributeError, OSError, MemoryError):  # not every C library can list what is loaded
        ctypes.CDLL(None).dl_iterate_phdr(_VISIT(note), None)
    return found


@cache
def serial() -> Runtime:
    """The stub that runs the body of a parallel loop once, on the calling thread."""
    machine = binding.host()
    library = binding.link(binding.compile_module(_SERIAL, machine).object, SYMBOLS, {})
    return Runtime("serial", {name: library.address(name) for name in SYMBOLS}, library)
