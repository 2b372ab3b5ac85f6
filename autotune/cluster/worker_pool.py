"""The workers of one study: who they are, whether they still live, and what they were given.

A worker is asked what it is when it is first seen, given the task if it is of use, and then available. The scheduler drops a worker whose
connection breaks; one that is merely stuck (stopped, swapped out, behind a dead switch) stays listed, but its heartbeats stop.
"""

from __future__ import annotations

import math
import time
import uuid
from typing import Final

from msgspec.structs import replace

from tensorlang.autotune.cluster import remote
from tensorlang.autotune.cluster.hosts import Kind, Member, choose, member
from tensorlang.autotune.cluster.link import Link, Listing, News
from tensorlang.autotune.cluster.messages import HoldTask, WorkerQuery
from tensorlang.autotune.measurement.host import TargetFields
from tensorlang.autotune.workers.protocol import encode

FIRST_S: Final = 20.0
"""Seconds in which the workers tell what they are; those that take longer join later."""
_ENDING: Final = ("closing", "closing_gracefully", "closed", "stopping", "failed")


class WorkerPool:
    """The workers that `link` reaches, each asked about a target (None: its own)."""

    def __init__(self, link: Link, target: TargetFields | None, silence: float) -> None:
        self.link = link
        self.members: dict[str, Member] = {}
        self.useless: dict[str, str] = {}
        self.kind: Kind | None = None
        self._target = target
        self._silence = silence
        self._seen: dict[str, Listing] = {}
        self._beats: dict[str, tuple[float, float]] = {}
        self._asked: dict[str, str] = {}
        self._given: dict[str, str] = {}
        self._order: HoldTask | None = None
        self.name = ""
        """Of the task; empty before it is given."""

    def gather(self, *, exact: bool) -> Kind:
        """Ask all who are there, and choose the kind of host (see `choose`). Raises `TuningError` where nobody can measure."""
        self.watch()
        end = time.monotonic() + FIRST_S
        while self._asked and time.monotonic() < end:
            for news in self.link.news(1.0):
                self.hear(news)
            self.watch()
        for address in self._asked.values():
            self.useless[address] = f"it did not answer in {FIRST_S:g} s"
        self.kind = choose(self.link.address, self.members.values(), self.useless, self._target, exact=exact)
        return self.kind

    def give(self, order: HoldTask) -> None:
        """Give a task to all who may work on it, and later to those who join; they forget a former one."""
        self.release()
        self._order, self.name = order, uuid.uuid4().hex
        for one in self.members.values():
            one.ready = False
            self._give(one)

    def distrust(self) -> None:
        """The default schedule has failed: nobody shall compare with it."""
        if self._order is not None and self._order.task.default is not None:
            self.give(replace(self._order, task=replace(self._order.task, default=None)))

    def filled(self, one: Member) -> bool:
        """Does a measurement take all cores of a host, so that nothing may run beside it?"""
        return self._order is not None and self._order.task.threads >= one.about.machine["cores"]

    def give_again(self, address: str) -> None:
        """Give the task to a worker that has forgotten it."""
        if (one := self.members.get(address)) is not None:
            one.ready = False
            self._give(one)

    def hear(self, news: News) -> bool:
        """Take an answer to a question of the pool's; False if it is none."""
        if (address := self._asked.pop(news.token, None)) is not None:
            if address not in self._seen:
                return True
            found = member(address, self._seen[address], news.value) if news.event == "told" else str(news.value or "it was lost")
            if isinstance(found, str):
                self.useless[address] = found
            else:
                self.useless.pop(address, None)
                self.members[address] = found
                self._give(found)
            return True
        if (address := self._given.pop(news.token, None)) is not None:
            if news.event == "failed":
                self.banish(address, str(news.value))
            elif news.event == "told" and address in self.members:
                self.members[address].ready = True
            return True
        return False

    def watch(self) -> dict[str, str]:
        """Look who is there; the workers that were lost since, with what became of them. Raises `TuningError` if the scheduler is lost."""
        now, lost = time.monotonic(), dict[str, str]()
        self._seen = {address: facts for address, facts in self.link.workers().items() if facts.get("status") not in _ENDING}
        for address, facts in self._seen.items():
            beat = self._beats.get(address, (math.nan, now))
            if beat[0] != facts["last_seen"]:
                beat = (facts["last_seen"], now)
            self._beats[address] = beat
            if now - beat[1] > self._silence and address in self.members:
                lost[address] = f"gave no sign of life for {self._silence:g} s"
            elif beat[1] == now and address not in self.members and address not in self.useless and address not in self._asked.values():
                token = uuid.uuid4().hex
                self._asked[token] = address
                self.link.ask(token, address, remote.describe, encode(WorkerQuery(self._target))[0].decode())
        lost |= {address: "was lost" for address in self.members if address not in self._seen}
        for address in lost:
            del self.members[address]
        for address in [*self._beats]:
            if address not in self._seen:
                del self._beats[address]
                self.useless.pop(address, None)
        return lost

    def banish(self, address: str, why: str) -> None:
        """Use a worker no more."""
        self.members.pop(address, None)
        self.useless[address] = why

    def builders(self) -> list[Member]:
        """Who may build."""
        return [one for one in self.members.values() if self._may_build(one)]

    def measurers(self) -> list[Member]:
        """Who may measure, in an order that all clients see alike, so that several on one host use one worker's resource."""
        able = (one for one in self.members.values() if one.measures and one.kind == self.kind)
        return sorted(able, key=lambda one: (one.host, one.address))

    def release(self) -> None:
        """Let all forget the task."""
        if self.name:
            for address in self.members:
                self.link.ask(uuid.uuid4().hex, address, remote.release, self.name)

    def _may_build(self, one: Member) -> bool:
        return self.kind is not None and one.about.foreign is None and one.kind.builds_for(self.kind)

    def _give(self, one: Member) -> None:
        if self._order is None or not self.name or not self._may_build(one):
            return
        token = uuid.uuid4().hex
        self._given[token] = one.address
        measures = one.measures and one.kind == self.kind
        task = self._order.task if measures else self._order.task.for_builder()
        self.link.ask(token, one.address, remote.take, self.name, *encode(replace(self._order, task=task, measures=measures)))
