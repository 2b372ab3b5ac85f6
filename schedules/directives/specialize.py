"""`specialize`: a version of the whole nest for extents that satisfy a condition.

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

Legal always. The condition is over dims and is kept as text: `n % 8 == 0`, `(n >= 64) & (m >= 64)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from tensorlang.algebra.simplify import simplify
from tensorlang.errors import did_you_mean
from tensorlang.ir import Compare, Const, Dim, Expr, If, Nest
from tensorlang.ir.relations import rebounded
from tensorlang.ir.traverse import map_children, map_expressions, sides_of_and, walk
from tensorlang.schedules.directive import Directive, Refusal
from tensorlang.schedules.directives.conditions import condition_text, parsed
from tensorlang.schedules.rewriting.copies import FreshNames, copied
from tensorlang.schedules.rewriting.edit import loops


@dataclass(frozen=True, slots=True)
class Specialize(Directive):
    """Make a version of the nest that runs where `condition`, a comparison of dims as text, holds."""

    condition: Annotated[str, condition_text]

    def apply(self, nest: Nest) -> Nest:
        """The nest with both versions."""
        condition = simplify(parsed(self.condition))
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
        values = dict(_literals(condition))

        def known(expr: Expr) -> Expr:
            return simplify(_with(expr, values)) if values else expr

        special = map_expressions(nest.body, known)
        relations = (*(rebounded(relation, known) for relation in nest.relations), *generic.relations)
        return replace(nest, body=If(condition, special, generic.body), relations=relations)


def _literals(condition: Expr) -> Iterator[tuple[Dim, Const]]:
    """The dims that a condition makes literals."""
    for part in sides_of_and(condition):
        match part:
            case Compare("eq", Dim() as dim, Const() as value) | Compare("eq", Const() as value, Dim() as dim):
                yield dim, value
            case _:
                pass


def _with(expr: Expr, values: dict[Dim, Const]) -> Expr:
    if isinstance(expr, Dim):
        return values.get(expr, expr)
    return map_children(expr, lambda child: _with(child, values))
