"""`tl.compile`: the kernel of the best schedule known, and always a kernel."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from tensorlang.codegen.compilation import Request, of_default, of_schedule
from tensorlang.codegen.kernel.kernel import Kernel, cached_kernel
from tensorlang.codegen.target import Target, target as find_target
from tensorlang.definition.tensor import Tensor, as_outputs
from tensorlang.errors import InternalError, TensorlangError
from tensorlang.ops.fusion import placeholders

if TYPE_CHECKING:
    from tensorlang.autotune.log.database import Database, Match

_log: Final = logging.getLogger("tensorlang")

SHIPPED: Final = "shipped"
"""What the database that comes with the package is called."""
ATTEMPTS: Final = 8
"""Records that are looked at before the default schedule is taken."""


def compile(
    outputs: object, target: str | Target | None = None, database: Database | str | os.PathLike[str] | None = None, name: str | None = None
) -> Kernel:
    """The kernel of the best schedule that `database` knows for these outputs, else of their default schedule.

    `kernel.provenance` is "tuned" (a record of this very program), "nearest" (of another shape of its family, of another CPU, of a size of
    its range, or of its stage with most work alone) or "default", and `kernel.provenance_reason` says why. A record whose schedule this
    version does not accept is passed over for the next best. One that another version or another CPU wrote is first compared with the
    definition, and passed over where its kernel computes something else; those of "shipped", the database that comes with the package,
    were compared before. What is served was measured to be faster than the default schedule, or is of a near shape and faster by the cost
    model (see `lending`). Raises `LogError` for a path without a log, `BuildError` for an unknown target or a bad name.
    """
    kernel = cached_kernel(best_known(as_outputs(outputs), find_target(target), database, name))
    _log.info("%s: %s: %s", kernel.name, kernel.provenance, kernel.provenance_reason)
    return kernel


def best_known(
    tensors: tuple[Tensor, ...],
    machine: Target,
    database: Database | str | os.PathLike[str] | None = None,
    name: str | None = None,
    *,
    inputs: Sequence[Tensor] | None = None,
    threads: int | None = None,
    constants: frozenset[str] = frozenset(),
) -> Request:
    """What `compile` builds: the program of the best schedule known, built already where that had to be tried.

    `inputs` is the order of arguments, `threads` how many the kernel uses, `constants` are operands that are packed beforehand.
    Raises what `compile` does.
    """
    why = "no database was asked"
    if database is not None:
        from tensorlang.autotune.log.database import Database  # noqa: PLC0415 - without one, nothing of the tuner is loaded

        passed = ""
        known: Database | None
        if isinstance(database, str) and database == SHIPPED:
            from tensorlang.autotune.shipped.database import shipped  # noqa: PLC0415 - few ask for it

            known, why = shipped(machine)
        else:
            known = database if isinstance(database, Database) else Database(database)
        found_here = known.matches(tensors, machine, threads, constants=constants) if known is not None else iter(())
        for match in islice(found_here, ATTEMPTS):
            assert known is not None, "it was asked"
            if match.kind is None:
                why = "; ".join(filter(None, (passed, match.reason)))
                break
            if (found := _request(match, known, tensors, name, inputs, threads)) is not None:
                return found
            why = passed = f"passed over, since it cannot be used here: {match.reason}"
    return of_default(tensors, machine, name=name, inputs=inputs, provenance="default", reason=why, threads=threads, constants=constants)


def _request(
    match: Match,
    database: Database,
    tensors: tuple[Tensor, ...],
    name: str | None,
    inputs: Sequence[Tensor] | None,
    threads: int | None,
) -> Request | None:
    """The program of a match, which is built; None where it must not be used, or cannot be."""
    machine, unsure = match.target, match.needs_validation
    if machine is None or (unsure and not machine.is_native):
        return None
    schedule, why = match.replayed()
    if schedule is None:
        _warn(match, database, f"its schedule cannot be replayed: {why}")
        return None
    try:
        found = of_schedule(schedule, machine, name=name, inputs=inputs, provenance=match.kind, reason=match.reason, threads=threads)
        kernel = cached_kernel(found)
    except (TensorlangError, InternalError) as error:  # of a record: whatever it is, there is another schedule
        _warn(match, database, f"its kernel cannot be built: {str(error).splitlines()[0]}")
        return None
    if unsure:
        from tensorlang.autotune.verification.check import why_wrong  # noqa: PLC0415 - seldom needed

        if (wrong := database.verdict(match, lambda: why_wrong(_as_created(kernel, tensors, inputs), tensors, match.dims))) is not None:
            _warn(match, database, f"it was validated: {wrong}")
            return None
    return found


def _as_created(kernel: Kernel, tensors: tuple[Tensor, ...], inputs: Sequence[Tensor] | None) -> Kernel:
    """A kernel whose arguments are `inputs`, called with the placeholders in the order in which they were created."""
    if inputs is None:
        return kernel
    places = {id(tensor.definition): place for place, tensor in enumerate(inputs)}
    read = [places.pop(id(tensor.definition)) for tensor in placeholders(tensors) if id(tensor.definition) in places]
    signature = kernel.program.signature
    rest = [place for place in range(len(signature.inputs)) if place not in read]
    return kernel.under(replace(signature, order=(*read, *rest)))


def _warn(match: Match, database: Database, why: str) -> None:
    """Warn that a record is passed over: whoever tuned expects what the log has."""
    record = "a record" if match.record is None else f"record {match.record.id[:12]} of {match.record.task.get('op')}"
    _log.warning("%s in %s is not used: %s", record, database.log.path, why)
