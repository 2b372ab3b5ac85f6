"""Storage that reaches as far as two stages that are to stand in one block.

    T: float32[8]                                   T: float32[8]
        T[...] = ...                                    T[...] = ...
        Y[...] = f(T[...])                  ->          Y[...] = f(T[...])
    U[...] = ...                                        U[...] = ...

A stage that was computed before its reader has storage around the two of them alone.
"""

from __future__ import annotations

from collections.abc import Collection

from tensorlang.ir import Alloc, Block, Stmt, allocate, block
from tensorlang.ir.traverse import map_statements
from tensorlang.schedules.rewriting.edit import stores


def in_one_block(stmt: Stmt, stages: Collection[str]) -> Stmt:
    """The statement with all of some stages in one block, as far as storage alone keeps them apart; itself where it does not."""
    if not isinstance(stmt, Block):
        return map_statements(stmt, lambda part: in_one_block(part, stages) if _holds(part, stages) else part)
    holding = [part for part in stmt.body if _holds(part, stages)]
    if len(holding) == 1:
        return map_statements(stmt, lambda part: in_one_block(part, stages) if part is holding[0] else part)
    kept = [part for part in holding if isinstance(part, Alloc)]
    if not kept:
        return stmt
    whole = block(*(part.body if any(part is one for one in kept) and isinstance(part, Alloc) else part for part in stmt.body))
    return allocate((buffer for part in kept for buffer in part.buffers), in_one_block(whole, stages))


def _holds(stmt: Stmt, stages: Collection[str]) -> bool:
    return any(store.stage in stages for store in stores(stmt))
