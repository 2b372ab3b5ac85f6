"""The storage of an intermediate: found by name, and replaced by another wherever it is used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TypeAlias

from tensorlang.errors import did_you_mean
from tensorlang.ir import Alloc, Buffer, Expr, Load, Nest, Prefetch, Stmt, Store
from tensorlang.ir.mentions import allocations, mentions
from tensorlang.ir.traverse import map_children, map_expressions, map_statements, substatements
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.rewriting.edit import stores

Change: TypeAlias = Callable[[Buffer], Buffer]
Move: TypeAlias = Callable[[tuple[Expr, ...]], tuple[Expr, ...]]


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


def storages(nest: Nest, tensor: str) -> Iterator[tuple[tuple[Stmt, ...], Alloc, Buffer]]:
    """Every place where an intermediate is stored, with the statements around it: versions of a nest have one each."""

    def visit(part: Stmt, around: tuple[Stmt, ...]) -> Iterator[tuple[tuple[Stmt, ...], Alloc, Buffer]]:
        if isinstance(part, Alloc):
            yield from ((around, part, buffer) for buffer in part.buffers if buffer.name == tensor)
        if tensor in mentions(part).allocated:
            for inner in substatements(part):
                yield from visit(inner, (*around, part))

    yield from visit(nest.body, ())


def stored_with(nest: Nest, tensor: str) -> tuple[str, ...]:
    """A tensor and those that statements store together with it, all at one index."""
    together = [[buffer.name for buffer in store.buffers] for store in stores(nest.body) if len(store.buffers) > 1]
    found = {tensor: None}
    while more := [name for names in together if not found.keys().isdisjoint(names) for name in names if name not in found]:
        found |= dict.fromkeys(more)
    return tuple(found)


def restored(nest: Nest, tensors: Collection[str], change: Change, index: Move = lambda index: index) -> Nest:
    """The nest with the storage of intermediates replaced by what `change` makes of it, their elements where `index` says."""
    return replace(nest, body=stored_in(nest.body, tensors, change, index))


def stored_in(stmt: Stmt, tensors: Collection[str], change: Change, index: Move = lambda index: index) -> Stmt:
    """A statement with every storage of those names replaced."""

    def read(expr: Expr) -> Expr:
        expr = map_children(expr, read)
        if isinstance(expr, Load) and isinstance(expr.buffer, Buffer) and expr.buffer.name in tensors:
            return Load(change(expr.buffer), index(expr.index))
        return expr

    def changed(buffers: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
        return tuple(change(buffer) if buffer.name in tensors else buffer for buffer in buffers)

    def rewrite(part: Stmt) -> Stmt:
        part = map_statements(part, rewrite)
        match part:
            case Alloc(buffers, body):
                return Alloc(changed(buffers), body)
            case Prefetch(buffer, at) if buffer.name in tensors:
                return replace(part, buffer=change(buffer), index=index(at))
            case Store(buffers=buffers) if any(buffer.name in tensors for buffer in buffers):
                return replace(part, buffers=changed(buffers), index=index(part.index))
            case _:
                return part

    return rewrite(map_expressions(stmt, read))
