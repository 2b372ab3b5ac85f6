"""`build`: a schedule, or the default schedule of a definition, to a kernel.

What was built before is not built again: `build` looks for the kernel in this process, then in the files of an earlier one, by a name that
is found without lowering, or even scheduling, anything (see `identity`, `object_cache`, `object_files`). `build_schedule` always compiles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy.typing as npt

from tensorlang.codegen import counts, object_files
from tensorlang.codegen.emit import emit
from tensorlang.codegen.identity import digest
from tensorlang.codegen.kernel import Kernel
from tensorlang.codegen.lower import lower
from tensorlang.codegen.object_cache import ObjectCache
from tensorlang.codegen.program import Origin, Program, Provenance
from tensorlang.codegen.proven import compiled
from tensorlang.codegen.seal import sealed
from tensorlang.codegen.signature import Argument, Signature
from tensorlang.codegen.target import Target
from tensorlang.codegen.target import target as find_target
from tensorlang.codegen.threads import get_threads
from tensorlang.errors import BuildError, ScheduleError
from tensorlang.ir import Buffer, For, Nest, Stmt
from tensorlang.printer import print_nest
from tensorlang.program import bound_arrays, lower_definition
from tensorlang.schedules import instructions
from tensorlang.schedules.budget import MAX_EMITTED, MAX_INSTRUCTIONS, too_much
from tensorlang.schedules.code_size import REGISTER
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies import choose
from tensorlang.tensor import Tensor, as_inputs, as_outputs
from tensorlang.traverse import statements

_kernels: Final[ObjectCache[Kernel]] = ObjectCache()
_programs: Final[ObjectCache[Program]] = ObjectCache()

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}\Z")
_TAKEN: Final = frozenset(
    {"posix_memalign", "free", "malloc", "GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads", "tensorlang_num_threads"}
)


def build(
    program: Schedule | Tensor | Sequence[Tensor],
    target: str | Target | None = None,
    name: str | None = None,
    inputs: Sequence[Tensor] | None = None,
) -> Kernel:
    """The kernel of exactly this schedule, or of the default schedule of tensors.

    `target` is "native" or an LLVM CPU name, `name` the C name of the function, `inputs` the order of arguments (default: the
    placeholders in the order in which they were created). A program that was built before gives the same kernel. Raises `BuildError` for
    an unknown target or a bad name.
    """
    machine = find_target(target)
    if isinstance(program, Schedule):
        return kept_schedule(program, machine, name=name, inputs=inputs)
    return kept_default(program, machine, name=name, inputs=inputs)


def default_schedule(outputs: object, target: Target, constants: frozenset[str] = frozenset(), threads: int | None = None) -> Schedule:
    """The schedule that is used where none is given or known; there is one for every definition. `constants` are packed for nothing."""
    strategy = choose(outputs, target, get_threads() if threads is None else threads, constants)
    try:
        return strategy.schedule(strategy.default)
    except ScheduleError as error:
        if error.code != "TL-S202":
            raise
        return Schedule(outputs)  # an expression that is nearly too large by itself, and would be once it is vectorised


def build_schedule(
    schedule: Schedule,
    target: Target,
    *,
    name: str | None = None,
    inputs: Sequence[Tensor] | None = None,
    provenance: Provenance | None = None,
) -> Kernel:
    """The kernel of a schedule for a target, compiled now."""
    origin = _origin(schedule, name, inputs, provenance)
    return Kernel(replace(compile_nest(origin, target, provenance), bound=bound_arrays(origin.outputs), origin=origin))


def kept_schedule(
    schedule: Schedule,
    target: Target,
    *,
    name: str | None = None,
    inputs: Sequence[Tensor] | None = None,
    provenance: Provenance | None = None,
) -> Kernel:
    """The kernel of a schedule for a target, from what was built before if it is there."""
    origin = _origin(schedule, name, inputs, provenance)
    return kept_nest(origin, target, bound_arrays(origin.outputs), provenance)


def kept_default(
    outputs: object,
    target: Target,
    *,
    name: str | None = None,
    inputs: Sequence[Tensor] | None = None,
    provenance: Provenance | None = None,
) -> Kernel:
    """The kernel of the default schedule of a definition, from what was built before if it is there; else it is scheduled."""
    if name is not None:
        _require_name(name)
    tensors, order, threads = as_outputs(outputs), as_inputs(inputs), get_threads()
    plain = lower_definition(tensors, name, order)
    _require_name(plain.name)

    def scheduled() -> Nest:
        _require_small(plain, MAX_INSTRUCTIONS)
        chosen = default_schedule(tensors, target, threads=threads).nest
        return replace(plain, body=chosen.body, relations=chosen.relations)

    origin = Origin(tensors, order, plain, scheduled, chosen=True)
    return _kept(origin, target, bound_arrays(tensors), provenance, ("default", threads))


def kept_nest(origin: Origin, target: Target, bound: Mapping[str, npt.NDArray[Any]], provenance: Provenance | None = None) -> Kernel:
    """The kernel of a scheduled nest whose operands `bound` are fixed, from what was built before if it is there."""
    return _kept(origin, target, bound, provenance, ("nest", origin.nest), shared=all(map(_is_shipped, statements(origin.nest.body))))


def compile_nest(origin: Origin, target: Target, provenance: Provenance | None = None) -> Program:
    """The program of a scheduled nest, compiled now, with no operand fixed."""
    nest = origin.nest
    lowered = lower(nest, target)
    _require_small(lowered, MAX_EMITTED, target.vector_bits)
    arguments = tuple(map(_argument, nest.inputs)), tuple(map(_argument, nest.outputs))
    signature = Signature(nest.name, *arguments, nest.dims, nest.limits, nest.products)
    text = sealed(emit(lowered, target, name=nest.name), signature, target)
    return Program(
        signature=signature,
        target=target,
        compiled=compiled(text, target.machine),
        nest=print_nest(nest),
        flops=counts.flops(origin.plain),
        bytes=counts.traffic(origin.plain),
        workspace_bytes=counts.workspace(lowered),
        provenance=provenance,
    )


def forget() -> None:
    """Forget what was built in this process; files stay."""
    _kernels.clear()
    _programs.clear()


def _kept(
    origin: Origin,
    target: Target,
    bound: Mapping[str, npt.NDArray[Any]],
    provenance: Provenance | None,
    how: tuple[object, ...],
    *,
    shared: bool = True,
) -> Kernel:
    """A kernel by name. Code does not depend on what its fixed operands hold: with such, the code is kept and the arrays are not."""
    name = digest(target, provenance, tuple(sorted(bound)), origin.plain, how)

    def program() -> Program:
        if not shared or not target.is_native:
            return compile_nest(origin, target, provenance)
        return object_files.kept(name, lambda: compile_nest(origin, target, provenance))

    if bound:
        return Kernel(replace(_programs.get(name, program), bound=bound, origin=origin))
    return _kernels.get(name, lambda: Kernel(replace(program(), origin=origin)))


def _origin(schedule: Schedule, name: str | None, inputs: Sequence[Tensor] | None, provenance: Provenance | None) -> Origin:
    """Where the kernel of a schedule comes from. Raises `BuildError` for a name that a C function cannot have, and for too much code."""
    label, order = name or schedule.nest.name, schedule.inputs if inputs is None else as_inputs(inputs)
    _require_name(label)
    _require_small(schedule.nest, MAX_INSTRUCTIONS)
    plain = lower_definition(schedule.outputs, label, order)
    nest = replace(plain, body=schedule.nest.body, relations=schedule.nest.relations)
    return Origin(schedule.outputs, order, plain, lambda: nest, provenance == "default")


def _require_small(nest: Nest, limit: int, register: int = REGISTER) -> None:
    """Raise `BuildError` for a nest that is too much code, lowered or as it was defined."""
    reason = too_much(nest, limit, register)
    if reason is not None:
        raise BuildError(f"{nest.name!r} cannot be built: {reason}")


def _require_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.match(name) or name in _TAKEN:
        raise BuildError(f"{name!r} cannot name a kernel; use letters, digits and _, at most 200, and no name of the C library")


def _is_shipped(part: Stmt) -> bool:
    """Does a statement mean the same in every process? The instructions that users define are known by name in theirs alone."""
    return not isinstance(part, For) or part.instruction is None or instructions.is_shipped(instructions.find(part.instruction))


def _argument(buffer: Buffer) -> Argument:
    return Argument(buffer.name, buffer.shape, buffer.dtype)
