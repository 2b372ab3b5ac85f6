"""Ways in which directives and definitions may be weakened, for `mutants` to inject; `weaken` has those of code generation."""

from __future__ import annotations

import dataclasses
from typing import Any

from tensorlang import ir
from tensorlang.algebra.rules import TRUE
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Binary, Block, Const, Expr, For, Stmt, Store

from .weaken import in_nest


def outer_tiles_floored(old: Any, self: Any, nest: Any) -> Any:
    made, (outer, _) = old(self, nest), self.made()
    relation = next(part for part in made.relations if isinstance(part, ir.SplitRelation) and part.outer == outer)
    extent = simplify(Binary("sub", relation.hi, relation.lo))

    def cut(part: Stmt) -> Stmt:
        if isinstance(part, For) and part.loop == outer:
            return dataclasses.replace(part, hi=simplify(Binary("floordiv", extent, ir.const(self.factor))))
        return part

    return in_nest(cut)(made)


def fused_too_short(old: Any, self: Any, nest: Any) -> Any:
    (name,) = self.made()

    def cut(part: Stmt) -> Stmt:
        if isinstance(part, For) and part.loop == name:
            return dataclasses.replace(part, hi=simplify(Binary("sub", part.hi, ir.const(1))))
        return part

    return in_nest(cut)(old(self, nest))


def span_short(span: Any) -> Any:
    extent = span.extent
    return (
        dataclasses.replace(span, extent=ir.const(int(extent.value) - 1)) if isinstance(extent, Const) and int(extent.value) > 1 else span
    )


def span_late(span: Any) -> Any:
    return span if isinstance(span.base, Const) else dataclasses.replace(span, base=simplify(Binary("add", span.base, ir.const(1))))


def window_too_far(old: Any, loop: For, rows: int) -> Any:
    return old(loop, rows + 1)


def window_never_whole(kept: Any) -> Any:
    return kept.yes


def expansion_short(old: Any, nest: ir.Nest, buffer: ir.Buffer, extent: Any) -> Any:
    return old(nest, buffer, None if extent is None else simplify(Binary("max", ir.const(1), Binary("sub", extent, ir.const(1)))))


def axes_swapped(old: Any, expr: Expr, values: dict[str, Expr]) -> Any:
    return old(expr, dict(zip(values, reversed(list(values.values())), strict=True)))


def never_first(found: Any) -> Any:
    return Const(value=False, dtype=TRUE.dtype), found[1]


def always_first(found: Any) -> Any:
    return TRUE, found[1]


def store_back_lost(part: Stmt) -> Stmt:
    return Block(()) if isinstance(part, Store) and part.stage.endswith("_acc.store") else part


def partials_not_cleared(part: Stmt) -> Stmt:
    return Block(()) if isinstance(part, Store) and part.stage.endswith("_rf.init") else part


def last_not_run(part: Stmt) -> Stmt:
    return Block(()) if isinstance(part, For) and part.loop.endswith("_last") else part


def writes_only(old: Any, found: Any) -> Any:
    return ((first, second) for first, second in old(found) if first.writes and second.writes)


def reads_after_only(old: Any, found: Any) -> Any:
    return ((first, second) for first, second in old(found) if first.writes)


def reducers_alike(old: Any, *args: Any, **named: Any) -> Any:
    named["reductions"] = True
    return old(*args, **named)


def applied_anyway(old: Any, self: Any, refusal: Any, directive: Any, **named: Any) -> Any:
    if directive is not None:
        self._directives.append(directive)
        self._nests.append(self._nests[-1])
    return old(self, refusal, directive, **named)


def last_step_lost(old: Any, directives: Any, definition: Any) -> Any:
    return old(directives[:-1], definition)


def tail_lost(old: Any, directive: Any) -> Any:
    return {name: value for name, value in old(directive).items() if name != "tail"}


# Definitions ----------------------------------------------------------------------------------------------------------------------------


def where_lost(old: Any, self: Any, reduce: Any, *rest: Any) -> Any:
    return old(self, dataclasses.replace(reduce, where=None), *rest)


def starts_at_zero(old: Any, self: Any, stage: Any, reduce: Any, *rest: Any) -> Any:
    zeros = tuple(
        Const(0.0 if part.dtype.is_floating else False if part.dtype == "bool" else 0, part.dtype) for part in reduce.reducer.identities
    )
    return old(self, stage, dataclasses.replace(reduce, reducer=dataclasses.replace(reduce.reducer, identities=zeros)), *rest)


def init_lost(part: Stmt) -> Stmt:
    return Block(()) if isinstance(part, Store) and part.stage.endswith(".init") else part


def simplified_wrongly(old: Any, expr: Expr) -> Any:
    found = old(expr)
    return (
        found.left
        if isinstance(found, Binary) and found.op == "mod" and isinstance(found.right, Const) and int(found.right.value) == 3
        else found
    )
