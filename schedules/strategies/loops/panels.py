"""Panels of an operand that was packed beforehand, asked for while the one before is computed with.

    for j_o in range(16):                           for j_o in range(16):
        for i_o in range(9):                            for i_o in range(9):
            for k in range(512):        ->                  for k in range(512):
                ... B_packed[j_o, k, 0:48]                      prefetch B_packed[j_o + 1, 0, 6 * (512 * i_o + k)] to L2
                                                                ... B_packed[j_o, k, 0:48]

Weights come from memory or the last level in every call, since other layers and other calls use the caches in between. The hardware fetches
a panel when the first rows are multiplied with it, which wait, and nothing while the other rows are. So the steps of all rows ask for the
next panel, each for its part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Const, Expr, For, Nest, Prefetch, block
from tensorlang.ir.machine import LINE_BYTES
from tensorlang.ir.traverse import axes_of, substitute
from tensorlang.schedules.legality.accesses import Access, accesses
from tensorlang.schedules.model.walks import PAGE
from tensorlang.schedules.rewriting.edit import edit_loops, literal_extent
from tensorlang.schedules.rewriting.region import expand

LEVEL: Final = 2
"""The cache that keeps a panel while all rows are multiplied with it."""


def comes_from_afar(operand: int, cache: int) -> bool:
    """Is an operand of so many bytes gone from a cache when it is read again, for what else is in use in between?"""
    return 4 * operand > cache


def is_kept_twice(panel: int, cache: int) -> bool:
    """Does a cache keep two panels of so many bytes, beside as much of the other operand and of the result?"""
    return 4 * panel <= cache


def panels_ahead(nest: Nest, tensor: str, cache: int) -> Nest:
    """The nest with the panels of an input asked for ahead, where a `cache` of so many bytes keeps two of them, and not all."""
    access = next((access for access in accesses(nest.body) if access.buffer.name == tensor), None)
    if access is None:
        return nest
    index = [expand(nest, part, [loop.loop for loop in access.loops]) for part in access.index]
    loops = [loop for loop in access.loops if loop.kind in ("serial", "parallel") and literal_extent(loop) != 1]
    moving = [any(loop.loop in axes_of(part) for part in index) for loop in loops]
    buffer, sizes = access.buffer, [literal_extent(loop) or 0 for loop in loops]
    whole = prod(int(extent.value) if isinstance(extent, Const) else 0 for extent in buffer.shape)
    if not whole or not all(sizes) or not loops or not moving[-1] or loops[-1].kind != "serial":
        return nest
    for place in reversed(range(len(loops) - 1)):
        panel = whole // prod(size for size, moves in zip(sizes[: place + 1], moving, strict=False) if moves)
        # the hardware fetches the lines of a page ahead by itself
        if moving[place] and not all(moving[place:]) and panel * buffer.dtype.bytes >= PAGE:
            break
    else:
        return nest
    if not comes_from_afar(whole * buffer.dtype.bytes, cache) or not is_kept_twice(panel * buffer.dtype.bytes, cache):
        return nest
    steps = loops[place + 1 :]
    hints = _hints(access, index, loops[place], steps, -(-panel // prod(sizes[place + 1 :])))
    body = edit_loops(nest.body, lambda part: part.loop == steps[-1].loop, lambda part: replace(part, body=block(*hints, part.body)))
    return replace(nest, body=body)


def _hints(access: Access, index: Sequence[Expr], panel: For, steps: Sequence[For], each: int) -> list[Prefetch]:
    """What a step asks for: `each` elements of the next panel, as if they all lay side by side, as in memory they do."""
    inside = access.loops[access.loops.index(panel) + 1 :]
    begin: dict[str, Expr] = {loop.loop: loop.lo for loop in inside}
    begin[panel.loop] = Binary("add", Axis(panel.loop), ir.const(1))
    number: Expr = ir.const(0)
    for loop in steps:
        size = ir.const(literal_extent(loop) or 0)
        number = Binary("add", Binary("mul", number, size), Binary("sub", Axis(loop.loop), loop.lo))
    first = [substitute(part, begin) for part in index]
    line = LINE_BYTES // access.buffer.dtype.bytes
    places = (Binary("add", Binary("mul", number, ir.const(each)), ir.const(line * ask)) for ask in range(max(1, -(-each // line))))
    return [Prefetch(access.buffer, (*map(simplify, first[:-1]), simplify(Binary("add", first[-1], place))), LEVEL) for place in places]
