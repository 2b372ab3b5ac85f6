"""The storage of an intermediate: found by name, and replaced by another wherever it is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tensorlang.errors import did_you_mean
from tensorlang.ir import Alloc, Buffer, Expr, Load, Nest, Prefetch, Stmt, Store
from tensorlang.ir.mentions import allocations
from tensorlang.ir.traverse import map_children, map_expressions, map_statements
from tensorlang.schedules.directive import Refusal


def intermediate(nest: Nest, tensor: str) -> Buffer:
    """The storage of an intermediate or a local copy, by name. Raises `Refusal`."""
    found = {buffer.name: buffer for buffer in allocations(nest.body)}
    if tensor in found:
        return found[tensor]
    for kind, buffers in (("an input", nest.inputs), ("a result", nest.outputs)):
        if any(buffer.name == tensor for buffer in buffers):
            raise Refusal(
                "TL-S301", f"{tensor!r} is {kind} of the kernel, whose storage belongs to the caller; cache or pack it", stage=tensor
            )
    raise Refusal("TL-S003", f"there is no intermediate tensor {tensor!r}{did_you_mean(tensor, list(found))}", stage=tensor)


def restored(nest: Nest, buffer: Buffer, index: Callable[[tuple[Expr, ...]], tuple[Expr, ...]] = lambda index: index) -> Nest:
    """The nest with the buffer of that name replaced, its elements where `index` says."""
    return replace(nest, body=stored_in(nest.body, buffer, index))


def stored_in(stmt: Stmt, buffer: Buffer, index: Callable[[tuple[Expr, ...]], tuple[Expr, ...]] = lambda index: index) -> Stmt:
    """A statement in which `buffer` stands for the buffer of that name, its elements where `index` says."""

    def read(expr: Expr) -> Expr:
        expr = map_children(expr, read)
        if isinstance(expr, Load) and getattr(expr.buffer, "name", "") == buffer.name:
            return Load(buffer, index(expr.index))
        return expr

    def rewrite(part: Stmt) -> Stmt:
        part = map_statements(part, rewrite)
        match part:
            case Alloc(buffers, body):
                return Alloc(tuple(buffer if old.name == buffer.name else old for old in buffers), body)
            case Prefetch(old, at) if old.name == buffer.name:
                return Prefetch(buffer, index(at))
            case Store(buffers=buffers) if any(old.name == buffer.name for old in buffers):
                return replace(part, buffers=tuple(buffer if old.name == buffer.name else old for old in buffers), index=index(part.index))
            case _:
                return part

    return rewrite(map_expressions(stmt, read))
