"""Everything that a kernel is made of, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

import numpy.typing as npt

from tensorlang import ir
from tensorlang.codegen.cache.recipe import Recipe, recipe_of
from tensorlang.codegen.cache.signature import Signature
from tensorlang.codegen.llvm.binding import Compiled
from tensorlang.codegen.target import Target
from tensorlang.ir import Expr, Nest
from tensorlang.lowering.program import LoweredProgram
from tensorlang.schedules.faults import Fault
from tensorlang.system.lazy import cached_property
from tensorlang.system.object_cache import ObjectCache

Provenance = Literal["tuned", "nearest", "default"]

_NONE: Final = ir.const(0)

PACKINGS: Final = 4
"""Sets of operands of one program that are packed: hardly ever more than one."""


class Scheduled(NamedTuple):
    """A scheduled nest, and the steps that the strategy was refused which scheduled it."""

    nest: Nest
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, eq=False)
class Origin:
    """What a kernel was built from: the program, its nest as the function that was asked for, and how to make the scheduled one.

    `chosen`: nobody gave the schedule, so that another one may be chosen when more is known. `threads` is how many the kernel uses (None:
    those of the process). `steps` spells the schedule that was given (None: the default one); where it is None itself, no definition and
    schedule make this nest. `how` says of a schedule that is not made yet which one it will be, in every process. `packings` are what
    became of its constant operands, each found once (see `kernel.packing`).
    """

    program: LoweredProgram
    plain: Nest
    schedule: Callable[[], Scheduled]
    chosen: bool
    steps: Callable[[], str | None] | None = None
    threads: int | None = None
    how: tuple[object, ...] = ()

    @cached_property
    def packings(self) -> ObjectCache[Any]:
        """By the operands that are packed."""
        return ObjectCache(PACKINGS)

    @cached_property
    def scheduled(self) -> Scheduled:
        """The schedule's outcome, made when it is first asked for: a kernel whose code is known already may never need it."""
        return self.schedule()

    @property
    def nest(self) -> Nest:
        """The scheduled nest."""
        return self.scheduled.nest

    def under(self, scheduled: Scheduled) -> Origin:
        """The same definition scheduled otherwise."""
        return self.made_by(lambda: scheduled)

    def made_by(self, schedule: Callable[[], Scheduled]) -> Origin:
        """The same definition scheduled otherwise, when its nest is asked for."""
        return replace(self, schedule=schedule, chosen=False, steps=None, how=())

    def recipe(self) -> Recipe | None:
        """What the nest can be made from again, as text; None where nothing says it."""
        if self.steps is None:
            return None
        return recipe_of(self.program.outputs, self.steps(), [buffer.name for buffer in self.plain.inputs])

    @staticmethod
    def of(nest: Nest) -> Origin:
        """A nest that no definition stands behind."""
        return Origin(LoweredProgram(nest), nest, lambda: Scheduled(nest), chosen=False)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Compiled code with its signature, what it was made from, and what it costs.

    `flops` and `bytes` (arithmetic, and compulsory traffic of inputs and outputs) are extents over the dims of the signature. `bound`
    holds inputs that are fixed: the code takes their addresses, a caller does not pass them. `provenance` says where the schedule came
    from, None for one that was given, `provenance_reason` why it was chosen. `origin` is None for a kernel that was read from a file, whose
    recipe is `stored`. `code` is the signature under which the code was compiled, where callers know it by another one. `threads` is how
    many its parallel loops use, None as many as the process says.
    `weights` tells how fixed inputs were packed (see `kernel.prepack`), by the names that they had.
    """

    signature: Signature
    target: Target
    compiled: Compiled
    nest: str = ""
    flops: Expr = _NONE
    bytes: Expr = _NONE
    workspace_bytes: int = 0
    thread_workspace_bytes: int = 0
    provenance: Provenance | None = None
    provenance_reason: str = ""
    bound: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    origin: Origin | None = None
    stored: Recipe | None = None
    code: Signature | None = None
    threads: int | None = None
    weights: Mapping[str, Any] = field(default_factory=dict)

    def recipe(self) -> Recipe | None:
        """What the kernel can be built again from, as text; None where nothing says it."""
        return self.stored if self.origin is None else self.origin.recipe()

    @property
    def compiled_as(self) -> Signature:
        """The signature under which the code was compiled: its name is the symbol."""
        return self.code or self.signature

    def under(self, signature: Signature, bound: Mapping[str, npt.NDArray[Any]] | None = None) -> Program:
        """The same code for a caller who knows it, and what it takes, by other names or in another order.

        `bound` are the caller's own fixed inputs; by default they are those of this program.
        """
        names = {old.name: new.name for old, new in zip(self.signature.inputs, signature.inputs, strict=True)}
        fixed = {names[name]: array for name, array in self.bound.items()} if bound is None else bound
        return replace(self, signature=signature, bound=fixed, code=self.compiled_as)
