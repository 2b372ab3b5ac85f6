"""What a statement takes of the core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from operator import add

from tensorlang.system.frozen import frozen


@frozen
class Cycles:
    """What a statement takes: in the units of arithmetic (or waiting for a chain), and for loads and stores.

    `moved`: bytes that these load and store; `ahead`: cycles of other work that the window of the core holds, behind which a wait is
    hidden; `asked`: lines of each buffer that it holds, which are waited for together; `hinted`: cycles of other work for each line of a
    buffer that hints ask for, of which as many are on their way as may be outstanding; `split`: stores to a line that lie on the next one
    too, of buffers that are written turned; `idle`: cycles of arithmetic in which all units wait for a chain; `slots`: all that it
    issues; `busy`: cycles of each kind of unit, of which the most is in `arithmetic`.
    """

    arithmetic: float = 0.0
    loads: float = 0.0
    moved: float = 0.0
    ahead: float = 0.0
    asked: Mapping[str, float] = field(default_factory=dict)
    split: Mapping[str, float] = field(default_factory=dict)
    hinted: Mapping[str, float] = field(default_factory=dict)
    idle: float = 0.0
    slots: float = 0.0
    busy: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)

    def __add__(self, other: Cycles) -> Cycles:
        ahead = max(self.ahead, other.ahead)
        asked, split, hinted = {**self.asked, **other.asked}, {**self.split, **other.split}, {**self.hinted, **other.hinted}
        return Cycles(
            self.arithmetic + other.arithmetic,
            self.loads + other.loads,
            self.moved + other.moved,
            ahead,
            asked,
            split,
            hinted,
            self.idle + other.idle,
            self.slots + other.slots,
            tuple(map(add, self.busy, other.busy)),
        )
