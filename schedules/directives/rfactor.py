"""`rfactor`: the iterations of a reduction loop make partial results of their own.

    for i in range(4):                          Y_rf: float32[16, 4]
        Y[i] = 0                                for k_o in range(16):
    for i in range(4):                              for i in range(4):
        for k_o in range(16):                           Y_rf[k_o, i] = 0
            for k_i in range(64):       ->      for k_o in range(16):
                Y[i] += X[i, k]                     for i in range(4):
                                                        for k_i in range(64):
                                                            Y_rf[k_o, i] += X[i, k]
                                                for i in range(4):
                                                    Y[i] = 0
                                                for i in range(4):
                                                    for k_o in range(16):
                                                        Y[i] += Y_rf[k_o, i]

The partial results are the stages `Y_rf.init` and `Y_rf`, whose loops are copies named `Y_rf.k_o`, `Y_rf.i`, ...; the factored loop is
outermost, so that it may be parallel, and the other loops keep the order that they have. `Y` combines the partial results over its
own loops. Iterations that a split guards off leave the identity. Works for every reducer; the result is re-associated.

The other loops stay what they are, parallel, vector or unrolled, where that can be proved of the new nests too.

Where the loops do not say which elements are combined into (a scatter: a histogram, a sum under a condition that alone keeps the
index inside), each partial result is a whole tensor: all of it starts from the identity, and all of it is combined,

    for r in range(1000):                       H_rf: int32[8, 10]
        H[X[r]] += 1                            for r_o in range(8):
                                                    for d0 in range(10):
                                                        H_rf[r_o, d0] = 0
                                        ->      for r_o in range(8):
                                                    for r_i in range(125):
                                                        H_rf[r_o, X[r]] += 1
                                                for d0 in range(10):
                                                    for r_o in range(8):
                                                        H[d0] += H_rf[r_o, d0]

Legal where the loop runs over the reduction, is serial or unrolled, its extent is a literal or over dims, and the loops of the
reduction from it inwards and outwards are one perfect nest. What else is computed inside them stays beside the partial results; it must
not use the reduction, and bear that the factored loop is outermost.

The loops that move the element combine the partial results, so they have to visit each element once, or as often as the reducer lets
them (`rewrites.idempotent`). Fused loops may visit it again: of `max`, not of `+`, whose partial results would be added twice. Where the
factored loop is empty there are none: its range is the same for all the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Block, Buffer, Const, Expr, For, Load, Nest, Stmt, Store, allocate, block
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, map_statements, reads_data
from tensorlang.schedules.directive import Directive, LoopName, Refusal
from tensorlang.schedules.directives.loop_kinds import require_kind
from tensorlang.schedules.legality.accesses import accesses, conditions_around
from tensorlang.schedules.legality.dependences import repeated, runs
from tensorlang.schedules.legality.in_bounds import access_guard
from tensorlang.schedules.legality.orders import reordered
from tensorlang.schedules.legality.rewrites import idempotent
from tensorlang.schedules.placement.local_copies import fresh_buffer, moving as moving_loops
from tensorlang.schedules.rewriting.boxes import MAX_PARTIAL_BYTES, at_least_none, literal_bytes, new_stage
from tensorlang.schedules.rewriting.copies import FreshNames, copied, pruned
from tensorlang.schedules.rewriting.edit import (
    allocated_names,
    edit_stores,
    extent_of,
    find_loop,
    loops,
    nested,
    path_to,
    path_to_store,
    stage_of,
    stores,
)


@dataclass(frozen=True, slots=True)
class Rfactor(Directive):
    """Give each iteration of the reduction loop `loop` a partial result of its own, and combine them afterwards."""

    loop: LoopName

    def apply(self, nest: Nest) -> Nest:
        """The nest with the partial results."""
        loop = find_loop(nest, self.loop)
        store = reduction_in(nest, loop)
        path = path_to(nest.body, lambda part: part is store)
        chain, outer = self._chain(nest, path, store)
        moving = None if self._scattered(nest, chain, outer, store) else self._moving(nest, chain, outer, store)
        shape = (self._extent(nest, loop, chain), *store.buffers[0].shape)
        size = literal_bytes(shape, store.buffers)
        if size > MAX_PARTIAL_BYTES:
            raise Refusal(
                "TL-S203",
                f"partial results of {size} bytes are too large (at most {MAX_PARTIAL_BYTES}); split with a larger factor",
                loop=self.loop,
            )
        block_around = next((part for part in path if isinstance(part, Block) and any(piece is chain[0] for piece in part.body)), chain[0])
        return self._rewritten(nest, chain, outer, moving, store, shape, block_around)

    def _rewritten(
        self, nest: Nest, chain: list[For], outer: list[For], moving: list[For] | None, store: Store, shape: tuple[Expr, ...], owner: Stmt
    ) -> Nest:
        """The nest with partial results of the elements that the `moving` loops visit, or of all elements."""
        loop = next(part for part in chain if part.loop == self.loop)
        partial = {buffer.name: Buffer(fresh_buffer(nest, f"{buffer.name}_rf"), shape, buffer.dtype) for buffer in store.buffers}
        local = tuple(partial.values())
        index = (simplify(Binary("sub", Axis(self.loop), loop.lo)), *store.index)
        stage = new_stage(nest, f"{store.stage}_rf")
        names = FreshNames.of(nest)
        assert store.reducer is not None

        def under(prefix: str, stmt: Stmt, chosen: Sequence[For]) -> Stmt:
            def label(axis: str) -> str:
                return names.fresh(f"{prefix}.{short(axis)}" if stage_of(axis) in (store.stage, stage_of(self.loop)) else axis)

            made = copied(nest, stmt, [part.loop for part in outer], [part.loop for part in chosen], label)
            relations.extend(made.relations)
            return made.body

        relations = list(nest.relations)
        inside = [loop, *(part for part in chain if part is not loop)]
        swept, element = self._sweep(nest, chain, outer, store, names) if moving is None else (moving, store.index)
        everywhere = (index[0], *element)
        first = under(
            f"{stage}.init", nested([loop, *swept], Store(f"{stage}.init", local, everywhere, store.reducer.identities)), [loop, *swept]
        )
        into = edit_stores(chain[-1].body, lambda part: replace(part, stage=stage, buffers=local, index=index) if part is store else part)
        partials = under(stage, nested(inside, into), chain)
        kept = [*swept, loop] if moving is None else [part for part in chain if part is loop or part in moving]
        combined = nested(kept, replace(store, index=element, values=tuple(Load(buffer, everywhere) for buffer in local)))
        result = block(first, partials, combined)
        made = pruned(replace(nest, body=_replaced(nest.body, owner, chain[0], result, local), relations=tuple(relations)))
        return self._proved(made, result) if any(part.kind != "serial" for part in chain) else made

    def _sweep(self, nest: Nest, chain: list[For], outer: list[For], store: Store, names: FreshNames) -> tuple[list[For], tuple[Expr, ...]]:
        """Loops over all elements that a scatter may touch in an iteration of the loops around it, and the element at which they are."""
        held, inside = conditions_around(nest, chain[0]), {part.loop for part in chain}
        swept: list[For] = []
        element: list[Expr] = []
        for place, (part, extent) in enumerate(zip(store.index, _filled(nest, store), strict=True)):
            fixed = not closure(nest, axes_of(part)) & inside and not reads_data(part)
            if fixed and access_guard(nest, replace(store.buffers[0], shape=(extent,)), (part,), outer, held) is None:
                element.append(part)
            else:
                swept.append(For(names.fresh(f"{store.stage}.d{place}"), ir.const(0), extent, store))
                element.append(Axis(swept[-1].loop))
        return swept, tuple(element)

    def _proved(self, nest: Nest, result: Stmt) -> Nest:
        """The nest, if its loops may be of the kinds that they have. Raises `Refusal`."""
        for part in loops(result):
            try:
                require_kind(nest, part)
            except Refusal as refusal:
                raise Refusal(
                    "TL-S107",
                    f"{short(part.loop)!r} could not stay {part.kind} in the new nest ({refusal.reason}); rfactor before",
                    loop=self.loop,
                    counterexample=refusal.counterexample,
                ) from None
        return nest

    def _instead(self, nest: Nest, chain: list[For], store: Store) -> tuple[Directive, ...]:
        """The same for other loops of the reduction, where it would be accepted."""
        found: list[Directive] = []
        for part in chain:
            if part.kind == "serial" and not _moved(nest, store, part.loop):
                try:
                    Rfactor(part.loop).apply(nest)
                except Refusal:
                    continue
                found.append(Rfactor(part.loop))
        return tuple(found)

    def _chain(self, nest: Nest, path: tuple[Stmt, ...], store: Store) -> tuple[list[For], list[For]]:
        """The perfect nest of the reduction's own loops around the store, and the loops outside it."""
        last = max(position for position, part in enumerate(path) if isinstance(part, For))
        first = last
        while first > 0 and isinstance(path[first - 1], For) and stage_of(_named(path[first - 1])) in (store.stage, stage_of(self.loop)):
            first -= 1
        chain = [part for part in path[first : last + 1] if isinstance(part, For)]
        if all(part.loop != self.loop for part in chain):
            raise Refusal(
                "TL-S105",
                f"other statements stand between {short(self.loop)!r} and {store.stage!r}; "
                "rfactor needs the loops of the reduction in one nest",
                stage=store.stage,
                loop=self.loop,
            )
        self._require_apart(nest, chain, [part for part in path[:first] if isinstance(part, For)], store)
        for part in chain:
            if part.kind == "tensor" or (part.kind == "vector" and part.loop == self.loop):
                raise Refusal(
                    "TL-S107",
                    f"the loop {short(part.loop)!r} is already {part.kind}; rfactor before, or rfactor a loop around it",
                    stage=store.stage,
                    loop=part.loop,
                    alternatives=() if any(other.kind == "tensor" for other in chain) else self._instead(nest, chain, store),
                )
        return chain, [part for part in path[:first] if isinstance(part, For)]

    def _require_apart(self, nest: Nest, chain: list[For], outer: list[For], store: Store) -> None:
        """Raise `Refusal` unless what else the chain computes may stay beside the partial results: it goes where their loops go."""
        private = allocated_names(chain[-1].body)
        others = [
            part for part in stores(chain[-1].body) if part is not store and any(buffer.name not in private for buffer in part.buffers)
        ]
        if not others:
            return
        own = {buffer.name for buffer in store.buffers}
        if any(access.buffer.name in own and access.source != id(store) for access in accesses(chain[-1].body)):
            raise Refusal(
                "TL-S105",
                f"{others[0].stage!r} is computed in the same loops, where {min(own)!r} is used; separate them first (fission)",
                stage=store.stage,
                loop=self.loop,
            )
        order = [self.loop, *(part.loop for part in chain if part.loop != self.loop)]
        example = None if order[0] == chain[0].loop else reordered(nest, chain, order, outer)
        if example is not None:
            raise Refusal(
                "TL-S103",
                f"{others[0].stage!r} is computed in the same loops, and with {short(self.loop)!r} outermost two iterations that touch "
                f"{example['element']} would change places; separate them first (fission)",
                stage=store.stage,
                loop=self.loop,
                counterexample=example,
            )

    def _scattered(self, nest: Nest, chain: list[For], outer: list[For], store: Store) -> bool:
        """Can the loops that move the element not sweep over the partial results, because data or conditions say where it is?

        Partial results of a scatter start from the identity as those of any reduction do, and are combined into at its index.
        """
        if _moved(nest, store, self.loop) or any(map(reads_data, store.index)):
            return True
        moving = moving_loops(nest, store.index, chain)
        if access_guard(nest, store.buffers[0], store.index, (*outer, *moving), conditions_around(nest, chain[0])) is not None:
            return True
        return _is_scatter(nest, store) and repeated(nest, store, moving, outer) is not None

    def _moving(self, nest: Nest, chain: list[For], outer: list[For], store: Store) -> list[For]:
        """The loops of the chain that move the element."""
        moving = list(moving_loops(nest, store.index, chain))
        dropped = {part.loop for part in chain if part not in moving and part.loop != self.loop}
        for part in moving:
            bounds = closure(nest, axes_of(part.lo) | axes_of(part.hi)) & (dropped | {self.loop})
            if bounds:
                raise Refusal(
                    "TL-S104",
                    f"the bounds of {short(part.loop)!r} depend on the reduction loop {short(min(bounds))!r}",
                    stage=store.stage,
                    loop=part.loop,
                )
        assert store.reducer is not None
        own = [part for part in chain if part.loop == self.loop]
        example = None if idempotent(store.reducer) else repeated(nest, store, moving, outer, own)
        if example is not None and runs(nest, store, chain[0], outer):
            raise Refusal(
                "TL-S103",
                f"two iterations of the loops that remain touch {example['element']}, so the partial results would be combined twice",
                stage=store.stage,
                loop=self.loop,
                counterexample=example,
            )
        return moving

    def _extent(self, nest: Nest, loop: For, chain: list[For]) -> Expr:
        """The extent of the factored loop, which becomes a dimension."""
        depends = closure(nest, axes_of(loop.lo) | axes_of(loop.hi))
        inside = {part.loop for part in chain}
        if depends & inside:
            raise Refusal(
                "TL-S104",
                f"the bounds of {short(self.loop)!r} depend on {short(min(depends & inside))!r}, so it cannot stand outermost",
                loop=self.loop,
            )
        extent = extent_of(loop)
        if axes_of(extent):
            raise Refusal(
                "TL-S204",
                f"the extent of {short(self.loop)!r} must be a literal or over dims: it becomes a dimension of the partial results",
                loop=self.loop,
            )
        if isinstance(extent, Const):
            return ir.const(max(0, int(extent.value)))
        return at_least_none(extent)


def reduction_in(nest: Nest, loop: For) -> Store:
    """The combining store whose reduction loop this is. Raises `Refusal` where there is none."""
    combining = [
        store
        for store in stores(loop.body)
        if store.reducer is not None and (_is_scatter(nest, store) or not _moved(nest, store, loop.loop))
    ]
    own = [store for store in combining if store.stage == stage_of(loop.loop)] or combining
    if len(own) != 1:
        what = "runs over no reduction" if not own else "holds several reductions"
        raise Refusal(
            "TL-S304", f"{short(loop.loop)!r} {what}; name a loop over a reduction axis", stage=stage_of(loop.loop), loop=loop.loop
        )
    return own[0]


def _is_scatter(nest: Nest, store: Store) -> bool:
    """Does a reduction combine into a tensor that another stage has filled, at elements that need not be all of it?

    One that starts from its identity, in place or in a tile, visits each of its elements, unless these are partial results of a scatter. A
    scatter has no such start, also where another stage has taken the place of the one that copies its first value.
    """
    every = list(stores(nest.body))
    if any(part.stage == f"{store.stage}.start" for part in every) or any(map(reads_data, store.index)):
        return True
    starts = [part for part in every if part.stage.endswith(".init")]
    return not any(part.stage == f"{store.stage}.init" or part.buffers == store.buffers for part in starts)


def _filled(nest: Nest, store: Store) -> tuple[Expr, ...]:
    """The extents of what a scatter combines into: as far as the stage goes that copies its first value, and not the padding beyond."""
    shape = store.buffers[0].shape
    starts = [part for part in stores(nest.body) if part.stage == f"{store.stage}.start" and part.buffers == store.buffers]
    if len(starts) != 1:
        return shape
    around = [part for part in path_to_store(nest, starts[0]) if isinstance(part, For)]
    ends = {part.loop: part.hi for part in around if part.lo == ir.const(0) and not axes_of(part.hi)}
    return tuple(
        ends.get(part.name, extent) if isinstance(part, Axis) else extent for part, extent in zip(starts[0].index, shape, strict=True)
    )


def _moved(nest: Nest, store: Store, loop: str) -> bool:
    return loop in closure(nest, frozenset().union(*(axes_of(part) for part in store.index)))


def _named(stmt: Stmt) -> str:
    assert isinstance(stmt, For)
    return stmt.loop


def _replaced(stmt: Stmt, owner: Stmt, old: Stmt, new: Stmt, local: tuple[Buffer, ...]) -> Stmt:
    """`stmt` with `old` replaced, and storage around `owner`, which is or holds it."""
    result = new if stmt is old else map_statements(stmt, lambda part: _replaced(part, owner, old, new, local))
    return allocate(local, result) if stmt is owner else result
