"""What a stage leaves behind when it moves: storage that it still reads, and loops that still follow its own.

    A_cache: float32[8]                             A_cache: float32[8]
    ... A_cache = A                                 ... A_cache = A
    for i in range(8):                              for i in range(8):
        h[i] = f(A_cache)               ->              h: float32[1]
    for i in range(8):                                  h[0] = f(A_cache)
        C[i] = h[i]                                     C[i] = h[0]

Storage that no loop separates from the new place is declared further out; the contents stay. Loops of other stages that followed
those of the moved one (the copies of a cached tile) go their own way: the ranges differ from now on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tensorlang.ir import Alloc, Block, Nest, Stmt, allocate
from tensorlang.ir.printer import short
from tensorlang.ir.traverse import map_statements
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.legality.accesses import accesses
from tensorlang.schedules.rewriting.edit import allocated_names, edit_loops, loops, path_to, path_to_loop, stores


def visible(nest: Nest, parts: Sequence[Stmt], stage: str, loop: str) -> Nest:
    """The nest in which everything that `parts` read is declared around `loop`. Raises `Refusal` where a loop lies between."""
    own = frozenset[str]().union(*map(allocated_names, parts))
    readers = {access.buffer.name: part for part in parts for access in accesses(part) if not access.writes}
    for name in sorted((readers.keys() - own) & allocated_names(nest.body)):
        path, target = _path_to_storage(nest, name, readers[name]), path_to_loop(nest, loop)
        home = path[-1]
        assert isinstance(home, Alloc)
        common = sum(1 for one, other in zip(path, target, strict=False) if one is other)
        if common == len(path):
            continue
        if not all(isinstance(part, (Alloc, Block)) for part in path[common:]):
            reason = f"{stage!r} reads {name!r}, which has no storage at {short(loop)!r}; move that first"
            raise Refusal("TL-S301", reason, stage=stage, loop=loop)
        nest = replace(nest, body=_widened(nest.body, home, name, path[common - 1]))
    return nest


def _path_to_storage(nest: Nest, name: str, reader: Stmt) -> tuple[Stmt, ...]:
    """The path to the storage of a name that is around what reads it: each version of a nest may have one of its own."""
    inside = next(stores(reader))
    path = path_to(nest.body, lambda part: part is inside)
    last = max(place for place, part in enumerate(path) if isinstance(part, Alloc) and any(buffer.name == name for buffer in part.buffers))
    return path[: last + 1]


def _widened(stmt: Stmt, home: Alloc, name: str, holder: Stmt) -> Stmt:
    """The statement with the storage of a name, which stands at `home`, declared around `holder`."""
    if stmt is home:
        return allocate((buffer for buffer in home.buffers if buffer.name != name), home.body)
    rest = map_statements(stmt, lambda part: _widened(part, home, name, holder))
    return allocate((buffer for buffer in home.buffers if buffer.name == name), rest) if stmt is holder else rest


def unfollowed(stmt: Stmt, parts: Iterable[Stmt]) -> Stmt:
    """`stmt` without loops that follow those of `parts`, which are gone from it or changed."""
    gone = {part.loop for stage in parts for part in loops(stage)}
    return edit_loops(stmt, lambda part: part.follows in gone, lambda part: replace(part, follows=None))
