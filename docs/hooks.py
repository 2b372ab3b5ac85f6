"""What the site adds to the pages: its navigation, and the files outside `docs/` to which they link.

`docs/index.md` names every page once, so the navigation is read from it: a paragraph that begins in bold is a section, its links are the
pages, a folder stands for the pages in it. A link that leaves `docs/` works on a code host as it is; the site shows the file, or the list
of a folder's files, as a page below `source/`, and so on for what those pages link to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
SECTION = re.compile(r"^\*\*(.+?)\*\*:(.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
FENCE_OR_LINK = re.compile(r"^(`{3,}).*?^\1$|\[([^\]]+)\]\(([^)#\s:]+)(#[^)\s]*)?\)", re.MULTILINE | re.DOTALL)
SHOWN = {".md": "", ".py": "python", ".toml": "toml", ".sh": "bash"}
"""What a list of files shows, with the language of its code."""


def place(path: Path) -> str:
    """Where the site has a file or a folder of the repository: the page's path below `docs/`."""
    home = path.relative_to(DOCS) if path.is_relative_to(DOCS) else "source" / path.relative_to(ROOT)
    if path.is_dir():
        return str(home / "index.md")
    return str(home) if home.suffix == ".md" else f"{home}.md"


def linked(text: str, origin: Path) -> Iterator[tuple[str, Path]]:
    """The links of a page that stands at `origin` to what the repository has: their words, and where they lead."""
    for match in FENCE_OR_LINK.finditer(text):
        if match[3] and (path := (origin.parent / match[3]).resolve()).exists() and path.is_relative_to(ROOT):
            yield match[2], path


def rewritten(text: str, origin: Path) -> str:
    """The page at `origin` as the site has it: links lead to where things are there, sessions are coloured as sessions."""
    here = Path(place(origin)).parent

    def piece(match: re.Match[str]) -> str:
        if match[1]:
            return match[0].replace("```python\n>>> ", "```pycon\n>>> ", 1)
        path = (origin.parent / match[3]).resolve()
        target = os.path.relpath(place(path), here) if path.exists() and path.is_relative_to(ROOT) else match[3]
        return f"[{match[2]}]({target}{match[4] or ''})"

    return FENCE_OR_LINK.sub(piece, text)


def title(path: Path) -> str:
    """The heading of a page, else the name of a file."""
    return path.read_text().split("\n", 1)[0].removeprefix("# ") if path.suffix == ".md" else path.name


def text_of(path: Path) -> tuple[str, Path]:
    """A page that shows a file of the repository, or lists those of a folder, and where its links start."""
    name = path.relative_to(ROOT)
    if path.is_dir():
        inside = (each for each in sorted(path.iterdir()) if each.suffix in SHOWN and not each.name.startswith("_"))
        return f"# {name}/\n\n" + "".join(f"- [{title(each)}]({each.name})\n" for each in inside), path / "index.md"
    text = path.read_text()
    return (text if path.suffix == ".md" else f"# {name}\n\n````{SHOWN.get(path.suffix, 'text')}\n{text}````\n"), path


def brought(pages: list[Path]) -> dict[str, str]:
    """Pages of the site for all that these pages, and then those, link to and that is no page of `docs/`: their texts by their places."""
    found: dict[str, str] = {}
    waiting = [path for page in pages for _, path in linked(page.read_text(), page)]
    while waiting:
        path = waiting.pop()
        if place(path) in found or path in pages:
            continue
        text, origin = text_of(path)
        found[place(path)] = rewritten(text, origin)
        waiting += [target for _, target in linked(text, origin)]
    return found


def navigation() -> dict[str, dict[str, Path | list[Path]]]:
    """The sections of the site, each with its pages by their titles; a folder has the list of its pages."""
    sections: dict[str, dict[str, Path | list[Path]]] = {}
    for name, body in SECTION.findall((DOCS / "index.md").read_text()):
        entries = sections[name] = {}
        for words, path in linked(body, DOCS / "index.md"):
            entries[words[:1].upper() + words[1:]] = sorted(path.glob("*.md")) if path.is_dir() else path
    return sections


# Events of mkdocs ----------------------------------------------------------------------------------------------------------------


def on_config(config: MkDocsConfig) -> None:
    """Give the site its navigation."""

    def entry(found: Path | list[Path]) -> str | list[dict[str, str]]:
        return [{title(page): place(page)} for page in found] if isinstance(found, list) else place(found)

    sections = [{name: [{words: entry(found)} for words, found in entries.items()]} for name, entries in navigation().items()]
    config.nav = [{"All pages": "index.md"}, *sections]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages that are brought in."""
    from mkdocs.structure.files import File, InclusionLevel  # noqa: PLC0415 - the navigation is read without mkdocs

    pages = [Path(file.abs_src_path) for file in files.documentation_pages() if file.abs_src_path]
    for uri, text in brought(pages).items():
        files.append(File.generated(config, uri, content=text, inclusion=InclusionLevel.NOT_IN_NAV))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """The text of a page of `docs/`; those brought in have theirs."""
    return rewritten(markdown, Path(page.file.abs_src_path)) if page.file.generated_by is None and page.file.abs_src_path else markdown


def on_page_content(html: str, **_: Any) -> str:
    """Code that names what has an entry leads there: `tl.compute(...)` of the pages, `directives.split` of the docstrings."""
    for pattern, home in ((r"tl\.(\w+)[^<]*", r"tensorlang.\1"), (r"(directives\.\w+)", r"tensorlang.schedules.\1")):
        html = re.sub(rf'(?<!">)(<code>{pattern}</code>)', rf'<autoref identifier="{home.replace("1", "2")}" optional>\1</autoref>', html)
    return html
