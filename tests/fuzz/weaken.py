"""Ways in which a part of the compiler may be weakened: wrappers around its functions, for `mutants` to inject."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.emission import affine, loops, parallel
from tensorlang.ir import Binary, Block, Compare, Const, Expr, For, If, Stmt
from tensorlang.ir.traverse import map_statements

Fault: TypeAlias = tuple[str, Callable[[], None]]
"""What is wrong with the compiler, and what makes it so in this process."""


def around(owner: Any, name: str, wrap: Callable[..., Any]) -> Callable[[], None]:
    """A fault that replaces `owner.name` by `wrap(old, ...)`."""

    def inject() -> None:
        old = getattr(owner, name)

        def new(*args: Any, **named: Any) -> Any:
            return wrap(old, *args, **named)

        setattr(owner, name, new)

    return inject


def constant(owner: Any, name: str, value: Any) -> Callable[[], None]:
    """A fault that makes a function give one value always."""
    return around(owner, name, lambda _old, *_args, **_named: value)


def every(owner: Any, name: str, change: Callable[[Any], Any]) -> Callable[[], None]:
    """A fault that changes what a function gives."""
    return around(owner, name, lambda old, *args, **named: change(old(*args, **named)))


def rewritten(stmt: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """A statement with every part changed."""
    return change(map_statements(stmt, lambda part: rewritten(part, change)))


def in_nest(change: Callable[[Stmt], Stmt]) -> Callable[[Any], Any]:
    """A change of every statement of a nest."""
    return lambda nest: dataclasses.replace(nest, body=rewritten(nest.body, change))


# Relations and tails --------------------------------------------------------------------------------------------------------------------


def guard_dropped(old: Any, relation: Any, *rest: Any) -> Any:
    found = old(relation, *rest)
    return None if isinstance(relation, ir.SplitRelation) else found


def guard_too_wide(old: Any, *args: Any) -> Any:
    found = old(*args)
    return Compare("le", found.left, found.right) if isinstance(found, Compare) and found.op == "lt" else found


def guard_too_narrow(old: Any, *args: Any) -> Any:
    found = old(*args)
    return Compare("lt", found.left, Binary("sub", found.right, ir.const(1))) if isinstance(found, Compare) and found.op == "lt" else found


def window_late(old: Any, relation: Any, scope: Any, values: Any) -> Any:
    if isinstance(relation, ir.WindowRelation):
        relation = dataclasses.replace(relation, base=simplify(Binary("add", relation.base, ir.const(1))))
    return old(relation, scope, values)


def fuse_swapped(old: Any, relation: Any, scope: Any, values: Any) -> Any:
    if isinstance(relation, ir.FuseRelation):
        relation = ir.FuseRelation(relation.fused, relation.inner, relation.outer, relation.outer_lo, relation.inner_lo, relation.extent)
    return old(relation, scope, values)


def fuse_extent_wrong(old: Any, relation: Any, scope: Any, values: Any) -> Any:
    if isinstance(relation, ir.FuseRelation):
        relation = dataclasses.replace(relation, extent=Binary("add", relation.extent, ir.const(1)))
    return old(relation, scope, values)


def split_stride_wrong(old: Any, relation: Any, scope: Any, values: Any) -> Any:
    if isinstance(relation, ir.SplitRelation) and relation.factor > 1:
        relation = dataclasses.replace(relation, factor=relation.factor - 1)
    return old(relation, scope, values)


def shift_start_wrong(old: Any, relation: Any, scope: Any, values: Any) -> Any:
    if isinstance(relation, ir.SplitRelation) and relation.tail == "shift":
        relation = dataclasses.replace(relation, hi=simplify(Binary("sub", relation.hi, ir.const(1))))
    return old(relation, scope, values)


def peel_main_too_long(old: Any, nest: Any, loop: Any, scope: Any, same: Any, extent: Any, rest: Any) -> Any:
    return old(nest, loop, scope, same, Binary("add", extent, ir.const(same[0].factor - 1)), rest)


def rest_unguarded(old: Any, nest: Any, loop: Any, scope: Any, value: Any) -> Any:
    return old(
        nest,
        loop,
        dataclasses.replace(scope, whole=scope.whole | {part.parent for part in nest.relations if isinstance(part, ir.SplitRelation)}),
        value,
    )


def slow_like_fast(part: Stmt) -> Stmt:
    return dataclasses.replace(part, orelse=part.then) if isinstance(part, If) and part.orelse is not None else part


def whole_at_start(left: Expr, right: Expr, tiles: dict[str, For]) -> Expr:
    from tensorlang.ir.traverse import substitute

    return simplify(substitute(left, {name: loop.lo for name, loop in tiles.items()})) if right is not None else left


def bound_short(old: Any, loop: For, condition: Expr) -> Any:
    found = old(loop, condition)
    return None if found is None else dataclasses.replace(found, hi=simplify(Binary("sub", found.hi, ir.const(1))))


def bound_long(old: Any, loop: For, condition: Expr) -> Any:
    return None if old(loop, condition) is None else loop


# Vectors --------------------------------------------------------------------------------------------------------------------------------


def last_pair_lost(old: Any, loop: str, lanes: int, body: Stmt) -> Any:
    return old(loop, lanes - 1 if ".sum" in loop and lanes > 1 else lanes, body)


def partial_starts_at_one(old: Any, loop: str, lanes: int, body: Any) -> Any:
    if loop.endswith(".part"):
        body = dataclasses.replace(
            body,
            values=tuple(
                Const(1.0 if value.dtype.is_floating else True if value.dtype == "bool" else 1, value.dtype) for value in body.values
            ),
        )
    return old(loop, lanes, body)


def rest_of_chunks_lost(old: Any, vector: Any, body: Any, lanes: Any) -> Any:
    found = old(vector, body, lanes)
    return found.body[0] if isinstance(found, Block) else found


def chunk_shifted(old: Any, body: Stmt, loop: str, start: Expr) -> Any:
    return old(body, loop, Binary("max", ir.const(0), Binary("sub", start, ir.const(1))))


def masks_lost(old: Any, stmt: Any, vector: Any, masks: Any) -> Any:
    return old(stmt, vector, masks[:-1])


def else_unmasked(old: Any, builder: Any, op: str, dtype: Any, value: Any) -> Any:
    return value if op == "not" and dtype == "bool" else old(builder, op, dtype, value)


# Memory ---------------------------------------------------------------------------------------------------------------------------------


def rows_by_first_extent(_old: Any, self: Any, index: Any, shape: Any) -> Any:
    total = affine.number(0)
    for place, extent in zip(index, (*shape[1:], *shape[:1]) if len(shape) > 1 else shape, strict=True):
        total = total * self.polynomial(extent) + self.polynomial(place)
    return total


def offset_of_eight_bits(old: Any, builder: Any, dtype: Any, base: Any, offset: Any) -> Any:
    from tensorlang.codegen.emission.types import filled, known

    return old(builder, dtype, base, offset if known(offset) is not None else builder.and_(offset, filled(offset.type, 127)))


def unmasked_store(old: Any, builder: Any, reached: Any, value: Any, mask: Any) -> Any:
    return old(builder, reached, value, None)


def unmasked_load(old: Any, builder: Any, target: Any, reached: Any, mask: Any) -> Any:
    return old(builder, target, reached, None)


def heap_too_small(old: Any, place: Any, buffer: ir.Buffer) -> Any:
    small = tuple(simplify(Binary("floordiv", extent, ir.const(2))) for extent in buffer.shape)
    return old(place, dataclasses.replace(buffer, shape=small))


def stack_too_small(old: Any, frame: Any, buffer: ir.Buffer) -> Any:
    if frame.space.depth > 1 and buffer.shape and isinstance(buffer.shape[0], Const) and int(buffer.shape[0].value) > 2:
        old(frame, dataclasses.replace(buffer, shape=(ir.const(1), *buffer.shape[1:])))
        return frame.place(buffer, frame.places[buffer.name].pointer)
    return old(frame, buffer)


def lanes_down(old: Any, inside: Any, atom: Any, value: Any) -> Any:
    """The lane number, counted downwards."""
    from tensorlang.codegen.emission.types import I64, literal

    return literal(I64, tuple(reversed(range(inside.lanes)))) if atom == affine.LANE else old(inside, atom, value)


# Arithmetic -----------------------------------------------------------------------------------------------------------------------------


def truncated(builder: Any, a: Any, b: Any) -> Any:
    from tensorlang.codegen.emission.types import filled

    zero = builder.icmp_signed("==", b, filled(b.type, 0))
    safe = builder.select(builder.or_(zero, builder.icmp_signed("==", b, filled(b.type, -1))), filled(b.type, 1), b)
    return builder.select(zero, filled(a.type, 0), builder.sdiv(a, safe))


def as_signed(old: Any, builder: Any, target: Any, op: str, dtype: Any, a: Any, b: Any) -> Any:
    from tensorlang.ir.dtype import DType

    return old(builder, target, op, DType(dtype[1:]) if dtype.startswith("uint") else dtype, a, b)


def table_row(table: dict[str, Any], name: str, value: Any) -> Callable[[], None]:
    """A fault that replaces a row of a table of operations."""

    def inject() -> None:
        if name not in table:
            raise KeyError(name)
        table[name] = value

    return inject


# Threads --------------------------------------------------------------------------------------------------------------------------------


class BadLoops:
    """The loops module as the threads see it, with a chunk that ends too early or too late."""

    def __init__(self, change: int) -> None:
        self.change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(loops, name)

    def counted(self, inside: Any, name: str, lo: Any, hi: Any, body: Any) -> None:
        """The loop of a chunk."""
        from tensorlang.codegen.emission.types import I64, literal

        loops.counted(inside, name, lo, inside.builder.add(hi, literal(I64, self.change)), body)


def bad_chunks(change: int) -> Callable[[], None]:
    """Chunks of a parallel loop lose an iteration or overlap."""

    def inject() -> None:
        setattr(parallel, "loops", BadLoops(change))  # noqa: B010 - the checker knows no such attribute

    return inject


def shared_counter_lost(_old: Any, inside: Any, loop: Any, body: Any, shares: Any, status: Any) -> None:
    loops.counted(inside, loop.loop, shares.lo, shares.hi, body)
    inside.builder.ret_void()
    del status
