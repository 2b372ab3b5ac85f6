"""docs/performance.md as sections of several benches and machines: who writes one leaves the others as they are.

A section stands between `<!-- begin peers: NAME -->` and `<!-- end peers: NAME -->`. The page is composed anew from the sections that it
has and those that are new, sorted by their names, so runs on different machines may be merged in any order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from bench.child import ROOT

PAGE: Final = ROOT / "docs" / "performance.md"
Kind: TypeAlias = Literal["peers", "graphs", "ranking", "model", "figures", "method"]
KINDS: Final[Mapping[Kind, str]] = {
    "peers": "Beside other libraries",
    "graphs": "Models",
    "ranking": "The cost model",
    "model": "The defaults that it names",
    "figures": "Other figures",
    "method": "Method",
}
"""The parts of the page in their order, each with its heading."""
Key: TypeAlias = tuple[str, str]
"""The kind of a section, and its name: a machine's, where it is of one."""
_SECTION: Final = re.compile(r"<!-- begin (\w+): (.*?) -->\n(.*?)<!-- end \1: \2 -->\n", re.DOTALL)


def name_of(machine: Mapping[str, Any], isa: str = "native") -> str:
    """What a machine is called: its processor, LLVM's name for it where that is known, the instructions that it was held to."""
    core = f" ({machine['core']})" if machine.get("core") else ""
    return f"{machine['cpu']}{core}" + ("" if isa == "native" else f", held to {isa}")


def sections(text: str) -> dict[Key, str]:
    """The sections of a page, without their markers."""
    return {(found[1], found[2]): found[3] for found in _SECTION.finditer(text)}


def written(page: Path, new: Mapping[tuple[Kind, str], str]) -> str:
    """Put sections on a page, in place of those of the same name; the text as it stands there now."""
    known: dict[Key, str] = sections(page.read_text()) if page.exists() else {}
    page.write_text(text := "\n".join(_page(known | {key: body.rstrip() + "\n" for key, body in new.items()})))
    return text


def _page(known: Mapping[Key, str]) -> Iterator[str]:
    yield "# Performance\n"
    yield "Written by `make bench-peers`, `make bench-models` and `make bench-model`, a table for each machine; do not edit.\n"
    if not any(kind in {"peers", "model"} for kind, _ in known):
        yield "No run has been made yet.\n"
    for kind, title in KINDS.items():
        own = sorted(name for found, name in known if found == kind)
        if own:
            yield f"## {title}\n"
        for name in own:
            yield f"<!-- begin {kind}: {name} -->\n{known[kind, name]}<!-- end {kind}: {name} -->\n"
