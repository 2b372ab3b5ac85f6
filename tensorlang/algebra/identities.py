"""Reductions that take nothing: `sum(select(c, x, 0))` adds x where c holds, and what changes nothing elsewhere."""

from __future__ import annotations

from tensorlang.algebra.bounds import conjuncts, negated
from tensorlang.ir import Expr, Select, Store


def chosen_where(store: Store) -> list[Expr]:
    """The conditions of a choice between what a statement combines and, on the other side, the identity, of all results alike."""
    first = store.values[0]
    if store.reducer is None or not isinstance(first, Select):
        return []
    for value, identity in zip(store.values, store.reducer.identities, strict=True):
        if not isinstance(value, Select) or value.cond != first.cond or value.no != identity:
            return []
    return conjuncts((first.cond,))


def takes_where(store: Store) -> list[Expr]:
    """Conditions without which a statement combines its one element with the identity, on whichever side of a choice that stands."""
    if store.reducer is None or len(store.values) != 1:
        return []
    match store.values[0]:
        case Select(cond, other, _) if other == store.reducer.identities[0] and not chosen_where(store):
            return conjuncts((negated(cond),))
        case _:
            return chosen_where(store)
