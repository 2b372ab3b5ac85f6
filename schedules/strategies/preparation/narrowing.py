"""Stages in as few bits as hold their integers: a definition that says `int32` of bytes need not take twice the vectors.

It comes before all else that looks at a stage, since lanes, panels and footprints follow the types. A stage is worth it that is left with
nothing of the bits that it had, or that is stored in fewer: a part of it alone, as a comparison, would be widened again for the rest.
"""

from __future__ import annotations

from collections.abc import Collection

from tensorlang.ir import Nest, Store
from tensorlang.ir.traverse import dtype_of, nodes, reads_data
from tensorlang.schedules.directives.narrow import Narrow
from tensorlang.schedules.rewriting.edit import stores, stores_of
from tensorlang.schedules.rewriting.narrowing import is_wide
from tensorlang.schedules.schedule import Schedule


def narrow_integers(s: Schedule, among: Collection[str] | None = None) -> None:
    """Append the directives, one for each stage that is worth it, of all or `among` some."""
    found = (store.stage for store in stores(s.nest.body) if (among is None or store.stage in among) and _may_be_narrowed(store))
    for stage in dict.fromkeys(found):
        before = _bits(s.nest, stage)
        if s.attempt(Narrow(stage)) and not any(now < was for now, was in zip(_bits(s.nest, stage), before, strict=True)):
            s.undo()


def _may_be_narrowed(store: Store) -> bool:
    return store.reducer is None and any(is_wide(node) for value in store.values for node in nodes(value))


def _bits(nest: Nest, stage: str) -> tuple[int, int]:
    """The most bits of what a stage computes of data, its tensors included, and those of its tensors."""
    own = list(stores_of(nest.body, (stage,)))
    stored = max(buffer.dtype.bits for store in own for buffer in store.buffers)
    read = [node for store in own for value in store.values for node in nodes(value) if reads_data(node)]
    return max([stored, *(dtype_of(node).bits for node in read)]), stored
