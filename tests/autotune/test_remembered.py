"""What is remembered of a log changes how long it takes to read it, and nothing else."""

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tensorlang.autotune.jobs import peak
from tensorlang.autotune.log import remembered
from tensorlang.autotune.log.database import Database
from tensorlang.autotune.log.glimpse import Glimpse, GlimpseParser
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import to_line
from tensorlang.codegen.target import target
from tensorlang.system import cache_folder
from tests.autotune.command import here
from tests.autotune.made_logs import Made, write
from tests.thinned import few

MADE = Made()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of indices, which has one of every log however small; files settle at once."""
    monkeypatch.setenv(cache_folder.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(remembered, "WORTH", 1)
    monkeypatch.setattr(remembered, "SETTLED_S", -1.0)
    return tmp_path / "cache" / "logs"


def told(log: Log) -> tuple[list[Any], list[tuple[int, str]]]:
    """All that the glimpses of a log say, and its problems."""
    found = [
        (one.id, one.seq, one.status, one.time, one.source, one.wall_s, one.fields, one.task, one.target, one.trial())
        if isinstance(one, Glimpse)
        else one
        for one in log.glimpses()
    ]
    return found, sorted((problem.offset, problem.reason) for problem in log.problems)


def afresh(log: Log, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], list[tuple[int, str]]]:
    with monkeypatch.context() as patch:
        patch.setenv(cache_folder.VARIABLE, "off")
        return told(Log(log.path))


def in_place(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Rewrite a file without a sign: the same inode, size and time of modification."""
    before = path.stat()
    text = change(path.read_bytes())
    with path.open("r+b") as file:
        file.write(text)
        file.truncate()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


ANOTHER = to_line(MADE.trial(90, MADE.plan.default, 1e-9))

CHANGES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "a record is appended": lambda path: append(path, ANOTHER),
    "half a record is appended": lambda path: append(path, ANOTHER[:300]),
    "a foreign line is appended": lambda path: append(path, b"what\n"),
    "a repeated record is appended": lambda path: append(path, path.read_bytes().splitlines(keepends=True)[3]),
    "a line is changed in its place": lambda path: in_place(path, lambda text: text.replace(b'"random"', b'"rnadom"', 1)),
    "it is cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "it is emptied": lambda path: os.truncate(path, 0),
    "it is replaced by its reverse": lambda path: path.write_bytes(b"".join(reversed(path.read_bytes().splitlines(keepends=True)))),
    "it is another file": lambda path: (path.rename(path.with_suffix(".old")), path.write_bytes(ANOTHER)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_log_says_the_same_with_an_index_as_without_whatever_becomes_of_it(
    change: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = MADE.trial(99, MADE.plan.default, None)
    odd = {**MADE.trial(98, MADE.plan.default, 1e-3), "seq": "x"}
    log = write(tmp_path / "log.jsonl", [*MADE.study(), failed, odd])
    append(log.path, b"no record\n" + to_line({**failed, "id": "newer"}))
    first = told(log)
    assert len(list(cache.iterdir())) == 1
    assert first == told(Log(log.path)) == afresh(log, monkeypatch)
    CHANGES[change](log.path)
    assert told(Log(log.path)) == afresh(log, monkeypatch)
    assert told(Log(log.path)) == afresh(log, monkeypatch)


def test_the_second_opening_reads_no_trial_and_a_third_only_what_was_appended(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write(tmp_path / "log.jsonl", MADE.study())
    read: list[str] = []
    honest = GlimpseParser.__call__

    def counted(self: GlimpseParser, line: bytes) -> Any:
        record = honest(self, line)
        read.append(record.id if isinstance(record, Glimpse) else record["kind"])
        return record

    monkeypatch.setattr(GlimpseParser, "__call__", counted)
    first = told(log)
    assert len(read) == len(first[0])
    read.clear()
    assert told(Log(log.path)) == first
    assert sorted(read) == ["final", "run_end", "run_start"]
    log.append(MADE.trial(90, MADE.plan.default, 1e-9))
    read.clear()
    assert len(list(Log(log.path).glimpses())) == len(first[0]) + 1
    assert len(read) == 4
    assert len(Database(log.path)) == 1


@pytest.mark.usefixtures("answered")
def test_a_run_leaves_its_log_read_for_the_next_process(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log.jsonl"
    monkeypatch.setattr(peak, "measure_peak", lambda *_: peak.Peak(None, None))  # which takes a second
    assert here("run", "matmul", "--shape", "M=16,N=16,K=16", "--trials", 1, "--threads", 1, "--log", log).returncode == 0
    (index,) = cache.iterdir()
    monkeypatch.setattr(remembered, "_store", lambda *_: pytest.fail("nothing was read anew"))
    assert sum(isinstance(one, Glimpse) for one in Log(log).glimpses()) == 1 and index.exists()


def test_nothing_is_said_of_a_log_that_cannot_be_remembered(tmp_path: Path) -> None:
    Log(tmp_path / "missing.jsonl").remember()


@pytest.mark.parametrize("flipped", few(range(0, 4000, 97), 14))
def test_a_damaged_index_is_as_if_it_were_not_there(flipped: int, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write(tmp_path / "log.jsonl", MADE.study())
    first = told(log)
    (path,) = cache.iterdir()
    text = bytearray(path.read_bytes())
    text[flipped % len(text)] ^= 0x41
    path.write_bytes(text if flipped % 2 else text[: flipped % len(text)])
    assert told(Log(log.path)) == first


def _forged(path: Path, change: Callable[[Any], None]) -> None:
    """Another index with a right sum."""
    text = path.read_bytes()
    head = len(remembered._MAGIC)
    index = msgspec.msgpack.decode(text[head + 32 :], type=remembered._Index)
    change(index)
    payload = msgspec.msgpack.encode(index)
    path.write_bytes(text[:head] + hashlib.sha256(payload).digest() + payload)


@pytest.mark.parametrize(
    "forgery",
    [
        lambda index: index.trials.offsets.__setitem__(slice(None), [0] * len(index.trials.offsets)),
        lambda index: index.trials.lengths.__setitem__(0, 1 << 50),
        lambda index: index.trials.ids.__setitem__(slice(None), [f"made up {n}" for n in range(len(index.trials.ids))]),
        lambda index: index.trials.times.__setitem__(0, -1.0),
        lambda index: index.trials.times.pop(),
        lambda index: index.trials.pieces.__setitem__(0, 99),
        lambda index: index.others.append((1, 1 << 52, 10)),
        lambda index: index.others.append((1, 0, 1 << 52)),
        lambda index: setattr(index, "offset", 1 << 50),
        lambda index: setattr(index, "format", 0),
        lambda index: setattr(index, "path", "elsewhere"),
        lambda index: index.pieces.__setitem__(0, remembered._Piece(5, 50, 10, 20)),
    ],
)
def test_whatever_an_index_says_a_database_serves_what_the_log_has(forgery: Callable[[Any], None], cache: Path, tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", MADE.study())
    honest = Database(log.path).find(MADE.task.fingerprint, target(), 1)
    (path,) = cache.iterdir()
    _forged(path, forgery)
    assert Database(log.path).find(MADE.task.fingerprint, target(), 1) == honest is not None


def test_an_index_that_others_may_write_to_is_not_read(cache: Path, tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", MADE.study())
    first = told(log)
    (path,) = cache.iterdir()
    _forged(path, lambda index: index.trials.walls.__setitem__(slice(None), [9e9] * len(index.trials.walls)))
    path.chmod(0o666)
    assert told(Log(log.path)) == first


def test_an_index_is_private_and_none_is_written_where_caching_is_off_or_impossible(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write(tmp_path / "log.jsonl", MADE.study())
    first = told(log)
    (path,) = cache.iterdir()
    assert path.stat().st_mode & 0o077 == 0
    path.unlink()
    monkeypatch.setenv(cache_folder.VARIABLE, "off")
    assert told(Log(log.path)) == first
    assert list(cache.iterdir()) == []
    monkeypatch.setenv(cache_folder.VARIABLE, str(log.path))  # no folder can be made there
    assert told(Log(log.path)) == first
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["cache", "log.jsonl"]


def test_many_may_open_a_log_at_once(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write(tmp_path / "log.jsonl", MADE.study())
    expected, found = afresh(log, monkeypatch), list[Any]()
    threads = [threading.Thread(target=lambda: found.append(told(Log(log.path)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8
    assert len(list(cache.iterdir())) == 1


def test_the_folder_of_indices_does_not_grow_without_end(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir(parents=True)
    for n in range(6):
        (cache / f"{n}.index").write_bytes(b"x" * 1000)
        os.utime(cache / f"{n}.index", (n, n))
    monkeypatch.setattr(remembered, "LIMIT", 5000)
    monkeypatch.setattr(remembered, "_pruned", set())
    log = write(tmp_path / "log.jsonl", [MADE.trial(0, MADE.plan.default, 1e-3)])
    told(log)
    left = list(cache.iterdir())
    assert sum(path.stat().st_size for path in left) <= 2500
    assert not (cache / "0.index").exists()
