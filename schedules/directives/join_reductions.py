"""`join_reductions`: two reductions over equal ranges become one, of several components.

    for i in range(4):                          for i in range(4):
        S[i] = 0                                    S[i], Q[i] = 0, 0
    for i in range(4):                          for i in range(4):
        for k in range(8):                          for k in range(8):
            S[i] += A[i, k]             ->              S[i], Q[i] = S[i] + A[i, k], Q[i] + A[i, k] * A[i, k]
    for i in range(4):
        Q[i] = 0
    for i in range(4):
        for k in range(8):
            Q[i] += A[i, k] * A[i, k]

What both read is read once, and what both compute of it is computed once. The joined reduction is the stage `second`, with its loops and
at its place; what stands between the two and reads the first is computed after it. Each component is combined as before, in the same order.
Storage reaches as far as both.

Legal where each reduction stands in loops of its own that no directive has changed, over equal ranges, and combines into elements that are
numbered alike, by the iterations of its outer loops or, of two scatters, by the same expressions; under no conditions (of `where=`, or of a
range that data decides) or the same ones; and where neither needs what the other computes, nor the second what stands between the two and
reads or writes what the first touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.errors import did_you_mean
from tensorlang.ir import Axis, Binary, Block, Expr, For, If, Nest, Param, Reducer, Stmt, Store, block
from tensorlang.ir.relations import in_scope
from tensorlang.ir.traverse import map_children, map_statements, statements
from tensorlang.schedules.directive import Directive, Refusal, StageName
from tensorlang.schedules.legality.accesses import read_of, touch
from tensorlang.schedules.rewriting.copies import over
from tensorlang.schedules.rewriting.edit import nested, stores
from tensorlang.schedules.rewriting.reaching import in_one_block


class _Part(NamedTuple):
    """A statement of a block that is one store in loops of its own, and under conditions: `around` it, outermost first."""

    whole: Stmt
    around: tuple[For | If, ...]
    store: Store

    @property
    def loops(self) -> tuple[For, ...]:
        """The loops."""
        return tuple(part for part in self.around if isinstance(part, For))


@dataclass(frozen=True, slots=True)
class JoinReductions(Directive):
    """Compute the reductions `first` and `second` in one pass over their ranges, where `second` is computed."""

    first: StageName
    second: StageName

    def apply(self, nest: Nest) -> Nest:
        """The nest with one reduction."""
        if self.first == self.second:
            raise self._refusal("TL-S005", f"{self.first!r} is one reduction; name two")
        names = (self.first, f"{self.first}.init", self.second, f"{self.second}.init")
        nest = replace(nest, body=in_one_block(nest.body, names))
        first, second = self._parts(nest, self.first), self._parts(nest, self.second)
        if len(first) != len(second):
            raise self._refusal("TL-S304", f"one of {self.first!r} and {self.second!r} begins with what there is, the other one does not")
        around = self._block(nest, (*first, *second))
        late = self._late(around, first, second)
        joined = {id(other.whole): self._joined(one, other) for one, other in zip(first, second, strict=True)}
        body = list[Stmt]()
        for part in around.body:
            if not any(part is gone for gone in (*(one.whole for one in first), *late)):
                body.append(joined.get(id(part), part))
            if part is second[-1].whole:
                body.extend(late)

        def rewrite(stmt: Stmt) -> Stmt:
            return block(*body) if stmt is around else map_statements(stmt, rewrite)

        return replace(nest, body=rewrite(nest.body))

    def _refusal(self, code: str, reason: str) -> Refusal:
        return Refusal(code, reason, stage=self.first)

    def _parts(self, nest: Nest, stage: str) -> tuple[_Part, ...]:
        """What starts a reduction and what combines, each in its loops; of a scatter, which combines with what there is, the latter."""
        every = list(stores(nest.body))
        names = list(dict.fromkeys(store.stage for store in every if store.reducer is not None))
        found = [store for store in every if store.stage == stage and store.reducer is not None]
        starts = [store for store in every if store.stage == f"{stage}.init"]
        if not found:
            raise self._refusal("TL-S003", f"no reduction {stage!r} is in this nest{did_you_mean(stage, names)}")
        scatters = not all(isinstance(part, Axis) for part in found[0].index)
        if len(found) != 1 or len(starts) != (not scatters) or any(start.buffers != found[0].buffers for start in starts):
            raise self._refusal("TL-S304", f"{stage!r} has no initialisation of its own, or several copies; join before other steps")
        return tuple(self._part(nest, store) for store in (*starts, *found))

    def _part(self, nest: Nest, store: Store) -> _Part:
        whole: Stmt = next(part for part in statements(nest.body) if _is_nest_of(part, store))
        around: list[For | If] = []
        inner = whole
        while isinstance(inner, For | If):
            around.append(inner)
            inner = inner.body if isinstance(inner, For) else inner.then
        part = _Part(whole, tuple(around), store)
        if any(loop.kind != "serial" for loop in part.loops) or in_scope(nest, [loop.loop for loop in part.loops]):
            raise self._refusal("TL-S107", f"loops of {store.stage!r} are split, fused or marked already; join before")
        return part

    def _block(self, nest: Nest, parts: Sequence[_Part]) -> Block:
        """The block in which all stand."""
        for stmt in statements(nest.body):
            if isinstance(stmt, Block) and all(any(part.whole is child for child in stmt.body) for part in parts):
                return stmt
        raise self._refusal("TL-S105", f"{self.first!r} and {self.second!r} do not stand side by side, each in loops of its own")

    def _joined(self, one: _Part, other: _Part) -> Stmt:
        """One store of both in the loops of the other."""
        if len(one.loops) != len(other.loops):
            raise self._refusal("TL-S104", f"{self.first!r} has {len(one.loops)} loops, {self.second!r} has {len(other.loops)}")
        names = {mine.loop: theirs.loop for mine, theirs in zip(one.loops, other.loops, strict=True)}
        renamed = over(one.whole, names)
        for theirs in other.around:
            if isinstance(renamed, For) and isinstance(theirs, For):
                for mine, bound in ((renamed.lo, theirs.lo), (renamed.hi, theirs.hi)):
                    if simplify(Binary("sub", mine, bound)) != ir.const(0):
                        raise self._refusal("TL-S104", f"{self.first!r} and {self.second!r} run over different ranges")
                renamed = renamed.body
            elif isinstance(renamed, If) and isinstance(theirs, If) and renamed.cond == theirs.cond:
                renamed = renamed.then
            else:
                raise self._different_conditions()
        if not isinstance(renamed, Store):
            raise self._different_conditions()
        store = other.store
        if renamed.index != store.index or renamed.buffers[0].shape != store.buffers[0].shape:
            raise self._refusal("TL-S304", f"{self.first!r} and {self.second!r} combine into elements that are numbered differently")
        both = replace(
            store,
            buffers=(*renamed.buffers, *store.buffers),
            values=(*renamed.values, *store.values),
            reducer=None if renamed.reducer is None or store.reducer is None else _combined(renamed.reducer, store.reducer),
        )
        return nested(other.around, both)

    def _different_conditions(self) -> Refusal:
        reason = f"{self.first!r} and {self.second!r} combine under different conditions; select the identity where one fails"
        return self._refusal("TL-S304", f"{reason}: tl.sum(tl.select(cond, x, 0), ...)")

    def _late(self, around: Block, first: Sequence[_Part], second: Sequence[_Part]) -> list[Stmt]:
        """What stands between and has to be computed after both. Raises `Refusal` where the second waits for it, or for the first."""
        body, parts = list(around.body), (*first, *second)
        places = [next(place for place, child in enumerate(body) if child is part.whole) for part in parts]
        if places != sorted(places):
            raise self._refusal("TL-S105", f"{self.first!r} is computed after {self.second!r}; name the earlier one first")
        one, other = first[-1], second[-1]
        own = {buffer.name for buffer in one.store.buffers}
        theirs = {buffer.name for buffer in other.store.buffers}
        operands = read_of(one.whole)
        if own & (read_of(other.whole) | theirs) or (own | theirs) & operands:
            raise self._refusal("TL-S301", f"{self.first!r} and {self.second!r} read what one of them computes")
        between = [(place, child) for place, child in enumerate(body) if places[0] < place <= places[-1]]
        late = list[Stmt]()
        for place, child in between:
            if any(child is part.whole for part in first) or not any(touch(earlier, child) for earlier in (one.whole, *late)):
                continue
            if place < places[len(first) - 1] or any(child is part.whole for part in second):
                reason = f"{self.second!r} waits for what stands between and reads or writes what {self.first!r} touches"
                raise self._refusal("TL-S301", reason)
            late.append(child)
        return late


def _is_nest_of(stmt: Stmt, store: Store) -> bool:
    """Is a statement a store in loops and under conditions, and in these alone?"""
    while isinstance(stmt, For) or (isinstance(stmt, If) and stmt.orelse is None):
        stmt = stmt.body if isinstance(stmt, For) else stmt.then
    return stmt is store


def _combined(one: Reducer, other: Reducer) -> Reducer:
    """The reducer of the components of both."""
    count = len(one.identities)

    def later(expr: Expr) -> Expr:
        if isinstance(expr, Param):
            return replace(expr, name=f"{expr.name[0]}{int(expr.name[1:]) + count}")
        return map_children(expr, later)

    results = (*one.results, *map(later, other.results))
    return Reducer(f"{one.name}_{other.name}", (*one.identities, *other.identities), results)
