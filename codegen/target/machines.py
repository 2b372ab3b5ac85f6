"""The machine that somebody names, by a target or by the file of a description, as the cost model sees it."""

from __future__ import annotations

import os
from os import PathLike
from typing import TypeGuard

from tensorlang.codegen.target.cores import machine_of
from tensorlang.codegen.target.description import Target, target
from tensorlang.schedules.model.machine import Machine


def machine(spec: str | PathLike[str] | Target | Machine | None = None) -> Machine:
    """The description of a target's core: what `tl.build` takes, or the path of a description, which `autotune calibrate` writes.

    "native" is described as it was measured, where it was; a named CPU as the table has it, on every machine. Raises `BuildError` for an
    unknown target and for a file that holds no description. See `docs/machines.md`.
    """
    if isinstance(spec, Machine):
        return spec
    if is_description(spec):
        from tensorlang.codegen.target import described  # noqa: PLC0415 - few have a file

        return described.read(spec).machine
    assert not isinstance(spec, PathLike)
    return machine_of(target(spec))


def is_description(spec: object) -> TypeGuard[str | PathLike[str]]:
    """Is it the path of a description, and not a target?"""
    return isinstance(spec, PathLike) or (isinstance(spec, str) and (os.sep in spec or spec.endswith(".json")))
