"""`peel`: the first and last iterations of a loop run in copies of its body.

    for i in range(n):                          for i_first in range(0, min(1, n)):
        C[i] = A[i]             ->                  C[i_first] = A[i_first]
                                                for i in range(1, n - 1):
                                                    C[i] = A[i]
                                                for i_last in range(max(1, n - 1), n):
                                                    C[i_last] = A[i_last]

The copies belong to the same stages; their loops are named `i_first`, `i_last`, and so are the loops inside them (`j_first`, ...). A
loop with fewer iterations than are peeled runs each of them once, the first ones first. Bounds of loops inside that the smaller ranges
decide are simple again: of a skewed band, `for i in range(max(0, j - 99), min(8, j + 1))` is `range(8)` for j from 7 to 99.

Legal always, for a serial loop: the order of iterations stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Binary, Expr, For, Nest, Relation, Stmt, block
from tensorlang.schedules.directive import Directive, LoopName, Refusal, require_int
from tensorlang.schedules.legality.accesses import facts_of
from tensorlang.schedules.legality.narrowing import narrowed
from tensorlang.schedules.rewriting.copies import FreshNames, copied
from tensorlang.schedules.rewriting.edit import edit_loops, literal_extent, loops, path_to_loop

MAX_PEELED = 1 << 20


@dataclass(frozen=True, slots=True)
class Peel(Directive):
    """Split the `first` first and the `last` last iterations of `loop` off."""

    loop: LoopName
    first: int = 0
    last: int = 0

    def apply(self, nest: Nest) -> Nest:
        """The nest with the copies before and after the loop."""
        path = path_to_loop(nest, self.loop)
        loop = path[-1]
        assert isinstance(loop, For)
        require_int(self.first, "first= of peel", 0, MAX_PEELED, self.loop)
        require_int(self.last, "last= of peel", 0, MAX_PEELED, self.loop)
        if self.first + self.last == 0:
            raise Refusal("TL-S005", "peel needs first= or last= above 0", loop=self.loop)
        if loop.kind != "serial":
            raise Refusal("TL-S107", f"the loop is already {loop.kind}; peel it before", loop=self.loop)
        around = [part.loop for part in path[:-1] if isinstance(part, For)]
        names = FreshNames.of(nest)
        relations: list[Relation] = list(nest.relations)

        def part(label: str, lo: Expr, hi: Expr) -> Stmt:
            made = copied(
                nest,
                replace(loop, lo=simplify(lo), hi=simplify(hi)),
                around,
                [piece.loop for piece in loops(loop)],
                lambda axis: names.fresh(f"{axis}_{label}"),
            )
            relations.extend(made.relations)
            return made.body

        start = simplify(Binary("add", loop.lo, ir.const(self.first)))
        end = simplify(Binary("sub", loop.hi, ir.const(self.last)))
        parts: list[Stmt] = []
        if self.first:
            parts.append(part("first", loop.lo, Binary("min", start, loop.hi)))
        extent = literal_extent(loop)
        nothing = extent is not None and extent <= self.first + self.last
        parts.append(replace(loop, lo=start, hi=start if nothing else end))
        if self.last:
            parts.append(part("last", Binary("max", start, end), loop.hi))
        if not any(piece.follows for piece in loops(loop)):
            facts = [fact for piece in path[:-1] if isinstance(piece, For) for fact in facts_of(piece)]
            parts = [narrowed(piece, facts) for piece in parts]
        body = edit_loops(nest.body, lambda piece: piece.loop == self.loop, lambda _: block(*parts))
        return replace(nest, body=body, relations=tuple(relations))
