"""Strategies: for any definition a default schedule, a search space, and the directives of each point in it.

The stage with the most arithmetic is the main one: a contraction, a sliding window, a transposition or rows. Its knobs, those of the other
row-wise stages, and whether intermediates are computed in rows are the space; a contraction or a window beside the main stage gets its
default. A strategy only ever writes directives that the schedule accepts.
"""

from __future__ import annotations

from tensorlang.lowering.program import LoweredProgram, lower_program
from tensorlang.schedules.strategies.expected import Expectation, unranged
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.ranged import Ranged
from tensorlang.schedules.strategies.strategy import Strategy

__all__ = ["Processor", "Strategy", "choose", "expectations"]


def expectations(program: LoweredProgram) -> tuple[str, ...]:
    """What the strategy of a program depends on besides its nest: what tables of its arrays hold."""
    found = Expectation.of(program)
    return () if found is None else (found.condition,)


def choose(outputs: object, machine: Processor, threads: int, constants: frozenset[str] = frozenset()) -> Strategy:
    """The strategy for tensors, or a program of them that is lowered already, on a machine; there is one for every definition.

    `constants` are operands that are packed beforehand.
    """
    program = outputs if isinstance(outputs, LoweredProgram) else lower_program(outputs)
    return Ranged.of(program, machine, threads, constants) or unranged(program, machine, threads, constants)
