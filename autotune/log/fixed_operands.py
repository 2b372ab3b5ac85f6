"""What records call the program that they are of: its fingerprint, and where operands stay fixed a digest of that and of their places.

A program whose weights are packed beforehand is another one to tune: its packing costs nothing, so other schedules are the fastest, and the
times are not comparable. `constants` are the places of such operands in order of first use, as in the keys of kernels.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tensorlang.errors import TuningError, did_you_mean

if TYPE_CHECKING:
    from tensorlang.definition.tensor import Tensor


def with_fixed(fingerprint: str, constants: Iterable[int] = ()) -> str:
    """The fingerprint of a program, or the digest of a family, with operands in these places fixed."""
    places = sorted(constants)
    return hashlib.sha256(json.dumps([fingerprint, places]).encode()).hexdigest() if places else fingerprint


def constants_of(task: Mapping[str, Any]) -> tuple[int, ...]:
    """The places that the task of a record says; none where it does not say any."""
    said = task.get("constants")
    return tuple(place for place in said if type(place) is int) if isinstance(said, list) else ()


def program_of(task: Mapping[str, Any]) -> str | None:
    """What the task of a record is of; None where it does not say."""
    fingerprint = task.get("fingerprint")
    return with_fixed(fingerprint, constants_of(task)) if isinstance(fingerprint, str) else None


def family_of(task: Mapping[str, Any]) -> str | None:
    """The family that the task of a record is in; None where it does not say."""
    family = task.get("family")
    return with_fixed(family, constants_of(task)) if isinstance(family, str) else None


def operands_by_first_use(outputs: tuple[Tensor, ...]) -> list[str]:
    """The names of the operands that a call passes, in order of first use."""
    from tensorlang.definition.first_use import by_first_use  # noqa: PLC0415 - who reads logs needs no definitions
    from tensorlang.definition.naming import tensor_names  # noqa: PLC0415
    from tensorlang.definition.tensor import Placeholder, definitions  # noqa: PLC0415

    names = tensor_names(definitions(outputs))
    return [names[part] for part in by_first_use(outputs) if isinstance(part, Placeholder) and part.array is None]


def constant_names(outputs: tuple[Tensor, ...], places: Iterable[int]) -> frozenset[str]:
    """The operands in these places, as a record has them; those that are not there are left out."""
    names = operands_by_first_use(outputs)
    return frozenset(names[place] for place in places if 0 <= place < len(names))


def constant_places(outputs: tuple[Tensor, ...], constants: object) -> tuple[int, ...]:
    """The places by first use of operands that stay fixed, of their names or places. Raises `TuningError` for what is no operand."""
    names = operands_by_first_use(outputs)
    if isinstance(constants, str) or not isinstance(constants, (tuple, list, set, frozenset)):
        raise TuningError(f"constants= takes names of operands, as constants=('B',), not {constants!r:.60}")
    found = set()
    for one in constants:
        if isinstance(one, int) and not isinstance(one, bool) and 0 <= one < len(names):
            found.add(one)
        elif isinstance(one, str) and one in names:
            found.add(names.index(one))
        else:
            raise TuningError(f"constants= names {one!r:.60}, which is no operand{did_you_mean(str(one), names)}; there are {names}")
    return tuple(sorted(found))
