"""What is asked of a database, and what it answers: a record, and how far it can be trusted here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tensorlang.autotune.log.fixed_operands import operands_by_first_use, with_fixed
from tensorlang.autotune.log.index import dims_of
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.measurement.host import software
from tensorlang.codegen.target import Target
from tensorlang.errors import TensorlangError
from tensorlang.schedules.spaces.space import Config
from tensorlang.system.lazy import cached_property

_MAKERS: Final = ("tensorlang", "llvmlite")
"""The packages whose versions decide what code a schedule becomes."""


@dataclass(frozen=True, slots=True)
class Match:
    """What was found: `kind` is "tuned" (this very program, here), "nearest" (another shape or CPU) or None (the default is best known).

    `foreign` records were measured on another CPU of the same instruction set. `reason` says why this is the choice.
    `constants` are the operands of the program at hand that stay fixed, by name, `sizes` its dims where the record is of it at a size.
    `vouched`: it was validated before it was shipped.
    """

    kind: Literal["tuned", "nearest"] | None
    record: Trial | None = None
    config: Config | None = None
    outputs: Any = None
    target: Target | None = None
    threads: int = 1
    foreign: bool = False
    reason: str = ""
    constants: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)
    vouched: bool = False

    @property
    def stale(self) -> bool:
        """Was the record written by another version of what makes the code, or by one that is not known?"""
        if self.record is None:
            return False
        wrote, ours = self.record.fields.get("software"), software()
        return not isinstance(wrote, dict) or any(wrote.get(name) != ours[name] or ours[name] == "uninstalled" for name in _MAKERS)

    @property
    def dims(self) -> dict[str, int]:
        """The values at which extents known only at run time were measured."""
        return dict(self.sizes) if self.sizes else {} if self.record is None else dims_of(self.record)

    @property
    def needs_validation(self) -> bool:
        """Must a kernel of this schedule be compared with the definition before it is used?"""
        return not self.vouched and (self.foreign or self.stale)

    def schedule(self) -> Any:
        """The schedule, proved legal for the program at hand; None if there is none or it is no longer accepted."""
        return self.replayed()[0]

    def replayed(self) -> tuple[Any, str]:
        """The schedule, or None and why there is none."""
        if self.record is None or self.config is None or self.target is None:
            return None, "there is no record"
        from tensorlang.schedules.schedule import Schedule  # noqa: PLC0415
        from tensorlang.schedules.strategies import choose  # noqa: PLC0415
        from tensorlang.serialization import canonical  # noqa: PLC0415 - the index itself needs no compiler

        try:
            same_names = canonical.describe(self.outputs) == self.record.task.get("definition")
            if self.record.schedule and same_names:
                return Schedule.from_json(self.outputs, self.record.schedule), ""
            return choose(self.outputs, self.target, self.threads, self.constants).schedule(self.config), ""
        except (TensorlangError, KeyError, TypeError, ValueError) as error:  # a record of another version, or of a template
            return None, (str(error).splitlines() or [type(error).__name__])[0]


@dataclass(frozen=True)
class Query:
    """A program on a target, with operands that stay fixed, in `places` by first use: as records are looked up."""

    outputs: Any
    fingerprint: str
    target: Target
    threads: int
    cache: str
    places: tuple[int, ...] = ()
    constants: frozenset[str] = frozenset()
    dims: tuple[str, ...] = ()

    @classmethod
    def of(cls, outputs: Any, target: Target, threads: int, cache: str, constants: Iterable[str]) -> Query:
        """The question for these outputs."""
        from tensorlang.serialization import canonical  # noqa: PLC0415 - the index itself needs no compiler

        names = tuple(constants)
        places: tuple[int, ...] = ()
        if names:
            from tensorlang.definition.tensor import as_outputs  # noqa: PLC0415

            known = operands_by_first_use(as_outputs(outputs))
            places = tuple(place for place, name in enumerate(known) if name in names)
        fingerprint, dims = canonical.fingerprint_and_dims(outputs)
        return cls(outputs, fingerprint, target, threads, cache, places, frozenset(names), dims)

    @cached_property
    def program(self) -> str:
        """What records of it are looked up by."""
        return with_fixed(self.fingerprint, self.places)

    @cached_property
    def family(self) -> str:
        """What records of its other shapes are looked up by."""
        from tensorlang.serialization import canonical  # noqa: PLC0415 - the index itself needs no compiler

        return with_fixed(canonical.family(self.outputs), self.places)

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """What its other shapes differ in."""
        from tensorlang.serialization import canonical  # noqa: PLC0415 - the index itself needs no compiler

        return tuple(canonical.extents(self.outputs))

    def as_given(self) -> Query:
        """The same, looked up among what was tuned without anything fixed."""
        return replace(self, places=()) if self.places else self

    def match(self, kind: Literal["tuned", "nearest"] | None, trial: Trial | None, reason: str, **more: Any) -> Match:
        """An answer."""
        config = more.pop("config", None if trial is None else trial.config)
        return Match(kind, trial, config, self.outputs, self.target, self.threads, reason=reason, constants=self.constants, **more)
