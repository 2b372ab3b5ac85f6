"""The `autotune` command.

Exit codes: 0 a valid winner, 1 no valid schedule, a failed job or an unwritable log, 2 wrong usage (one line on stderr), 130 stopped.
The compiler and the surrogates are imported by the commands that need them, so that help and wrong usage are instant.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from tensorlang.errors import LogError, TensorlangError, did_you_mean

if TYPE_CHECKING:
    from tensorlang.autotune.log import Log
    from tensorlang.autotune.session import Progress, Session

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=False)

COMMANDS = ("run", "status", "best", "report", "verify", "ops")
LogArgument = Annotated[Path, typer.Argument(metavar="LOG", help="A log file, or a folder of logs.")]


ParserError: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""What the command-line parser raises; typer has moved its home between versions."""


class Usage(Exception):  # noqa: N818 - not a fault
    """The command was not used as it is meant."""


@app.callback()
def autotune() -> None:
    """Find the fastest schedule of an operator on this machine, and keep what was found in a log."""


@app.command()
def run(
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="A name that `autotune ops` lists, or FILE.py:FUNCTION.")],
    shape: Annotated[str, typer.Option(help="Extents, as M=512,N=512,K=512; for a function its parameters.")] = "",
    dtype: Annotated[str | None, typer.Option(help="Type of the operands (float32 for operators).")] = None,
    trials: Annotated[int, typer.Option(min=1, help="Candidates to measure, those in the log included.")] = 64,
    log: Annotated[str | None, typer.Option(help="Log file, or a folder (ending in /): one file for each task.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads (default: all usable cores).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search.")] = 0,
    strategy: Annotated[str, typer.Option(help="bayesian, random, evolutionary or grid.")] = "bayesian",
    budget: Annotated[str | None, typer.Option(help="Time for the whole search, as 90s, 30m or 1h30m.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds in which a candidate must compile and, again, run.")] = 30.0,
    resume: Annotated[bool, typer.Option(help="Go on from what the log has.")] = True,
) -> None:
    """Tune an operator."""
    from tensorlang.autotune import operators, session, settings  # noqa: PLC0415 - see the module

    console = _console()
    try:
        name, outputs = operators.program(operator, operators.parse_shape(shape), dtype)
        job = session.session(
            outputs, log, name=name, threads=threads, trials=trials, seed=seed, strategy=strategy,
            budget=settings.seconds(budget), timeout=timeout, resume=resume,
        )  # fmt: skip
    except LogError:
        raise
    except TensorlangError as error:
        raise Usage(str(error)) from None
    _tuned(console, job)


def _tuned(console: Any, job: Session) -> None:
    from tensorlang.autotune.display import Monitor, duration, final_table, plain, plural  # noqa: PLC0415
    from tensorlang.autotune.peak import measure_peak  # noqa: PLC0415
    from tensorlang.autotune.result import best_of  # noqa: PLC0415

    stop = _Stop()
    try:
        with Monitor(console, job.task.op) as monitor:

            def progress(state: Progress) -> None:
                monitor(state)
                stop.check()

            result = job.run(progress)
        console.print(final_table(result, measure_peak(result.target, result.threads, result.task.dtype)))
    except KeyboardInterrupt:
        stop.ignore()
        best = best_of(job.trials)
        found = "no valid schedule yet" if best is None else f"best {duration(best.time)}: {best.config}"
        plain(console, f"stopped after {plural(len(job.trials), 'trial')}; {found}")
        sys.stdout.flush()
        os._exit(130)  # at once: a library may still be loading in a thread
    plain(console, f"best configuration: {result.best.config}")
    if job.log is not None:
        plain(console, f"log: {job.log.path}")


@app.command()
def status(log: LogArgument) -> None:
    """Show trials, best, speed-up and failures of each task."""
    from tensorlang.autotune import report as reports  # noqa: PLC0415

    reports.status(_console(), _log(log))


@app.command()
def best(log: LogArgument) -> None:
    """Show the best configuration of each task, and its schedule as Python."""
    from tensorlang.autotune import report as reports  # noqa: PLC0415

    reports.best(_console(), _log(log))


@app.command()
def report(log: LogArgument) -> None:
    """Show the fastest trials, failures by reason, and noise."""
    from tensorlang.autotune import report as reports  # noqa: PLC0415

    reports.report(_console(), _log(log))


@app.command()
def verify(log: LogArgument) -> None:
    """Rebuild the best schedule of each task in a fresh process, check its results and time it."""
    from tensorlang.autotune.display import duration, plain  # noqa: PLC0415
    from tensorlang.autotune.report import studies  # noqa: PLC0415
    from tensorlang.autotune.verify import verify as verified  # noqa: PLC0415

    console, held = _console(), True
    for tuned in studies(_log(log)):
        verdict = verified(tuned)
        held = held and verdict.holds
        times = f"{duration(verdict.now)} now, {duration(verdict.then)} in the log"
        plain(console, f"{tuned.title}: " + (f"holds, {times}" if verdict.holds else f"does not hold: {verdict.why}"))
    if not held:
        raise typer.Exit(1)


@app.command()
def ops() -> None:
    """List the operators with the extents that --shape takes, and their defaults."""
    from tensorlang.autotune.display import plain  # noqa: PLC0415
    from tensorlang.autotune.operators import OPERATORS  # noqa: PLC0415

    for operator in sorted(OPERATORS.values(), key=lambda operator: operator.name):
        plain(_console(), f"{operator.name:<18}{','.join(f'{name}={value}' for name, value in operator.defaults.items())}")


class _Stop:
    """Ctrl-C and SIGTERM raise `KeyboardInterrupt`; one that a library swallowed is raised again at the next `check`."""

    def __init__(self) -> None:
        self._asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
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
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def _console() -> Any:
    from rich.console import Console  # noqa: PLC0415 - not for wrong usage

    return Console(width=None if sys.stdout.isatty() else 160)


def _log(path: Path) -> Log:
    from tensorlang.autotune.log import Log  # noqa: PLC0415

    if not path.exists():
        raise Usage(f"there is no log at {path}")
    return Log(path)


def main() -> None:
    """Run the command and exit with its code."""
    try:
        code = app(standalone_mode=False, prog_name="autotune") or 0
    except (typer.Exit, SystemExit) as end:
        code = getattr(end, "exit_code", getattr(end, "code", 0)) or 0
    except Usage as error:
        code = _say(str(error), 2)
    except TensorlangError as error:
        code = _say(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        code = _say("stopped", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except ParserError as error:
        code = _say(_wrong(error), 2)
    sys.exit(code)


def _wrong(error: Any) -> str:
    """The message of the command-line parser, with a hint for a command that does not exist."""
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    word = text.split("'")[1] if text.startswith("No such command '") else ""
    return text.rstrip(".") + did_you_mean(word, COMMANDS) if word else text


def _say(text: str, code: int) -> int:
    sys.stderr.write(f"autotune: {' '.join(text.split())}\n")
    return code
