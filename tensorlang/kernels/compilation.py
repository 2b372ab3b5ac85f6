"""`compile`: the kernel of a spec or of tensors, built once for each key, whoever asks and from whichever thread.

    asked ──▶ program and key ──▶ code, one for each key, level and state of a database ──▶ kernel under the caller's names

A spec that was asked for before comes back at the second arrow: nothing is defined, and the kernel is the same object. Tensors are read
and named, which takes a millisecond; their kernel shares the code.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tensorlang.autotune.jobs.compile import SHIPPED, best_known
from tensorlang.codegen.cache.program import Program
from tensorlang.codegen.cache.signature import c_name
from tensorlang.codegen.compilation import Request as ProgramRequest, of_schedule, require_name
from tensorlang.codegen.kernel.kernel import Kernel, cached_kernel
from tensorlang.codegen.kernel.prepack import prepack
from tensorlang.codegen.runtime.threads import get_threads
from tensorlang.codegen.target import Target, target as find_target
from tensorlang.errors import BuildError, InternalError, TensorlangError, did_you_mean
from tensorlang.kernels import keys
from tensorlang.kernels.served import LEVELS, Code, ServedKernel, packed
from tensorlang.kernels.wanted import Wanted, wanted
from tensorlang.ops.spec import Spec
from tensorlang.schedules.schedule import Schedule
from tensorlang.system.object_cache import ObjectCache

if TYPE_CHECKING:
    from tensorlang.autotune.log.database import Database

_log: Final = logging.getLogger("tensorlang")

KEPT: Final = 512
"""Codes and kernels of specs that are kept: those of a few models at several levels."""
MOST_WORKERS: Final = 256
_LABEL: Final = 100

_codes: Final[ObjectCache[Code]] = ObjectCache(KEPT)
_outlines: Final[ObjectCache[Program]] = ObjectCache(KEPT)
_by_spec: Final[ObjectCache[ServedKernel]] = ObjectCache(KEPT)
_databases: Final[ObjectCache[Any]] = ObjectCache(8)


def compile(
    asked: object,
    target: str | Target | None = "native",
    database: Database | str | os.PathLike[str] | None = None,
    level: str = "default",
    epilogue: object = None,
    prologue: object = None,
    constants: object = (),
    inputs: object = None,
    threads: int | None = None,
    strides: object = None,
    over: object = None,
    name: str | None = None,
) -> ServedKernel:
    """The kernel of a spec, or of tensors, with index expressions before and after, built where it was not built before.

    `epilogue=fn(value, *axes)` is computed from each element of the result, `prologue={"A": fn(value, *axes)}` from each that is read of
    an operand; see `tensorlang.ops.fusion`. Arguments are the operator's, then theirs in order of creation; `inputs` is another order, of
    placeholders or of names. `constants` names operands that `kernel.prepack` will fix: the schedule is one for which their packing is
    free. With arrays, as `{"B": b}`, they are fixed now, and the kernel that would take them is not built.
    `threads` is the number that the kernel uses, whatever that of the process is; without it the schedule is for that of the process now,
    and each call uses that of the process then. Results have the same bits for any number.

    `strides={"B": (1, 512)}` says how operands and results lie in memory, in elements, where that is not C order: transposed, sliced,
    every other one, repeated (stride 0), a part of something larger. The schedule is one for them, and a call takes them as they lie.
    `over={"C": "A"}` lets a call write a result where that operand lies, of the same shape and strides: the schedule is proven to read
    every element before it is overwritten. `name` is what the kernel is called, in errors and in files: a program that links several
    products gives each its own. Without it a kernel is called by its operator, or by its first result.

    `level` is "O0" (the loops as they are written: there soonest), "default" (with a database the best schedule that it knows, else the
    default one) or "tuned": a kernel at once, which gets the best code known when that was built in the background. `kernel.level` says
    which runs now. A database is asked once for a key, and again when it has grown.

    Raises `BuildError` for a spec that `supports` refuses, with its reason, for an unknown target, level or constant, for a name that no
    C function may have, and where a result of `over` would be written too soon;
    `DefinitionError` for tensors, epilogues and prologues that are no definition, and for strides that no array has; `CallError` for arrays
    that a call would refuse; `LogError` for a path without a log.
    """
    machine, books = find_target(target), _database(database)
    fixed, constants = (constants, tuple(constants)) if isinstance(constants, Mapping) else ({}, constants)
    if not isinstance(level, str) or level not in LEVELS:
        raise BuildError(f"level= is one of {', '.join(LEVELS)}, not {level!r:.60}")
    own = keys.checked_threads(threads)
    count = own or get_threads()
    state = books if books is None or books == SHIPPED else f"{id(books)}.{books.revision}"
    plain = epilogue is None and prologue is None and inputs is None and strides is None and over is None and name is None
    if name is not None:
        require_name(name)

    def request(program: Wanted) -> tuple[str, Request]:
        places = program.places(constants)
        key = keys.of(program, machine, count, places)
        return f"{key} {own} {level} {state} {program.form}", Request(program, machine, books, level, own, places, key)

    def code(program: Wanted) -> Code:
        known, found = request(program)
        return _codes.get(known, found.code)

    if not (plain and isinstance(asked, Spec)) or fixed:
        program = wanted(asked, epilogue, prologue, inputs, strides, over)
        program = program if name is None else replace(program, name=name)
        if fixed and level == "default":
            known, found = request(program)
            return packed(_outlines.get(known, found.outline), program, fixed)
        served = code(program).serve(program)
        return prepack(served.program, served.library, fixed, ServedKernel) if fixed else served

    def made() -> ServedKernel:
        program = wanted(asked)
        return code(program).serve(program)

    known = f"{asked.text} {keys.machine(machine)} {machine.name} {level} {own} {count} {constants!r} {state}"
    return _by_spec.get(known, made)


_OPTIONS: Final = tuple(inspect.signature(compile).parameters)[1:]


def compile_many(specs: Iterable[object], workers: int = 2, **options: Any) -> list[ServedKernel]:
    """The kernels of many specs, or tensors, in their order, `workers` at a time; `options` are those of `compile`, for all of them.

    A pair of one of them and a dict is one with options of its own, as `(spec, {"epilogue": fn})`: a graph's kernels differ in these.

    LLVM runs in one thread at a time, without the interpreter's lock: two workers schedule while it compiles. Raises what `compile` raises
    for the first that fails; those that were not begun are left out.
    """
    if not isinstance(workers, int) or isinstance(workers, bool) or not 1 <= workers <= MOST_WORKERS:
        raise BuildError(f"workers= is a number from 1 to {MOST_WORKERS}, not {workers!r:.60}")
    try:
        found = iter(specs)
    except TypeError:
        raise BuildError(f"compile_many takes several specs, as in compile_many([spec, other]), not {specs!r:.60}") from None
    every = list(map(_with_options, found))
    for name in dict.fromkeys(name for own in (options, *(own for _, own in every)) for name in own):
        if name not in _OPTIONS:
            raise BuildError(f"{name!r:.60} is no option of compile{did_you_mean(str(name), _OPTIONS)}")
    with ThreadPoolExecutor(workers, thread_name_prefix="tensorlang compile") as pool:
        futures = [pool.submit(compile, spec, **(options | own)) for spec, own in every]
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()


def _with_options(entry: object) -> tuple[object, dict[str, Any]]:
    """What is asked for, and the options that it has alone."""
    match entry:
        case (asked, Mapping() as options):
            return asked, dict(options)
        case _:
            return entry, {}


class Request:
    """Code that is wanted and not there: how to make it, now and better later."""

    def __init__(
        self, program: Wanted, target: Target, database: Any, level: str, threads: int | None, constants: tuple[int, ...], key: str
    ) -> None:
        self.program, self.target, self.database = program, target, database
        self.level, self.threads, self.constants = level, threads, frozenset(program.names[place] for place in constants)
        self.name = f"{c_name(program.name)[:_LABEL]}_{key[:8]}"

    def code(self) -> Code:
        """The code that is served first. Raises `BuildError`."""
        if self.level == "default":
            return Code(self.best(), keep=self.database)
        return Code(self.plain(), self.better if self.level == "tuned" else None, self.database)

    def best(self) -> Kernel:
        """By the best schedule known."""
        return cached_kernel(self._best())

    def outline(self) -> Program:
        """The program by the best schedule known, without its code. Raises `BuildError`."""
        return self._best().outline()

    def _best(self) -> ProgramRequest:
        program = self.program
        return best_known(
            program.outputs, self.target, self.database, self.name,
            inputs=program.passed, threads=self.threads, constants=self.constants,
        )  # fmt: skip

    def plain(self) -> Kernel:
        """By the loops as they are written."""
        schedule = Schedule(self.program.outputs)
        return cached_kernel(
            of_schedule(schedule, self.target, name=self.name, inputs=self.program.passed, reason="level O0", threads=self.threads)
        )

    def better(self) -> Kernel | None:
        """What takes the place of the plain loops, made in the background; None, and a line in the log, where it cannot be made."""
        try:
            return self.best()
        except (TensorlangError, InternalError) as error:
            _log.warning("%s stays at level O0: %s", self.program.name, str(error).splitlines()[0])
            return None


def _database(database: object) -> Any:
    """A database, opened once for a path and read on where its files grew. Raises `BuildError` and `LogError`."""
    if database is None or (isinstance(database, str) and database == SHIPPED):
        return database
    from tensorlang.autotune.log.database import Database  # noqa: PLC0415 - without one, nothing of logs is loaded

    if isinstance(database, Database):
        return database
    if not isinstance(database, (str, os.PathLike)):
        raise BuildError(f"database= is the path of a log, a Database, or None, not {database!r:.60}")
    fresh: list[object] = []

    def opened() -> Database:
        fresh.append(database)
        return Database(database)

    try:
        place = os.path.realpath(database)
    except ValueError:  # no path at all
        return Database(database)
    found: Database = _databases.get(place, opened)
    if not fresh:
        found.refresh()
    return found


def forget() -> None:
    """Forget what this library built and defined in this process."""
    _codes.clear()
    _outlines.clear()
    _by_spec.clear()
    _databases.clear()
