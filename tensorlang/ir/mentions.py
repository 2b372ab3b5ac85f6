"""What a statement mentions: its stages, loops and buffers, by name, found once for each statement.

Statements never change, so the answer is kept with them, and with a long block also what runs of its parts mention. A directive that asks
where a stage stands, or rewrites what reads a buffer, then passes by everything else without a look: a program of a thousand stages is
scheduled in time that grows with its length, not with its length for every one of its statements.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from operator import is_
from typing import Final, assert_never

from tensorlang.ir import Alloc, Block, Buffer, For, If, Load, Mentions, Prefetch, Stmt, Store, block
from tensorlang.ir.traverse import expressions, map_statements, nodes, substatements

DEEPEST: Final = 128
"""How many loops may stand in one another. Passes walk a nest as deep as it is, and their stack ends at some 150."""
RUN: Final = 32
"""Parts of a block that are passed by together: most directives make a new block, so that finding in it must cost little to prepare."""


def mentions(stmt: Stmt) -> Mentions:
    """The names within a statement."""
    found = stmt.mentions
    if found is None:
        found = _found(stmt)
        object.__setattr__(stmt, "mentions", found)
    return found


def _found(stmt: Stmt) -> Mentions:
    nothing: frozenset[str] = frozenset()
    match stmt:
        case Store():
            written = (buffer.name for buffer in stmt.buffers)
            return Mentions(frozenset((stmt.stage,)), nothing, frozenset((stmt.stage, *written, *read_by(stmt))))
        case Prefetch():
            return Mentions(nothing, nothing, frozenset((stmt.buffer.name, *read_by(stmt))))
        case For():
            inner, followed = mentions(stmt.body), () if stmt.follows is None else (stmt.follows,)
            names = inner.names.union((stmt.loop, *followed, *read_by(stmt)))
            return Mentions(inner.stages, inner.allocated, names, depth=inner.depth + 1)
        case Alloc():
            inner, own = mentions(stmt.body), [buffer.name for buffer in stmt.buffers]
            return Mentions(inner.stages, inner.allocated.union(own), inner.names.union(own), depth=inner.depth)
        case Block() | If():
            parts = [mentions(part) for part in substatements(stmt)]
            runs = [nothing.union(*[part.names for part in parts[first : first + RUN]]) for first in range(0, len(parts), RUN)]
            return Mentions(
                nothing.union(*[part.stages for part in parts]),
                nothing.union(*[part.allocated for part in parts if part.allocated]),
                nothing.union(read_by(stmt), *runs),
                tuple(runs) if len(runs) > 1 else (),
                max((part.depth for part in parts), default=0),
            )
        case _:
            assert_never(stmt)


def read_by(stmt: Stmt) -> set[str]:
    """The names of what the expressions of a statement itself read, its parts aside."""
    return {getattr(node.buffer, "name", "") for node in nodes(*expressions(stmt)) if isinstance(node, Load)}


def among(stmt: Stmt, names: Collection[str]) -> Iterator[Stmt]:
    """The statements within `stmt` that mention any of some names, outermost first, in program order."""
    if mentions(stmt).names.isdisjoint(names):
        return
    stack = [stmt]
    while stack:
        part = stack.pop()
        yield part
        stack.extend(reversed(parts_among(part, names)))


def map_among(stmt: Stmt, names: Collection[str], fn: Callable[[Stmt], Stmt]) -> Stmt:
    """The same statement over `fn` of each direct part that mentions any of some names; itself where nothing changed."""
    if not isinstance(stmt, Block):
        return map_statements(stmt, lambda part: part if mentions(part).names.isdisjoint(names) else fn(part))
    body = list(stmt.body)
    for position in positions(stmt, names):
        body[position] = fn(body[position])
    return stmt if all(map(is_, body, stmt.body)) else block(*body)


def parts_among(stmt: Stmt, names: Collection[str]) -> list[Stmt]:
    """The direct parts of a statement that mention any of some names, in order."""
    parts = substatements(stmt)
    if len(parts) <= RUN:
        return [part for part in parts if not mentions(part).names.isdisjoint(names)]
    return [parts[position] for position in positions(stmt, names)]


def positions(stmt: Stmt, names: Collection[str]) -> list[int]:
    """The positions of those parts."""
    parts, runs = substatements(stmt), mentions(stmt).runs
    near = [range(first * RUN, min(len(parts), (first + 1) * RUN)) for first, held in enumerate(runs) if not held.isdisjoint(names)]
    looked = itertools.chain.from_iterable(near) if runs else range(len(parts))
    return [place for place in looked if not mentions(parts[place]).names.isdisjoint(names)]


def allocations(stmt: Stmt) -> Iterator[Buffer]:
    """Every buffer that is allocated within a statement, in program order."""
    stack = [stmt]
    while stack:
        part = stack.pop()
        if isinstance(part, Alloc):
            yield from part.buffers
        stack.extend(inner for inner in reversed(substatements(part)) if mentions(inner).allocated)
