"""Integer sets: the only file that talks to islpy.

Every question the compiler asks ("can this index leave the tensor", "do two iterations touch one element in the wrong order") is one
question: is there an integer point at which a boolean `ir` expression holds? `find` answers it exactly for quasi-affine expressions
and returns the point, which becomes the concrete example in an error. What is not affine (a loaded value, a product of two axes) is
an unknown of its own: equal expressions are equal unknowns, and each lies in the range of its type. So an answer "no point" is
always right, and a point may be spurious only where data decides.

islpy is loaded on use: it costs import time, and most definitions are decided by intervals alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tensorlang.dtype import BOOL, INT64
from tensorlang.ir import Axis, Binary, Cast, Compare, Const, Dim, Expr, Load, Select, Unary
from tensorlang.traverse import dtype_of

if TYPE_CHECKING:
    from types import ModuleType

MAX_OPERATIONS: Final = 1_000_000
INDEX_LIMIT: Final = 1 << 48
_EXACT_LIMIT: Final = 1 << 62
_COMPARE: Final = {"eq": "=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_NEGATED: Final = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


@cache
def _isl() -> ModuleType:
    import islpy  # noqa: PLC0415 - see the module docstring

    return islpy


@cache
def _context() -> Any:
    """The one isl context, our own; its operation limit keeps a hostile formula from running for ever."""
    context = _isl().Context()
    context.set_max_operations(MAX_OPERATIONS)
    return context


Ranges: TypeAlias = Mapping[Expr, tuple[int, int]]
_EVERYWHERE: Final[Ranges] = {}


def interval(expr: Expr, known: Ranges = _EVERYWHERE) -> tuple[int, int] | None:
    """Bounds on an integer expression that hold for all axes and data, or None where its arithmetic could wrap.

    `known` are bounds on axes and dims that hold as well.
    """
    found: tuple[int, int] | None = None
    match expr:
        case Const(value, _):
            found = (int(value), int(value))
        case Axis() | Dim():
            found = known.get(expr, (-INDEX_LIMIT, INDEX_LIMIT))
        case Binary("add" | "sub" | "mul" | "min" | "max" as op, left, right):
            a, b = interval(left, known), interval(right, known)
            if a is not None and b is not None:
                found = _arithmetic(op, a, b)
        case Unary("neg", value):
            a = interval(value, known)
            found = None if a is None else (-a[1], -a[0])
        case Binary("floordiv", value, Const(by)) if by > 0:
            a = interval(value, known)
            found = None if a is None else (a[0] // int(by), a[1] // int(by))
        case Binary("mod", _, Const(by)) if by > 0:
            found = (0, int(by) - 1)
        case Select(_, yes, no):
            a, b = interval(yes, known), interval(no, known)
            found = None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))
        case Cast(value, _) if dtype_of(value).is_integer:
            found = interval(value, known)
        case _:
            pass
    of = dtype_of(expr)
    if not of.is_integer:
        return (0, 1) if of == BOOL else None
    whole = (int(of.lowest), int(of.highest))
    if found is None:
        return whole if isinstance(expr, (Load, Cast)) or of.bits < INT64.bits else None
    return found if whole[0] <= found[0] and found[1] <= whole[1] else None


def _arithmetic(op: str, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    match op:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "sub":
            return a[0] - b[1], a[1] - b[0]
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case _:
            corners = [x * y for x in a for y in b]
            return min(corners), max(corners)


@dataclass(slots=True)
class _Writer:
    """Spells expressions in isl's notation; each axis, dim and unknown becomes a variable."""

    known: Ranges = field(default_factory=dict)
    variables: dict[Expr, str] = field(default_factory=dict)
    constraints: list[str] = field(default_factory=list)

    def variable(self, expr: Expr) -> str:
        name = self.variables.get(expr)
        if name is None:
            name = self.variables[expr] = f"v{len(self.variables)}"
            if isinstance(expr, Dim):
                self.constraints.append(f"0 <= {name} <= {INDEX_LIMIT}")
            elif not isinstance(expr, Axis):
                bounds = interval(expr, self.known)
                if bounds is not None:
                    self.constraints.append(f"{bounds[0]} <= {name} <= {bounds[1]}")
        return name

    def integer(self, expr: Expr) -> str:
        bounds = interval(expr, self.known)
        exact = bounds is not None and bounds[0] > -_EXACT_LIMIT and bounds[1] < _EXACT_LIMIT
        match expr:
            case Const(value, _):
                return f"({int(value)})"
            case Binary("add" | "sub" as op, left, right) if exact:
                return f"({self.integer(left)} {'+' if op == 'add' else '-'} {self.integer(right)})"
            case Binary("mul", Const(by), value) | Binary("mul", value, Const(by)) if exact:
                return f"({int(by)} * {self.integer(value)})"
            case Unary("neg", value) if exact:
                return f"(-{self.integer(value)})"
            case Binary("min" | "max" as op, left, right):
                return f"{op}({self.integer(left)}, {self.integer(right)})"
            case Binary("floordiv", value, Const(by)) if by > 0:
                return f"floor({self.integer(value)}/{int(by)})"
            case Binary("mod", value, Const(by)) if by > 0:
                return f"({self.integer(value)} mod {int(by)})"
            case Cast(value, to) if (
                dtype_of(value).is_integer and to.is_integer and bounds is not None and bounds == interval(value, self.known)
            ):
                return self.integer(value)
            case Select(cond, yes, no):
                name = self.variable(expr)
                a, b = self.integer(yes), self.integer(no)
                self.constraints.append(
                    f"(({self.boolean(cond)}) and {name} = {a}) or (({self.boolean(cond, holds=False)}) and {name} = {b})"
                )
                return name
            case _:
                return self.variable(expr)

    def boolean(self, expr: Expr, *, holds: bool = True) -> str:
        match expr:
            case Const(bool(value)):
                return "1 = 1" if value == holds else "1 = 0"
            case Unary("not", value):
                return self.boolean(value, holds=not holds)
            case Binary("and" | "or" as op, left, right):
                joint = "and" if (op == "and") == holds else "or"
                return f"(({self.boolean(left, holds=holds)}) {joint} ({self.boolean(right, holds=holds)}))"
            case Compare(op, left, right) if dtype_of(left).is_integer:
                relation = op if holds else _NEGATED[op]
                a, b = self.integer(left), self.integer(right)
                return f"({a} < {b} or {a} > {b})" if relation == "ne" else f"{a} {_COMPARE[relation]} {b}"
            case _:
                return f"{self.variable(expr)} = {int(holds)}"


def _bounds(conditions: Sequence[Expr]) -> Ranges:
    """What conditions say of single axes and dims: with it, products with large literals are seen not to wrap."""
    known: dict[Expr, tuple[int, int]] = {}

    def least(part: Expr, limit: tuple[int, int] | None, apart: int) -> None:
        if isinstance(part, (Axis, Dim)) and limit is not None:
            low, high = known.get(part, (-INDEX_LIMIT, INDEX_LIMIT))
            known[part] = max(low, limit[0] + apart), high

    def most(part: Expr, limit: tuple[int, int] | None, apart: int) -> None:
        if isinstance(part, (Axis, Dim)) and limit is not None:
            low, high = known.get(part, (-INDEX_LIMIT, INDEX_LIMIT))
            known[part] = low, min(high, limit[1] - apart)

    waiting, comparisons = list(conditions), list[tuple[str, Expr, Expr]]()
    while waiting:
        match waiting.pop():
            case Binary("and", left, right):
                waiting += (left, right)
            case Compare("gt" | "ge" as turned, left, right) if dtype_of(left) == INT64:
                comparisons.append(("lt" if turned == "gt" else "le", right, left))
            case Compare("lt" | "le" | "eq" as op, left, right) if dtype_of(left) == INT64:
                comparisons.append((op, left, right))
            case _:
                pass
    for _ in range(2):  # a bound may be over axes that are bounded later
        for relation, left, right in comparisons:
            apart = int(relation == "lt")
            most(left, interval(right, known), apart)
            least(right, interval(left, known), apart)
            if relation == "eq":
                least(left, interval(right, known), 0)
                most(right, interval(left, known), 0)
    return {part: (low, high) for part, (low, high) in known.items() if low <= high}


def find(*conditions: Expr) -> dict[Expr, int] | None:
    """An integer point at which all conditions hold, as a value for each axis, dim and unknown; None if there is none.

    The point is empty where the question is too large to decide within `MAX_OPERATIONS`: there may be one, and nobody knows it.
    """
    writer = _Writer(_bounds(conditions))
    parts = [writer.boolean(condition) for condition in conditions] + writer.constraints
    isl, context = _isl(), _context()
    context.reset_operations()
    try:
        found = isl.Set.read_from_str(context, f"{{ [{', '.join(writer.variables.values())}] : {_joint(parts)} }}")
        if found.is_empty():
            return None
        point = found.sample_point()
    except isl.Error:
        return {}
    return {expr: int(point.get_coordinate_val(isl.dim_type.set, position).to_python()) for position, expr in enumerate(writer.variables)}


def _joint(parts: Sequence[str]) -> str:
    """All of some conditions in isl's notation."""
    return " and ".join(f"({part})" for part in parts) or "1 = 1"


def uncovered(wanted: Mapping[str, Sequence[Expr]], facts: Sequence[Expr], index: Mapping[str, Expr]) -> dict[str, int] | None:
    """A point over some axes that holds all of `wanted` and is no value of `index` anywhere that `facts` hold; None if there is none.

    `wanted` gives for each axis its conditions, over the axes and dims; `index` for each axis an expression over other axes, bounded by
    `facts`. The point is empty where that cannot be decided: where data decide, or the question is too large.
    """
    conditions = [condition for part in wanted.values() for condition in part]
    writer, image = _Writer(_bounds(conditions)), _Writer(_bounds(facts))
    for axis in wanted:
        writer.variable(Axis(axis))
    parts = [writer.boolean(condition) for condition in conditions]
    image.variables = dict(writer.variables)
    reached = [image.boolean(fact) for fact in facts]
    reached += [f"{writer.variables[Axis(axis)]} = {image.integer(expr)}" for axis, expr in index.items()]
    if not all(isinstance(part, (Axis, Dim, Select)) for part in image.variables):
        return {}
    for part in image.variables:
        if isinstance(part, Dim):
            image.variables[part] = writer.variables.setdefault(part, image.variables[part])
    parts += [f"0 <= {name} <= {INDEX_LIMIT}" for part, name in writer.variables.items() if isinstance(part, Dim)]
    shared = list(writer.variables.values())
    own = [name for name in image.variables.values() if name not in shared]
    every = f"{{ [{', '.join(shared)}] : {_joint([*parts, *writer.constraints])} }}"
    some = _joint([*reached, *image.constraints])
    some = f"{{ [{', '.join(shared)}] : " + (f"exists ({', '.join(own)} : {some})" if own else some) + " }"
    isl, context = _isl(), _context()
    context.reset_operations()
    try:
        left = isl.Set.read_from_str(context, every).subtract(isl.Set.read_from_str(context, some))
        if left.is_empty():
            return None
        point = left.sample_point()
    except isl.Error:
        return {}
    return {axis: int(point.get_coordinate_val(isl.dim_type.set, position).to_python()) for position, axis in enumerate(wanted)}
