"""Every technique of the page of rows has an example that runs, is short, and compares what it computes."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

import tensorlang as tl

ROOT = Path(__file__).resolve().parents[1]
ROWS = sorted((ROOT / "examples" / "rows").glob("*.py"))
EXTRAS = ("torch", "onnx", "tvm_ffi")


def marks(path: Path) -> list[pytest.MarkDecorator]:
    """The extras that an example imports."""
    return [pytest.mark.extras(name) for name in EXTRAS if re.search(rf"^import {name}\b", path.read_text(), re.MULTILINE)]


@pytest.fixture(autouse=True)
def _same_threads() -> Iterator[None]:
    before = tl.get_threads()
    yield
    tl.set_threads(before)


@pytest.mark.filterwarnings("ignore")  # torch's own
@pytest.mark.parametrize("path", [pytest.param(path, marks=marks(path)) for path in ROWS], ids=lambda path: path.stem)
def test_a_row_runs_and_says_something(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path))
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("path", ROWS, ids=lambda path: path.stem)
def test_a_row_is_short_and_compares_what_it_computes(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert 10 <= len(lines) <= 40
    assert any(re.search(r"^\s*assert |assert_allclose|assert_array_equal|assert_close|assert_pass", line) for line in lines)


def test_the_page_lists_each_row_once() -> None:
    listed = re.findall(r"\(\.\./examples/rows/(\w+)\.py\)", (ROOT / "docs" / "rows.md").read_text())
    assert sorted(listed) == [path.stem for path in ROWS]
