"""What the page is made of, as values: figures, their keys and tables. `templates/parts.html` says how each looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a head; the columns at `numbers` are set flush right."""

    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    numbers: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """What a mark of a chart means; `kind` is its class in the style sheet."""

    shape: Literal["dot", "line", "band", "cross", "diamond"]
    kind: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its title (`aside` at its other end), caption and key; `table` is shown, `numbers` are folded.

    `instead` says why there is no chart; `kind` is a class of the style sheet.
    """

    title: str
    chart: Markup | None = None
    caption: str = ""
    aside: str = ""
    key: Sequence[Mark] = ()
    table: Table | None = None
    numbers: Table | None = None
    instead: str = ""
    kind: str = ""
