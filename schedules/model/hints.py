"""What each iteration of a loop asks for ahead, by the hints in its body: lines of these buffers come before they are read."""

from __future__ import annotations

from collections.abc import Iterator

from tensorlang.ir import Block, For, Prefetch, Stmt


def hinted(body: Stmt) -> Iterator[str]:
    """The names of the buffers that hints in a body, alone or in loops of their own, ask for."""
    match body:
        case Block(parts):
            for part in parts:
                yield from hinted(part)
        case For() if _only_asks(body):
            yield from hinted(body.body)
        case Prefetch(buffer):
            yield buffer.name
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
