"""What the directives make of a nest, and what the default schedules are, changes on purpose only."""

from __future__ import annotations

import pytest

from tensorlang.schedules.catalogue import DIRECTIVES, NAMES
from tests.goldens.steps import SCHEDULES
from tests.goldens.texts import TEXTS, UPDATE, changed, written


@pytest.mark.parametrize("file", TEXTS)
def test_a_text_is_as_it_was_read_last(file: str) -> None:
    difference = changed(file, TEXTS[file]())
    if difference:
        pytest.fail(f"{difference}\nWhere this is meant, `{UPDATE}` writes it.", pytrace=False)


def test_every_directive_and_every_operator_has_a_file_and_no_other_file_is_there() -> None:
    assert written() == set(TEXTS), f"`{UPDATE}` writes and removes what differs"


def test_the_text_of_a_directive_is_about_that_directive() -> None:
    assert list(SCHEDULES) == list(DIRECTIVES)
    assert [steps[-1][0] for _, steps in SCHEDULES.values()] == list(NAMES.values())


def test_a_text_that_differs_is_shown_as_a_diff() -> None:
    file = "directives/split.txt"
    found = changed(file, TEXTS[file]().replace("range(13)", "range(14)"))
    assert (
        found.startswith("--- tests/goldens/directives/split.txt\n+++ now\n")
        and "-        for j in range(13):\n+        for j in range(14):\n" in found
    )
