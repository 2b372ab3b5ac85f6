"""A schedule, or the default schedule of a definition, to a program: everything that a kernel is made of, and not linked yet.

What was compiled before is not compiled again: a `Request` has a name that is found without lowering, or even scheduling, anything (see
`program_key`), and its program is looked for in this process, then in the files of an earlier one (`object_cache`, `object_files`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy.typing as npt

from tensorlang.codegen.cache import identifiers, object_files
from tensorlang.codegen.cache.interface_symbol import with_interface
from tensorlang.codegen.cache.program import Origin, Program, Provenance, Scheduled
from tensorlang.codegen.cache.program_key import digest
from tensorlang.codegen.cache.signature import Argument, Signature
from tensorlang.codegen.cost import definition_cost
from tensorlang.codegen.emission.emit import emitted
from tensorlang.codegen.llvm.binding import Compiled
from tensorlang.codegen.llvm.safe_compilation import compiled
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.runtime import soft_floats, workers, workspaces
from tensorlang.codegen.runtime.threads import COUNTER_SYMBOL, get_threads
from tensorlang.codegen.target import Target
from tensorlang.codegen.target.cores import digest as machine_digest
from tensorlang.definition.tensor import Tensor
from tensorlang.errors import BuildError, ScheduleError, TensorlangError
from tensorlang.ir import Buffer, Const, For, Nest, Stmt
from tensorlang.ir.printer import print_nest
from tensorlang.ir.traverse import statements
from tensorlang.lowering.program import lower_program
from tensorlang.schedules import trace
from tensorlang.schedules.directives import instructions
from tensorlang.schedules.faults import TOO_MUCH_CODE, Fault
from tensorlang.schedules.legality.budget import MAX_EMITTED, MAX_INSTRUCTIONS, too_much
from tensorlang.schedules.legality.code_size import REGISTER
from tensorlang.schedules.legality.in_place import overwritten
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies import choose, expectations
from tensorlang.system import collector
from tensorlang.system.interruptions import is_interruption
from tensorlang.system.lazy import cached_property
from tensorlang.system.object_cache import ObjectCache

_log: Final = logging.getLogger("tensorlang")
_programs: Final[ObjectCache[Program]] = ObjectCache()

MOST_GROWTH: Final = 16
"""By how much the code of a nest is underestimated before it is lowered, at most: 10 was seen, of bytes gathered by indices of 64 bits."""
_looked_at = threading.local()
"""What a thread lowered last to see whether it stays small: the nest, the target, and what came of it."""
_TAKEN: Final = frozenset({"posix_memalign", "free", "malloc", COUNTER_SYMBOL, *workers.SYMBOLS, *workspaces.SYMBOLS})


@dataclass(frozen=True, eq=False)
class Request:
    """A program that is wanted: what it comes from, for which target, with which operands fixed.

    `how` tells how its nest was scheduled, as far as the program's name depends on it; `shared`: other processes may have its file.
    `reason` is why the schedule was chosen, on which the code does not depend. `known` is the name, where that was found out before.
    """

    origin: Origin
    target: Target
    bound: Mapping[str, npt.NDArray[Any]]
    provenance: Provenance | None
    how: tuple[object, ...]
    shared: bool = True
    reason: str = ""
    known: str = ""

    @cached_property
    def name(self) -> str:
        """What tells the code from all other code, and does not depend on what fixed operands hold."""
        return self.known or digest(self.target, self.provenance, tuple(sorted(self.bound)), self.origin.plain, self.how)

    def program(self) -> Program:
        """The program: compiled now, or from what was compiled before. With fixed operands the code is kept, and the arrays are not."""
        made = replace(_programs.get(self.name, self._compiled), bound=self.bound) if self.bound else self._compiled()
        return replace(made, origin=self.origin, provenance_reason=self.reason, threads=self.origin.threads)

    def outline(self) -> Program:
        """The program without code: what can be said of it before anything is scheduled."""
        plain, nothing = self.origin.plain, Compiled.of(b"", "", self.target.machine)
        made = Program(_signature(plain), self.target, nothing, provenance=self.provenance, provenance_reason=self.reason, bound=self.bound)
        return replace(made, origin=self.origin, threads=self.origin.threads)

    def _compiled(self) -> Program:
        if not self.shared or not self.target.is_native:
            return compile_nest(self.origin, self.target, self.provenance)
        return object_files.cached_program(self.name, lambda: compile_nest(self.origin, self.target, self.provenance))


def of_schedule(
    schedule: Schedule,
    target: Target,
    *,
    name: str | None = None,
    inputs: Sequence[Tensor] | None = None,
    provenance: Provenance | None = None,
    reason: str = "",
    threads: int | None = None,
) -> Request:
    """The program of a schedule, with so many `threads` (default: those of the process at each call).

    Raises `BuildError` for a name that a C function cannot have, and for too much code.
    """
    program, label = schedule.program, _label(name, schedule.nest)
    _require_small(schedule.nest, MAX_INSTRUCTIONS)
    plain = program.function(label, inputs)
    made, directives = scheduled(plain, schedule), schedule.directives
    origin = Origin(program, plain, lambda: made, provenance == "default", steps=lambda: trace.to_json(directives, ""), threads=threads)
    return of_nest(origin, target, program.bound, provenance, reason)


def of_default(
    outputs: object,
    target: Target,
    *,
    name: str | None = None,
    inputs: Sequence[Tensor] | None = None,
    provenance: Provenance | None = None,
    reason: str = "",
    threads: int | None = None,
    constants: frozenset[str] = frozenset(),
) -> Request:
    """The program of the default schedule of a definition, which is scheduled only where nothing was kept. Raises `BuildError`.

    A default schedule is one for a machine and so many `threads` (default: those of the process, now and at each call), so these and the
    description of the machine are part of the program's name. It may be one for which the packing of `constants` is free.
    """
    if name is not None:
        require_name(name)
    program, count = lower_program(outputs), get_threads() if threads is None else threads
    plain = program.function(_label(name, program.nest), inputs)

    def by_default() -> Scheduled:
        _require_small(plain, MAX_INSTRUCTIONS)
        return scheduled(plain, default_schedule(program, target, constants, count))

    how = ("default", count, machine_digest(target.core), *([tuple(sorted(constants))] if constants else []), *expectations(program))
    origin = Origin(program, plain, by_default, chosen=not constants, steps=None if constants else lambda: None, threads=threads, how=how)
    return Request(origin, target, program.bound, provenance, how, reason=reason)


def of_nest(
    origin: Origin, target: Target, bound: Mapping[str, npt.NDArray[Any]], provenance: Provenance | None = None, reason: str = ""
) -> Request:
    """The program of a scheduled nest whose operands `bound` are fixed."""
    return Request(origin, target, bound, provenance, ("nest", origin.nest), is_shipped(origin.nest), reason)


def scheduled(plain: Nest, schedule: Schedule) -> Scheduled:
    """The function `plain` with the loops of a schedule of its program."""
    return Scheduled(replace(plain, body=schedule.nest.body, relations=schedule.nest.relations), schedule.faults)


def default_schedule(outputs: object, target: Target, constants: frozenset[str] = frozenset(), threads: int | None = None) -> Schedule:
    """The schedule that is used where none is given or known; there is one for every definition. `constants` are packed for nothing."""
    try:
        strategy = choose(outputs, target, get_threads() if threads is None else threads, constants)
        chosen = strategy.schedule(strategy.default)
        reason = _too_much_lowered(chosen.nest, target)
        return chosen if reason is None else _unscheduled(outputs, Fault("", "the default schedule", TOO_MUCH_CODE, reason))
    except ScheduleError as error:
        if error.code != TOO_MUCH_CODE:
            raise
        return _unscheduled(outputs, Fault.of("", error))  # nearly too large by itself, and so once it is vectorised
    except (TensorlangError, MemoryError):
        raise
    except OSError:  # no search raises this: it is somebody's time limit
        raise
    except Exception as error:
        if is_interruption(error):
            raise
        return plain_loops(outputs, error)  # whatever goes wrong in a search for speed


def _too_much_lowered(nest: Nest, target: Target) -> str | None:
    """Why a nest is too much code, as it may be only once it is lowered; None where it is not."""
    if too_much(nest, MAX_EMITTED / MOST_GROWTH) is None:
        return None
    _looked_at.last = nest, target, lower(nest, target)
    return too_much(_looked_at.last[2], MAX_EMITTED, target.vector_bits)


def _lowered(nest: Nest, target: Target) -> Nest:
    """A nest, lowered; what was lowered to see whether it stays small is not lowered again under the names of a function."""
    other, of, lowered = _looked_at.__dict__.pop("last", (None, None, None))
    same = other is not None and of == target and other.body is nest.body and other.relations is nest.relations
    return replace(nest, body=lowered.body, relations=lowered.relations) if same else lower(nest, target)


def plain_loops(outputs: object, error: Exception) -> Schedule:
    """The loops as they are written, where a strategy broke: a fault of ours costs speed, and not the kernel. The schedule tells of it."""
    schedule = _unscheduled(outputs, Fault("", "the choice of a schedule", "internal", f"{type(error).__name__}: {error}"))
    _log.warning("%s keeps its plain loops, since the choice of a schedule failed; please report this", schedule.nest.name, exc_info=error)
    return schedule


def _unscheduled(outputs: object, fault: Fault) -> Schedule:
    """The loops as they are written, and why."""
    schedule = Schedule(outputs)
    schedule.faults = (replace(fault, stage=schedule.nest.name),)
    return schedule


@collector.paused()
def compile_nest(origin: Origin, target: Target, provenance: Provenance | None = None) -> Program:
    """The program of a scheduled nest, compiled now, with no operand fixed."""
    nest = origin.nest
    lowered = _lowered(nest, target)
    _require_small(lowered, MAX_EMITTED, target.vector_bits)
    _require_in_place(nest)
    signature = _signature(nest)
    module = emitted(lowered, target, name=nest.name)
    code = compiled(with_interface(module.text, signature, target), target.machine)
    if not target.is_native and (missing := soft_floats.missing(code.object)):
        raise BuildError(
            f"{nest.name!r} cannot be built for {target}: it lacks instructions for floating point, and the code would call "
            f"{', '.join(missing[:3])}; name a CPU that has them, or features as '+f,+d' for RISC-V"
        )
    return Program(
        signature=signature,
        target=target,
        compiled=code,
        nest=print_nest(nest),
        flops=definition_cost.flops(origin.plain),
        bytes=definition_cost.traffic(origin.plain),
        workspace_bytes=module.workspace,
        thread_workspace_bytes=module.share,
        provenance=provenance,
    )


def forget() -> None:
    """Forget what was compiled in this process; files stay."""
    _programs.clear()


def _require_small(nest: Nest, limit: int, register: int = REGISTER) -> None:
    """Raise `BuildError` for a nest that is too much code, lowered or as it was defined."""
    reason = too_much(nest, limit, register)
    if reason is not None:
        raise BuildError(f"{nest.name!r} cannot be built: {reason}")


def _label(name: str | None, nest: Nest) -> str:
    """What a kernel is called: as it was said, or as its first output, made one that a function can have. Raises `BuildError`."""
    own = nest.name if name is None else name
    if name is None and own == nest.outputs[0].name and _why_unusable(own) is not None:
        return f"{own[: identifiers.LONGEST - 1]}_"
    require_name(own)
    return own


def require_name(name: object) -> None:
    """Raise `BuildError` for what no C function may be called."""
    if not isinstance(name, str):
        raise BuildError(f"{name!r} cannot name a kernel: a name is a string")
    if (reason := _why_unusable(name)) is not None:
        raise BuildError(f"{name!r} cannot name a kernel: {reason}; give it another one with name=")


def _why_unusable(name: str) -> str | None:
    return "compiled code calls a function of this name" if name in _TAKEN else identifiers.why_unusable(name)


def is_shipped(nest: Nest) -> bool:
    """Does a nest mean the same in every process? The instructions that users define are known by name in theirs alone."""
    return all(map(_is_shipped, statements(nest.body)))


def _is_shipped(part: Stmt) -> bool:
    return not isinstance(part, For) or part.instruction is None or instructions.is_shipped(instructions.find(part.instruction))


def _require_in_place(nest: Nest) -> None:
    """Raise `BuildError` where a result that may lie over an operand is written too soon."""
    for buffer in nest.outputs:
        example = overwritten(nest, buffer.name, buffer.over) if buffer.over else None
        if example is not None:
            raise BuildError(
                f"{nest.name!r} cannot write {buffer.name!r} over {buffer.over!r}: {example['element']} may be written before it is read; "
                f"first {example['first']}, then {example['second']}"
            )


def _signature(nest: Nest) -> Signature:
    arguments = tuple(map(_argument, nest.inputs)), tuple(_argument(buffer, nest.inputs) for buffer in nest.outputs)
    return Signature(nest.name, *arguments, nest.dims, nest.limits, nest.products)


def _argument(buffer: Buffer, inputs: tuple[Buffer, ...] = ()) -> Argument:
    steps: list[int] = []
    over = next((place for place, below in enumerate(inputs) if below.name == buffer.over), None)
    if buffer.allocated:
        apart = 1
        for held in reversed(buffer.in_memory):
            steps.append(apart)
            apart *= int(held.value) if isinstance(held, Const) else 1  # only of the first extent, which nothing follows
    return Argument(buffer.name, buffer.shape, buffer.dtype, tuple(reversed(steps)), over)
