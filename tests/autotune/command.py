"""The command as a user runs it: in a process of its own, or in this one, where the process is not what is tested."""

import contextlib
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tensorlang.autotune.cli import main
from tensorlang.autotune.log.log import Log

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from autotune_command import main; main()"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def autotune(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """In a process of its own."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180, env=ENVIRONMENT, **options)


def here(*arguments: object) -> subprocess.CompletedProcess[str]:
    """In this process, as if it were another one: for whatever takes no signals."""
    command = ["autotune", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", command)
        patch.setattr(os, "_exit", sys.exit)
        with pytest.raises(SystemExit) as end:
            main.main()
    for number, handler in handlers.items():
        signal.signal(number, handler)
    assert isinstance(end.value.code, int)
    return subprocess.CompletedProcess(command, end.value.code, out.getvalue(), err.getvalue())


def ended(job: subprocess.Popen[str], number: signal.Signals, log: Log) -> tuple[str, int]:
    """What a job that is sent a signal still says, and how many trials its log has at that moment."""
    job.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, job.pid, os.WSTOPPED)
    before = sum(1 for _ in log)
    job.send_signal(number)
    job.send_signal(signal.SIGCONT)
    return job.communicate(timeout=120)[0], before
