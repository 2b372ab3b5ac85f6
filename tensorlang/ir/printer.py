"""Text of expressions and nests: pseudo-Python that a newcomer reads without a manual.

Axes print by their short names ("C.i_o" as `i_o`) wherever that is unambiguous in the nest around them. A derived axis is explained
where its outer loop starts (`# i = 8 i_o + i_i   guard`), and every store ends with the stage that it is an instance of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import assert_never

from tensorlang.ir import (
    Alloc,
    Axis,
    Binary,
    Block,
    Buffer,
    Call,
    Cast,
    Compare,
    Const,
    Dim,
    Expr,
    For,
    FuseRelation,
    If,
    Load,
    Nest,
    Param,
    Prefetch,
    Reduce,
    Relation,
    Select,
    SplitRelation,
    Stmt,
    Store,
    Unary,
    WindowRelation,
)
from tensorlang.ir.relations import in_scope, sides
from tensorlang.ir.traverse import substatements

_BINARY = {
    "or": (3, "|"), "xor": (4, "^"), "and": (5, "&"), "shl": (6, "<<"), "shr": (6, ">>"),
    "add": (7, "+"), "sub": (7, "-"), "mul": (8, "*"), "div": (8, "/"), "floordiv": (8, "//"), "mod": (8, "%"),
}  # fmt: skip
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FUNCTION = {"min": "minimum", "max": "maximum"}
UPDATE = {"sum": "+=", "prod": "*="}
_HEADER = {"serial": "for", "parallel": "parallel", "vector": "vector", "unroll": "unroll", "tensor": "tensor"}
_WHERE = {"register": "in registers", "stack": "on stack", "heap": "on heap", "auto": "", "argument": ""}
_COMMENT_COLUMN = 60


def short(name: str) -> str:
    """The part of an axis name that the user wrote: "C.i_o" is `i_o`, the definition's "i#4" is `i`."""
    return name.split("#", 1)[0].rsplit(".", 1)[-1]


def spoken(name: str) -> str:
    """What messages call an axis: as `short`, and one that its user gave no name `r` and its number, "r4" for "#4"."""
    return short(name) or f"r{name.removeprefix('#')}"


def text(expr: Expr, name: Callable[[str], str] = spoken, level: int = 0) -> str:
    """An expression as Python; `name` spells axes, `level` is the binding strength of what stands around it."""

    def sub(operand: Expr, level: int = 0) -> str:
        return text(operand, name, level)

    def wrap(own: int, spelled: str) -> str:
        return f"({spelled})" if own < level else spelled

    match expr:
        case Const(value, _):
            return wrap(9, repr(value)) if not isinstance(value, bool) and value < 0 else repr(value)
        case Axis(axis):
            return name(axis)
        case Dim(dim):
            return dim
        case Param(param, _):
            return param
        case Load(buffer, index):
            return f"{getattr(buffer, 'name', None) or '?'}[{', '.join(sub(part) for part in index)}]"
        case Cast(value, dtype):
            return f"{dtype}({sub(value)})"
        case Unary("abs", value):
            return f"abs({sub(value)})"
        case Unary(op, value):
            return wrap(9, f"{'-' if op == 'neg' else '~'}{sub(value, 10)}")
        case Binary(op, left, right):
            if op not in _BINARY:
                return f"{_FUNCTION.get(op, op)}({sub(left)}, {sub(right)})"
            own, symbol = _BINARY[op]
            return wrap(own, f"{sub(left, own)} {symbol} {sub(right, own + 1)}")
        case Compare(op, left, right):
            return wrap(2, f"{sub(left, 3)} {_COMPARE[op]} {sub(right, 3)}")
        case Select(cond, yes, no):
            return f"select({sub(cond)}, {sub(yes)}, {sub(no)})"
        case Call(function, args, _):
            return f"{function}({', '.join(sub(part) for part in args)})"
        case Reduce(reducer, values, axes, where, _):
            ranges = ", ".join(f"{name(axis.name)} in {_range(axis.lo, axis.hi, name)}" for axis in axes)
            condition = "" if where is None else f" where {sub(where)}"
            return f"{reducer.name}({', '.join(sub(part) for part in values)} for {ranges}{condition})"
        case _:
            assert_never(expr)


def _range(lo: Expr, hi: Expr, name: Callable[[str], str]) -> str:
    start = "" if lo == Const(0) else f"{text(lo, name)}, "
    return f"range({start}{text(hi, name)})"


def equation(relation: Relation, name: Callable[[str], str] = short) -> str:
    """The equation of a relation, as its directive states it."""

    def plus(base: Expr, rest: str) -> str:
        return rest if base == Const(0) else f"{text(base, name, 7)} + {rest}"

    match relation:
        case SplitRelation(parent, outer, inner, factor, lo, _, tail):
            return f"{name(parent)} = {plus(lo, f'{factor} {name(outer)} + {name(inner)}')}   {tail}"
        case FuseRelation(fused, outer, inner, outer_lo, inner_lo, extent):
            by = text(extent, name, 9)
            return f"{name(outer)} = {plus(outer_lo, f'{name(fused)} // {by}')}, {name(inner)} = {plus(inner_lo, f'{name(fused)} % {by}')}"
        case WindowRelation(parent, inner, base, _, _):
            return f"{name(parent)} = {plus(base, name(inner))}"
        case _:
            assert_never(relation)


def _described_by(relation: Relation) -> str:
    match relation:
        case SplitRelation(outer=loop) | FuseRelation(fused=loop) | WindowRelation(inner=loop):
            return loop
        case _:
            assert_never(relation)


def _names(nest: Nest) -> Callable[[str], str]:
    """Short names, but full ones for the axes that are anywhere in scope beside another of the same short name.

    So the header of a loop and every use of it say the same.
    """
    clashing: set[str] = set()
    open_scopes: list[tuple[Stmt, tuple[str, ...]]] = [(nest.body, ())]
    while open_scopes:
        stmt, scope = open_scopes.pop()
        if isinstance(stmt, For):
            scope = (*scope, stmt.loop)
            axes = {*scope, *(axis for relation in in_scope(nest, scope) for axis in sides(relation)[1])}
            count = Counter(map(short, axes))
            clashing |= {axis for axis in axes if count[short(axis)] > 1}
        open_scopes += [(part, scope) for part in substatements(stmt)]
    return lambda axis: axis if axis in clashing else short(axis)


def print_nest(nest: Nest, marks: Mapping[str, str] | None = None) -> str:
    """The nest as pseudo-Python. `marks` appends a note to the header of a loop, by its full name."""
    return "\n".join(line for line, _ in printed_lines(nest, marks))


def printed_lines(nest: Nest, marks: Mapping[str, str] | None = None) -> list[tuple[str, Stmt | None]]:
    """The lines of `print_nest`, each with the statement that it prints; None for the signature."""
    arguments = ", ".join(_declared(buffer) for buffer in nest.inputs)
    results = ", ".join(_declared(buffer) for buffer in nest.outputs)
    bounds = "".join(f", {least} <= {name} <= {most}" for name, least, most in nest.limits)
    head = f"{nest.name}({arguments}) -> {results}{bounds}"
    return [(head, None), *_lines(nest.body, nest, "    ", _names(nest), marks or {})]


def _declared(buffer: Buffer, name: Callable[[str], str] = short) -> str:
    extents = [text(extent, name) for extent in buffer.shape]
    for axis, (extent, held) in enumerate(zip(buffer.shape, buffer.allocated, strict=False)):
        extents[axis] += "" if held == extent else f" of {text(held, name)}"
    return f"{buffer.name}: {buffer.dtype}[{', '.join(extents)}]{f' over {buffer.over}' if buffer.over else ''}"


def _lines(stmt: Stmt, nest: Nest, pad: str, name: Callable[[str], str], marks: Mapping[str, str]) -> Iterator[tuple[str, Stmt]]:
    match stmt:
        case For(loop, lo, hi, body, kind, _):
            notes = [equation(relation, name) for relation in nest.relations if _described_by(relation) == loop]
            notes += [stmt.instruction] if stmt.instruction is not None else []
            notes += [marks[loop]] if loop in marks else []
            yield _with_note(f"{pad}{_HEADER[kind]} {name(loop)} in {_range(lo, hi, name)}:", "; ".join(dict.fromkeys(notes))), stmt
            yield from _lines(body, nest, pad + "    ", name, marks)
        case Store(stage, buffers, index, values, reducer):
            targets = [f"{buffer.name}[{', '.join(text(part, name) for part in index)}]" for buffer in buffers]
            new = ", ".join(text(value, name) for value in values)
            if reducer is None:
                line = f"{', '.join(targets)} = {new}"
            elif reducer.name in UPDATE:
                line = f"{targets[0]} {UPDATE[reducer.name]} {new}"
            else:
                line = f"{', '.join(targets)} = {reducer.name}({', '.join(targets)}, {new})"
            yield _with_note(pad + line, f"{stage}   stream" if stmt.stream else stage), stmt
        case Block(body):
            for part in body:
                yield from _lines(part, nest, pad, name, marks)
        case If(cond, then, orelse):
            yield f"{pad}if {text(cond, name)}:", stmt
            yield from _lines(then, nest, pad + "    ", name, marks)
            if orelse is not None:
                yield f"{pad}else:", stmt
                yield from _lines(orelse, nest, pad + "    ", name, marks)
        case Alloc(buffers, body):
            for buffer in buffers:
                aligned = f"aligned to {buffer.align}" if buffer.align else ""
                yield " ".join(filter(None, [pad + _declared(buffer, name), _WHERE[buffer.memory], aligned])), stmt
            yield from _lines(body, nest, pad, name, marks)
        case Prefetch(buffer, index, level):
            where = "" if level == 1 else f" to L{level}"
            yield f"{pad}prefetch {buffer.name}[{', '.join(text(part, name) for part in index)}]{where}", stmt
        case _:
            assert_never(stmt)


def _with_note(line: str, note: str) -> str:
    return f"{line:<{_COMMENT_COLUMN}} # {note}" if note else line
