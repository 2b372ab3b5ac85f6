"""The site has every page and every public name, and is built without a warning."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tensorlang as tl
from docs import hooks
from tensorlang import autotune, graph, kernels
from tensorlang.schedules.catalogue import DIRECTIVES

ENTRIES = {name for page in (hooks.DOCS / "api").glob("*.md") for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)}


def test_every_page_is_in_the_navigation_once() -> None:
    found = [entry for section in hooks.navigation().values() for entry in section.values()]
    listed = [page for entry in found for page in (entry if isinstance(entry, list) else [entry])]
    own = [page for page in listed if page.is_relative_to(hooks.DOCS)]
    assert sorted([*own, hooks.DOCS / "index.md"]) == sorted(hooks.DOCS.rglob("*.md"))


@pytest.mark.parametrize("module", [tl, tl.ops, autotune, kernels, graph, graph.pattern, graph.passes], ids=lambda module: module.__name__)
def test_every_public_name_has_an_entry(module: ModuleType) -> None:
    wanted = {f"{module.__name__}.{name}" for name in module.__all__ if not isinstance(getattr(module, name), ModuleType)}
    assert wanted <= ENTRIES


def test_every_directive_has_an_entry() -> None:
    assert {kind.__module__ for kind in DIRECTIVES.values()} <= ENTRIES
    text = (hooks.DOCS / "api" / "directives.md").read_text()
    assert all(re.search(rf"\b{kind.__name__}\b", text) for kind in DIRECTIVES.values())


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_every_entry_is_of_something_that_exists(name: str) -> None:
    pkgutil.resolve_name(name)


def test_links_that_leave_the_pages_lead_to_pages_that_show_the_file() -> None:
    text = "[all](../examples), [one](../examples/photo.py), [a page](kernel.md#calling) and [the web](https://example.org)"
    shown = "[all](source/examples/index.md), [one](source/examples/photo.py.md), [a page](kernel.md#calling) and [the web](https://example.org)"
    assert hooks.rewritten(text, hooks.DOCS / "page.md") == shown
    assert hooks.rewritten("[up](../../examples/photo.py)", hooks.DOCS / "api" / "page.md") == "[up](../source/examples/photo.py.md)"


def test_code_is_shown_as_it_is() -> None:
    text = "```\n[not a link](../README.md)\n```\n"
    assert hooks.rewritten(text, hooks.DOCS / "page.md") == text
    assert list(hooks.linked(text, hooks.DOCS / "page.md")) == []


def test_what_a_page_brings_in_brings_in_what_it_links_to() -> None:
    found = hooks.brought([hooks.DOCS / "index.md"])
    assert "](../tutorial.md)" in found["source/README.md"]
    assert "def sobel" in found["source/examples/photo.py.md"]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is missing: pip install -e '.[site]'")
def test_the_site_is_built_without_a_warning_and_asks_nothing_of_other_hosts(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    built = subprocess.run(
        command, cwd=hooks.ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    schedules = (tmp_path / "api" / "schedules.html").read_text()
    assert 'id="tensorlang.Schedule.split"' in schedules
    assert 'href="directives.html#tensorlang.schedules.directives.split"' in schedules
    for page in tmp_path.rglob("*.html"):
        assert not re.search(r"<(script|img|iframe)[^>]*src=.?https?:|<link[^>]*stylesheet[^>]*https?:", page.read_text()), page
