"""`unroll`, `vectorize`, `parallel`: how a loop runs.

    for i in range(8):                  vector i in range(8):
        C[i] = A[i]             ->          C[i] = A[i]

`unroll` is legal where the extent is a literal. `vectorize` is legal where the extent is a literal and no two lanes touch one element
that either writes; the lanes of an associative reduction keep partial results, which re-associates it, and those of a scatter, whose
elements data tell, write them one after the other. `parallel` is legal where no two iterations do; over a reduction it is refused
(use `rfactor`). The number of lanes is bounded here, code in `budget`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from tensorlang.ir import For, LoopKind, Nest, Store
from tensorlang.ir.machine import MAX_LANES
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, statements
from tensorlang.schedules.directive import Directive, LoopName, Refusal
from tensorlang.schedules.directives.split import Split
from tensorlang.schedules.legality.dependences import race
from tensorlang.schedules.legality.lane_conflicts import store_to_one_element
from tensorlang.schedules.rewriting.edit import edit_loop, literal_extent, loops, path_to_loop, stage_of


@dataclass(frozen=True, slots=True)
class Unroll(Directive):
    """Emit the body of `loop` once for each iteration."""

    loop: LoopName

    def apply(self, nest: Nest) -> Nest:
        """The nest with the loop unrolled."""
        loop, _ = _serial(nest, self.loop)
        _literal(loop, "unroll", 8)
        return _with_kind(nest, self.loop, "unroll")


@dataclass(frozen=True, slots=True)
class Vectorize(Directive):
    """Run the iterations of `loop` as lanes of vectors."""

    loop: LoopName

    def apply(self, nest: Nest) -> Nest:
        """The nest with the loop vectorised."""
        loop, outer = _serial(nest, self.loop)
        lanes = _literal(loop, "vectorize", 16)
        if lanes > MAX_LANES:
            raise Refusal(
                "TL-S201", f"{lanes} lanes are too many (at most {MAX_LANES}); split the loop and vectorise the inner part",
                loop=self.loop, alternatives=(Split(self.loop, 16),),
            )  # fmt: skip
        for each, around in ((loop, outer), *_followers(nest, self.loop)):
            self._require_lanes(nest, each, around)
        return _with_kind(nest, self.loop, "vector")

    def _require_lanes(self, nest: Nest, loop: For, outer: list[For]) -> None:
        for part in loops(loop.body):
            if part.kind in ("vector", "parallel", "tensor"):
                raise Refusal("TL-S107", f"the {part.kind} loop {short(part.loop)!r} stands inside; lanes cannot run it", loop=self.loop)
            if loop.loop in closure(nest, axes_of(part.lo) | axes_of(part.hi)):
                raise Refusal("TL-S104", f"the bounds of {short(part.loop)!r} inside depend on the lane", loop=self.loop)
        for part in outer:
            if part.kind == "vector":
                raise Refusal("TL-S107", f"it stands inside the vector loop {short(part.loop)!r}", loop=self.loop)
        example = race(nest, loop, outer, reductions=True)
        if example is not None:
            raise Refusal("TL-S102", racing("lanes", loop, example), stage=stage_of(self.loop), loop=self.loop, counterexample=example)
        store = store_to_one_element(nest, loop, outer) if literal_extent(loop) != 1 else None
        if store is not None:
            reason = f"the tails around let at most one lane of {short(loop.loop)!r} run: all would write one element of {store.stage!r}"
            raise Refusal("TL-S201", reason, stage=store.stage, loop=self.loop)


@dataclass(frozen=True, slots=True)
class Parallel(Directive):
    """Run the iterations of `loop` on several threads."""

    loop: LoopName

    def apply(self, nest: Nest) -> Nest:
        """The nest with the loop parallel."""
        loop, outer = _serial(nest, self.loop)
        for each, around in ((loop, outer), *_followers(nest, self.loop)):
            self._require_nestable(nest, each, around)
        return _with_kind(nest, self.loop, "parallel")

    def _require_nestable(self, nest: Nest, loop: For, outer: list[For]) -> None:
        for part in outer:
            if part.kind in ("vector", "parallel", "unroll"):
                raise Refusal("TL-S107", f"it stands inside the {part.kind} loop {short(part.loop)!r}", loop=self.loop)
        example = race(nest, loop, outer, reductions=False)
        if example is not None:
            hint = ""
            if any(
                isinstance(part, Store) and part.reducer is not None and part.stage == example["first"]["stage"]
                for part in statements(loop)
            ):
                hint = "; a reduction runs in parallel through rfactor over a split-off part of it"
            raise Refusal(
                "TL-S101", racing("iterations", loop, example) + hint, stage=stage_of(self.loop), loop=self.loop, counterexample=example
            )


def require_kind(nest: Nest, loop: For) -> None:
    """Raise `Refusal` unless a parallel or vector loop may still be one, now that other loops stand around it."""
    if loop.kind in ("parallel", "vector"):
        kind = Parallel if loop.kind == "parallel" else Vectorize
        kind(loop.loop).apply(_with_kind(nest, loop.loop, "serial"))


def require_kinds(nest: Nest, loops: Iterable[For]) -> None:
    """Raise `Refusal` unless the parallel and vector ones of some loops may still be, now that what is inside touches more."""
    for loop in loops:
        if loop.kind in ("parallel", "vector"):
            require_kind(nest, loop)


def _followers(nest: Nest, loop: str) -> list[tuple[For, list[For]]]:
    """The loops that follow a loop, each with those around it: their places differ, so what holds of one may not hold of the other."""
    paths = [path_to_loop(nest, part.loop) for part in loops(nest.body) if part.follows == loop]
    chains = [[part for part in path if isinstance(part, For)] for path in paths]
    return [(chain[-1], chain[:-1]) for chain in chains]


def racing(what: str, loop: For, example: dict[str, Any]) -> str:
    """What two iterations, or lanes, of a loop would do to one element at once, as a reason."""
    first, second = example["first"], example["second"]
    return f"two {what} of {short(loop.loop)!r} would race: one {first['does']} {example['element']}, another {second['does']} it"


def _serial(nest: Nest, name: str) -> tuple[For, list[For]]:
    path = path_to_loop(nest, name)
    loop = path[-1]
    assert isinstance(loop, For)
    if loop.kind != "serial":
        raise Refusal("TL-S107", f"the loop is already {loop.kind}", loop=name)
    return loop, [part for part in path[:-1] if isinstance(part, For)]


def _literal(loop: For, what: str, factor: int) -> int:
    extent = literal_extent(loop)
    if extent is None:
        instead: tuple[Directive, ...] = (Split(loop.loop, factor),)
        raise Refusal(
            "TL-S204", f"{what} needs a literal number of iterations; split off an inner loop first", loop=loop.loop, alternatives=instead
        )
    return extent


def _with_kind(nest: Nest, loop: str, kind: LoopKind) -> Nest:
    return edit_loop(nest, loop, lambda part: replace(part, kind=kind))
