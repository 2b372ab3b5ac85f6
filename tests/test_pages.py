"""Every public name stands in some page."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

import tensorlang as tl
from tensorlang import graph, kernels

ROOT = Path(__file__).resolve().parents[1]
TEXT = "\n".join(page.read_text() for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])


def told(name: str) -> bool:
    """Does a page write a name as code?"""
    return re.search(rf"(`|[^`\w]tl\.|\.|tl\.ops\.){re.escape(name)}\b", TEXT) is not None


def operators() -> list[str]:
    return [name for name in dir(tl.ops) if not name.startswith("_") and not isinstance(getattr(tl.ops, name), ModuleType)]


@pytest.mark.parametrize("name", tl.__all__)
def test_every_public_name_stands_in_a_page(name: str) -> None:
    assert re.search(rf"tl\.{re.escape(name)}\b", TEXT)


@pytest.mark.parametrize("name", [name for name in dir(tl.Schedule) if not name.startswith("_")])
def test_every_method_of_a_schedule_stands_in_a_page(name: str) -> None:
    assert told(name)


@pytest.mark.parametrize("name", [name for name in dir(tl.Kernel) if not name.startswith("_") and name != "program"])
def test_every_method_of_a_kernel_stands_in_a_page(name: str) -> None:
    assert told(name)


@pytest.mark.parametrize("name", kernels.__all__)
def test_every_name_of_the_library_stands_in_a_page(name: str) -> None:
    assert re.search(rf"kernels\.{name}\b|`{name}`", TEXT)


@pytest.mark.parametrize("name", [*graph.__all__, *graph.pattern.__all__, *graph.passes.__all__])
def test_every_name_of_graphs_stands_in_a_page(name: str) -> None:
    assert re.search(rf"(graph|pm|passes)\.{name}\b|`{name}`", TEXT)


@pytest.mark.parametrize("name", [name for name in dir(graph.Graph) if not name.startswith("_")])
def test_every_method_of_a_graph_stands_in_a_page(name: str) -> None:
    assert told(name)


@pytest.mark.parametrize("name", operators())
def test_every_operator_stands_in_a_page(name: str) -> None:
    assert told(name)
