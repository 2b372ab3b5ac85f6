"""From a scheduled nest to a lowered one: the table of contents.

A lowered nest has no relations: every axis is a loop in scope, vector and unrolled loops have literal bounds, storage inside vector
loops has a dimension for the lanes, and the stores of a vector loop go to different elements. `emit` takes it from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tensorlang.codegen.passes.guards import hoist, scalar_rests
from tensorlang.codegen.passes.partials import vector_partials
from tensorlang.codegen.passes.storage import hoist_allocations, privatise
from tensorlang.codegen.passes.tails import realise
from tensorlang.ir import Nest, Split


def lower(nest: Nest, watch: Callable[[str, Nest], None] = lambda _name, _nest: None) -> Nest:
    """The nest ready for `emit`. `watch` is called with the name and the result of every pass."""
    scalar = frozenset(relation.inner for relation in nest.relations if isinstance(relation, Split) and relation.tail == "guard")
    passes: tuple[tuple[str, Callable[[Nest], Nest]], ...] = (
        ("realise", realise),
        ("vector_partials", vector_partials),
        ("privatise", lambda part: replace(part, body=privatise(part.body))),
        ("hoist", lambda part: replace(part, body=hoist(part.body))),
        ("scalar_rests", lambda part: replace(part, body=scalar_rests(part.body, scalar))),
        ("hoist_allocations", lambda part: replace(part, body=hoist_allocations(part.body))),
    )
    for name, step in passes:
        nest = step(nest)
        watch(name, nest)
    return nest
