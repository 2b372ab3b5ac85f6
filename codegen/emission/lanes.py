"""Lanes of vectors: parts of them that registers hold, some of them, all in opposite order, and what LLVM must not see through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from llvmlite import ir as llvm

from tensorlang.codegen.emission.types import I32, Builder, Poison, Value, element_of, is_beyond, known, lanes_of
from tensorlang.codegen.target import Target

WIDE: Final = 512
"""Bits of the registers of which LLVM halves what it does not need whole."""


def pieces(count: int, shortest: int = 1) -> Iterator[tuple[int, int]]:
    """Starts and sizes of parts of so many lanes that are powers of two, none below `shortest` where there are as many lanes.

    The last may overlap the one before for that. What is no power of two LLVM takes apart itself, but not always into what it can select:
    shuffles of 12 lanes end the process.
    """
    start = 0
    while start < count:
        size = max(1 << ((count - start).bit_length() - 1), min(shortest, 1 << (count.bit_length() - 1)))
        start = min(start, count - size)
        yield start, size
        start += size


def picked(builder: Builder, left: Value, right: Value, places: Iterable[int]) -> Value:
    """Some lanes of two vectors, counted through both."""
    wanted = list(places)
    return builder.shuffle_vector(left, right, llvm.Constant(llvm.VectorType(I32, len(wanted)), wanted))


def resized(builder: Builder, value: Value, rest: Value, lanes: int) -> Value:
    """A vector of so many lanes: the first ones of `value`, and where it has no more, lanes of `rest`."""
    own = value.type.count
    return value if own == lanes else picked(builder, value, rest, [min(lane, own) for lane in range(lanes)])


def joined(builder: Builder, parts: Sequence[Value], lanes: int) -> Value:
    """The first so many lanes of vectors of one size, one after the other; on the way all have as many lanes as a power of two of these."""
    parts = [*parts, *[Poison(parts[0].type)] * ((1 << (len(parts) - 1).bit_length()) - len(parts))]
    while len(parts) > 1:
        parts = [picked(builder, one, other, range(2 * lanes_of(one))) for one, other in zip(parts[::2], parts[1::2], strict=True)]
    return resized(builder, parts[0], Poison(parts[0].type), lanes)


def leading(mask: Value | None, lanes: int) -> int:
    """How many of so many lanes are on, where that is known and they are the first ones; else 0. Without a mask all are."""
    on = (1,) * lanes if mask is None else known(mask)
    count = sum(map(bool, on)) if isinstance(on, tuple) else 0
    return count if isinstance(on, tuple) and all(on[:count]) else 0


def reverse(builder: Builder, value: Value) -> Value:
    """The lanes in opposite order."""
    count = value.type.count
    order = llvm.Constant(llvm.VectorType(I32, count), list(reversed(range(count))))
    return builder.shuffle_vector(value, Poison(value.type), order)


def transposed(builder: Builder, rows: list[Value]) -> list[Value]:
    """A matrix of 2^n rows, flattened along its columns."""
    half, lanes = len(rows) // 2, lanes_of(rows[0])
    low = [lane // 2 + lanes * (lane % 2) for lane in range(lanes)]
    high = [lane + lanes // 2 for lane in low]
    step = 1
    while step < len(rows):
        rows = [picked(builder, rows[i], rows[i + half], places) for i in range(half) for places in (low, high)]
        step *= 2
    return rows


def pinned(builder: Builder, target: Target, value: Value) -> Value:
    """The vector, in a register of its own where LLVM 22 mistakes a masked access for a whole one.

    It folds a masked load of integers into instructions such as `vpmaddwd`, which read lanes that are off and fault there; and where a
    masked store of integers that were narrowed has a single lane, it stores the wide one. An empty piece of assembly keeps the access
    apart; it takes whole registers, so a shorter vector is padded for it.
    """
    if not (target.has_masks and isinstance(value.type.element, llvm.IntType)):
        return value
    lanes, bits = lanes_of(value), element_of(value).width
    if lanes * bits > target.vector_bits:
        return value  # 64-bit elements beside narrower ones: no such instruction takes them
    whole = next(size // bits for size in (128, 256, target.vector_bits) if size // bits >= lanes)
    places = llvm.Constant(llvm.VectorType(I32, whole), [lane if lane < lanes else 0 for lane in range(whole)])
    wide = builder.shuffle_vector(value, Poison(value.type), places) if whole > lanes else value
    kept = builder.asm(llvm.FunctionType(wide.type, [wide.type]), "", "=v,0", [wide], side_effect=False)
    if whole == lanes:
        return kept
    first = llvm.Constant(llvm.VectorType(I32, lanes), list(range(lanes)))
    return builder.shuffle_vector(kept, Poison(kept.type), first)


def product_of_wide(builder: Builder, target: Target, a: Value, b: Value) -> Value:
    """A product of integers of 64 bits, of which LLVM knows neither that some lanes are not wanted nor that some are 0.

    Where it finds that half of a register of 512 bits is enough, and that the factors are 32 bits wide, LLVM 22 widens half of a register,
    which no instruction does, and ends the process. So each register of products goes through an empty piece of assembly, and a factor that
    is put together from lanes as well.
    """
    may_be_halved = target.has_masks and target.vector_bits == WIDE and lanes_of(a) > WIDE // 64 // 2
    if not may_be_halved or any(is_beyond(side, 32) for side in (a, b)):
        return builder.mul(a, b)
    a, b = (_in_registers(builder, target, side) if _is_put_together(side) else side for side in (a, b))
    return _in_registers(builder, target, builder.mul(a, b))


def _is_put_together(factor: Value) -> bool:
    while isinstance(factor, llvm.CastInstr):
        (factor,) = factor.operands
    if isinstance(factor, llvm.ShuffleVector):
        places = known(factor.operands[2])
        return isinstance(places, tuple) and len(set(places)) > 1  # not one scalar in every lane
    return isinstance(factor, llvm.SelectInstr)


def _in_registers(builder: Builder, target: Target, value: Value) -> Value:
    """A vector that is `pinned`, register by register."""
    lanes, most = lanes_of(value), target.vector_bits // element_of(value).width
    if lanes <= most:
        return pinned(builder, target, value)
    found = Poison(value.type)
    for start in range(0, lanes, most):
        own = range(start, min(start + most, lanes))
        part = pinned(builder, target, picked(builder, value, Poison(value.type), own))
        spread = picked(builder, part, Poison(part.type), [min(max(lane - start, 0), len(own) - 1) for lane in range(lanes)])
        found = picked(builder, found, spread, [lanes + lane if lane in own else lane for lane in range(lanes)])
    return found
