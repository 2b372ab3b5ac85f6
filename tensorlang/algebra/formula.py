"""Conditions as text that isl reads: affine arithmetic as it stands, everything else as a variable and what is known of it.

Arithmetic modulo the width of a type is affine: a sum that may wrap is the ideal sum, and a number of turns of 2**bits away. So are shifts
and masks by a literal, narrowing casts, and quotients by a literal. A choice (`select`, the position of an `argmax`, a truth as a number)
is a variable that equals one of its sides. Integers that are cast to a type which holds them compare as themselves. What is left is
opaque: a load, a quotient by a dim, a product of two variables. Equal expressions are one variable, within the interval that `bounds`
finds, and of products and quotients a few laws are added.

So what a formula excludes is impossible, and a point of it is possible but for opaque variables.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tensorlang.algebra.bounds import INDEX_LIMIT, NEGATED, Bounds, chooses, identity_loses, is_single, negated
from tensorlang.algebra.extrema import by_sides, side_of
from tensorlang.algebra.integral import MIRRORED, of_integers
from tensorlang.algebra.interval import inside, whole
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Call, Cast, Compare, Const, Dim, Expr, Load, Reduce, Select, Unary
from tensorlang.ir.dtype import BOOL, DType
from tensorlang.ir.traverse import dtype_of, map_children, substitute

MAX_RUNS: Final = 8
MAX_PAIRS: Final = 6
_COMPARE: Final = {"eq": "=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@dataclass(slots=True)
class Formula:
    """The variables of expressions, and what holds of them by their meaning alone."""

    bounds: Bounds
    variables: dict[Expr, str] = field(default_factory=dict)
    constraints: list[str] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)
    products: dict[tuple[Expr, Expr], str] = field(default_factory=dict)
    _extents: set[Expr] = field(default_factory=set)
    _dims: set[tuple[str, int, int]] = field(default_factory=set)
    _loads: dict[Expr, Expr] = field(default_factory=dict)
    """The first spelling of each element that is loaded."""
    _literals: set[int] = field(default_factory=set)

    def boolean(self, expr: Expr, bounds: Bounds | None = None, *, holds: bool = True) -> str:
        """The condition, or its negation, as text."""
        here = self.bounds if bounds is None else bounds
        match expr:
            case Const(value):
                return "1 = 1" if bool(value) == holds else "1 = 0"
            case Unary("not", value):
                return self.boolean(value, here, holds=not holds)
            case Binary("and" | "or" as op, left, right):
                joint = "and" if (op == "and") == holds else "or"
                return f"(({self.boolean(left, here, holds=holds)}) {joint} ({self.boolean(right, here, holds=holds)}))"
            case Compare("lt" | "gt", left, right) if left == right:  # of any type: NaN is not below itself either
                return "1 = 0" if holds else "1 = 1"
            case Compare(op, Const(left, of), Const(right)) if of.is_floating:
                numbers = of.rounded(left), of.rounded(right)
                return "1 = 1" if bool(getattr(operator, op)(*numbers)) == holds else "1 = 0"
            case Compare(op, left, right) if left == right and dtype_of(left).is_floating and not here.floats(left).nan:
                return "1 = 1" if (op != "ne") == holds else "1 = 0"
            case Compare(op, Select(cond, yes, no) as left, right) if dtype_of(right).is_floating and _or_constant(left):
                return self.boolean(Select(cond, Compare(op, yes, right), Compare(op, no, right)), here, holds=holds)
            case Compare(op, left, right) if dtype_of(left).is_floating and _or_constant(right):
                return self.boolean(Compare(MIRRORED[op], right, left), here, holds=holds)
            case Call("isnan", (value,)) if not here.floats(value).nan:
                return "1 = 0" if holds else "1 = 1"
            case Compare(op, left, right) if dtype_of(left).is_floating:
                whole_numbers = of_integers(op, left, right, here)
                if whole_numbers is None:
                    return f"{self.variable(expr)} = {int(holds)}"
                return self.boolean(whole_numbers, here, holds=holds)
            case Compare(op, left, right) if dtype_of(left).is_integer:
                return self._compared(op, left, right, here, holds)
            case Compare("eq" | "ne" as op, left, right) if dtype_of(left) == BOOL:
                return self._same(left, right, here, equal=(op == "eq") == holds)
            case Binary("xor", left, right):
                return self._same(left, right, here, equal=not holds)
            case Select(cond, yes, no):
                sides = ((yes, self.boolean(cond, here)), (no, self.boolean(cond, here, holds=False)))
                first, second = (f"(({test}) and ({self.boolean(side, here, holds=holds)}))" for side, test in sides)
                return f"({first} or {second})"
            case Cast(value, _) if dtype_of(value).is_integer:
                return self.boolean(Compare("ne", value, Const(0, dtype_of(value))), here, holds=holds)
            case _:
                return f"{self.variable(expr)} = {int(holds)}"

    def _compared(self, op: str, left: Expr, right: Expr, here: Bounds, holds: bool = True) -> str:
        """Integers, of whatever types; an extremum by its sides, of which isl would take each as a case of its own."""
        relation = op if holds else NEGATED[op]
        if (parts := by_sides(relation, left, right)) is not None:
            first, second = (self._compared(relation, *pair, here) for pair in parts.pairs)
            return f"(({first}) {parts.joint} ({second}))"
        self._literals.update(int(side.value) for side in (left, right) if isinstance(side, Const) and side.value > 1)
        a, b = self.integer(left, here), self.integer(right, here)
        return f"({a} < {b} or {a} > {b})" if relation == "ne" else f"{a} {_COMPARE[relation]} {b}"

    def _same(self, left: Expr, right: Expr, here: Bounds, *, equal: bool) -> str:
        both = f"(({self.boolean(left, here)}) and ({self.boolean(right, here, holds=equal)}))"
        return f"({both} or (({self.boolean(left, here, holds=False)}) and ({self.boolean(right, here, holds=not equal)})))"

    def variable(self, expr: Expr) -> str:
        """The variable of an axis, a dim or an opaque expression."""
        name = self.variables.get(expr)
        if name is None and isinstance(expr, Load):
            expr = self._loads.setdefault(self._unclamped(expr), expr)
            name = self.variables.get(expr)
        if name is None:
            name = self.variables[expr] = f"v{len(self.variables)}"
            if not isinstance(expr, (Axis, Dim)):
                self._constrain(name, expr)
        if isinstance(expr, Dim) and (expr.name, expr.least, expr.most) not in self._dims:
            self._dims.add((expr.name, expr.least, expr.most))
            self.constraints.append(f"{expr.least} <= {name} <= {expr.most}")
        return name

    def _unclamped(self, expr: Expr) -> Expr:
        """An expression without extrema that change nothing, so that loads of one element are one variable however it is spelled."""
        expr, values = simplify(map_children(expr, self._unclamped)), self.bounds.values
        if isinstance(expr, Binary) and expr.op in ("min", "max") and not dtype_of(expr.left).is_floating:
            return side_of(expr, lambda one, other: values(one)[1] <= values(other)[0])
        return expr

    def _constrain(self, name: str, expr: Expr) -> None:
        """What holds of an opaque expression."""
        low, high = self.bounds.values(expr)
        self.constraints.append(f"{low} <= {name} <= {high}")
        match expr:
            case Binary("floordiv" | "mod" as op, value, by):
                self._quotient(name, op, value, by)
            case Binary("and" | "or" | "xor" as op, left, right) if all(self.bounds.values(side)[0] >= 0 for side in (left, right)):
                a, b = self.integer(left), self.integer(right)
                most = f"{name} <= {a} and {name} <= {b}" if op == "and" else f"{name} <= {a} + {b}"
                self.constraints.append(f"{most} and {name} >= {a} and {name} >= {b}" if op == "or" else most)
            case Reduce():
                self._reduction(name, expr)
            case _:
                pass

    def helper(self) -> str:
        """A new variable that no expression stands for."""
        self.helpers.append(f"h{len(self.helpers)}")
        return self.helpers[-1]

    def integer(self, expr: Expr, bounds: Bounds | None = None) -> str:
        """The value of an integer expression as text."""
        here = self.bounds if bounds is None else bounds
        match expr:
            case Const(value, _):
                return f"({int(value)})"
            case Axis() | Dim():
                return self.variable(expr)
            case Binary("add" | "sub" | "mul" | "shl") | Unary("neg"):
                return self._ring(expr, here)
            case Binary("min" | "max" | "fmin" | "fmax" as op, left, right):
                return f"{op.removeprefix('f')}({self.integer(left, here)}, {self.integer(right, here)})"
            case Binary("and" | "or" | "xor" as op, value, Const(mask)) | Binary("and" | "or" | "xor" as op, Const(mask), value):
                return self._masked(op, value, int(mask), here) or self.variable(expr)
            case Binary("floordiv" | "mod" as op, value, Const(by)) if by > 0 or (by < 0 and not _is_least(value, here)):
                inner = self.integer(value, here) if by > 0 else f"(-{self.integer(value, here)})"
                size = abs(int(by))
                if op == "floordiv":
                    return f"floor({inner}/{size})"
                return f"({inner} mod {size})" if by > 0 else f"(-({inner} mod {size}))"
            case Binary("shr", value, Const(by)) if by >= 0:
                return f"floor({self.integer(value, here)}/{1 << min(int(by), dtype_of(value).bits)})"
            case Unary("not", value):
                of = dtype_of(value)
                return f"({-1 if of.kind == 'signed' else whole(of)[1]} - {self.integer(value, here)})"
            case Unary("abs", value) if not _is_least(value, here):
                inner = self.integer(value, here)
                return f"max({inner}, -{inner})"
            case Cast(value, to) if dtype_of(value).is_integer:
                return self._cast(expr, value, to, here)
            case Cast(value, to) if dtype_of(value) == BOOL:
                return self._choice(expr, value, Const(1, to), Const(0, to))
            case Select(cond, yes, no):
                return self._choice(expr, cond, yes, no)
            case _:
                return self.variable(expr)

    def _ring(self, expr: Expr, here: Bounds) -> str:
        """A sum or a product: the ideal one, or where it may wrap, whole turns away from it."""
        match expr:
            case Binary("shl", value, Const(by)) if 0 <= by < dtype_of(expr).bits:
                low, high = here.values(value)
                if not inside((low << int(by), high << int(by)), whole(dtype_of(expr))):
                    return self._wrapped(expr, f"{1 << int(by)} * {self.integer(value)}")
                return f"({1 << int(by)} * {self.integer(value, here)})"
            case Binary("shl"):
                return self.variable(expr)
            case _:
                if here.wraps(expr):
                    return self._wrapped(expr, self.ideal(expr, self.bounds))
                ideal = self.ideal(expr, here)
                if expr in self.bounds.exact and expr not in self._extents:
                    self._extents.add(expr)
                    self.constraints.append(f"0 <= {ideal} <= {INDEX_LIMIT}")
                return ideal

    def _wrapped(self, expr: Expr, ideal: str) -> str:
        """The variable that is `ideal` modulo the width of its type; everything here is said without conditions, as it is said for good."""
        name = self.variables.get(expr)
        if name is None:
            name = self.variables[expr] = f"v{len(self.variables)}"
            low, high = self.bounds.values(expr)
            self.constraints.append(f"{low} <= {name} <= {high} and {name} = {ideal} + {1 << dtype_of(expr).bits} * {self.helper()}")
        return name

    def ideal(self, expr: Expr, here: Bounds) -> str:
        """Sums and products as those of integers without bounds."""
        match expr:
            case Binary("add" | "sub" as op, left, right):
                return f"({self.ideal(left, here)} {'+' if op == 'add' else '-'} {self.ideal(right, here)})"
            case Unary("neg", value):
                return f"(-{self.ideal(value, here)})"
            case Binary("mul", Const(by), value) | Binary("mul", value, Const(by)):
                return f"({int(by)} * {self.ideal(value, here)})"
            case Binary("mul", left, right):
                return self.product(left, right)
            case _:
                return self.integer(expr, here)

    def product(self, left: Expr, right: Expr) -> str:
        """The variable of an ideal product, within the corners of its factors."""
        name = self.products.get((left, right)) or self.products.get((right, left))
        if name is None:
            name = self.products[left, right] = self.helper()
            for x, y in ((left, right), (right, left)):
                (least, most), (low, high) = self.bounds.values(x), self.bounds.values(y)
                factor = self.integer(y)
                if low >= 0:
                    self.constraints.append(f"{least} * {factor} <= {name} <= {most} * {factor}")
                elif high <= 0:
                    self.constraints.append(f"{most} * {factor} <= {name} <= {least} * {factor}")
        return name

    def _masked(self, op: str, value: Expr, mask: int, here: Bounds) -> str | None:
        """`x & mask` by its runs of ones: `x mod 2**end - x mod 2**start`; and what follows from it for `|` and `^`."""
        ones = mask if mask >= 0 else ~mask
        runs = list(_runs(ones))
        if len(runs) > MAX_RUNS:
            return None
        name = self._named(self.integer(value, here), len(runs) > 1)
        kept = " + ".join(f"({name} mod {1 << end}) - ({name} mod {1 << start})" for start, end in runs) or "0"
        common = f"({kept})" if mask >= 0 else f"({name} - ({kept}))"
        return {"and": common, "or": f"({name} + {mask} - {common})", "xor": f"({name} + {mask} - 2 * {common})"}[op]

    def _named(self, text: str, often: bool) -> str:
        if not often or text.isalnum():
            return text
        name = self.helper()
        self.constraints.append(f"{name} = {text}")
        return name

    def _cast(self, expr: Cast, value: Expr, to: DType, here: Bounds) -> str:
        if inside(here.values(value), whole(to)):
            return self.integer(value, here)
        return self._wrapped(expr, self.integer(value))

    def _choice(self, expr: Expr, cond: Expr, yes: Expr, no: Expr) -> str:
        """A variable that equals one side where a condition holds, and the other one where not."""
        name = self.variables.get(expr)
        if name is None:
            name = self.variable(expr)
            sides = ((self.boolean(cond), yes, cond), (self.boolean(cond, holds=False), no, negated(cond)))
            parts = [f"(({test}) and {name} = {self.integer(side, self.bounds.under((holds,)))})" for test, side, holds in sides]
            self.constraints.append(" or ".join(parts))
        return name

    def _quotient(self, name: str, op: str, value: Expr, by: Expr) -> None:
        """`x = (x // d) * d + x % d`, for a divisor that is no literal."""
        x, d = self.integer(value), self.integer(by)
        times = self.product(Binary("floordiv", value, by), by)
        low = self.bounds.values(by)[0]
        if op == "floordiv":
            rest = f"({x} - {times})"
            regular, other = f"0 <= {rest} and {rest} < {d}", f"({d} = 0 and {name} = 0) or {d} < 0"
            if self.bounds.values(value)[0] >= 0 and low >= 0:
                self.constraints.append(f"{name} <= {x}")
        else:
            regular = f"0 <= {name} and {name} < {d} and {name} = {x} - {times}"
            other = f"({d} = 0 and {name} = 0) or ({d} < {name} and {name} <= 0)"
        self.constraints.append(regular if low > 0 else f"({d} >= 1 and {regular}) or {other}")

    def _reduction(self, name: str, node: Reduce) -> None:
        """A reduction that chooses equals its operand somewhere in the domain, or its identity; a sum has as many terms as its axis."""
        inner, sizes = self.bounds.domain(node)
        value = node.values[node.component]
        if chooses(node.reducer, node.component):
            self._chosen(name, node, inner)
        elif is_single(node.reducer, "add") and len(node.axes) == 1:
            low, high = inner.values(value)
            low, high = min(low, 0), max(high, 0)
            most = max(sizes[0][1], 0)
            if inside((low * most, high * most), whole(dtype_of(node))):
                count = f"max(0, {self.integer(node.axes[0].hi)} - {self.integer(node.axes[0].lo)})"
                self.constraints.append(f"{low} * {count} <= {name} and {name} <= {high} * {count}")

    def _chosen(self, name: str, node: Reduce, inner: Bounds) -> None:
        """There is a point of the domain at which the operand is `name`; or the domain is empty, and the identity is."""
        fresh = {axis.name: f"{axis.name}'{self.helper()}" for axis in node.axes}
        spelled: dict[str, Expr] = {old: Axis(new) for old, new in fresh.items()}
        known = dict(inner.known)
        known.update({Axis(new): inner.known[Axis(old)] for old, new in fresh.items()})
        there = Bounds(known, inner.exact, inner.numbers)
        parts, empty = list[str](), list[str]()
        for axis in node.axes:
            low, high = (self.integer(substitute(bound, spelled)) for bound in (axis.lo, axis.hi))
            place = self.variable(spelled[axis.name])
            parts.append(f"{low} <= {place} and {place} < {high}")
            empty.append(f"{high} <= {low}")
        if node.where is not None:
            parts.append(self.boolean(substitute(node.where, spelled), there))
        value = node.values[node.component]
        element = substitute(value, spelled)
        truth = dtype_of(value) == BOOL
        parts.append(self._same(node, element, there, equal=True) if truth else f"{name} = {self.integer(element, there)}")
        none = f"{name} = {int(node.reducer.identities[node.component].value)}"
        if node.where is None and identity_loses(node.reducer, node.component, inner.values(value)):
            none = f"{none} and ({' or '.join(empty)})"
        self.constraints.append(f"({' and '.join(parts)}) or ({none})")

    def laws(self) -> list[str]:
        """What holds of products: `x < y` means `x * n + n <= y * n` for `n >= 0`; 0, 1 and what is compared are such numbers, too."""
        found: list[str] = []
        sides = [(x, n, name) for (a, b), name in self.products.items() for x, n in ((a, b), (b, a)) if self.bounds.values(n)[0] >= 0]
        for at, (x, n, name) in enumerate(sides):
            mine, by = self.integer(x), self.integer(n)
            if self.bounds.values(x)[0] < 0 or self.bounds.values(x)[1] > 1:
                found.append(f"({mine} <= -1 and {name} <= -{by}) or ({mine} = 0 and {name} = 0) or ({mine} >= 1 and {name} >= {by})")
            found += [f"{mine} < {least} or {name} >= {least} * {by}" for least in sorted(self._literals)[:2]]
            for other, m, product in sides[at + 1 :]:
                if m == n and product != name:
                    theirs = self.integer(other)
                    found.append(
                        f"({mine} < {theirs} and {name} + {by} <= {product}) or ({mine} = {theirs} and {name} = {product})"
                        f" or ({mine} > {theirs} and {product} + {by} <= {name})"
                    )
        return found[:MAX_PAIRS]


def _or_constant(expr: Expr) -> bool:
    """Is this a choice between a constant and something else? Of choices between other things there may be many in one another."""
    return isinstance(expr, Select) and any(isinstance(side, Const) for side in (expr.yes, expr.no))


def _is_least(value: Expr, here: Bounds) -> bool:
    """Can an expression be the least value of its type, whose negation wraps?"""
    return here.values(value)[0] <= whole(dtype_of(value))[0]


def _runs(mask: int) -> Iterator[tuple[int, int]]:
    """The runs of ones in a mask, as the first bit and the one behind the last."""
    at = 0
    while mask >> at:
        start = at + (mask >> at & -(mask >> at)).bit_length() - 1
        end = start
        while mask >> end & 1:
            end += 1
        yield start, end
        at = end
