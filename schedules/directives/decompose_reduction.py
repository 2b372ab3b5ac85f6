"""`decompose_reduction`: a reduction starts right before one of its loops.

    for i in range(4):                          for i in range(4):
        for j in range(6):                          for j in range(6):          # C.init.j
            C[i, j] = 0                                 C[i, j] = 0
    for i in range(4):                  ->          for k in range(8):
        for k in range(8):                              for j in range(6):
            for j in range(6):                              C[i, j] += A[i, k] * B[k, j]
                C[i, j] += A[i, k] * B[k, j]

The initialisation of the tile that the loops inside `loop` touch is computed before it, by copies of those loops of the reduction that
move the element, named after the stage `C.init`.

Legal where no iteration of the loops around it has touched the tile before (the loops of the reduction stand at `loop` or inside),
the tile is the same for all iterations of the reduction, and nothing between the two reads or writes what the initialisation writes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorlang.ir import For, If, Nest, SplitRelation, Store, block
from tensorlang.ir.printer import short
from tensorlang.ir.relations import axes_counted_with, closure, in_scope
from tensorlang.ir.traverse import axes_of, expressions, loads_of, reads_data, statements
from tensorlang.schedules.directive import Directive, LoopName, Refusal
from tensorlang.schedules.legality.accesses import conditions_around
from tensorlang.schedules.legality.dependences import repeated
from tensorlang.schedules.legality.in_bounds import access_guard, covers
from tensorlang.schedules.rewriting.copies import FreshNames, copied, pruned
from tensorlang.schedules.rewriting.edit import (
    allocated_names,
    edit_loops,
    is_filled,
    literal_extent,
    nested,
    path_to,
    path_to_loop,
    remove,
    stage_of,
    stores,
)


@dataclass(frozen=True, slots=True)
class DecomposeReduction(Directive):
    """Initialise the part of the reduction that an iteration around `loop` touches right before `loop`."""

    loop: LoopName

    def apply(self, nest: Nest) -> Nest:
        """The nest with the initialisation moved."""
        path = path_to_loop(nest, self.loop)
        loop = path[-1]
        assert isinstance(loop, For)
        store, start = self._stores(nest, loop)
        kept = allocated_names(loop) & {buffer.name for buffer in store.buffers}
        if kept:
            raise Refusal(
                "TL-S301",
                f"{min(kept)!r} exists only inside {short(self.loop)!r}, so it cannot be initialised before it",
                stage=store.stage,
                loop=self.loop,
            )
        inside = [part for part in path_to(loop, lambda part: part is store) if isinstance(part, For)]
        needed = closure(nest, frozenset().union(*(axes_of(part) for part in store.index)))
        tile = [part for part in inside if part.loop in needed]
        reducing = {part.loop for part in inside} - needed
        for part in tile:
            depends = closure(nest, axes_of(part.lo) | axes_of(part.hi)) & reducing
            if depends:
                raise Refusal(
                    "TL-S104",
                    f"the bounds of {short(part.loop)!r} depend on the reduction loop {short(min(depends))!r}, "
                    "so the tile has no fixed shape",
                    stage=store.stage,
                    loop=self.loop,
                )
        around = [part for part in path[:-1] if isinstance(part, For)]
        own = axes_counted_with(nest, store.index)
        if any(part.loop not in own for part in tile):
            raise Refusal(
                "TL-S104",
                f"the loops inside {short(self.loop)!r} that move the element also run over the reduction, so the tile has no fixed shape",
                stage=store.stage,
                loop=self.loop,
            )
        above = path_to(nest.body, lambda part: part is start)
        shared = {part.loop for part in above if isinstance(part, For)}
        apart = any(isinstance(part, If) and all(part is not other for other in above) for part in path)
        if self.loop in shared or apart:
            where = "stands under a condition" if apart else "holds the initialisation already, in each iteration"
            raise Refusal("TL-S301", f"{short(self.loop)!r} {where}", stage=store.stage, loop=self.loop)
        loops, held = [*around, *inside], conditions_around(nest, path[-1])
        if not covers(nest, store, start, loops) or access_guard(nest, store.buffers[0], store.index, (*around, *tile), held) is not None:
            reason = f"the loops around and inside {short(self.loop)!r} do not visit just the elements that {start.stage!r} initialises"
            raise Refusal("TL-S301", reason, stage=store.stage, loop=self.loop)
        self._require_unread(nest, start, loop)
        self._require_first(nest, store, around, shared)
        for part in around:
            if part.loop not in own | shared and literal_extent(part) != 1:
                raise Refusal(
                    "TL-S301",
                    f"the reduction loop {short(part.loop)!r} stands around {short(self.loop)!r}; where it runs not at all, "
                    "the initialisation would not run either",
                    stage=store.stage,
                    loop=self.loop,
                )
        for relation in in_scope(nest, (part.loop for part in around)):
            if isinstance(relation, SplitRelation) and relation.parent not in needed and not is_filled(relation):
                raise Refusal(
                    "TL-S301",
                    f"the tail of {short(relation.parent)!r} around {short(self.loop)!r} runs not everywhere, and there the "
                    "initialisation would not run either",
                    stage=store.stage,
                    loop=self.loop,
                )
        rest = remove(nest.body, lambda part: part is start)
        assert rest is not None
        bare = pruned(replace(nest, body=rest))
        names = FreshNames.of(bare)
        made = copied(
            bare,
            nested(tile, replace(start, index=store.index)),
            [part.loop for part in around],
            [part.loop for part in tile],
            lambda axis: names.fresh(f"{start.stage}.{short(axis)}"),
        )
        result = edit_loops(bare.body, lambda part: part.loop == self.loop, lambda part: block(made.body, part))
        return replace(bare, body=result, relations=(*bare.relations, *made.relations))

    def _stores(self, nest: Nest, loop: For) -> tuple[Store, Store]:
        """The combining store inside the loop and the store that initialises it."""
        combining = [store for store in stores(loop.body) if store.reducer is not None]
        own = [store for store in combining if store.stage == stage_of(self.loop)] or combining
        if len(own) != 1:
            what = "no reduction" if not own else "several reductions"
            raise Refusal(
                "TL-S304", f"{short(self.loop)!r} holds {what}; name a loop around one", stage=stage_of(self.loop), loop=self.loop
            )
        stage = own[0].stage
        same = [store for store in stores(nest.body) if store.stage == stage]
        starts = [store for store in stores(nest.body) if store.stage == f"{stage}.init"]
        if len(same) != 1 or len(starts) != 1 or starts[0].buffers != own[0].buffers:
            raise Refusal(
                "TL-S301", f"{stage!r} has no initialisation of its own that could move, or several copies", stage=stage, loop=self.loop
            )
        _require_static(own[0], self.loop)
        return own[0], starts[0]

    def _require_unread(self, nest: Nest, start: Store, loop: For) -> None:
        """Refuse where something in between would find what was there before the initialisation: a reduction may combine nothing."""
        order = list(statements(nest.body))
        first, last = (next(place for place, part in enumerate(order) if part is other) for other in (start, loop))
        for part in order[first + 1 : last]:
            read = [load.buffer for expr in expressions(part) for load in loads_of(expr)]
            if any(buffer in start.buffers for buffer in (*read, *(part.buffers if isinstance(part, Store) else ()))):
                raise Refusal(
                    "TL-S301",
                    f"what stands between {start.stage!r} and {short(self.loop)!r} reads or writes what the first writes",
                    stage=start.stage,
                    loop=self.loop,
                )

    def _require_first(self, nest: Nest, store: Store, around: list[For], shared: set[str]) -> None:
        """Refuse where the initialisation would run again on elements that earlier iterations have combined into."""
        fixed = [part for part in around if part.loop in shared]
        free = [part for part in around if part.loop not in shared]
        inside = [part for part in path_to(nest.body, lambda part: part is store) if isinstance(part, For)][len(around) :]
        example = repeated(nest, store, free, fixed, inside)
        if example is not None:
            raise Refusal(
                "TL-S103",
                f"two iterations around {short(self.loop)!r} combine into {example['element']}, and the second would start it again",
                stage=store.stage,
                loop=self.loop,
                counterexample=example,
            )


def _require_static(store: Store, loop: str) -> None:
    """Raise `Refusal` where data decides to which element a reduction stores."""
    if any(map(reads_data, store.index)):
        raise Refusal(
            "TL-S304",
            f"data decide which element {store.stage!r} combines into, so its loops cannot be told apart",
            stage=store.stage,
            loop=loop,
        )
