"""`reuse`: what another stage has computed already is read, and not computed once more.

    for i in range(4):                          for i in range(4):
        S[i] = exp(A[i])                            S[i] = exp(A[i])
    for i in range(4):                  ->      for i in range(4):
        T[i] = exp(A[i])                            Y[i] = S[i] * (1 - S[i])
    for i in range(4):
        Y[i] = S[i] * (1 - T[i])

Who writes a part of an expression as a Python function, and calls it twice, has each sum in it twice.

Legal where the stage is an intermediate, both stand in loops of their own alone, which no directive has changed, and say the same but for
the names of loops; and where the other one is before it, and nothing after that writes what it reads or makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tensorlang.ir import Alloc, Block, Buffer, Expr, Load, Nest, Stmt, Store
from tensorlang.ir.traverse import map_expressions, map_statements, rewrite, statements
from tensorlang.schedules.directive import Directive, Refusal, StageName
from tensorlang.schedules.legality.accesses import touched
from tensorlang.schedules.rewriting.copies import over, pruned
from tensorlang.schedules.rewriting.edit import (
    allocated_names,
    loops,
    path_to_store,
    remove,
    require_stage,
    stores,
    stores_of,
    without_alloc,
)
from tensorlang.schedules.rewriting.reaching import in_one_block


@dataclass(frozen=True, slots=True)
class Reuse(Directive):
    """Read what `other` has computed in place of `stage`, which computes the same."""

    stage: StageName
    other: StageName

    def apply(self, nest: Nest) -> Nest:
        """The nest without the stage."""
        mine, theirs = self._parts(nest, self.stage), self._parts(nest, self.other)
        given = self._given(nest, mine, theirs)
        order = list(stores(nest.body))
        last = max(place for place, store in enumerate(order) if store.stage == self.other)
        first = min(place for place, store in enumerate(order) if store.stage in (self.stage, f"{self.stage}.init"))
        if last > first:
            raise self._refusal("TL-S301", f"{self.other!r} is computed after {self.stage!r}; reuse it the other way round")
        needed = frozenset().union(*map(touched, theirs))
        again = next((store.stage for store in order[last + 1 :] if needed & {buffer.name for buffer in store.buffers}), None)
        if again is not None:
            raise self._refusal("TL-S303", f"{again!r} writes what {self.other!r} has read or made, before {self.stage!r} would be read")
        return pruned(replace(nest, body=self._without(nest, given)))

    def _refusal(self, code: str, reason: str) -> Refusal:
        return Refusal(code, reason, stage=self.stage)

    def _parts(self, nest: Nest, stage: str) -> list[Stmt]:
        """The statements of a stage, which stand in no loops of others."""
        require_stage(nest, stage)
        found: dict[int, Stmt] = {}
        for store in stores_of(nest.body, (stage, f"{stage}.init")):
            whole = next(part for part in path_to_store(nest, store) if not isinstance(part, Alloc | Block))
            found[id(whole)] = whole
        strange = {store.stage for part in found.values() for store in stores(part)} - {stage, f"{stage}.init"}
        if strange:
            raise self._refusal("TL-S301", f"{stage!r} is computed in the loops of {min(strange)!r}; compute_root first")
        return list(found.values())

    def _given(self, nest: Nest, mine: list[Stmt], theirs: list[Stmt]) -> Mapping[str, Buffer]:
        """The buffers of the other stage by those of the stage. Raises `Refusal` where the two do not compute the same."""
        own, other = ([store for part in parts for store in stores(part)][-1].buffers for parts in (mine, theirs))
        if self.stage == self.other or not all(buffer.name in allocated_names(nest.body) for buffer in own):
            raise self._refusal("TL-S301", f"{self.stage!r} is {'itself' if self.stage == self.other else 'a result, which is computed'}")
        given = dict(zip((buffer.name for buffer in own), other, strict=False))
        alike = len(mine) == len(theirs) and [(buffer.shape, buffer.dtype) for buffer in own] == [(b.shape, b.dtype) for b in other]
        if not alike or not all(self._says(one, two, given) for one, two in zip(mine, theirs, strict=True)):
            raise self._refusal("TL-S304", f"{self.stage!r} and {self.other!r} do not compute the same in the same loops")
        return given

    def _says(self, one: Stmt, two: Stmt, given: Mapping[str, Buffer]) -> bool:
        """Does a statement say what another one does, but for the names of loops?"""
        names = [[loop.loop for loop in loops(part)] for part in (one, two)]
        if len(names[0]) != len(names[1]):
            return False
        return self._called(over(one, dict(zip(*names, strict=True))), given) == over(two, dict(zip(names[1], names[1], strict=True)))

    def _called(self, part: Stmt, given: Mapping[str, Buffer]) -> Stmt:
        """A statement of the stage with the names of the other one."""
        if isinstance(part, Store):
            named = f"{self.other}.init" if part.stage.endswith(".init") else self.other
            part = replace(part, stage=named, buffers=tuple(given.get(buffer.name, buffer) for buffer in part.buffers))
        return map_statements(map_expressions(part, lambda expr: _reading(expr, given)), lambda inner: self._called(inner, given))

    def _without(self, nest: Nest, given: Mapping[str, Buffer]) -> Stmt:
        """The statements of the nest without those of the stage, and with the storage of the other one where both are read."""
        body: Stmt | None = in_one_block(nest.body, [f"{stage}{part}" for stage in (self.stage, self.other) for part in ("", ".init")])
        for stage in (f"{self.stage}.init", self.stage):
            body = None if body is None else remove(body, lambda store, stage=stage: store.stage == stage, stage)  # type: ignore[misc]
        assert body is not None
        for name in given:
            storage = next(buffer for part in statements(body) if isinstance(part, Alloc) for buffer in part.buffers if buffer.name == name)
            body = without_alloc(body, storage)
        return map_expressions(body, lambda expr: _reading(expr, given))


def _reading(expr: Expr, given: Mapping[str, Buffer]) -> Expr:
    """An expression that reads the other stage."""

    def read(node: Expr) -> Expr:
        known = given.get(getattr(node.buffer, "name", "")) if isinstance(node, Load) else None
        return node if known is None or not isinstance(node, Load) else replace(node, buffer=known)

    return rewrite(expr, read)
