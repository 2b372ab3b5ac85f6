"""Reductions that take nothing: `sum(select(c, x, 0))` adds x where c holds, and what changes nothing elsewhere."""

from __future__ import annotations

from tensorlang.algebra.bounds import conjuncts, negated
from tensorlang.ir import Expr, Select, Store


def takes_where(store: Store) -> list[Expr]:
    """Conditions without which a statement combines its element with the identity."""
    if store.reducer is None or len(store.values) != 1:
        return []
    match store.values[0]:
        case Select(cond, _, other) if other == store.reducer.identities[0]:
            return conjuncts((cond,))
        case Select(cond, other, _) if other == store.reducer.identities[0]:
            return conjuncts((negated(cond),))
        case _:
            return []
