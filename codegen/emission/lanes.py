"""Lanes of vectors: parts of them that registers hold, some of them, all of them in opposite order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llvmlite import ir as llvm

from tensorlang.codegen.emission.types import I32, Builder, Poison, Value


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


def reverse(builder: Builder, value: Value) -> Value:
    """The lanes in opposite order."""
    count = value.type.count
    order = llvm.Constant(llvm.VectorType(I32, count), list(reversed(range(count))))
    return builder.shuffle_vector(value, Poison(value.type), order)
