"""`skew` and `shift`: a loop counts from elsewhere.

    for t in range(8):                          for t in range(8):
        for j in range(8):              ->          for j_s in range(t, t + 8):         # j = -t + j_s
            Y[t, j] = f(Y[t - 1, j])                    Y[t, j] = f(Y[t - 1, j])

`skew`: loop' = loop + factor * by, where `by` is a loop around it. The iterations and their order stay; what changes is the shape of
the nest. After it, `reorder` may put the new loop outside `by`: the bounds are exchanged by projection, and every dependence that
pointed along `by` or along the loop now points along the new loop, so that `by` may run in parallel (a wavefront).

    for j in range(8):                          for j_s in range(3, 11):                # j = -3 + j_s
        Y[j] = f(X[j])                  ->          Y[j] = f(X[j])

`shift`: loop' = loop + amount. It lines a loop up with a neighbour that `fuse_loops` is to join it with.

The new loop is named `j_s`. Legal always, for a serial loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Expr, For, Nest, WindowRelation
from tensorlang.ir.printer import short
from tensorlang.schedules.directive import Directive, LoopName, Refusal, require_int
from tensorlang.schedules.rewriting.edit import edit_loop, edit_loops, find_loop, fresh_name, path_to_loop, stage_of

MAX_FACTOR = 1 << 20
MAX_AMOUNT = 1 << 40


@dataclass(frozen=True, slots=True)
class Skew(Directive):
    """Replace `loop` by `loop + factor * by`."""

    loop: LoopName
    by: LoopName
    factor: int = 1

    def made(self) -> tuple[str, ...]:
        """The full name of the new loop."""
        return (_renamed(self.loop),)

    def apply(self, nest: Nest) -> Nest:
        """The nest with the loop skewed."""
        path = path_to_loop(nest, self.loop)
        find_loop(nest, self.by)
        require_int(self.factor, "the factor of skew", -MAX_FACTOR, MAX_FACTOR, self.loop)
        if self.factor == 0:
            raise Refusal("TL-S005", "the factor of skew must not be 0", loop=self.loop)
        outer = next((part for part in path[:-1] if isinstance(part, For) and part.loop == self.by), None)
        if outer is None:
            raise Refusal(
                "TL-S105",
                f"{short(self.by)!r} is not a loop around {short(self.loop)!r}; skew an inner loop by an outer one",
                loop=self.loop,
            )
        if outer.kind == "vector":
            raise Refusal("TL-S107", f"the loop {short(self.by)!r} is already vector; its lanes need equal bounds inside", loop=self.by)
        _require_serial(find_loop(nest, self.loop))
        moved = simplify(Binary("mul", ir.const(self.factor), Axis(self.by)))
        (name,) = self.made()
        fresh_name(nest, stage_of(name), short(name))
        loop = find_loop(nest, self.loop)
        body = edit_loops(nest.body, lambda part: part.loop == self.loop, lambda part: _moved(part, name, moved))
        return replace(nest, body=body, relations=(*nest.relations, _relation(loop, name, moved)))


@dataclass(frozen=True, slots=True)
class Shift(Directive):
    """Replace `loop` by `loop + amount`."""

    loop: LoopName
    amount: int

    def made(self) -> tuple[str, ...]:
        """The full name of the new loop."""
        return (_renamed(self.loop),)

    def apply(self, nest: Nest) -> Nest:
        """The nest with the loop, and the loops that follow it, shifted."""
        require_int(self.amount, "the amount of shift", -MAX_AMOUNT, MAX_AMOUNT, self.loop)
        _require_serial(find_loop(nest, self.loop))
        (leader,) = self.made()
        fresh_name(nest, stage_of(leader), short(leader))
        relations = list(nest.relations)
        amount = ir.const(self.amount)

        def rewrite(part: For) -> For:
            name = leader if part.loop == self.loop else _renamed(part.loop)
            relations.append(_relation(part, name, amount))
            return replace(_moved(part, name, amount), follows=None if part.follows is None else leader)

        return replace(edit_loop(nest, self.loop, rewrite), relations=tuple(relations))


def _renamed(loop: str) -> str:
    return f"{stage_of(loop)}.{short(loop)}_s"


def _require_serial(loop: For) -> None:
    if loop.kind != "serial":
        raise Refusal("TL-S107", f"the loop is already {loop.kind}; move it before", loop=loop.loop)


def _relation(loop: For, name: str, moved: Expr) -> WindowRelation:
    return WindowRelation(loop.loop, name, simplify(ir.Unary("neg", moved)), loop.hi)


def _moved(loop: For, name: str, moved: Expr) -> For:
    return replace(loop, loop=name, lo=simplify(Binary("add", loop.lo, moved)), hi=simplify(Binary("add", loop.hi, moved)))
