"""How a trial can end, and what went wrong: the words of a log that workers use too, by themselves so that workers load no more of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

Status: TypeAlias = Literal[
    "ok",
    "compile_error",
    "compile_crash",
    "compile_timeout",
    "run_timeout",
    "crash",
    "wrong_result",
    "oom",
    "killed",
    "infra",
]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong: its kind, one line, and the number of the signal if it was one."""

    type: str
    message: str
    signal: int | None = None
