"""One holder at a time, of threads and of processes; whoever is gone, or does not come on, is not waited for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tensorlang.system import file_locks

HOLD = """
import sys, time
from pathlib import Path
from tensorlang.system import file_locks
with file_locks.held(Path(sys.argv[1]), 10) as got:
    print(got, flush=True)
    time.sleep(60)
"""


def holder(path: Path) -> Any:
    """A process that holds the lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "True\n"
    return process


def test_one_thread_at_a_time_holds_a_lock_and_nothing_is_left(tmp_path: Path) -> None:
    path, inside, most = tmp_path / "lock", [0], [0]

    def work() -> None:
        for _ in range(20):
            with file_locks.held(path, 60) as got:
                assert got
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.0002)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert not path.exists()


def test_a_holder_that_is_killed_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    process = holder(path)
    with file_locks.held(path, 0.05) as got:
        assert not got  # it lives
    process.kill()
    process.wait()
    process.stdout.close()
    assert path.exists()
    start = time.monotonic()
    with file_locks.held(path, 60) as got:
        assert got
    assert time.monotonic() - start < 30


def test_a_lock_is_free_after_its_block_though_a_forked_child_inherited_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with file_locks.held(path, 1):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)  # until the parent closes its end
            os._exit(0)
        os.close(reader)
    with file_locks.held(path, 1) as got:
        assert got
    os.close(writer)
    os.waitpid(child, 0)


def test_where_no_file_can_be_the_block_runs(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere" / "lock", tmp_path):
        with file_locks.held(path, 1) as got:
            assert not got
