"""`reorder`: change the order of perfectly nested loops.

    for i in range(4):                  for j in range(6):
        for j in range(6):      ->          for i in range(4):
            C[i, j] = A[i, j]                   C[i, j] = A[i, j]

Loops are given outermost first; a partial list permutes those loops among the places that they hold. A loop that moves outside one
that its bounds depend on (a triangle, a skewed loop) changes bounds with it, see `interchange`. Legal when nothing stands between the
loops, such bounds are linear, no dependence changes direction, and what ran in parallel or as lanes still may. Writes that nothing
reads meanwhile may change places where the last one of each element stays the last (see `rewrites`), and so may iterations that share
storage which each fills for itself (see `refilled`). Reordering a floating-point reduction re-associates it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorlang.ir import For, Nest, Stmt
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, map_statements
from tensorlang.schedules.directive import Directive, LoopName, Refusal
from tensorlang.schedules.directives.loop_kinds import require_kind
from tensorlang.schedules.legality.interchange import exchanged
from tensorlang.schedules.legality.orders import reordered
from tensorlang.schedules.rewriting.edit import nested, path_to_loop


@dataclass(frozen=True, slots=True)
class Reorder(Directive):
    """Put `loops` in the given order, outermost first."""

    loops: tuple[LoopName, ...]

    def apply(self, nest: Nest) -> Nest:
        """The nest with the loops reordered."""
        if len(set(self.loops)) != len(self.loops):
            twice = next(loop for loop in self.loops if self.loops.count(loop) > 1)
            raise Refusal("TL-S005", f"reorder names {short(twice)!r} twice", loop=twice)
        if not self.loops:
            raise Refusal("TL-S005", "reorder needs at least one loop")
        paths = [path_to_loop(nest, loop) for loop in self.loops]
        longest = max(paths, key=len)
        chain = self._chain(longest)
        places = [position for position, loop in enumerate(chain) if loop.loop in self.loops]
        order = list(chain)
        for position, loop in zip(places, self.loops, strict=True):
            order[position] = next(part for part in chain if part.loop == loop)
        if order == chain:
            return nest
        outer = [part for part in longest[: longest.index(chain[0])] if isinstance(part, For)]
        bounded = _in_order(nest, chain, order, outer)
        result = replace(nest, body=_replace(nest.body, chain[0], nested(bounded, chain[-1].body)))
        self._require_order(nest, result, chain, [loop.loop for loop in order], outer)
        for position, part in enumerate(chain):
            around = {other.loop for other in order[: order.index(part)]}
            if part.kind != "serial" and around != {other.loop for other in chain[:position]}:
                require_kind(result, part)
        return result

    def _chain(self, path: tuple[Stmt, ...]) -> list[For]:
        """The loops from the outermost listed one down to the innermost, with nothing between."""
        listed = set(self.loops)
        first = next(position for position, part in enumerate(path) if isinstance(part, For) and part.loop in listed)
        chain: list[For] = []
        for part in path[first:]:
            if not isinstance(part, For):
                raise Refusal(
                    "TL-S105",
                    f"other statements stand between {short(chain[-1].loop)!r} and {short(path_loop(path))!r}, "
                    "so the loops cannot change places",
                    loop=path_loop(path),
                )
            chain.append(part)
        missing = listed - {loop.loop for loop in chain}
        if missing:
            name = min(missing)
            raise Refusal("TL-S105", f"{name!r} and {path_loop(path)!r} are not in one nest of loops", loop=name)
        return chain

    def _require_order(self, nest: Nest, result: Nest, chain: list[For], order: list[str], outer: list[For]) -> None:
        example = reordered(nest, chain, order, outer, result)
        if example is not None:
            raise Refusal(
                "TL-S103",
                f"{example['second']['stage']!r} needs {example['element']} of another iteration, and the new order would swap the two",
                stage=example["second"]["stage"],
                loop=self.loops[0],
                counterexample=example,
            )


def _in_order(nest: Nest, chain: list[For], order: list[For], outer: list[For]) -> list[For]:
    """The loops in a new order, with new bounds where the old ones depended on a loop that is now inside."""
    current = list(chain)
    for position, wanted in enumerate(order):
        at = next(place for place, loop in enumerate(current) if loop.loop == wanted.loop)
        for place in range(at, position, -1):
            above, below = current[place - 1 : place + 1]
            axes = axes_of(below.lo) | axes_of(below.hi)
            if axes and above.loop in closure(nest, axes):
                current[place - 1 : place + 1] = exchanged(nest, above, below, [*outer, *current[: place - 1]])
            else:
                current[place - 1 : place + 1] = below, above
    return current


def path_loop(path: tuple[Stmt, ...]) -> str:
    """The loop at the end of a path."""
    last = path[-1]
    assert isinstance(last, For)
    return last.loop


def _replace(stmt: Stmt, old: Stmt, new: Stmt) -> Stmt:
    return new if stmt is old else map_statements(stmt, lambda part: _replace(part, old, new))
