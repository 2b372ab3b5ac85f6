"""Kernels as they are served: shared code under a caller's names, which may become better while it is called.

`Code` is there once for all who ask for the same. Each of them has a `ServedKernel` of their own, with their names and their order. When
better code is ready, every kernel gets it between two calls: calls that run go on with what they began, which stays loaded.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

from tensorlang.codegen.cache.program import Program
from tensorlang.codegen.calling import vectorcall
from tensorlang.codegen.calling.checked_call import Caller
from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.codegen.kernel.prepack import prepack
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.llvm.binding import Library
from tensorlang.kernels.wanted import Wanted, bound_arrays
from tensorlang.system import forks

Level: TypeAlias = Literal["O0", "default", "tuned"]

LEVELS: Final[tuple[Level, ...]] = ("O0", "default", "tuned")

_BY_PROVENANCE: Final[dict[str | None, Level]] = {"tuned": "tuned", "nearest": "tuned", "default": "default", None: "O0"}


class ServedKernel(Kernel):
    """A kernel of the library: a `Kernel` that says at which level it runs now, and may be given better code."""

    __slots__ = ("_code", "_retired")

    def __init__(self, program: Program, library: Library | None = None) -> None:
        super().__init__(program, library)
        self._code: Code | None = None
        self._retired: list[object] = []

    @property
    def level(self) -> Level:
        """What runs now: "O0" the loops as they are written, "default" the default schedule, "tuned" one that a database has."""
        return _BY_PROVENANCE[self.provenance]

    def settled(self, timeout: float | None = None) -> bool:
        """Wait, at most `timeout` seconds, until no better code is on its way; is that so?"""
        return self._code is None or self._code.settled(timeout)

    def adopt(self, program: Program, library: Library | None) -> None:
        """Run other code of the same program from the next call on. What a call may still use is kept as long as the kernel."""
        with binding.lock:  # one entry is installed at a time
            self._retired += [self._caller, self._fast]
            self.program = program
            if self._caller is not None and library is not None:
                caller = Caller(program, library)
                self._caller = caller
                if self._fast:
                    self._fast = vectorcall.install(self, caller)


class Code:
    """What is built for a key, with all who call it; `better` makes code to replace it, if there is any."""

    def __init__(self, kernel: Kernel, better: Callable[[], Kernel | None] | None = None, keep: object = None) -> None:
        self.kernel = kernel
        self.keep = keep
        self._better = better
        self._served: weakref.WeakKeyDictionary[ServedKernel, Wanted] = weakref.WeakKeyDictionary()
        self._lock = forks.short_lock()
        self.renew()
        forks.anew(self)

    def renew(self) -> None:
        """Nobody makes better code: in a forked child, who did is not there any more."""
        self._done = threading.Event()
        self._begun = False
        if self._better is None:
            self._done.set()

    def serve(self, wanted: Wanted) -> ServedKernel:
        """A kernel of this code under a caller's names."""
        with self._lock:
            made = ServedKernel(*self._as_known(wanted))
            made._code = self  # noqa: SLF001 - the two are one
            if self._better is not None:
                self._served[made] = wanted
        self.hasten()
        return made

    def _as_known(self, wanted: Wanted) -> tuple[Program, Library | None]:
        return _as_known(self.kernel.program, wanted), self.kernel.library

    def hasten(self) -> None:
        """Have better code made in the background, once."""
        with self._lock:
            if self._done.is_set() or self._begun:
                return
            self._begun = True
        BACKGROUND.do(self._improve)

    def settled(self, timeout: float | None) -> bool:
        """Is no better code on its way, after so many seconds at most?"""
        self.hasten()
        return self._done.wait(timeout)

    def _improve(self) -> None:
        done, better = self._done, self._better
        try:
            if better is not None and (kernel := better()) is not None:
                self._replace(kernel)
        finally:
            self._better = None
            done.set()

    def _replace(self, kernel: Kernel) -> None:
        with self._lock:
            self.kernel = kernel
            served = list(self._served.items())
        for one, wanted in served:
            one.adopt(*self._as_known(wanted))


def packed(outline: Program, wanted: Wanted, constants: Mapping[str, object]) -> ServedKernel:
    """The kernel of a program that has no code, under a caller's names, with operands fixed. Raises `CallError`."""
    return prepack(_as_known(outline, wanted), None, constants, ServedKernel)


def _as_known(program: Program, wanted: Wanted) -> Program:
    return program.under(wanted.signature(program.compiled_as), bound_arrays(wanted))


class Background:
    """One job after the other in a thread that is there while there are jobs; a process that ends waits for one of them at most."""

    def __init__(self) -> None:
        self._lock = forks.short_lock()
        self.renew()
        forks.anew(self)

    def renew(self) -> None:
        """There are no jobs and no thread, as in a forked child."""
        self._jobs: list[Callable[[], object]] = []
        self._working = False

    def do(self, job: Callable[[], object]) -> None:
        """Do a job some time later. What it raises is logged by whoever gave it."""
        with self._lock:
            self._jobs.append(job)
            start, self._working = not self._working, True
        if start:
            threading.Thread(target=self._work, name="tensorlang kernels").start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs or not threading.main_thread().is_alive():
                    self._working = False
                    return
                job = self._jobs.pop(0)
            job()


BACKGROUND: Final = Background()
