"""`fission`: each statement in a loop gets a loop of its own.

    for i in range(4):                          for i in range(4):              # C.init.i
        C[i] = 0                        ->          C[i] = 0
        for k in range(8):                      for i in range(4):              # C.i
            C[i] += A[i, k]                         for k in range(8):
                                                        C[i] += A[i, k]

The loop keeps its name over the last statement of its own stage; the other loops are named after the stages of their statements, and
so are the axes that follow from them.

Legal where no statement needs, or overwrites, what a later one computes in an earlier iteration, and no storage of one iteration
carries values from one statement to another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorlang.ir import Alloc, Block, Buffer, For, Nest, Relation, Stmt, block
from tensorlang.printer import short
from tensorlang.schedules.copies import Names, copied, pruned
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.edit import edit_loops, path_to_loop, stage_of, stores
from tensorlang.schedules.legality import accesses, overtaken


@dataclass(frozen=True, slots=True)
class Fission:
    """Distribute `loop` over the statements in it."""

    loop: str

    def apply(self, nest: Nest) -> Nest:
        """The nest with one loop for each statement."""
        path = path_to_loop(nest, self.loop)
        loop = path[-1]
        assert isinstance(loop, For)
        outer = [part for part in path[:-1] if isinstance(part, For)]
        parts = self._parts(loop)
        self._require_order(nest, loop, parts, outer)
        labels = [next(reversed(list(stores(part)))).stage for part in parts]
        own = [position for position, label in enumerate(labels) if label == stage_of(self.loop)]
        keeper = own[-1] if own else len(parts) - 1
        names = Names.of(nest)
        relations: list[Relation] = list(nest.relations)
        result: list[Stmt] = []
        for position, (part, label) in enumerate(zip(parts, labels, strict=True)):
            whole = replace(loop, body=part)
            if position != keeper:
                made = copied(
                    nest,
                    whole,
                    [around.loop for around in outer],
                    [self.loop],
                    lambda axis, label=label: names.fresh(f"{label}.{short(axis)}"),  # type: ignore[misc]
                )
                relations.extend(made.relations)
                whole = made.body  # type: ignore[assignment]
            result.append(whole)
        body = edit_loops(nest.body, lambda part: part.loop == self.loop, lambda _: block(*result))
        return pruned(replace(nest, body=body, relations=tuple(relations)))

    def _parts(self, loop: For) -> list[Stmt]:
        """The statements, each inside the storage that it alone uses."""
        storage: list[Buffer] = []
        body = loop.body
        while isinstance(body, Alloc):
            storage.append(body.buffer)
            body = body.body
        parts: list[Stmt] = _with_hints(body.body) if isinstance(body, Block) else [body]
        if len(parts) < 2:
            raise Refusal("TL-S105", f"{short(self.loop)!r} holds a single statement, so there is nothing to separate", loop=self.loop)
        for buffer in reversed(storage):
            users = [position for position, part in enumerate(parts) if any(access.buffer.name == buffer.name for access in accesses(part))]
            if len(users) > 1:
                raise Refusal(
                    "TL-S108",
                    f"{buffer.name!r} is storage of one iteration of {short(self.loop)!r} and carries values from one statement to another",
                    stage=buffer.name,
                    loop=self.loop,
                )
            for position in users:
                parts[position] = Alloc(buffer, parts[position])
        return parts

    def _require_order(self, nest: Nest, loop: For, parts: list[Stmt], outer: list[For]) -> None:
        for position, part in enumerate(parts):
            for later in parts[position + 1 :]:
                example = overtaken(nest, loop, outer, part, later)
                if example is not None:
                    raise Refusal(
                        "TL-S103",
                        f"{example['second']['stage']!r} touches {example['element']} after {example['first']['stage']!r} did "
                        f"in an earlier iteration of {short(self.loop)!r}; apart, the two would change places",
                        stage=example["second"]["stage"],
                        loop=self.loop,
                        counterexample=example,
                    )


def _with_hints(body: tuple[Stmt, ...]) -> list[Stmt]:
    """The statements, what only prefetches joined to the one that follows."""
    parts: list[Stmt] = []
    hints: list[Stmt] = []
    for part in body:
        hints.append(part)
        if any(True for _ in stores(part)):
            parts.append(block(*hints))
            hints = []
    return [*parts[:-1], block(*parts[-1:], *hints)]
