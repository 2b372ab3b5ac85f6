"""The objects of an exported sequence: its entries, and the code of its kernels as it runs here, so that results have the same bits.

A kernel's object is taken as it is. Where it starts threads, or another kernel's has the same symbol, its IR is compiled again under a name
of its own, for one thread: no symbol of OpenMP's may be defined for a program that uses OpenMP itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tensorlang.codegen.cache.program import Program
from tensorlang.codegen.emission.parallel import THREAD, THREADS
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.runtime import symbols as linked, workspaces
from tensorlang.codegen.runtime.workers import SYMBOLS as PARALLEL
from tensorlang.codegen.runtime.workspaces import SUFFIX
from tensorlang.codegen.target import Target
from tensorlang.errors import BuildError
from tensorlang.kernels.bundles import entry_ir
from tensorlang.kernels.bundles.image import COPY, Image


@dataclass(frozen=True, slots=True)
class Object:
    """A relocatable object, and the symbols that it defines for others."""

    name: str
    code: bytes
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Objects:
    """All objects of a program, that of the entries first, and the processor that they are for."""

    objects: tuple[Object, ...]
    target: Target


def objects(image: Image) -> Objects:
    """Raises `BuildError` for kernels of several processors, or of one that addresses less than 64 bits."""
    programs = [function.program for function in image.functions if function.program is not None]
    targets = {str(program.target): program.target for program in programs}
    if not targets:
        raise BuildError(f"{image.name} cannot be exported: it has no kernel, since all its results are views of its inputs and constants")
    if len(targets) != 1:
        raise BuildError(f"{image.name} cannot be exported: its kernels are for {', '.join(targets)}")
    (target,) = targets.values()
    if "64" not in target.arch:
        raise BuildError(f"{image.name} cannot be exported for {target}: sequences are exported for processors of 64 bits")
    taken: dict[str, bytes] = {}
    names, made = [], list[Object]()
    for number, function in enumerate(image.functions):
        if function.program is None:
            names.append(COPY)
            continue
        code, own = function.program.compiled.object, function.program.compiled_as.name
        symbol = function.symbol
        outside = set(linked.undefined_symbols(code))
        if workspaces.TAKE in outside:
            raise BuildError(f"{image.name} cannot be exported: {own} has intermediates that no size bounds")
        if taken.setdefault(own, code) != code or not outside.isdisjoint((*PARALLEL, THREADS)):
            fresh = f"{image.name}_{number}"
            code, symbol = _renamed(function.program, fresh), symbol.replace(own, fresh, 1)
            own = fresh
        names.append(symbol)
        if all(other.code != code for other in made):
            both = (own, own + SUFFIX) if symbol.endswith(SUFFIX) else (own,)
            made.append(Object(own, code, both))
    text = entry_ir.module(image, names)
    first = binding.compile_module(text, target.machine, handwritten=True).object
    entries = (image.name, f"{image.name}_weights", f"{image.name}_dispatch", *entry_ir.HOOKS)
    return Objects((Object(image.name, first, entries), *made), target)


def _renamed(program: Program, name: str) -> bytes:
    """The code of a kernel under another name, on one thread."""
    own, text = program.compiled_as.name, program.compiled.source
    text = text.replace(f'@"{own}"', f'@"{name}"').replace(f'@"{own}{SUFFIX}"', f'@"{name}{SUFFIX}"')
    text = re.sub(r'^@"tensorlang\.interface\.[0-9a-f]+" = constant i8 0$', "", text, flags=re.MULTILINE)
    text = re.sub(rf'^@"{THREADS}" = external global i32.*$', f'@"{THREADS}" = internal constant i32 1', text, flags=re.MULTILINE)
    text = re.sub(rf'^declare i32 @"{THREAD}"\(\).*$', f'define internal i32 @"{THREAD}"() {{\n  ret i32 0\n}}', text, flags=re.MULTILINE)
    return binding.compile_module(text, program.compiled.machine, program.compiled.passes).object
