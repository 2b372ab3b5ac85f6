"""The calibration: probes, rounds, figures, and the description that they make of what ships for this CPU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tensorlang.codegen.calibration.figures import Figure, believed, figures
from tensorlang.codegen.calibration.probes import Bench
from tensorlang.codegen.calibration.rounds import Budget, measure
from tensorlang.codegen.runtime.threads import get_threads
from tensorlang.codegen.target import target
from tensorlang.codegen.target.cores import shipped
from tensorlang.schedules.model.machine import Machine

SECONDS: Final = 8.5
"""What may be spent by default: with what begins and ends beyond it, less than ten."""
_HUGE: Final = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured: the description that follows, where each figure of it comes from, and the seconds that it took."""

    machine: Machine
    figures: tuple[Figure, ...]
    seconds: float

    @property
    def measured(self) -> tuple[str, ...]:
        """The fields that are as they were measured."""
        return tuple(figure.path for figure in self.figures if not figure.why)


def calibrate(seconds: float = SECONDS) -> Calibration:
    """Measure this machine in about so many seconds: nothing is begun after them."""
    here, budget = target("native"), Budget(seconds)
    before = shipped(here)
    found = figures(before, measure(Bench(here, before).probes(), budget), _huge(), get_threads())
    machine, told = believed(before, found)
    count = sum(not figure.why for figure in told)
    source = f"measured here, {count} of {len(told)} figures that can be; the others: {before.source}"
    return Calibration(replace(machine, source=source), told, budget.spent)


def _huge() -> int:
    """Bytes of a large page."""
    try:
        return int(_HUGE.read_text())
    except (OSError, ValueError):
        return 1 << 21
