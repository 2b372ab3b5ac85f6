"""`by_cases`: what a stage computes, said for each iteration of a short loop by itself.

    for d in range(3):                                      for d in range(3):
        for x in range(8):                                      for x in range(8):
            Y[d, x] = X[(x + at[d]) % 8]        ->                  Y[d, x] = select(d < 1, X[(x + at[0]) % 8],
                                                                              select(d < 2, X[(x + at[1]) % 8], X[(x + at[2]) % 8]))

What a table holds at each place can then be known (`specialize`, before it or after), and an index that went through it is a neighbour with
a literal distance.
Code generation parts loops and lanes at such conditions, and unrolled loops decide them. The cases are halved again and again, so that
a test stands in few others.

Legal always, for a loop of literal bounds: an expression is the one of its cases that occurs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Compare, Const, Expr, For, Nest, Select, Store
from tensorlang.ir.mentions import mentions
from tensorlang.ir.printer import short
from tensorlang.ir.traverse import axes_of, nodes, substitute
from tensorlang.schedules.directive import Directive, LoopName, Refusal, StageName
from tensorlang.schedules.directives.specialize import told
from tensorlang.schedules.rewriting.edit import edit_loops, edit_stores, path_to_loop, require_stage, stores_of
from tensorlang.schedules.rewriting.version import is_version

MOST_CASES: Final = 32
"""Iterations of the loop: each is a copy of the expression."""
MOST_NODES: Final = 4096
"""Nodes of all cases together."""


@dataclass(frozen=True, slots=True)
class ByCases(Directive):
    """Choose what `stage` computes by the iteration of `loop`, a loop around it."""

    stage: StageName
    loop: LoopName

    def apply(self, nest: Nest) -> Nest:
        """The nest with the choices."""
        require_stage(nest, self.stage)
        path = path_to_loop(nest, self.loop)
        loop, known = path[-1], told(part.cond for part in path if is_version(part) and self.loop in mentions(part.then).names)
        assert isinstance(loop, For)
        own = [store for store in stores_of(loop, (self.stage,)) if any(map(self._moves, store.values))]
        if not own:
            reason = f"nothing that {self.stage!r} computes inside is said in terms of {short(self.loop)!r}"
            raise Refusal("TL-S301", reason, stage=self.stage, loop=self.loop)
        if not (isinstance(loop.lo, Const) and isinstance(loop.hi, Const)):
            raise Refusal("TL-S204", f"the cases are those of a loop with literal bounds; {short(self.loop)!r} has others", loop=self.loop)
        first, count = int(loop.lo.value), int(loop.hi.value) - int(loop.lo.value)
        if not 2 <= count <= MOST_CASES:
            raise Refusal("TL-S005", f"{short(self.loop)!r} has {count} iterations (from 2 to {MOST_CASES} are cases)", loop=self.loop)
        if (size := count * sum(1 for _ in nodes(*(value for store in own for value in store.values)))) > MOST_NODES:
            reason = f"the cases of {self.stage!r} would be {size} terms (at most {MOST_NODES})"
            raise Refusal("TL-S202", reason, stage=self.stage, loop=self.loop)

        def chosen(store: Store) -> Store:
            if store.stage != self.stage:
                return store
            values = (self._cases(value, first, first + count) if self._moves(value) else value for value in store.values)
            return replace(store, values=tuple(map(known, values)))

        return replace(nest, body=edit_loops(nest.body, lambda part: part.loop == self.loop, lambda part: edit_stores(part, chosen)))

    def _moves(self, value: Expr) -> bool:
        return self.loop in axes_of(value)

    def _cases(self, value: Expr, lo: int, hi: int) -> Expr:
        if hi - lo == 1:
            return simplify(substitute(value, {self.loop: ir.const(lo)}))
        middle = (lo + hi) // 2
        return Select(Compare("lt", Axis(self.loop), ir.const(middle)), self._cases(value, lo, middle), self._cases(value, middle, hi))
