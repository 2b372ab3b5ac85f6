"""Records of earlier schemas, brought up to date one version at a time when they are read; files are never rewritten.

The version of a line is its field `v`. A field that is only added does not change it: readers take what they know and keep the rest. A
change of meaning does: `record.SCHEMA` grows by one, `STEPS` gets the function that turns a record of the version before into one of the
new version, and a log written by the version before joins the fixtures of the tests, where it stays.

A record of a newer version than ours cannot be understood and is not guessed at: it is `Newer`, which readers report and `merge` keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from tensorlang.autotune.log.first_use import by_first_use

JsonObject: TypeAlias = dict[str, Any]
"""What JSON calls an object. What a trial has to say is checked (`record.Trial`); of everything else, readers take what they know."""

Step: TypeAlias = Callable[[JsonObject], JsonObject]

STEPS: Final[Mapping[int, Step]] = {1: by_first_use}
"""For each version that was ever written, except the last: the function that makes a record of the next version out of it."""


class Newer(ValueError):  # noqa: N818 - a whole record, of which this software knows nothing
    """A record of a later schema; `fields` are what it says."""

    def __init__(self, fields: JsonObject, ours: int) -> None:
        super().__init__(f"schema version {fields['v']} is newer than version {ours} of this software, which does not use the record")
        self.fields = fields


def migrate(fields: JsonObject, to: int, steps: Mapping[int, Step] = STEPS) -> JsonObject:
    """The record as schema `to` has it. Raises `Newer` for a later one, `ValueError` for what is no version."""
    version = fields.get("v")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"schema version {version!r:.40}, which never was")
    if version > to:
        raise Newer(fields, to)
    for before in range(version, to):
        fields = {**steps[before](fields), "v": before + 1}
    return fields
