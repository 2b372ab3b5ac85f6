"""Whatever is given to a public entry, it answers or raises a `TensorlangError`; what a user's own function raises passes through."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import tensorlang as tl
from tensorlang.autotune.jobs.session import Session
from tensorlang.codegen.runtime.workspaces import get_workspace_limit
from tests.arguments import DIRECTIVES, Entry, Own, calls, entries
from tests.draws import examples

ENTRIES: Final = entries()


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Files go to a folder of their own, nothing is measured, and what holds for the whole process is put back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Session, "run", lambda _self, _progress: None)
    threads, limit = tl.get_threads(), get_workspace_limit()
    yield
    tl.set_threads(threads)
    tl.set_workspace_limit(limit)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
@settings(examples(3), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_only_our_errors_come_out(entry: Entry, data: st.DataObject) -> None:
    function = entry.make()
    args, options = data.draw(calls(DIRECTIVES.get(entry.name, function)), "arguments")
    if entry.name in DIRECTIVES:
        options |= dict(zip(DIRECTIVES[entry.name].__dataclass_fields__, args, strict=False))  # type: ignore[attr-defined]
        args = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = function(*args, **options)
            repr(result)
    except (tl.TensorlangError, Own):
        pass
