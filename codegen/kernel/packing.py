"""How the constant operands of a program are packed: the code that packs each, step by step, and the code that reads what that gives.

    scheduled nest ──▶ split for an operand ──▶ its packer, and a nest that is split for the next one ──▶ ... ──▶ the nest that computes

To say so takes a schedule for which packing is free, which is the most that a kernel costs whose code is there already. So what is found is
kept beside the kernels, by the names of the codes (see `found_files`), and codes come from their files. A packer is looked for when
something is packed, and the nest is scheduled and split when a code has no file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tensorlang.codegen.cache import found_files, object_files
from tensorlang.codegen.cache.program import Origin, Program, Scheduled
from tensorlang.codegen.cache.program_key import digest
from tensorlang.codegen.calling.arguments import Array
from tensorlang.codegen.calling.runnable import Runnable
from tensorlang.codegen.compilation import Request, default_schedule, is_shipped, of_nest, scheduled
from tensorlang.codegen.kernel.packer import PackedOperand, split_all
from tensorlang.codegen.llvm.binding import Library
from tensorlang.codegen.runtime import arrays
from tensorlang.codegen.runtime.threads import get_threads
from tensorlang.codegen.target.cores import digest as machine_digest
from tensorlang.errors import InternalError
from tensorlang.ir import Const
from tensorlang.ir.dtype import DType, dtype
from tensorlang.schedules.strategies.loops.panels import panels_ahead
from tensorlang.system.lazy import cached_property

Make: TypeAlias = Callable[[Program, Library | None], Runnable]
"""What makes a kernel of a program and its linked code."""


class Written(NamedTuple):
    """What a step is known by: the name of the code that packs, and what that writes into."""

    name: str
    shape: tuple[int, ...]
    dtype: DType


class Form(NamedTuple):
    """How operands are packed, by their names, and the name of the code that reads what that gives."""

    steps: Mapping[str, tuple[Written, ...]]
    code: str

    def to_json(self) -> object:
        """Plain JSON values, read back by `from_json`."""
        return [{name: [(step.name, step.shape, str(step.dtype)) for step in steps] for name, steps in self.steps.items()}, self.code]

    @staticmethod
    def from_json(data: Any) -> Form:
        """The form that `to_json` wrote."""
        steps, code = data
        made = {name: tuple(Written(own, tuple(shape), dtype(kind)) for own, shape, kind in given) for name, given in steps.items()}
        return Form(made, code)


@dataclass(frozen=True, eq=False)
class Step:
    """One way that an operand goes: the name of the code that packs it, what that is written into, and how to come by that code."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    made: Callable[[], Runnable]

    @cached_property
    def packer(self) -> Runnable:
        """What packs."""
        return self.made()

    def __call__(self, array: Array) -> Array:
        """The packed operand."""
        return packed_by(self.packer, array)


def packed_by(packer: Runnable, array: Array) -> Array:
    """What a packer makes of an operand. Raises `CallError` as a call does."""
    (result,) = packer.program.signature.outputs
    shape = tuple(int(extent.value) for extent in result.shape if isinstance(extent, Const))
    packed = arrays.empty_aligned(shape, result.dtype.numpy)
    packed[...] = np.zeros((), packed.dtype)  # the last panels may have room that nothing is packed into
    packer(array, out=packed)
    return packed


@dataclass(frozen=True, slots=True)
class Packing:
    """How operands are packed, each in some steps, and the code that reads the last of these; found once for a program."""

    steps: Mapping[str, tuple[Step, ...]]
    code: Runnable

    def operand(self, place: int) -> str:
        """What the code calls the input in a place."""
        return self.code.program.signature.inputs[place].name


def packing_of(program: Program, origin: Origin, places: tuple[int, ...], make: Make) -> Packing:
    """How the operands in these places are packed, found out once for a program, which need not have code yet."""
    names = tuple(program.compiled_as.inputs[place].name for place in places)
    key = repr((names, origin.threads or get_threads()))
    found: Packing = origin.packings.get(key, lambda: _packing(_Pieces(program, origin, names), make))
    return found


def _packing(pieces: _Pieces, make: Make) -> Packing:
    form = pieces.form

    def steps(name: str) -> Iterator[Step]:
        for number, step in enumerate(form.steps[name]):
            yield Step(*step, partial(pieces.linked, name, number, make))

    return Packing({name: tuple(steps(name)) for name in form.steps}, make(pieces.code().program(), None))


class _Pieces:
    """The pieces of a program's nest, which is scheduled and split when something about them is not known otherwise."""

    def __init__(self, program: Program, origin: Origin, names: tuple[str, ...]) -> None:
        self.program, self.origin, self.names = program, origin, names
        self.threads = origin.threads or get_threads()  # of now: the pieces are of one schedule, whenever they are made

    @cached_property
    def form(self) -> Form:
        """What is known of the pieces without looking at them, from its file if there is one."""
        origin, target = self.origin, self.program.target
        if not (target.is_native and self._told):
            return self._formed()
        asked = (self.names, self.threads, origin.chosen, machine_digest(target.core), self.program.provenance)
        name = digest(target, asked, origin.plain, origin.how or ("nest", origin.nest))
        return found_files.found(f"packing {name}", Form.from_json, self._formed, Form.to_json)

    def linked(self, name: str, number: int, make: Make) -> Runnable:
        """The packer of a step, from its file if there is one."""
        known = object_files.known_program(self.form.steps[name][number].name) if self.program.target.is_native else None
        made = known or self._packer(self._as_told[0][name][number]).program()
        return make(replace(made, threads=self.origin.threads), None)

    def code(self) -> Request:
        """The program that reads what is packed, by its name."""
        origin, program = self.origin.made_by(lambda: self._as_told[1]), self.program
        return Request(origin, program.target, {}, program.provenance, (), self._told, program.provenance_reason, self.form.code)

    @property
    def _told(self) -> bool:
        """Does how the nest was scheduled say in every process which nest it is?"""
        return self.origin.chosen or bool(self.origin.how) or is_shipped(self.origin.nest)

    @cached_property
    def _split(self) -> tuple[Mapping[str, tuple[PackedOperand, ...]], Scheduled]:
        """What becomes of each operand, and the nest that is left."""
        nest, faults = self._scheduled()
        found, rest = split_all(nest, self.names)
        for packed in (steps[-1].packed for steps in found.values() if steps):
            rest = panels_ahead(rest, packed.name, self.program.target.l2)
        return found, Scheduled(rest, faults)

    @property
    def _as_told(self) -> tuple[Mapping[str, tuple[PackedOperand, ...]], Scheduled]:
        """The same, for codes that have no file: they are those that the form names, or packed operands would be read otherwise."""
        if self._formed() != self.form:
            raise InternalError(f"{self.program.signature.name}: the schedule for packed operands {self.names} is not what it was before")
        return self._split

    def _scheduled(self) -> Scheduled:
        origin = self.origin
        if not origin.chosen:
            return origin.scheduled
        return scheduled(origin.plain, default_schedule(origin.program, self.program.target, frozenset(self.names), self.threads))

    def _formed(self) -> Form:
        packed, rest = self._split
        steps = {name: tuple(self._written(parts) for parts in own) for name, own in packed.items()}
        return Form(steps, of_nest(self.origin.under(rest), self.program.target, {}, self.program.provenance).name)

    def _written(self, parts: PackedOperand) -> Written:
        shape = tuple(int(extent.value) for extent in parts.packed.shape if isinstance(extent, Const))
        return Written(self._packer(parts).name, shape, parts.packed.dtype)

    def _packer(self, parts: PackedOperand) -> Request:
        return of_nest(replace(Origin.of(parts.packer), threads=self.origin.threads), self.program.target, {})
