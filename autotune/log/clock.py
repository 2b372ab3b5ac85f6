"""How long ago a record was written, also where the clock was set meanwhile.

The time of day jumps: when a machine finds a time server, when a virtual machine is resumed, when somebody sets it. The time since the boot
does not, but means something on that machine until its next boot alone. Records have both, so an age is told by the second
where the record is of this boot, and else by the first, which may then lie in the future.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from tensorlang.autotune.log.record import moment


class ClockFields(TypedDict):
    """Seconds since the boot of this name, as `time.monotonic` counts them."""

    boot: str
    seconds: float


def boot_id() -> str:
    """What names the time since this machine was started; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def clock() -> ClockFields:
    """Now, as records have it beside the time of day."""
    return {"boot": boot_id()[:8], "seconds": round(time.monotonic(), 3)}


@dataclass(frozen=True, slots=True)
class Now:
    """A moment, by the time of day and by the time since the boot."""

    time_unix: float = field(default_factory=time.time)
    clock: ClockFields = field(default_factory=clock)

    def age(self, fields: Mapping[str, Any]) -> float:
        """Seconds since a record was written; negative for one that says it will be."""
        told = fields.get("clock")
        if isinstance(told, dict) and told.get("boot") == self.clock["boot"] != "":
            seconds = told.get("seconds")
            if isinstance(seconds, float | int) and not isinstance(seconds, bool) and 0 <= seconds <= self.clock["seconds"]:
                return self.clock["seconds"] - seconds
        return self.time_unix - moment(fields, 0.0)
