"""The parts that are a page's own: one document with its style inside, figures with their numbers as tables, tiles.

Everything that comes from a log goes through `escape` here or in the charts. The page asks for nothing from anywhere, runs no script,
and its colours follow the reader's scheme.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from tensorlang.autotune.reporting.style import STYLE
from tensorlang.system.markup import folded


def document(title: str, body: str) -> str:
    """A whole page."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<link rel="icon" href="data:,"><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n'
    )


def figure(title: str, svg: str, caption: str = "", *, aside: str = "", key: str = "", numbers: str = "", kind: str = "") -> str:
    """A chart with its title, caption and, folded, its numbers."""
    head = f"<h4><span>{escape(title)}</span>{f'<span>{escape(aside)}</span>' if aside else ''}</h4>"
    told = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure{f' class={kind}' if kind else ''}>{head}{svg}{key}{told}{folded('the numbers', numbers) if numbers else ''}</figure>"


def key(entries: Iterable[tuple[str, str, str]]) -> str:
    """What the marks mean: (shape, class, meaning) with the shapes dot, line, band and cross."""
    shapes = {
        "dot": '<circle class="{}" cx="11" cy="6" r="4"/>',
        "line": '<path class="{}" d="M0 6H22"/>',
        "band": '<path class="{}" d="M0 1H22V11H0Z"/>',
        "cross": '<path class="{}" d="M11 1V11"/>',
        "diamond": '<path class="{} mark" d="M11 0l6 6l-6 6l-6 -6z"/>',
    }
    items = (
        f'<li><svg viewBox="0 0 22 12" aria-hidden="true">{shapes[shape].format(kind)}</svg>{escape(text)}</li>'
        for shape, kind, text in entries
    )
    return f'<ul class="key">{"".join(items)}</ul>'


def tiles(entries: Iterable[tuple[str, str, str]]) -> str:
    """The numbers that matter, each with its name and what to know of it; the first stands out."""
    cards = (
        f'<div class="tile{"" if place else " main"}"><span>{escape(name)}</span><b>{escape(value)}</b><span>{escape(note)}</span></div>'
        for place, (name, value, note) in enumerate(entries)
    )
    return f'<div class="tiles">{"".join(cards)}</div>'
