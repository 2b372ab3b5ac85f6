"""Conditions on extents, and on what tables hold, as text: `n % 8 == 0`, `(n >= 64) & (at[0] == 1)`.

A directive holds such a condition as text, so that it hashes, prints and goes into JSON as what a user would write. Text is read with
Python's parser and nothing is evaluated: names are dims, those with literal places operands of integers, and only the arithmetic and the
comparisons of extents are known. Whether there is such an operand is for the directive to find out.
"""

from __future__ import annotations

import ast
from typing import Final

from tensorlang import ir
from tensorlang.definition.expr import Expr as Value
from tensorlang.ir import Binary, Buffer, Compare, Const, Dim, Expr, Load, Unary
from tensorlang.ir.dtype import BOOL, INT64
from tensorlang.ir.printer import text
from tensorlang.ir.traverse import dtype_of, walk
from tensorlang.schedules.directive import Refusal

MAX_TEXT: Final = 4000
MAX_DEPTH: Final = 200
MAX_LITERAL: Final = 1 << 48
_ARITHMETIC: Final[dict[type[ast.AST], str]] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod"}
_LOGIC: Final[dict[type[ast.AST], str]] = {ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.And: "and", ast.Or: "or"}
_COMPARE: Final[dict[type[ast.AST], str]] = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
_CALLS: Final = {"minimum": "min", "maximum": "max"}


def condition_text(condition: object) -> str:
    """The text of a condition given as text or as an expression over dims and tables. Raises `Refusal`."""
    match condition:
        case str():
            return text(parsed(condition))
        case Value():
            return text(parsed(text(_checked(condition.node, repr(condition)))))
        case bool():
            raise Refusal("TL-S005", "== between extents compares how they are written; give the condition as text, 'n % 8 == 0'")
        case _:
            raise Refusal("TL-S005", f"a condition is an expression over dims and tables or its text, not {condition!r:.40}")


def parsed(condition: object) -> Expr:
    """The condition that a text spells. Raises `Refusal` for anything else than a comparison of extents and tables."""
    if not isinstance(condition, str) or len(condition) > MAX_TEXT:
        raise Refusal("TL-S005", f"a condition is text of at most {MAX_TEXT} characters, not {condition!r:.40}")
    try:
        tree = ast.parse(condition.strip(), mode="eval").body
        if _depth(tree) > MAX_DEPTH:
            raise Refusal("TL-S005", f"{condition!r:.60} is nested too deeply for a condition (at most {MAX_DEPTH} levels)")
        return _checked(_read(tree, condition), condition)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Refusal("TL-S005", f"{condition!r:.60} cannot be read as a condition") from None


def _depth(node: ast.AST) -> int:
    return 1 + max((_depth(child) for child in ast.iter_child_nodes(node)), default=0)


def _read(node: ast.expr, condition: str) -> Expr:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool) and abs(value) <= MAX_LITERAL:
            return ir.const(value)
        case ast.Name(id=name):
            return Dim(name)
        case ast.Subscript(value=ast.Name(id=name), slice=place):
            return Load(Buffer(name, (), INT64), tuple(_place(part, condition) for part in _places(place)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Unary("neg", _typed(operand, condition, INT64))
        case ast.UnaryOp(op=ast.Invert() | ast.Not(), operand=operand):
            return Unary("not", _typed(operand, condition, BOOL))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return Binary(_ARITHMETIC[type(op)], _typed(left, condition, INT64), _typed(right, condition, INT64))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _LOGIC:
            return Binary(_LOGIC[type(op)], _typed(left, condition, BOOL), _typed(right, condition, BOOL))
        case ast.BoolOp(op=op, values=[first, *rest]):
            result = _typed(first, condition, BOOL)
            for part in rest:
                result = Binary(_LOGIC[type(op)], result, _typed(part, condition, BOOL))
            return result
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            return Compare(_COMPARE[type(op)], _typed(left, condition, INT64), _typed(right, condition, INT64))
        case ast.Call(func=ast.Name(id=name), args=[left, right], keywords=[]) if name in _CALLS:
            return Binary(_CALLS[name], _typed(left, condition, INT64), _typed(right, condition, INT64))
        case _:
            raise Refusal("TL-S005", f"{ast.unparse(node)!r:.60} has no place in a condition on extents")


def _places(node: ast.expr) -> tuple[ast.expr, ...]:
    return tuple(node.elts) if isinstance(node, ast.Tuple) else (node,)


def _place(node: ast.expr, condition: str) -> Expr:
    found = _read(node, condition)
    if not isinstance(found, Const):
        raise Refusal("TL-S005", f"{ast.unparse(node)!r:.60} in {condition!r:.60} is no literal place of a table")
    return found


def _typed(node: ast.expr, condition: str, dtype: str) -> Expr:
    found = _read(node, condition)
    if dtype_of(found) != dtype:
        raise Refusal("TL-S005", f"{ast.unparse(node)!r:.60} in {condition!r:.60} is {dtype_of(found)}, where {dtype} is needed")
    return found


def _checked(node: Expr, condition: str) -> Expr:
    """`node`, if it is a condition over dims and tables."""
    for part in walk(node):
        is_known = isinstance(part, (Binary, Compare, Const, Dim, Unary)) or (isinstance(part, Load) and part.buffer.dtype.is_integer)
        if not is_known:
            raise Refusal("TL-S005", f"{condition!r:.60} does not depend on dims and integers of tables alone")
    if dtype_of(node) != BOOL:
        raise Refusal("TL-S005", f"{condition!r:.60} is no condition; compare it, as in 'n % 8 == 0'")
    return node
