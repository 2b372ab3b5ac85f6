"""What every test runs under: signals as at a terminal, the profile of property tests, strategies that are refused nothing.

Tests end child processes by signals, and a run in the background begins with SIGINT and SIGHUP ignored.

In the profile "ci", which is the default, a property is drawn the same few times in each run. In "campaign" it is drawn twenty times as
often, anew in each run: `make campaign`, or `python -m pytest -m hypothesis --hypothesis-profile=campaign --hypothesis-seed=N`.

Machines are as they ship: what somebody measured here decides no test (`TENSORLANG_MACHINE=off`, for the processes of tests too).

Each worker imports every file of tests, and few need the dear parts of SciPy: `import scipy` loads them on use.

A test of an extra is marked: `@pytest.mark.extras("torch")`. It is skipped where that cannot be imported; `make test-graphs` runs them all.

A strategy asks before a step that may be illegal, so a test in which one is refused fails, whatever else it tests; and so does one in which
a strategy breaks, for which a user would get plain loops.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tensorlang.codegen import compilation
from tensorlang.schedules.faults import Fault, unforeseen
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.space import Config
from tensorlang.schedules.strategies.program import ProgramStrategy
from tests.broken import broken
from tests.other_cpu import pretend

if TYPE_CHECKING:
    from tensorlang.autotune.measurement.measure import Policy

os.environ["TENSORLANG_MACHINE"] = "off"
if cpu := os.environ.get("TENSORLANG_TEST_CPU"):
    pretend(cpu)

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How long a draw takes says how busy the machine is: no deadline, and no complaint of slow generation.
_ALWAYS = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", _ALWAYS, derandomize=True, max_examples=50)
settings.register_profile("campaign", _ALWAYS, max_examples=1000, print_blob=True)
settings.load_profile("ci")

# A test makes many small objects beside the many of the libraries and of the collected tests: looking for cycles less often, and not at
# all among those that stay, saves about a twentieth of the time.
gc.set_threshold(50_000, 20, 20)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where tests of extras alone are asked for, files that have none are not imported."""
    wanted = config.option.markexpr not in ("extras", "extras and not slow") or collection_path.suffix != ".py"
    return None if wanted or "pytest.mark.extras(" in collection_path.read_text() else True


def pytest_collection_finish() -> None:
    """Leave what is loaded by now out of every later search for cycles."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs an extra that is not installed."""
    for mark in item.iter_markers("extras"):
        for name in mark.args:
            pytest.importorskip(name)


@pytest.fixture(autouse=True)
def strategy_faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Fault]]:
    """The steps that strategies were refused in a test, but for too much code; one that means to cause some empties the list."""
    found, real = list[Fault](), ProgramStrategy.schedule

    def schedule(self: ProgramStrategy, config: Config) -> Schedule:
        made = real(self, config)
        found.extend(unforeseen(made.faults))
        return made

    monkeypatch.setattr(ProgramStrategy, "schedule", schedule)
    monkeypatch.setattr(compilation, "plain_loops", broken)
    yield found
    assert not found, [str(fault) for fault in found]


@pytest.fixture(scope="session")
def brief() -> Policy:
    """Few and short samples, and finalists that are measured in one process: for jobs of which something else than times is claimed."""
    from tensorlang.autotune.measurement.measure import Policy

    return Policy(sample_s=1e-4, least=3, most=5, rounds=6, processes=1)


@pytest.fixture
def brief_jobs(brief: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever tunes or verifies in this process measures briefly."""
    from tensorlang.autotune.jobs import peak, tune
    from tensorlang.autotune.reporting import verify
    from tensorlang.autotune.settings import Settings

    monkeypatch.setattr(tune, "Settings", partial(Settings, policy=brief))
    monkeypatch.setattr(peak, "POLICY", brief)
    monkeypatch.setattr(verify, "Policy", partial(replace, brief))
