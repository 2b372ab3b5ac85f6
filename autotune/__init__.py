"""Which schedule: tuning jobs, their log and the look-up of what they found.

Names load on use: `import tensorlang.autotune` costs nothing, and neither a kernel nor a worker ever imports the surrogates.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorlang.autotune.database import Database as Database
    from tensorlang.autotune.database import Match as Match
    from tensorlang.autotune.log import Log as Log
    from tensorlang.autotune.record import Trial as Trial
    from tensorlang.autotune.result import Result as Result
    from tensorlang.autotune.session import tune as tune

_HOMES = {
    "Database": "database",
    "Log": "log",
    "Match": "database",
    "Result": "result",
    "Trial": "record",
    "tune": "session",
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
