"""A worker of the fuzzer that waits for a processor is not taken for one that hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.fuzz import starved

BUSY, ASLEEP = "while True: pass", "import time; time.sleep(600)"


@contextmanager
def process(program: str) -> Iterator[int]:
    """A session of its own that says when it is about to run a program."""
    words = [sys.executable, "-c", f"print(flush=True)\n{program}"]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
    assert running.stdout is not None
    running.stdout.readline()
    try:
        yield running.pid
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        running.stdout.close()


def until(found: bool, session: int) -> bool:
    """Is what is asked so within a while? A process is told busy before it has begun to sleep, and before it has ended."""
    end = time.monotonic() + 20
    while (now := starved.starved(session)) is not found and time.monotonic() < end:
        time.sleep(0.01)
    return now is found


def test_who_computes_has_something_to_do_and_who_sleeps_has_not() -> None:
    with process(BUSY) as busy, process(ASLEEP) as asleep:
        assert until(True, busy)
        assert until(False, asleep)


def test_seconds_are_those_that_were_run_and_not_those_on_the_wall() -> None:
    with process(BUSY) as busy, process(ASLEEP) as asleep:
        assert until(False, asleep)
        before, end = (starved.seconds(busy), starved.seconds(asleep)), time.monotonic() + 60
        while starved.seconds(busy) < before[0] + 0.2 and time.monotonic() < end:
            time.sleep(0.05)
        assert starved.seconds(busy) >= before[0] + 0.2
        assert starved.seconds(asleep) == before[1]


def test_a_child_of_another_session_counts_and_an_ended_one_has_nothing_to_do() -> None:
    started = f"subprocess.run([sys.executable, '-c', {BUSY!r}], start_new_session=True)"
    with process(f"import subprocess, sys\n{started}\n{BUSY}") as parent:
        assert until(True, parent)
        end = time.monotonic() + 20
        while len(found := [int(path.name) for path in starved.processes(parent)]) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        assert parent in found
        assert len(found) == 2
        for one in found:
            os.kill(one, signal.SIGKILL)
        assert until(False, parent)
