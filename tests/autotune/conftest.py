"""Fixtures of several tests of the tuner."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import tensorlang as tl
from tensorlang.autotune.jobs import tune as tuning
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.settings import Settings


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


@pytest.fixture(scope="session")
def brief() -> Policy:
    """Few and short samples, and finalists that are measured in one process: for jobs of which something else than times is claimed."""
    return Policy(sample_s=1e-4, least=3, most=5, rounds=6, processes=1)


@pytest.fixture
def brief_jobs(brief: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever tunes in this process measures briefly."""
    monkeypatch.setattr(tuning, "Settings", partial(Settings, policy=brief))


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of logs is not left in the folder of whoever runs the tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
