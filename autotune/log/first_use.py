"""Version 1 to 2 of a record: its program is known by first use, where it was known by the order in which its operands were made.

A product whose weight was made first had a fingerprint of its own, under which nobody looks any more. What a record calls its program is
found again from the definition that it carries; one that carries none that means something is left as it is, and serves nobody.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tensorlang.errors import TensorlangError

_REMEMBERED: Final = 256
_names: Final[dict[str, dict[str, Any]]] = {}
"""What programs are called now, by their definitions as text: the records of a study have one."""


def by_first_use(fields: dict[str, Any]) -> dict[str, Any]:
    """The record under the names of version 2; the schedule in it names its program too."""
    task = fields.get("task")
    if not isinstance(task, dict) or not isinstance(before := task.get("fingerprint"), str):
        return fields
    names = _names_of(task.get("definition"))
    if not names or names["fingerprint"] == before:
        return fields
    schedule = fields.get("schedule")
    moved = {"schedule": schedule.replace(before, names["fingerprint"])} if isinstance(schedule, str) else {}
    return {**fields, **moved, "task": {**task, **names}}


def _names_of(definition: object) -> dict[str, Any]:
    """Fingerprint, family and extents of a definition; nothing where it has no meaning."""
    text = json.dumps(definition, separators=(",", ":"))
    if text not in _names:
        from tensorlang.serialization import canonical  # noqa: PLC0415 - few logs are so old
        from tensorlang.serialization.rebuild import rebuild  # noqa: PLC0415

        try:
            outputs = rebuild(definition)
            found = {
                "fingerprint": canonical.fingerprint(outputs),
                "family": canonical.family(outputs),
                "extents": list(canonical.extents(outputs)),
            }
        except (TensorlangError, RecursionError):
            found = {}
        if len(_names) >= _REMEMBERED:
            _names.clear()
        _names[text] = found
    return _names[text]
