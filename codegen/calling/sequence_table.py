"""The driver as it is linked, and tables for it: see `sequence_ir` for what the words mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tensorlang.codegen.calling import sequence_ir
from tensorlang.codegen.calling.handwritten import linked
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.llvm.linked_once import LinkedOnce

ABSOLUTE = 0
"""The base of numbers, and of addresses that stay."""
ARENA = 1
"""The base of the arena."""
PASSED = 2
"""The base of the first value that is passed."""


@dataclass(frozen=True, slots=True)
class Word:
    """What is passed to a function: a number, or an address that is so many bytes from a base."""

    base: int
    offset: int


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A function and what is passed to it. `number` is what the table says where it fails."""

    function: int
    words: tuple[Word, ...]
    number: int


Lane = Sequence[NativeCall]
"""Calls one after the other."""


def driver(words: int = 0) -> binding.Library:
    """The driver for functions of at most so many words, linked; compiled once, and kept in a file where kernels are."""
    return _linked(sequence_ir.USUAL if words <= sequence_ir.USUAL[-1] else sequence_ir.CONVENTIONS)


@LinkedOnce
def _linked(conventions: tuple[int, ...]) -> binding.Library:
    return linked(sequence_ir.module(conventions), sequence_ir.EXPORTS)


def table(stages: Iterable[Sequence[Lane]], arena: int, counter: int) -> npt.NDArray[np.int64]:
    """The words of stages, each of lanes that may run side by side; `counter` is where the number of threads stands."""
    words = [arena, 0, counter, 0]
    for lanes in stages:
        words[sequence_ir.STAGES] += 1
        head = len(words)
        words += [len(lanes), 0, *[0] * len(lanes)]
        for place, lane in enumerate(lanes):
            words[head + 2 + place] = len(words)
            words.append(len(lane))
            for call in lane:
                words += [call.function, sequence_ir.convention(len(call.words)), call.number, len(call.words)]
                words += [part for word in call.words for part in (word.base, word.offset)]
        words[head + 1] = len(words)
    return np.array(words, np.int64)
