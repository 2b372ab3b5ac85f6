"""Pages looked at: parsed, and in a headless browser where there is one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Parsed(HTMLParser):
    """Which tags, attributes and text the page has, and whether every tag is closed."""

    VOID = ("meta", "link", "br", "hr", "img", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def contrast(one: str, other: str) -> float:
    """The ratio of relative luminances, as the accessibility guidelines of the web define it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def browse(page: Path, profile: Path, *options: str) -> tuple[str, str]:
    """The document as the browser has it in the end, and what its console said."""
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", f"--user-data-dir={profile}", "--enable-logging=stderr", "--dump-dom", *options,
            page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


def probed(text: str, script: str, folder: Path, *, dark: bool, width: int) -> Any:
    """What a script returns in a page of that width and colour scheme, as JSON has it. Nothing is said on the console."""
    page = folder / "probed.html"
    probe = f"const out = document.createElement('pre'); out.id = 'probed'; out.textContent = JSON.stringify((() => {{{script}}})());"
    page.write_text(text.replace("</body>", f"<script>{probe} document.body.append(out);</script></body>"))
    options = f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--window-size={width},900"
    document, console = browse(page, folder / "profile", *options)
    assert not console, console
    found = re.search(r'<pre id="probed">(.*?)</pre>', document, re.DOTALL)
    assert found is not None
    return json.loads(unescape(found[1]))
