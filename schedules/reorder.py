"""`reorder`: change the order of perfectly nested loops.

    for i in range(4):                  for j in range(6):
        for j in range(6):      ->          for i in range(4):
            C[i, j] = A[i, j]                   C[i, j] = A[i, j]

Loops are given outermost first; a partial list permutes those loops among the places that they hold. Legal when nothing stands
between the loops, no loop moves outside one that its bounds depend on, and no dependence changes direction. Reordering a
floating-point reduction re-associates it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorlang.ir import For, Nest, Stmt
from tensorlang.printer import short
from tensorlang.relations import closure
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.edit import path_to_loop
from tensorlang.schedules.legality import reordered
from tensorlang.traverse import axes_of, map_statements


@dataclass(frozen=True, slots=True)
class Reorder:
    """Put `loops` in the given order, outermost first."""

    loops: tuple[str, ...]

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
        self._require_bounds(nest, order)
        self._require_order(nest, longest, chain, order)
        body = chain[-1].body
        for loop in reversed(order):
            body = replace(loop, body=body)
        return replace(nest, body=_replace(nest.body, chain[0], body))

    def _chain(self, path: tuple[Stmt, ...]) -> list[For]:
        """The loops from the outermost listed one down to the innermost, with nothing between."""
        listed = set(self.loops)
        first = next(position for position, part in enumerate(path) if isinstance(part, For) and part.loop in listed)
        chain: list[For] = []
        for part in path[first:]:
            if not isinstance(part, For):
                raise Refusal(
                    "TL-S105",
                    f"other statements stand between {short(chain[-1].loop)!r} and {short(path_loop(path))!r}, so the loops cannot change places",
                    loop=path_loop(path),
                )
            chain.append(part)
        missing = listed - {loop.loop for loop in chain}
        if missing:
            name = min(missing)
            raise Refusal("TL-S105", f"{short(name)!r} and {short(path_loop(path))!r} are not in one nest of loops", loop=name)
        return chain

    def _require_bounds(self, nest: Nest, order: list[For]) -> None:
        for position, loop in enumerate(order):
            inside = {part.loop for part in order[position + 1 :]}
            needs = closure(nest, axes_of(loop.lo) | axes_of(loop.hi)) & inside
            if needs:
                raise Refusal("TL-S104", f"the bounds of {short(loop.loop)!r} depend on {short(min(needs))!r}, which must stay outside it", loop=loop.loop)

    def _require_order(self, nest: Nest, path: tuple[Stmt, ...], chain: list[For], order: list[For]) -> None:
        at = next(position for position, part in enumerate(path) if part is chain[0])
        outer = [part for part in path[:at] if isinstance(part, For)]
        example = reordered(nest, chain, [loop.loop for loop in order], outer)
        if example is not None:
            raise Refusal(
                "TL-S103",
                f"{example['second']['stage']!r} needs {example['element']} of another iteration, and the new order would swap the two",
                stage=example["second"]["stage"],
                loop=self.loops[0],
                counterexample=example,
            )


def path_loop(path: tuple[Stmt, ...]) -> str:
    """The loop at the end of a path."""
    last = path[-1]
    assert isinstance(last, For)  # noqa: S101 - paths here end in loops
    return last.loop


def _replace(stmt: Stmt, old: Stmt, new: Stmt) -> Stmt:
    return new if stmt is old else map_statements(stmt, lambda part: _replace(part, old, new))
