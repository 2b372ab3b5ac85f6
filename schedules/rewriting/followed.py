"""Which loop an index follows, one element for each iteration, and how far from it: `i - 16 i_o` follows `i`, by `-16 i_o`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tensorlang.ir import Axis, Expr, Nest, const
from tensorlang.ir.linear import Linear, expression, linear
from tensorlang.ir.traverse import axes_of, loads_of
from tensorlang.schedules.rewriting.region import expand


class Followed(NamedTuple):
    """An index as the iteration of a loop and what other loops add to it."""

    loop: str
    offset: Expr


def followed(part: Expr, loops: Collection[str]) -> Followed | None:
    """The one of the loops that an index follows; None where it follows none, several, or in steps."""
    if isinstance(part, Axis):
        return Followed(part.name, const(0)) if part.name in loops else None
    form = linear(part)
    own = [atom for atom in form.terms if not axes_of(atom).isdisjoint(loops)]
    if len(own) != 1 or any(loads_of(part)):
        return None
    (atom,) = own
    if not isinstance(atom, Axis) or form.terms[atom] != 1:
        return None
    return Followed(atom.name, expression(Linear(form.constant, {other: factor for other, factor in form.terms.items() if other != atom})))


def over_loops(nest: Nest, part: Expr, around: Sequence[str]) -> Expr:
    """An expression in which the loops around it stand for those that these were split from; itself where it speaks of them alone."""
    return part if axes_of(part) <= set(around) else expand(nest, part, around)
