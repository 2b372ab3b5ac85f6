"""What the tuner and the hosts of a cluster say to one another, beside the requests and outcomes of `workers.protocol`."""

from __future__ import annotations

from msgspec import Struct

from tensorlang.autotune.measurement.host import MachineFields, Software, TargetFields
from tensorlang.autotune.workers.process import Limits
from tensorlang.autotune.workers.protocol import WorkerTask
from tensorlang.codegen.target.caches import Caches


class WorkerQuery(Struct, frozen=True):
    """What are you, and can code for this target run there (None: not asked)?"""

    target: TargetFields | None


class About(Struct, frozen=True):
    """What a worker is: its own processor, why code for the target that was asked about cannot run there, its machine and versions."""

    triple: str
    cpu: str
    features: str
    caches: Caches
    fingerprint: str
    foreign: str | None
    machine: MachineFields
    software: Software


class HoldTask(Struct, frozen=True):
    """Hold this task, candidates of which will be sent; a worker that `measures` gets its data too."""

    task: WorkerTask
    limits: Limits
    path: tuple[str, ...] = ()
    measures: bool = False
