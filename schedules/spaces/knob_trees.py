"""Trees of knobs, of which a space is made: knobs of plain values, names that stand twice, edits, and trees as text or plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tensorlang.errors import TuningError
from tensorlang.schedules.spaces.feasible import names
from tensorlang.schedules.spaces.knobs import Choice, Flag, Knob, Sizes, Value


def knob_of(name: str, values: tuple[Value, ...]) -> Knob:
    """The knob of some values: a flag, sizes or a choice. Raises `TuningError` where there are none."""
    if not values:
        raise TuningError(f"the knob {name!r} has no values")
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return Flag(name).restricted(values)
    return Sizes(name, values) if kinds == {int} and min(values) >= 1 else Choice(name, values)


def repeated_name(knobs: Sequence[Knob], above: frozenset[str]) -> str | None:
    """A name that two knobs of one point have, or None."""
    own = [name for knob in knobs for name in names(knob)]
    shared = next((name for name in own if own.count(name) > 1 or name in above), None)
    below = ((knob.name, children) for knob in knobs for children in knob.opens.values())
    return shared or next((found for name, children in below if (found := repeated_name(children, above | {name}))), None)


def restricted(knobs: tuple[Knob, ...], name: str, values: tuple[Value, ...]) -> tuple[Knob, ...]:
    """The trees with fewer values of one knob."""
    edited = (
        knob.opening({text: restricted(children, name, values) for text, children in knob.opens.items()}) if knob.opens else knob
        for knob in knobs
    )
    return tuple(knob.restricted(values) if knob.name == name else knob for knob in edited)


def shape_of(knob: Knob) -> list[Any]:
    """A tree as plain data, by which a space is known."""
    below = {text: [shape_of(child) for child in children] for text, children in knob.opens.items()}
    return [knob.kind, knob.name, list(knob.values), below]


def listing(knob: Knob, indent: str) -> Iterator[str]:
    """A tree as lines of text."""
    yield f"{indent}{knob.name}: {knob.listing()}"
    for value in knob.values:
        if children := knob.children(value):
            yield f"{indent}  {value}:"
            for child in children:
                yield from listing(child, indent + "    ")
