"""The oracle of dependences beside the schedule of a case: the same steps on the marked program, accepted ones and refused ones.

The proofs of directives were given already, so the marked program takes the steps without them; where that leads to another nest than the
schedule has, it takes them with proofs, and where it still does, the case is not judged here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tensorlang.ir import Nest
from tensorlang.schedules.directives.compute_inline import ComputeInline
from tensorlang.schedules.directives.hoist import Hoist
from tensorlang.schedules.directives.separate import Separate
from tensorlang.schedules.directives.share import Share
from tensorlang.schedules.directives.trim import Trim
from tensorlang.schedules.rewriting.edit import stores_of
from tests.oracle.dependences import Needs
from tests.oracle.flow import TooMuch
from tests.oracle.marks import marked, unmarked
from tests.oracle.question import dependences, violation

from .effort import sizes_of, work
from .replay import unproved

ELSEWHERE: Final = (Hoist, Separate, Share, Trim)
"""What computes something early, or for nobody with the rest of its tile, takes its mark to where no instance is."""
WORK: Final = 600
"""Stores that a nest may run to be judged: about as long as the other oracles take."""


@dataclass(slots=True)
class Forward:
    """The marked program of a case under the steps so far; None where it went another way."""

    plain: Nest
    shadow: Nest | None = None
    known: dict[tuple[Any, ...], Needs | None] = field(default_factory=dict)
    start: Nest = field(init=False)

    def __post_init__(self) -> None:
        self.shadow = self.start = marked(self.plain)

    def follow(self, directives: tuple[Any, ...], nest: Nest) -> None:
        """Take the steps that led to `nest`."""
        before = self.shadow
        if before is None:
            return
        if any(isinstance(directive, ELSEWHERE) or _forgets(directive, before) for directive in directives):
            self.shadow = None
            return
        self.shadow = self.taken(before, directives, proved=False)
        if self.shadow is None or unmarked(self.shadow) != nest:
            self.shadow = self.taken(before, directives, proved=True)
        if self.shadow is not None and unmarked(self.shadow) != nest:
            self.shadow = None

    def taken(self, nest: Nest, directives: tuple[Any, ...], *, proved: bool) -> Nest | None:
        """A nest after directives, with or without their proofs; None where one is refused."""
        try:
            for directive in directives:
                if proved:
                    nest = directive.apply(nest)
                else:
                    with unproved():
                        nest = directive.apply(nest)
        except Exception:  # noqa: BLE001 - a marked program is another one
            return None
        return nest

    def forced(self, directive: Any) -> Nest | None:
        """The marked program after a step that was refused."""
        return None if self.shadow is None else self.taken(self.shadow, (directive,), proved=False)

    def small(self, nest: Nest, extents: Mapping[str, int], limit: int = WORK) -> bool:
        """Is a nest small enough at these extents?"""
        return max(work(body, sizes_of(extents)) for body in (self.plain.body, nest.body)) <= limit

    def wanted(self, arrays: Mapping[str, np.ndarray[Any, Any]], dims: Mapping[str, int]) -> Needs | None:
        """The dependences of the program on these data; None where they are too many to list."""
        key = (*dims.values(), *((array.shape, array.tobytes()) for array in arrays.values()))
        if key not in self.known:
            try:
                self.known[key] = dependences(self.plain, arrays, dims)
            except TooMuch:
                self.known[key] = None
        return self.known[key]

    def wrong(self, nest: Nest, arrays: Mapping[str, np.ndarray[Any, Any]], dims: Mapping[str, int]) -> str | None:
        """What does not point forward in a marked nest; None where all does. Raises `TooMuch` where that cannot be told."""
        wanted = self.wanted(arrays, dims)
        if wanted is None:
            raise TooMuch
        return violation(wanted, nest, arrays, dims)


def _forgets(directive: Any, nest: Nest) -> bool:
    """Does it write a stage of several results into its readers, of which nobody may read one, nor what that reads?"""
    return isinstance(directive, ComputeInline) and any(len(store.buffers) > 1 for store in stores_of(nest.body, (directive.stage,)))
