"""`fission`: each statement in a loop gets a loop of its own.

    for i in range(4):                          for i in range(4):              # C.init.i
        C[i] = 0                        ->          C[i] = 0
        for k in range(8):                      for i in range(4):              # C.i
            C[i] += A[i, k]                         for k in range(8):
                                                        C[i] += A[i, k]

The loop keeps its name over the last statement of its own stage; the other loops are named after the stages of their statements, and
so are the axes that follow from them. Storage of one iteration that carries values from one statement to another gets a dimension for
the loop (scalar expansion), outside of it:

    for y in range(4):                          h: float32[4, 3, 8]
        h: float32[3, 8]                        for y in range(4):              # h.y
        h[...] = f(y, ...)              ->          h[y, ...] = f(y, ...)
        v[y] = h[...]                           for y in range(4):              # v.y
                                                    v[y] = h[y, ...]

`after` names a loop that stands directly in it: what runs up to that one, and the rest, are the two that get loops.

Legal where no statement needs, or overwrites, what a later one computes in an earlier iteration, and the storage that is expanded is
of bounded size. Overwriting is harmless where one statement alone writes the storage, in each iteration before it is read, and the same
value each time (see `rewrites`); where each statement fills for itself what it reads (see `refilled`); and where nothing reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tensorlang import ir
from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import (
    Alloc,
    Axis,
    Binary,
    Block,
    Buffer,
    Compare,
    Const,
    Expr,
    For,
    Load,
    Nest,
    Prefetch,
    Relation,
    Stmt,
    Store,
    allocate,
    block,
)
from tensorlang.ir.mentions import allocations
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, map_children, map_expressions, map_statements
from tensorlang.schedules.directive import Directive, LoopName, Refusal
from tensorlang.schedules.directives.compute_root import ComputeRoot
from tensorlang.schedules.directives.split import Split
from tensorlang.schedules.legality.accesses import accesses, conditions_around
from tensorlang.schedules.legality.dependences import overtaken
from tensorlang.schedules.placement.local_copies import fresh_buffer
from tensorlang.schedules.placement.upper_bounds import greatest
from tensorlang.schedules.rewriting.copies import FreshNames, copied, pruned
from tensorlang.schedules.rewriting.edit import edit_loops, extent_of, path_to_loop, stage_of, stores

MAX_EXPANDED_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Fission(Directive):
    """Distribute `loop` over the statements in it, or over those up to the loop `after` and the others."""

    loop: LoopName
    after: LoopName | None = None

    def apply(self, nest: Nest) -> Nest:
        """The nest with one loop for each statement."""
        path = path_to_loop(nest, self.loop)
        loop = path[-1]
        assert isinstance(loop, For)
        outer = [part for part in path[:-1] if isinstance(part, For)]
        held = conditions_around(nest, loop)
        loop, expanded = self._expanded(nest, loop, outer)
        parts = self._parts(loop)
        self._require_order(nest, loop, parts, outer, held)
        labels = [next(reversed(list(stores(part)))).stage for part in parts]
        own = [position for position, label in enumerate(labels) if label == stage_of(self.loop)]
        keeper = own[-1] if own else len(parts) - 1
        names = FreshNames.of(nest)
        relations: list[Relation] = list(nest.relations)
        result: list[Stmt] = []
        for position, (part, label) in enumerate(zip(parts, labels, strict=True)):
            whole = replace(loop, body=part)
            if position != keeper:
                made = copied(
                    nest,
                    whole,
                    [around.loop for around in outer],
                    [self.loop],
                    lambda axis, label=label: names.fresh(f"{label}.{short(axis)}"),  # type: ignore[misc]
                )
                relations.extend(made.relations)
                whole = made.body  # type: ignore[assignment]
            result.append(whole)
        apart = block(*result)
        apart = allocate(expanded, apart)
        body = edit_loops(nest.body, lambda part: part.loop == self.loop, lambda _: apart)
        return pruned(replace(nest, body=body, relations=tuple(relations)))

    def _expanded(self, nest: Nest, loop: For, outer: Sequence[For]) -> tuple[For, tuple[Buffer, ...]]:
        """The loop over storage with a dimension for it where statements share storage, and that storage."""
        storage, body = _storage(loop)
        parts = self._statements(body)
        users = {
            buffer.name: sum(any(access.buffer.name == buffer.name for access in accesses(part)) for part in parts) for buffer in storage
        }
        shared = {name for name, count in users.items() if count > 1}
        for store in stores(body):  # the components of a tuple have one index
            names = {buffer.name for buffer in store.buffers}
            if names & shared:
                shared |= names
        if not shared:
            return loop, ()
        extent = self._extent(nest, loop, outer)
        wide = {buffer.name: _widened(nest, buffer, extent) for buffer in storage if buffer.name in shared}
        stuck = next((buffer for buffer in storage if buffer.name in shared and loop.loop in closure(nest, _axes(buffer))), None)
        size = sum(_bytes(buffer) for buffer in wide.values())
        if extent is None or stuck is not None or wide.keys() != shared or size > MAX_EXPANDED_BYTES:
            name = min(shared) if stuck is None else stuck.name
            why = (
                f"{size} bytes for all iterations (at most {MAX_EXPANDED_BYTES})"
                if size > MAX_EXPANDED_BYTES
                else "without a bound on its size for all iterations"
            )
            raise Refusal(
                "TL-S108",
                f"{name!r} is storage of one iteration of {short(self.loop)!r} and carries values from one statement to another, {why}",
                stage=name,
                loop=self.loop,
                alternatives=_legal(nest, (ComputeRoot(name), Split(self.loop, 16))),
            )
        position = simplify(Binary("sub", Axis(self.loop), loop.lo))
        wider = _over(replace(loop, body=_without(loop.body, set(wide))), wide, position)
        assert isinstance(wider, For)
        return wider, tuple(wide[buffer.name] for buffer in storage if buffer.name in wide)

    def _statements(self, body: Stmt) -> list[Stmt]:
        """What gets loops of its own."""
        parts: list[Stmt] = _with_hints(body.body) if isinstance(body, Block) else [body]
        if len(parts) < 2:
            raise Refusal("TL-S105", f"{short(self.loop)!r} holds a single statement, so there is nothing to separate", loop=self.loop)
        if self.after is None:
            return parts
        place = next((at for at, part in enumerate(parts) if isinstance(part, For) and part.loop == self.after), None)
        if place is None:
            raise Refusal("TL-S105", f"{short(self.after)!r} does not stand directly in {short(self.loop)!r}", loop=self.loop)
        if place + 1 == len(parts):
            raise Refusal("TL-S105", f"nothing in {short(self.loop)!r} runs after {short(self.after)!r}", loop=self.loop)
        return [block(*parts[: place + 1]), block(*parts[place + 1 :])]

    def _parts(self, loop: For) -> list[Stmt]:
        """What gets loops of its own, each inside the storage that it alone uses."""
        storage, body = _storage(loop)
        parts = self._statements(body)
        for buffer in reversed(storage):
            for position, part in enumerate(parts):
                if any(access.buffer.name == buffer.name for access in accesses(part)):
                    parts[position] = allocate((buffer,), part)
        return parts

    def _extent(self, nest: Nest, loop: For, outer: Sequence[For]) -> Expr | None:
        """A number that the iterations never exceed, over no loop; None where there is none."""
        extent = greatest(nest, extent_of(loop), outer)
        if extent is None or axes_of(extent):
            return None
        if isinstance(extent, Const):
            return ir.const(max(0, int(extent.value)))
        return extent if find(Compare("lt", extent, ir.const(0))) is None else simplify(Binary("max", extent, ir.const(0)))

    def _require_order(self, nest: Nest, loop: For, parts: list[Stmt], outer: list[For], held: tuple[Expr, ...]) -> None:
        for position, part in enumerate(parts):
            for later in parts[position + 1 :]:
                example = overtaken(nest, loop, outer, held, part, later, parts)
                if example is not None:
                    raise Refusal(
                        "TL-S103",
                        f"{example['second']['stage']!r} touches {example['element']} after {example['first']['stage']!r} did "
                        f"in an earlier iteration of {short(self.loop)!r}; apart, the two would change places",
                        stage=example["second"]["stage"],
                        loop=self.loop,
                        counterexample=example,
                    )


def _storage(loop: For) -> tuple[list[Buffer], Stmt]:
    """The storage at the start of an iteration, and what comes after."""
    body = loop.body
    return (list(body.buffers), body.body) if isinstance(body, Alloc) else ([], body)


def _axes(buffer: Buffer) -> frozenset[str]:
    """The axes in the extents of a buffer."""
    return frozenset().union(*map(axes_of, buffer.shape))


def _widened(nest: Nest, buffer: Buffer, extent: Expr | None) -> Buffer:
    """A buffer with a leading dimension, which no longer has to fit where the small one lived.

    Where copies of the loop have storage of the same name, which stays as it is, the wide one gets a name of its own.
    """
    memory = "auto" if buffer.memory in ("register", "stack") else buffer.memory
    copies = sum(other.name == buffer.name for other in allocations(nest.body))
    name = buffer.name if copies == 1 else fresh_buffer(nest, buffer.name)
    return replace(buffer, name=name, shape=(ir.const(0) if extent is None else extent, *buffer.shape), memory=memory)


def _bytes(buffer: Buffer) -> int:
    """The size of a buffer, run-time extents counted as one."""
    size = buffer.dtype.bytes
    for extent in buffer.shape:
        size *= int(extent.value) if isinstance(extent, Const) else 1
    return size


def _without(stmt: Stmt, names: set[str]) -> Stmt:
    """The body of the loop without the storage of these names."""
    if not isinstance(stmt, Alloc):
        return stmt
    return allocate((buffer for buffer in stmt.buffers if buffer.name not in names), stmt.body)


def _over(stmt: Stmt, wide: dict[str, Buffer], position: Expr) -> Stmt:
    """The statement over the widened storage, at its position in the loop."""

    def read(expr: Expr) -> Expr:
        expr = map_children(expr, read)
        if isinstance(expr, Load) and getattr(expr.buffer, "name", "") in wide:
            return Load(wide[getattr(expr.buffer, "name", "")], (position, *expr.index))
        return expr

    def rewrite(part: Stmt) -> Stmt:
        match part:
            case Store(buffers=buffers) if any(buffer.name in wide for buffer in buffers):
                return replace(part, buffers=tuple(wide[buffer.name] for buffer in buffers), index=(position, *part.index))
            case Prefetch(buffer, index) if buffer.name in wide:
                return replace(part, buffer=wide[buffer.name], index=(position, *index))
            case _:
                return map_statements(part, rewrite)

    return rewrite(map_expressions(stmt, read))


def _legal(nest: Nest, directives: Sequence[ComputeRoot | Split]) -> tuple[Directive, ...]:
    """Those of the directives that would be accepted."""
    found: list[Directive] = []
    for directive in directives:
        try:
            directive.apply(nest)
        except Refusal:
            continue
        found.append(directive)
    return tuple(found)


def _with_hints(body: tuple[Stmt, ...]) -> list[Stmt]:
    """The statements, what only prefetches joined to the one that follows."""
    parts: list[Stmt] = []
    hints: list[Stmt] = []
    for part in body:
        hints.append(part)
        if any(True for _ in stores(part)):
            parts.append(block(*hints))
            hints = []
    return [*parts[:-1], block(*parts[-1:], *hints)]
