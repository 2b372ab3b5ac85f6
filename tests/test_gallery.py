"""Every program of the gallery runs, compares what it computes with another library, and has its paragraph."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

import tensorlang as tl

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SCRIPTS = [path for path in EXAMPLES if "__main__" not in path.read_text()]  # the others have tests of their own


@pytest.fixture(autouse=True)
def _same_threads() -> Iterator[None]:
    before = tl.get_threads()
    yield
    tl.set_threads(before)


@pytest.mark.slow
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_finds_what_another_library_finds_and_says_so(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "np.testing.assert_" in path.read_text() or re.search(r"^\s*assert ", path.read_text(), re.MULTILINE)
    runpy.run_path(str(path))
    assert capsys.readouterr().out.count("\n") >= 3


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_what_it_shows_and_how_it_is_run(path: Path) -> None:
    head = path.read_text().split('"""')[1]
    assert f"\n    python examples/{path.name}" in head
    assert head.count("\n") <= 10


def test_the_gallery_has_a_paragraph_for_each_example() -> None:
    page = (ROOT / "docs" / "gallery.md").read_text()
    assert sorted(re.findall(r"^\[[^\]]+\]\(\.\./examples/(\w+\.py)\)", page, re.MULTILINE)) == [path.name for path in EXAMPLES]
