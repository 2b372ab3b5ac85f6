"""Copies of reductions that are reductions themselves: a tile that is loaded, combined into and stored back.

    C_acc: float32[]                        what an iteration does to C[i] is combining a value into it;
    C_acc[] = C[i]                          two such iterations may change places, as two combining stores may
    C_acc[] += A[i, k]
    C[i] = C_acc[]

Where the tile starts from the identity in some iterations (`C_acc[] = 0 where k == 0, else C[i]`), these have to stay the first ones:
they write the element whatever it was. Only whole iterations change places this way; they may not run at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tensorlang.algebra.rules import FALSE
from tensorlang.ir import Expr, If, Load, Stmt, Store
from tensorlang.ir.traverse import expressions, loads_of, statements
from tensorlang.schedules.rewriting.edit import allocated_names, stores


@dataclass(frozen=True, slots=True)
class Fold:
    """A load or store of a tile that combines under `reducer`, but in iterations where `fresh` holds overwrites."""

    reducer: str
    fresh: Expr


def folds(stmt: Stmt) -> dict[int, Fold]:
    """The loads and stores of tiles that live within a statement and only combine, by the identity of their stores."""
    every = list(stores(stmt))
    ends = [store for store in every if store.stage.endswith(".store") and store.reducer is None]
    found: dict[int, Fold] = {}
    if not ends:
        return found
    own, grew = allocated_names(stmt), True
    while grew:  # a tile of a tile is found after it
        before = len(found)
        for end in ends:
            if id(end) not in found:
                found.update(_fold(stmt, every, end, own, found))
        grew = len(found) > before
    return found


def _fold(stmt: Stmt, every: Iterable[Store], end: Store, own: frozenset[str], known: dict[int, Fold]) -> dict[int, Fold]:
    """The load and the store of one tile, given how its last store looks; {} where it is none."""
    local = tuple(value.buffer for value in end.values if isinstance(value, Load))
    names = {getattr(buffer, "name", "") for buffer in local}
    if len(local) != len(end.values) or not names <= own:
        return {}
    starts: list[Store] = []
    loads: list[Store] = []
    reducers: set[str] = set()
    for store in every:
        reading = any(getattr(load.buffer, "name", "") in names for expr in expressions(store) for load in loads_of(expr))
        writing = any(buffer.name in names for buffer in store.buffers)
        fold = known.get(id(store))
        if store is end or (fold is not None and (reading or writing)):
            reducers |= set() if fold is None else {fold.reducer}
            if fold is not None and fold.fresh != FALSE:
                return {}
        elif reading or (writing and store.buffers != local):
            return {}
        elif writing and store.reducer is not None:
            reducers.add(store.reducer.name)
        elif writing:
            taken = tuple(value.buffer for value in store.values if isinstance(value, Load))
            (loads if taken == end.buffers and len(taken) == len(store.values) else starts).append(store)
    if len(loads) != 1 or len(reducers) != 1 or len(starts) > 1:
        return {}
    fresh = FALSE if not starts else _choice(stmt, starts[0], loads[0])
    if fresh is None:
        return {}
    fold = Fold(reducers.pop(), fresh)
    return {id(loads[0]): fold, id(end): fold}


def _choice(stmt: Stmt, start: Store, load: Store) -> Expr | None:
    """The condition that chooses between the identity and what is there."""
    for part in statements(stmt):
        match part:
            case If(cond, then, orelse) if orelse is not None and [*stores(then)] == [start] and [*stores(orelse)] == [load]:
                return cond
    return None
