"""Compiled code that is linked into this process and called like a function: what a kernel is before it can make other kernels.

Calls check their arguments completely before anything is written, release the interpreter lock, and may come from any number of
threads. A call of plain NumPy arrays runs in machine code from end to end (see `vectorcall_ir`); any other goes through
`arguments.prepare`. The code stays loaded as long as the object, or a call of it, is alive.

A process may fork: the child goes on calling and building kernels (see `forks` and `workers`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, Literal, Self

import numpy as np

from tensorlang.codegen.cache.program import Program, Provenance
from tensorlang.codegen.calling import handed, vectorcall
from tensorlang.codegen.calling.arguments import WORKSPACE, checked_dim
from tensorlang.codegen.calling.checked_call import Caller
from tensorlang.codegen.llvm import binding, features, safe_compilation
from tensorlang.codegen.runtime import timing
from tensorlang.codegen.runtime.threads import get_threads
from tensorlang.codegen.runtime.timing import Timing
from tensorlang.codegen.target import Target, why_foreign
from tensorlang.errors import CallError, did_you_mean
from tensorlang.ir.integers import value_of

FORMS: Final = ("nest", "llvm", "asm")
"""What `Kernel.inspect` can show."""


class Runnable:
    """A program that can be called, timed and looked at.

    `kernel(*inputs, out=None, **dims)` takes the inputs in order (or by name) and returns the outputs: a new array, a tuple of them
    where there are several, or what `out=` gave. `workspace=` hands over memory for intermediates, at least `workspace_bytes` from a cache
    line on; without it the process keeps some. `threads=` is how many this call uses; results have the same bits for any number. Raises
    `CallError`, naming the argument, for anything that it cannot take; the outputs are then untouched. A kernel for another machine can
    be looked into and saved, not called.
    """

    __slots__ = ("__weakref__", "_caller", "_fast", "program")

    program: Program

    def __new__(cls, *_: Any) -> Self:
        """An instance with room for its own call in machine code, where this interpreter allows that."""
        kind: type = cls
        made: Self = object.__new__(vectorcall.fast_class(kind))
        return made

    def __init__(self, program: Program, library: binding.Library | None = None) -> None:
        """Link the code of a program into this process, where it is for this machine; `library` is that code where it is linked already.

        Raises `BuildError` where that fails.
        """
        self.program = program
        self._caller: Caller | None = None
        self._fast: tuple[object, ...] | None = None
        if why_foreign(program.target) is None:
            self._caller = Caller(program, library)

    def __call__(self, /, *inputs: Any, **keywords: Any) -> Any:
        """Run the kernel. The first call makes the machine code entry, later ones do not come here."""
        caller = self._linked
        self._make_fast(caller)
        return caller(*inputs, **keywords)

    def _make_fast(self, caller: Caller) -> bool:
        """Give this object its call in machine code, once, where that is possible; is it so?"""
        with binding.lock:  # the first installation compiles; and a fork must not find the lock held
            if self._fast is None:
                self._fast = vectorcall.install(self, caller)
        return bool(self._fast)

    @property
    def _linked(self) -> Caller:
        if self._caller is None:
            reason = why_foreign(self.program.target)
            raise CallError(f"{self.name}: the kernel was built for {self.program.target} and cannot run here: {reason}")
        return self._caller

    @property
    def library(self) -> binding.Library | None:
        """The code as it is linked; None for another machine's."""
        return None if self._caller is None else self._caller.library

    @property
    def name(self) -> str:
        """The name of the kernel: of the function in the object code, unless callers know shared code by their own."""
        return self.program.signature.name

    @property
    def target(self) -> Target:
        """What the kernel was compiled for."""
        return self.program.target

    @property
    def signature(self) -> str:
        """The C declaration of the function at `address`."""
        return self.program.signature.prototype

    @property
    def address(self) -> int:
        """The C function pointer, valid as long as the kernel is alive. Raises `CallError` for a foreign target."""
        return self._linked.address

    @property
    def workspace_bytes(self) -> int:
        """Memory that one call takes besides its outputs, at most: with a buffer for each thread that parallel loops may use now."""
        threads = get_threads() if self.program.threads is None else self.program.threads
        return self.program.workspace_bytes + (threads - 1) * self.program.thread_workspace_bytes

    @property
    def provenance(self) -> Provenance | None:
        """Where the schedule came from: "tuned", "nearest" or "default"; None for one that was given."""
        return self.program.provenance

    @property
    def provenance_reason(self) -> str:
        """Why this schedule: which record of a database it is, or why it is the default one; empty for one that was given."""
        return self.program.provenance_reason

    def cost(self, /, **dims: int) -> dict[str, int]:
        """Arithmetic and compulsory memory traffic of one call: "flops" and "bytes". Dims are given by keyword.

        Operations are counted exactly (at most, where data decides or the kernel was read from a file).
        Raises `CallError` where a dim is missing or unknown, or no extent that a call takes.
        """
        wanted = self.program.signature.dims
        if set(dims) != set(wanted):
            raise CallError(f"{self.name}: cost() expected the dims {list(wanted)} by keyword, got {sorted(dims)}")
        dims = {name: checked_dim(self.program.signature, name, value) for name, value in dims.items()}
        origin = self.program.origin
        if origin is None:  # read from a file, which holds no definition
            flops = value_of(self.program.flops, dims)
        else:
            from tensorlang.codegen.cost import operation_count  # noqa: PLC0415 - few calls ask

            flops = operation_count.flops(origin.plain, dims).value
        return {"flops": flops, "bytes": value_of(self.program.bytes, dims)}

    def inspect(self, form: str = "nest") -> str:
        """The loop nest, the optimised LLVM IR or the assembly as text: "nest", "llvm" or "asm".

        Raises `CallError` for another form.
        """
        match form if isinstance(form, str) else None:
            case "nest":
                return self.program.nest
            case "llvm" | "asm":
                return self._rendered("llvm" if form == "llvm" else "asm")
            case _:
                raise CallError(f"{self.name}: inspect() has no form {form!r:.60}{did_you_mean(str(form), FORMS)}")

    def _rendered(self, form: Literal["llvm", "asm"]) -> str:
        """Made again from the source, which LLVM can be given: that of a file is first tried in a process that may die of it."""
        compiled = self.program.compiled
        if self.program.origin is None and (reason := features.compiles_apart(compiled.source, compiled.machine)) is not None:
            raise CallError(f"{self.name}: LLVM cannot read the source that the kernel's file holds: {reason}")
        return safe_compilation.rendered(compiled.source, compiled.machine, form, compiled.passes)

    def bind(self, /, *inputs: Any, **keywords: Any) -> Callable[[], Any]:
        """A call without arguments, for repeated use of the same buffers; outputs that are not given are allocated once.

        Raises `CallError` as a call does.
        """
        signature, more = self.program.signature, dict(keywords)
        caller = self._linked.chosen(more)
        invocation = caller.prepared(inputs, dict(more))
        named = dict(zip((argument.name for argument in signature.inputs), invocation.arrays, strict=False))  # the outputs follow
        passed = [named[argument.name] for argument in signature.passed if argument.name not in self.program.bound]
        if invocation.copied:  # a copy would not see later changes: convert at every call
            return functools.partial(self, *inputs, **{**keywords, "out": invocation.result})
        fast = caller is self._caller and type(invocation.result) is np.ndarray and set(more) <= {"out", WORKSPACE}
        if fast and self._make_fast(caller):
            return functools.partial(self, *passed, out=invocation.result, **handed.plain(invocation))
        return functools.partial(caller.run, invocation)

    def time(self, /, *inputs: Any, repeats: int = 10, **keywords: Any) -> Timing:
        """Time calls with these arguments, warm: `repeats` samples in seconds, each of a millisecond or more.

        Raises `CallError` as a call does.
        """
        return timing.sample(self.bind(*inputs, **keywords), repeats)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.program.signature} for {self.program.target}>"
