"""Where intermediates lie in memory that a caller hands over.

A kernel that may need heap storage has a second function, `name.within`, which takes two words more: the memory, null for none, and for how
many threads it suffices. Each function of the kernel fills its part from below, like a stack, with what has a largest size: literal extents
and bounded dims. What has none is found by the kernel itself, as everything is where there is no memory.

    base | thread 0 | thread 1 | ... | spare

`base` is for the function itself. Threads of a parallel loop have a part each; one such loop runs at a time, so all share these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

from llvmlite import ir as llvm

from tensorlang import ir
from tensorlang.algebra.bounds import values
from tensorlang.codegen.emission.types import I64, POINTER, Builder, Value, literal
from tensorlang.ir.machine import LINE_BYTES
from tensorlang.ir.traverse import axes_of, walk

MOST: Final = 1 << 40
"""Bytes of one intermediate beyond which nobody hands memory over."""
UNLIMITED: Final = (1 << 31) - 1
"""For how many threads memory suffices that the kernel finds itself."""

_BASE: Final = "workspace.base"
_SHARE: Final = "workspace.share"


@dataclass(slots=True)
class Part:
    """What one function has of the memory: where it begins, how far it is filled now and at most, and what a thread needs at most."""

    memory: Value
    slots: Value
    top: int = 0
    peak: int = 0
    share: int = 0

    def take(self, size: int) -> int:
        """Room for so many bytes; gives where it begins, at a cache line."""
        start = self.top
        self.top += -(-size // LINE_BYTES) * LINE_BYTES
        self.peak = max(self.peak, self.top)
        return start

    def of_thread(self, builder: Builder, turn: Value) -> Value:
        """The memory of the thread that comes in this turn; null where there is none."""
        base, share = (builder.load(_constant(builder.module, name), typ=I64) for name in (_BASE, _SHARE))
        place = builder.gep(self.memory, [builder.add(base, builder.mul(turn, share))], source_etype=llvm.IntType(8))
        none = llvm.Constant(POINTER, None)
        return builder.select(builder.icmp_unsigned("==", self.memory, none), none, place)


def settle(module: llvm.Module, whole: Part) -> None:
    """Say how long the parts are, which is known once everything is emitted."""
    for name, size in ((_BASE, whole.peak), (_SHARE, whole.share)):
        if name in module.globals:
            module.globals[name].initializer = literal(I64, size)


def _constant(module: llvm.Module, name: str) -> Value:
    if name not in module.globals:
        made = llvm.GlobalVariable(module, I64, name)
        made.linkage, made.global_constant = "internal", True
    return module.globals[name]


def largest(buffer: ir.Buffer, limits: Mapping[ir.Expr, tuple[int, int]]) -> int | None:
    """The bytes of a buffer at most; None where nothing bounds them."""
    extents = []
    for extent in buffer.shape:
        if axes_of(extent):
            return None
        extents.append(max(0, values(extent, limits)[1]))
    size = prod(extents) * buffer.dtype.bytes
    return size if size <= MOST else None


def limits(nest: ir.Nest) -> dict[ir.Expr, tuple[int, int]]:
    """What the dims of a nest can be."""
    return {ir.Dim(name): (least, most) for name, least, most in nest.limits}


def may_need(buffers: Iterable[ir.Buffer], known: Mapping[ir.Expr, tuple[int, int]], alone: int, together: int) -> bool:
    """May one of these buffers stand on the heap, where `alone` and `together` bound what goes on the stack?

    One whose size is known only at a call does, however small it can be: the stack has what is declared when code is emitted.
    """
    sizes = [largest(buffer, known) if _on_stack(buffer) else MOST for buffer in buffers if buffer.memory in ("auto", "heap")]
    found = [MOST if size is None else size for size in sizes]
    return any(size > alone for size in found) or sum(found) > together


def _on_stack(buffer: ir.Buffer) -> bool:
    """Can storage that may be anywhere be declared?"""
    return buffer.memory == "auto" and not any(isinstance(node, ir.Dim) for extent in buffer.shape for node in walk(extent))
