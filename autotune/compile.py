"""`tl.compile`: the kernel of the best schedule known, and always a kernel."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tensorlang.codegen.build import build_schedule, default_schedule
from tensorlang.codegen.target import Target
from tensorlang.codegen.target import target as find_target
from tensorlang.tensor import as_outputs

if TYPE_CHECKING:
    from tensorlang.autotune.database import Database
    from tensorlang.codegen.kernel import Kernel


def compile(
    outputs: object, target: str | Target | None = None, database: Database | str | os.PathLike[str] | None = None, name: str | None = None
) -> Kernel:
    """The kernel of the best schedule that `database` knows for these outputs, else of their default schedule.

    `kernel.provenance` is "tuned" (a record of this very program), "nearest" (of another shape of its family) or "default". A record
    whose schedule this version does not accept is passed over. Raises `LogError` for a path without a log, `BuildError` for an unknown
    target.
    """
    tensors, machine = as_outputs(outputs), find_target(target)
    if database is not None:
        from tensorlang.autotune.database import Database  # noqa: PLC0415 - without one, nothing of the tuner is loaded

        known = database if isinstance(database, Database) else Database(database)
        match = known.best(tensors, machine)
        if match.kind is not None and (schedule := match.schedule()) is not None:
            return build_schedule(schedule, machine, name=name, provenance=match.kind)
    return build_schedule(default_schedule(tensors, machine), machine, name=name, provenance="default")
