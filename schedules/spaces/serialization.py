"""Search spaces from plain JSON that nobody vouches for: the inverse of `Knob.to_json` and of the footprints in `Space.to_json`.

A log can be anyone's. So every value is checked before a knob is made of it: its type, its range, how many there are and how deep they
lie, and that it is what its kind of knob takes, so that no later question about the space fails. All that can go wrong is a
`TensorlangError` that says where.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tensorlang.definition.extent import MAX_EXTENT
from tensorlang.schedules.spaces.footprints import Footprint
from tensorlang.schedules.spaces.knobs import KINDS, MOST_VALUES, Choice, Factors, Flag, Knob, Order, Sizes, TileSize, spelling
from tensorlang.serialization.spelling import fail, read_list, read_number, read_record, read_text

MOST_KNOBS: Final = 1000
DEEPEST: Final = 16
_LARGEST: Final = 1 << 62
_MOST_PARTS: Final = 64


@dataclass(slots=True)
class KnobReader:
    """Reads the knobs of one space, and counts them."""

    knobs: int = 0

    def every(self, data: object, where: str, depth: int = DEEPEST) -> tuple[Knob, ...]:
        """The knobs in a list."""
        if not depth:
            fail(where, f"knobs at most {DEEPEST} deep", data)
        return tuple(self.knob(entry, f"{where}, {place}", depth) for place, entry in enumerate(read_list(data, where, MOST_KNOBS)))

    def knob(self, data: object, where: str, depth: int = DEEPEST) -> Knob:
        """One knob with what it opens."""
        self.knobs += 1
        if self.knobs > MOST_KNOBS:
            fail(where, f"at most {MOST_KNOBS} knobs", data)
        name = data.get("kind") if isinstance(data, dict) else None
        kind = KINDS.get(name) if isinstance(name, str) else None
        if kind is None:
            fail(where, f"a knob: one of {', '.join(KINDS)}", data)
        record = read_record(data, where, ("kind", "name", "values", "opens", *kind.extras))
        label = read_text(record["name"], f"{where}, name")
        where = f"knob {label!r}"
        values = read_list(record["values"], f"{where}, values", MOST_VALUES)
        extras = {extra: _extra(extra, record[extra], kind, where) for extra in kind.extras}
        for value in values:
            if not _is_value(value, kind, extras):
                fail(f"{where}, values", f"values of {kind.kind}", value)
        if issubclass(kind, Sizes) and sorted(set(values)) != values:
            fail(f"{where}, values", "increasing sizes", values)
        if kind is Factors and len({len(value) for value in values}) > 1:
            fail(f"{where}, values", "as many factors each time", values)
        return kind.recorded(label, tuple(values), self.opened(record["opens"], values, kind, where, depth), extras)

    def opened(self, data: object, values: list[Any], kind: type[Knob], where: str, depth: int) -> Mapping[str, tuple[Knob, ...]]:
        """The knobs below the values of a choice."""
        if not isinstance(data, dict) or (data and kind is not Choice) or not data.keys() <= set(map(spelling, values)):
            fail(f"{where}, opens", "an object from values of a choice to knobs", data)
        return {text: self.every(children, f"{where}, opens", depth - 1) for text, children in data.items()}


def footprints(data: object, sizes: frozenset[str]) -> Iterator[Footprint]:
    """The footprints in a list, which grow with knobs that are sizes."""
    for place, entry in enumerate(read_list(data, "footprints", MOST_KNOBS)):
        where = f"footprint {place}"
        record = read_record(entry, where, ("name", "knobs", "each", "capacity"))
        named = tuple(read_text(name, f"{where}, knobs") for name in read_list(record["knobs"], f"{where}, knobs", _MOST_PARTS))
        if not sizes.issuperset(named):
            fail(f"{where}, knobs", "names of sizes of this space", record["knobs"])
        each, capacity = (_positive(record[field], f"{where}, {field}") for field in ("each", "capacity"))
        yield Footprint(read_text(record["name"], f"{where}, name"), named, each, capacity)


def sizes_of(knobs: tuple[Knob, ...]) -> frozenset[str]:
    """Names that only sizes have."""
    names: dict[str, bool] = {}
    todo = list(knobs)
    while todo:
        knob = todo.pop()
        names[knob.name] = names.get(knob.name, True) and isinstance(knob, Sizes)
        todo += [child for children in knob.opens.values() for child in children]
    return frozenset(name for name, sizes in names.items() if sizes)


def _extra(extra: str, value: object, kind: type[Knob], where: str) -> Any:
    if extra == "items":
        items = [read_text(item, f"{where}, items") for item in read_list(value, f"{where}, items", _MOST_PARTS)]
        if len(set(items)) < len(items):
            fail(f"{where}, items", "different names", value)
        return tuple(items)
    return None if value is None and kind is TileSize else read_number(value, f"{where}, {extra}", MAX_EXTENT + 1)


def _is_value(value: object, kind: type[Knob], extras: Mapping[str, Any]) -> bool:
    """Can a knob of this kind have the value?"""
    if kind is Flag:
        return isinstance(value, bool)
    if issubclass(kind, Sizes):
        return _is_size(value)
    if kind is Factors:
        if not isinstance(value, list) or not 0 < len(value) <= _MOST_PARTS or not all(map(_is_size, value)):
            return False
        return math.prod(value) == int(extras["extent"])
    if kind is Order:
        return isinstance(value, list) and all(isinstance(item, str) for item in value) and sorted(value) == sorted(extras["items"])
    return _is_plain(value) or (isinstance(value, list) and len(value) <= _MOST_PARTS and all(map(_is_plain, value)))


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_EXTENT


def _is_plain(value: object) -> bool:
    """A truth value, null, a number or a short text."""
    match value:
        case None | bool():
            return True
        case int() | float():
            return abs(value) < _LARGEST  # false for NaN
        case str():
            return len(value) <= 200 and value.isprintable()
        case _:
            return False


def _positive(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1e-9 < value < _LARGEST:
        fail(where, "a positive number", value)
    return value
