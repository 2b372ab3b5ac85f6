"""What the values of a statement take to compute: issue slots, and which of them follow which loops.

Equal parts of the values are computed once. What only says where something is (indices, conditions on loops) costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tensorlang.algebra.bounds import Bounds
from tensorlang.algebra.conversions import clamped, fitting
from tensorlang.ir import Axis, Binary, Buffer, Call, Cast, Compare, Const, Dim, Expr, Load, Param, Select, Unary
from tensorlang.ir.numbering import Numbering
from tensorlang.ir.traverse import axes_of, children, dtype_of, sides_of_and, walk
from tensorlang.schedules.model.functions import function_slots, held, products_of_quotient
from tensorlang.schedules.model.parts import Divided
from tensorlang.schedules.model.walks import LinearAccess, Terms

EXTREMUM: Final = 3.0
"""Slots of a minimum or maximum of floats, which gives a NaN where one is: the instruction, a comparison, a choice."""
DIVISION: Final = 5.0
"""Slots of a division of integers in lanes, in multiply-adds: by floats that hold its quotient. Floats have a unit of their own."""
NARROW: Final = 32
"""Bits of the numbers whose divisions a machine's description tells; wider ones take the divider for longer as they are wider."""
SATURATED: Final = 8.0
"""Slots of a conversion of floats to integers that may not fit: the instruction, four comparisons and three choices."""
SHORT: Final = 16
"""Elements that repeat, up to which there are some of each in every vector."""


class _Side(NamedTuple):
    """What a side of a choice takes in slots, of which some are its `own` and no edges of others, and where its divisions stand."""

    slots: float
    own: float
    divided: range


@dataclass(slots=True)
class Operations:
    """What the values of one statement read and compute, as far as they have been counted.

    `axis` gives an axis as terms of loops, `access` what a load reads, `made` the loops in each iteration of which a buffer is filled anew.
    Of the operations some are `sums`, some `light` (neither sums nor products), some choose (`edges`) by conditions on loops that are
    `asked`; `work` tells all of them by the loops that they follow; `held` are the registers that functions want. `bounds` tell what axes
    can be, `fitting` are conversions of clamps.
    """

    axis: Callable[[str], Terms]
    access: Callable[[Buffer, tuple[Expr, ...]], LinearAccess]
    made: Mapping[str, frozenset[str]]
    numbering: Numbering
    bounds: Callable[[], Bounds]
    sums: float = 0.0
    light: float = 0.0
    held: float = 0.0
    reads: dict[int, LinearAccess] = field(default_factory=dict)
    asked: dict[frozenset[str], None] = field(default_factory=dict)
    edges: dict[tuple[frozenset[str], bool], float] = field(default_factory=dict)
    divided: list[Divided] = field(default_factory=list)
    work: dict[frozenset[str], float] = field(default_factory=dict)
    followed: dict[int, frozenset[str]] = field(default_factory=dict)
    fitting: set[int] = field(default_factory=set)

    def count(self, values: Iterable[Expr]) -> float:
        """Issue slots of further values, and of what several of them compute once."""
        seen = set[int]()
        return sum(self._slots(value, seen) for value in values)

    def _slots(self, expr: Expr, seen: set[int]) -> float:
        """Those of an expression; parts that were `seen` take none."""
        if isinstance(expr, Const | Axis | Dim) or (number := self.numbering.number(expr)) in seen:
            return 0.0
        seen.add(number)
        own = inside = 0.0
        match expr:
            case Load(buffer, index):
                if isinstance(buffer, Buffer):
                    self.reads[number] = self.access(buffer, index)
                return sum(self._slots(part, seen) for part in index if not _tells_where(part))
            case Binary("div", _, by) if dtype_of(expr).is_floating:
                own = products_of_quotient(by)
                if not own:
                    own = 1.0
                    self._divide(expr, 1.0, 0.0)
            case Binary("div" | "floordiv" | "mod"):
                own = DIVISION
            case Binary("min" | "max") if dtype_of(expr).is_floating:
                own = EXTREMUM
            case Binary("min" | "max"):
                own = 1.0
                if (inner := clamped(expr)) is not None:  # nothing is left to saturate
                    self.fitting.add(self.numbering.number(inner))
            case Cast(value, to) if to.is_integer and dtype_of(value).is_floating:
                own = 1.0 if number in self.fitting or fitting(expr, self.bounds()) is not None else SATURATED
            case Call():
                function = function_slots(expr)
                own, self.held = function.total, max(self.held, held(expr))
                if function.divisions or function.roots:
                    self._divide(expr, function.divisions, function.roots)
            case Compare() | Binary() if _tells_where(expr):
                return 0.0
            case Select(cond, yes, no) if _tells_where(cond):
                for part in sides_of_and(cond):
                    self.asked[frozenset(name for axis in axes_of(part) for name in self.axis(axis))] = None
                if isinstance(yes, Load) and isinstance(no, Const) and not no.value:  # a masked load has zeros where it is off
                    return self._slots(yes, seen)
                own, inside = 1.0, self._chosen(cond, yes, no, seen)
            case Binary() | Compare() | Unary() | Cast() | Select():
                own = 1.0
            case _:
                pass
        if own:
            sums, products = _sums_and_products(expr, own)
            self.sums += sums
            self.light += own - sums - products
            follows = self._follows(expr)
            self.work[follows] = self.work.get(follows, 0.0) + own
        return own + inside + sum(self._slots(part, seen) for part in children(expr))

    def _chosen(self, cond: Expr, yes: Expr, no: Expr, seen: set[int]) -> float:
        """Slots of both sides of a choice by loops, which is one of the `edges`; so is what only the seldom side has, or the cheaper one.

        A condition that holds of every other element, or of one of a few that repeat, as a channel of a pixel, has no seldom side.
        """
        woven = any(self._is_woven(part) for part in walk(cond))
        seldom, follows, sides = _seldom(cond), self._follows(cond), list[_Side]()
        for side in (no, yes) if seldom else (yes, no):
            known, first = sum(self.edges.values()), len(self.divided)
            slots = self._slots(side, seen)
            sides.append(_Side(slots, slots - sum(self.edges.values()) + known, range(first, len(self.divided))))
        rare = sides[1] if seldom is not None else min(sides, key=lambda side: (len(side.divided), side.own))
        self.edges[follows, woven] = self.edges.get((follows, woven), 0.0) + 1.0 + (0.0 if woven else rare.own)
        for place in () if woven else rare.divided:
            part = self.divided[place]
            self.divided[place] = part._replace(chosen=part.chosen or follows)
        return sum(side.slots for side in sides)

    def _is_woven(self, part: Expr) -> bool:
        """Is it a remainder or a quotient, or an axis that is a short digit of a loop?"""
        if isinstance(part, Axis):
            return any(0 < term.period <= SHORT for term in self.axis(part.name).values())
        return isinstance(part, Binary) and part.op in ("mod", "floordiv")

    def _divide(self, expr: Expr, divisions: float, roots: float) -> None:
        """Count what the divider does for a node, in each iteration of the loops that its operands move with."""
        wide = max(1.0, dtype_of(expr).bits / NARROW)
        self.divided.append(Divided(self._follows(expr), divisions * wide, roots * wide))

    def _follows(self, expr: Expr) -> frozenset[str]:
        """The loops in each iteration of which an expression has another value, as far as is known."""
        number = self.numbering.number(expr)
        found = self.followed.get(number)
        if found is None:
            own = self.axis(expr.name) if isinstance(expr, Axis) else ()
            made = self.made.get(getattr(expr.buffer, "name", ""), ()) if isinstance(expr, Load) else ()
            found = self.followed[number] = frozenset(own).union(made, *map(self._follows, children(expr)))
        return found


def _sums_and_products(expr: Expr, own: float) -> tuple[float, float]:
    """How many of the operations of a node go to units that add, and to those that multiply; any unit does the others.

    Measured on a Zen 4: extrema, conversions and shifts take the place of sums, comparisons of floats that of products.
    """
    match expr:
        case Call():
            function = function_slots(expr)
            return function.sums, function.products
        case Binary("min" | "max") if dtype_of(expr).is_floating:
            return 1.0, 1.0
        case Binary("add" | "sub") | Cast() if dtype_of(expr).is_floating:
            return own, 0.0
        case Binary("mul") if dtype_of(expr).is_floating:
            return 0.0, own
        case Binary("div", _, by) if dtype_of(expr).is_floating and products_of_quotient(by):
            return 0.0, own
        case Compare(_, left) if dtype_of(left).is_floating:
            return 0.0, own
        case Cast(value) if dtype_of(value).is_floating:
            return min(own, 1.0), 0.0
        case _:
            return 0.0, 0.0


def _seldom(cond: Expr) -> bool | None:
    """What a condition is in few iterations: true where it has an equation, false where it is the opposite of one; None for others."""
    asked = [part.op for part in sides_of_and(cond) if isinstance(part, Compare)]
    return True if "eq" in asked else False if asked == ["ne"] else None


def _tells_where(expr: Expr) -> bool:
    """Is an expression made of loops, dims and literals alone?"""
    return not isinstance(expr, Load | Call | Cast | Param) and all(map(_tells_where, children(expr)))


def is_summed_product(value: Expr, result: Expr) -> bool:
    """Is a product added to a component by the instruction that multiplies?"""
    adds = isinstance(result, Binary) and result.op == "add" and isinstance(result.left, Param) and isinstance(result.right, Param)
    return isinstance(value, Binary) and value.op == "mul" and adds
