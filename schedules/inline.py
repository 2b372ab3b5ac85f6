"""`compute_inline`: write a producer's expression into every use of it.

    for i in range(4):                  for i in range(4):
        h[i] = A[i] + 1         ->          v[i] = (A[i] + 1) * 2
    for i in range(4):
        v[i] = h[i] * 2

Legal where the stage is an intermediate and not a reduction, and its own loops are not scheduled yet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorlang.ir import Alloc, Axis, Expr, For, Load, Nest, Store
from tensorlang.relations import in_scope
from tensorlang.schedules.compute_at import producer, producer_parts
from tensorlang.schedules.copies import derived, pruned
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.edit import path_to, remove, stage_of, stores, without_alloc
from tensorlang.schedules.region import solved
from tensorlang.traverse import axes_of, expressions, loads_of, map_children, map_expressions, statements, substitute, walk

MAX_NODES = 1 << 14


@dataclass(frozen=True, slots=True)
class ComputeInline:
    """Replace every read of `stage` by its expression."""

    stage: str

    def apply(self, nest: Nest) -> Nest:
        """The nest without the stage."""
        buffers = producer(nest, self.stage)
        parts = producer_parts(nest, self.stage)
        found = [store for part in parts for store in stores(part)]
        if len(found) != 1 or found[0].reducer is not None:
            raise Refusal(
                "TL-S301",
                f"{self.stage!r} holds a reduction, and a reduction cannot be written into an expression; use compute_at",
                stage=self.stage,
            )
        store = found[0]
        axes = [part.name for part in store.index if isinstance(part, Axis)]
        kept = path_to(nest.body, lambda part: isinstance(part, Alloc) and part.buffer in buffers)
        inside = any(isinstance(part, For) and stage_of(part.loop) == self.stage for part in kept)
        scheduled = inside or len(axes) != len(store.index) or len(list(statements(parts[0]))) != len(axes) + 1
        if scheduled:
            raise Refusal("TL-S301", f"the loops of {self.stage!r} are already scheduled; inline it first", stage=self.stage)
        self._require_visible(nest, store)
        follow = self._follow(nest, store, axes)
        values = {buffer.name: substitute(value, follow) for buffer, value in zip(store.buffers, store.values, strict=True)}
        size = sum(1 for value in values.values() for _ in walk(value))
        uses = 0

        def rewrite(expr: Expr) -> Expr:
            nonlocal uses
            expr = map_children(expr, rewrite)
            if isinstance(expr, Load) and getattr(expr.buffer, "name", "") in values:
                uses += 1
                return substitute(values[getattr(expr.buffer, "name", "")], dict(zip(axes, expr.index, strict=True)))
            return expr

        rest = remove(nest.body, lambda part: part is store)
        if rest is None:
            raise Refusal("TL-S301", f"{self.stage!r} is all there is", stage=self.stage)
        for buffer in buffers:
            rest = without_alloc(rest, buffer)
        rest = map_expressions(rest, rewrite)
        if uses * size > MAX_NODES:
            raise Refusal(
                "TL-S202", f"inlining {self.stage!r} into {uses} uses makes {uses * size} nodes (at most {MAX_NODES})", stage=self.stage
            )
        return pruned(replace(nest, body=rest))

    def _follow(self, nest: Nest, store: Store, axes: list[str]) -> dict[str, Expr]:
        """What else follows from the loops of the stage, which are gone afterwards, over the axes of its index. Raises `Refusal`."""
        around = [part.loop for part in path_to(nest.body, lambda part: part is store) if isinstance(part, For)]
        scope = in_scope(nest, around)
        gone, found = derived(scope, around[-len(axes) :] if axes else ()) - set(axes), dict[str, Expr]()
        for relation in scope:
            found.update({axis: substitute(value, found) for axis, value in solved(relation).items() if axis in gone})
        left = frozenset().union(*(axes_of(substitute(value, found)) for value in store.values)) & gone
        if left:
            raise Refusal("TL-S301", f"the loops of {self.stage!r} are already scheduled; inline it first", stage=self.stage)
        return found

    def _require_visible(self, nest: Nest, store: Store) -> None:
        """Raise `Refusal` where the expression reads storage that its readers do not see."""
        used = {load.buffer for value in store.values for load in loads_of(value)}
        targets = set(store.buffers)
        readers = {
            id(part) for part in stores(nest.body) if targets & {load.buffer for expr in expressions(part) for load in loads_of(expr)}
        }
        for part in statements(nest.body):
            if isinstance(part, Alloc) and part.buffer in used and not readers <= {id(inner) for inner in stores(part.body)}:
                reason = f"{self.stage!r} reads {part.buffer.name!r}, which is only there inside its own loops; inline it first"
                raise Refusal("TL-S301", reason, stage=self.stage)
