"""The folder in which this package keeps what it can make again: where `TENSORLANG_CACHE` says, or the user's.

    TENSORLANG_CACHE=/some/folder      there
    TENSORLANG_CACHE=on                in the user's cache folder
    TENSORLANG_CACHE=off, or unset     kernels nowhere

What a user asked to be measured, and what is remembered of large logs, goes to the user's folder where none was chosen; the latter
nowhere where caching is switched off by name.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "TENSORLANG_CACHE"

_OFF: Final = ("", "off", "0", "no", "false")
_ON: Final = ("on", "1", "yes", "true")


def chosen() -> Path | None:
    """The folder that was asked for; None where none was."""
    wanted = os.environ.get(VARIABLE, "").strip()
    if wanted.lower() in _OFF:
        return None
    return of_user() if wanted.lower() in _ON else Path(os.path.expanduser(wanted))  # noqa: PTH111 - raises for no user


def unless_off() -> Path | None:
    """The folder that was asked for, else the user's; None where it was said that there is to be none."""
    if VARIABLE in os.environ and os.environ[VARIABLE].strip().lower() in _OFF[1:]:
        return None
    return chosen() or of_user()


def of_user() -> Path:
    """The folder of the system's conventions."""
    import platformdirs  # noqa: PLC0415 - few ask for files

    return platformdirs.user_cache_path("tensorlang")
