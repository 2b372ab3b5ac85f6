"""The methods of a schedule that change the structure of its loops.

They are `peel`, `skew`, `shift`, `fission`, `fuse_loops`, `specialize`, `rfactor` and `decompose_reduction`. They stand apart from
`Schedule` because they share nothing with it but how a directive is made and applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

from tensorlang.expr import Expr
from tensorlang.schedules.conditions import spelled
from tensorlang.schedules.decompose import DecomposeReduction
from tensorlang.schedules.fission import Fission
from tensorlang.schedules.join import FuseLoops
from tensorlang.schedules.kinds import Parallel
from tensorlang.schedules.peel import Peel
from tensorlang.schedules.rfactor import Rfactor
from tensorlang.schedules.skew import Shift, Skew
from tensorlang.schedules.specialize import Specialize

StructuralDirective: TypeAlias = "Peel | Skew | Shift | Fission | FuseLoops | Specialize | Rfactor | DecomposeReduction"

STRUCTURAL: dict[str, type[StructuralDirective]] = {
    "peel": Peel,
    "skew": Skew,
    "shift": Shift,
    "fission": Fission,
    "fuse_loops": FuseLoops,
    "specialize": Specialize,
    "rfactor": Rfactor,
    "decompose_reduction": DecomposeReduction,
}


def made(kind: str, loop: Callable[[object], str], *args: Any, **options: Any) -> StructuralDirective:
    """The frozen value of a call; `loop` resolves the names of loops. Raises `Refusal`."""
    match kind:
        case "skew":
            by = options.pop("by") if "by" in options else args[1]
            return Skew(loop(args[0]), loop(by), *args[2:], **options)
        case "fuse_loops":
            first, second = args
            return FuseLoops(loop(first), loop(second))
        case "specialize":
            (condition,) = args
            return Specialize(spelled(condition))
        case _:
            return STRUCTURAL[kind](loop(args[0]), *args[1:], **options)


def instead(refused: object) -> Iterator[StructuralDirective]:
    """Directives that might serve where one is refused for a race."""
    if isinstance(refused, Parallel):
        yield Rfactor(refused.loop)


class _Applies(Protocol):
    """What a schedule brings: make a directive by name and apply it."""

    def _do(self, kind: str, /, *args: Any, **options: Any) -> object: ...


class Structural:
    """The methods; each names the module that explains it."""

    __slots__ = ()

    def peel(self: _Applies, loop: str, first: int = 0, last: int = 0) -> None:
        """Run the first and last iterations of a loop in copies of its body; see `schedules.peel`."""
        self._do("peel", loop, first=first, last=last)

    def skew(self: _Applies, loop: str, by: str, factor: int = 1) -> None:
        """Make `loop + factor * by` the loop; see `schedules.skew`."""
        self._do("skew", loop, by=by, factor=factor)

    def shift(self: _Applies, loop: str, amount: int) -> None:
        """Make `loop + amount` the loop; see `schedules.skew`."""
        self._do("shift", loop, amount=amount)

    def fission(self: _Applies, loop: str) -> None:
        """Give each statement in a loop a loop of its own; see `schedules.fission`."""
        self._do("fission", loop)

    def fuse_loops(self: _Applies, first: str, second: str) -> None:
        """Make one loop of two neighbours; see `schedules.join`."""
        self._do("fuse_loops", first, second)

    def specialize(self: _Applies, condition: Expr | str) -> None:
        """A version of the nest for extents that satisfy a condition; see `schedules.specialize`."""
        self._do("specialize", condition)

    def rfactor(self: _Applies, loop: str) -> None:
        """Give each iteration of a reduction loop a partial result; see `schedules.rfactor`."""
        self._do("rfactor", loop)

    def decompose_reduction(self: _Applies, loop: str) -> None:
        """Start a reduction right before one of its loops; see `schedules.decompose`."""
        self._do("decompose_reduction", loop)
