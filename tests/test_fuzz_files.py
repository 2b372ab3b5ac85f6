"""The fuzzer of file contents in small, and what its verdicts rest on."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tensorlang as tl
from tests.fuzz import contents, mutate
from tests.fuzz.files import SHARE, subject_of

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("count", [30, pytest.param(300, marks=pytest.mark.slow)])
def test_mutated_files_are_read_or_refused(count: int) -> None:
    words = [sys.executable, "-m", "tests.fuzz.files", "--mutations", str(count), "--seed", "20"]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert found.returncode == 0, found.stdout + found.stderr


def test_each_hundred_holds_every_kind_of_file() -> None:
    assert Counter(map(subject_of, range(100))) == Counter(SHARE)
    assert set(SHARE) == set(contents.SUBJECTS)


@pytest.mark.parametrize("subject", contents.SUBJECTS)
def test_a_mutation_is_the_same_every_time_and_differs_from_the_file(subject: str, tmp_path: Path) -> None:
    assert contents.mutation(subject, 0, 5) == contents.mutation(subject, 0, 5)
    assert len({contents.mutation(subject, 0, number) for number in (1, 2, 5, 8)}) > 1
    plain = contents.SUBJECTS[subject].mutated(random.Random(1), [])
    contents.SUBJECTS[subject].read(random.Random(1), plain, tmp_path)


def test_a_raw_error_is_a_failure_and_a_typed_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(error: Exception) -> None:
        def fail(*_: object) -> None:
            raise error

        monkeypatch.setitem(contents.SUBJECTS, "job", contents.Subject(contents.mutated_job, fail))

    read(tl.BuildError("refused"))
    assert contents.judged("job", 0, 1) is None
    read(KeyError("name"))
    kind, text = contents.judged("job", 0, 1) or ("", "")
    assert kind.startswith("KeyError at test_fuzz_files.py")
    assert "'name'" in text


def test_any_depth_can_be_written() -> None:
    assert mutate.written(["a", mutate.DEEP + "100000"]).count(b"[") == 100_001
