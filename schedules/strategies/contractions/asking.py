"""Operands of a contraction that are read in place, asked for ahead.

    for k: prefetch A[i:i+5, k + 32]; unroll i_i: vector j_i: C_acc[i_i, j_i] += A[i, k] * B[k, j]

The hardware follows rows of an operand by itself, as many as it has places for. Where the other operand is read across its rows, so that
each step of the depth takes its lanes from another page, and from beyond the second level, these places are taken before a row has moved on
by a line, and every line of it is waited for: a Zen 4 takes 47 cycles for a step of 5 x 5 vectors, and 26 where the rows are asked for
(512 x 3072 x 768, on a quiet machine). Beside neighbours such lanes are faster packed, so that asking for rows is left to the tuner.

Lanes that come from memory are read along as many rows at once as are followed. Each row begins anew at each page, and at its end: asked
for 16 rows ahead, where the first cache keeps them until then, products of 9 to 24 rows take 0.5 to 0.8 of the time on a Zen 4, whatever
its neighbours leave of the last level. Rows a power of two apart fall into one set, and take up to 1.5 of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tensorlang.ir import Load
from tensorlang.ir.machine import LINE_BYTES
from tensorlang.schedules.rewriting.edit import find_loop
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice
from tensorlang.schedules.strategies.analysis.stages import tensor_of
from tensorlang.schedules.strategies.contractions.micro_kernel import MicroKernel
from tensorlang.schedules.strategies.contractions.register_tile import leading_dimension_conflict
from tensorlang.schedules.strategies.contractions.tile_order import LANES, ROWS
from tensorlang.schedules.strategies.loops.panels import comes_from_afar
from tensorlang.schedules.strategies.loops.prefetching import DISTANCE, bytes_of
from tensorlang.schedules.strategies.processor import Processor

KNOB: Final = "prefetch"
NONE, BOTH = "none", "both"
ASKED: Final[Mapping[str, tuple[str, ...]]] = {NONE: (), ROWS: (ROWS,), LANES: (LANES,), BOTH: (ROWS, LANES)}
"""The roles whose operands are asked for, by the values of the knob."""
LINES: Final = 2
"""Lines of a row that are asked for ahead: the next one is on its way while this one is read, in 16 steps of some twenty cycles."""


@dataclass(frozen=True, slots=True)
class Asking:
    """Which operands of a micro-kernel may be asked for ahead: those that come from afar, unless they are packed."""

    kernel: MicroKernel
    machine: Processor
    constants: frozenset[str]

    def knob(self) -> Choice | None:
        """Whose operands are asked for; None where there is nothing to ask for."""
        present = [role for role, loads in self._loads().items() if loads]
        values = [value for value, roles in ASKED.items() if set(roles) <= set(present)]
        return Choice(KNOB, values) if present else None

    def holds(self, config: Mapping[str, Any]) -> bool:
        """Is nothing asked for that a point packs?"""
        asked = ASKED[config[KNOB]]
        return not (ROWS in asked and config.get("pack_row")) and not (LANES in asked and config.get("pack_vector"))

    @property
    def steady(self) -> bool:
        """Are lanes worth asking for: vectors are lines, prefetchers follow no more rows than hints reach, L1 keeps what these bring?"""
        core, stage, depth, loads = self.machine.core, self.kernel.roles.stage, self.kernel.roles.depth, self._loads()[LANES]
        kept = all(stage.stride(load, depth) and not leading_dimension_conflict(stage, load, depth, sets=2) for load in loads)
        whole = self.kernel.lanes * self.kernel.panel_bytes >= core.line
        return bool(loads) and whole and core.streams <= DISTANCE and kept

    def asked(self, config: Mapping[str, Any]) -> list[tuple[str, Load]]:
        """The loads that a point asks for, with their roles."""
        loads = self._loads()
        return [(role, load) for role in ASKED[config.get(KNOB, NONE)] for load in loads[role]]

    def ask(self, s: Schedule, config: Mapping[str, Any]) -> None:
        """Let the innermost serial loop of the contraction ask for what a point names."""
        stage = self.kernel.roles.stage.name
        serial = [name for name in s.loops(stage) if find_loop(s.nest, name).kind == "serial"] if stage in s.stages() else []
        for role, load in self.asked(config) if serial else ():
            operand = tensor_of(load)
            steps = DISTANCE if role == LANES else LINES * LINE_BYTES // operand.dtype.bytes
            distance = max(1, steps // config["unroll"])
            if s.can("prefetch", operand.name, serial[-1], distance):
                s.prefetch(operand.name, serial[-1], distance)

    def _loads(self) -> dict[str, Sequence[Load]]:
        """The operands of each role that may be asked for: along a loop of their own, since places in several take divisions."""
        roles = self.kernel.roles
        if self.kernel.fixed_packing or not roles.literal or roles.scattered or roles.row is None:
            return {ROWS: (), LANES: ()}
        sides = {ROWS: (roles.row, roles.row_operands), LANES: (roles.vector, roles.operands)}
        return {role: [load for load in loads if len(group.loops) == 1 and self._is_far(load)] for role, (group, loads) in sides.items()}

    def _is_far(self, load: Load) -> bool:
        buffer = tensor_of(load)
        if buffer.name in self.constants or buffer.memory != "argument":
            return False
        return comes_from_afar(bytes_of(buffer), self.machine.l2)
