"""Signals as at a terminal: tests end child processes by them, and a run in the background begins with SIGINT and SIGHUP ignored.

A strategy asks before a step that may be illegal, so a test in which one is refused fails, whatever else it tests.
"""

import signal
from collections.abc import Iterator

import pytest

from tensorlang.schedules.faults import Fault
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.space import Config
from tensorlang.schedules.strategies.program import ProgramStrategy

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def strategy_faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Fault]]:
    """The steps that strategies were refused in a test; one that means to cause some empties the list."""
    found, real = list[Fault](), ProgramStrategy.schedule

    def schedule(self: ProgramStrategy, config: Config) -> Schedule:
        made = real(self, config)
        found.extend(made.faults)
        return made

    monkeypatch.setattr(ProgramStrategy, "schedule", schedule)
    yield found
    assert not found, [str(fault) for fault in found]
