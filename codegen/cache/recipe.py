"""What a kernel can be built again from: its definition and its schedule, as text.

A file of a kernel holds machine code for one version of LLVM and one kind of processor. The recipe in it outlives both: another version, or
another processor, reads the definition, replays the schedule and builds. It comes from a file, so nothing in it is believed: definitions
and schedules are read as those of a stranger's log are (`serialization.rebuild`, `schedules.trace`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy.typing as npt

from tensorlang.definition.naming import tensor_names
from tensorlang.definition.tensor import Placeholder, Tensor, definitions
from tensorlang.errors import BuildError, InternalError, TensorlangError
from tensorlang.serialization.canonical import describe, fingerprint
from tensorlang.serialization.rebuild import rebuild

if TYPE_CHECKING:
    from tensorlang.schedules.schedule import Schedule

MOST_TEXT: Final = 1 << 24
"""Bytes of either text."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The definition as `describe` has it, and the directives of a schedule; no schedule: the default one of whoever builds."""

    definition: str
    schedule: str | None

    @property
    def fingerprint(self) -> str:
        """The digest of the definition. Raises `DefinitionError` where it has no meaning."""
        return fingerprint(rebuild(json.loads(self.definition)))

    def program(
        self, inputs: Sequence[str], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> tuple[Schedule | tuple[Tensor, ...], tuple[Tensor, ...]]:
        """What is to be built, and its arguments in order; `arrays` are bound to placeholders by name. Raises `BuildError`."""
        from tensorlang.schedules.schedule import Schedule  # noqa: PLC0415 - a kernel that is loaded is hardly ever built again

        try:
            document = json.loads(self.definition)
            names = _placeholders(rebuild(document))
            outputs = rebuild(document, {place: arrays[name] for place, name in enumerate(names) if name in arrays})
            found = _placeholders(outputs)
            if set(found) != set(inputs):
                raise BuildError(f"the definition reads {sorted(found)}, the kernel {sorted(inputs)}")
            order = tuple(found[name] for name in inputs if name not in arrays)
            return (outputs if self.schedule is None else Schedule.from_json(outputs, self.schedule)), order
        except (TensorlangError, ValueError, RecursionError) as error:
            raise BuildError(f"it cannot be built again: {(str(error).splitlines() or [type(error).__name__])[0]}") from None


def recipe_of(outputs: Sequence[Tensor], schedule: str | None, inputs: Sequence[str]) -> Recipe | None:
    """The recipe of a kernel with these inputs; None where no text says it: an input that is not read, a body that is too deep."""
    try:
        text = json.dumps(describe(tuple(outputs)), separators=(",", ":"))
    except (TensorlangError, InternalError, RecursionError):
        return None
    names = tensor_names(definitions(tuple(outputs)))
    read = {names[definition] for definition in names if isinstance(definition, Placeholder)}
    return None if read != set(inputs) or max(len(text), len(schedule or "")) > MOST_TEXT else Recipe(text, schedule)


def _placeholders(outputs: tuple[Tensor, ...]) -> dict[str, Tensor]:
    program = definitions(outputs)
    names = tensor_names(program)
    return {names[definition]: Tensor(definition, 0) for definition in program if isinstance(definition, Placeholder)}
