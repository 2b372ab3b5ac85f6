"""The careful call: checked arguments in, the C function called, a typed error out. What every kernel call comes down to."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt

from tensorlang.codegen.cache.signature import Signature
from tensorlang.codegen.calling.arguments import Invocation, prepare
from tensorlang.codegen.llvm.binding import Library
from tensorlang.errors import CallError


class Caller:
    """A linked function with its signature. Calls release the interpreter lock; any number may run at once."""

    __slots__ = ("_run", "address", "bound", "fail", "library", "signature", "workspace_bytes")

    def __init__(
        self, signature: Signature, bound: Mapping[str, npt.NDArray[Any]], library: Library, workspace_bytes: int, symbol: str = ""
    ) -> None:
        self.signature = signature
        self.bound = bound
        self.workspace_bytes = workspace_bytes
        self.address = library.address(symbol or signature.name)
        count = len(signature.inputs) + len(signature.outputs)
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * count, *[ctypes.c_int64] * len(signature.dims))
        self.library = library
        self._run = kind(self.address)
        self.fail: Callable[[], Any] = _failure(signature.name, workspace_bytes)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Check, convert, run; see `arguments.prepare` for what is refused."""
        return self.run(prepare(self.signature, self.bound, args, keywords))

    def run(self, invocation: Invocation) -> Any:
        """Run on arrays that were checked before."""
        if self._run(*invocation.words):
            self.fail()
        return invocation.result


def _failure(name: str, workspace_bytes: int) -> Callable[[], Any]:
    """A function that raises; it refers to no kernel, so that a kernel may hold it without a cycle."""

    def fail() -> Any:
        size = f" of {workspace_bytes} bytes" if workspace_bytes else ""
        raise CallError(f"{name}: the workspace{size} could not be allocated; the contents of the output are undefined")

    return fail
