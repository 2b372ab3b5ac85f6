"""A log keeps every whole record, whatever happens to the lines around it."""

import json
import multiprocessing
import random
from pathlib import Path
from typing import Any

import pytest

from tensorlang.autotune.log import LONGEST, Log
from tensorlang.autotune.record import SCHEMA, Trial, from_line, to_line
from tensorlang.errors import LogError


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


def test_a_mutated_byte_costs_at_most_the_lines_it_touches(tmp_path: Path) -> None:
    whole = written(tmp_path / "a.jsonl", 4).path.read_bytes()
    good = {trial.id: trial for trial in Log(tmp_path / "a.jsonl")}
    rng = random.Random(0)
    path = tmp_path / "hurt.jsonl"
    for _ in range(400):
        hurt = bytearray(whole)
        hurt[rng.randrange(len(hurt))] = rng.randrange(256)
        path.write_bytes(hurt)
        kept = list(Log(path))
        assert len(kept) >= 2 and all(good[trial.id] == trial for trial in kept)


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
    from tensorlang.autotune import record

    return body + line[-27:-19] + record._digest(body) + b'"}\n'


@pytest.mark.parametrize(
    "body", [b'{"v":1,"kind":"trial","x":NaN', b'{"v":1,"kind":"trial","x":' + b"[" * 100_000, b'{"v":9,"kind":"trial"', b'{"x":"\xff"']
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


def _write_many(path: str, writer: int) -> None:
    log = Log(path)
    for n in range(100):
        log.append(fields(n, id=f"{writer}-{n}"))


def test_concurrent_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(str(path), writer)) for writer in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    log = Log(path)
    assert len({trial.id for trial in log}) == 400 and not log.problems


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
