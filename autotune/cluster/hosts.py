"""Who may work on a study: the workers of a cluster by their machines.

A time means something only beside times from the same kind of machine, so a study has hosts of one kind: the same instruction set, model
and caches. Its builders may be of another model, if the instruction set and the caches that schedules are made for are the same. Workers
with another version of the compiler are of no use, and say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tensorlang.autotune.cluster.link import RESOURCE, Listing, how_to_start
from tensorlang.autotune.cluster.messages import About
from tensorlang.autotune.measurement import host
from tensorlang.autotune.measurement.host import TargetFields
from tensorlang.autotune.workers.protocol import decode
from tensorlang.codegen.target import Target, target as named_target
from tensorlang.errors import TuningError

_SAME: Final = ("tensorlang", "llvmlite")


class Kind(NamedTuple):
    """What hosts of one study have in common."""

    fingerprint: str
    caches: tuple[int, ...]
    model: str

    def builds_for(self, other: Kind) -> bool:
        """Are kernels that were built here those that would be built there?"""
        return self[:2] == other[:2]


@dataclass(slots=True)
class Member:
    """A worker that has told what it is: its place in the cluster, its machine, and what it is doing for us."""

    address: str
    threads: int
    measures: bool
    about: About
    building: set[str] = field(default_factory=set)
    measuring: set[str] = field(default_factory=set)
    ready: bool = False
    failures: int = 0

    @property
    def kind(self) -> Kind:
        """What its machine is."""
        caches = self.about.caches
        return Kind(self.about.fingerprint, (caches.l1, caches.l2, caches.l3), self.about.machine["model"])

    @property
    def host(self) -> str:
        """The name of its computer."""
        return self.about.machine["host"]

    @property
    def builders(self) -> int:
        """How many candidates it builds at once; a thread is left for measuring if there are several."""
        return self.threads - (self.measures and self.threads > 1)

    @property
    def target(self) -> Target:
        """Its own processor as a target."""
        about = self.about
        return Target(about.triple, about.cpu, about.features, name="native", caches=about.caches)


def member(address: str, facts: Listing, answer: str) -> Member | str:
    """The worker at `address`, of which the scheduler knows `facts`; or why it is of no use."""
    try:
        about = decode(About, answer)
    except ValueError as error:
        return f"it does not say what it is: {error}"
    here, there = host.software(), about.software
    for name in _SAME:
        if here[name] != there.get(name):
            return f"it has {name} {there.get(name)}, here it is {here[name]}"
    return Member(address, int(facts["nthreads"]), measures(facts), about)


def measures(facts: Listing) -> bool:
    """Does a worker, of which the scheduler knows `facts`, offer to measure?"""
    return float(facts["resources"].get(RESOURCE, 0)) >= 1


def choose(address: str, members: Iterable[Member], useless: dict[str, str], target: TargetFields | None, *, exact: bool) -> Kind:
    """The kind of host to use: of those that can run the target, its own; then this machine's; then that with the most hosts.

    `exact` admits the target's own CPU only; `useless` says why other workers are out. Raises `TuningError` where nobody can measure.
    """
    known = list(members)
    if not known and not useless:
        raise TuningError(f"the Dask scheduler at {address} has no workers; start some: {how_to_start(address)}")
    if not known:
        first, why = next(iter(useless.items()))
        raise TuningError(f"none of the {len(useless)} workers at {address} can be used; {first}: {why}")
    wanted = None if target is None else target["fingerprint"]
    able = [one for one in known if one.about.foreign is None and (not exact or wanted in (None, one.kind.fingerprint))]
    if not able:
        raise TuningError(f"no worker at {address} has the CPU that is tuned for, {target and target['cpu']}; there are {_listed(known)}")
    hosts = Counter(kind for kind, _ in {(one.kind, one.host) for one in able if one.measures})
    if not hosts:
        raise TuningError(
            f'none of the {len(able)} workers at {address} that have the CPU offers the resource "{RESOURCE}"; '
            f"start one worker on each host that is to measure: {how_to_start(address)}"
        )
    here = (host.target_fields(named_target("native"))["fingerprint"], host.machine()["model"])
    return max(hosts, key=lambda kind: (kind.fingerprint == wanted, (kind.fingerprint, kind.model) == here, hosts[kind], kind))


def _listed(members: Iterable[Member]) -> str:
    counts = Counter(f"{one.about.cpu} ({one.kind.model})" for one in members)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common(5))
