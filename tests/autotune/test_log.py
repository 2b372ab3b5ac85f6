"""A log keeps every whole record, whatever happens to the lines around it."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from bench import log_faults
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.merge import merge
from tensorlang.autotune.log.record import SCHEMA, RecordParser, Trial, from_line, to_line
from tensorlang.autotune.log.scan import LONGEST
from tensorlang.errors import LogError
from tests.work import work


def fields(n: int, **changes: Any) -> dict[str, Any]:
    return {
        "kind": "trial",
        "id": f"id-{n}",
        "seq": n,
        "config": {"mr": n, "order": ["i", "j"]},
        "status": "ok",
        "samples": [2e-3, 1e-3],
        "median": 1.5e-3,
        "mad": 5e-4,
        "schedule": None,
        "source": "random",
        "censored": False,
        "compile_s": 0.1,
        "run_s": 0.2,
        "wall_s": 0.4,
        "task": {"op": "matmul", "fingerprint": "f"},
        "target": {"cpu": "znver4", "features": []},
        "threads": 1,
        "cache": "warm",
        "error": None,
        **changes,
    }


def written(path: Path, count: int = 5) -> Log:
    log = Log(path)
    for n in range(count):
        log.append(fields(n))
    return log


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    trials = list(written(tmp_path / "a.jsonl"))
    assert [trial.id for trial in trials] == [f"id-{n}" for n in range(5)]
    assert trials[3].time == 1e-3 and trials[3].config == {"mr": 3, "order": ["i", "j"]} and trials[3].status == "ok"
    with pytest.raises(AttributeError):
        trials[0].status = "crash"  # type: ignore[misc]


def test_every_line_is_plain_json(tmp_path: Path) -> None:
    log = written(tmp_path / "a.jsonl")
    assert all(json.loads(line)["v"] == SCHEMA for line in log.path.read_text().splitlines())


def test_every_truncation_keeps_the_records_before_it_and_the_next_append_survives(tmp_path: Path) -> None:
    whole = written(tmp_path / "a.jsonl", 3).path.read_bytes()
    start = whole.rstrip(b"\n").rindex(b"\n") + 1
    for cut in range(start, len(whole), 7):
        path = tmp_path / "cut.jsonl"
        path.write_bytes(whole[:cut])
        log = Log(path)
        log.append(fields(9))
        ids = [trial.id for trial in log]
        assert ids in (["id-0", "id-1", "id-9"], ["id-0", "id-1", "id-2", "id-9"])
        assert len(log.problems) == (ids[2] == "id-9" and cut > start)


def test_a_mutated_byte_costs_at_most_the_record_that_it_is_part_of(tmp_path: Path) -> None:
    outcome = log_faults.mutated_bytes(tmp_path, times=150)
    assert outcome.survived, outcome


def test_concurrent_writers_lose_nothing(tmp_path: Path) -> None:
    outcome = log_faults.writers(tmp_path, processes=3, each=50)
    assert outcome.survived, outcome


def test_a_writer_that_is_killed_loses_nothing_that_was_appended(tmp_path: Path) -> None:
    outcome = log_faults.killed_writers(tmp_path, times=5)
    assert outcome.survived, outcome


def test_a_disk_that_fills_up_in_mid_record_costs_that_record_alone(tmp_path: Path) -> None:
    outcome = log_faults.full_disk(tmp_path, times=12)
    assert outcome.survived, outcome


def test_a_mutation_never_changes_what_a_record_says(tmp_path: Path) -> None:
    whole = written(tmp_path / "a.jsonl", 4).path.read_bytes()
    good = {trial.id: trial for trial in Log(tmp_path / "a.jsonl")}
    rng = random.Random(0)
    path = tmp_path / "hurt.jsonl"
    for _ in range(200):
        hurt = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            hurt[rng.randrange(len(hurt))] = rng.randrange(256)
        path.write_bytes(hurt)
        assert all(good[trial.id] == trial for trial in Log(path))


GAP = b"\0" * 4096


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"", b""), (GAP, b""), (b"", GAP), (to_line(fields(8))[:200], b""), (to_line(fields(8))[:200], b"\xff"), (b'{"v":{"v":', b'{"v":')],
)
def test_whole_records_inside_a_broken_line_are_found_by_their_checksums(tmp_path: Path, before: bytes, after: bytes) -> None:
    lines = [to_line(fields(n))[:-1] for n in range(3)]
    path = tmp_path / "a.jsonl"
    path.write_bytes(before + lines[0] + lines[1] + after + b"\n" + lines[2] + b"\n")
    log = Log(path)
    assert [trial.id for trial in log] == ["id-0", "id-1", "id-2"]
    (problem,) = log.problems
    assert (problem.line, problem.offset) == (1, 0)
    assert "2 whole records" in problem.reason


def test_a_hostile_line_is_looked_at_a_bounded_number_of_times_however_long_it_is(tmp_path: Path) -> None:
    mark = b',"sum":"0123456789abcdef"}'

    def hostile(length: int) -> Log:
        path = tmp_path / f"{length}.jsonl"
        lines = (b'{"v":' * 6 * length, mark * 2 * length, b'{"v":1' + (b'{"v":' + mark) * length, to_line(fields(0)))
        path.write_bytes(b"\n".join(lines))
        return Log(path)

    short, long = hostile(5_000), hostile(50_000)
    assert [trial.id for trial in long] == ["id-0"]
    assert work(lambda: list(long)) == work(lambda: list(short))


@pytest.mark.parametrize(
    ("junk", "reason"),
    [
        (b"\n", "blank"),
        (b"\0\0\0\n", "NUL"),
        (b"\xff\xfe\n", "torn or foreign"),
        (b"{not json}\n", "torn or foreign"),
        (b"[" * 200_000 + b"\n", "torn or foreign"),
        (to_line({"kind": "weather"}), "not a record"),
        (to_line(fields(7)).replace(b'"seq":7', b'"seq":8'), "checksum does not match"),
        (to_line(fields(7, status="sunny")), "unknown status"),
        (to_line(fields(7, samples=[])), "without positive times"),
        (to_line(fields(7, samples=[-1.0])), "without positive times"),
        (to_line(fields(7, config=3)), "config is 3"),
        (to_line(fields(7, median="fast")), "median is 'fast'"),
        (to_line(fields(7, mad=[])), "mad is []"),
        (to_line(fields(7, samples="1")), "samples is '1'"),
        (to_line(fields(7, samples=["1"])), "a sample is '1'"),
        (to_line(fields(7, samples=[10**400])), "a sample is 1000"),
        (to_line(fields(7, schedule=["split"])), "schedule is ['split']"),
        (to_line(fields(7, wall_s=True)), "wall_s is True"),
        (to_line(fields(7, seq=7.0)), "a malformed trial: seq is 7.0"),
        (to_line(fields(7, run_s=1 << 53)), "a malformed trial: run_s is 9007199254740992"),
        (to_line({name: value for name, value in fields(7).items() if name != "cache"}), "a trial without 'cache'"),
        (to_line(fields(7, id=["id-0"])), "id is no text"),
        (to_line({"kind": "run_end", "id": {}}), "id is no text"),
        (to_line({"kind": "trial", "id": "x", "samples": [], "status": "ok"}), "without"),
    ],
)
def test_a_line_that_is_no_record_is_skipped_and_reported_by_position(tmp_path: Path, junk: bytes, reason: str) -> None:
    path = written(tmp_path / "a.jsonl", 2).path
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + junk + lines[1])
    log = Log(path)
    assert [trial.id for trial in log] == ["id-0", "id-1"]
    (problem,) = log.problems
    assert problem.line == 2 and problem.offset == len(lines[0]) and reason in problem.reason


def checksummed(body: bytes) -> bytes:
    line = to_line({"kind": "trial"})
    from tensorlang.autotune.log import record

    return body + line[-27:-19] + record._digest(body) + b'"}\n'


@pytest.mark.parametrize(
    "body",
    [
        b'{"v":1,"kind":"trial","x":NaN',
        b'{"v":1,"kind":"trial","x":"\\ud800"',
        b'{"v":1,"kind":"trial","x":' + b"1" * 5000,
        b'{"v":1,"kind":"trial","x":' + b"[" * 100_000,
        b'{"v":9,"kind":"trial"',
        b'{"x":"\xff"',
    ],
)
def test_a_hostile_line_with_a_right_checksum_is_still_refused(body: bytes) -> None:
    with pytest.raises(ValueError):
        from_line(checksummed(body))


def test_nan_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        Log(tmp_path / "a.jsonl").append(fields(0, median=float("nan")))


def test_an_endless_line_is_skipped_in_bounded_memory(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", 1).path
    with path.open("ab") as file:
        file.truncate(path.stat().st_size + 3 * LONGEST)
    log = Log(path)
    log.append(fields(1))
    assert [trial.id for trial in log] == ["id-0", "id-1"]
    assert "more than" in log.problems[0].reason


def test_a_repeated_record_counts_once(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", 2).path
    path.write_bytes(path.read_bytes() * 3)
    assert len(list(Log(path))) == 2


def test_an_id_that_comes_back_with_other_content_is_reported_and_the_first_counts(tmp_path: Path) -> None:
    log = written(tmp_path / "a.jsonl", 2)
    log.append(fields(0, seq=9))
    assert [(trial.id, trial.seq) for trial in log] == [("id-0", 0), ("id-1", 1)]
    (problem,) = log.problems
    assert problem.line == 3
    assert "with other content" in problem.reason


def test_what_lines_share_is_parsed_once_and_says_the_same(tmp_path: Path) -> None:
    lines = log_faults.FIXTURE.with_name(f"v{SCHEMA}.jsonl").read_bytes().splitlines()
    read = RecordParser()
    records = [read(line) for line in lines]
    assert records == [json.loads(line[: -len(',"sum":"0123456789abcdef"}')] + b"}") for line in lines]
    assert records[0]["task"] is records[1]["task"]


@pytest.mark.parametrize(
    "own",
    [
        {"config": {"kind": "trial", "target": {"a": 1}}, "task": {"x": [{"a": 1, "kind": "stage"}, {"b": 2, "target": {}}]}},
        {"task": {"kind": "x"}, "target": {"y": {"kind": "z", "target": {}}}},
        {"task": {"op": 'a","kind":"trial'}},
        {"run": 'a","task":{},"kind":"trial'},
        {"time_unix": 1.5e9, "run": ""},
        {"task": {}, "target": {}, "extra": {"task": 1}},
    ],
)
def test_a_record_reads_the_same_however_its_parts_are_spelled(own: dict[str, Any]) -> None:
    record = fields(0, **own)
    assert from_line(to_line(record)) == {"v": SCHEMA, **record}


def test_a_key_that_comes_twice_counts_as_in_any_json(tmp_path: Path) -> None:
    body = b'{"v":1,"id":"x","run":"y","time_unix":1.0,"task":{"a":1},"target":{},"kind":"run_end","task":{"a":2}'
    assert from_line(checksummed(body))["task"] == {"a": 2}


def test_half_a_character_in_a_message_does_not_lose_the_record(tmp_path: Path) -> None:
    log = Log(tmp_path / "a.jsonl")
    log.append(fields(0, error={"type": "OSError", "message": "caf\udce9"}))
    (trial,) = log
    assert trial.why == "OSError: caf?"


def test_a_record_that_is_not_json_is_refused_and_the_log_stays_whole(tmp_path: Path) -> None:
    log = written(tmp_path / "a.jsonl", 1)
    with pytest.raises(ValueError, match="not JSON"):
        log.append(fields(1, config={"a": {1, 2}}))
    assert len(list(log)) == 1
    assert not log.problems


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_may_not_be_written_is_a_log_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(LogError, match="Permission denied"):
        Log(tmp_path / "a.jsonl").append(fields(0))


def test_a_read_only_file_system_is_a_log_error() -> None:
    with pytest.raises(LogError, match="cannot append to"):
        Log("/proc/a.jsonl").append(fields(0))
    with pytest.raises(LogError, match="cannot write the log"):
        Log("/proc/logs/").of_task("matmul", "f" * 64)


def test_a_disk_that_does_not_take_what_was_written_is_a_log_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("tensorlang.autotune.log.log.os.fdatasync", fail)
    with pytest.raises(LogError, match="Input/output error"):
        Log(tmp_path / "a.jsonl").append(fields(0))


def test_without_locks_a_torn_append_leaves_what_others_wrote_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, other = written(tmp_path / "a.jsonl", 1), Log(tmp_path / "a.jsonl")
    monkeypatch.setattr("tensorlang.autotune.log.log._lock", lambda descriptor: False)
    write = os.write

    def torn(descriptor: int, data: bytes) -> int:
        monkeypatch.setattr("tensorlang.autotune.log.log.os.write", write)
        written = write(descriptor, data[:100])
        other.append(fields(7))
        return written

    monkeypatch.setattr("tensorlang.autotune.log.log.os.write", torn)
    with pytest.raises(LogError, match="No space left after 100 of"):
        log.append(fields(1))
    log.append(fields(2))
    assert [trial.id for trial in log] == ["id-0", "id-7", "id-2"]


def test_a_file_that_vanishes_from_a_folder_is_a_problem_and_from_a_path_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        written(tmp_path / f"{name}.jsonl", 1)
    monkeypatch.setattr(Log, "files", lambda self: [tmp_path / "gone.jsonl", tmp_path / "b.jsonl"])
    folder, one = Log(tmp_path), Log(tmp_path / "a.jsonl")
    assert len(list(folder)) == 1
    assert "No such file" in str(folder.problems[0])
    with pytest.raises(LogError, match="cannot read .*gone.*No such file"):
        list(one)


def test_a_log_that_vanishes_while_a_job_runs_goes_on_in_a_new_file(tmp_path: Path) -> None:
    log = written(tmp_path / "a.jsonl", 1)
    log.path.unlink()
    log.append(fields(1))
    assert [trial.id for trial in log] == ["id-1"]


def test_a_device_or_a_pipe_holds_no_records(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    for path in (tmp_path / "pipe.jsonl", "/dev/zero", tmp_path):
        assert list(Log(path)) == []


def test_a_full_disk_is_a_log_error() -> None:
    with pytest.raises(LogError, match="No space left"):
        Log("/dev/full").append(fields(0))


def test_a_file_that_is_missing_or_a_folder_that_cannot_be_made_is_a_log_error(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="no log at"):
        list(Log(tmp_path / "missing.jsonl"))
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError, match="cannot write"):
        Log(tmp_path / "file" / "a.jsonl").of_task("matmul", "f" * 64)


def test_a_vanished_folder_is_reported_with_what_was_kept(tmp_path: Path) -> None:
    log = Log(tmp_path / "deep" / "a.jsonl").of_task("matmul", "f" * 64)
    log.append(fields(0))
    log.path.unlink()
    log.path.parent.rmdir()
    with pytest.raises(LogError, match="the 1 records of this run"):
        log.append(fields(1))


def test_a_folder_holds_one_file_for_each_task(tmp_path: Path) -> None:
    folder = Log(f"{tmp_path}/logs/")
    for n, task in enumerate(("a" * 64, "b" * 64)):
        folder.of_task("mat/mul", task).append(fields(n))
    assert [path.name for path in Log(tmp_path / "logs").files()] == [f"mat-mul-{'a' * 12}.jsonl", f"mat-mul-{'b' * 12}.jsonl"]
    assert len(list(Log(tmp_path / "logs"))) == 2


def test_the_noise_of_a_trial_estimates_a_relative_standard_deviation() -> None:
    trial = Trial.of(fields(0, median=1.0, mad=0.1))
    assert trial.noise == pytest.approx(0.14826)


@pytest.mark.parametrize("text", ['{"v": 1, "mine": 2}\n', '{"v":2}', "\0" * 8 + "PROGRAM", "\n" * 70000 + "x = 1\n", "def f(): ...\n"])
def test_a_file_of_something_else_is_neither_appended_to_nor_merged_into(tmp_path: Path, text: str) -> None:
    """Also where it begins as a log might."""
    path, source = tmp_path / "mine", tmp_path / "source.jsonl"
    path.write_text(text)
    source.write_text("")
    with pytest.raises(LogError, match="is no tuning log"):
        Log(path).append({"kind": "trial"})
    with pytest.raises(LogError, match="is no tuning log"):
        merge([source], path)
    assert path.read_text() == text
