"""A case in the making: shared extents, operands, and stages added one after another.

A draft may be asked that what it adds is `guarded` (its reads and writes are inside only where a condition holds).

Extents are drawn around the sizes at which compilers go wrong (0, 1, and one off the powers of two) and are shared by name, so that
stages fit together; the work of a case is bounded.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any, Final

from .case import Case, Extent, Node, value_of
from .nodes import FLOATS, TYPES, Info, Scope

EXTENTS: Final = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 7, 8, 8, 9, 9, 15, 16, 17, 31, 33)
WORK: Final = 3000
"""Points that one stage may have, reductions included."""
SHORT: Final = 0.25
"""The share of shapes with extents of run time that begin with a short literal one: channels, sides, both parts of a complex number."""
LETTERS: Final = "ijklm"


@dataclass(slots=True)
class Draft:
    """A case in the making."""

    rng: random.Random
    case: Case
    tensors: dict[str, Info] = field(default_factory=dict)
    guarded: bool | None = None
    """Whether stages read, and write, at places that only a condition makes safe; None: as it falls."""

    form: str | None = None
    """The `reduce` of scatters and the `keep` of scans; None: any."""

    inner: bool = False
    """Whether a stage shall have a reduction inside its expression."""

    joint: bool = False
    """Whether there shall be two such reductions, over equal ranges."""

    narrow: bool = False
    """Whether that shall be one that an instruction computes: the last extents of shapes are the lanes of one."""

    # Extents and operands

    def fresh(self, most: int = 64, *, least: int = 0, literal: bool = False) -> str:
        """A new named extent."""
        value = self.rng.choice([size for size in EXTENTS if least <= size <= max(most, least)])
        name = f"e{len(self.case['extents'])}"
        self.case["extents"][name] = value
        if not literal and self.rng.random() < self.case["dynamic"]:
            self.case["symbolic"].append(name)
        return name

    def fixed(self, value: int) -> str:
        """A new named extent of this value, known when the definition is written."""
        name = f"e{len(self.case['extents'])}"
        self.case["extents"][name] = value
        return name

    def extent(self, most: int = 64, *, least: int = 0) -> str:
        """A named extent of at most `most`, an old one more often than not."""
        old = [str(name) for name, value in self.case["extents"].items() if least <= value <= most and name.startswith("e")]
        if old and self.rng.random() < 0.65:
            return self.rng.choice(old)
        return self.fresh(most, least=least)

    def offset(self) -> Extent:
        """How far a read that needs its condition lies off: a number, or one known only at run time that no loop counts to."""
        if self.rng.random() >= max(self.case["dynamic"], 0.2):
            return self.rng.randint(1, 3)
        name = f"m{len(self.case['extents'])}"
        self.case["extents"][name] = self.rng.randint(0, 4)
        self.case["symbolic"].append(name)
        return name

    def maybe(self, often: float) -> bool:
        """Is this stage to be a guarded one? `often`: where nobody asked."""
        return self.rng.random() < often if self.guarded is None else self.guarded

    def value(self, extent: Extent) -> int:
        """The value of an extent."""
        return int(value_of(extent, self.case["extents"]))

    def points(self, shape: list[Extent]) -> int:
        """The number of elements of a shape, empty dimensions counted as one."""
        return math.prod(max(1, self.value(extent)) for extent in shape)

    def shape(self, rank: int, budget: int = WORK) -> list[Extent]:
        """A shape of at most `budget` elements; where extents are known at run time only, at times with a short one before that is not."""
        found: list[Extent] = []
        if rank > 1 and self.case["dynamic"] and self.rng.random() < SHORT:
            found, rank = [self.fixed(self.rng.choice((1, 2, 2, 3)))], rank - 1
        for left in range(rank, 0, -1):
            most = int((budget / self.points(found)) ** (1 / left) * (1.6 if left > 1 else 1))
            found.append(self.extent(max(2, most)) if left > 1 or not self.narrow else self.fixed(16))
        return found

    def operand(self, shape: list[Extent], of: str) -> str:
        """A tensor of this shape and type: an old one or a new operand."""
        fits = [name for name, info in self.tensors.items() if list(info.shape) == shape and info.dtype == of]
        if fits and self.rng.random() < 0.7:
            return self.rng.choice(fits)
        name = "ABCDEFGHIJKLMNOP"[len(self.case["inputs"])]
        self.case["inputs"].append({"name": name, "shape": shape, "dtype": of})
        self.tensors[name] = Info(tuple(shape), of, rough=False)
        return name

    def of_rank(self, least: int, most: int) -> str:
        """A tensor of a rank in a range: an old one or a new operand."""
        fits = [name for name, info in self.tensors.items() if least <= len(info.shape) <= most and self.points(list(info.shape)) <= WORK]
        if fits and self.rng.random() < 0.8:
            return self.rng.choice([*fits, *fits[-2:]])
        return self.operand(self.shape(self.rng.randint(least, most)), self.type())

    def type(self) -> str:
        """A type: that of the case, or another one."""
        return self.rng.choice((self.case["type"], self.case["type"], self.rng.choice(TYPES)))

    def number(self) -> str:
        """A type that is not bool."""
        of = self.type()
        return "int8" if of == "bool" else of

    def scope(self, axes: dict[str, Extent]) -> Scope:
        """What the body of a stage over these axes may use."""
        return Scope(self.rng, self.tensors, self.case["extents"], self.case["symbolic"], axes)

    # Stages

    @property
    def following(self) -> str:
        """The name of the next stage."""
        return "STUVWXYZ"[len(self.case["stages"])]

    def add(
        self, kind: str, axes: dict[str, Extent], body: list[Node], dtypes: list[str], *, rough: bool, always: bool = False, **more: Any
    ) -> None:
        """A stage and its tensors; `always` is for a form whose results are a tuple even where there is one."""
        name = self.following
        stage = {"name": name, "kind": kind, "type": dtypes[0], "axes": list(axes), "shape": list(axes.values()), "body": body, **more}
        self.case["stages"].append(stage)
        for component, of in enumerate(dtypes):
            label = name if len(dtypes) == 1 and not always else f"{name}_{component}"
            self.tensors[label] = Info(tuple(axes.values()), of, rough and of in FLOATS)


def axes_of(shape: list[Extent], letters: str = LETTERS) -> dict[str, Extent]:
    """Axes over a shape, named i, j, ..."""
    return dict(zip(letters, shape, strict=False))
