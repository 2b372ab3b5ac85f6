"""A user's own template: a function from a point of a space to a schedule, searched, logged and reported like a strategy's space.

The function stays in the process that tunes. Workers, logs and databases are given the directives that it made, as JSON, so it need not be
importable or picklable, a cluster needs no copy of it, and its winner replays from the log when the function is long gone. A point at
which the schedule refuses a directive is an invalid point: it is written down with the refusal, and the search learns from it.

The first trial is the default schedule, whose configuration in the log is the empty one: a template has to beat what costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tensorlang.autotune.jobs.plan import Plan
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.status import Failure
from tensorlang.autotune.workers.protocol import Candidate, Outcome
from tensorlang.errors import ScheduleError, TuningError
from tensorlang.schedules.spaces.space import Config, Space, spelling

if TYPE_CHECKING:
    from tensorlang.schedules.schedule import Schedule

NAME: Final = "template"
DEFAULT: Final[Config] = {}
"""The point that stands for the default schedule."""


@dataclass(frozen=True, slots=True)
class Template:
    """A function from points to schedules of the program with this fingerprint."""

    function: Callable[[Config], Schedule]
    fingerprint: str

    def plan(self, space: Space) -> Plan:
        """What a session sets out from: the default schedule, then points of this space."""
        return Plan(NAME, space, DEFAULT, template=self)

    def directives(self, config: Config) -> str:
        """The directives of a point as JSON.

        Raises `ScheduleError` where one is refused, `TuningError` for a function that does something else than making a schedule.
        """
        from tensorlang.schedules.schedule import Schedule  # noqa: PLC0415 - tests of the job need no compiler

        try:
            made: Any = self.function(dict(config))
        except ScheduleError:
            raise
        except Exception as error:
            raise TuningError(f"schedule= raised {type(error).__name__} at {spelling(config)}: {error}") from error
        if not isinstance(made, Schedule):
            raise TuningError(f"schedule= is a function that returns a tl.Schedule; at {spelling(config)} it returned {made!r:.60}")
        text = made.to_json()
        if json.loads(text)["definition"] != self.fingerprint:
            raise TuningError(f"schedule= returned a schedule of other tensors at {spelling(config)}; make it of those that are tuned")
        return text

    def candidate(self, config: Config, incumbent: float | None) -> Candidate | Outcome:
        """What workers are to build; the outcome where the point is invalid."""
        try:
            return Candidate(config, self.directives(config), incumbent)
        except ScheduleError as refused:
            return Outcome("compile_error", error=Failure(type(refused).__name__, str(refused).splitlines()[0]))

    def made(self, trial: Trial) -> bool:
        """Was a trial of the log made by this function as it is now? An edited template does not inherit what another one measured."""
        if trial.config == DEFAULT or trial.schedule is None:
            return True
        try:
            return self.directives(trial.config) == trial.schedule
        except (ScheduleError, TuningError):
            return False
