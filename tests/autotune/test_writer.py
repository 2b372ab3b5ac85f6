"""A log has one writer: a second is told who it is, and a dead one is succeeded by exactly one."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from tensorlang.autotune.log import writer
from tensorlang.autotune.log.clock import Now
from tensorlang.autotune.log.writer import LogBusyError, Owner, WriterLock, holder, this_process
from tensorlang.errors import LogError

ELSEWHERE = Owner(host="elsewhere", pid=7, boot="b", start=1, namespace="n", mark="t")


def left_behind(log: Path, owner: Owner, age: float = 0.0) -> Path:
    lock = log.with_name(log.name + ".lock")
    lock.write_bytes(msgspec.json.encode(owner))
    os.utime(lock, (lock.stat().st_atime, lock.stat().st_mtime - age))
    return lock


def test_the_lock_is_there_while_it_is_held_and_leaves_nothing(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    with WriterLock(log), WriterLock(log):  # a job and its task
        found = holder(log)
        assert found is not None and found.owner.pid == os.getpid() and found.state == "alive"
    assert holder(log) is None and not list(tmp_path.iterdir())


def test_another_thread_is_refused(tmp_path: Path) -> None:
    told: list[str] = []

    def try_it() -> None:
        try:
            with WriterLock(tmp_path / "a.jsonl"):
                told.append("entered")
        except LogBusyError as error:
            told.append(str(error))

    with WriterLock(tmp_path / "a.jsonl"):
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
    assert "another thread of this process" in told[0]


def test_another_process_is_told_host_and_process(tmp_path: Path) -> None:
    name = "tensorlang.autotune.log.writer"
    code = f"import sys\nfrom pathlib import Path\nfrom {name} import WriterLock\nWriterLock(Path(sys.argv[1])).__enter__()"
    with WriterLock(tmp_path / "a"):
        ended = subprocess.run([sys.executable, "-c", code, tmp_path / "a"], capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and f"is being written by {this_process()}" in ended.stderr


@pytest.mark.parametrize(
    "dead",
    [
        {"pid": 2**22 + 1},  # no such process
        {"start": 1},  # the number is another process's now
        {"boot": "another"},  # the machine was started again
    ],
)
def test_the_lock_of_a_dead_process_here_is_taken_over(tmp_path: Path, dead: dict[str, object]) -> None:
    left_behind(tmp_path / "a", msgspec.structs.replace(this_process(), mark="old", **dead))
    with WriterLock(tmp_path / "a"):
        found = holder(tmp_path / "a")
        assert found is not None and found.owner.pid == os.getpid() and found.owner.mark != "old"
    assert not list(tmp_path.iterdir())


def test_of_an_owner_elsewhere_the_heartbeat_decides(tmp_path: Path) -> None:
    left_behind(tmp_path / "a", ELSEWHERE, age=20)
    with pytest.raises(LogBusyError, match=r"process 7 on elsewhere, last sign of life 2\d s ago"):
        WriterLock(tmp_path / "a").__enter__()
    left_behind(tmp_path / "a", ELSEWHERE, age=writer.SILENT_S + 1)
    with WriterLock(tmp_path / "a"):
        found = holder(tmp_path / "a")
        assert found is not None and found.owner.host == this_process().host


def test_one_that_died_while_it_took_over_is_succeeded_too(tmp_path: Path) -> None:
    gone = msgspec.structs.replace(this_process(), boot="another")
    lock = left_behind(tmp_path / "a", msgspec.structs.replace(gone, mark="first"))
    lock.with_name("a.lock.first").write_bytes(msgspec.json.encode(msgspec.structs.replace(gone, mark="second")))
    with WriterLock(tmp_path / "a"):
        assert holder(tmp_path / "a") is not None
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_no_lock_is_not_removed(tmp_path: Path) -> None:
    lock = left_behind(tmp_path / "a", ELSEWHERE, age=60)
    lock.write_text("mine")
    os.utime(lock, (0, 0))
    with pytest.raises(LogError, match="is no lock of a log"):
        WriterLock(tmp_path / "a").__enter__()
    assert lock.read_text() == "mine"


def test_what_is_no_file_is_not_locked() -> None:
    with WriterLock(Path("/dev/null")):
        assert not Path("/dev/null.lock").exists()


def test_of_many_that_find_a_dead_lock_one_gets_it(tmp_path: Path) -> None:
    left_behind(tmp_path / "a", msgspec.structs.replace(this_process(), boot="another", mark="old"))
    start, end, got = threading.Barrier(8), threading.Barrier(8), list[int]()

    def try_it(number: int) -> None:
        start.wait()
        try:
            mark = writer._taken(tmp_path / "a")
        except LogBusyError:
            mark = ""
        if mark:
            got.append(number)
        end.wait()

    threads = [threading.Thread(target=try_it, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1


def test_an_age_is_told_by_the_time_since_the_boot_where_the_clock_was_set() -> None:
    now = Now(1000.0, {"boot": "b", "seconds": 500.0})
    assert now.age({"time_unix": 5000.0, "clock": {"boot": "b", "seconds": 440.0}}) == 60
    assert now.age({"time_unix": 900.0, "clock": {"boot": "other", "seconds": 440.0}}) == 100
    assert now.age({"time_unix": 1100.0}) == -100
    assert now.age({"time_unix": 900.0, "clock": {"boot": "b", "seconds": "x"}}) == 100
