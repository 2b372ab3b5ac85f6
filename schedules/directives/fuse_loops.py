"""`fuse_loops`: two neighbouring loops become one.

    for y in range(8):                          for y in range(8):              # v.y
        h[y] = A[y] + 1                             h[y] = A[y] + 1
    for y in range(8):                  ->          v[y] = h[y] * 2
        v[y] = h[y] * 2

The joined loop is the second one; axes that followed from the first follow from it.

Legal where the loops are next to each other, both serial or both parallel, and run over equal ranges (`shift`, `peel` and `split` make
ranges equal); what stands between them, as the start of a sum, goes before both, which takes that it touches nothing of the first. And
where no iteration of the first is needed by, or overwrites what is needed in, an earlier iteration of the second; of parallel
ones, in any other iteration. Elements that nothing reads, and storage that each of the two fills for itself, are not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorlang import ir
from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Alloc, Axis, Binary, Block, Buffer, Compare, For, FuseRelation, Nest, Relation, Stmt, allocate, block
from tensorlang.ir.mentions import mentions
from tensorlang.ir.printer import equation, short, text
from tensorlang.ir.relations import bounds, equations, in_scope, renamed, sides
from tensorlang.ir.traverse import axes_of, map_statements
from tensorlang.schedules.directive import Directive, LoopName, Refusal
from tensorlang.schedules.directives.loop_kinds import racing
from tensorlang.schedules.legality.accesses import conditions_around, facts_of, touch
from tensorlang.schedules.legality.dependences import overtaken, race
from tensorlang.schedules.rewriting.copies import over, pruned
from tensorlang.schedules.rewriting.edit import find_loop, path_to_loop


@dataclass(frozen=True, slots=True)
class FuseLoops(Directive):
    """Run the bodies of the neighbouring loops `first` and `second` in one loop, which is `second`."""

    first: LoopName
    second: LoopName

    def made(self) -> tuple[str, ...]:
        """The full name of the joined loop."""
        return (self.second,)

    def apply(self, nest: Nest) -> Nest:
        """The nest with the two loops joined."""
        path = path_to_loop(nest, self.first)
        first, second = path[-1], find_loop(nest, self.second)
        assert isinstance(first, For)
        around = next((part for part in reversed(path) if isinstance(part, Block)), None)
        buffers, parts = _scoped(around, self.second)
        places = [place for loop in (first, second) for place, part in enumerate(parts) if part is loop]
        if len(places) != 2 or places[0] >= places[1]:
            raise Refusal(
                "TL-S105",
                f"{short(self.second)!r} does not follow directly after {short(self.first)!r}, so the two are not neighbours",
                loop=self.first,
            )
        if (met := next((part for part in parts[places[0] + 1 : places[1]] if touch(first, part)), None)) is not None:
            raise Refusal(
                "TL-S105",
                f"{min(mentions(met).stages)!r} stands between the loops and touches what the first one does, so it cannot go before both",
                loop=self.first,
            )
        for loop, other in ((first, second), (second, first)):
            if loop.kind != "serial" and not loop.kind == other.kind == "parallel":
                raise Refusal("TL-S107", f"the loop {short(loop.loop)!r} is already {loop.kind}; join it before", loop=loop.loop)
        for a, b in ((first.lo, second.lo), (first.hi, second.hi)):
            if simplify(Binary("sub", a, b)) != ir.const(0):
                ranges = [f"{text(loop.lo)}..{text(loop.hi)}" for loop in (first, second)]
                raise Refusal("TL-S104", f"the loops run over different ranges, {ranges[0]} and {ranges[1]}", loop=self.first)
        outer = [part for part in path[:-1] if isinstance(part, For)]
        names, relations = self._relations(nest, second, outer)
        earlier = over(first.body, names)
        joined = replace(second, body=block(earlier, second.body))

        def rewrite(stmt: Stmt) -> Stmt:
            if stmt is around:
                return allocate(buffers, block(*(joined if part is second else part for part in parts if part is not first)))
            return map_statements(stmt, rewrite)

        result = pruned(replace(nest, body=rewrite(nest.body), relations=relations))
        if second.kind == "parallel":  # each of the two is proved by itself
            example = race(result, joined, outer, reductions=False, parts=(earlier, second.body))
            if example is not None:
                raise Refusal("TL-S101", racing("iterations", joined, example), loop=self.second, counterexample=example)
            return result
        example = overtaken(result, joined, outer, conditions_around(nest, second), earlier, second.body, joined=True)
        if example is not None:
            raise Refusal(
                "TL-S103",
                f"{example['first']['stage']!r} would touch {example['element']} before {example['second']['stage']!r} does "
                "in a later iteration",
                stage=example["first"]["stage"],
                loop=self.second,
                counterexample=example,
            )
        return result

    def _relations(self, nest: Nest, second: For, outer: Sequence[For]) -> tuple[dict[str, str], tuple[Relation, ...]]:
        """How axes of the first body are called in the joined loop, and the relations there.

        A relation of one loop alone then holds over both bodies: it must say what one of the other loop says, or nothing.
        """
        names = {self.first: self.second}
        around = [part.loop for part in outer]
        known = set(in_scope(nest, around))
        theirs = [relation for relation in in_scope(nest, (*around, self.second)) if relation not in known]
        unmatched = list(theirs)
        dropped: set[Relation] = set()
        for relation in (relation for relation in in_scope(nest, (*around, self.first)) if relation not in known):
            here = renamed(relation, names)
            match = next((other for other in unmatched if _alike(here, other)), None)
            if match is None:
                self._require_vacuous(nest, here, second, outer)
                continue
            names.update(zip(sides(relation)[1], sides(match)[1], strict=True))
            unmatched.remove(match)
            dropped.add(relation)
        for relation in unmatched:
            self._require_vacuous(nest, relation, second, outer)
        return names, tuple(
            relation if relation in theirs else renamed(relation, names) for relation in nest.relations if relation not in dropped
        )

    def _require_vacuous(self, nest: Nest, relation: Relation, loop: For, outer: Sequence[For]) -> None:
        if isinstance(relation, FuseRelation):
            return
        facts = [fact for part in (*outer, loop) for fact in facts_of(part)]
        scope = in_scope(nest, [part.loop for part in (*outer, loop)])
        facts += [fact for other in scope if other != relation for fact in equations(other)]
        needed = frozenset().union(*(axes_of(bound) for bound in bounds(relation)))
        beyond = Compare("ge", Axis(relation.parent), relation.hi)
        known = {axis for other in scope for axis in sides(other)[1]} | {part.loop for part in (*outer, loop)}
        if needed <= known and find(*facts, equations(relation)[0], beyond) is None:
            return
        raise Refusal(
            "TL-S104",
            f"the condition of {equation(relation)!r} holds for one of the loops only, so their ranges differ",
            loop=loop.loop,
        )


def _alike(relation: Relation, other: Relation) -> bool:
    """Do two relations say the same of axes that they call differently?"""
    names = dict(zip(sides(relation)[1], sides(other)[1], strict=False))
    return type(relation) is type(other) and renamed(relation, names) == other


def _scoped(around: Block | None, loop: LoopName) -> tuple[list[Buffer], list[Stmt]]:
    """The storage in whose scope a loop stands within a block, and the parts of the block, those within that scope among them."""
    buffers: list[Buffer] = []
    parts: list[Stmt] = []

    def add(body: Sequence[Stmt]) -> None:
        for part in body:
            if isinstance(part, Alloc) and loop in mentions(part).names:
                buffers.extend(part.buffers)
                add(part.body.body if isinstance(part.body, Block) else (part.body,))
            else:
                parts.append(part)

    add(() if around is None else around.body)
    return buffers, parts
