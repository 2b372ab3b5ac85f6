"""Stages that read across memory what they write along it: transpositions, changes of layout.

Register tiles: vectors run along what is read, an unrolled loop along what is written, and the tile is transposed in registers when it is
stored. Both sides are then walked in whole vectors.

    for i_o: for j_o: unroll j_i: vector i_i: B[i, j] = A[j, i]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tensorlang.ir import For
from tensorlang.schedules.model.program import Part
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Flag, Knob, Sizes
from tensorlang.schedules.strategies.analysis import StageInfo, is_literal, size, tail_of
from tensorlang.schedules.strategies.machine import Machine
from tensorlang.schedules.strategies.streaming import stream, streams_by_default
from tensorlang.schedules.strategies.thread_loop import outer_loop_knob, parallelize, worth_threads

LEAST_EXTENT: Final = 4
"""Iterations of both loops below which a tile is not worth it, but where whole vectors are written all the same: runs side by side."""


@dataclass(frozen=True, slots=True)
class Transpose:
    """A stage that reads memory along the loop `across`, and writes it along the loop `along`."""

    stage: StageInfo
    across: For
    along: For
    lanes: int
    threads: int
    streamed: bool | None = None
    shared: bool = False

    @property
    def name(self) -> str:
        """What logs call it."""
        return "turned"

    @classmethod
    def of(cls, stage: StageInfo, machine: Machine, threads: int, plain: Sequence[Part]) -> Transpose | None:
        """The two loops, or None where reads and writes go the same way; `plain` is the program as the cost model reads it."""
        if stage.reduced or len(stage.outer) < 2 or stage.store.reducer is not None:
            return None
        along = stage.outer[-1]
        moved = [load for load in stage.loads if stage.moves(load, along) != 0]
        if not moved or stage.stride(stage.store, along) != 1:
            return None
        for across in stage.outer[-2::-1]:
            if all(stage.stride(load, across) == 1 and stage.stride(load, along) not in (1, None) for load in moved):
                stride = stage.stride(stage.store, across)
                if not stride or (min(size(across), size(along)) < LEAST_EXTENT and stride != size(along)):
                    return None
                lanes = machine.lanes(stage.widest)
                shared = threads > 1 and worth_threads(stage, along, plain, machine, threads)
                return cls(stage, across, along, lanes, threads, streams_by_default(stage, machine), shared)
        return None

    def knobs(self, prefix: str = "") -> tuple[Knob, ...]:
        """The tile along what is written, the order of the tiles, whether they pass the caches by, threads."""
        most = max(LEAST_EXTENT, min(32, size(self.along)))
        found: list[Knob] = [
            Sizes(f"{prefix}tile", tuple(count for count in (4, 8, 16, 32) if count <= most)),
            Flag(f"{prefix}reads_first"),
        ]
        if self.streamed is not None:
            found.append(Flag(f"{prefix}stream"))
        if self.threads > 1:
            found.append(outer_loop_knob(prefix))
        return tuple(found)

    def default(self, prefix: str = "") -> dict[str, Any]:
        """A tile that fills a cache line, written in the order of memory."""
        sizes = self.knobs(prefix)[0].values
        wanted = 64 // max(1, self.stage.store.buffers[0].dtype.bytes)
        config: dict[str, Any] = {
            f"{prefix}tile": max(count for count in sizes if count <= max(wanted, LEAST_EXTENT)),
            f"{prefix}reads_first": False,
        }
        if self.streamed is not None:
            config[f"{prefix}stream"] = self.streamed
        if self.threads > 1:
            config[f"{prefix}parallel"] = "outer" if self.shared else "none"
        return config

    def schedule(self, s: Schedule, config: Mapping[str, Any], prefix: str = "", *, alone: bool = True) -> None:
        """Append the directives of a point to a schedule; a stage that stands inside another (not `alone`) gets no threads."""
        rest = [loop.loop for loop in self.stage.outer if loop.loop not in (self.across.loop, self.along.loop)]
        read_o, read_i = s.split(self.across.loop, self.lanes, tail_of(is_literal(self.across), "mask"))
        write_o, write_i = s.split(self.along.loop, config[f"{prefix}tile"], tail_of(is_literal(self.along), "guard"))
        tiles = [write_o, read_o] if config[f"{prefix}reads_first"] else [read_o, write_o]
        s.reorder(*rest, *tiles, write_i, read_i)
        s.vectorize(read_i)
        s.unroll(write_i)
        if config.get(f"{prefix}stream"):
            stream(s, self.stage)
        if alone and config.get(f"{prefix}parallel", "none") == "outer":
            parallelize(s, [*rest, *tiles][0])
