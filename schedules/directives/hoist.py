"""`hoist`: compute before a loop what a stage computes anew in each of its iterations, though it is always the same.

    for i in range(37):                                 Y_hoisted: float32[29]
        for j in range(29):                             for j in range(29):
            Y[i, j] = X[i, j] / sqrt(v[j])      ->          Y_hoisted[j] = sqrt(v[j])
                                                        for i in range(37):
                                                            for j in range(29):
                                                                Y[i, j] = X[i, j] / Y_hoisted[j]

Whatever the values of `stage` have that does not move with `loop` becomes a stage of its own, with a dimension for each loop inside that
it moves with: the largest such expressions, each once. A compiler moves what moves with none of them; what moves with an inner loop
needs storage, which is a choice.

Legal where nothing inside the loop writes what is read earlier then, and where every element that is read exists without the conditions of
the stage and of the selects around the expression.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorlang.ir import Axis, Buffer, Const, Dim, Expr, For, Load, Nest, Param, Store, allocate, block
from tensorlang.ir.dtype import BOOL
from tensorlang.ir.numbering import Numbering
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, dtype_of, map_children, read_in, reads_data
from tensorlang.schedules.directive import Directive, LoopName, Refusal, StageName
from tensorlang.schedules.legality.accesses import conditions_around
from tensorlang.schedules.legality.in_bounds import place_facts, unknown_read
from tensorlang.schedules.placement.hoisting import raised
from tensorlang.schedules.placement.local_copies import fresh_buffer
from tensorlang.schedules.placement.producer_placement import placement_of
from tensorlang.schedules.rewriting.edit import (
    edit_loops,
    edit_stores,
    loops_on,
    path_to_loop,
    path_to_store,
    require_no_vector,
    require_stage,
    stores,
    stores_of,
)
from tensorlang.schedules.rewriting.parts import largest, with_each


@dataclass(frozen=True, slots=True)
class Hoist(Directive):
    """Compute before `loop` what `stage` computes inside that is the same in all its iterations."""

    stage: StageName
    loop: LoopName

    def apply(self, nest: Nest) -> Nest:
        """The nest with stages for what stays the same."""
        require_stage(nest, self.stage)
        path = path_to_loop(nest, self.loop)
        found = list(stores_of(path[-1], (self.stage,)))
        if len(found) != 1:
            reason = "is not computed" if not found else "is written in several places"
            raise Refusal("TL-S301", f"{self.stage!r} {reason} inside {short(self.loop)!r}", stage=self.stage, loop=self.loop)
        require_no_vector(loops_on(path_to_store(nest, found[0])), self.loop, self.stage)
        reason, keep = f"all that {self.stage!r} computes moves with {short(self.loop)!r}", len(loops_on(path)) - 1
        nothing = Refusal("TL-S301", reason, stage=self.stage, loop=self.loop)
        return with_each(nest, invariants(nest, found[0], self.loop), lambda part, expr: self._with(part, expr, keep), nothing)

    def _with(self, nest: Nest, expr: Expr, keep: int) -> Nest:
        """The nest with a stage for one expression, before all but the outermost `keep` loops."""
        (store,) = stores_of(path_to_loop(nest, self.loop)[-1], (self.stage,))
        around = loops_on(path_to_store(nest, store))
        self._require_free(nest, expr, around, keep)
        label = fresh_buffer(nest, f"{self.stage}_hoisted")
        local, numbering = Buffer(label, (), dtype_of(expr)), Numbering()
        wanted = numbering.number(expr)

        def read(part: Expr) -> Expr:
            if numbering.number(part) == wanted:
                return Load(local, ())
            return part if isinstance(part, Load) else map_children(part, read)

        def reading(part: Store) -> Store:
            return replace(part, values=tuple(map(read, part.values))) if part.stage == self.stage else part

        def computing(part: For) -> For:
            return replace(part, body=allocate((local,), block(Store(label, (local,), (), (expr,)), edit_stores(part.body, reading))))

        body = edit_loops(nest.body, lambda part: part.loop == around[-1].loop, computing)
        there = replace(nest, body=body)
        return raised(there, placement_of(there, label, self.loop), keep, self.loop)

    def _require_free(self, nest: Nest, expr: Expr, around: tuple[For, ...], keep: int) -> None:
        """Raise `Refusal` where an expression may only be computed under a condition, or where its loops exist only with `loop`."""
        conditions = conditions_around(nest, around[-1])
        facts = place_facts(nest, around, conditions)
        bare = unknown_read(nest, expr, facts)
        if bare is not None:
            reason = f"what {self.stage!r} reads of {bare.name!r} exists only under a condition, which it would leave"
            raise Refusal("TL-S302", reason, stage=self.stage, loop=self.loop)
        inside = conditions[len(conditions_around(nest, around[keep])) :]
        own = [part for part in around[keep + 1 :] if part.loop in closure(nest, axes_of(expr))]
        ends = [end for part in own for end in (part.lo, part.hi)]
        if self.loop in closure(nest, frozenset().union(*map(axes_of, (*inside, *ends)))):
            reason = f"{self.stage!r} is computed under a condition, or in a loop, that moves with {short(self.loop)!r}"
            raise Refusal("TL-S303", reason, stage=self.stage, loop=self.loop)


def invariants(nest: Nest, store: Store, loop: str) -> list[Expr]:
    """The largest expressions of a statement's values, each once, that a loop around it does not move, in order.

    What other statements of the same iteration make is not there before it.
    """
    beside = [part for part in stores(loops_on(path_to_store(nest, store))[-1].body) if part is not store]
    made = {buffer.name for part in beside for buffer in part.buffers}

    def is_still(expr: Expr) -> bool:
        if loop in closure(nest, axes_of(expr)) or dtype_of(expr) == BOOL or read_in(expr) & made:
            return False
        return reads_data(expr) or (dtype_of(expr).is_floating and bool(axes_of(expr)))

    return largest(store.values, is_still, lambda expr: isinstance(expr, Const | Axis | Dim | Param | Load))  # an index costs nothing
