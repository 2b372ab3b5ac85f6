"""The command as a user runs it, in a process of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tensorlang.autotune.log.log import Log

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from tensorlang.autotune.cli.main import main; main()"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def autotune(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180, env=ENVIRONMENT, **options)


def ended(job: subprocess.Popen[str], number: signal.Signals, log: Log) -> tuple[str, int]:
    """What a job that is sent a signal still says, and how many trials its log has at that moment."""
    job.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, job.pid, os.WSTOPPED)
    before = sum(1 for _ in log)
    job.send_signal(number)
    job.send_signal(signal.SIGCONT)
    return job.communicate(timeout=120)[0], before
