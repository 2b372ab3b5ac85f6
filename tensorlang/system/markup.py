"""The pieces of HTML that displays share: tables, facts, code, loop nests, what opens on a click.

Every text goes through `escape` here. A piece asks for nothing from anywhere and runs no script. A notebook shows pieces in a `display`,
whose colours are those of its surroundings, so that it is as readable on a dark page as on a light one; pages have a style of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

STYLE: Final = (
    ".tensorlang{font-size:.9em;line-height:1.45;color:inherit}"
    ".tensorlang pre{margin:.4em 0;padding:.5em .8em;overflow-x:auto;white-space:pre;color:inherit;font-size:.96em;"
    "background:rgba(128,128,128,.09);border:1px solid rgba(128,128,128,.3);border-radius:6px}"
    ".tensorlang pre b{font-weight:650}.tensorlang pre i,.tensorlang .soft,.tensorlang dt{opacity:.66;font-style:normal}"
    ".tensorlang p{margin:.4em 0;max-width:62em}.tensorlang .title{font-weight:650}"
    ".tensorlang table{border-collapse:collapse;margin:.4em 0;color:inherit;font-variant-numeric:tabular-nums}"
    ".tensorlang th,.tensorlang td{text-align:left;vertical-align:top;padding:.15em 1em .15em 0;border:0;"
    "border-bottom:1px solid rgba(128,128,128,.3);background:none;color:inherit}"
    ".tensorlang th.n,.tensorlang td.n{text-align:right;white-space:nowrap}.tensorlang .scroll{overflow-x:auto}"
    ".tensorlang dl{display:grid;grid-template-columns:max-content 1fr;gap:.1em 1em;margin:.4em 0}.tensorlang dd{margin:0}"
    ".tensorlang summary{cursor:pointer}"
)
_KIND: Final = re.compile(r"(\s*)(parallel|vector|unroll|tensor)\b(.*)", re.DOTALL)


def display(*parts: str) -> str:
    """What a notebook shows: pieces of HTML one below the other, with their style."""
    return f'<div class="tensorlang"><style>{STYLE}</style>{"".join(parts)}</div>'


def title(text: str) -> str:
    """What is shown, in a line."""
    return paragraph(text, "title")


def paragraph(text: str, kind: str = "") -> str:
    """Words."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def code(text: str) -> str:
    """Text as it stands, in letters of one width."""
    return f"<pre>{escape(text)}</pre>"


def nest(text: str) -> str:
    """A loop nest as it prints: how its loops run stands out, what explains them stands back."""
    return f"<pre>{chr(10).join(map(_line, text.split(chr(10))))}</pre>"


def _line(line: str) -> str:
    said, mark, note = line.rpartition(" # ")
    if not mark:
        said, note = line, ""
    kind = _KIND.fullmatch(said)
    told = f"{kind[1]}<b>{kind[2]}</b>{escape(kind[3])}" if kind else escape(said)
    return f"{told}<i>{mark}{escape(note)}</i>" if mark else told


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Sequence[int] = ()) -> str:
    """A table; the columns at `numbers` are set flush right."""

    def cell(tag: str, at: int, value: object) -> str:
        kind = ' class="n"' if at in numbers else ' class="long"' if tag == "td" else ""
        return f"<{tag}{kind}>{escape(str(value))}</{tag}>"

    top = "".join(cell("th", at, name) for at, name in enumerate(head))
    body = "".join("<tr>" + "".join(cell("td", at, value) for at, value in enumerate(row)) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def facts(entries: Iterable[tuple[str, str]]) -> str:
    """Names and values, one a line; empty ones are left out."""
    lines = (f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in entries if value)
    return f'<dl class="facts">{"".join(lines)}</dl>'


def folded(summary: str, inside: str, *, unfolded: bool = False) -> str:
    """What opens, or closes, on a click, without a script."""
    return f"<details{' open' if unfolded else ''}><summary>{escape(summary)}</summary>{inside}</details>"
