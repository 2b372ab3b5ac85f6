"""Keys: what a kernel is called, by what decides it and by nothing else.

The same for a program however it is spelled, named or ordered; another one for any difference in shape, type, attribute, epilogue,
constants, threads or target. A named target is its processor as the tables have it, so its keys are the same on every machine; those of
"native" are on machines of one description (`docs/machines.md`). Threads that nobody said are those of the process, and say nothing here.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final

from tensorlang.codegen.runtime.threads import MAX_THREADS
from tensorlang.codegen.target import Target, target as find_target
from tensorlang.codegen.target.cores import digest as machine_digest
from tensorlang.errors import BuildError
from tensorlang.kernels.wanted import Wanted, wanted

SCHEMA: Final = 1
"""Grows when the same program gets another key."""


def key(
    asked: object,
    target: str | Target | None = "native",
    threads: int | None = None,
    constants: object = (),
    epilogue: object = None,
    prologue: object = None,
    strides: object = None,
    over: object = None,
) -> str:
    """The key of a spec or of tensors, 64 hexadecimal digits. Takes what `compile` takes, and raises what it raises before it builds."""
    program = wanted(asked, epilogue, prologue, layouts=strides, over=over)
    return of(program, find_target(target), checked_threads(threads), program.places(constants))


def of(program: Wanted, target: Target, threads: int | None, constants: tuple[int, ...]) -> str:
    """The key of a program with constants in these places."""
    text = json.dumps([SCHEMA, program.fingerprint, *machine(target), threads, constants], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def machine(target: Target) -> tuple[str, ...]:
    """What of a target decides code and schedule: never its name."""
    return target.triple, target.cpu, ",".join(sorted(target.isa)), machine_digest(target.core)


def checked_threads(threads: object) -> int | None:
    """A number of threads, or None. Raises `BuildError`."""
    if threads is None or (isinstance(threads, int) and not isinstance(threads, bool) and 1 <= threads <= MAX_THREADS):
        return threads
    raise BuildError(f"threads= is a number from 1 to {MAX_THREADS}, or None for that of the process, not {threads!r:.60}")
