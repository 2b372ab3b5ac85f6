"""What hints in the body of a loop ask for ahead: lines of these buffers come before they are read, soon or in the next turn around.

for i: (for j: m = max(m, x[i, j])); for j: (prefetch x[i + 1, j]; e[j] = exp(x[i, j] - m))     # rows come while `exp` is computed
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from tensorlang.ir import Block, Expr, For, Prefetch, Stmt
from tensorlang.schedules.model.walks import LinearAccess

NEARLY: Final = 0.99
"""The share of what a loop reads in all its turns, from which on hints ask for what it does not read before the next turn around it."""


class Hint(NamedTuple):
    """A hint of a loop of so many `trips`: the literals of the index that it asks for."""

    offsets: tuple[int, ...]
    loop: str
    trips: float


def asked_for(read: LinearAccess, hints: Mapping[str, Hint]) -> LinearAccess:
    """A read as hints ask for it; early, where what they ask for is read in a later turn of the loops around only."""
    hint = hints.get(read.buffer.name)
    if hint is None:
        return read
    ahead = sum((own - tap) * stride for own, tap, stride in zip(hint.offsets, read.taps[0], read.strides, strict=True))
    return read._replace(asked=True, early=ahead >= NEARLY * read.bytes_of(hint.loop) * hint.trips > 0)


def hinted(body: Stmt, loop: str, trips: float, literal: Callable[[Expr], int]) -> dict[str, Hint]:
    """The hints in the body of a loop, alone or in loops of their own, by buffer; `literal` is that of an index."""
    return {hint.buffer.name: Hint(tuple(map(literal, hint.index)), loop, trips) for hint in _hints(body)}


def _hints(body: Stmt) -> Iterator[Prefetch]:
    match body:
        case Block(parts):
            for part in parts:
                yield from _hints(part)
        case For() if _only_asks(body):
            yield from _hints(body.body)
        case Prefetch():
            yield body
        case _:
            return


def _only_asks(stmt: Stmt) -> bool:
    match stmt:
        case Block(parts):
            return all(map(_only_asks, parts))
        case For(body=body):
            return _only_asks(body)
        case _:
            return isinstance(stmt, Prefetch)
