"""`reverse_compute_at`: compute a consumer where its operand is complete.

    for i_o in range(5):                            for i_o in range(5):
        for k in range(29):                             for k in range(29):
            for i_i in range(8):                            for i_i in range(8):
                C[i] += A[i, k]             ->                  C[i] += A[i, k]
    for i in range(37):                                 for i_i' in range(8):
        R[i] = max(C[i], 0)                                 R[i'] = max(C[i'], 0)

The consumer gets copies of the producer's loops inside `loop` (here i' = 8 i_o + i_i') and stands at the end of an iteration.

Legal where the consumer is one plain statement that reads the producer element by element, its own loops are not scheduled yet, every
element is complete at the end of the iteration that computes it, and what else the consumer reads is there by then: of a recurrence what
it has made before, too. The iterations have to complete every element that the consumer has: a scatter may leave some as they were, and
these nobody would compute.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.rules import FALSE, TRUE
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Alloc, Axis, Binary, Expr, For, If, Load, Nest, Stmt, Store, Unary, block
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, loads_of, substitute
from tensorlang.schedules.directive import Directive, LoopName, Refusal, StageName
from tensorlang.schedules.legality.accesses import accesses, conditions_around, distinct, facts_of
from tensorlang.schedules.legality.dependences import conflict, race
from tensorlang.schedules.legality.in_bounds import left_out, place_facts
from tensorlang.schedules.placement.local_copies import clone, moving
from tensorlang.schedules.placement.producer_placement import ahead
from tensorlang.schedules.rewriting.edit import (
    edit_loops,
    loops_on,
    path_to,
    path_to_loop,
    remove,
    require_no_vector,
    require_single,
    require_stage,
    stores,
)


@dataclass(frozen=True, slots=True)
class ReverseComputeAt(Directive):
    """Compute what the consumer `stage` makes of an iteration of `loop` at the end of that iteration."""

    stage: StageName
    loop: LoopName

    def apply(self, nest: Nest) -> Nest:
        """The nest with the consumer moved."""
        require_stage(nest, self.stage)
        path = path_to_loop(nest, self.loop)
        loop = path[-1]
        assert isinstance(loop, For)
        outer = loops_on(path)
        require_no_vector(outer, self.loop, self.stage)
        chain, store = self._consumer(nest)
        producer, read = self._producer(loop, store)
        rest = remove(nest.body, lambda part: part is store)
        if rest is None or any(part is loop for part in chain):
            raise self._refusal("TL-S301", f"{short(self.loop)!r} is a loop of {self.stage!r} itself; name a loop of a stage that it reads")
        require_single(nest, producer.stage, self.loop)
        inside = [part for part in path_to(loop.body, lambda part: part is producer) if isinstance(part, For)]
        tile = moving(nest, producer.index, inside)
        others = {part.loop for part in inside if part not in tile}
        if any(closure(nest, axes_of(part.lo) | axes_of(part.hi)) & others for part in tile):
            raise self._refusal("TL-S303", f"what an iteration of {short(self.loop)!r} computes has no simple shape")
        made = clone(replace(nest, body=rest), self.stage, tile, [part.loop for part in outer], follow=False)
        held = conditions_around(nest, loop)
        values: dict[str, Expr] = {}
        for axis, part in zip(read.index, producer.index, strict=True):
            assert isinstance(axis, Axis)
            values[axis.name] = made.of(part)
        body: Stmt = replace(
            store,
            index=tuple(substitute(part, values) for part in store.index),
            values=tuple(substitute(value, values) for value in store.values),
        )
        there = replace(nest, relations=(*nest.relations, *made.relations))
        test = self._within(there, store, chain, (*outer, *made.loops), held, values)
        body = body if test == TRUE else If(test, body)
        rest = edit_loops(rest, lambda part: part.loop == self.loop, lambda part: replace(part, body=block(part.body, made.in_loops(body))))
        result = replace(nest, body=rest, relations=(*nest.relations, *made.relations))
        self._require_scope(nest, path, store)
        self._require_order(nest, result)
        for around in outer:
            if around.kind == "parallel":
                self._require_no_race(result, around)
        return result

    def _refusal(self, code: str, reason: str, **more: object) -> Refusal:
        return Refusal(code, reason, stage=self.stage, loop=self.loop, **more)  # type: ignore[arg-type]

    def _consumer(self, nest: Nest) -> tuple[tuple[For, ...], Store]:
        """The loops and the one plain store of the consumer."""
        path = path_to(nest.body, lambda part: isinstance(part, Store) and part.stage == self.stage)
        store = path[-1]
        assert isinstance(store, Store)
        if store.reducer is not None or sum(part.stage in (self.stage, f"{self.stage}.init") for part in stores(nest.body)) != 1:
            raise self._refusal("TL-S301", f"{self.stage!r} is not one plain statement, which is what can move into its producer's loops")
        first = next((position for position, part in enumerate(path) if isinstance(part, For)), len(path) - 1)
        chain = tuple(part for part in path[first:-1] if isinstance(part, For))
        index = [part.name for part in store.index if isinstance(part, Axis)]
        plain = (
            len(chain) == len(path) - 1 - first and sorted(index) == sorted(part.loop for part in chain) and len(index) == len(store.index)
        )
        if not plain or any(part.kind != "serial" for part in chain):
            raise self._refusal(
                "TL-S301", f"the loops of {self.stage!r} are already scheduled or shared; move it first, then schedule its loops"
            )
        return chain, store

    def _producer(self, loop: For, store: Store) -> tuple[Store, Load]:
        """The last store inside the loop to what the consumer reads, and how it is read."""
        loads = [load for value in store.values for load in loads_of(value)]
        written = {buffer.name: part for part in stores(loop.body) for buffer in part.buffers}
        found = [load for load in loads if getattr(load.buffer, "name", "") in written]
        if not found:
            raise self._refusal("TL-S302", f"{self.stage!r} reads nothing that is computed inside {short(self.loop)!r}")
        axes = [part.name for part in store.index if isinstance(part, Axis)]
        for load in found:
            names = [part.name for part in load.index if isinstance(part, Axis)]
            if len(names) != len(load.index) or sorted(names) != sorted(axes) or load.index != found[0].index:
                name = getattr(load.buffer, "name", "")
                raise self._refusal(
                    "TL-S301", f"{self.stage!r} does not read {name!r} element by element, so its part is not what an iteration computes"
                )
        return written[getattr(found[0].buffer, "name", "")], found[0]

    def _within(
        self, nest: Nest, store: Store, chain: tuple[For, ...], loops: tuple[For, ...], held: tuple[Expr, ...], values: dict[str, Expr]
    ) -> Expr:
        """Where the loops compute an element that the consumer has. Raises `Refusal` unless it has all of its elements there."""
        facts = place_facts(nest, loops, held)
        test: Expr = TRUE
        for part in chain:
            for side in facts_of(part):
                needed = substitute(side, values)
                if find(*facts, Unary("not", needed)) is not None:
                    test = simplify(Binary("and", test, needed))
        around = [part for part in path_to(nest.body, lambda part: part is store) if isinstance(part, For)]
        pairs = [(Axis(part.loop), values[part.loop]) for part in chain]
        where = left_out(nest, around, [*facts, test], pairs)
        if where is not None:
            reason = (
                f"{self.stage!r} has elements that no iteration of {short(self.loop)!r} completes ({where}), and nobody would compute them"
            )
            raise self._refusal("TL-S303", reason)
        return test

    def _require_scope(self, nest: Nest, path: tuple[Stmt, ...], store: Store) -> None:
        known = {buffer.name for buffer in (*nest.inputs, *nest.outputs)}
        known |= {buffer.name for part in path if isinstance(part, Alloc) for buffer in part.buffers}
        used = [buffer.name for buffer in store.buffers]
        used += [getattr(load.buffer, "name", "") for value in store.values for load in loads_of(value)]
        for name in used:
            if name not in known:
                raise self._refusal("TL-S301", f"{self.stage!r} uses {name!r}, which has no storage yet at {short(self.loop)!r}")

    def _require_order(self, before: Nest, after: Nest) -> None:
        """Everything that the consumer read or overwrote is still done when it runs, also what it has itself written: a recurrence."""
        old, new = list(accesses(before.body)), list(accesses(after.body))
        mine = distinct(access for access in new if access.stage == self.stage)
        limit = min(access.position for access in old if access.stage == self.stage)
        others = zip(
            (access for access in old if access.stage != self.stage), (access for access in new if access.stage != self.stage), strict=True
        )
        earlier = distinct(moved for was, moved in others if was.position < limit)
        for own in mine:
            for other in earlier:
                if own.buffer.name != other.buffer.name or not (own.writes or other.writes):
                    continue
                order = ahead(own, other)
                example = None if order == FALSE else conflict(after, own, other, frozenset(), (order,))
                if example is not None:
                    early = f"{example['element']} is not complete at the end of an iteration of {short(self.loop)!r}"
                    raise self._refusal("TL-S103", f"{early}: {other.stage!r} still changes it", counterexample=example)
        for own, other in itertools.product(mine, mine):
            if own.buffer == other.buffer and other.writes and not own.writes:
                example = conflict(after, own, other, frozenset(), (ahead(own, other),))
                if example is not None:
                    late = f"{self.stage!r} would read {example['element']} before it writes it, in the order of {short(self.loop)!r}"
                    raise self._refusal("TL-S103", late, counterexample=example)

    def _require_no_race(self, nest: Nest, loop: For) -> None:
        path = [part for part in path_to_loop(nest, loop.loop) if isinstance(part, For)]
        example = race(nest, path[-1], path[:-1], reductions=False)
        if example is not None:
            reason = f"iterations of the parallel loop {short(loop.loop)!r} would share {example['element']}"
            raise self._refusal("TL-S101", reason, counterexample=example)
