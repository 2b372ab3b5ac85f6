"""`kernel.export`: the files of a kernel for programs without Python.

Everything is made before anything is written: a kernel that some format refuses leaves the folder as it was, and the files take their
places together.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Final

from tensorlang.codegen import compilation
from tensorlang.codegen.cache.program import Program
from tensorlang.codegen.export import c_source, dispatch, header, libraries, metadata, object as objects
from tensorlang.codegen.export.interface import Interface
from tensorlang.codegen.export.object import Module
from tensorlang.codegen.export.writing import written
from tensorlang.codegen.target import Target, target as find_target
from tensorlang.errors import BuildError, did_you_mean

FORMATS: Final = ("o", "h", "so", "a", "c", "ll", "s", "json")


def export(
    program: Program, directory: str | PathLike[str], formats: Sequence[str] = FORMATS, targets: Sequence[str | Target] = ()
) -> dict[str, Path]:
    """Write `directory/name.format` for each format, all or none; the paths by format. Raises `BuildError`, see `Kernel.export`."""
    wanted = _formats(formats)
    interface, levels = Interface.of(program), _targets(targets)
    programs = _versions(program, levels) if levels else [program]
    made = _Artefacts(programs, interface, whole="h" not in wanted)
    contents = {form: made.of(form) for form in wanted}
    return written(
        directory, {form: (f"{interface.name}.{form}", held) for form, held in contents.items()}, f"the kernel {interface.name!r}"
    )


def _formats(formats: object) -> tuple[str, ...]:
    if isinstance(formats, str) or not isinstance(formats, Sequence):
        raise BuildError(f"formats is a sequence of names as {FORMATS}, not {formats!r:.60}")
    for form in formats:
        if form not in FORMATS:
            raise BuildError(f"{form!r:.60} is no format of an exported kernel{did_you_mean(str(form), FORMATS)}; there are {FORMATS}")
    if not formats:
        raise BuildError(f"formats names no format; there are {FORMATS}")
    return tuple(dict.fromkeys(formats))


def _targets(targets: object) -> list[Target]:
    if isinstance(targets, (str, Target)) or not isinstance(targets, Sequence):
        raise BuildError(f"targets is a sequence as ('x86-64-v2', 'x86-64-v3'), not {targets!r:.60}")
    return [find_target(wanted) for wanted in targets]


def _versions(program: Program, targets: list[Target]) -> list[Program]:
    """The program compiled for each target, the best first: with its schedule where one was given, else with each target's own."""
    name = program.signature.name
    origin = program.origin
    if origin is None or origin.steps is None:
        raise BuildError(f"the kernel {name!r} has one target: it was read from a file, or packed; export what it was made from")
    made = []
    for place in dispatch.order(targets):
        target = targets[place]
        if origin.chosen:
            schedule = compilation.default_schedule(origin.program, target)
            made.append(compilation.compile_nest(origin.under(compilation.scheduled(origin.plain, schedule)), target))
        else:
            made.append(compilation.compile_nest(origin, target))
    return [replace(version, bound=program.bound, origin=origin, provenance=program.provenance) for version in made]


class _Artefacts:
    """The contents of every format, each part made once."""

    def __init__(self, programs: list[Program], interface: Interface, *, whole: bool) -> None:
        self.programs, self.interface, self.whole = programs, interface, whole
        self.program = programs[-1]
        self._module: Module | None = None
        self._code = b""

    def of(self, form: str) -> bytes:
        """The contents of one file."""
        name = self.interface.name
        match form:
            case "o":
                return self.code
            case "a":
                return libraries.archive(name, self.code, objects.symbols(self.module))
            case "so":
                return libraries.shared(name, self.code, self.program.target)
            case "h":
                return self.header.encode()
            case "c":
                declarations = self.header if self.whole else f'#include "{name}.h"\n'
                return c_source.source(self.program, self.interface, declarations).encode()
            case "ll" | "s":
                return self.module.rendered(form)
            case _:
                told = metadata.whole(self.program, self.interface, tuple(version.target for version in self.programs))
                lines = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in told.items())
                return "{{\n{}\n}}\n".format(",\n".join(lines)).encode()

    @property
    def module(self) -> Module:
        """The LLVM IR."""
        if self._module is None:
            self._module = objects.module(self.programs, self.interface)
        return self._module

    @property
    def code(self) -> bytes:
        """The object."""
        self._code = self._code or self.module.compiled().object
        return self._code

    @property
    def header(self) -> str:
        """The declarations."""
        targets = ", ".join(str(version.target) for version in self.programs)
        return header.header(self.program, self.interface, targets)
