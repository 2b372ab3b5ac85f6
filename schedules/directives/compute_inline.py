"""`compute_inline`: write a producer's expression into every use of it.

    for i in range(4):                  for i in range(4):
        h[i] = A[i] + 1         ->          v[i] = (A[i] + 1) * 2
    for i in range(4):
        v[i] = h[i] * 2

Legal where the stage is an intermediate and not a reduction, its own loops are not scheduled yet, and what its expression reads is still
there when it is used: storage of few places (`fold_storage`) may have been written anew by then. Nothing may read what is not computed,
as a copy of padded storage (`pad_to`) does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import is_

from tensorlang.algebra.polyhedra import uncovered
from tensorlang.algebra.rules import FALSE
from tensorlang.definition.expr import MAX_DEPTH
from tensorlang.ir import Alloc, Axis, Binary, Block, Buffer, Compare, Expr, For, Load, Nest, Prefetch, Stmt, Store, Unary, allocate
from tensorlang.ir.mentions import among, map_among, mentions, read_by
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure, derived_values, in_scope
from tensorlang.ir.traverse import (
    axes_of,
    depth,
    expressions,
    loads_of,
    map_own_expressions,
    reads_data,
    rewrite,
    statements,
    substitute,
    walk,
)
from tensorlang.schedules.directive import Directive, LoopName, Refusal, StageName
from tensorlang.schedules.directives.compute_at import producer, producer_parts
from tensorlang.schedules.legality.accesses import Access, accesses, accesses_to
from tensorlang.schedules.legality.dependences import met
from tensorlang.schedules.legality.in_bounds import is_whole_axis, place_facts
from tensorlang.schedules.rewriting.copies import derived, pruned
from tensorlang.schedules.rewriting.edit import path_to, path_to_store, stage_of, stores
from tensorlang.schedules.rewriting.movable import reads_itself
from tensorlang.schedules.rewriting.version import in_version, shown

MAX_NODES = 1 << 14


@dataclass(frozen=True, slots=True)
class ComputeInline(Directive):
    """Replace every read of `stage` by its expression; where the nest has versions, in that which has the loop `within`."""

    stage: StageName
    within: LoopName = ""

    def __repr__(self) -> str:
        return shown(self)

    def apply(self, nest: Nest) -> Nest:
        """The nest without the stage."""
        return in_version(nest, self.within, self._applied)

    def _applied(self, nest: Nest) -> Nest:
        buffers = producer(nest, self.stage)
        if reads_itself(nest, self.stage, buffers):
            raise Refusal("TL-S301", f"{self.stage!r} reads its own elements, so no expression says what one of them is", stage=self.stage)
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
        names = {buffer.name for buffer in buffers}
        kept = path_to(
            nest.body,
            lambda part: isinstance(part, Alloc) and any(buffer in buffers for buffer in part.buffers),
            names,
        )
        inside = any(isinstance(part, For) and stage_of(part.loop) == self.stage for part in kept)
        around = {part.loop for part in path_to(nest.body, partial(is_, parts[0]))[:-1] if isinstance(part, For)}
        inside = inside or bool(closure(nest, axes) & around)
        scheduled = inside or len(axes) != len(store.index) or len(list(statements(parts[0]))) != len(axes) + 1
        if scheduled:
            raise Refusal("TL-S301", f"the loops of {self.stage!r} are already scheduled; inline it first", stage=self.stage)
        readers = self._readers(nest, store)
        follow = self._follow(nest, store, axes)
        values = {buffer.name: substitute(value, follow) for buffer, value in zip(store.buffers, store.values, strict=True)}
        self._require_around(nest, store, closure(nest, frozenset().union(*map(axes_of, values.values())) - set(axes)), readers)
        self._require_small(values, readers)
        self._require_kept(nest, store, readers, axes, follow)
        self._require_computed(nest, store, buffers)

        def written(expr: Expr) -> Expr:
            if isinstance(expr, Load) and getattr(expr.buffer, "name", "") in values:
                return substitute(values[getattr(expr.buffer, "name", "")], dict(zip(axes, expr.index, strict=True)))
            return expr

        if mentions(nest.body).stages <= {self.stage}:
            raise Refusal("TL-S301", f"{self.stage!r} is all there is", stage=self.stage)

        def edited(part: Stmt) -> Stmt:
            match part:
                case _ if part is parts[0]:
                    return Block(())
                case Alloc(held, body):
                    return allocate((buffer for buffer in held if buffer.name not in names), edited(body))
                case Prefetch(hinted) if hinted.name in names:
                    return Block(())
                case _:
                    part = map_among(part, (self.stage, *names), edited)
                    return map_own_expressions(part, lambda expr: rewrite(expr, written)) if reads(part) & values.keys() else part

        return pruned(replace(nest, body=edited(nest.body)))

    def _require_small(self, values: dict[str, Expr], readers: list[Stmt]) -> None:
        """Raise `Refusal` where the expressions would grow too large, or too deep."""
        size = sum(1 for value in values.values() for _ in walk(value))
        found = [expr for part in readers for expr in expressions(part)]
        uses = sum(getattr(load.buffer, "name", "") in values for expr in found for load in loads_of(expr))
        if uses * size > MAX_NODES:
            raise Refusal(
                "TL-S202", f"inlining {self.stage!r} into {uses} uses makes {uses * size} nodes (at most {MAX_NODES})", stage=self.stage
            )
        deep = max(map(depth, values.values())) + max(map(depth, found), default=0)
        if deep > MAX_DEPTH:
            reason = f"inlining {self.stage!r} makes an expression that is up to {deep} deep (at most {MAX_DEPTH}); compute it at a loop"
            raise Refusal("TL-S202", reason, stage=self.stage)

    def _follow(self, nest: Nest, store: Store, axes: list[str]) -> dict[str, Expr]:
        """What else follows from the loops of the stage, which are gone afterwards, over the axes of its index. Raises `Refusal`."""
        around = [part.loop for part in path_to_store(nest, store) if isinstance(part, For)]
        scope = in_scope(nest, around)
        gone, found = derived(scope, around[-len(axes) :] if axes else ()) - set(axes), dict[str, Expr]()
        for relation in scope:
            found.update({axis: substitute(value, found) for axis, value in derived_values(relation).items() if axis in gone})
        left = frozenset().union(*(axes_of(substitute(value, found)) for value in store.values)) & gone
        if left:
            raise Refusal("TL-S301", f"the loops of {self.stage!r} are already scheduled; inline it first", stage=self.stage)
        return found

    def _require_around(self, nest: Nest, store: Store, spoken_of: frozenset[str], readers: list[Stmt]) -> None:
        """Raise `Refusal` where a loop that the expressions speak of is not around all that read them: no read may happen there at all."""
        for loop in path_to_store(nest, store):
            if isinstance(loop, For) and loop.loop in spoken_of:
                inside = {id(part) for part in statements(loop)}
                if any(id(reader) not in inside for reader in readers):
                    reason = f"{self.stage!r} differs between iterations of {short(loop.loop)!r}, and is read outside that loop"
                    raise Refusal("TL-S301", reason, stage=self.stage, loop=loop.loop)

    def _require_computed(self, nest: Nest, store: Store, buffers: Sequence[Buffer]) -> None:
        """Raise `Refusal` where more is read than is computed: a copy of storage that was padded takes the padding too."""
        own = [part for part in path_to_store(nest, store) if isinstance(part, For)]
        if all(is_whole_axis(*side, own, nest.relations) for side in zip(store.index, buffers[0].shape, strict=True)):
            return
        names = {buffer.name for buffer in buffers}
        for access in accesses_to(names, nest.body):
            if not access.writes:
                pairs = [pair for pair in zip(access.index, store.index, strict=True) if not reads_data(pair[0])]
                facts = place_facts(nest, own)
                if uncovered(place_facts(nest, access.loops, access.conditions), (facts, pairs)) is not None:
                    reason = f"{access.stage!r} reads more of {self.stage!r} than is computed: its padding; inline it first"
                    raise Refusal("TL-S301", reason, stage=self.stage)

    def _require_kept(self, nest: Nest, store: Store, readers: list[Stmt], axes: list[str], follow: dict[str, Expr]) -> None:
        """Raise `Refusal` where an element that the expression reads is written after that and before, or while, a reader uses it.

        A reader reads before it writes: of its own writes those of other iterations are in the way.
        """
        used = reads(store)
        order = list(among(nest.body, used | {buffer.name for buffer in store.buffers}))
        late = [part for part in order[next(at for at, part in enumerate(order) if part is store) + 1 :] if isinstance(part, Store)]
        if not any(buffer.name in used for part in late for buffer in part.buffers):
            return
        everything = list(accesses(nest.body))
        read = [access for access in everything if access.source == id(store) and not access.writes]
        around = {part.loop for part in path_to_store(nest, store) if isinstance(part, For)}
        for reader in readers:
            path = [part for part in path_to(nest.body, partial(is_, reader)) if isinstance(part, For)]
            inner = [part.loop for part in path if part.loop not in around]
            whole = {id(part) for part in statements(next((part for part in path if part.loop not in around), reader))}
            last = max((access.position for access in everything if access.source in whole), default=-1)
            shared = frozenset(around & {part.loop for part in path})
            uses = [access for access in everything if access.source == id(reader) and not access.writes and access.buffer in store.buffers]
            for one in read:
                between = [other for other in everything if other.writes and one.position < other.position <= last]
                found = met(nest, one, (other for other in between if other.source != id(reader)), shared)
                own = [other for other in between if other.source == id(reader)]
                for use in uses if inner and own and found is None else ():
                    found = found or met(nest, _read_for(one, use, axes, follow), own, shared, [_apart(inner)])
                if found is not None:
                    other, example = found
                    reason = f"it reads {example['element']}, which {other.stage!r} writes before it is used"
                    raise Refusal("TL-S103", f"{self.stage!r}: {reason}", stage=self.stage, counterexample=example)

    def _readers(self, nest: Nest, store: Store) -> list[Stmt]:
        """The statements that read what the stage computes. Raises `Refusal` where they do not see storage that its expression reads."""
        used, targets = reads(store), {buffer.name for buffer in store.buffers}
        found = [part for part in among(nest.body, targets) if targets & reads(part)]
        for part in among(nest.body, used):
            held = [buffer.name for buffer in part.buffers if buffer.name in used] if isinstance(part, Alloc) else []
            inside = among(part, targets) if held else ()
            if held and not {id(reader) for reader in found} <= {id(inner) for inner in inside}:
                reason = f"{self.stage!r} reads {held[0]!r}, which is only there inside its own loops; inline it first"
                raise Refusal("TL-S301", reason, stage=self.stage)
        return found


def _read_for(read: Access, use: Access, axes: list[str], follow: dict[str, Expr]) -> Access:
    """What the expression reads, where one reads its value that has it written in."""
    there = dict(zip(axes, use.index, strict=True))
    index, conditions = (tuple(substitute(substitute(part, follow), there) for part in parts) for parts in (read.index, read.conditions))
    return replace(use, buffer=read.buffer, index=index, conditions=(*use.conditions, *conditions))


def _apart(loops: list[str]) -> Expr:
    """Two instances differ in one of these loops."""
    found: Expr = FALSE
    for loop in loops:
        found = Binary("or", found, Unary("not", Compare("eq", Axis(f"{loop}'"), Axis(f"{loop}''"))))
    return found


def reads(part: Stmt) -> set[str]:
    """The names of the buffers that a statement itself reads, its parts aside."""
    return set() if isinstance(part, Alloc) else read_by(part)  # extents read nothing
