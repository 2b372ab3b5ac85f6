"""What a pattern is: a value that says which part of a graph is meant.

    pattern = Wildcard()                       anything, also an operand that is left out
            | Absent()                         an operand that is left out
            | Tensor(shape, dtype, users, constant)     a value, with constraints
            | Op(operators, args, attributes)  a result of a node, and patterns for what it reads
            | p & q | p | q | ~p               both; either; not
            | Opt(p)                           p, or p left out
            | Chain(operators, onto=p)         a number of nodes, one reading the other, down to p

`p.bind("name")` names what was matched. One object that stands twice in a pattern, and one name, mean one value. A constraint on an
attribute is a value, a set of values, a function to bool, or `Attr("name")`, which captures it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Any, Final, Self, TypeAlias

import tensorlang as tl

Shape: TypeAlias = "tuple[int | str | tl.Dim | EllipsisType | None, ...]"
"""For each axis a number or a dim, a name (equal names are equal extents), or None for any; `...` stands for any number of axes."""
Args: TypeAlias = "tuple[Pattern | EllipsisType, ...]"

LONGEST: Final = 8
"""Nodes of a chain, where nothing else is said."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """Patterns combine with `&`, `|` and `~`. They are compared by being the same object: that is what makes two places one value."""

    label: str | None = field(default=None, init=False, repr=False)

    def bind(self, name: str) -> Self:
        """The same pattern, which names what it matches: `match[name]`."""
        if not isinstance(name, str) or not name:
            raise tl.GraphError(f"a part of a pattern is bound to a name, not to {name!r:.60}")
        made = replace(self)
        object.__setattr__(made, "label", name)
        return made

    def __and__(self, other: Pattern) -> And:
        return And((self, as_pattern(other)))

    def __or__(self, other: Pattern) -> Or:
        return Or((self, as_pattern(other)))

    def __invert__(self) -> Not:
        return Not(self)


@dataclass(frozen=True, eq=False)
class Wildcard(Pattern):
    """Anything, also an operand that is left out."""


@dataclass(frozen=True, eq=False)
class Absent(Pattern):
    """An operand that is left out."""


@dataclass(frozen=True, eq=False)
class Tensor(Pattern):
    """A value: of a shape, of one of several types, read by so many nodes, constant or not; a number is a constant of which all are it."""

    shape: Shape | None = None
    dtype: str | tuple[str, ...] | None = None
    users: int | None = None
    constant: bool | float | None = None


@dataclass(frozen=True, eq=False)
class Applied(Pattern):
    """A result of a node of one of these operators; `Op` makes it."""

    operators: tuple[str, ...]
    args: Args
    attributes: tuple[tuple[str, Any], ...]
    escapes: bool = False

    def shared(self) -> Self:
        """The same, but nodes outside of the match may read its result too."""
        return replace(self, escapes=True)


def Op(operators: str | tuple[str, ...], args: Args = (...,), **attributes: Any) -> Applied:  # noqa: N802 - it stands among patterns
    """A result of a node of an operator, or of one of several.

    `args` are patterns for its operands, `...` among them for any number; operands left out at the end are `Absent`. Where an operator is
    commutative, its first two operands are tried in both orders. All else are constraints on attributes.
    Nobody outside of a match may read what a node inside of it makes, unless it is `shared()`.
    """
    every = (operators,) if isinstance(operators, str) else operators
    if not isinstance(every, (list, tuple)) or not all(isinstance(name, str) for name in every):
        raise tl.GraphError(f"Op takes the name of an operator, or several in a tuple, not {operators!r:.60}")
    names = tuple(every)
    given = args if isinstance(args, tuple) else (args,)
    return Applied(names, tuple(arg if arg is ... else as_pattern(arg) for arg in given), tuple(attributes.items()))


@dataclass(frozen=True, slots=True)
class Attr:
    """An attribute of any value (of those for which `where` holds), captured by name: `match[name]`; twice, it is the same value."""

    name: str
    where: Callable[[Any], bool] | None = None


@dataclass(frozen=True, eq=False)
class And(Pattern):
    """All of these."""

    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, eq=False)
class Or(Pattern):
    """The first of these with which the whole matches; bind them to see which one."""

    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, eq=False)
class Not(Pattern):
    """Anything but this; what it binds is not seen outside."""

    pattern: Pattern


@dataclass(frozen=True, eq=False)
class Opt(Pattern):
    """A pattern that may be left out: of an operator, what it is applied to stands there instead (its first argument); else, nothing."""

    pattern: Pattern


@dataclass(frozen=True, eq=False)
class Links(Pattern):
    """Nodes that match `step`, each reading the next one by some operand, down to what matches `onto`; `Chain` makes it."""

    step: Applied
    onto: Pattern
    least: int
    most: int


def Chain(*operators: str, onto: Pattern, least: int = 0, most: int = LONGEST) -> Links:  # noqa: N802 - as above
    """From `least` to `most` nodes of these operators, each reading the next one by some operand, down to what matches `onto`.

    The shortest chain with which the whole matches is taken. What is bound is the value of the last node.
    """
    return Links(Op(operators), as_pattern(onto), least, most)


def as_pattern(value: object) -> Pattern:
    """`value`, if it is a pattern. Raises `GraphError`."""
    if isinstance(value, Pattern):
        return value
    raise tl.GraphError(f"a part of a pattern is made by Wildcard, Tensor, Absent, Op, Opt, Chain, or by & | ~ of these, not {value!r:.60}")
