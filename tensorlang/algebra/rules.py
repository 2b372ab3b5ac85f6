"""Algebra on expressions, as a table: one equation a row.

A row is (name, pattern, result). Patterns are functions on a node whose operands are already simplified; they return the new
expression or None. Every row holds for all values of its operands, and ends: the result is smaller or a literal. Sums and multiples
are equal modulo 2**64, as the language's integers are; rows that divide or compare ask that nothing can wrap, so they leave arithmetic
on data alone. Floating-point arithmetic has no rows, because none holds for NaN, infinities and signed zeros alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Final, TypeAlias

from tensorlang import ir
from tensorlang.algebra.bounds import interval
from tensorlang.ir import COMPARE as COMPARISONS, Axis, Binary, Cast, Compare, Const, Dim, Expr, Select, Unary
from tensorlang.ir.dtype import BOOL, INT64
from tensorlang.ir.integers import COMPARE
from tensorlang.ir.linear import Linear, expression, linear
from tensorlang.ir.traverse import dtype_of, walk

SMALL: Final = 1 << 31
LARGEST: Final = (1 << 63) - 1
TRUE: Final = Const(True, BOOL)
FALSE: Final = Const(False, BOOL)


def conjunction(conditions: Iterable[Expr]) -> Expr:
    """Some conditions as one, at least one of them; `bounds.conjuncts` takes it apart."""
    return reduce(lambda left, right: Binary("and", left, right), conditions)


def _is_index(expr: Expr) -> bool:
    return dtype_of(expr) == INT64


def _whole(expr: Expr) -> bool:
    """Is an int64 expression the integer that it spells, with no wrapping? Indices are: small multiples of axes and dims."""
    return all(map(_is_small, walk(expr))) or interval(expr) is not None


def _is_small(node: Expr) -> bool:
    if isinstance(node, Const):
        return abs(node.value) < SMALL
    return isinstance(node, (Axis, Dim, Unary)) or (isinstance(node, Binary) and node.op != "shl")


def sum_of_terms(node: Expr) -> Expr | None:
    """x + y - z  ->  the linear form, like terms collected."""
    if isinstance(node, (Binary, Unary)) and node.op in ("add", "sub", "mul", "neg") and _is_index(node):
        form = linear(node)
        if all(abs(value) <= LARGEST for value in (form.constant, *form.terms.values())):
            return expression(form)
    return None


def quotient_of_shift(node: Expr) -> Expr | None:
    """x >> k  ->  x // 2**k,   x & (2**k - 1)  ->  x % 2**k;   both round down."""
    match node:
        case Binary("shr", value, Const(by)) if _is_index(node) and 0 < by < INT64.bits - 1:
            return Binary("floordiv", value, ir.const(1 << int(by)))
        case Binary("and", value, Const(mask)) if _is_index(node) and mask > 0 and int(mask) & (int(mask) + 1) == 0:
            return Binary("mod", value, ir.const(int(mask) + 1))
        case _:
            return None


def floor_of_multiple(node: Expr) -> Expr | None:
    """(c*x + r) // c  ->  x + r // c;   x // 1 -> x;   literals."""
    if isinstance(node, Binary) and node.op == "floordiv" and _is_index(node) and isinstance(node.right, Const) and node.right.value > 0:
        if not _whole(node.left):
            return None
        by, form = int(node.right.value), linear(node.left)
        whole = Linear(form.constant // by, {atom: factor // by for atom, factor in form.terms.items() if factor % by == 0})
        rest = Linear(form.constant % by, {atom: factor for atom, factor in form.terms.items() if factor % by})
        if rest.is_constant:
            return expression(whole)
        if whole.terms or whole.constant:
            return expression(whole.plus(Linear(0, {Binary("floordiv", expression(rest), node.right): 1})))
    return None


def remainder_of_multiple(node: Expr) -> Expr | None:
    """(c*x + r) % c  ->  r % c;   literals."""
    if isinstance(node, Binary) and node.op == "mod" and _is_index(node) and isinstance(node.right, Const) and node.right.value > 0:
        if not _whole(node.left):
            return None
        by, form = int(node.right.value), linear(node.left)
        rest = Linear(form.constant % by, {atom: factor for atom, factor in form.terms.items() if factor % by})
        if rest.is_constant:
            return ir.const(rest.constant)
        if rest != form:
            return Binary("mod", expression(rest), node.right)
    return None


def extremum_of_shifted(node: Expr) -> Expr | None:
    """min(x + a, x + b)  ->  x + min(a, b);   the same for max."""
    if isinstance(node, Binary) and node.op in ("min", "max") and _is_index(node):
        difference = linear(node.left).plus(linear(node.right), -1)
        if difference.is_constant and (node.left == node.right or (_whole(node.left) and _whole(node.right))):
            return node.left if (difference.constant <= 0) == (node.op == "min") else node.right
    return None


def clamped_to_one(node: Expr) -> Expr | None:
    """min(max(x, a), b)  ->  b   where a >= b, for integer literals;   the same for max of min where a <= b."""
    match node:
        case Binary("min" | "max" as op, Binary("min" | "max" as inner, _, Const(bound)), Const(limit) as result) if op != inner:
            reached = bound >= limit if op == "min" else bound <= limit
            return result if reached and result.dtype.is_integer else None
        case _:
            return None


def decided_comparison(node: Expr) -> Expr | None:
    """x + a < x + b  ->  a < b, and x < x  ->  false, for integers."""
    if isinstance(node, Compare) and (node.left == node.right or _is_index(node.left)):
        if node.left == node.right and not dtype_of(node.left).is_floating:
            return TRUE if COMPARE[node.op](0, 0) else FALSE
        difference = linear(node.left).plus(linear(node.right), -1)
        if difference.is_constant and _whole(node.left) and _whole(node.right):
            return TRUE if COMPARE[node.op](difference.constant, 0) else FALSE
    return None


def decided_logic(node: Expr) -> Expr | None:
    """true & x -> x;  false & x -> false;  and the duals;  ~literal;  x & x -> x, on bool."""
    match node:
        case Binary("and" | "or" as op, left, right) if dtype_of(left) == BOOL:
            absorbing, neutral = (FALSE, TRUE) if op == "and" else (TRUE, FALSE)
            if absorbing in (left, right):
                return absorbing
            if left in (neutral, right):
                return right
            return left if right == neutral else None
        case Unary("not", Const(bool(value))):
            return FALSE if value else TRUE
        case _:
            return None


def decided_choice(node: Expr) -> Expr | None:
    """select(true, x, y) -> x;  select(false, x, y) -> y;  select(c, x, x) -> x."""
    if isinstance(node, Select):
        if node.cond == TRUE or node.yes == node.no:
            return node.yes
        return node.no if node.cond == FALSE else None
    return None


def vacuous_cast(node: Expr) -> Expr | None:
    """t(x) -> x where x is a t."""
    return node.value if isinstance(node, Cast) and dtype_of(node.value) == node.dtype else None


Rule: TypeAlias = "Callable[[Expr], Expr | None]"

RULES: Final[Mapping[Rule, tuple[object, ...]]] = {
    sum_of_terms: ("add", "sub", "mul", "neg"),
    quotient_of_shift: ("shr", "and"),
    floor_of_multiple: ("floordiv",),
    remainder_of_multiple: ("mod",),
    extremum_of_shifted: ("min", "max"),
    clamped_to_one: ("min", "max"),
    decided_comparison: COMPARISONS,
    decided_logic: ("and", "or", "not"),
    decided_choice: (Select,),
    vacuous_cast: (Cast,),
}
"""The rows in the order in which they are tried, each with the kinds of nodes (see `kind_of`) that it is about."""


def kind_of(node: Expr) -> object:
    """The operator of a node, or its class where it has none."""
    return node.op if isinstance(node, (Binary, Unary, Compare)) else type(node)


ROWS_OF: Final[Mapping[object, tuple[tuple[int, Rule], ...]]] = {
    kind: tuple((place, rule) for place, (rule, kinds) in enumerate(RULES.items()) if kind in kinds)
    for kind in {kind for kinds in RULES.values() for kind in kinds}
}
"""The rows about a kind of nodes, with their places in the order: most nodes are asked for by none or one."""
