"""`accumulate`: keep the tile of a reduction's output in registers.

    for k in range(8):                              for k in range(8):
        for i in range(4):                              C_acc: float32[4] in registers
            C[i] += A[i, k]                 ->          ... C_acc[i] = 0 where k == 0, else C[i]
                                                        for i in range(4):
                                                            C_acc[i] += A[i, k]
                                                        ... C[i] = C_acc[i]

The tile holds what the loops inside `at` touch. It starts from the identity in the first iteration of the reduction loops outside
(the separate `C.init` then goes), else from the tensor, and is stored at the end. The copies follow the inner loops: splitting,
unrolling or vectorising those does the same to the copies.

With `partial`, the tile starts from the identity in every iteration of `at` and is combined with the tensor at the end, which states a
re-association: sums of sums, whose rounding errors stay small. Such a tile may be larger than registers; it is memory then.

    for k_o in range(8):                            for k_o in range(8):
        for k_i in range(32):                           C_acc: float32[] in registers
            C[] += A[k]                     ->          C_acc[] = 0
                                                        for k_i in range(32):
                                                            C_acc[] += A[k]
                                                        ... C[] = C_acc[] where k_o == 0, else C[] += C_acc[]

Legal where the reduction is the only use of the tensor inside the loop and the tile has a literal shape within the register budget. The
tile of a scatter may hold an element twice only where that does no harm (see `require_distinct`); each place of a partial tile is combined
with its element, so that there it never does.
The copies touch elements that a condition around the reduction may leave alone: what they touch is inside (see `in_bounds`), goes back as
it was, and loops around that run in parallel are proved again. Under a condition that is the same in all of `at`, they are tested too.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tensorlang import ir
from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.rules import TRUE
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Buffer, Compare, Expr, For, If, Load, Nest, SplitRelation, Stmt, Store, allocate, block
from tensorlang.ir.printer import short
from tensorlang.ir.relations import axes_counted_with, closure, equations, in_scope
from tensorlang.ir.traverse import axes_of
from tensorlang.schedules.directive import Directive, LoopName, Refusal, TensorName
from tensorlang.schedules.directives.loop_kinds import require_kinds
from tensorlang.schedules.directives.pack import require_early_indices
from tensorlang.schedules.legality.accesses import accesses, conditions_around, facts_of, reads
from tensorlang.schedules.legality.dependences import conflict, repeated
from tensorlang.schedules.legality.in_bounds import access_guard, conditions_throughout, covers, guarded
from tensorlang.schedules.placement.local_copies import (
    Clone,
    clone,
    literal_shape,
    moving,
    offsets,
    require_distinct,
    require_fixed,
    tile_name,
)
from tensorlang.schedules.rewriting.edit import edit_loops, edit_stores, literal_extent, path_to, path_to_loop, remove, stores
from tensorlang.schedules.rewriting.version import version_of

MAX_TILE_BYTES = 16 << 10
MAX_PARTIAL_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Accumulate(Directive):
    """Keep the tile of the reduction `tensor` that the loops inside `at` touch in registers; `partial` combines it at the end only."""

    tensor: TensorName
    at: LoopName
    partial: bool = False

    def apply(self, nest: Nest) -> Nest:
        """The nest with the tile."""
        path = path_to_loop(nest, self.at)
        loop = path[-1]
        assert isinstance(loop, For)
        outer = [part for part in path if isinstance(part, For)]
        store = self._store(nest, loop, outer)
        self._require_own_lanes(nest, store, outer)
        inside = [part for part in path_to(loop.body, lambda part: part is store) if isinstance(part, For)]
        tile = moving(nest, store.index, inside)
        require_early_indices(loop, [store.index], self.tensor)
        first, removable = self._first(nest, store, outer, tile)
        if removable or not self.partial:
            require_distinct(nest, loop, store, tile, outer, self.tensor)
        else:
            self._require_apart(nest, loop, store, tile, outer)
        require_fixed(nest, tile, inside, f"accumulate of {self.tensor!r}")
        shape = literal_shape(tile, "accumulate")
        size = sum(buffer.dtype.bytes for buffer in store.buffers)
        for extent in shape:
            size *= extent
        most, where = (MAX_PARTIAL_BYTES, "memory") if self.partial else (MAX_TILE_BYTES, "registers or their spill area")
        if size > most:
            raise Refusal("TL-S203", f"a tile of {size} bytes does not fit {where} (at most {most}); split more", loop=self.at)
        labels = {buffer.name: tile_name(nest, buffer.name) for buffer in store.buffers}
        memory: ir.Memory = "register" if size <= MAX_TILE_BYTES else "auto"
        extents = tuple(map(ir.const, shape))
        local = tuple(Buffer(labels[buffer.name], extents, buffer.dtype, memory) for buffer in store.buffers)
        around = [part.loop for part in outer]
        stage = local[store.buffers.index(self._target(store))].name
        clones: list[Clone] = []

        def scoped() -> Nest:
            return replace(nest, relations=(*nest.relations, *(relation for made in clones for relation in made.relations)))

        def copy(part: str) -> Clone:
            made = clone(scoped(), f"{stage}.{part}", tile, around, follow=True)
            clones.append(made)
            return made

        # Where the separate initialisation stays, a tile that nothing happens to need not be fetched, nor go back.
        spared = [] if removable else conditions_throughout(nest, loop, store, outer)
        held = (*conditions_around(nest, loop), *spared)

        def moved(made: Clone, index: tuple[Expr, ...], copied: Store) -> Stmt:
            test = access_guard(scoped(), store.buffers[0], index, (*outer, *made.loops), held)
            return made.in_loops(guarded(test, copied, *spared))

        assert store.reducer is not None
        starts: list[Stmt] = []
        if removable or self.partial:
            made = copy("init")
            starts.append(made.in_loops(Store(f"{stage}.init", local, offsets(made.loops), store.reducer.identities)))
        if not self.partial and (not removable or first != TRUE):
            made = copy("load")
            index = tuple(made.of(part) for part in store.index)
            values = tuple(Load(buffer, index) for buffer in store.buffers)
            starts.append(moved(made, index, Store(f"{stage}.load", local, offsets(made.loops), values)))
        start = starts[0] if len(starts) == 1 else If(first, starts[0], starts[1])

        def ending(part: str, reducer: ir.Reducer | None) -> Stmt:
            made = copy(part)
            index = tuple(made.of(part) for part in store.index)
            values = tuple(Load(buffer, offsets(made.loops)) for buffer in local)
            return moved(made, index, Store(f"{stage}.{part}", store.buffers, index, values, reducer))

        ends: list[Stmt] = []
        if removable or not self.partial:
            ends.append(ending("store", None))
        if self.partial and (not removable or first != TRUE):
            ends.append(ending("add", store.reducer))
        end = ends[0] if len(ends) == 1 else If(first, ends[0], ends[1])
        here = offsets(tile)
        body = edit_stores(loop.body, lambda part: replace(part, buffers=local, index=here) if part is store else part)
        body = block(start, body, end)
        body = allocate(local, body)
        result: Stmt | None = edit_loops(
            nest.body, lambda part: part is loop or part.loop == self.at, lambda part: replace(part, body=body)
        )
        if removable:
            gone = {id(part) for part in _initialisations(version_of(nest.body, self.at), store)}
            result = remove(result, lambda part: id(part) in gone) if result is not None else None
        assert result is not None
        made_nest = replace(scoped(), body=result)
        require_kinds(made_nest, outer)
        return made_nest

    def _require_own_lanes(self, nest: Nest, store: Store, outer: list[For]) -> None:
        index = closure(nest, frozenset().union(*(axes_of(part) for part in store.index)) if store.index else ())
        for loop in outer:
            if loop.kind in ("vector", "parallel") and loop.loop not in index:
                raise Refusal(
                    "TL-S107",
                    f"the {'lanes' if loop.kind == 'vector' else 'iterations'} of {short(loop.loop)!r} add to one element, "
                    "so each would load and store it; accumulate outside that loop",
                    stage=store.stage,
                    loop=self.at,
                )

    def _require_apart(self, nest: Nest, loop: For, store: Store, tile: tuple[For, ...], outer: list[For]) -> None:
        """Raise `Refusal` where what runs at the same time would be combined with one element."""
        for place, part in enumerate(tile):
            if part.kind not in ("serial", "unroll"):
                require_distinct(nest, loop, store, (part,), [*outer, *tile[:place]], self.tensor, tile[place + 1 :])

    def _store(self, nest: Nest, loop: For, outer: list[For]) -> Store:
        found = [store for store in stores(loop.body) if any(buffer.name == self.tensor for buffer in store.buffers)]
        combining = [store for store in found if store.reducer is not None]
        if not found:
            raise Refusal("TL-S302", f"{self.tensor!r} is not computed inside {short(self.at)!r}", stage=self.tensor, loop=self.at)
        if len(combining) != 1 or len(found) != 1:
            raise Refusal(
                "TL-S304",
                f"accumulate needs one reduction into {self.tensor!r} inside {short(self.at)!r} and no other store to it",
                stage=self.tensor,
                loop=self.at,
            )
        names = {buffer.name for buffer in combining[0].buffers}
        if any(getattr(load.buffer, "name", "") in names for load in reads(loop.body)):
            self._require_unread(nest, loop, outer, names)
        return combining[0]

    def _require_unread(self, nest: Nest, loop: For, outer: list[For], names: set[str]) -> None:
        """Raise `Refusal` where an iteration may read what it computes; reads of other elements (a state of a scan) do not matter.

        The tile is stored over the loops that move it alone, also where the others run not at all.
        """
        found = [access for access in accesses(loop, tuple(outer[:-1])) if access.buffer.name in names]
        shared = frozenset(part.loop for part in outer)
        stored = [
            replace(one, loops=(*outer, *moving(nest, one.index, one.loops[len(outer) :])), conditions=()) for one in found if one.writes
        ]
        for write, read in itertools.product(stored, [one for one in found if not one.writes]):
            example = None if write.buffer != read.buffer else conflict(nest, read, write, shared, ())
            if example is not None:
                raise Refusal(
                    "TL-S302",
                    f"{self.tensor!r} is also read inside {short(self.at)!r}, before the tile is stored",
                    stage=self.tensor,
                    loop=self.at,
                    counterexample=example,
                )

    def _target(self, store: Store) -> Buffer:
        return next(buffer for buffer in store.buffers if buffer.name == self.tensor)

    def _first(self, nest: Nest, store: Store, outer: list[For], tile: Sequence[For]) -> tuple[Expr, bool]:
        """When an iteration is the first to touch its tile, and whether that makes the separate initialisation superfluous.

        It does where the loops between the two visit each tile once for each iteration of those that do not move it, and no tile is left
        out: neither in the first of these iterations, nor since that lies beyond the end of the reduction, where a part of it is started in
        a loop of its own, nor because a loop that places tiles runs over the reduction too and may be empty.
        What the loops inside leave out of a tile does not matter: it is started and stored whole.
        """
        version = version_of(nest.body, self.at)
        starts = _initialisations(version, store)
        if len(starts) != 1 or starts[0].buffers != store.buffers or sum(part.stage == store.stage for part in stores(version)) != 1:
            return TRUE, False
        above = path_to(nest.body, lambda part: part is starts[0])
        if any(isinstance(part, If) and all(part is not other for other in above) for part in path_to_loop(nest, self.at)):
            return TRUE, False  # where the condition does not hold, only the separate initialisation writes the element
        around = {part.loop for part in above if isinstance(part, For)}
        index = closure(nest, frozenset().union(*(axes_of(part) for part in store.index)) if store.index else ())
        free = [loop for loop in outer if loop.loop not in around]
        reducing = [loop for loop in free if loop.loop not in index]
        first: Expr = TRUE
        for loop in reducing:
            first = simplify(Binary("and", first, Compare("eq", Axis(loop.loop), loop.lo)))
        runs = all((literal_extent(loop) or 0) > 0 for loop in reducing)
        if not runs or any(axes_of(loop.lo) for loop in reducing):
            return first, False
        inside = [part for part in path_to(outer[-1], lambda part: part is store)[1:] if isinstance(part, For)]
        fixed, placing = [loop for loop in outer if loop.loop in around], [loop for loop in free if loop.loop in index]
        if not covers(nest, store, starts[0], [*outer, *tile]) or self._is_beyond(nest, fixed, outer, reducing, index):
            return first, False
        moved = [loop for loop in (*placing, *inside) if loop.loop in index]
        bounds = closure(nest, frozenset().union(*(axes_of(bound) for loop in moved for bound in (loop.lo, loop.hi))))
        if bounds & {loop.loop for loop in reducing} or not {loop.loop for loop in moved} <= axes_counted_with(nest, store.index):
            return first, False
        return first, repeated(nest, store, placing, fixed, [*reducing, *inside]) is None

    def _is_beyond(self, nest: Nest, fixed: Sequence[For], outer: Sequence[For], reducing: Sequence[For], index: Collection[str]) -> bool:
        """May the first iteration of the reducing loops lie beyond the end of what they are parts of, where the fixed ones stand?"""
        known = in_scope(nest, [loop.loop for loop in fixed])
        every = in_scope(nest, [loop.loop for loop in outer])
        cut = [part for part in every if part not in known and isinstance(part, SplitRelation) and part.parent not in index]
        facts = [fact for loop in outer for fact in facts_of(loop)]
        facts += [fact for part in every for fact in (equations(part)[:1] if part in cut else equations(part))]
        facts += [Compare("eq", Axis(loop.loop), loop.lo) for loop in reducing]
        return any(find(*facts, Compare("ge", Axis(part.parent), part.hi)) is not None for part in cut)


def _initialisations(stmt: Stmt, store: Store) -> list[Store]:
    return [part for part in stores(stmt) if part.stage == f"{store.stage}.init"]
