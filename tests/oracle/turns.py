"""Stores that lanes make one after the other: what combines in any order, and plain ones in the order of the lanes."""

from __future__ import annotations

from collections.abc import Iterator

from tensorlang.ir import For, Stmt, Store
from tensorlang.ir.traverse import reads_data, substatements


def told(store: Store) -> bool:
    """Do data tell which element it is?"""
    return any(map(reads_data, store.index))


def in_turn(stmt: Stmt) -> Iterator[int]:
    """The plain stores of the body of a vector loop, by identity, that lanes make in the order of the iterations."""
    if isinstance(stmt, Store):
        if told(stmt) and stmt.reducer is None:
            yield id(stmt)
    elif not isinstance(stmt, For):
        for part in substatements(stmt):
            yield from in_turn(part)


def turn_of(store: Store, turning: set[int]) -> str:
    """What stores have in common that may touch an element together: the reducer, or that they are the same one in turn."""
    if store.reducer is not None:
        return store.reducer.name
    return f"turns {id(store)}" if id(store) in turning else ""
