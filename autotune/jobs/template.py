"""A user's own template: a function from a point of a space to a schedule, searched, logged and reported like a strategy's space.

The function is called in a fork of the process that tunes, so it need not be importable or picklable, and may loop, exit or crash: that is
then the outcome of the point. Workers, logs and databases are given the directives that it made, as JSON, a cluster needs no copy of it,
and its winner replays from the log when the function is long gone. A point at which the schedule refuses a directive is an invalid point:
it is written down with the refusal, and the search learns from it.

The first trial is the default schedule, whose configuration in the log is the empty one: a template has to beat what costs nothing.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from tensorlang.autotune.jobs.plan import TaskPlan
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.status import Failure
from tensorlang.autotune.workers.forked import Forked, Lost
from tensorlang.autotune.workers.protocol import Candidate, Outcome
from tensorlang.errors import ScheduleError, TuningError
from tensorlang.schedules.spaces.space import Config, Space, spelling

if TYPE_CHECKING:
    from tensorlang.schedules.schedule import Schedule

NAME: Final = "template"
DEFAULT: Final[Config] = {}
"""The point that stands for the default schedule."""


LIMIT_S: Final = 30.0
"""Seconds in which a function has to make a schedule where nobody says."""


class Point(Struct, frozen=True):
    """A point of a space."""

    config: dict[str, Any]


class Made(Struct, frozen=True):
    """What a function made of a point: directives as JSON, or why a directive was refused, or what else it did."""

    directives: str = ""
    refused: str = ""
    wrong: str = ""


class Template:
    """A function from points to schedules of the program with this fingerprint, which may take `seconds` for each."""

    def __init__(self, function: Callable[[Config], Schedule], fingerprint: str, seconds: float = LIMIT_S) -> None:
        self.function = function
        self.fingerprint = fingerprint
        self.seconds = seconds
        self._calls = Forked(self._made, Point, Made)

    def plan(self, space: Space) -> TaskPlan:
        """What a session sets out from: the default schedule, then points of this space."""
        return TaskPlan(NAME, space, DEFAULT, template=self)

    def begin(self) -> None:
        """Be ready: where there is one thread yet, a fork finds no lock that another one holds."""
        with contextlib.suppress(OSError):  # the first point says so
            self._calls.begin()

    def close(self) -> None:
        """Leave no process; whoever asks again starts another one."""
        self._calls.close()

    def at(self, config: Config) -> Made:
        """What the function makes of a point.

        Raises `Lost` where it does not return, or takes its process with it, `TuningError` where it does something else than making a
        schedule.
        """
        made = self._calls.call(Point(config), self.seconds)
        if made.wrong:
            raise TuningError(made.wrong)
        return made

    def candidate(self, config: Config, incumbent: float | None) -> Candidate | Outcome:
        """What workers are to build; the outcome where the point is invalid, or the function failed at it. Raises `TuningError` as `at`."""
        try:
            made = self.at(config)
        except Lost as lost:
            return Outcome(lost.status, error=replace(lost.failure, message=f"schedule=: {lost.failure.message}"))
        if made.refused:
            return Outcome("compile_error", error=Failure(ScheduleError.__name__, made.refused))
        return Candidate(config, made.directives, incumbent)

    def makes(self, config: Config) -> bool:
        """Is the schedule of a point the function's? That of the empty one is the default schedule of the program."""
        return config != DEFAULT

    def made(self, trial: Trial) -> bool:
        """Was a trial of the log made by this function as it is now? An edited template does not inherit what another one measured."""
        return trial.config == DEFAULT or trial.schedule is None or self.remade(trial)

    def remade(self, trial: Trial) -> bool:
        """Does the function make the same directives of the trial's point?"""
        with contextlib.suppress(TuningError, Lost):
            return self.at(trial.config).directives == trial.schedule
        return False

    def _made(self, point: Point) -> Made:
        """In the child: call the function."""
        from tensorlang.schedules.schedule import Schedule  # noqa: PLC0415 - tests of the job need no compiler

        where = spelling(point.config)
        try:
            made: Any = self.function(dict(point.config))
        except ScheduleError as refused:
            return Made(refused=str(refused).splitlines()[0])
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - a user's code may raise anything
            return Made(wrong=f"schedule= raised {type(error).__name__} at {where}: {error}")
        if not isinstance(made, Schedule):
            return Made(wrong=f"schedule= is a function that returns a tl.Schedule; at {where} it returned {made!r:.60}")
        text = made.to_json()
        if json.loads(text)["definition"] != self.fingerprint:
            return Made(wrong=f"schedule= returned a schedule of other tensors at {where}; make it of those that are tuned")
        return Made(text)
