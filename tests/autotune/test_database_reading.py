"""What a database reads of its files: only what is new, again what was replaced, and never what is no record."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tensorlang.autotune.log import index
from tensorlang.autotune.log.database import Database
from tensorlang.autotune.log.glimpse import GlimpseParser
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import from_line, to_line
from tensorlang.codegen.target import target
from tensorlang.serialization import canonical
from tests.autotune.matmul_records import matmul, record

pytestmark = pytest.mark.usefixtures("one_thread")


def test_of_many_records_a_look_up_parses_only_what_it_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.database import matmul as tuned_matmul, write

    logs, parsed = write(tmp_path / "logs", 1_000, studies=20), list[str]()
    honest = from_line

    def counted(line: bytes) -> Any:
        parsed.append(fields := honest(line))
        return fields

    monkeypatch.setattr(index, "from_line", counted)
    database = Database(logs)
    assert len(database) == 20 and not parsed
    found = database.best(tuned_matmul(64), threads=1)
    assert found.kind == "tuned" and 0 < len(parsed) <= 1 + index.KEPT


def test_refresh_reads_only_what_was_appended(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(5):
        log.append(record(n, matmul(32)))
    database, read = Database(log), list[str]()
    honest = GlimpseParser.__call__
    monkeypatch.setattr(GlimpseParser, "__call__", lambda self, line: read.append(from_line(line)["id"]) or honest(self, line))
    log.append(record(9, matmul(32)))
    database.refresh()
    database.refresh()
    assert read == ["id-9"]


def test_lines_that_are_no_records_have_one_line_in_the_log(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    log.append(record(0, matmul(32)))
    with log.path.open("ab") as file:
        file.write(b"no record\n" + b"[" * 1000 + b"\n{}\n")
    database = Database(log)
    log.append(record(1, matmul(48)))
    database.refresh()
    assert len(database) == 2
    (told,) = caplog.messages
    assert told.startswith(f"{log.path}: 3 lines are passed over; line 2: ")


def test_a_line_that_is_being_written_is_read_when_it_is_whole(log: Log) -> None:
    log.append(record(0, matmul(32)))
    line = to_line(record(1, matmul(48)))
    with log.path.open("ab") as file:
        file.write(line[:500])
    database = Database(log)
    assert len(database) == 1
    assert [problem.line for problem in database.problems] == [2]
    with log.path.open("ab") as file:
        file.write(line[500:-1])
    database.refresh()
    assert len(database) == 2
    log.append(record(2, matmul(64)))
    database.refresh()
    assert len(database) == 3
    assert database.problems == ()


def test_a_file_that_was_replaced_or_removed_is_read_anew(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for n, name in enumerate(("a", "b")):
        Log(folder / f"{name}.jsonl").append(record(n, matmul(32 + n)))
    database = Database(folder)
    (folder / "b.jsonl").unlink()
    database.refresh()
    assert len(database) == 1
    (folder / "a.jsonl").write_bytes(b"")
    database.refresh()
    assert len(database) == 0


def test_a_final_measurement_counts_wherever_it_stands(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    Log(folder / "a.jsonl").append({"kind": "final", "id": "x", "winner": "id-0", "time": 5e-3})
    for n in range(9):
        Log(folder / "b.jsonl").append(record(n, matmul(32), samples=[(9 - n) * 1e-3]))
    found = Database(folder).best(matmul(32), threads=1).record
    assert (found.id, found.time) == ("id-0", 5e-3)


def test_a_file_of_a_folder_that_cannot_be_read_is_a_problem_and_the_others_count(tmp_path: Path) -> None:
    Log(tmp_path / "a.jsonl").append(record(0, matmul(32)))
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    database = Database(tmp_path)
    assert len(database) == 1
    assert "cannot read the file" in database.problems[0].reason


def test_many_threads_look_up_while_one_refreshes(log: Log) -> None:
    for n in range(20):
        log.append(record(n, matmul(32 + n)))
    database, machine = Database(log), target()
    prints = [canonical.fingerprint(matmul(32 + n)) for n in range(20)]
    family, extents = canonical.family(matmul(32)), canonical.extents(matmul(32))
    stop, failed = threading.Event(), list[Exception]()

    def look() -> None:
        try:
            while not stop.is_set():
                assert all(database.find(program, machine, 1) is not None for program in prints)
                assert sum(1 for _ in database.near(family, extents, machine, 1, limit=10)) == 10
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=look) for _ in range(4)]
    later = {n: record(n, matmul(32 + n)) for n in range(20, 40)}
    for thread in threads:
        thread.start()
    for n, fields in later.items():
        log.append(fields)
        if n % 10 == 0:
            log.path.write_bytes(log.path.read_bytes())
        database.refresh()
    stop.set()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(database) == 40


def test_refresh_sees_what_was_appended(log: Log) -> None:
    log.append(record(0, matmul(32)))
    database = Database(log)
    log.append(record(1, matmul(32), samples=[1e-5]))
    database.refresh()
    found = database.find(canonical.fingerprint(matmul(32)), replace(target(), name="x"), 1)
    assert found is not None
    assert found.id == "id-1"
