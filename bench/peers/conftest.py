"""What a session of the suites asks for, so that each family's workloads share a worker."""

from __future__ import annotations

import pytest

from bench.peers import suite


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note the workloads that are left after -k and the like."""
    for item in session.items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            suite.selected(str(item.callspec.params["workload"]))
