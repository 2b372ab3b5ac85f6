"""From what probes took to what a description says, and what of it is believed.

A figure is a path of fields, as `caches.1.bandwidth`. What was measured stands in place of what ships where it is in the range of what
processors do, not too far from what ships, and in order with the levels before it; else what ships is kept, and the reason is told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tensorlang.codegen.calibration.probes import PAGE, PAGES
from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.model.window import together

FAR: Final = 5.0
"""How many times as much, or as little, as what ships may be believed."""
FURTHER: Final[Mapping[str, float]] = {
    "hertz": 2.5,
    "fork": 30.0,
    "pages.size": 1024.0,
    "pages.walk": 20.0,
    "memory.both": 64.0,
    "together": 64.0,
}
"""The same for single figures."""
TOLERANCE: Final = 1.05
"""By how much a level may seem faster than the one before it: nobody measures better."""
HALF: Final = 0.5
"""The share of a walk beyond which pages are more than a TLB translates."""
DIGITS: Final = 3
NOT: Final = "not measured twice alike"
MOST_BOTH: Final = 64.0
"""The exponent from which on neither of reading and streaming waits."""

WHOLE: Final = ("pages.size", "pages.entries")
"""What is counted."""
ABSOLUTE: Final = ("fork", "memory.both", "together", *WHOLE)
"""What is not told in cycles, and so does not depend on the clock."""

UNITS: Final[Mapping[str, tuple[str, float]]] = {
    "hertz": ("GHz", 1e-9),
    "ports.arithmetic": ("vectors a cycle", 1),
    "ports.latency": ("cycles", 1),
    "ports.loads": ("vectors a cycle", 1),
    "ports.stores": ("vectors a cycle", 1),
    "ports.divisions": ("vectors a cycle", 1),
    "ports.roots": ("vectors a cycle", 1),
    "ports.gathers": ("lanes a cycle", 1),
    "latencies.division": ("cycles", 1),
    "latencies.root": ("cycles", 1),
    "bandwidth": ("bytes a cycle", 1),
    "latency": ("cycles", 1),
    "memory.streaming": ("bytes a cycle", 1),
    "memory.both": ("exponent", 1),
    "pages.size": ("KiB", 1 / 1024),
    "pages.entries": ("pages", 1),
    "pages.walk": ("cycles", 1),
    "outstanding": ("lines", 1),
    "together": ("times", 1),
    "fork": ("us", 1e6),
}
"""How a figure is told: its unit, and what one of the description is in it."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One field: what ships, what was measured (None: nothing was), what the description has, and why it is not what was measured."""

    path: str
    shipped: float
    measured: float | None
    value: float
    why: str = ""

    @property
    def unit(self) -> tuple[str, float]:
        """The unit in which it is told, and the factor to it."""
        return UNITS.get(self.path) or UNITS[self.path.rsplit(".", 1)[-1]]


def get(machine: Machine, path: str) -> float:
    """The value of a field."""
    value: Any = machine
    for name in path.split("."):
        value = value[int(name)] if name.isdigit() else getattr(value, name)
    return float(value)


def put(machine: Any, path: str, value: float) -> Any:
    """The machine with another value in a field."""
    name, _, rest = path.partition(".")
    if name.isdigit():
        return (*machine[: int(name)], put(machine[int(name)], rest, value), *machine[int(name) + 1 :])
    return replace(machine, **{name: put(getattr(machine, name), rest, value) if rest else value})


def figures(machine: Machine, seconds: Mapping[str, float], huge: int = 1 << 21, threads: int = 2) -> dict[str, float]:
    """The fields that probes tell, of the seconds that a unit of work took; `huge` is the size of a large page, `threads` read together."""
    if "cycle" not in seconds:
        return {}
    cycles = {name: value / seconds["cycle"] for name, value in seconds.items()}
    levels = [f"L{place + 1}" for place in range(len(machine.caches))]
    found: dict[str, float | None] = {
        "hertz": 1 / seconds["cycle"],
        "ports.arithmetic": _rate(cycles, "multiply-add"),
        "ports.latency": cycles.get("multiply-add chain"),
        "ports.loads": _rate(cycles, "read L1", machine.vector_bits // 8),
        "ports.stores": _rate(cycles, "add in place"),
        "ports.divisions": _rate(cycles, "division"),
        "ports.roots": _rate(cycles, "root"),
        "ports.gathers": _rate(cycles, "gather"),
        "latencies.division": cycles.get("division chain"),
        "latencies.root": cycles.get("root chain"),
    }
    pages = _pages(cycles, huge)
    for place, level in enumerate(levels):
        found[f"caches.{place}.bandwidth"] = _rate(cycles, f"read {level}")
        found[f"caches.{place}.latency"] = _latency(cycles, f"chase {level}", 0)
    all_by_one = _by(cycles, "read half", "read half together")
    small = pages.get("pages.size") == PAGE and "pages.walk" in pages
    found |= {
        "memory.bandwidth": _rate(cycles, "read memory"),
        "memory.latency": _latency(cycles, "chase memory", pages["pages.walk"] if small else 0),
        "memory.streaming": _rate(cycles, "stream"),
        "memory.both": _both(cycles),
        "together": None if all_by_one is None else min(max(all_by_one, 1.0), threads),
        **pages,
        "outstanding": _by(cycles, "chase memory", "random"),
        "fork": seconds["fork"] - seconds["share"] if {"fork", "share"} <= seconds.keys() else None,
    }
    return {path: value for path, value in found.items() if value is not None}


def _rate(cycles: Mapping[str, float], name: str, each: float = 1) -> float | None:
    return 1 / (cycles[name] * each) if name in cycles else None


def _by(cycles: Mapping[str, float], one: str, other: str) -> float | None:
    """How many times as long as another one a probe takes."""
    return cycles[one] / cycles[other] if {one, other} <= cycles.keys() else None


def _both(cycles: Mapping[str, float]) -> float | None:
    """The exponent by which reading and streaming add up to what copying takes, past the caches."""
    if not {"read half", "stream", "copy half"} <= cycles.keys():
        return None
    parts, least, most = (cycles["read half"], cycles["stream"]), 1.0, MOST_BOTH
    for _ in range(40):
        middle = (least + most) / 2
        least, most = (middle, most) if together(parts, middle) > cycles["copy half"] else (least, middle)
    return least


def _latency(cycles: Mapping[str, float], name: str, walk: float) -> float | None:
    """A step of a chase is a load and a mask, and far away a walk."""
    return cycles[name] - 1 - walk if name in cycles else None


def _pages(cycles: Mapping[str, float], huge: int) -> dict[str, float]:
    """How many pages are translated, what a walk costs beyond them, and whether arrays have large ones; {} where no walk was seen."""
    both = (count for count in PAGES if {f"pages {count}", f"lines {count}"} <= cycles.keys())
    rises = {count: cycles[f"pages {count}"] - cycles[f"lines {count}"] for count in both}
    most = max(rises, default=0)
    if not rises or rises[most] < 2:
        return {}
    rise = rises[most]  # walks that do not wait for each other
    entries = max((count for count in rises if all(rises[n] < HALF * rise for n in rises if n <= count)), default=None)
    found: dict[str, float] = {} if entries is None else {"pages.entries": entries}
    if {"chase pages", "chase lines"} <= cycles.keys():
        found["pages.walk"] = cycles["chase pages"] - cycles["chase lines"]
    if "pages of arrays" in cycles:
        found["pages.size"] = huge if cycles["pages of arrays"] - cycles[f"lines {most}"] < HALF * rise else PAGE
    return found


def believed(shipped: Machine, found: Mapping[str, float]) -> tuple[Machine, tuple[Figure, ...]]:
    """The machine with what is believed of these figures, and all figures that can be measured."""
    machine, told, lost = shipped, list[Figure](), ""
    for path in paths(shipped):
        before, measured = get(shipped, path), found.get(path)
        value, why = before, NOT
        if measured is not None:
            why = ("" if path in ABSOLUTE else lost) or _why_not(path, measured, before) or _out_of_order(machine, path, measured)
            if path == "hertz" and why:
                lost = "the clock is not known"
            value = before if why else round(measured) if path in WHOLE else float(f"{measured:.{DIGITS}g}")
        if why and _out_of_order(machine, path, value):
            value = get(machine, _inner(path, len(shipped.caches)))
            why = f"{why}; no better than the level before"
        if value != before:
            machine = put(machine, path, value)
        told.append(Figure(path, before, measured if measured is None or math.isfinite(measured) else None, get(machine, path), why))
    return machine, tuple(told)


def paths(machine: Machine) -> tuple[str, ...]:
    """The fields that a calibration may change, each after those that it is compared with."""
    levels = [f"caches.{place}.{what}" for what in ("bandwidth", "latency") for place in range(len(machine.caches))]
    ports = [path for path in UNITS if path.startswith(("ports", "latencies"))]
    behind = ["memory.bandwidth", "memory.latency", "memory.streaming", "memory.both", "outstanding", "together"]
    behind += ["pages.size", "pages.entries", "pages.walk", "fork"]
    return ("hertz", *ports, *levels, *behind)


def _why_not(path: str, measured: float, shipped: float) -> str:
    far = FURTHER.get(path, FAR)
    if not (math.isfinite(measured) and measured > 0):
        return "no positive number"
    if path == "pages.size" and math.frexp(measured)[0] != 0.5:
        return "no power of two"
    if not shipped / far <= measured <= shipped * far:
        return f"more than {far:g} times {'less' if measured < shipped else 'more'} than what ships"
    return ""


def _out_of_order(machine: Machine, path: str, value: float) -> str:
    """Why a level cannot be so fast, given the one before it."""
    inner = _inner(path, len(machine.caches))
    if not inner:
        return ""
    before = get(machine, inner)
    if path.endswith("latency"):
        return "sooner than the level before" if value < before / TOLERANCE else ""
    return "faster than the level before" if value > before * TOLERANCE else ""


def _inner(path: str, levels: int) -> str:
    """The field of the level before; "" for what has none."""
    home, _, what = path.rpartition(".")
    if home == "memory" and what in ("bandwidth", "latency"):
        return f"caches.{levels - 1}.{what}"
    place = home.removeprefix("caches.")
    return f"caches.{int(place) - 1}.{what}" if place.isdigit() and int(place) else ""
