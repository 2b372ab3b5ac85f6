"""What users call loops, stages, tensors and dims, and what these are called in the nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorlang.definition.tensor import Tensor
from tensorlang.errors import did_you_mean
from tensorlang.ir import MOST, For, Nest
from tensorlang.ir.printer import short
from tensorlang.schedules import trace
from tensorlang.schedules.directive import Directive, Refusal
from tensorlang.schedules.rewriting.edit import AUXILIARY, loops, path_to, stage_of, stages


class LoopHandle(str):
    """A handle of a loop: its full name."""

    __slots__ = ()


class History:
    """The names in a nest and in those that came before it: `nests` has one more than there are `steps`."""

    __slots__ = ("nests", "steps")

    def __init__(self, nests: Sequence[Nest], steps: Sequence[Directive]) -> None:
        self.nests = nests
        self.steps = steps

    def loop(self, name: object) -> str:
        """The full name of a loop. Raises `Refusal`."""
        if not isinstance(name, str):
            raise Refusal("TL-S005", f"a loop is named by a string or a handle, not {name!r:.40}")
        if path_to(self.nests[-1].body, lambda part: isinstance(part, For) and part.loop == name, (name,)):
            return str(name)
        present = list(loops(self.nests[-1].body))
        if "." not in name:
            found = [part for part in present if short(part.loop) == name and part.follows is None]
            defined = set(stages(self.nests[0]))
            main = [part for part in found if is_main(part) and stage_of(part.loop) in defined]
            matches = [part.loop for part in main or found if is_main(part)]
            if len(matches) == 1:
                return matches[0]
            if matches:
                raise Refusal("TL-S002", f"{name!r} names {len(matches)} loops: {', '.join(matches)}; write one of these", loop=name)
        for position, step in enumerate(self.steps):
            before, after = (_loops(nest) for nest in self.nests[position : position + 2])
            gone = [loop for loop in before - after if name in (loop, short(loop))]
            if gone:
                made = ", ".join(short(loop) for loop in step.made()) or "nothing"
                raise Refusal(
                    "TL-S004", f"the loop {short(name)!r} is gone: step {position} ({trace.call(step)}) made {made} of it", loop=name
                )
        known = [part.loop if "." in name else short(part.loop) for part in present if is_main(part)]
        raise Refusal("TL-S001", f"there is no loop {name!r}{did_you_mean(name, known)}", loop=name)

    def text(self, value: object, what: str) -> str:
        """The name of a stage or tensor, given as text or as the tensor. Raises `Refusal`."""
        if isinstance(value, Tensor):
            value = value.name
        if not isinstance(value, str):
            raise Refusal("TL-S005", f"{what} is given by name, not {value!r:.40}")
        return value


def is_main(loop: For) -> bool:
    """Is a loop one that users name: none of an initialisation or a copy, and none that follows another?"""
    return not stage_of(loop.loop).endswith(AUXILIARY) and loop.follows is None


def _loops(nest: Nest) -> frozenset[str]:
    return frozenset(part.loop for part in loops(nest.body))


def require_extents(nest: Nest, given: Mapping[str, int]) -> None:
    """Raise `Refusal` for a name that is no dim of a nest, and for a value that is no extent, or outside of the bounds of its dim."""
    for name, value in given.items():
        if name not in nest.dims:
            raise Refusal("TL-S005", f"there is no dim {name!r}{did_you_mean(str(name), nest.dims)}")
        least, most = nest.bounds[name]
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            within = "" if (least, most) == (0, MOST) else f" in {least}..{most}"
            raise Refusal("TL-S005", f"{name} must be an extent{within}, not {value!r:.40}")
