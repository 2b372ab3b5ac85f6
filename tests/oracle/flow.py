"""Which instance uses what another one wrote: isl lists the points of relations, and the latest writes are found among these."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

import islpy

Instance: TypeAlias = tuple[str, tuple[int, ...]]
Texts: TypeAlias = tuple[list[str], list[str], list[str], list[str], list[str]]
"""Relations as isl spells them: from instances to times, to what they read, to what they write for sure, perhaps, and hide."""

MAX_TEXT: Final = 20_000
"""Characters of relations: what data decide is listed, and isl takes long to read a long list, or runs out of operations in it."""
MAX_OPERATIONS: Final = 400_000
"""What isl may count to: some tenths of a second."""
MAY: Final = 1
KILL: Final = 2
"""Kinds of writes, after those that are sure: 0."""


class TooMuch(Exception):  # noqa: N818 - not an error: no answer
    """More than can be written down point by point, or worked out in time."""


def flow(texts: Texts) -> tuple[list[Instance], list[tuple[Instance, Instance]]]:
    """The instances that there are, and which of them uses what which other one wrote: the latest that is sure, and what may be after it.

    isl lists the points of each relation, and what is latest is found among these: the dataflow analysis of islpy 2026.2.2 loses sources of
    which another access with a remainder in its index writes some elements (`e = 2*v mod 8` beside `e = v`).
    """
    if sum(len(part) for parts in texts for part in parts) > MAX_TEXT:
        raise TooMuch
    context = islpy.Context()
    context.set_max_operations(MAX_OPERATIONS)
    points: list[list[Any]] = [[] for _ in texts]
    try:
        for found, parts in zip(points, texts, strict=True):
            islpy.UnionMap.read_from_str(context, f"{{ {'; '.join(parts)} }}").wrap().foreach_point(found.append)
    except islpy.Error as error:
        if "quota" not in str(error) and "operations" not in str(error) and not _is_isl(texts):
            raise
        raise TooMuch from error
    context.set_max_operations(0)  # the answer is there; to spell it takes operations, too
    times, reads, *writes = ([_pair(str(point)) for point in found] for found in points)
    time = {instance: at for instance, (_, at) in times}
    written: dict[Instance, list[tuple[tuple[int, ...], int, Instance]]] = {}
    for kind, pairs in enumerate(writes):
        for instance, element in pairs:
            written.setdefault(element, []).append((time[instance], kind, instance))
    for earlier in written.values():
        earlier.sort(reverse=True)
    return list(time), [(sink, source) for sink, element in reads for source in _sources(time[sink], written.get(element, []))]


def _sources(now: tuple[int, ...], latest: list[tuple[tuple[int, ...], int, Instance]]) -> Iterator[Instance]:
    """Who wrote what is read now: of those before, up to the first that is sure, or that hides what was there."""
    for then, kind, source in latest:
        if then < now:
            if kind != KILL:
                yield source
            if kind != MAY:
                return


def _is_isl(texts: Iterable[Iterable[str]]) -> bool:
    """Does isl read each part by itself? Where the operations that it may do end while it reads, it speaks of a syntax error."""
    try:
        for part in itertools.chain.from_iterable(texts):
            islpy.UnionMap.read_from_str(islpy.Context(), f"{{ {part} }}")
    except islpy.Error:
        return False
    return True


def _pair(point: str) -> tuple[Instance, Instance]:
    """`{ [s1[0, 2] -> s0[1]] }` as what it says."""
    one, other = point.strip("{} ")[1:-1].split(" -> ")
    return _instance(one), _instance(other)


def _instance(text: str) -> Instance:
    name, rest = text.split("[", 1)
    inside = rest.rstrip("]")
    return name, tuple(int(part) for part in inside.split(",")) if inside else ()
