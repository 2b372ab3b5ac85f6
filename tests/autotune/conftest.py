"""Fixtures of several tests of the tuner."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import tensorlang as tl
from tensorlang.autotune.jobs import session
from tensorlang.autotune.log.log import Log
from tests.autotune.answering import Answering


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A log that is not there yet."""
    return Log(tmp_path / "a.jsonl")


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Kernels run on one thread."""
    before = tl.get_threads()
    tl.set_threads(1)
    yield
    tl.set_threads(before)


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates are answered for at once."""
    monkeypatch.setattr(session, "LocalEvaluator", Answering)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of logs is not left in the folder of whoever runs the tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
