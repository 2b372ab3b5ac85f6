"""Names that nothing has yet."""

from __future__ import annotations


def unique(label: str, taken: set[str]) -> str:
    """`label`, or with `_1`, `_2`, ... the first that is not taken; it is from now on."""
    name, count = label, 0
    while name in taken:
        count += 1
        name = f"{label}_{count}"
    taken.add(name)
    return name
