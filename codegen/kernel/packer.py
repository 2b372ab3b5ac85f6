"""A scheduled nest and one of its operands: split into a nest that packs the operand and one that reads what that wrote.

A stage that copies the operand, or computes from it alone (its padding, another type), becomes the first; panels become one tensor, with a
dimension for each loop around them on which they depend.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Alloc, Axis, Binary, Buffer, Const, Expr, For, If, Load, Nest, Stmt
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, expressions, loads_of, map_children, map_expressions, statements
from tensorlang.schedules.rewriting.copies import pruned
from tensorlang.schedules.rewriting.edit import literal_extent, nested, path_to, remove, stores, without_alloc


@dataclass(frozen=True, slots=True)
class PackedOperand:
    """What became of an operand: the nest that packs it into `packed`, and the nest that reads `packed` instead."""

    packer: Nest
    packed: Buffer
    rest: Nest


def split(nest: Nest, operand: Buffer) -> PackedOperand | None:
    """The two nests; None where no single copy stands for all uses of the operand, or an extent is not a literal.

    A stage that computes from the operand alone, as padding does, is such a copy.
    """
    copies = [store for store in stores(nest.body) if any(load.buffer == operand for value in store.values for load in loads_of(value))]
    if len(copies) != 1:
        return None
    (copy,) = copies
    (target, *others), value = copy.buffers, copy.values[0]
    path = path_to(nest.body, lambda part: isinstance(part, Alloc) and target in part.buffers)
    if others or not path or copy.reducer is not None or len(list(loads_of(value))) != 1:
        return None
    if sum(target in store.buffers for store in stores(nest.body)) != 1 or _in_indices(nest, operand):
        return None
    home = path[-1]
    assert isinstance(home, Alloc)
    below = path_to(home, lambda part: part is copy)
    inside = [part for part in below if isinstance(part, For)]
    around = [part for part in path if isinstance(part, For)]
    conditions = [part for part in (*path, *below) if isinstance(part, If)]
    if any(not path_to(part.then, lambda part: part is copy) for part in conditions):
        return None
    tested = [part.cond for part in conditions]
    used = closure(nest, frozenset().union(*(axes_of(expr) for expr in (value, *copy.index, *tested, *_bounds(inside)))))
    kept = [part for part in around if part.loop in used]
    extents = [literal_extent(part) for part in kept]
    lows = [part.lo.value if isinstance(part.lo, Const) else None for part in kept]
    if None in extents or None in lows or not all(isinstance(extent, Const) for extent in target.shape):
        return None
    leading = tuple(simplify(Binary("sub", Axis(part.loop), part.lo)) for part in kept)
    packed = replace(
        target,
        name=_free(f"{operand.name}_packed", nest),
        shape=(*(ir.const(extent or 0) for extent in extents), *target.shape),
        memory="auto",
    )
    body: Stmt = replace(copy, buffers=(packed,), index=(*leading, *copy.index))
    for cond in tested:
        body = If(cond, body)
    body = nested(inside, body)
    for loop in reversed(kept):
        body = For(loop.loop, loop.lo, loop.hi, body)
    packer = pruned(Nest(f"pack_{operand.name}", (operand,), (packed,), (), body, nest.relations))
    rest = remove(nest.body, lambda part: part is copy)
    if rest is None:
        return None
    rest = _redirected(without_alloc(rest, target), target, packed, leading)
    inputs = tuple(packed if buffer == operand else buffer for buffer in nest.inputs)
    return PackedOperand(packer, packed, pruned(replace(nest, inputs=inputs, body=rest)))


def split_all(nest: Nest, operands: Iterable[str]) -> tuple[dict[str, tuple[PackedOperand, ...]], Nest]:
    """How these inputs are packed, each in some steps, and what is left of the nest to do in a call after that."""
    found = {}
    for name in operands:
        own: list[PackedOperand] = []
        operand = next(buffer for buffer in nest.inputs if buffer.name == name)
        while (parts := split(nest, operand)) is not None:  # what a stage makes of an operand alone may be packed in its turn
            own.append(parts)
            operand, nest = parts.packed, parts.rest
        found[name] = tuple(own)
    return found, nest


def _free(name: str, nest: Nest) -> str:
    """The name, or a longer one that no argument has."""
    taken = {buffer.name for buffer in (*nest.inputs, *nest.outputs)}
    while name in taken:
        name += "_"
    return name


def _bounds(loops: list[For]) -> tuple[Expr, ...]:
    return tuple(bound for loop in loops for bound in (loop.lo, loop.hi))


def _in_indices(nest: Nest, operand: Buffer) -> bool:
    """Is the operand read anywhere but in the values of stores: in an index, a bound or a condition?"""
    found = 0
    for part in statements(nest.body):
        found += sum(load.buffer == operand for expr in expressions(part) for load in loads_of(expr))
    return found != 1


def _redirected(stmt: Stmt, old: Buffer, new: Buffer, leading: tuple[Expr, ...]) -> Stmt:
    def visit(expr: Expr) -> Expr:
        expr = map_children(expr, visit)
        return replace(expr, buffer=new, index=(*leading, *expr.index)) if isinstance(expr, Load) and expr.buffer == old else expr

    return map_expressions(stmt, visit)
