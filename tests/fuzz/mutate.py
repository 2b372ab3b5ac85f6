"""Mutations of file contents: of JSON values by their structure, and of bytes. Each is a function of a random generator alone."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

Path: TypeAlias = tuple[Any, ...]

DEEP: Final = "@deep "
"""Begins a text that becomes so many nested lists when it is written: deeper than what the encoder itself can write."""

ODD: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 64, 255, 2**16, 2**31 - 1, 2**31, 2**32, 2**48, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64,
    -(2**31), -(2**63), -(2**63) - 1, 10**30, 10**400, 10**4000, 0.0, -0.0, 0.5, -1.5, 1e-320, 1e308, -1e308, float("nan"), float("inf"),
    float("-inf"), "", " ", "0", "1", "-1", "nan", "\0", "a\0b", "\n", "\r\n", "é", "\u202e", "\ud800", "x\udfff", "\U0001f600", "a" * 300,
    "a" * 100_000, "0x1.8p+1", "0x1p99999", "C.i", "A", "out", "../../etc/passwd", "%s%n", "{}", "native", "x86_64", "+avx512f", "float32",
    "bfloat16", "int64", "sum", "ok", "<script>", "[bold]", [], {}, [[]], [None], [0], [1, 2, 3], ["a"], {"": None}, {"kind": "trial"},
    [0] * 5000, [[1, 2]] * 3000, DEEP + "50", DEEP + "900", DEEP + "5000", DEEP + "200000",
)  # fmt: skip


def places(value: Any) -> list[Path]:
    """The paths of all values within a value, itself first; the first few thousand."""
    found: list[Path] = []
    todo: list[tuple[Path, Any]] = [((), value)]
    while todo and len(found) < 4000:
        path, here = todo.pop()
        found.append(path)
        parts = here.items() if isinstance(here, dict) else enumerate(here) if isinstance(here, list) else ()
        todo += [((*path, key), part) for key, part in parts]
    return found


def at(value: Any, path: Path) -> Any:
    """The value at a path."""
    for step in path:
        value = value[step]
    return value


def put(value: Any, path: Path, new: Any) -> Any:
    """The value with another one at a path, changed in place except at the top."""
    if not path:
        return new
    at(value, path[:-1])[path[-1]] = new
    return value


def copied(value: Any) -> Any:
    """A copy that shares nothing."""
    if isinstance(value, dict):
        return {key: copied(part) for key, part in value.items()}
    return [copied(part) for part in value] if isinstance(value, list) else value


def _odd(rng: random.Random, _: Any) -> Any:
    return copied(rng.choice(ODD))


def _retyped(rng: random.Random, here: Any) -> Any:
    match here:
        case bool() | None:
            return rng.choice([0, 1, "true", [here], {}])
        case int() | float():
            return rng.choice([str(here), float(here) if abs(here) < 1e300 else 0.5, [here], {"value": here}, bool(here)])
        case str():
            return rng.choice([[here], list(here[:50]), {here[:50]: here}, len(here), repr(here)[:1000]])
        case list():
            return rng.choice([{str(n): part for n, part in enumerate(here)}, here[0] if here else None, repr(here)[:1000], len(here)])
        case dict():
            return rng.choice([list(here.values()), list(map(list, here.items())), list(here), len(here)])
    return None


def _nudged(rng: random.Random, here: Any) -> Any:
    match here:
        case bool():
            return not here
        case int():
            return rng.choice([here + 1, here - 1, -here, here * 2, here // 2, here * 10**6, here ^ 1 << rng.randrange(64)])
        case float():
            return rng.choice([-here, here * 1e9, here / 1e9, here + 1, float(round(here)) if abs(here) < 1e18 else here])
        case str():
            cut = rng.randrange(len(here) + 1)
            piece = rng.choice(["", "\0", "x", "'", '"', "\\", ".", ",", "+", "-", "\ud83d", "é", here])
            return rng.choice([here[:cut] + piece + here[cut:], here[:cut], here[cut:], here.upper(), here[::-1]])
        case list():
            return rng.choice([here + here[:1], here[:-1], here[1:], here[::-1], here * 2, here * 50, [here], [*here, None]])
        case dict():
            return {**here, rng.choice(["", "x", "kind", "schema", "\0"]): rng.choice([None, 1, "y", {}])}
    return 0


REPLACED: Final[tuple[Callable[[random.Random, Any], Any], ...]] = (_odd, _odd, _retyped, _nudged, _nudged)


def restructured(rng: random.Random, value: Any) -> Any:
    """One structural mutation of a JSON value, which is changed in place."""
    paths = places(value)
    path = rng.choice(paths)
    match rng.randrange(9):
        case 0 if path:  # delete
            del at(value, path[:-1])[path[-1]]
            return value
        case 1:  # exchange two, or copy one over another
            other = rng.choice(paths)
            first, second = copied(at(value, path)), copied(at(value, other))
            if path[: len(other)] == other or other[: len(path)] == path:
                return put(value, path, second)
            value = put(value, path, second)
            return put(value, other, first) if rng.random() < 0.5 else value
        case 2 if path and isinstance(path[-1], str):  # rename a key
            inside = at(value, path[:-1])
            inside[rng.choice([path[-1] + "x", "", path[-1].upper(), rng.choice(list(inside))])] = inside.pop(path[-1])
            return value
        case 3 if path and isinstance(path[-1], int):  # once more, somewhere
            inside = at(value, path[:-1])
            inside.insert(rng.randrange(len(inside) + 1), copied(inside[path[-1]]))
            return value
        case _:
            return put(value, path, rng.choice(REPLACED)(rng, at(value, path)))


def written(value: Any) -> bytes:
    """JSON as other programs may write it: NaN, halves of characters and any depth included."""
    text = json.dumps(value)
    return re.sub(f'"{DEEP}(\\d+)"', lambda found: "[" * int(found[1]) + "]" * int(found[1]), text).encode()


def shaken(rng: random.Random, data: bytes, low: int = 0, high: int | None = None) -> bytes:
    """One mutation of the bytes from `low` to `high`."""
    high = len(data) if high is None else high
    start = rng.randrange(low, high + 1)
    stop = min(high, start + rng.choice([0, 1, 1, 2, 8, 100]))
    other = rng.randrange(low, high + 1)
    piece = rng.choice(
        [b"", b"\0", b"\n", b"\xff", b'"', b"[", b"}", b",", b"1e999", b"9" * 30, b"NaN", b"\\ud800", b"\xc3", data[other : other + 20]]
    )
    match rng.randrange(3):
        case 0 if start < high:
            return data[:start] + bytes([data[start] ^ 1 << rng.randrange(8)]) + data[start + 1 :]
        case 1:
            return data[:start] + piece + data[stop:]
        case _:
            return data[:start] + piece * rng.choice([1, 1, 2, 100]) + data[start:]
