"""The careful call: checked arguments in, the C function called, a typed error out. What every kernel call comes down to."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tensorlang.codegen.cache.program import Program
from tensorlang.codegen.calling import handed
from tensorlang.codegen.calling.arguments import THREADS, Invocation, prepare
from tensorlang.codegen.llvm.binding import Library
from tensorlang.codegen.runtime import symbols, threads
from tensorlang.codegen.runtime.workspaces import SUFFIX
from tensorlang.errors import CallError

_COUNT: Final = ctypes.c_int32


class Caller:
    """A linked function with its signature. Calls release the interpreter lock; any number may run at once.

    `within` is the address of the function that takes a workspace of its caller's (see `emission.workspace`), 0 where it needs none.
    A call on another number of threads runs the same code, linked once more to that number (see `runtime.threads`).
    """

    __slots__ = (
        "_counter",
        "_others",
        "_program",
        "_run",
        "_run_within",
        "address",
        "bound",
        "fail",
        "library",
        "signature",
        "within",
        "workspace",
    )

    by_array = False

    def __init__(self, program: Program, library: Library | None = None) -> None:
        """Link a program, unless its code is linked already. Raises `BuildError`."""
        signature, symbol = program.signature, program.compiled_as.name
        self.signature = signature
        self.bound = program.bound
        self.workspace = handed.Room(program.workspace_bytes, program.thread_workspace_bytes)
        self.library = library or symbols.load_object(program.compiled.object, (symbol, *_more(program, symbol)), program.threads)
        self.address = self.library.address(symbol)
        self.within = self.library.address(symbol + SUFFIX) if self.library.has(symbol + SUFFIX) else 0
        self._program, self._others = program, dict[int, Caller]()
        self._counter = threads.counter_address(program.threads)
        words = [ctypes.c_void_p] * (len(signature.inputs) + len(signature.outputs)) + [ctypes.c_int64] * len(signature.dims)
        self._run = ctypes.CFUNCTYPE(ctypes.c_int32, *words)(self.address)
        self._run_within = ctypes.CFUNCTYPE(ctypes.c_int32, *words, ctypes.c_void_p, ctypes.c_int64)(self.within) if self.within else None
        self.fail: Callable[[], Any] = _failure(signature.name, program.workspace_bytes)

    @property
    def counter(self) -> int:
        """The address of the number of threads."""
        return self._counter

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        """Check, convert, run; see `arguments.prepare` for what is refused."""
        chosen = self.chosen(keywords)
        return chosen.run(chosen.prepared(args, keywords))

    def chosen(self, keywords: dict[str, Any]) -> Caller:
        """What calls on as many threads as the keywords say, which are left without that. Raises `CallError` for what is no number."""
        wanted = handed.taken(self.signature, keywords, THREADS)
        if wanted is None:
            return self
        number = threads.checked(wanted, f"{self.signature.name}: {THREADS}")
        if number == self._program.threads:
            return self
        if number not in self._others:
            self._others[number] = Caller(replace(self._program, threads=number))
        return self._others[number]

    def prepared(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Invocation:
        """A checked call, on this number of threads. Raises `CallError`."""
        workspace = handed.taken(self.signature, keywords)
        invocation = prepare(self.signature, self.bound, args, keywords)
        if workspace is None:
            return invocation
        return handed.checked(self.signature, invocation, workspace, self.workspace, _COUNT.from_address(self._counter).value)

    def run(self, invocation: Invocation) -> Any:
        """Run on arrays that were checked before."""
        run, more = (
            (self._run, ()) if invocation.workspace is None or self._run_within is None else (self._run_within, invocation.workspace)
        )
        if run(*invocation.words, *more):
            self.fail()
        return invocation.result


def _more(program: Program, symbol: str) -> tuple[str, ...]:
    """The function that takes a workspace, where there is one."""
    within = symbol + SUFFIX
    return (within,) if program.workspace_bytes and within in symbols.defined_symbols(program.compiled.object) else ()


def _failure(name: str, workspace_bytes: int) -> Callable[[], Any]:
    """A function that raises; it refers to no kernel, so that a kernel may hold it without a cycle."""

    def fail() -> Any:
        size = f" of {workspace_bytes} bytes" if workspace_bytes else ""
        raise CallError(f"{name}: the workspace{size} could not be allocated; the contents of the output are undefined")

    return fail
