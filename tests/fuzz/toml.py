"""Enough of a writer of TOML for mutated values: what TOML cannot say becomes a text."""

from __future__ import annotations

import json
from typing import Any


def dumped(value: Any) -> bytes:
    """A document; tables are written inline, but for the lists of tables at the top."""
    if not isinstance(value, dict):
        return _inline(value).encode(errors="replace")
    tables = {key: part for key, part in value.items() if isinstance(part, list) and part and all(isinstance(one, dict) for one in part)}
    lines = [f"{_key(key)} = {_inline(part)}" for key, part in value.items() if key not in tables]
    for key, part in tables.items():
        for one in part:
            lines += [f"[[{_key(key)}]]", *(f"{_key(name)} = {_inline(inner)}" for name, inner in one.items())]
    return "\n".join(lines).encode(errors="replace") + b"\n"


def _key(key: Any) -> str:
    return json.dumps(str(key), ensure_ascii=False).replace("\x7f", "")


def _inline(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return repr(value)
        case int():
            return str(value) if abs(value) < 10**1000 else "9" * 5000
        case str() if value.startswith("@deep "):
            depth = int(value.split()[1])
            return "[" * depth + "]" * depth
        case list():
            return f"[{', '.join(map(_inline, value))}]"
        case dict():
            return "{" + ", ".join(f"{_key(key)} = {_inline(part)}" for key, part in value.items()) + "}"
        case _:
            return json.dumps(str(value), ensure_ascii=False)
