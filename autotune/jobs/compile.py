"""`tl.compile`: the kernel of the best schedule known, and always a kernel."""

from __future__ import annotations

import logging
import os
from itertools import islice
from typing import TYPE_CHECKING, Final

from tensorlang.codegen.compilation import of_default, of_schedule
from tensorlang.codegen.kernel.kernel import Kernel, cached_kernel
from tensorlang.codegen.target import Target, target as find_target
from tensorlang.definition.tensor import Tensor, as_outputs
from tensorlang.errors import InternalError, TensorlangError

if TYPE_CHECKING:
    from tensorlang.autotune.log.database import Database, Match

_log: Final = logging.getLogger("tensorlang")

ATTEMPTS: Final = 8
"""Records that are looked at before the default schedule is taken."""


def compile(
    outputs: object, target: str | Target | None = None, database: Database | str | os.PathLike[str] | None = None, name: str | None = None
) -> Kernel:
    """The kernel of the best schedule that `database` knows for these outputs, else of their default schedule.

    `kernel.provenance` is "tuned" (a record of this very program), "nearest" (of another shape of its family, or of another CPU) or
    "default", and `kernel.provenance_reason` says why. A record whose schedule this version does not accept is passed over for the next
    best. One that another version or another CPU wrote is first compared with the definition, and passed over where its kernel computes
    something else. What is served was measured to be faster than the default schedule, or is of a near shape and faster by the cost model
    (see `lending`). Raises `LogError` for a path without a log, `BuildError` for an unknown target or a bad name.
    """
    tensors, machine = as_outputs(outputs), find_target(target)
    why = "no database was asked"
    if database is not None:
        from tensorlang.autotune.log.database import Database  # noqa: PLC0415 - without one, nothing of the tuner is loaded

        passed = ""
        known = database if isinstance(database, Database) else Database(database)
        for match in islice(known.matches(tensors, machine), ATTEMPTS):
            if match.kind is None:
                why = "; ".join(filter(None, (passed, match.reason)))
                break
            if (kernel := _kernel(match, known, tensors, name)) is not None:
                _log.info("%s: %s: %s", kernel.name, kernel.provenance, kernel.provenance_reason)
                return kernel
            why = passed = f"passed over, since it cannot be used here: {match.reason}"
    kernel = cached_kernel(of_default(tensors, machine, name=name, provenance="default", reason=why))
    _log.info("%s: default: %s", kernel.name, why)
    return kernel


def _kernel(match: Match, database: Database, tensors: tuple[Tensor, ...], name: str | None) -> Kernel | None:
    """The kernel of a match; None where it must not be used, or cannot be."""
    machine, unsure = match.target, match.needs_validation
    if machine is None or (unsure and not machine.is_native):
        return None
    schedule, why = match.replayed()
    if schedule is None:
        _warn(match, database, f"its schedule cannot be replayed: {why}")
        return None
    try:
        kernel = cached_kernel(of_schedule(schedule, machine, name=name, provenance=match.kind, reason=match.reason))
    except (TensorlangError, InternalError) as error:  # of a record: whatever it is, there is another schedule
        _warn(match, database, f"its kernel cannot be built: {str(error).splitlines()[0]}")
        return None
    if unsure:
        from tensorlang.autotune.verification.check import why_wrong  # noqa: PLC0415 - seldom needed

        if (wrong := database.verdict(match, lambda: why_wrong(kernel, tensors, match.dims))) is not None:
            _warn(match, database, f"it was validated: {wrong}")
            return None
    return kernel


def _warn(match: Match, database: Database, why: str) -> None:
    """Warn that a record is passed over: whoever tuned expects what the log has."""
    record = "a record" if match.record is None else f"record {match.record.id[:12]} of {match.record.task.get('op')}"
    _log.warning("%s in %s is not used: %s", record, database.log.path, why)
