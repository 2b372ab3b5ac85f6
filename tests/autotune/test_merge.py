"""Merging is the union of records: in any order, any number of times, whole or not at all."""

import itertools
import os
import threading
from pathlib import Path

import pytest

from tensorlang.autotune.log import merge as merging
from tensorlang.autotune.log.log import Log, locked
from tensorlang.autotune.log.merge import merge
from tensorlang.autotune.log.record import SCHEMA, to_line
from tensorlang.errors import LogError
from tests.autotune.test_log import checksummed, fields, written

NEWER = checksummed(b'{"v":%d,"kind":"dream","id":7' % (SCHEMA + 1))


def log_of(path: Path, *numbers: int, run: str = "r", junk: bytes = b"") -> Path:
    lines = (to_line({**fields(n), "run": run, "time_unix": 1000.0 + n}) for n in numbers)
    path.write_bytes(b"".join(lines) + junk)
    return path


def test_the_result_has_each_record_once_whatever_the_order_and_the_number_of_merges(tmp_path: Path) -> None:
    a = log_of(tmp_path / "a.jsonl", 0, 1, 2)
    b = log_of(tmp_path / "b.jsonl", 2, 3, run="s")
    c = log_of(tmp_path / "c.jsonl", 5, 4, 1)
    results = set()
    for place, order in enumerate(itertools.permutations((a, b, c))):
        into = tmp_path / f"into{place}"
        merged = merge(order, into)
        assert (merged.records, merged.added, merged.duplicates, merged.problems) == (7, 7, 1, ())
        results.add(into.read_bytes())
        again = merge(order, into)
        assert (again.records, again.added, again.duplicates) == (7, 0, 8)
        results.add(into.read_bytes())
    step = tmp_path / "step"
    for source in (c, b, a):
        merge([source], step)
    results.add(step.read_bytes())
    assert len(results) == 1


def test_records_of_a_run_stay_together_and_in_order_with_the_final_measurement_behind_its_trials(tmp_path: Path) -> None:
    lines = [
        to_line({"kind": "final", "id": "f", "winner": "id-0", "time": 1.0, "run": "r", "time_unix": 5.0}),
        *(to_line({**fields(n), "run": "r", "time_unix": 9.0 - n}) for n in range(3)),  # the clock was set back
        to_line({"kind": "run_start", "id": "s", "run": "r", "time_unix": 9.0}),
    ]
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines))
    merge([tmp_path / "a.jsonl"], tmp_path / "into.jsonl")
    kinds = [record["kind"] if isinstance(record, dict) else record.id for record in Log(tmp_path / "into.jsonl").records()]
    assert kinds == ["run_start", "id-0", "id-1", "id-2", "final"]


def test_lines_are_kept_byte_for_byte_those_of_later_versions_too(tmp_path: Path) -> None:
    a = log_of(tmp_path / "a.jsonl", 0, junk=NEWER + b"torn")
    merged = merge([a], tmp_path / "into.jsonl")
    assert merged.records == 2
    assert [problem.line for problem in merged.problems] == [2, 3]
    assert "newer" in merged.problems[0].reason
    assert set((tmp_path / "into.jsonl").read_bytes().splitlines(keepends=True)) == {a.read_bytes().splitlines(keepends=True)[0], NEWER}


def test_two_records_that_claim_one_id_are_both_kept_and_reading_reports_it(tmp_path: Path) -> None:
    a, b = log_of(tmp_path / "a.jsonl", 0), log_of(tmp_path / "b.jsonl", 0, run="other")
    assert merge([a, b], tmp_path / "into.jsonl").records == 2
    log = Log(tmp_path / "into.jsonl")
    assert len(list(log)) == 1
    assert "with other content" in log.problems[0].reason


def test_folders_are_sources_and_the_result_may_stand_among_them(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log_of(folder / "a.jsonl", 0, 1)
    log_of(folder / "b.jsonl", 1, 2)
    for _ in range(2):
        assert merge([folder], folder / "all.jsonl").records == 3
    assert sorted(path.name for path in folder.iterdir()) == ["a.jsonl", "all.jsonl", "b.jsonl"]


def test_a_failure_leaves_the_result_as_it_was_and_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into = log_of(tmp_path / "into.jsonl", 0)
    before = into.read_bytes()
    with pytest.raises(LogError, match="no log at"):
        merge([tmp_path / "missing.jsonl"], into)
    with pytest.raises(LogError, match="no log at"):
        merge([tmp_path / "missing.jsonl"], tmp_path / "new.jsonl")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tensorlang.system.files.os.fsync", full)
    with pytest.raises(LogError, match="No space left"):
        merge([log_of(tmp_path / "a.jsonl", 1)], into)
    assert into.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "into.jsonl"]


def test_a_folder_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="name a file"):
        merge([], tmp_path)


def test_a_source_that_is_rewritten_meanwhile_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a = log_of(tmp_path / "a.jsonl", 0, 1)
    ordered = merging._Union.ordered

    def rewriting(union: merging._Union) -> object:
        log_of(a, 7, 8)
        return ordered(union)

    monkeypatch.setattr(merging._Union, "ordered", rewriting)
    with pytest.raises(LogError, match="rewritten while it was read"):
        merge([a], tmp_path / "into.jsonl")
    assert not (tmp_path / "into.jsonl").exists()


def test_what_is_appended_to_the_result_meanwhile_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into = log_of(tmp_path / "into.jsonl", 0)
    a = log_of(tmp_path / "a.jsonl", 1)
    writer = threading.Thread(target=lambda: Log(into).append(fields(9)))
    write = merging._write

    def slow(union: merging._Union, path: Path) -> None:
        writer.start()
        write(union, path)

    monkeypatch.setattr(merging, "_write", slow)
    merge([a], into)
    writer.join()
    assert {trial.id for trial in Log(into)} == {"id-0", "id-1", "id-9"}


def test_the_result_keeps_its_permissions_and_a_link_to_it(tmp_path: Path) -> None:
    into = log_of(tmp_path / "real.jsonl", 0)
    into.chmod(0o640)
    (tmp_path / "link.jsonl").symlink_to(into)
    merge([log_of(tmp_path / "a.jsonl", 1)], tmp_path / "link.jsonl")
    assert (tmp_path / "link.jsonl").is_symlink()
    assert into.stat().st_mode & 0o777 == 0o640
    assert len(list(Log(into))) == 2


def test_a_file_that_was_replaced_while_its_lock_was_waited_for_is_opened_again(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", 1).path
    got: list[int] = []

    def wait() -> None:
        with locked(path) as (descriptor, _):
            got.append(os.fstat(descriptor).st_ino)

    with locked(path):
        waiter = threading.Thread(target=wait)
        waiter.start()
        (tmp_path / "new").write_bytes(b"")
        (tmp_path / "new").replace(path)
    waiter.join()
    assert got == [path.stat().st_ino]
