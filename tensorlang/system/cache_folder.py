"""The folder in which this package keeps what it can make again: where `TENSORLANG_CACHE` says, or the user's.

    TENSORLANG_CACHE=/some/folder      there
    TENSORLANG_CACHE=on                in the user's cache folder
    TENSORLANG_CACHE=off, or unset     kernels nowhere

What a user asked to be measured goes to the user's folder where none was chosen.
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


def of_user() -> Path:
    """The folder of the system's conventions."""
    import platformdirs  # noqa: PLC0415 - few ask for files

    return platformdirs.user_cache_path("tensorlang")
