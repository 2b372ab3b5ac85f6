"""Search behind one ask/tell interface: what to measure next.

A searcher never proposes a point twice, nor one outside its space; `ask` returns None when the space is exhausted. The first proposal is
always the default configuration, then the seeds (a strategy's suggestions, tuned neighbours), then what the method chooses. Points asked
for and not yet told are in flight. A searcher is deterministic: the random generator of a proposal depends on the seed and on how many
points came before it, so telling the same outcomes in the same order, from a log or live, leads to the same proposals (`replay`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tensorlang.errors import TuningError
from tensorlang.schedules.spaces.space import Config, Space, spelling


@dataclass(frozen=True, slots=True)
class Proposal:
    """A point to measure, where it came from, and what was predicted for it, if anything."""

    config: Config
    source: str
    prediction: dict[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of a point: its time in seconds and its relative noise, or None where it failed; and the seconds that the trial took."""

    config: Config
    time: float | None
    noise: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Prior:
    """What a point of a neighbouring task took: log(time / time of that task's default), and its weight here, in (0, 1)."""

    config: Config
    log: float
    weight: float


class Searcher(ABC):
    """The part that every method shares: history, points in flight, the default and the seeds first."""

    def __init__(self, space: Space, default: Config, *, seed: int = 0, seeds: Iterable[Config] = (), priors: Iterable[Prior] = ()) -> None:
        self.space = space if space.count.exact else space.around(default)
        self.priors = tuple(priors)
        self.default = default
        self.seed = seed
        self.history: dict[str, Observation] = {}
        self.pending: dict[str, Proposal] = {}
        self._first = [default, *(config for config in seeds if space.contains(config))]

    def prepare(self, trials: int) -> None:  # noqa: B027 - most methods need nothing
        """Load what the proposals of so many trials need; may run in another thread meanwhile."""

    def ask(self) -> Proposal | None:
        """The next point, now in flight; None when no feasible point is left."""
        proposal = self._next()
        if proposal is not None:
            self.pending[spelling(proposal.config)] = proposal
        return proposal

    def tell(self, observation: Observation) -> None:
        """The outcome of a point, whether asked for here or read from a log. Told twice, the better time stays."""
        key = spelling(observation.config)
        self.pending.pop(key, None)
        known = self.history.get(key)
        if known is None or known.time is None or (observation.time is not None and observation.time < known.time):
            self.history[key] = observation

    def forget(self, config: Config) -> None:
        """A point in flight that will not be told: it may be proposed again."""
        self.pending.pop(spelling(config), None)

    def seen(self, config: Config) -> bool:
        """Was it told, or is it in flight?"""
        key = spelling(config)
        return key in self.history or key in self.pending

    def elites(self, count: int) -> list[Observation]:
        """The fastest valid observations, best first."""
        valid = (observation for observation in self.history.values() if observation.time is not None)
        return sorted(valid, key=lambda observation: (observation.time, spelling(observation.config)))[:count]

    def fresh(self, rng: np.random.Generator) -> Proposal | None:
        """A uniformly drawn point that was not seen."""
        points = self.space.sample(rng, 1, exclude=self.history.keys() | self.pending.keys())
        return Proposal(points[0], "random") if points else None

    def _next(self) -> Proposal | None:
        for place, config in enumerate(self._first):
            if not self.seen(config):
                return Proposal(config, "seed" if place else "default")
        return self.propose(np.random.default_rng([self.seed, len(self.history) + len(self.pending)]))

    @abstractmethod
    def propose(self, rng: np.random.Generator) -> Proposal | None:
        """The method: a point that was not seen, or None if there is none."""


def replay(search: Searcher, told: Sequence[tuple[Observation, int, int]]) -> list[Proposal]:
    """Ask and tell a new searcher as a log says it was asked and told; what it proposes, in the order of the log.

    Each entry is an outcome, in the order of arrival, with its place among the proposals and the number of outcomes that were known when it
    was proposed (the fields `asked` and `known` of a trial). Raises `TuningError` at the first proposal that is not the one of the log.
    """
    proposals: dict[int, Proposal] = {}
    asked = sorted(range(len(told)), key=lambda place: told[place][1])
    for count, (outcome, order, _) in enumerate(told):
        while asked and told[asked[0]][2] <= count:
            place = asked.pop(0)
            proposal, logged = search.ask(), told[place][0].config
            if proposal is None or spelling(proposal.config) != spelling(logged):
                got = "nothing" if proposal is None else spelling(proposal.config)
                raise TuningError(f"the replay proposes {got} where the log has {spelling(logged)}, its proposal {told[place][1]}")
            proposals[told[place][1]] = proposal
        if order not in proposals:
            raise TuningError(f"proposal {order} of the log has an outcome before it was asked for")
        search.tell(outcome)
    return [proposals[order] for _, order, _ in told]
