"""`cache_write`: compute into a local buffer and copy it back.

    for i_o in range(5):                            for i_o in range(5):
        for j in range(53):                             C_cache: float32[53, 8]
            for i_i in range(8):                        for j in range(53):
                C[i, j] = f(i, j)           ->              for i_i in range(8):
                                                                C_cache[j, i_i] = f(i, j)
                                                        ... C[i, j] = C_cache[j, i_i]

The buffer has one dimension for each loop inside `at` that moves the tensor's index, outermost first, so those loops walk it
contiguously, and the copies run over exactly what the loops write. Of a reduction the buffer starts as what the tensor holds. The
copies follow the inner loops: splitting, unrolling or vectorising those does the same to the copies.

Legal where one statement inside the loop writes the tensor and nothing there reads it. Where several iterations write one element (a
scatter), the buffer has a place for each of them, and the copy has to leave what the statement would have left: it does where it runs
over the same places in the same order, and the loops that do not move the element run alike at each of them (`CacheWrite._in_order`).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from tensorlang import ir
from tensorlang.algebra.polyhedra import find
from tensorlang.ir import Axis, Buffer, Compare, Const, Expr, For, FuseRelation, If, Load, Nest, Stmt, Store, Unary, allocate, block
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure, equations, in_scope
from tensorlang.ir.traverse import axes_of, reads_data
from tensorlang.schedules.directive import Directive, LoopName, Refusal, TensorName
from tensorlang.schedules.directives.pack import MAX_COPY_BYTES, require_early_indices
from tensorlang.schedules.legality.accesses import reads
from tensorlang.schedules.legality.in_bounds import place_facts
from tensorlang.schedules.placement.local_copies import Clone, clone, fresh_buffer, moving, offsets, require_distinct
from tensorlang.schedules.placement.upper_bounds import greatest
from tensorlang.schedules.rewriting.edit import (
    allocated_names,
    edit_loops,
    edit_stores,
    extent_of,
    literal_extent,
    loops_on,
    path_to,
    path_to_loop,
    require_no_vector,
    stores,
)


@dataclass(frozen=True, slots=True)
class CacheWrite(Directive):
    """Compute what the loops inside `at` write to `tensor` in a local buffer."""

    tensor: TensorName
    at: LoopName

    def apply(self, nest: Nest) -> Nest:
        """The nest with the buffer."""
        path = path_to_loop(nest, self.at)
        loop = path[-1]
        assert isinstance(loop, For)
        outer = loops_on(path)
        require_no_vector(outer, self.at, self.tensor)
        store = self._store(loop)
        way = path_to(loop.body, lambda part: part is store)
        inside = tuple(part for part in way if isinstance(part, For))
        tile = moving(nest, store.index, inside)
        require_early_indices(loop, [store.index], self.tensor)
        if store.reducer is not None or not self._in_order(nest, inside, tile):
            require_distinct(nest, loop, store, tile, outer, self.tensor)
        lanes = next((part for part in inside if part.kind == "vector" and part not in tile), None)
        if store.reducer is None and lanes is not None:
            reason = f"lanes of {short(lanes.loop)!r} would write one element of the buffer at once; vectorize after"
            raise self._refusal("TL-S107", reason)
        conditions = self._conditions(nest, way, inside, tile)
        if store.reducer is None:
            self._require_reached(nest, outer, inside, tile)
        shape = self._shape(nest, tile)
        labels = {buffer.name: fresh_buffer(nest, f"{buffer.name}_cache") for buffer in store.buffers}
        local = tuple(Buffer(labels[buffer.name], shape, buffer.dtype) for buffer in store.buffers)
        stage = labels[self.tensor]
        clones: list[Clone] = []

        def copied(part: str, *, load: bool) -> Stmt:
            scoped = replace(nest, relations=(*nest.relations, *(relation for made in clones for relation in made.relations)))
            made = clone(scoped, f"{stage}.{part}", tile, [part.loop for part in outer], follow=True)
            clones.append(made)
            whole, here = tuple(made.of(part) for part in store.index), offsets(made.loops)
            body: Stmt
            if load:
                body = Store(f"{stage}.{part}", local, here, tuple(Load(buffer, whole) for buffer in store.buffers))
            else:
                body = Store(f"{stage}.{part}", store.buffers, whole, tuple(Load(buffer, here) for buffer in local), stream=store.stream)
            for cond in reversed(conditions):
                body = If(made.of(cond), body)
            return made.in_loops(body)

        here = offsets(tile)
        body = edit_stores(loop.body, lambda part: replace(part, buffers=local, index=here, stream=False) if part is store else part)
        start = () if store.reducer is None else (copied("load", load=True),)
        body = block(*start, body, copied("store", load=False))
        body = allocate(local, body)
        result = edit_loops(nest.body, lambda part: part.loop == self.at, lambda part: replace(part, body=body))
        return replace(nest, body=result, relations=(*nest.relations, *(relation for made in clones for relation in made.relations)))

    def _refusal(self, code: str, reason: str) -> Refusal:
        return Refusal(code, reason, stage=self.tensor, loop=self.at)

    def _store(self, loop: For) -> Store:
        found = [store for store in stores(loop.body) if any(buffer.name == self.tensor for buffer in store.buffers)]
        if not found:
            raise self._refusal("TL-S302", f"{self.tensor!r} is not computed inside {short(self.at)!r}")
        if len(found) > 1:
            raise self._refusal(
                "TL-S302", f"{len(found)} statements inside {short(self.at)!r} write {self.tensor!r}; cache_write needs one"
            )
        names = {buffer.name for buffer in found[0].buffers}
        if names & allocated_names(loop.body):
            raise self._refusal("TL-S302", f"{self.tensor!r} is local to {short(self.at)!r} already")
        if any(getattr(load.buffer, "name", "") in names for load in reads(loop.body)):
            raise self._refusal("TL-S302", f"{self.tensor!r} is also read inside {short(self.at)!r}, before it is copied back")
        return found[0]

    def _in_order(self, nest: Nest, inside: tuple[For, ...], tile: tuple[For, ...]) -> bool:
        """Does copying place after place of the tile leave the last of what was set, though several places are of one element?

        The buffer keeps, at each place, what the last iteration of the loops outside the tile set there, and the copy leaves what the last
        place of an element holds. Where these loops run over the same iterations at every place, this is the write that the statement
        makes last: if it made `(s, t)` last, `s` of these loops and `t` of the tile, and `t'` were a later place of the element, then
        `(s, t')` would be made, too, and later; and if `s'` were a later iteration, so would `(s', t)`. That all of the tile runs in every
        iteration is asked of all that is copied back (`_conditions`, `_require_reached`).
        """
        still = [part for part in inside if part not in tile]
        bounds = [bound for part in still for bound in (part.lo, part.hi)]
        tied = [closure(nest, axes_of(bound)) for bound in bounds]
        for relation in in_scope(nest, (part.loop for part in inside)):
            around = frozenset().union(*(closure(nest, axes_of(fact)) for fact in equations(relation)))
            tied += [around] if around & {part.loop for part in still} else []
        return (
            all(part.kind in ("serial", "unroll") for part in inside)
            and not any(map(reads_data, bounds))
            and not any(found & {part.loop for part in tile} for found in tied)
        )

    def _conditions(self, nest: Nest, way: tuple[Stmt, ...], inside: tuple[For, ...], tile: tuple[For, ...]) -> tuple[Expr, ...]:
        """When an element of the tile is written: the conditions around the store, and that the loops that do not move it run."""
        still = {part.loop for part in inside if part not in tile}
        found: list[Expr] = []
        for above, below in itertools.pairwise(way):
            if isinstance(above, ir.If):
                found.append(above.cond if above.then is below else ir.Unary("not", above.cond))
        found += [
            Compare("gt", extent_of(part), ir.const(0)) for part in inside if part not in tile and not (literal_extent(part) or 0) > 0
        ]
        bounds = [bound for part in tile for bound in (part.lo, part.hi)]
        if any(closure(nest, axes_of(expr)) & still or reads_data(expr) for expr in (*found, *bounds)):
            raise self._refusal(
                "TL-S303",
                f"which elements of {self.tensor!r} an iteration of {short(self.at)!r} writes depends on more than where they are",
            )
        return tuple(found)

    def _require_reached(self, nest: Nest, outer: tuple[For, ...], inside: tuple[For, ...], tile: tuple[For, ...]) -> None:
        """Raise `Refusal` where the tails of loops that do not move the element may let none of their iterations run.

        The first one has to: an element that is copied back without having been computed would be whatever the buffer held.
        """
        still = [part for part in inside if part not in tile]
        kept = in_scope(nest, (part.loop for part in (*outer, *tile)))
        left = [relation for relation in in_scope(nest, (part.loop for part in (*outer, *inside))) if relation not in kept]
        facts = place_facts(nest, (*outer, *tile), [Compare("eq", Axis(part.loop), part.lo) for part in still])
        tails: list[Expr] = []
        for relation in left:
            *ties, last = equations(relation)
            facts += ties
            (facts if isinstance(relation, FuseRelation) else tails).append(last)
        for tail in tails:
            if find(*facts, Unary("not", tail)) is not None:
                reason = (
                    f"the tails inside {short(self.at)!r} may leave an element of {self.tensor!r} uncomputed, which the copy would write"
                )
                raise self._refusal("TL-S303", reason)

    def _shape(self, nest: Nest, tile: tuple[For, ...]) -> tuple[Expr, ...]:
        shape: list[Expr] = []
        size = 1
        for part in tile:
            extent = greatest(nest, extent_of(part), tile)
            if extent is None:
                raise self._refusal("TL-S303", f"the number of iterations of {short(part.loop)!r} has no simple bound")
            shape.append(extent)
            size *= int(extent.value) if isinstance(extent, Const) else 1
        if size > MAX_COPY_BYTES:
            raise self._refusal("TL-S203", f"a copy of {size} elements is too large")
        return tuple(shape)
