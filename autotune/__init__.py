"""Which schedule: tuning jobs, their log and the look-up of what they found.

The rooms, each of which may import those before it: `measurement`, `log`, `search`, then what all others speak of (`task`, `operators`,
`settings`), `workers`, `verification` and `cluster`, `jobs`, `reporting`, `cli`.

Names load on use: `import tensorlang.autotune` costs nothing, and neither a kernel nor a worker ever imports the surrogates.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorlang.autotune.jobs.result import Result as Result
    from tensorlang.autotune.jobs.tune import tune as tune
    from tensorlang.autotune.log.database import Database as Database, Match as Match
    from tensorlang.autotune.log.log import Log as Log
    from tensorlang.autotune.log.record import Trial as Trial

_HOMES = {
    "Database": "log.database",
    "Log": "log.log",
    "Match": "log.database",
    "Result": "jobs.result",
    "Trial": "log.record",
    "tune": "jobs.tune",
}

__all__ = ["Database", "Log", "Match", "Result", "Trial", "tune"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
