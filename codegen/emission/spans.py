"""Lanes a few elements apart whose neighbours are read too, or may be: what lies between them is loaded once for all.

    vector j in range(16):                                          a, b = X[0 .. 15], X[16 .. 31] from 2 i row on
        Y[j] = X[2 i, 2 j] + X[2 i, 2 j + 1]            ->          Y = even(a, b) + odd(a, b)

A vector of every other element takes two loads, the second of which would end with the last element that is wanted. Where the one beside it
is read as well, or stands in storage of ours, both kinds take the same two loads, which LLVM finds to be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeAlias

from tensorlang import ir
from tensorlang.codegen.emission.affine import Polynomial, Strided, classify
from tensorlang.codegen.emission.frame import Frame
from tensorlang.codegen.emission.memory import LONGEST_STEP
from tensorlang.codegen.emission.vector_access import BufferAddress
from tensorlang.ir.dtype import INT64
from tensorlang.ir.integers import COMPARE
from tensorlang.ir.traverse import children, dtype_of, reads_data

Read: TypeAlias = "tuple[str, int, frozenset[object], int]"
"""A buffer, how far lanes are apart, and where the first one is: what loops add, and a number."""


def always_read(frame: Frame) -> frozenset[Read]:
    """What the statement reads, whatever it chooses, by lanes that lie evenly apart; found once."""
    if frame.beside is None:
        found = set[Read]()
        for load in unconditional(frame.stored, partial(_known, frame)):
            assert isinstance(load.buffer, ir.Buffer)
            fixed, moving = frame.space.offset(load.index, frame.places[load.buffer.name].shape).parted()
            pattern = classify(moving)
            if isinstance(pattern, Strided):
                found.add((load.buffer.name, pattern.step, loops_of(fixed), fixed.offset))
        frame.beside = frozenset(found)
    return frame.beside


def before(frame: Frame, name: str, place: BufferAddress, fixed: Polynomial, moving: Polynomial) -> int | None:
    """How many elements before the first lane's a block begins that may be read whole; None where no more than is wanted may be."""
    step = _step(moving) if frame.lanes and frame.mask is None else 0
    if not step:
        return None
    residue = fixed.offset % step
    first, loops = fixed.offset - residue, loops_of(fixed)
    ours = place.spare >= (step - 1) * place.dtype.bytes and first >= 0 and _is_never_negative(frame, fixed)
    if ours:
        return residue
    return residue if all((name, step, loops, first + beside) in always_read(frame) for beside in range(step)) else None


def unconditional(values: Iterable[ir.Expr], known: Callable[[ir.Expr], bool | None] = lambda _: None) -> Iterator[ir.Load]:
    """What expressions read whatever they choose, but for what tells where; a choice by what is `known` is none."""
    waiting, seen = list(values), set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, ir.Load):
            yield node
        elif isinstance(node, ir.Select):
            chosen = known(node.cond)
            waiting.append(node.cond if chosen is None else node.yes if chosen else node.no)
        else:
            waiting += children(node)


def _known(frame: Frame, cond: ir.Expr) -> bool | None:
    """What a comparison of indices is in every lane, as in one of the copies that a loop was unrolled into; None where that is not told."""
    if not (isinstance(cond, ir.Compare) and dtype_of(cond.left) == INT64) or reads_data(cond):
        return None
    apart = (frame.space.polynomial(cond.left) - frame.space.polynomial(cond.right)).constant
    return None if apart is None else COMPARE[cond.op](apart, 0)


def _step(moving: Polynomial) -> int:
    """How far lanes are apart, where what lies between them is loaded as well; else 0."""
    pattern = classify(moving)
    return pattern.step if isinstance(pattern, Strided) and 1 < pattern.step <= LONGEST_STEP else 0


def loops_of(fixed: Polynomial) -> frozenset[object]:
    """What loops add to an offset."""
    return frozenset(fixed.without_offset().terms.items())


def _is_never_negative(frame: Frame, fixed: Polynomial) -> bool:
    """Do loops that begin at 0 or beyond only add to it?"""
    return all(
        factor > 0 and all(atom.name in frame.natural for atom in monomial) for monomial, factor in fixed.without_offset().terms.items()
    )
