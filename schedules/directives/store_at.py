"""`store_at`: keep the storage of a placed producer at an outer loop.

    for y_o in range(8):                            for y_o in range(8):
        for y_i in range(8):                            h: float32[10, 64]
            h: float32[3, 64]                           for y_i in range(8):
            for y in range(y', y' + 3):     ->              for y in range(y' + select(y_i > 0, 2, 0), y' + 3):
                h[y - y'] = f(y)                                h[y - 8 y_o] = f(y)
            v[y'] = h[0] + h[1] + h[2]                      v[y'] = h[...] + h[...] + h[...]

(y' = 8 y_o + y_i.) The storage holds all that the iterations of `loop` use, so an iteration of the loops in between computes only what
those before it have not (see `sliding_window`); with `reuse="none"` it computes as much as before.

Legal where `loop` is around the loop at which the producer is computed, and the loops in between do not run in parallel on what they
now share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Alloc, Binary, Block, Buffer, Expr, For, Nest, Prefetch, Stmt, Store, allocate
from tensorlang.ir.printer import short
from tensorlang.ir.traverse import map_expressions, map_statements
from tensorlang.schedules.directive import Directive, LoopName, Refusal, StageName
from tensorlang.schedules.legality.accesses import accesses
from tensorlang.schedules.legality.dependences import race
from tensorlang.schedules.placement.producer_placement import Placement, box_of, dimensions, placement_of, reading, start_of
from tensorlang.schedules.placement.sliding_window import slid, unslid
from tensorlang.schedules.placement.whole_reads import require_whole_reads
from tensorlang.schedules.rewriting.edit import edit_loops, path_to_loop
from tensorlang.schedules.rewriting.region import region

REUSE: Final = ("slide", "none")


@dataclass(frozen=True, slots=True)
class StoreAt(Directive):
    """Allocate the storage of the placed producer `stage` at the start of an iteration of `loop`."""

    stage: StageName
    loop: LoopName
    reuse: str = "slide"

    def apply(self, nest: Nest) -> Nest:
        """The nest with the storage moved."""
        if self.reuse not in REUSE:
            reason = f"reuse is {self.reuse!r}, not one of {', '.join(map(repr, REUSE))}"
            raise Refusal("TL-S005", reason, stage=self.stage, loop=self.loop)
        path_to_loop(nest, self.loop)
        nest = unslid(nest, placement_of(nest, self.stage, self.loop))
        place = placement_of(nest, self.stage, self.loop)
        at = self._position(place)
        box = box_of(nest, place, self.loop)
        self._require_starts(nest, place)
        outer = place.loops[: at + 1]
        uses = [
            (box.whole(access.index), access.loops[at + 1 :])
            for access in accesses(outer[-1], outer[:-1])
            if access.buffer.name in place.names
        ]
        require_whole_reads(nest, place, box, self.loop)
        spans = region(nest, uses, box.ends, [part.loop for part in outer])
        local = {buffer.name: replace(buffer, shape=tuple(span.extent for span in spans), memory="auto") for buffer in place.buffers}

        def position(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
            return tuple(simplify(Binary("sub", part, span.base)) for part, span in zip(box.whole(index), spans, strict=True))

        starts = slid(nest, place, at) if self.reuse == "slide" else {}

        def start(loop: For) -> For:
            return replace(loop, lo=starts[loop.loop])

        def keep(part: Stmt) -> Stmt:
            if part is not outer[-1]:
                return map_statements(part, keep)
            body = edit_loops(_moved(outer[-1].body, local, position), lambda loop: loop.loop in starts, start)
            return replace(outer[-1], body=allocate(local.values(), body))

        result = replace(nest, body=keep(nest.body))
        self._require_private(result, place, at)
        return result

    def _position(self, place: Placement) -> int:
        around = [part.loop for part in place.loops]
        if not around:
            raise Refusal("TL-S301", f"{self.stage!r} is computed whole; compute_at it first", stage=self.stage, loop=self.loop)
        if self.loop not in around:
            reason = f"{self.stage!r} is computed at {short(around[-1])!r}, which does not stand inside {short(self.loop)!r}"
            raise Refusal("TL-S301", reason, stage=self.stage, loop=self.loop)
        at = around.index(self.loop)
        if at + 1 >= place.stored:
            raise Refusal("TL-S301", f"{self.stage!r} is stored there, or outside of it, already", stage=self.stage, loop=self.loop)
        for part in place.loops[: at + 1]:
            if part.kind in ("vector", "unroll"):
                reason = f"the storage of {self.stage!r} cannot stand inside the {part.kind} loop {short(part.loop)!r}"
                raise Refusal("TL-S301", reason, stage=self.stage, loop=self.loop)
        return at

    def _require_starts(self, nest: Nest, place: Placement) -> None:
        """Raise `Refusal` where the box of an iteration may begin below 0: the storage holds places from 0 on."""
        for part in place.parts:
            for _, dims in dimensions(part, place) or ():
                for dimension, _ in dims:
                    start_of(nest, dimension, place, self.loop)

    def _require_private(self, nest: Nest, place: Placement, at: int) -> None:
        for inner in place.loops[at + 1 :]:
            if inner.kind not in ("parallel", "vector"):
                continue
            path = [part for part in path_to_loop(nest, inner.loop) if isinstance(part, For)]
            example = race(nest, path[-1], path[:-1], reductions=inner.kind == "vector")
            if example is not None:
                reason = f"iterations of the {inner.kind} loop {short(inner.loop)!r} would share {example['element']}"
                code = "TL-S101" if inner.kind == "parallel" else "TL-S102"
                raise Refusal(code, reason, stage=self.stage, loop=self.loop, counterexample=example)


def _moved(stmt: Stmt, local: dict[str, Buffer], position: Callable[[tuple[Expr, ...]], tuple[Expr, ...]]) -> Stmt:
    """The statement over the new storage."""

    def rewrite(part: Stmt) -> Stmt:
        match part:
            case Alloc(buffers, body):
                return allocate((buffer for buffer in buffers if buffer.name not in local), rewrite(body))
            case Prefetch(buffer) if buffer.name in local:
                return Block(())
            case Store(buffers=buffers) if any(buffer.name in local for buffer in buffers):
                return replace(part, buffers=tuple(local[buffer.name] for buffer in buffers), index=position(part.index))
            case _:
                return map_statements(part, rewrite)

    return rewrite(map_expressions(stmt, reading(local, position)))
