"""Which stages may be moved or written into others: those that alone write a tensor, and read of it what a box of theirs holds.

A recurrence reads its own elements. Along the dimensions in which it reads them just where it writes, `y[i - 1, j]` along `j`, a box of it
needs nothing of the rest; along the others it is computed whole and in order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from tensorlang.ir import Buffer, Expr, Load, Nest, Stmt, Store
from tensorlang.ir.linear import linear
from tensorlang.ir.mentions import among, mentions
from tensorlang.ir.traverse import expressions, nodes
from tensorlang.schedules.directive import Refusal


def require_movable(nest: Nest, stage: str, buffers: Iterable[Buffer], loop: str = "") -> None:
    """Raise `Refusal` where any element of a stage may need all others, or another stage writes its tensor, too (the state of a scan)."""
    buffers = tuple(buffers)
    names = {buffer.name for buffer in buffers}
    for store in (part for part in _mentioning(nest, stage, names) if isinstance(part, Store)):
        if store.stage not in (stage, f"{stage}.init") and not names.isdisjoint(buffer.name for buffer in store.buffers):
            raise Refusal("TL-S301", f"{store.stage!r} writes the tensor of {stage!r} too, so it is computed whole", stage=stage, loop=loop)
    if not along_itself(nest, stage, buffers) and reads_itself(nest, stage, buffers):
        raise Refusal("TL-S301", f"{stage!r} reads its own elements, so it is computed whole and in order", stage=stage, loop=loop)


def reads_itself(nest: Nest, stage: str, buffers: Iterable[Buffer]) -> bool:
    """Is a stage a recurrence, the sums in its expressions included?"""
    return any(True for _ in _own_reads(nest, stage, {buffer.name for buffer in buffers}))


def along_itself(nest: Nest, stage: str, buffers: Iterable[Buffer]) -> frozenset[int]:
    """The dimensions along which a stage reads of what it writes the same place alone: all of one that is no recurrence."""
    buffers = tuple(buffers)
    names, found = {buffer.name for buffer in buffers}, frozenset(range(len(buffers[0].shape)))
    own = (part for part in _mentioning(nest, stage, names) if isinstance(part, Store) and part.stage in (stage, f"{stage}.init"))
    places = {store.index for store in own}
    for index in _own_reads(nest, stage, names):
        found = frozenset(place for place in found if all(linear(index[place]) == linear(written[place]) for written in places))
    return found


def _mentioning(nest: Nest, stage: str, names: Iterable[str]) -> Iterator[Stmt]:
    """What mentions a stage's tensors, or what its expressions hold."""
    inner = (part for part in mentions(nest.body).stages if part.startswith(f"{stage}."))
    return among(nest.body, (stage, *inner, *names))


def _own_reads(nest: Nest, stage: str, names: Collection[str]) -> Iterator[tuple[Expr, ...]]:
    """Where a stage reads what it makes, in its expressions, the sums inside these, and the conditions and ends of loops around them."""
    for part in _mentioning(nest, stage, names):
        if any(name == stage or name.startswith(f"{stage}.") for name in mentions(part).stages):
            every = nodes(*expressions(part))
            yield from (node.index for node in every if isinstance(node, Load) and getattr(node.buffer, "name", "") in names)
