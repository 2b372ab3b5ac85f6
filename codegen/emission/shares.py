"""Which thread runs which iterations of a parallel loop: each has a share, and helps the others when it has none left.

What a thread wrote in one loop it finds in its own caches in the next one if it has the same iterations there. So a share is a run of
iterations, taken chunk by chunk. Of a loop that begins and ends elsewhere each time, as a wave does, it is every so many-th block of them,
counted from 0: those that are there again next time are of the same threads. A share has a counter of what is taken of it, which whoever
takes the next chunk moves.
"""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir as llvm

from tensorlang.codegen.emission.types import I1, I32, I64, Builder, Value, literal
from tensorlang.ir.machine import LINE_BYTES

CHUNKS = 8
"""Chunks of a share, about."""
ALL = 62
"""The logarithm of a chunk that is the whole loop."""
MOST = 64
"""Shares of a loop; of more threads, several have one."""
COUNTER = llvm.ArrayType(I64, LINE_BYTES // 8)
"""A counter, with the rest of its line."""
COUNTERS = llvm.ArrayType(COUNTER, MOST)


class Chunk(NamedTuple):
    """The next iterations of a share, and whether there were none."""

    start: Value
    end: Value
    none: Value


class Shares(NamedTuple):
    """The iterations from `lo` up to `hi`, in `count` shares; a chunk is 2 ** `log_chunk` iterations. `counters` is their memory."""

    lo: Value
    hi: Value
    count: Value
    log_chunk: Value
    counters: Value

    @classmethod
    def begun(cls, builder: Builder, lo: Value, hi: Value, threads: Value, counters: Value) -> Shares:
        """Those of a loop of some iterations for so many threads, of which nothing is taken."""
        count = least(builder, threads, literal(I64, MOST))
        each = builder.udiv(builder.sub(hi, lo), builder.mul(threads, literal(I64, CHUNKS)))
        zeros = builder.ctlz(builder.or_(each, literal(I64, 1)), literal(I1, 0))
        alone = builder.icmp_signed("==", count, literal(I64, 1))
        _clear(builder, counters, count)
        return cls(lo, hi, count, builder.select(alone, literal(I64, ALL), builder.sub(literal(I64, 63), zeros)), counters)

    def taken(self, builder: Builder, share: Value, *, moves: bool) -> Chunk:
        """The next chunk of a share; of every so many-th block where the loop `moves`."""
        counter = _counter(builder, self.counters, share)
        before = builder.atomic_rmw("add", counter, literal(I64, 1), "monotonic")
        if moves:
            first = builder.ashr(self.lo, self.log_chunk)
            block = builder.add(first, _least_from(builder, builder.sub(share, first), self.count))
            block = builder.add(block, builder.mul(before, self.count))
            begin, end = builder.shl(block, self.log_chunk), self.hi
            start = builder.select(builder.icmp_signed(">", begin, self.lo), begin, self.lo)
        else:
            less = builder.udiv(builder.sub(builder.sub(self.hi, self.lo), literal(I64, 1)), self.count)
            each = builder.add(less, literal(I64, 1))
            own = builder.add(self.lo, builder.mul(share, each))
            end = least(builder, builder.add(own, each), self.hi)
            start = begin = builder.add(own, builder.shl(before, self.log_chunk))
        after = builder.add(begin, builder.shl(literal(I64, 1), self.log_chunk))
        return Chunk(start, least(builder, after, end), builder.icmp_signed(">=", start, end))

    def after(self, builder: Builder, share: Value) -> Value:
        """The share after another one, around."""
        following = builder.add(share, literal(I64, 1))
        return builder.select(builder.icmp_signed("<", following, self.count), following, literal(I64, 0))


def least(builder: Builder, one: Value, other: Value) -> Value:
    """The lesser of two numbers."""
    return builder.select(builder.icmp_signed("<", one, other), one, other)


def _least_from(builder: Builder, value: Value, period: Value) -> Value:
    """`value` modulo `period`, not negative."""
    rest = builder.srem(value, period)
    return builder.select(builder.icmp_signed("<", rest, literal(I64, 0)), builder.add(rest, period), rest)


def _counter(builder: Builder, counters: Value, share: Value) -> Value:
    return builder.gep(counters, [share, literal(I32, 0)], source_etype=COUNTER)


def _clear(builder: Builder, counters: Value, count: Value) -> None:
    """Let the counters of all shares stand at 0."""
    before = builder.block
    head, after = (builder.append_basic_block(name) for name in ("counters", "counters.end"))
    builder.branch(head)
    builder.position_at_end(head)
    share = builder.phi(I64, "share")
    share.add_incoming(literal(I64, 0), before)
    builder.store(literal(I64, 0), _counter(builder, counters, share))
    following = builder.add(share, literal(I64, 1))
    share.add_incoming(following, head)
    builder.cbranch(builder.icmp_signed("<", following, count), head, after)
    builder.position_at_end(after)
