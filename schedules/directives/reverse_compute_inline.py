"""`reverse_compute_inline`: write a consumer into the statement that completes its operand.

    for i_o in range(5):                            for i_o in range(5):
        C_acc: float32[8] in registers                  C_acc: float32[8] in registers
        ...                                             ...
        for i_i in range(8):                            for i_i in range(8):
            C[i] = C_acc[i_i]           ->                  R[i] = max(C_acc[i_i] + b[i], 0)
    for i in range(37):
        R[i] = max(C[i] + b[i], 0)

So an epilogue (bias, activation, residual, conversion) is computed while its operand is in registers, and the operand is never stored.

Legal where the consumer is one plain statement that reads all of the producer element by element, one for each of its own (the border that
`pad` adds has none), and nobody else reads it, and that stores each element at a place of its own (its axes, and fixed places beside them),
one plain statement completes the producer (a reduction: `accumulate` it outside its loops first; of several components, all of which it
reads so), and what else the consumer reads is there by then. Both may stand in loops that they share, as the stages of a scan do in the
loop over its steps: then this is asked within one iteration of these, in which nothing that the consumer passes on its way may touch what
it touches.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Alloc, Axis, Binary, Buffer, Compare, Expr, For, If, Load, Nest, SplitRelation, Stmt, Store, allocate, const
from tensorlang.ir.mentions import allocations
from tensorlang.ir.relations import closure, sides
from tensorlang.ir.traverse import axes_of, loads_of, map_children, map_statements, substitute, walk
from tensorlang.schedules.directive import Directive, LoopName, Refusal, StageName
from tensorlang.schedules.directives.compute_inline import MAX_NODES
from tensorlang.schedules.legality.accesses import Access, accesses, conditions_around
from tensorlang.schedules.legality.dependences import met
from tensorlang.schedules.legality.in_bounds import left_out, place_facts, sides_left, visits_all
from tensorlang.schedules.rewriting.copies import pruned
from tensorlang.schedules.rewriting.edit import (
    edit_stores,
    extent_of,
    loops_on,
    path_to,
    path_to_store,
    remove,
    require_single,
    require_stage,
    stores,
    without_alloc,
)
from tensorlang.schedules.rewriting.followed import followed, over_loops
from tensorlang.schedules.rewriting.version import in_version, shown


@dataclass(frozen=True, slots=True)
class ReverseComputeInline(Directive):
    """Compute `stage` where its operand is stored, instead of the operand; of several versions in that with the loop `within`."""

    stage: StageName
    within: LoopName = ""

    def __repr__(self) -> str:
        return shown(self)

    def apply(self, nest: Nest) -> Nest:
        """The nest without the operand."""
        return in_version(nest, self.within, self._applied)

    def _applied(self, nest: Nest) -> Nest:
        require_stage(nest, self.stage)
        require_single(nest, self.stage)
        written, own = self._consumer(nest)
        consumer = _over_loops(nest, written)
        read = self._operand(nest, consumer, own)
        assert isinstance(read.buffer, Buffer)
        last = self._last(nest, consumer, read)
        shared = self._shared(nest, written, own, last)
        chain = {part.loop for part in own}
        fixed = [pair for pair in zip(read.index, last.index, strict=True) if followed(pair[0], chain) is None]
        if not all(_is_same(nest, part, there, last) for part, there in fixed):
            raise self._refusal("TL-S303", f"it does not read what {last.stage!r} stores in the same iteration")
        at, nodes, completed = _places(read, last, chain), 0, dict(zip(last.buffers, last.values, strict=True))
        self._require_there(nest, written, last, shared, kept=_keeps_order(nest, [at.get(part.loop) for part in own], last, shared))
        self._require_all(nest, written, last, read, shared)
        sizes = {buffer: sum(1 for _ in walk(value)) for buffer, value in completed.items()}
        shifted = any(not isinstance(place, Axis) for place in at.values())  # the begin of a strip that both share cancels out

        def filled(expr: Expr) -> Expr:
            nonlocal nodes
            if isinstance(expr, Load) and isinstance(expr.buffer, Buffer) and expr.buffer in completed:
                nodes += sizes[expr.buffer]
                return completed[expr.buffer]
            if isinstance(expr, Axis):
                return at.get(expr.name, expr)
            made = map_children(expr, filled)
            return replace(made, index=tuple(map(simplify, made.index))) if shifted and isinstance(made, Load) else made

        values = tuple(filled(value) for value in consumer.values)
        if nodes > MAX_NODES:
            uses = sum(load.buffer in completed for value in consumer.values for load in loads_of(value))
            raise self._refusal("TL-S202", f"the expression stands {uses} times in it, which makes {nodes} nodes (at most {MAX_NODES})")
        body = remove(nest.body, lambda part: part is written, hinted=read.buffer)
        assert body is not None
        index = tuple(simplify(substitute(part, at)) for part in consumer.index)
        moved = replace(last, buffers=consumer.buffers, index=index, values=values)
        body = edit_stores(body, lambda part: moved if part is last else part)
        return pruned(replace(nest, body=_housed(body, read.buffer, last.buffers, consumer.buffers, nest)))

    def _refusal(self, code: str, reason: str) -> Refusal:
        return Refusal(code, f"{self.stage!r}: {reason}", stage=self.stage)

    def _consumer(self, nest: Nest) -> tuple[Store, list[For]]:
        """The one plain store of the consumer, and the loops of its own over which it stands."""
        path = path_to(nest.body, lambda part: isinstance(part, Store) and part.stage == self.stage)
        store = path[-1]
        assert isinstance(store, Store)
        if store.reducer is not None or sum(part.stage in (self.stage, f"{self.stage}.init") for part in stores(nest.body)) != 1:
            raise self._refusal("TL-S301", "it is not one plain statement, which is what can be written into another")
        own = [*reversed([*takewhile(lambda part: isinstance(part, For), reversed(path[:-1]))])]
        chain = {part.loop for part in own if isinstance(part, For)}
        index = [(part, followed(part, chain)) for part in _over_loops(nest, store).index]
        names = [found.loop for _, found in index if found is not None]
        others = [part for part, found in index if found is None]
        fixed = not any(closure(nest, axes_of(part)) & chain or any(loads_of(part)) for part in others)  # the slot of a state of a scan
        if not fixed or sorted(names) != sorted(chain) or any(isinstance(part, For) and part.kind != "serial" for part in own):
            raise self._refusal("TL-S301", "its loops are already scheduled or shared; inline it first")
        return store, [part for part in own if isinstance(part, For)]

    def _shared(self, nest: Nest, consumer: Store, own: list[For], last: Store) -> list[For]:
        """The loops that the consumer shares with the statement that completes its operand, which comes first in them."""
        above, into = path_to(nest.body, lambda part: part is consumer), path_to(nest.body, lambda part: part is last)
        common = [part for part, other in zip(above, into, strict=False) if part is other]
        shared = [part for part in common if isinstance(part, For)]
        left = [part for part in above[len(common) : -1] if isinstance(part, (For, If))]
        order = list(stores(nest.body))
        early = next(place for place, part in enumerate(order) if part is consumer) < next(
            place for place, part in enumerate(order) if part is last
        )
        moved = set(consumer.buffers) - set(nest.outputs)
        housed = {buffer for part in common if isinstance(part, Alloc) for buffer in part.buffers}
        if [*map(id, left)] != [*map(id, own)] or early or (shared and not moved <= housed and not set(last.buffers) <= housed):
            raise self._refusal("TL-S301", "its loops are already scheduled or shared; inline it first")
        return shared

    def _operand(self, nest: Nest, consumer: Store, around: list[For]) -> Load:
        """How the consumer reads the intermediate that it goes into: the last computed of those that it reads whole, element by element."""
        chain = {part.loop: part for part in around}
        own = set(allocations(nest.body))
        written = [buffer for store in stores(nest.body) for buffer in store.buffers]
        loads = [load for value in consumer.values for load in loads_of(value)]
        found: list[tuple[int, Load]] = []
        for load in loads:
            found_in = [followed(part, chain) for part in load.index]
            axes = [one.loop for one in found_in if one is not None]
            spoken = [axis for part in load.index for axis in closure(nest, axes_of(part)) & chain.keys()]
            if not isinstance(load.buffer, Buffer) or load.buffer not in own or not sorted(axes) == sorted(chain) == sorted(spoken):
                continue
            same = all(other.index == load.index for other in loads if other.buffer == load.buffer)
            readers = {access.stage for access in accesses(nest.body) if access.buffer == load.buffer and not access.writes}
            apart = not any(name in chain for relation in nest.relations for name in sides(relation)[0])
            whole = apart and all(
                part == Axis(one.loop) and simplify(extent_of(chain[one.loop])) == size
                for part, one, size in zip(load.index, found_in, load.buffer.shape, strict=True)
                if one is not None
            )
            if same and readers == {consumer.stage} and (whole or self._is_of_all(nest, load, chain)):
                found.append((max(place for place, buffer in enumerate(written) if buffer == load.buffer), load))
        if not found:
            raise self._refusal(
                "TL-S301", "it reads no intermediate that it alone reads, whole and element by element, so there is nothing to go into"
            )
        return max(found, key=lambda entry: entry[0])[1]

    @staticmethod
    def _is_of_all(nest: Nest, read: Load, chain: Mapping[str, For]) -> bool:
        """Is every element that is stored of the operand one that the consumer reads in its loops `chain`, as in a strip of both?"""
        found = [store for store in stores(nest.body) if read.buffer in store.buffers]
        if len(found) != 1:
            return False
        (last,) = found
        loops = [part for part in path_to(nest.body, lambda part: part is last) if isinstance(part, For)]
        facts = place_facts(nest, loops, conditions_around(nest, last))
        places = _places(read, last, chain)
        ranges = [(place, chain[name].lo, chain[name].hi) for name, place in places.items()]
        for relation in nest.relations:  # a tile may reach beyond the end of what was split
            if not chain.keys().isdisjoint(closure(nest, sides(relation)[1])):
                if not isinstance(relation, SplitRelation):
                    return False
                around = [*chain, *(loop.loop for loop in loops)]
                ranges.append((substitute(over_loops(nest, Axis(relation.parent), around), places), relation.lo, relation.hi))
        sides_out = (side for place, lo, hi in ranges for side in (Compare("lt", place, lo), Compare("ge", place, hi)))
        return all(find(*facts, side) is None for side in sides_out)

    def _last(self, nest: Nest, consumer: Store, read: Load) -> Store:
        """The one statement that completes the operand, and what the consumer reads besides of the same elements."""
        buffer = read.buffer
        assert isinstance(buffer, Buffer)
        found = [store for store in stores(nest.body) if buffer in store.buffers]
        if len(found) != 1 or found[0].reducer is not None:
            reason = (
                f"{buffer.name!r} is completed by several statements; accumulate {buffer.name!r} outside the loops of its reduction first"
            )
            raise self._refusal("TL-S301", reason)
        loads = [load for value in consumer.values for load in loads_of(value)]
        own, read_by = set(allocations(nest.body)), dict[str, set[str]]()
        for access in accesses(nest.body):
            if not access.writes:
                read_by.setdefault(access.buffer.name, set()).add(access.stage)
        for other in found[0].buffers:
            alike = all(load.index == read.index for load in loads if load.buffer == other) and other.shape == buffer.shape
            if other not in own or not alike or read_by.get(other.name) != {consumer.stage}:
                raise self._refusal("TL-S301", f"{buffer.name!r} is computed together with {other.name!r}, which has other readers")
        return found[0]

    def _require_there(self, nest: Nest, consumer: Store, last: Store, shared: list[For], *, kept: bool) -> None:
        """Raise `Refusal` where something that the consumer uses is not computed, or has no storage, when its operands are completed.

        What it has stored itself is there, where its own iterations are `kept` in their order.
        """
        path = path_to(nest.body, lambda part: part is last)
        around = next((part for part in path if isinstance(part, For) and part not in shared), None)
        everything = list(accesses(nest.body))
        begun = [access for access in everything if (around in access.loops if around is not None else access.source == id(last))]
        start = min(access.position for access in begun)
        late = {access.buffer for access in everything if access.writes and access.position >= start} if not shared else set()
        for one in everything if shared else ():
            if one.source == id(consumer) and one.buffer not in last.buffers:
                passed = [other for other in everything if start <= other.position <= one.position]
                self._require_passed(nest, one, [other for other in passed if not kept or other.source != id(consumer)], shared)
        housed = {buffer for part in path if isinstance(part, Alloc) for buffer in part.buffers}
        for load in (load for value in (*consumer.values, *consumer.index) for load in loads_of(value)):
            buffer = load.buffer
            if not isinstance(buffer, Buffer) or buffer in last.buffers or buffer in nest.inputs:
                continue
            if buffer in late or (buffer not in housed and buffer not in nest.outputs):
                raise self._refusal("TL-S301", f"{buffer.name!r}, which it reads, is not there when {last.buffers[0].name!r} is completed")

    def _require_passed(self, nest: Nest, one: Access, passed: list[Access], shared: list[For]) -> None:
        """Raise `Refusal` where an access of the consumer meets one that it passes in the same iteration of the shared loops."""
        found = met(nest, one, passed, frozenset(part.loop for part in shared))
        if found is not None:
            other, example = found
            reason = f"it {'writes' if one.writes else 'reads'} {example['element']}, which {other.stage!r} "
            reason += f"{'writes' if other.writes else 'reads'} after its operand is begun"
            raise Refusal("TL-S103", f"{self.stage!r}: {reason}", stage=self.stage, counterexample=example)

    def _require_all(self, nest: Nest, consumer: Store, last: Store, read: Load, shared: list[For]) -> None:
        """Raise `Refusal` unless the operand is stored for every element that the consumer has.

        A guarded copy leaves some out; where the consumer reads under a condition, it may have more than there are of the operand.
        """
        path = path_to(nest.body, lambda part: part is last)
        loops = [part for part in path if isinstance(part, For)]
        fixed = closure(nest, frozenset().union(*map(axes_of, last.index))) & {part.loop for part in shared}
        around = [part for part in path_to(nest.body, lambda part: part is consumer) if isinstance(part, For)]
        whole = not fixed and not any(isinstance(part, If) for part in path) and visits_all(nest, last, loops)
        if whole and not sides_left(read.index, last.buffers[0].shape, place_facts(nest, around)):
            return  # each element reads one that there is; those of the border of `pad` do not
        facts = place_facts(nest, loops, conditions_around(nest, last))
        where = left_out(nest, around, facts, list(zip(read.index, last.index, strict=True)))
        if where is not None:
            raise self._refusal("TL-S303", f"{read.buffer.name!r} is not stored for all of its elements ({where})")  # type: ignore[attr-defined]


def _is_same(nest: Nest, part: Expr, there: Expr, last: Store) -> bool:
    """Are two places the same wherever the operand is completed, as that of the one row that a strip has in each iteration?"""
    loops = loops_on(path_to_store(nest, last))
    return part == there or find(*place_facts(nest, loops), Compare("ne", part, there)) is None


def _over_loops(nest: Nest, consumer: Store) -> Store:
    """The consumer with loops for what they were split from."""
    around = [part.loop for part in path_to(nest.body, lambda part: part is consumer) if isinstance(part, For)]
    index = tuple(over_loops(nest, part, around) for part in consumer.index)
    return replace(consumer, index=index, values=tuple(over_loops(nest, part, around) for part in consumer.values))


def _keeps_order(nest: Nest, places: Sequence[Expr | None], last: Store, shared: Sequence[For]) -> bool:
    """Do the loops of a consumer, one after the other, become those of the statement that completes its operand, inside the shared ones?"""
    loops = [part for part in path_to_store(nest, last) if isinstance(part, For) and part not in shared]
    return places == [Axis(part.loop) for part in loops] and all(part.kind == "serial" for part in loops)


def _places(read: Load, last: Store, chain: Collection[str]) -> dict[str, Expr]:
    """The iterations of the consumer's loops for which what is stored is read."""
    pairs = ((followed(part, chain), there) for part, there in zip(read.index, last.index, strict=True))
    return {
        one.loop: there if one.offset == const(0) else simplify(Binary("sub", there, one.offset)) for one, there in pairs if one is not None
    }


def _housed(body: Stmt, operand: Buffer, completed: tuple[Buffer, ...], made: tuple[Buffer, ...], nest: Nest) -> Stmt:
    """The consumer's storage, where it is an intermediate itself, in the place of the operand's, or where it was if that is further out.

    What is `completed` with the operand needs none either.
    """
    around = path_to(nest.body, lambda part: isinstance(part, Alloc) and operand in part.buffers)
    wide = {buffer for part in around if isinstance(part, Alloc) for buffer in part.buffers}
    own = [buffer for buffer in made if buffer not in nest.outputs and buffer not in wide]
    for buffer in (*own, *(buffer for buffer in completed if buffer != operand)):
        body = without_alloc(body, buffer)

    def exchanged(part: Stmt) -> Stmt:
        if isinstance(part, Alloc) and operand in part.buffers:
            return allocate((*(buffer for buffer in part.buffers if buffer != operand), *own), part.body)
        return map_statements(part, exchanged)

    return exchanged(body)
