"""Modules of LLVM IR that are no kernels: compiled once for this processor, kept in a file where kernels are, and linked."""

from __future__ import annotations

from collections.abc import Mapping

from tensorlang.codegen.cache import object_files
from tensorlang.codegen.cache.interface_symbol import with_interface
from tensorlang.codegen.cache.program import Program
from tensorlang.codegen.cache.program_key import digest
from tensorlang.codegen.cache.signature import Signature
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.runtime import symbols
from tensorlang.codegen.target import target


def linked(text: str, exports: tuple[str, ...], outside: Mapping[str, int] | None = None) -> binding.Library:
    """The module in this process, with the addresses of what it calls `outside` (None: as for a kernel). Whoever asks keeps it.

    Raises `InternalError` for a text that LLVM refuses.
    """
    here = target()

    def compiled() -> Program:
        nothing = Signature("run", (), ())
        return Program(nothing, here, binding.compile_module(with_interface(text, nothing, here), here.machine, handwritten=True))

    code = object_files.cached_program(digest(here, text), compiled).compiled.object
    return symbols.load_object(code, exports) if outside is None else binding.link(code, exports, outside)
