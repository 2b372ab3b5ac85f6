"""`specialize`: a version of the whole nest for extents, or what tables hold, that satisfy a condition.

    for i in range(n):                          if n == 64:
        C[i] = A[i] + 1         ->                  for i in range(64):
                                                        C[i] = A[i] + 1
                                                else:
                                                    for i_generic in range(n):
                                                        C[i_generic] = A[i_generic] + 1

The loops of the version keep their names, so that it is what later steps schedule; the loops and axes of the generic one end in
`_generic`. Under `dim == literal` the version has literal extents, which may be vectorised or unrolled; what else the condition implies
(a factor that divides an extent) code generation uses to leave out the conditions of partial tiles. A second `specialize` makes a
version of everything that is there.

Under `table[2] == -1` the version has that literal wherever it read the element: what a table is known to hold when a kernel is built,
and may no longer hold when it is called, is looked at once, and indices that went through the table are those of neighbours.

Legal always. The condition is over dims and elements of operands of integers, and is kept as text: `n % 8 == 0`,
`(n >= 64) & (at[0] == 1)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from tensorlang.algebra.simplify import simplify
from tensorlang.errors import did_you_mean
from tensorlang.ir import Buffer, Cast, Compare, Const, Dim, Expr, If, Load, Nest
from tensorlang.ir.dtype import INT64
from tensorlang.ir.relations import rebounded
from tensorlang.ir.traverse import dtype_of, map_children, map_expressions, sides_of_and, walk
from tensorlang.schedules.directive import Directive, Refusal
from tensorlang.schedules.directives.conditions import condition_text, parsed
from tensorlang.schedules.rewriting.copies import FreshNames, copied
from tensorlang.schedules.rewriting.edit import loops


@dataclass(frozen=True, slots=True)
class Specialize(Directive):
    """Make a version of the nest that runs where `condition`, a comparison of dims and elements of tables as text, holds."""

    condition: Annotated[str, condition_text]

    def apply(self, nest: Nest) -> Nest:
        """The nest with both versions."""
        condition = simplify(_read(nest, parsed(self.condition)))
        for part in walk(condition):
            if isinstance(part, Dim) and part.name not in nest.dims:
                raise Refusal(
                    "TL-S005",
                    f"the condition {self.condition!r} names {part.name!r}, which is no dim here{did_you_mean(part.name, nest.dims)}",
                )
        if isinstance(condition, Const):
            raise Refusal("TL-S005", f"the condition {self.condition!r} is always {str(bool(condition.value)).lower()}")
        names = FreshNames.of(nest)
        generic = copied(nest, nest.body, (), [loop.loop for loop in loops(nest.body)], lambda axis: names.fresh(f"{axis}_generic"))
        special = _under(nest, condition)
        return replace(nest, body=If(condition, special.body, generic.body), relations=(*special.relations, *generic.relations))


def assumed(nest: Nest, condition: str) -> Nest:
    """The version alone, as if the condition always held. Raises `Refusal`."""
    return _under(nest, simplify(_read(nest, parsed(condition))))


def _under(nest: Nest, condition: Expr) -> Nest:
    """The nest with the literals that a condition tells."""
    known = told([condition])
    return replace(nest, body=map_expressions(nest.body, known), relations=tuple(rebounded(relation, known) for relation in nest.relations))


def told(conditions: Iterable[Expr]) -> Callable[[Expr], Expr]:
    """What expressions are where conditions hold: with the literals that these tell."""
    values = {known: value for condition in conditions for known, value in _literals(condition)}
    return lambda expr: simplify(_with(expr, values)) if values else expr


def _read(nest: Nest, condition: Expr) -> Expr:
    """The condition with elements of the operands that it names. Raises `Refusal`."""
    if isinstance(condition, Load):
        return _element(nest, condition)
    return map_children(condition, lambda child: _read(nest, child))


def _element(nest: Nest, load: Load) -> Expr:
    """An element as an index; of no operand that a result may lie over, which would change it."""
    assert isinstance(load.buffer, Buffer)
    name = load.buffer.name
    tables = {buffer.name: buffer for buffer in nest.inputs if buffer.dtype.is_integer and buffer.dtype != "uint64"}
    tables = {known: buffer for known, buffer in tables.items() if all(result.over != known for result in nest.outputs)}
    if name not in tables:
        reason = f"the condition names {name!r}, which is no operand of integers here that stays as it is{did_you_mean(name, tables)}"
        raise Refusal("TL-S005", reason)
    table, places = tables[name], [part.value for part in load.index if isinstance(part, Const)]
    extents = [extent.value if isinstance(extent, Const) else 0 for extent in table.shape]
    if len(places) != len(extents) or not all(0 <= place < extent for place, extent in zip(places, extents, strict=True)):
        raise Refusal("TL-S005", f"the condition reads {name!r} at {places}, where its extents do not say that there is an element")
    found = Load(table, load.index)
    return found if table.dtype == INT64 else Cast(found, INT64)


def _literals(condition: Expr) -> Iterator[tuple[Dim | Load, Const]]:
    """The dims and elements that a condition makes literals."""
    for part in sides_of_and(condition):
        match part:
            case Compare("eq", Const() as value, other) | Compare("eq", other, Const() as value):
                known = other.value if isinstance(other, Cast) else other
                if isinstance(known, (Dim, Load)):
                    yield known, Const(value.value, dtype_of(known))
            case _:
                pass


def _with(expr: Expr, values: dict[Dim | Load, Const]) -> Expr:
    if isinstance(expr, Dim):
        return values.get(expr, expr)
    match expr := map_children(expr, lambda child: _with(child, values)):
        case Load():
            return values.get(expr, expr)
        case Cast(Const(value, known), wanted) if known.is_integer and wanted.is_integer and wanted.lowest <= value <= wanted.highest:
            return Const(value, wanted)
        case _:
            return expr
