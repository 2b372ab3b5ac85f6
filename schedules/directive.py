"""What a directive is: a frozen value that rewrites a nest or refuses to.

A directive names loops and stages by their full names, so that it means the same wherever it is replayed. `apply` returns the new
nest, or raises `Refusal`; the schedule turns a refusal into a `ScheduleError` with the nest of that moment. Refusal codes are the
rows of `CODES`.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Protocol, Self, TypeAlias, Union, get_args, get_origin, get_type_hints

from tensorlang.ir import Nest

CODES: Final = {
    "TL-S001": "no loop of that name",
    "TL-S002": "the loop name is ambiguous",
    "TL-S003": "no stage or tensor of that name",
    "TL-S004": "the loop was there before, and an earlier step replaced it",
    "TL-S005": "an argument of the directive makes no sense",
    "TL-S006": "a name that is already taken",
    "TL-S007": "a step that cannot be read or replayed",
    "TL-S101": "iterations of a parallel loop would race",
    "TL-S102": "lanes of a vector loop would race",
    "TL-S103": "the new order would violate a dependence",
    "TL-S104": "the bounds of a loop depend on another loop",
    "TL-S105": "the loops are not perfectly nested",
    "TL-S106": "the step would compute something twice that may be computed only once",
    "TL-S107": "the loop is already vector, unrolled or parallel",
    "TL-S108": "storage of one iteration carries values between statements",
    "TL-S201": "too many lanes",
    "TL-S202": "too much code",
    "TL-S203": "too much memory",
    "TL-S204": "an extent must be a literal",
    "TL-S301": "the stage cannot be moved there",
    "TL-S302": "the tensor is not used there",
    "TL-S303": "the region used there has no simple shape",
    "TL-S304": "the step needs a reduction",
    "TL-S305": "two elements would share one place",
    "TL-S306": "the loops are not what the instruction computes",
}


class Refusal(Exception):  # noqa: N818 - not an error of the program: an answer
    """Why a directive does not apply: a code of `CODES`, one sentence, and what it names."""

    def __init__(
        self,
        code: str,
        reason: str,
        *,
        stage: str = "",
        loop: str = "",
        counterexample: dict[str, Any] | None = None,
        alternatives: tuple[Directive, ...] = (),
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.stage = stage
        self.loop = loop
        self.counterexample = counterexample
        self.alternatives = alternatives


LoopName: TypeAlias = Annotated[str, "loop"]
"""A field of a directive that holds the full name of a loop; a user gives a handle or a short name."""
StageName: TypeAlias = Annotated[str, "a stage"]
TensorName: TypeAlias = Annotated[str, "a tensor"]


class NameResolver(Protocol):
    """What a directive asks of a schedule to make names of what a user wrote."""

    def loop(self, name: object) -> str:
        """The full name of a loop. Raises `Refusal`."""
        ...

    def text(self, value: object, what: str) -> str:
        """The name of a stage or tensor, given as text or as the tensor. Raises `Refusal`."""
        ...


class Directive(ABC):
    """One step of a schedule: a frozen dataclass whose fields are names, numbers and flags."""

    __slots__ = ()

    @abstractmethod
    def apply(self, nest: Nest, /) -> Nest:
        """The nest after this step. Raises `Refusal`."""

    def made(self) -> tuple[str, ...]:
        """The full names of the loops that the step makes of others."""
        return ()

    @classmethod
    def of(cls, names: NameResolver, /, *args: object, **options: object) -> Self:
        """The step that a user asks for by `schedule.step(*args, **options)`: its fields in order, their names resolved.

        Names that a directive cannot do without are the last field that it cannot do without, and are given one by one; what follows is
        given by its name. Raises `Refusal` for a name that is none.
        """
        kinds = field_kinds(cls)
        needed = [kind for kind in kinds.values() if kind.required]
        before = len(needed) - 1
        if needed and before <= len(args) and needed[-1].one_by_one:
            args = (*args[:before], args[before:])
        given = {**dict(zip(kinds, args, strict=False)), **options}
        return cls(**{name: kinds[name].resolved(name, value, names) for name, value in given.items()})


@dataclass(frozen=True, slots=True)
class FieldKind:
    """What a field of a directive holds: text, int, bool, or a tuple of text; which names these are; and whether it may be None.

    `to_text` makes text of what a user writes there, a function or an expression.
    """

    holds: type
    names: str = ""
    to_text: Callable[[Any], str] | None = None
    optional: bool = False
    required: bool = True

    @property
    def one_by_one(self) -> bool:
        """Are the names in a tuple given, and written, one by one?"""
        return self.holds is tuple and self.required

    def fits(self, value: object) -> bool:
        """Is a value one that the field may hold?"""
        if value is None:
            return self.optional
        if self.holds is tuple:
            return isinstance(value, tuple) and all(isinstance(part, str) for part in value)
        return isinstance(value, self.holds) and isinstance(value, bool) == (self.holds is bool)

    def resolved(self, field: str, value: object, names: NameResolver) -> Any:
        """What the field holds where a user wrote `value`. Raises `Refusal`."""
        if value is None and self.optional:
            return None
        if self.to_text is not None:
            return self.to_text(value)
        if self.holds is not tuple:
            return names.loop(value) if self.names == "loop" else names.text(value, self.names) if self.names else value
        if isinstance(value, (tuple, list)):
            return tuple(names.loop(part) for part in value) if self.names == "loop" else tuple(value)
        raise Refusal("TL-S005", f"{field} is a tuple of {self.names or 'name'}s, not {value!r:.40}")

    def __str__(self) -> str:
        wanted = {str: "a name", int: "an int", bool: "True or False", tuple: "a tuple of names"}[self.holds]
        return f"{wanted} or None" if self.optional else wanted


@cache
def field_kinds(directive: type[Directive]) -> dict[str, FieldKind]:
    """What each field of a directive holds, in the order of a call."""
    hints = get_type_hints(directive, include_extras=True)
    fields = dataclasses.fields(directive)  # type: ignore[arg-type]
    return {field.name: replace(_kind(hints[field.name]), required=field.default is dataclasses.MISSING) for field in fields}


def _kind(hint: Any) -> FieldKind:
    union = get_origin(hint) in (Union, UnionType)  # `X | None` is one or the other, by what X is
    parts = [part for part in get_args(hint) if part is not NoneType] if union else [hint]
    optional, (hint,) = union and len(parts) < len(get_args(hint)), parts
    if get_origin(hint) is tuple:
        return FieldKind(tuple, _kind(get_args(hint)[0]).names, optional=optional)
    (told,) = hint.__metadata__ if get_origin(hint) is Annotated else ("",)
    names, to_text = (told, None) if isinstance(told, str) else ("", told)
    return FieldKind(hint if hint in (int, bool) else str, names, to_text, optional)


def require_int(value: object, what: str, least: int, most: int, loop: str = "") -> int:
    """`value` if it is an int in `least..most`. Raises `Refusal`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refusal("TL-S005", f"{what} must be an int, not {value!r:.40}", loop=loop)
    if not least <= value <= most:
        raise Refusal("TL-S005", f"{what} must be in {least}..{most}, not {value}", loop=loop)
    return value
