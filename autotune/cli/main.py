"""The `autotune` command.

Exit codes: 0 a valid winner, 1 no valid schedule, a failed job, unwritable log or output, 2 wrong usage (one line on stderr), 130 stopped.
The compiler and the surrogates are imported by the commands that need them, so that help and wrong usage are instant.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from tensorlang.autotune.cli import logs, machine, tune
from tensorlang.autotune.cli.common import Usage
from tensorlang.autotune.cli.standard_output import StandardOutput
from tensorlang.errors import TensorlangError, did_you_mean

_HELP = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    add_completion=False, context_settings=_HELP, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=False
)

COMMANDS = {
    command.__name__: command
    for command in (
        tune.run, tune.job, logs.status, logs.best, logs.report, logs.merge, logs.verify, logs.export,
        logs.compare, machine.calibrate, tune.ops,
    )
}  # fmt: skip

ParserError: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""What the command-line parser raises; typer has moved its home between versions."""


def _version(asked: bool) -> None:
    """Print the version and end."""
    if asked:
        from tensorlang import __version__  # noqa: PLC0415 - as all of the compiler

        sys.stdout.write(f"autotune (tensorlang) {__version__}\n")
        raise typer.Exit


@app.callback()
def autotune(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    """Find the fastest schedule of an operator on this machine, and keep what was found in a log."""


for _command in COMMANDS.values():
    app.command(context_settings=_HELP)(_command)


def main() -> None:
    """Run the command and exit with its code."""
    interrupts, output = _Interrupts(), StandardOutput()
    try:
        code = app(standalone_mode=False, prog_name="autotune") or 0
        sys.stdout.flush()
        code = _say("stopped", 130) if interrupts.met else code
    except (typer.Exit, SystemExit) as end:
        code = getattr(end, "exit_code", getattr(end, "code", 0)) or 0
    except Usage as error:
        code = _say(str(error), 2)
    except TensorlangError as error:
        code = _say(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        code = _say("stopped", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has what it wanted
        code = 0
    except ParserError as error:
        code = _say(_wrong(error), 2)
    except Exception:
        if not interrupts.met:
            raise
        code = _say("stopped", 130)  # an import that was interrupted raises whatever it likes
    if output.error is not None:
        code = _say(f"standard output: {output.error.strerror}: not all was printed; what is in a log is there", code or 1)
    sys.exit(code)


class _Interrupts:
    """Ctrl-C before a command listens to it itself (see `common.Stop`)."""

    def __init__(self) -> None:
        self.met = False
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._met)

    def _met(self, _number: int, _frame: FrameType | None) -> NoReturn:
        self.met = True
        raise KeyboardInterrupt


def _wrong(error: Any) -> str:
    """The message of the command-line parser, with a hint for a command that does not exist."""
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    word = text.split("'")[1] if text.startswith("No such command '") else ""
    return text.rstrip(".") + did_you_mean(word, COMMANDS) if word else text


def _say(text: str, code: int) -> int:
    sys.stderr.write(f"autotune: {' '.join(text.split())}\n")
    return code
