"""Statements of one loop whose chains run beside one another: while one waits for its past, the units compute the others.

    for t: y[t] = x[t] - a * y[t - 1]; z[t] = y[t] - b * z[t - 1]      # as long as one chain, where two loops take as long as both

So it is where no statement reads what a later one writes, which the next step of the earlier one would wait for, and where the core looks
ahead over a whole step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorlang.schedules.model.cycles import Cycles
from tensorlang.schedules.model.parts import Statement


def overlapped(bodies: Sequence[tuple[Statement, Cycles]], ahead: float) -> Iterator[tuple[int, Cycles]]:
    """What each of the statements of a loop waits less than by itself; the core looks so many cycles of full work `ahead`."""
    waited = sum(cycles.idle for _, cycles in bodies)
    busy = sum(cycles.arithmetic for _, cycles in bodies) - waited
    if not waited or busy > ahead or not _go_forward([statement for statement, _ in bodies]):
        return
    left = max(0.0, max(cycles.arithmetic for _, cycles in bodies) - busy)
    for statement, cycles in bodies:
        less = cycles.idle * (1 - left / waited)
        if less > 0:
            yield statement.place, Cycles(-less, idle=-less)


def _go_forward(statements: Sequence[Statement]) -> bool:
    """Does none read what a later one writes?"""
    for place, statement in enumerate(statements):
        later = {access.buffer.name for other in statements[place + 1 :] for access in other.accesses if access.writes}
        if any(access.reads and access.buffer.name in later for access in statement.accesses):
            return False
    return True
