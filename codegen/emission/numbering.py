"""Index arithmetic that is emitted once: equal operations on equal operands are one value, as far out as no loop changes it.

Copies of an unrolled statement, and the accesses of one, share most of their addresses. LLVM would find that out, in time that grows with
the square of a large function. Here a structured function is a stack of levels, one for each loop and each branch that is open; a value
belongs to the level of its innermost operand, moved in to where no loop stands between it and its use: out of loops, not out of branches
(hash-based value numbering, scheduled early: Click, "Global Code Motion / Global Value Numbering", PLDI 1995).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from llvmlite import ir as llvm

from tensorlang.codegen.emission.types import Builder, Value, known

Key = tuple[object, ...]


@dataclass(slots=True)
class Level:
    """What was computed since a loop or branch was entered; `before` is the block that enters it, of a loop."""

    before: Value | None = None
    values: dict[Key, Value] = field(default_factory=dict)


@dataclass(slots=True)
class Numbering:
    """The values that dominate the point of emission, by how they were computed."""

    levels: list[Level] = field(default_factory=lambda: [Level()])
    depths: dict[Value, int] = field(default_factory=dict)
    """The level of each value of which it is known; of the others, the innermost is taken."""

    @contextmanager
    def inside(self, before: Value | None = None) -> Iterator[None]:
        """Emit in a loop that the block `before` enters, or in a branch: what is computed there is not known after it."""
        self.levels.append(Level(before))
        yield
        self.levels.pop()

    def here(self, value: Value) -> None:
        """A value changes with the innermost loop."""
        self.depths[value] = len(self.levels) - 1

    def once(self, key: Key, make: Callable[[], Value]) -> Value:
        """A value by a key of the values that it is made of; made at the point of emission where it is new."""
        for level in reversed(self.levels):
            if key in level.values:
                return level.values[key]
        found = self.levels[-1].values[key] = make()
        return found

    def operation(self, builder: Builder, op: str, a: Value, b: Value, make: Callable[[], Value]) -> Value:
        """A total operation on two scalars, of which one at least is not a number."""
        now = len(self.levels) - 1
        key = op, *(side if known(side) is None else known(side) for side in (a, b))
        depth = max(self._depth(a), self._depth(b))
        for level in self.levels[depth:]:
            if key in level.values:
                return level.values[key]
        loop = next((at for at in range(depth + 1, now + 1) if self.levels[at].before is not None), None)
        if loop is None:
            depth, found = now, make()
        else:
            depth = loop - 1
            with builder.goto_block(self.levels[loop].before):
                found = make()
        self.levels[depth].values[key] = found
        self.depths[found] = depth
        return found

    def _depth(self, value: Value) -> int:
        if isinstance(value, llvm.Constant | llvm.Argument):
            return 0
        return self.depths.get(value, len(self.levels) - 1)
