"""What the commands share: wrong usage as an exception, signals, the console, and logs by path."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from tensorlang.autotune.log.log import Log

LogArgument = Annotated[Path, typer.Argument(metavar="LOG", help="A log file, or a folder of logs.")]
LogArguments = Annotated[list[Path], typer.Argument(metavar="LOG...", help="Log files, or folders of logs.")]


class Usage(Exception):  # noqa: N818 - not a fault
    """The command was not used as it is meant."""


def note(text: str) -> None:
    """A line on stderr that is worth knowing, and no error."""
    sys.stderr.write(f"autotune: {' '.join(text.split())}\n")


class Stop:
    """Ctrl-C, SIGTERM and a terminal that closes raise `KeyboardInterrupt`; one that a library swallowed is raised again at `check`.

    Where SIGHUP is ignored, as under nohup, it stays so.
    """

    def __init__(self) -> None:
        self._asked = False
        self._numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            self._numbers.append(signal.SIGHUP)
        for number in self._numbers:
            signal.signal(number, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> NoReturn:
        self._asked = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if stopping was asked for."""
        if self._asked:
            raise KeyboardInterrupt

    def ignore(self) -> None:
        """From now on nothing interrupts."""
        for number in self._numbers:
            signal.signal(number, signal.SIG_IGN)


def leave(code: int) -> NoReturn:
    """End at once: a library may still be loading in a thread."""
    sys.stdout.flush()
    os._exit(code)


def console() -> Any:
    """Where tables and lines go; wide where there is no terminal, so that nothing is folded in files."""
    from rich.console import Console  # noqa: PLC0415 - not for wrong usage

    class Screen(Console):
        """A console whose reader may leave."""

        def on_broken_pipe(self) -> None:
            """To be seen by `main`, which knows that nothing is wrong."""
            raise BrokenPipeError

    return Screen(width=None if sys.stdout.isatty() else 160)


def open_log(path: Path) -> Log:
    """The log at a path that exists. Raises `Usage`."""
    from tensorlang.autotune.log.log import Log  # noqa: PLC0415 - as above

    if not path.exists():
        raise Usage(f"there is no log at {path}")
    return Log(path)
