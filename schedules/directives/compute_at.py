"""`compute_at`: compute a producer where it is needed.

    for y in range(66):                             for y_o in range(8):
        h[y] = f(y)                                     h: float32[10]
    for y_o in range(8):                                for y in range(8 y_o, 8 y_o + 10):
        for y_i in range(8):                ->              h[y - 8 y_o] = f(y)
            v[y] = h[y] + h[y + 2]                      for y_i in range(8):
                                                            v[y] = h[...] + h[...]

The part of the producer that one iteration of `loop` uses is computed at its start, into storage of that size.

An implicit stage, which starts at the innermost loop of its consumer, moves to an outer loop: its scalar becomes a buffer over the
loops in between on which it depends. A producer that was placed before moves from there.

Legal where the producer is an intermediate, every use of it is inside the loop, and its own loops are not scheduled yet; of a recurrence,
where it reads its own elements at other places of some dimensions only (`y[i - 1, j]`), along which all is computed (of `i`); for an
implicit stage, where nothing in the loops in between writes what it reads. What the producer reads has to be as it was: storage in which
the next state takes the place of the last one may have been written by then.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import is_

from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.rules import FALSE
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Alloc, Axis, Binary, Buffer, Compare, Expr, For, If, Nest, Stmt, Store, allocate, block, const
from tensorlang.ir.linear import Linear, expression, linear
from tensorlang.ir.mentions import mentions, parts_among
from tensorlang.ir.printer import short
from tensorlang.ir.relations import equations, in_scope
from tensorlang.ir.traverse import axes_of, map_expressions
from tensorlang.schedules.directive import Directive, LoopName, Refusal, StageName
from tensorlang.schedules.legality.accesses import accesses_to
from tensorlang.schedules.placement.hoisting import raised, unplaced
from tensorlang.schedules.placement.producer_placement import Placement, is_implicit, placement_of, reading
from tensorlang.schedules.placement.scopes import unfollowed, visible
from tensorlang.schedules.placement.sliding_window import unslid
from tensorlang.schedules.placement.unchanged import require_unchanged
from tensorlang.schedules.rewriting.edit import (
    AUXILIARY,
    allocated_names,
    edit_loops,
    edit_stores,
    loops,
    loops_on,
    path_to,
    path_to_loop,
    remove,
    require_single,
    require_stage,
    stage_of,
    stores,
    stores_of,
    without_alloc,
)
from tensorlang.schedules.rewriting.movable import along_itself, require_movable
from tensorlang.schedules.rewriting.region import Span, region
from tensorlang.schedules.rewriting.version import in_version, shown


@dataclass(frozen=True, slots=True)
class ComputeAt(Directive):
    """Compute the part of `stage` that an iteration of `loop` uses at its start; of several versions in that with the loop `within`."""

    stage: StageName
    loop: LoopName
    within: LoopName = ""

    def __repr__(self) -> str:
        return shown(self)

    def apply(self, nest: Nest) -> Nest:
        """The nest with the producer moved."""
        return in_version(nest, self.within, self._applied)

    def _applied(self, nest: Nest) -> Nest:
        buffers = producer(nest, self.stage, self.loop)
        path_to_loop(nest, self.loop)
        nest = self._whole(nest)
        found = self._elsewhere(nest)
        if found is not None:
            place, implicit = found
            if implicit:
                return raised(nest, place, [part.loop for part in place.loops].index(self.loop) + 1, self.loop)
            return self._applied(unplaced(nest, place, self.loop))
        if stage_of(self.loop) in (self.stage, f"{self.stage}.init"):
            raise Refusal(
                "TL-S301",
                f"{short(self.loop)!r} is a loop of {self.stage!r} itself; name a loop of a stage that uses it",
                stage=self.stage,
                loop=self.loop,
            )
        old = producer_parts(nest, self.stage)
        nest = visible(replace(nest, body=unfollowed(nest.body, old)), old, self.stage, self.loop)
        path, old = path_to_loop(nest, self.loop), producer_parts(nest, self.stage)
        loop = path[-1]
        assert isinstance(loop, For)
        outer = loops_on(path)
        self._require_storage(outer)
        names = {buffer.name for buffer in buffers}
        own = (self.stage, f"{self.stage}.init")
        inside = [access for access in accesses_to(names, loop, outer[:-1]) if access.stage not in own]
        uses = [(access.index, access.loops[len(outer) :]) for access in inside]
        if not uses:
            raise Refusal("TL-S301", f"{self.stage!r} is not used inside {short(self.loop)!r}", stage=self.stage, loop=self.loop)
        everywhere = [access for access in accesses_to(names, nest.body) if access.stage not in own]
        if len(everywhere) != len(uses):
            stray = next(access for access in everywhere if loop.loop not in {part.loop for part in access.loops})
            raise Refusal(
                "TL-S301", f"{self.stage!r} is also used by {stray.stage!r}, outside {short(self.loop)!r}", stage=self.stage, loop=self.loop
            )
        spans = self._box(nest, buffers, region(nest, uses, buffers[0].shape, [part.loop for part in outer]))
        local = {buffer.name: replace(buffer, shape=tuple(span.extent for span in spans)) for buffer in buffers}
        gone = {id(store) for part in old for store in stores(part)}
        around = frozenset(part.loop for part in path_to(nest.body, partial(is_, old[0]))[:-1] if isinstance(part, For))
        parts = [self._placed(nest, part, spans, outer) for part in old]
        body: Stmt = block(*parts, loop.body)
        for buffer in buffers:
            body = without_alloc(body, buffer)
        body = redirect(body, local, spans)
        body = allocate(local.values(), body)
        rest = remove(nest.body, lambda store: id(store) in gone)
        assert rest is not None
        for buffer in buffers:
            rest = without_alloc(rest, buffer)
        rest = edit_loops(rest, lambda part: part.loop == self.loop, lambda part: replace(part, body=body))
        result = replace(nest, body=rest)
        require_unchanged(self.stage, self.loop, nest, result, parts, around)
        return result

    def _box(self, nest: Nest, buffers: Sequence[Buffer], spans: tuple[Span, ...]) -> tuple[Span, ...]:
        """What is computed for an iteration: of a recurrence all along the dimensions in which it reads others of its own elements.

        Raises `Refusal` where that is the whole of it.
        """
        followed = along_itself(nest, self.stage, buffers)
        whole = tuple(Span(const(0), extent) for extent in buffers[0].shape)
        found = tuple(span if place in followed else all_of for place, (span, all_of) in enumerate(zip(spans, whole, strict=True)))
        if len(followed) < len(spans) and found == whole:
            raise Refusal(
                "TL-S301",
                f"{self.stage!r} reads its own elements, and an iteration of {short(self.loop)!r} may need all of them, so it is computed "
                "whole and in order",
                stage=self.stage,
                loop=self.loop,
            )
        return found

    def _whole(self, nest: Nest) -> Nest:
        """The nest in which the stage computes all that an iteration uses: its storage will not keep what earlier ones have computed."""
        place = placement_of(nest, self.stage, self.loop)
        return unslid(nest, place) if place.loops else nest

    def _elsewhere(self, nest: Nest) -> tuple[Placement, bool] | None:
        """Where the producer stands if that is inside other loops, and whether it depends on them."""
        place = placement_of(nest, self.stage, self.loop)
        if not place.loops:
            return None
        around = [part.loop for part in place.loops]
        inside = [part.loop for part in path_to_loop(nest, self.loop) if isinstance(part, For)]
        own = stage_of(self.loop) in place.own
        below = len(inside) > len(around) and inside[: len(around)] == around
        walked = ((store, {loop.loop for loop in loops(part)}) for part in place.parts for store in stores(part))
        if below and all(_along(index, within) for store, within in walked for index in store.index) and not own and not place.conditions:
            return None
        implicit = is_implicit(nest, place) or (not place.buffers[0].shape and self.loop in around)
        if self.loop == around[-1]:
            raise Refusal("TL-S301", f"{self.stage!r} is computed at {short(self.loop)!r} already", stage=self.stage, loop=self.loop)
        if implicit and self.loop not in around:
            known = ", ".join(map(short, around))
            reason = f"{self.stage!r} depends on the loops around it; name one of {known}, or move it out with compute_root"
            raise Refusal("TL-S301", reason, stage=self.stage, loop=self.loop)
        if implicit:
            self._require_storage(place.loops[: around.index(self.loop) + 1])
        return place, implicit

    def _require_storage(self, outer: Sequence[For]) -> None:
        """Raise `Refusal` where there can be no storage inside loops, whose iterations are not one after the other."""
        for part in outer:
            if part.kind in ("vector", "unroll"):
                raise Refusal(
                    "TL-S301",
                    f"the storage of {self.stage!r} cannot stand inside the {part.kind} loop {short(part.loop)!r}",
                    stage=self.stage,
                    loop=self.loop,
                )

    def _placed(self, nest: Nest, part: Stmt, spans: tuple[Span, ...], outer: tuple[For, ...]) -> Stmt:
        """The producer's nest over the region instead of the whole tensor."""
        around = {loop.loop for loop in loops(part)}
        spanned: dict[str, Span] = {}
        for store in stores(part):
            if store.stage not in (self.stage, f"{self.stage}.init"):
                continue
            for index, span in zip(store.index, spans, strict=True):
                match _along(index, around):
                    case name, begin:
                        own = Span(simplify(Binary("sub", span.base, begin)), span.extent)
                        fits = spanned.setdefault(name, own) == own
                    case _:
                        fits = False
                if not fits:
                    raise Refusal(
                        "TL-S301",
                        f"the loops of {self.stage!r} are already scheduled; move it first, then schedule its loops",
                        stage=self.stage,
                        loop=self.loop,
                    )

        def rewrite(loop: For) -> For:
            span = spanned[loop.loop]
            end = simplify(Binary("add", span.base, span.extent))
            hi = end if not may_exceed(nest, end, loop.hi, outer) else Binary("min", end, loop.hi)
            lo = span.base if not may_exceed(nest, loop.lo, span.base, outer) else Binary("max", span.base, loop.lo)
            return replace(loop, lo=lo, hi=hi)

        return edit_loops(part, lambda loop: loop.loop in spanned, rewrite)


def _along(index: Expr, own: Collection[str]) -> tuple[str, Expr] | None:
    """The only loop among its `own` that an index walks, and from where, as loops further out tell: `h` and `-8 h_o` of `h - 8 h_o`."""
    form = linear(index)
    match [(atom, factor) for atom, factor in form.terms.items() if not axes_of(atom).isdisjoint(own)]:
        case [(Axis(name) as axis, 1)]:
            return name, expression(form.plus(Linear(0, {axis: 1}), -1))
        case _:
            return None


def producer(nest: Nest, stage: str, loop: str = "") -> tuple[Buffer, ...]:
    """The buffers that an intermediate stage computes. Raises `Refusal` where it is none."""
    require_stage(nest, stage)
    require_single(nest, stage, loop)
    buffers = next(stores_of(nest.body, (stage,))).buffers
    outputs = {buffer.name for buffer in nest.outputs}
    if any(buffer.name in outputs for buffer in buffers):
        raise Refusal("TL-S301", f"{stage!r} is a result of the kernel, so it is computed whole", stage=stage, loop=loop)
    if stage.endswith(AUXILIARY) or allocated_names(nest.body).isdisjoint(buffer.name for buffer in buffers):
        raise Refusal("TL-S301", f"{stage!r} is not an intermediate tensor; name the stage of one", stage=stage, loop=loop)
    require_movable(nest, stage, buffers, loop)
    return buffers


def producer_parts(nest: Nest, stage: str) -> list[Stmt]:
    """The largest statements that hold nothing but a stage and its initialisation, in program order."""
    own = {stage, f"{stage}.init"}
    targets = {buffer for store in stores_of(nest.body, own) for buffer in store.buffers}

    def belongs(part: Stmt) -> bool:
        found = mentions(part).stages
        return not own.isdisjoint(found) and all(name in own or name.startswith(f"{stage}.") for name in found)

    def raised(buffer: Buffer) -> bool:
        """Is this the tensor of a sum that stood in an expression of the stage, and is a stage of its own by now?"""
        return bool(buffer.shape) and buffer.name.startswith(f"{stage}.") and buffer.name[len(stage) + 1 :].isdigit()

    def visit(part: Stmt) -> list[Stmt]:
        guarded = isinstance(part, If) and part.orelse is None
        if (
            (guarded or isinstance(part, (For, Store, Alloc)))
            and belongs(part)
            and not (isinstance(part, Alloc) and (not targets.isdisjoint(part.buffers) or any(raised(buffer) for buffer in part.buffers)))
        ):
            return [part]
        return [piece for inner in parts_among(part, own) for piece in visit(inner)]

    return visit(nest.body)


def may_exceed(nest: Nest, end: Expr, limit: Expr, outer: tuple[For, ...]) -> bool:
    """Can `end` lie above `limit` in some iteration of the outer loops?"""
    above = simplify(Compare("gt", end, limit))
    if above == FALSE:
        return False
    facts: list[Expr] = [
        fact for loop in outer for fact in (Compare("le", loop.lo, Axis(loop.loop)), Compare("lt", Axis(loop.loop), loop.hi))
    ]
    facts += [fact for relation in in_scope(nest, (loop.loop for loop in outer)) for fact in equations(relation)]
    return find(*facts, above) is not None


def redirect(stmt: Stmt, local: dict[str, Buffer], spans: tuple[Span, ...]) -> Stmt:
    """Every access to the old buffers, moved to the local ones."""

    def shifted(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(simplify(Binary("sub", part, span.base)) for part, span in zip(index, spans, strict=True))

    def store(part: Store) -> Stmt:
        if any(buffer.name in local for buffer in part.buffers):
            return replace(part, buffers=tuple(local.get(buffer.name, buffer) for buffer in part.buffers), index=shifted(part.index))
        return part

    return edit_stores(map_expressions(stmt, reading(local, shifted)), store)
