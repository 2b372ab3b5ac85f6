"""What tests and the fuzzer do where a strategy breaks: they fail. A user gets plain loops, and a line in the log."""

from __future__ import annotations

from typing import NoReturn


def broken(_: object, error: Exception) -> NoReturn:
    """Stands for `compilation.plain_loops`."""
    raise error
