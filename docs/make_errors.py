"""Writes `docs/errors.md` from the refusal codes in the code; `make docs` runs it and a test compares."""

from __future__ import annotations

from pathlib import Path

from tensorlang.schedules.directive import CODES

PAGE = Path(__file__).with_name("errors.md")
HEAD = """\
# Refusals of the scheduling language

Every `ScheduleError` has a stable `code`. The first digit says what kind of refusal it is: 0 names and arguments, 1 dependences and
order, 2 budgets and shapes, 3 placement. This page is made by `make docs`.

| code | the step was refused because |
| --- | --- |
"""


def page() -> str:
    """The text of the page."""
    return HEAD + "".join(f"| `{code}` | {meaning} |\n" for code, meaning in sorted(CODES.items()))


if __name__ == "__main__":
    PAGE.write_text(page())
