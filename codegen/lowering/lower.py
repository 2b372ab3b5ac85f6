"""From a scheduled nest to a lowered one: the table of contents.

A lowered nest has no relations: every axis is a loop in scope, vector and unrolled loops have literal bounds, a vector loop stands
directly around a store and is no wider than a register, and its lanes store to different elements, or to those that data tell. `emit` takes
it from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tensorlang.codegen.lowering.passes.ascending import in_ascending_order
from tensorlang.codegen.lowering.passes.bounds import tighten
from tensorlang.codegen.lowering.passes.carried import carried
from tensorlang.codegen.lowering.passes.conversions import fitted, short_quotients
from tensorlang.codegen.lowering.passes.cuts import cut_where_tested
from tensorlang.codegen.lowering.passes.existing import existing
from tensorlang.codegen.lowering.passes.guarded import settled_by_guards
from tensorlang.codegen.lowering.passes.guards import hoist, scalar_rests
from tensorlang.codegen.lowering.passes.interiors import interiors
from tensorlang.codegen.lowering.passes.partial_vectors import vectors_counted
from tensorlang.codegen.lowering.passes.partials import vector_partials
from tensorlang.codegen.lowering.passes.quotients import decide_quotients
from tensorlang.codegen.lowering.passes.ranges import bound_by_data
from tensorlang.codegen.lowering.passes.remainders import rows_counted
from tensorlang.codegen.lowering.passes.rotations import rotated
from tensorlang.codegen.lowering.passes.short_indices import short_indices
from tensorlang.codegen.lowering.passes.storage import hoist_allocations, privatise
from tensorlang.codegen.lowering.passes.tails import realise
from tensorlang.codegen.lowering.passes.vacant import tested_first, without_idle
from tensorlang.codegen.lowering.passes.vectors import distribute, narrow
from tensorlang.codegen.target import Target
from tensorlang.ir import Expr, Nest, SplitRelation
from tensorlang.ir.traverse import map_expressions, shared
from tensorlang.schedules.legality.budget import MAX_EMITTED, MAX_INSTRUCTIONS, too_much

VERSIONS: Final = (
    frozenset({"hoist", "vectors_counted", "rows_counted", "interiors"}),
    frozenset({"hoist", "interiors"}),
    frozenset[str](),
)
"""Passes that make versions of a nest, which are faster and need not be: all, or fewer where what they make together is too much code."""


def lower(nest: Nest, target: Target, watch: Callable[[str, Nest], None] = lambda _name, _nest: None) -> Nest:
    """The nest ready for `emit`. `watch` is called with the name and the result of every pass."""
    made = _lowered(nest, target, watch, VERSIONS[0])
    for fewer in VERSIONS[1:]:
        if too_much(made, MAX_EMITTED, target.vector_bits) is None:
            break
        made = _lowered(nest, target, watch, fewer)
    return made


def _lowered(nest: Nest, target: Target, watch: Callable[[str, Nest], None], versions: frozenset[str]) -> Nest:
    """The nest after the passes, of those that make versions only some."""
    scalar = frozenset(relation.inner for relation in nest.relations if isinstance(relation, SplitRelation) and relation.tail == "guard")
    passes: tuple[tuple[str, Callable[[Nest], Nest]], ...] = (
        ("without_idle", lambda part: replace(part, body=without_idle(part.body))),
        ("realise", realise),
        ("bound_by_data", lambda part: replace(part, body=bound_by_data(part.body))),
        ("tighten", lambda part: replace(part, body=tighten(part.body))),
        ("privatise", lambda part: replace(part, body=privatise(part.body))),
        ("distribute", lambda part: replace(part, body=distribute(part.body))),
        ("vector_partials", vector_partials),
        ("hoist", lambda part: _versioned(part, target)),
        ("vectors_counted", lambda part: _within_limits(replace(part, body=vectors_counted(part.body, target.lanes)), part, target)),
        ("rows_counted", lambda part: _within_limits(replace(part, body=rows_counted(part.body)), part, target)),
        ("scalar_rests", lambda part: replace(part, body=scalar_rests(part.body, scalar))),
        ("cut_where_tested", lambda part: replace(part, body=cut_where_tested(part.body))),
        ("narrow", lambda part: replace(part, body=narrow(part.body, target.lanes))),
        ("quotients", lambda part: replace(part, body=decide_quotients(part.body))),
        ("guarded", settled_by_guards),
        ("in_ascending_order", in_ascending_order),
        ("interiors", lambda part: _within_limits(interiors(part, target.isa), part, target)),
        ("carried", lambda part: carried(part, target.lanes)),
        ("hoist_allocations", lambda part: replace(part, body=hoist_allocations(part.body))),
        ("rotated", lambda part: _within_limits(rotated(part), part, target)),
        ("tested_first", tested_first),
        ("existing", existing),
        ("short_indices", short_indices),
        ("fitted", fitted),
        ("short_quotients", short_quotients),
        ("share", _with_equal_nodes_shared),
    )
    for name, step in passes:
        if name in versions or name not in VERSIONS[0]:
            nest = step(nest)
            watch(name, nest)
    return nest


def _versioned(nest: Nest, target: Target) -> Nest:
    """The nest with whole tiles apart from partial ones, where that is not too much code."""
    return _within_limits(replace(nest, body=hoist(nest.body)), nest, target)


def _within_limits(versions: Nest, nest: Nest, target: Target) -> Nest:
    """The versions of a nest, where there are some and they are not too much code."""
    return versions if versions.body is nest.body or too_much(versions, MAX_INSTRUCTIONS, target.vector_bits) is None else nest


def _with_equal_nodes_shared(nest: Nest) -> Nest:
    """The nest whose equal expressions are one node: code is emitted once for each node of a statement."""
    table: dict[tuple[object, ...], Expr] = {}
    return replace(nest, body=map_expressions(nest.body, lambda expr: shared(expr, table)))
