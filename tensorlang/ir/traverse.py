"""Generic functions over the grammar of `ir`: types, operands, rebuilding, walking, substitution.

Every total function over expressions or statements is one `match` closed by `assert_never`; passes are written with `map_children`
and `map_statements`, so that a new node is a new case here and not a new method everywhere.

Passes ask for operands hundreds of thousands of times, so the cases of `children` and `dtype_of` name fields, not positions, and stand in
the order of their frequency: a pattern of positions takes five times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import is_
from typing import Any, Final, assert_never

from tensorlang.ir import (
    Alloc,
    Axis,
    Binary,
    Block,
    Call,
    Cast,
    Compare,
    Const,
    Dim,
    Expr,
    For,
    If,
    Load,
    Param,
    Prefetch,
    Reduce,
    Select,
    Stmt,
    Store,
    Unary,
    allocate,
    block,
)
from tensorlang.ir.dtype import BOOL, INT64, DType

SHORT_POWER_BITS: Final = 32
"""Bits of a base of which products are taken in float64, and rounded once: each is exact to 2 ** -52."""
MOST_FACTORS: Final = 6
"""Factors of such a product: of the least number that float32 has, 2 ** -149, that power is still a normal one of float64."""


def dtype_of(expr: Expr) -> DType:
    """The type of an expression's value."""
    while True:
        match expr:
            case Binary():
                expr = expr.left
            case Axis() | Dim():
                return INT64
            case Load():
                return expr.buffer.dtype
            case Const() | Param() | Cast() | Call():
                return expr.dtype
            case Unary():
                expr = expr.value
            case Select():
                expr = expr.yes
            case Compare():
                return BOOL
            case Reduce():
                return expr.reducer.identities[expr.component].dtype
            case _:
                assert_never(expr)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct operands of an expression, in order."""
    match expr:
        case Binary() | Compare():
            return (expr.left, expr.right)
        case Axis() | Const() | Dim() | Param():
            return ()
        case Load():
            return expr.index
        case Cast() | Unary():
            return (expr.value,)
        case Select():
            return (expr.cond, expr.yes, expr.no)
        case Call():
            return expr.args
        case Reduce():
            bounds = tuple(bound for axis in expr.axes for bound in (axis.lo, axis.hi))
            return (*expr.values, *bounds, *(() if expr.where is None else (expr.where,)))
        case _:
            assert_never(expr)


def map_children(expr: Expr, fn: Callable[[Expr], Expr]) -> Expr:
    """The same node over `fn` of each operand; the node itself where nothing changed."""
    old = children(expr)
    return _over(expr, old, tuple(map(fn, old))) if old else expr


def _over(expr: Expr, old: tuple[Expr, ...], new: tuple[Expr, ...]) -> Expr:
    """The same node over other operands; itself where they are the same."""
    if all(map(is_, old, new)):
        return expr
    match expr:
        case Binary():
            return Binary(expr.op, new[0], new[1])
        case Compare():
            return Compare(expr.op, new[0], new[1])
        case Load():
            return Load(expr.buffer, new, expr.exists and new == old)
        case Cast():
            return Cast(new[0], expr.dtype, expr.fits and new == old)
        case Unary():
            return Unary(expr.op, new[0])
        case Select():
            return Select(new[0], new[1], new[2])
        case Call():
            return Call(expr.function, new, expr.dtype)
        case Reduce(_, values, axes, where, _):
            at = len(values)
            ranges = tuple(replace(axis, lo=new[at + 2 * n], hi=new[at + 2 * n + 1]) for n, axis in enumerate(axes))
            return replace(expr, values=new[:at], axes=ranges, where=None if where is None else new[-1])
        case Const() | Axis() | Dim() | Param():
            return expr
        case _:
            assert_never(expr)


def sides_of_and(cond: Expr) -> Iterator[Expr]:
    """The conditions that a condition joins by `and`, as they stand (`bounds.conjuncts` also turns what is negated)."""
    match cond:
        case Binary("and", left, right):
            yield from sides_of_and(left)
            yield from sides_of_and(right)
        case _:
            yield cond


def shared(expr: Expr, table: dict[tuple[object, ...], Expr]) -> Expr:
    """The same expression in which equal nodes are one: that of `table`, which grows by those that are new.

    Rewriting takes an expression for a tree; where parts of it stand many times, most of that tree are copies.
    """
    found: dict[int, Expr] = {}
    for node, parts in operands_first((expr,), found):
        same = tuple([found[id(part)] for part in parts])
        made = _over(node, parts, same) if parts else node
        found[id(node)] = table.setdefault((type(made), *_label(made), *map(id, same)), made)
    return found[id(expr)]


def operands_first(roots: Iterable[Expr], done: Container[int]) -> Iterator[tuple[Expr, tuple[Expr, ...]]]:
    """Every node with its operands, after these, once. Who asks puts the identity of each into `done` before it asks for the next."""
    stack: list[Any] = [*roots]
    while stack:
        node = stack.pop()
        if type(node) is tuple:  # its operands are done
            yield node
        elif id(node) not in done:
            parts = children(node)
            if parts:
                stack.append((node, parts))
                stack.extend(parts[::-1])
            else:
                yield node, parts


def _label(expr: Expr) -> tuple[object, ...]:
    """What a node says beside its operands."""
    match expr:
        case Binary() | Compare() | Unary():
            return (expr.op,)
        case Axis() | Dim():
            return (expr.name,)
        case Const():
            return repr(expr.value), expr.dtype
        case Load():
            return id(expr.buffer), expr.exists
        case Param():
            return expr.name, expr.dtype
        case Call():
            return expr.function, expr.dtype
        case Cast():
            return expr.dtype, expr.fits
        case Select():
            return ()
        case Reduce():
            return (id(expr),)
        case _:
            assert_never(expr)


def walk(expr: Expr) -> Iterator[Expr]:
    """Every node of an expression, parents first."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(children(node)[::-1])


def nodes(*exprs: Expr) -> Iterator[Expr]:
    """Every node of some expressions once, also those that several others share."""
    stack, seen = [*exprs], set[int]()
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            stack.extend(children(node))


def rewrite(expr: Expr, fn: Callable[[Expr], Expr]) -> Expr:
    """The expression from its leaves up, each node replaced by what `fn` makes of it over its new operands.

    It needs no recursion, so that depth costs no frames, and asks `fn` once for a part that several nodes share.
    """
    done: dict[int, Expr] = {}
    for node, parts in operands_first((expr,), done):
        done[id(node)] = fn(_over(node, parts, tuple([done[id(part)] for part in parts])) if parts else node)
    return done[id(expr)]


def sizes_and_depths(expr: Expr) -> dict[int, tuple[int, int]]:
    """Of each part by its identity its nodes, shared ones as often as they are used, and those on the longest way down to a leaf."""
    found: dict[int, tuple[int, int]] = {}
    for node, parts in operands_first((expr,), found):
        inner = [found[id(part)] for part in parts]
        found[id(node)] = 1 + sum(size for size, _ in inner), 1 + max((deep for _, deep in inner), default=0)
    return found


def depth(expr: Expr) -> int:
    """The number of nodes on the longest way from the root to a leaf."""
    return sizes_and_depths(expr)[id(expr)][1]


def whole_power(expr: Call) -> int | None:
    """The exponent of a power that is a short product: a literal whole number, of a base of 32 bits or fewer; else None."""
    if expr.function != "pow" or not isinstance(expr.args[1], Const) or dtype_of(expr.args[0]).bits > SHORT_POWER_BITS:
        return None
    exponent = float(expr.args[1].value)
    return int(exponent) if exponent.is_integer() and 0 < abs(exponent) <= MOST_FACTORS else None


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """The expression with axes replaced by name."""
    return rewrite(expr, lambda node: values.get(node.name, node) if isinstance(node, Axis) else node)


def axes_of(expr: Expr) -> frozenset[str]:
    """Names of the axes that an expression reads."""
    return frozenset(node.name for node in nodes(expr) if isinstance(node, Axis))


def loads_of(expr: Expr) -> Iterator[Load]:
    """Every load in an expression, also those inside indices."""
    return (node for node in walk(expr) if isinstance(node, Load))


def reads_data(expr: Expr) -> bool:
    """Does data tell its value, so that it is not known where the loops stand?"""
    return any(isinstance(node, Load) for node in nodes(expr))


def substatements(stmt: Stmt) -> tuple[Stmt, ...]:
    """The direct parts of a statement, in order."""
    match stmt:
        case For() | Alloc():
            return (stmt.body,)
        case Store() | Prefetch():
            return ()
        case Block():
            return stmt.body
        case If():
            return (stmt.then,) if stmt.orelse is None else (stmt.then, stmt.orelse)
        case _:
            assert_never(stmt)


def unless_empty(stmt: Stmt) -> Stmt:
    """A statement, or nothing for a loop or a condition around nothing."""
    match stmt:
        case For(body=Block(())) | If(then=Block(()), orelse=None):
            return Block(())
        case _:
            return stmt


def map_statements(stmt: Stmt, fn: Callable[[Stmt], Stmt]) -> Stmt:
    """The same statement over `fn` of each direct part; itself where nothing changed."""
    old = substatements(stmt)
    new = tuple(map(fn, old))
    if all(map(is_, old, new)):
        return stmt
    match stmt:
        case For():
            return For(stmt.loop, stmt.lo, stmt.hi, new[0], stmt.kind, stmt.follows, stmt.instruction)
        case Alloc():
            return allocate(stmt.buffers, new[0])
        case Block():
            return block(*new)
        case If():
            return If(stmt.cond, new[0], new[1] if len(new) > 1 else None)
        case Store() | Prefetch():
            return stmt
        case _:
            assert_never(stmt)


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions that a statement itself holds, its parts' aside."""
    match stmt:
        case Store():
            return (*stmt.index, *stmt.values)
        case For():
            return (stmt.lo, stmt.hi)
        case If():
            return (stmt.cond,)
        case Alloc():
            return tuple(extent for buffer in stmt.buffers for extent in buffer.shape)
        case Prefetch():
            return stmt.index
        case Block():
            return ()
        case _:
            assert_never(stmt)


def map_expressions(stmt: Stmt, fn: Callable[[Expr], Expr]) -> Stmt:
    """The statement over `fn` of every whole expression in it and in its parts."""
    return map_own_expressions(map_statements(stmt, lambda part: map_expressions(part, fn)), fn)


def map_own_expressions(stmt: Stmt, fn: Callable[[Expr], Expr]) -> Stmt:
    """The statement over `fn` of every whole expression that it itself holds, its parts' and the shape of its storage aside.

    Itself where nothing changed: what is kept for a statement is found by its identity.
    """
    old = () if isinstance(stmt, Alloc) else expressions(stmt)
    new = tuple(map(fn, old))
    if all(map(is_, old, new)):
        return stmt
    match stmt:
        case Store():
            at = len(stmt.index)
            return Store(stmt.stage, stmt.buffers, new[:at], new[at:], stmt.reducer, stmt.stream)
        case For():
            return For(stmt.loop, new[0], new[1], stmt.body, stmt.kind, stmt.follows, stmt.instruction)
        case If():
            return If(new[0], stmt.then, stmt.orelse)
        case Prefetch():
            return Prefetch(stmt.buffer, new, stmt.level)
        case Alloc() | Block():
            return stmt
        case _:
            assert_never(stmt)


def statements(stmt: Stmt) -> Iterator[Stmt]:
    """Every statement within `stmt`, outermost first, in program order."""
    stack = [stmt]
    while stack:
        part = stack.pop()
        yield part
        stack.extend(reversed(substatements(part)))


def read_in(expr: Expr) -> frozenset[str]:
    """The names of the buffers that an expression reads."""
    return frozenset(getattr(node.buffer, "name", "") for node in nodes(expr) if isinstance(node, Load))


def written_in(stmt: Stmt) -> frozenset[str]:
    """The names of the buffers that a statement writes."""
    return frozenset(buffer.name for part in statements(stmt) if isinstance(part, Store) for buffer in part.buffers)
