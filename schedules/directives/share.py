"""`share`: what elements of a stage compute alike, each for itself, is computed once.

                                                            Y_shared: float32[46, 62]
                                                            for y in range(46):
    for y in range(44):                                         for x in range(62):
        for x in range(60):                                         Y_shared[y, x] = exp(F[y, x])
            for a in range(3):                      ->      for y in range(44):
                for b in range(3):                              for x in range(60):
                    Y[y, x] += W[a, b] * exp(F[y + a, x + b])       for a in range(3):
                                                                        for b in range(3):
                                                                            Y[y, x] += W[a, b] * Y_shared[y + a, x + b]

The largest parts of the values that move with fewer coordinates (`y + a` and `x + b`) than loops become stages of their own, each once.
What is only read at such a place is left as it is; where it is asked for which place that is, as where a window is clamped to the image, a
copy with a border comes of it, which is asked once for each element and not in each window.

Legal where every element that is read exists without the conditions around.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tensorlang.ir import Axis, Buffer, Const, Dim, Expr, For, Load, Nest, Stmt, Store, allocate, block
from tensorlang.ir.dtype import BOOL
from tensorlang.ir.linear import linear
from tensorlang.ir.numbering import Numbering
from tensorlang.ir.printer import short
from tensorlang.ir.traverse import dtype_of, map_children, read_in, reads_data, substitute
from tensorlang.schedules.directive import Directive, Refusal, StageName
from tensorlang.schedules.legality.in_bounds import unprotected
from tensorlang.schedules.placement.local_copies import fresh_buffer
from tensorlang.schedules.rewriting.boxes import (
    alone,
    axes,
    new_stage,
    shape_of,
    sweep,
    values_at,
    varying,
)
from tensorlang.schedules.rewriting.coordinates import rewritten
from tensorlang.schedules.rewriting.copies import FreshNames
from tensorlang.schedules.rewriting.edit import (
    edit_loops,
    edit_stores,
    nested,
    stores_of,
)
from tensorlang.schedules.rewriting.parts import largest, with_each
from tensorlang.schedules.rewriting.quotients_of_loops import coordinates_of

PLAIN: Final = (Axis, Const, Dim)
"""What an index is a sum of, where it is not asked for which place it is."""


@dataclass(frozen=True, slots=True)
class Share(Directive):
    """Compute once what elements of `stage` compute alike."""

    stage: StageName

    def apply(self, nest: Nest) -> Nest:
        """The nest with stages for what is alike."""
        nothing = self._refusal("TL-S301", f"elements of {self.stage!r} compute nothing alike")
        return with_each(nest, self.alike(nest), self._with, nothing)

    def alike(self, nest: Nest) -> list[Expr]:
        """What elements compute alike, over axes of loops, each once. Raises `Refusal` where the stage is in no loops of its own."""
        store, own, known = alone(nest, self.stage)

        def is_alike(expr: Expr) -> bool:
            quotients, found = coordinates_of(expr, own)
            return dtype_of(expr) != BOOL and not is_plain(quotients.within(expr)) and any(len(part.loops) > 1 for part in found)

        return largest((substitute(value, known) for value in store.values), is_alike, lambda expr: not reads_data(expr))

    def _refusal(self, code: str, reason: str) -> Refusal:
        return Refusal(code, reason, stage=self.stage)

    def _with(self, nest: Nest, expr: Expr) -> Nest:
        """The nest with a stage for one expression."""
        store, own, known = alone(nest, self.stage)
        if read_in(expr) & {buffer.name for buffer in store.buffers}:
            raise self._refusal("TL-S303", f"{self.stage!r} reads what it makes, so that the elements take turns")
        quotients, found = coordinates_of(expr, own)
        loop = varying(found, own)
        if loop is not None:
            reason = f"the range of {short(loop.loop)!r} depends on other loops, and what is shared has a dimension for it"
            raise self._refusal("TL-S204", reason)
        label, shape = new_stage(nest, f"{self.stage}_shared"), shape_of(found)
        local = Buffer(fresh_buffer(nest, label), shape, dtype_of(expr))
        loops = sweep(found, shape, store, label, FreshNames.of(nest))
        first = nested(loops, Store(label, (local,), axes(loops), (rewritten(quotients.within(expr), values_at(found, loops)),)))
        numbering = Numbering()
        wanted, place = numbering.number(expr), tuple(quotients.undone(coordinate.place) for coordinate in found)

        def read(part: Expr) -> Expr:
            return Load(local, place) if numbering.number(part) == wanted else map_children(part, read)

        def reading(part: Store) -> Store:
            values = (read(substitute(value, known)) for value in part.values)
            return replace(part, values=tuple(values)) if part.stage == self.stage else part

        def with_first(part: For) -> Stmt:
            return allocate((local,), block(first, edit_stores(part, reading)))

        made = replace(nest, body=edit_loops(nest.body, lambda part: part.loop == own[0].loop, with_first))
        self._require_there(made, label)
        return made

    def _require_there(self, nest: Nest, label: str) -> None:
        """Raise `Refusal` where what is shared exists only under a condition."""
        (store,) = stores_of(nest.body, (label,))
        bare = unprotected(nest, store)
        if bare is not None:
            reason = f"what {self.stage!r} reads of {bare.name!r} exists only under a condition, which it would leave"
            raise self._refusal("TL-S302", reason)


def is_plain(expr: Expr) -> bool:
    """Is it a read at a place that is a sum of axes?"""
    return isinstance(expr, Load) and all(isinstance(atom, PLAIN) for part in expr.index for atom in linear(part).terms)
