"""The object of an exported kernel: its code for one or several processors, the entries, and the default hooks, as one module.

The code of a kernel is a function of its own name; here that is the entry's, so the code is called `name.kernel`, with the number of the
level where there are several. Functions carry the processor that they are for, so that all of them stand in one object. What only this
object calls is made internal once everything is in one module, and LLVM optimises across.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tensorlang.codegen.cache.program import Program
from tensorlang.codegen.export import dispatch, entries, hooks, metadata
from tensorlang.codegen.export.interface import Interface
from tensorlang.codegen.llvm import binding, features, safe_compilation
from tensorlang.codegen.llvm.binding import MAX_TEXT, Compiled, TargetMachine
from tensorlang.codegen.runtime.workspaces import SUFFIX
from tensorlang.codegen.target import Target
from tensorlang.errors import BuildError, InternalError

MOST_BOUND: Final = 2 << 20
"""Bytes of fixed operands that the code holds: they are spelled in the module's text."""

_SEAL: Final = re.compile(r'^@"tensorlang\.interface\.[0-9a-f]+" = constant i8 0$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Module:
    """The LLVM IR of an object, and the processor that all of it may assume."""

    name: str
    text: str
    machine: TargetMachine

    def compiled(self) -> Compiled:
        """Its machine code. Raises `BuildError`."""
        return safe_compilation.compiled(self.text, self.machine)

    def rendered(self, form: str) -> bytes:
        """What LLVM makes of it, to read: "ll" or "s". Raises `BuildError`."""
        return safe_compilation.rendered(self.text, self.machine, "llvm" if form == "ll" else "asm").encode()


def module(programs: Sequence[Program], interface: Interface) -> Module:
    """The module of a kernel, compiled for each of several targets, the best first. Raises `BuildError`."""
    held = sum(array.nbytes for array in interface.bound.values())
    if held > MOST_BOUND:
        raise BuildError(
            f"the kernel {interface.name!r} cannot be exported: its fixed operands have {held:,} bytes, the limit is {MOST_BOUND:,}; "
            "export the kernel that takes them as arguments"
        )
    base = programs[-1]
    names = [f"{interface.name}.kernel.{place}" if len(programs) > 1 else f"{interface.name}.kernel" for place in range(len(programs))]
    codes = [_code(program, name) for program, name in zip(programs, names, strict=True)]
    told = json.dumps({**metadata.short(base, interface), "targets": [str(program.target) for program in programs]}, separators=(",", ":"))
    choose = dispatch.CHOOSE if len(programs) > 1 else None
    parts = [
        entries.module(interface, base.target, names, told, choose),
        entries.CHECKS,
        *codes,
        hooks.runtime("\n".join(codes), pointer_bits(base.target)),
    ]
    if choose is not None:
        parts.append(dispatch.module([program.target for program in programs]))
    if sum(map(len, parts)) > MAX_TEXT:
        raise BuildError(f"the kernel {interface.name!r} cannot be exported: with its targets and operands it is too large")
    text = binding.linked(parts, base.target.triple)
    return Module(interface.name, re.sub(r"^(define|declare) hidden ", r"\1 internal ", text, flags=re.MULTILINE), base.target.machine)


def pointer_bits(target: Target) -> int:
    """The width of an address."""
    return 64 if "64" in target.arch else 32


def _code(program: Program, name: str) -> str:
    """The LLVM IR of a kernel as a hidden function of another name, which calls the hooks."""
    text, own = program.compiled.source, program.compiled_as.name
    if program.origin is None and (reason := features.compiles_apart(text, program.compiled.machine)) is not None:
        raise BuildError(f"LLVM cannot read the source that the file of {own!r} holds: {reason}")
    text, count = re.subn(rf'^define i32 @"{re.escape(own)}"\(', f'define hidden i32 @"{name}"(', text, flags=re.MULTILINE)
    if count != 1:
        raise InternalError(f"the code of {own} does not define one function of that name")
    text = text.replace(f'@"{own}{SUFFIX}"', f'@"{name}{SUFFIX}"').replace(
        f'define i32 @"{name}{SUFFIX}"', f'define hidden i32 @"{name}{SUFFIX}"'
    )
    return hooks.redirected(_SEAL.sub("", text))


def symbols(made: Module) -> list[str]:
    """The names that an object defines for others: its entries and the hooks in it."""
    return sorted(re.findall(r'^define (?:weak )?\w+ @"?([A-Za-z_][A-Za-z0-9_]*)"?\(', made.text, re.MULTILINE))
