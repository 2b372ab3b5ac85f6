"""`split`: one loop becomes two.

    for i in range(n):                  for i_o in range((n + 7) // 8):        # i = 8 i_o + i_i   guard
        C[i] = A[i]             ->          for i_i in range(8):
                                                C[i] = A[i]

parent = lo + outer * factor + inner. The pair is perfectly nested whatever the tail; code generation realises the tail:
`guard` (a condition), `mask` (masked vector operations where the inner loop is vectorised), `peel` (a main part without conditions
and a remainder), `shift` (the last tile moves back to the end; refused where recomputing would change the result).
What the two loops decide of a `//` or `%` in their body is written there: under `i = 8 i_o + i_i`, `i // 8` becomes `i_o`.

Legal always, but for `shift`. A factor may be larger than the loop, but not by orders of magnitude: what the tail leaves out is counted
through all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import For, Nest, Tail
from tensorlang.ir.printer import short
from tensorlang.ir.relations import tile_count
from tensorlang.ir.traverse import written_in
from tensorlang.schedules.directive import Directive, LoopName, Refusal, require_int
from tensorlang.schedules.legality.accesses import reads
from tensorlang.schedules.rewriting.edit import allocated_names, edit_loop, find_loop, fresh_name, literal_extent, stage_of, stores
from tensorlang.schedules.rewriting.quotients import without_decided_quotients

TAILS = ("guard", "mask", "peel", "shift")
MAX_FACTOR: Final = 1 << 24
"""The largest factor of a loop that may be shorter: iterations that a tail leaves out take their time, too, wherever the loop goes."""
MAX_IDLE: Final = 1 << 16
"""The same where the number of iterations is known, and more than that is a slip."""


@dataclass(frozen=True, slots=True)
class Split(Directive):
    """Split `loop` into an outer loop and an inner loop of `factor` iterations, named `names` (default `i_o`, `i_i`)."""

    loop: LoopName
    factor: int
    tail: Tail = "guard"
    names: tuple[str, str] | None = None

    def made(self) -> tuple[str, ...]:
        """The full names of the two loops."""
        stage, label = stage_of(self.loop), short(self.loop)
        outer, inner = self.names or (f"{label}_o", f"{label}_i")
        return f"{stage}.{outer}", f"{stage}.{inner}"

    def apply(self, nest: Nest) -> Nest:
        """The nest with the loop, and the loops that follow it, split."""
        loop = find_loop(nest, self.loop)
        extent = literal_extent(loop)
        most = MAX_FACTOR if extent is None else max(MAX_IDLE, extent)
        require_int(
            self.factor, "the factor of split" if extent is None else f"the factor of split of {extent} iterations", 1, most, self.loop
        )
        if self.tail not in TAILS:
            raise Refusal("TL-S005", f"tail {self.tail!r} is not one of {', '.join(TAILS)}", loop=self.loop)
        if self.names is not None and (len(self.names) != 2 or self.names[0] == self.names[1]):
            raise Refusal("TL-S005", f"names= of split takes two different names, not {self.names!r}", loop=self.loop)
        if loop.kind != "serial":
            raise Refusal("TL-S107", f"the loop is already {loop.kind}; split it before", loop=self.loop)
        if self.tail == "shift":
            self._require_idempotent(loop)
        leader = self.made()
        for name in leader:
            fresh_name(nest, stage_of(name), short(name))
        relations = list(nest.relations)

        def rewrite(part: For) -> For:
            stage, label = stage_of(part.loop), short(part.loop)
            outer, inner = leader if part.loop == self.loop else (f"{stage}.{label}_o", f"{stage}.{label}_i")
            follows = (None, None) if part.follows is None else leader
            relation = ir.SplitRelation(part.loop, outer, inner, self.factor, part.lo, part.hi, self.tail)
            relations.append(relation)
            return For(
                outer,
                ir.const(0),
                simplify(tile_count(relation)),
                For(inner, ir.const(0), ir.const(self.factor), part.body, "serial", follows[1]),
                "serial",
                follows[0],
            )

        edited = edit_loop(nest, self.loop, rewrite)
        return without_decided_quotients(replace(edited, relations=tuple(relations)), frozenset(leader))

    def _require_idempotent(self, loop: For) -> None:
        private = allocated_names(loop.body)
        written = written_in(loop.body) - private
        for store in stores(loop.body):
            if store.reducer is not None and store.buffers[0].name in written:
                raise Refusal(
                    "TL-S106",
                    f"tail 'shift' computes some iterations twice, and {store.stage!r} adds to its tensor each time; "
                    "use guard, mask or peel",
                    stage=store.stage,
                    loop=self.loop,
                )
        for load in reads(loop.body):
            name = getattr(load.buffer, "name", "")
            if name in written:
                raise Refusal(
                    "TL-S106",
                    f"tail 'shift' computes some iterations twice, and this loop both reads and writes {name!r}; use guard, mask or peel",
                    stage=name,
                    loop=self.loop,
                )
