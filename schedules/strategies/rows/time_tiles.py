"""Scans whose elements look at their neighbours: tiles of several steps and a band of rows, which moves back from step to step.

    for t in range(64):                                   for t_o in range(4):
        for i in range(500):                                  for i_s_o in range(17):
            for j_o: vector j_i:                   ->             for t_i in range(16):
                x[(t + 1) % 2, i, j] = f(x[t % 2, ...])               for i_s_i in range(max(0, t_i - 32 i_s_o), ...):
                                                                          for j_o: vector j_i: ...

Step by step a scan reads all of its state from wherever it lies, and writes it there. A band of it stays in a near cache for several steps
where each of them computes rows as far back as an element looks ahead: then all that it reads is there, and nothing is overwritten that is
still wanted (Wonnacott, "Using time skewing to eliminate idle time due to memory bandwidth and network limitations", 2000). Bands of
different tiles of time, each so far behind the one before it that they do not meet, run on several threads:

    for w in range(25): parallel t_o in range(max(0, ...), ...): for t_i: for i_s_i: ...        # i_s_o = w - 2 t_o
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Final

from tensorlang.errors import ScheduleError
from tensorlang.ir import Axis, Binary, Expr, For
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import axes_of
from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.rewriting.edit import literal_extent
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice, Knob
from tensorlang.schedules.strategies.analysis.stages import StageInfo, size, tensor_of
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.loops.thread_loop import WORTH_THREADS, seconds_of_forks
from tensorlang.schedules.strategies.loops.waves import seconds_in_waves, share_in_waves
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.reordered import schedule_reordered
from tensorlang.schedules.strategies.rows.rows import RowVectors
from tensorlang.schedules.strategies.rows.steps import loop_over_time

STEPS: Final = (4, 8, 16, 32)
"""Steps of a tile."""
ROUNDS: Final = 3
"""Rounds of tiles of time that threads share evenly, at most."""
BANDS: Final = (8, 16, 32, 64, 128)
"""Rows of a band: iterations of the outermost loop over elements."""
IN_FLIGHT: Final = 4
"""Vectors in flight that are tried as well as those of rows, which wait for memory however many they are."""
IN_LANES: Final = (1024, 4096, 16384)
"""Elements of a band where the only loop over elements has the lanes."""


@dataclass(frozen=True, slots=True)
class TimeTiles:
    """A stage that makes the next state from neighbours in the last one, in the loop `time`: tiles of `steps` and of a `band` of `across`.

    Elements look as far as `reach` along that loop, and `vectors` of them are in flight. Without steps, all elements take one after the
    other, in `rows`; `shared`: do threads share the tiles by default?
    """

    rows: RowVectors
    time: For
    across: For
    reach: int
    steps: int = 0
    band: int = 0
    vectors: int = 0
    shared: bool = False

    @property
    def name(self) -> str:
        """What logs call it."""
        return "time_tiles"

    @property
    def stage(self) -> StageInfo:
        """The stage."""
        return self.rows.stage

    @classmethod
    def of(cls, rows: RowVectors, plain: Schedule, parts: Sequence[Part], machine: Processor) -> TimeTiles | None:
        """The loops; None where there is no scan, it is too short or small, or elements look further than a band moves."""
        time = loop_over_time(rows, plain)
        across = rows.stage.outer[0] if time is not None else None
        reach = None if across is None else _reach(rows.stage, across)
        if time is None or across is None or reach is None:
            return None
        found = cls(rows, time, across, reach)
        if not found._counts or not found._widths:
            return None
        try:
            found._cut(plain.copy(), found._counts[0], found._widths[0])
        except ScheduleError:
            return None
        return found.sized(parts, machine)

    def sized(self, plain: Sequence[Part], machine: Processor) -> TimeTiles:
        """The same with the tiles that the cost model names, where it predicts them to be faster than step by step."""
        fork, threads = machine.core.fork, self.rows.threads
        usual = self.rows.default()["vectors"]
        alone = estimated(self._sketched(plain, usual), machine.core).seconds
        least, found = (alone / threads + seconds_of_forks(machine.core, self.stage.turns) if self.rows.shared else alone) * OTHER_WAY, self
        in_flight = sorted({usual, *(count for count in self.rows.counts if count == IN_FLIGHT)})
        for vectors, steps, band in product(in_flight, self._counts, self._widths):
            seconds = estimated(self._sketched(plain, vectors, steps, band), machine.core).seconds
            together = self._on_threads(seconds, steps, band, fork) if self._in_waves else seconds
            shared = together <= WORTH_THREADS * seconds
            if (seconds := together if shared else seconds) < least:
                least, found = seconds, replace(self, steps=steps, band=band, vectors=vectors, shared=shared)
        return found

    @property
    def _counts(self) -> tuple[int, ...]:
        """Steps of tiles, among them those of which all threads get as many."""
        total, threads = literal_extent(self.time) or 0, self.rows.threads
        even = (-(-total // (threads * rounds)) for rounds in range(1, ROUNDS + 1) if threads > 1)
        return tuple(sorted({count for count in (*STEPS, *even) if STEPS[0] <= count <= min(STEPS[-1], total // 2)}))

    @property
    def _widths(self) -> tuple[int, ...]:
        widths = IN_LANES if self.across is self.rows.vector else BANDS
        return tuple(width for width in widths if 2 * width <= size(self.across))

    @property
    def _in_waves(self) -> bool:
        """May threads share tiles? Where bands are cut from lanes, code that moves with a wave asks for the ends in each of its vectors."""
        return self.rows.threads > 1 and self.across is not self.rows.vector

    def _behind(self, steps: int, band: int) -> int:
        """How many bands a tile has to be behind the tile of the steps before, so that threads may run both."""
        return -(-steps * self.reach // band) + 1

    def _on_threads(self, seconds: float, steps: int, band: int, fork: float) -> float:
        """What tiles take on all threads that take so many seconds on one."""
        threads = self.rows.threads
        tiles, bands = -(-size(self.time) // steps), -(-(size(self.across) + self.reach * (steps - 1)) // band)
        if not self.reach:
            return seconds * -(-bands // threads) / bands + tiles * fork
        return seconds_in_waves(seconds, tiles, bands, self._behind(steps, band), threads, fork)

    def _sketched(self, plain: Sequence[Part], vectors: int, steps: int = 0, band: int = 0) -> tuple[Part, ...]:
        assert self.rows.vector is not None
        sketch, lanes = Sketch.of(plain, self.stage.name), self.rows.lanes
        last, order = self.rows.vector.loop, list[str]()
        if steps:
            time_o, time_i = sketch.split(self.time.loop, steps)
            sketch.skew(self.across.loop, time_i, self.reach)
            outer, inner = sketch.split(self.across.loop, band)
            last = inner if self.across is self.rows.vector else last
            order = [time_o, outer, time_i, *([] if last == inner else [inner]), *(loop.loop for loop in self.stage.outer[1:-1])]
        lanes_o, lanes_i = sketch.split(last, vectors * lanes, lanes)
        sketch.reorder(*order, lanes_o, lanes_i)
        sketch.mark(lanes_i, "vector")
        return numbered(sketch.parts())

    def knobs(self, prefix: str = "") -> tuple[Knob, ...]:
        """Steps of a tile (0: all elements take one step after the other), and rows of its band."""
        return (Choice(f"{prefix}time", (0, *self._counts)), Choice(f"{prefix}band", self._widths), *self.rows.knobs(prefix))

    def default(self, prefix: str = "") -> dict[str, Any]:
        """The tiles that the model names."""
        found = {f"{prefix}time": self.steps, f"{prefix}band": self.band or self._widths[0], **self.rows.default(prefix)}
        if self.steps:
            found[f"{prefix}vectors"] = self.vectors
        if self.steps and f"{prefix}parallel" in found:
            found[f"{prefix}parallel"] = "outer" if self.shared else "none"
        return found

    def schedule(self, s: Schedule, config: Mapping[str, Any], prefix: str = "", *, alone: bool = True) -> None:
        """Append the directives of a point to a schedule; a stage that stands inside another (not `alone`) gets no threads."""
        steps, band = config[f"{prefix}time"], config[f"{prefix}band"]
        shared = alone and config.get(f"{prefix}parallel", "none") == "outer"
        cut = partial(self._in_tiles, s, steps, band, config, prefix, shared=shared) if steps else None
        schedule_reordered(s, self.rows, config, prefix, cut, alone=alone)

    def _in_tiles(self, s: Schedule, steps: int, band: int, config: Mapping[str, Any], prefix: str, *, shared: bool) -> str:
        """Tiles, whose rows are vectors and whose results stay near; the outermost loop that threads may share."""
        time, bands, inner = self._cut(s, steps, band)
        if self.across is self.rows.vector:
            s.vectorize(s.split(inner, config[f"{prefix}vectors"] * self.rows.lanes, "peel")[1])
        else:
            self.rows.schedule(s, {**config, f"{prefix}stream": False}, prefix, alone=False)
        if shared and self.reach and self._in_waves:
            share_in_waves(s, time, bands, self._behind(steps, band))
        return bands

    def _cut(self, s: Schedule, steps: int, band: int) -> tuple[str, str, str]:
        """The tiles: the loops over tiles of time, over bands and over rows of a band."""
        time_o, time_i = s.split(self.time.loop, steps, "peel")
        rows = self.across.loop
        if self.reach:
            s.skew(rows, time_i, self.reach)
            rows = f"{rows}_s"
        s.reorder(rows, time_i)
        bands, inner = s.split(rows, band, "peel")
        s.reorder(time_i, inner)
        return time_o, bands, inner


def _reach(stage: StageInfo, loop: For) -> int | None:
    """How far elements look along a loop into the state before, either way; None where that is not a constant."""
    own = {buffer.name for buffer in stage.store.buffers}
    places = [place for place, index in enumerate(stage.store.index) if index == Axis(loop.loop)]
    loads = [load for load in stage.loads if tensor_of(load).name in own]
    found = [_apart(load.index[place], stage.store.index[place]) for load in loads for place in places]
    far = [apart for apart in found if apart is not None]
    return max(far) if far and len(far) == len(found) else None


def _apart(there: Expr, here: Expr) -> int | None:
    """How far an index is from another one, at most, or from what it is clamped from."""
    form = linear(Binary("sub", there, here))
    if not form.terms:
        return abs(form.constant)
    if isinstance(there, Binary) and there.op in ("min", "max"):
        found = [_apart(side, here) for side in (there.left, there.right) if axes_of(side)]
        far = [apart for apart in found if apart is not None]
        return max(far) if far and len(far) == len(found) else None
    return None
