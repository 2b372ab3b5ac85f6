"""`scatter`: data say which element an iteration adds to, instead of being asked in the iterations of each element.

    for q in range(16):                             for k in range(1000):
        for k in range(1000):                           if 0 <= bin[k] < 16:
            if bin[k] == q:                 ->              H[bin[k]] += X[k]
                H[q] += X[k]

The loop over the elements is gone: of all its iterations one at most has what holds. Sums by groups read like the mathematics, and take as
many steps as there is data.

Legal of a reduction whose condition has an equation of `loop`, which its element moves with, and something else that the loop does not
move: as `where=`, or as a choice whose other side is the identity. Each element takes what it did, in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorlang.algebra.bounds import conjuncts
from tensorlang.algebra.identities import chosen_where
from tensorlang.algebra.rules import conjunction
from tensorlang.ir import Axis, Cast, Compare, Const, Expr, For, If, Nest, Select, Stmt, Store
from tensorlang.ir.dtype import INT64
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, dtype_of, read_in, substitute
from tensorlang.schedules.directive import Directive, LoopName, Refusal, StageName
from tensorlang.schedules.legality.in_bounds import unprotected
from tensorlang.schedules.rewriting.edit import (
    edit_loops,
    loops_on,
    path_to_loop,
    path_to_store,
    require_no_vector,
    require_stage,
    stores,
    stores_of,
)


@dataclass(frozen=True, slots=True)
class Scatter(Directive):
    """Write of `stage` the element that data name, instead of asking in each iteration of `loop` whether it is that one."""

    stage: StageName
    loop: LoopName

    def apply(self, nest: Nest) -> Nest:
        """The nest without the loop."""
        require_stage(nest, self.stage)
        path = path_to_loop(nest, self.loop)
        loop, store = path[-1], self._alone(path[-1])
        assert isinstance(loop, For)
        whole = path_to_store(nest, store)
        inside = whole[len(path) :]
        require_no_vector(loops_on(whole), self.loop, self.stage)
        self._require_free(nest, store, inside)
        asked = [cond for part in inside if isinstance(part, If) for cond in conjuncts((part.cond,))]
        equation, place = self._place(nest, loop, [*asked, *chosen_where(store)])
        values = {self.loop: place}

        def rebuilt(part: Stmt) -> Stmt:
            match part:
                case For():
                    return replace(part, body=rebuilt(part.body))
                case If(cond, then):  # what asks which element it is, is asked of the one that data name, once that is known to be there
                    still = [one for one in conjuncts((cond,)) if self.loop not in closure(nest, axes_of(one))]
                    return If(conjunction(still), rebuilt(then)) if still else rebuilt(then)
                case _:
                    known = Compare("le", loop.lo, place), Compare("lt", place, loop.hi)
                    of_element = [cond for cond in asked if self.loop in closure(nest, axes_of(cond))]
                    left = [substitute(cond, values) for cond in (*of_element, *chosen_where(store)) if cond != equation]
                    index, own = (tuple(substitute(one, values) for one in some) for some in (store.index, _chosen(store)))
                    element: Stmt = replace(store, index=index, values=own)
                    return If(conjunction(known), If(conjunction(left), element) if left else element)

        made = replace(nest, body=edit_loops(nest.body, lambda part: part.loop == self.loop, lambda part: rebuilt(part.body)))
        bare = next(filter(None, (unprotected(made, part) for part in stores_of(made.body, (self.stage,)))), None)
        if bare is not None:
            raise self._refusal("TL-S302", f"elements of {bare.name!r} exist only under a condition of {short(self.loop)!r}")
        return made

    def _refusal(self, code: str, reason: str) -> Refusal:
        return Refusal(code, reason, stage=self.stage, loop=self.loop)

    def _alone(self, loop: Stmt) -> Store:
        """The reduction, which is all that the loop holds."""
        found = list(stores(loop))
        if [store.stage for store in found] != [self.stage]:
            raise self._refusal("TL-S301", f"{short(self.loop)!r} does not hold {self.stage!r} alone; decompose_reduction, fission first")
        if found[0].reducer is None:
            raise self._refusal("TL-S304", f"{self.stage!r} combines nothing: an element that is not asked for would keep what it was")
        return found[0]

    def _require_free(self, nest: Nest, store: Store, inside: tuple[Stmt, ...]) -> None:
        """Raise `Refusal` where something but conditions, values and one index moves with the loop, or what is written is read."""
        ends = [end for part in inside if isinstance(part, For) for end in (part.lo, part.hi)]
        others = [part for part in store.index if part != Axis(self.loop)]
        if len(others) != len(store.index) - 1 or any(self.loop in closure(nest, axes_of(part)) for part in (*ends, *others)):
            raise self._refusal("TL-S303", f"{short(self.loop)!r} is no plain index of {self.stage!r}, or loops inside depend on it")
        if any(isinstance(part, If) and part.orelse is not None for part in inside):
            raise self._refusal("TL-S303", f"{self.stage!r} stands beside what is done otherwise")
        conditions = [part.cond for part in inside if isinstance(part, If)]
        read = frozenset().union(*map(read_in, (*conditions, *ends, *store.values)))
        if read & {buffer.name for buffer in store.buffers}:
            raise self._refusal("TL-S303", f"{self.stage!r} reads what it makes, so that the elements take turns")

    def _place(self, nest: Nest, loop: For, asked: list[Expr]) -> tuple[Expr, Expr]:
        """The equation, and what it says that the loop is."""
        for cond in asked:
            match cond:
                case Compare("eq", left, right):
                    for mine, other in ((left, right), (right, left)):
                        still = self.loop not in closure(nest, axes_of(other))
                        if still and dtype_of(other).is_integer and _is_axis(mine, loop):
                            return cond, other if dtype_of(other) == INT64 else Cast(other, INT64)
                case _:
                    pass
        raise self._refusal("TL-S303", f"no condition of {self.stage!r} is an equation of {short(self.loop)!r} and what it does not move")


def _is_axis(expr: Expr, loop: For) -> bool:
    """Is it the loop, or that in a type which holds all of its values?"""
    match expr:
        case Axis(name):
            return name == loop.loop
        case Cast(Axis(name), kind) if name == loop.loop and kind.is_integer:
            ends = loop.lo, loop.hi
            return all(isinstance(end, Const) and int(kind.lowest) <= end.value <= int(kind.highest) for end in ends)
        case _:
            return False


def _chosen(store: Store) -> tuple[Expr, ...]:
    """What is combined where a choice holds."""
    return tuple(value.yes if isinstance(value, Select) else value for value in store.values) if chosen_where(store) else store.values
