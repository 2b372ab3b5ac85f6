"""`fuse`: two nested loops become one.

    for i in range(4):                  for i_j in range(24):                  # i = i_j // 6, j = i_j % 6
        for j in range(6):      ->          C[i, j] = A[i, j]
            C[i, j] = A[i, j]

Legal when nothing stands between the loops and the inner bounds do not depend on the outer loop; the order of iterations stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Binary, For, Nest
from tensorlang.ir.printer import short
from tensorlang.ir.relations import depends_on
from tensorlang.schedules.directive import Directive, LoopName, Refusal
from tensorlang.schedules.rewriting.edit import edit_loops, extent_of, find_loop, fresh_name, stage_of


@dataclass(frozen=True, slots=True)
class Fuse(Directive):
    """Fuse `outer` with `inner`, the loop directly inside it, into one loop named `name` (default `i_j`)."""

    outer: LoopName
    inner: LoopName
    name: str | None = None

    def made(self) -> tuple[str, ...]:
        """The full name of the fused loop."""
        return (f"{stage_of(self.outer)}.{self.name or f'{short(self.outer)}_{short(self.inner)}'}",)

    def apply(self, nest: Nest) -> Nest:
        """The nest with the two loops fused."""
        outer, inner = find_loop(nest, self.outer), find_loop(nest, self.inner)
        if outer.body is not inner:
            raise Refusal(
                "TL-S105", f"{short(self.inner)!r} is not directly inside {short(self.outer)!r}; reorder them first", loop=self.inner
            )
        for loop in (outer, inner):
            if loop.kind != "serial":
                raise Refusal("TL-S107", f"the loop {short(loop.loop)!r} is already {loop.kind}; fuse before", loop=loop.loop)
        if depends_on(nest, (inner.lo, inner.hi), {self.outer}):
            raise Refusal("TL-S104", f"the bounds of {short(self.inner)!r} depend on {short(self.outer)!r}", loop=self.inner)
        (fused,) = self.made()
        fresh_name(nest, stage_of(fused), short(fused))
        extent = simplify(Binary("max", extent_of(inner), ir.const(0)))
        trips = simplify(Binary("mul", simplify(Binary("max", extent_of(outer), ir.const(0))), extent))
        relation = ir.FuseRelation(fused, self.outer, self.inner, outer.lo, inner.lo, extent)
        body = edit_loops(nest.body, lambda part: part.loop == self.outer, lambda _: For(fused, ir.const(0), trips, inner.body))
        return replace(nest, body=body, relations=(*nest.relations, relation))
