"""What a strategy tried and was refused: a fault of the strategy's, since it asks where a step may be illegal, or a limit that it met."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tensorlang.errors import ScheduleError

TOO_MUCH_CODE: Final = "TL-S202"
"""The refusal for the budget of instructions: no fault of a strategy's, since how much code a step makes is known when it is tried."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A stage that keeps its plain loops because `step` (a method call, or "") was refused for a `reason` with a stable `code`."""

    stage: str
    step: str
    code: str
    reason: str

    @classmethod
    def of(cls, stage: str, error: ScheduleError) -> Fault:
        """The fault that an error tells of."""
        from tensorlang.schedules import trace  # noqa: PLC0415 - all directives, of which a kernel that is loaded needs none

        return cls(stage, "" if error.directive is None else trace.call(error.directive), error.code, error.reason)

    def __str__(self) -> str:
        return f"{self.stage} keeps its plain loops: {self.step or 'a step'} was refused, {self.code}: {self.reason}"


def unforeseen(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Those that a strategy should have asked about: all but the refusals for too much code."""
    return tuple(fault for fault in faults if fault.code != TOO_MUCH_CODE)
