"""A directive of which nothing is known but its fields: they are drawn from their types and names."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from tensorlang.schedules import catalogue
from tensorlang.schedules.legality.accesses import reads
from tensorlang.schedules.rewriting.edit import stages

from .view import Step, View, name_of

LOOPS: Final = ("loop", "at", "by", "outer", "inner", "first", "second", "after", "before")


def generic(name: str, view: View) -> Step | None:
    """A directive drawn from its fields alone."""
    rng, fields = view.rng, dict[str, Any]()
    for entry in dataclasses.fields(catalogue.DIRECTIVES[name]):
        optional = entry.default is not dataclasses.MISSING
        if optional and rng.random() < 0.4:
            continue
        kind = str(entry.type)
        if kind.startswith("int"):
            fields[entry.name] = rng.choice((0, 1, 1, 2, 2, 3, 4, 8, 16, 64))
        elif kind.startswith("bool"):
            fields[entry.name] = rng.random() < 0.5
        elif entry.name == "tensor":
            fields[entry.name] = rng.choice(sorted({name_of(load) for load in reads(view.nest.body)} | set(view.intermediates()) or {"A"}))
        elif entry.name == "stage":
            fields[entry.name] = rng.choice(view.intermediates() or list(stages(view.nest)))
        elif entry.name == "memory":
            fields[entry.name] = rng.choice(("register", "stack", "heap"))
        elif entry.name in LOOPS:
            fields[entry.name] = view.loop().loop
        elif not optional:
            return None
    return {"apply": name, "fields": fields}
