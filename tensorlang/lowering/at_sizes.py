"""A program at sizes: the nest that it has where some of its dims are these literals.

Loops, stages and tensors keep their names, so that a schedule of one can be tried on the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Alloc, Buffer, Dim, Expr, Load, Prefetch, Stmt, Store
from tensorlang.ir.relations import rebounded
from tensorlang.ir.traverse import map_own_expressions, map_statements, rewrite
from tensorlang.lowering.program import LoweredProgram


def at_sizes(program: LoweredProgram, sizes: Mapping[str, int]) -> LoweredProgram:
    """The unscheduled nest of a program with the dims in `sizes` as literals; no definition stands behind it."""
    literals = {name: ir.const(size) for name, size in sizes.items()}
    known: dict[Buffer, Buffer] = {}

    def sized(buffer: Buffer) -> Buffer:
        if buffer not in known:
            known[buffer] = replace(buffer, shape=tuple(map(literal, buffer.shape)))
        return known[buffer]

    def node(part: Expr) -> Expr:
        if isinstance(part, Dim):
            return literals.get(part.name, part)
        return Load(sized(part.buffer), part.index) if isinstance(part, Load) and isinstance(part.buffer, Buffer) else part

    def literal(expr: Expr) -> Expr:
        return simplify(rewrite(expr, node))

    def statement(stmt: Stmt) -> Stmt:
        part = map_own_expressions(map_statements(stmt, statement), literal)
        match part:
            case Alloc(buffers, body):
                return Alloc(tuple(map(sized, buffers)), body)
            case Store():
                return replace(part, buffers=tuple(map(sized, part.buffers)))
            case Prefetch():
                return replace(part, buffer=sized(part.buffer))
            case _:
                return part

    nest = program.nest
    made = replace(
        nest,
        inputs=tuple(map(sized, nest.inputs)),
        outputs=tuple(map(sized, nest.outputs)),
        dims=tuple(dim for dim in nest.dims if dim not in sizes),
        body=statement(nest.body),
        limits=tuple(limit for limit in nest.limits if limit[0] not in sizes),
        relations=tuple(rebounded(relation, literal) for relation in nest.relations),
        products=(),
    )
    return LoweredProgram(made, storage=tuple(map(sized, program.storage)), pinned=program.pinned)
