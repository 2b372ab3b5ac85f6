"""The OpenMP runtime that parallel loops call: one that is already there, never a thread pool of our own.

In order: the runtime that is loaded in this process (NumPy's or torch's threads and ours then share one pool), the system's
libgomp, the copy that scikit-learn brings along. libomp answers to the same `GOMP_parallel`. Where there is none, parallel loops
run on the calling thread: a stub with the same entry points calls the loop body once.

A child of `fork` inherits the memory of the runtime and none of its threads. LLVM's and Intel's runtimes notice; GNU's waits for the
threads that are gone, for ever. So before a fork the threads of the forking thread are ended (`omp_pause_resource_all`, OpenMP 5.0), and
parent and child start new ones when they need them; other threads of the parent keep theirs. Where that cannot be done, the child does
without: its parallel loops run on the calling thread, with the same results.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tensorlang.codegen.llvm import binding
from tensorlang.codegen.llvm.binding import Library
from tensorlang.codegen.llvm.linked_once import LinkedOnce
from tensorlang.codegen.runtime.threads import is_alone, stay_alone

SYMBOLS: Final = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
"""The entry points that generated code uses."""

_NAMES: Final = ("libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so")
_LOADED: Final = re.compile(r"/.*/lib(?:gomp|omp|iomp5)[-.\w]*\.so[.\d]*")
_PATH_FIELD: Final = 5
"""Fields before the path in a line of /proc/self/maps."""

_PAUSE: Final = "omp_pause_resource_all"
_PAUSE_HARD: Final = 2
_OF_LLVM: Final = "__kmpc_fork_call"
"""Only LLVM's and Intel's runtimes, which survive a fork, have this symbol."""

_FORKED_NOT_EXECUTED: Final = 0x40  # PF_FORKNOEXEC of Linux, in the ninth field of /proc/self/stat

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


@LinkedOnce
def runtime() -> Runtime:
    """The runtime of this process, chosen once."""
    for candidate in candidates():
        try:
            if _past.distrusted and _gnu(candidate) is not None:
                continue
            library = ctypes.CDLL(candidate)
            addresses = {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in SYMBOLS}
        except (OSError, AttributeError):
            continue
        return Runtime(candidate, addresses, library)
    return serial()


def candidates() -> Iterator[str]:
    """Paths and names of runtimes to try, best first."""
    yield from loaded()
    yield from _NAMES
    found = importlib.util.find_spec("sklearn")
    for folder in (found.submodule_search_locations or []) if found is not None else []:
        yield from map(str, sorted(Path(folder).parent.glob("scikit_learn.libs/libgomp*")))


def loaded() -> list[str]:
    """Paths of the runtimes that this process has loaded already; none where the system does not tell.

    `dl_iterate_phdr` would call back into Python under the linker's lock, for which another thread may wait that imports an extension
    and has the interpreter's lock: neither would go on. Mappings are listed without either. As a rule the oldest has the highest address.
    """
    try:
        mappings = Path("/proc/self/maps").read_bytes().splitlines()
    except OSError:
        return []
    paths = (os.fsdecode(mapping.split(maxsplit=_PATH_FIELD)[-1]) for mapping in reversed(mappings))
    return list(dict.fromkeys(filter(_LOADED.fullmatch, paths)))


def _gnu(path: str) -> ctypes.CDLL | None:
    """A runtime that is loaded, if it is GNU's."""
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return None
    return None if hasattr(library, _OF_LLVM) else library


@dataclass(slots=True)
class _ForkHistory:
    """What forks have left: `distrusted` says that a GNU runtime which is loaded may believe in threads that are not there."""

    distrusted: bool
    rested: bool = False


def _came_by_fork() -> bool:
    """Is this process a child that has executed no program of its own?"""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        return bool(int(fields[6]) & _FORKED_NOT_EXECUTED)
    except (OSError, ValueError, IndexError):
        return False


_past: Final = _ForkHistory(distrusted=_came_by_fork())


def _rest() -> bool:
    """End the threads that the runtime keeps for this thread; have they ended? One whose threads are gone would wait for them."""
    if runtime.is_made():
        keep = runtime().keep
        if not isinstance(keep, ctypes.CDLL) or hasattr(keep, _OF_LLVM):
            return True
        library = None if is_alone() else keep
    else:  # of those that are loaded, the child would choose the first
        library = None if _past.distrusted else next(filter(None, map(_gnu, loaded())), None)
        if library is None:
            return not _past.distrusted
    pause = getattr(library, _PAUSE, None)
    return pause is not None and pause(_PAUSE_HARD) == 0


def _before_fork() -> None:
    _past.rested = _rest()


def _in_child() -> None:
    if not _past.rested:  # also where nobody announced the fork
        if runtime.is_made():
            stay_alone()
        else:
            _past.distrusted = True
    _past.rested = False


def _in_parent() -> None:
    _past.rested = False


os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)


@LinkedOnce
def serial() -> Runtime:
    """The stub that runs the body of a parallel loop once, on the calling thread."""
    machine = binding.host()
    library = binding.link(binding.compile_module(_SERIAL, machine).object, SYMBOLS, {})
    return Runtime("serial", {name: library.address(name) for name in SYMBOLS}, library)
