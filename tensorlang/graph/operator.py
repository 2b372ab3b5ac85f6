"""What an operator is: a name, and one plain function of tensorlang tensors.

Everything else follows from the function. Parameters that take a `tl.Tensor` are operands (`tl.Tensor | None` one that may be left out,
`*tensors: tl.Tensor` any number), all others are attributes with their defaults; what it returns has the types of the results; its index
expressions say whether it is pointwise, and are what the evaluator evaluates and kernels are made of. A view has a rule besides: how the
result lies in the memory of its operand.

An attribute has one spelling, so that equal nodes are equal: `Pair` makes `(2, 2)` of 2, `Axis` and `Axes` count from the front, `Sizes`
knows what -1 stands for. These are types with a rule; a function says what it takes by annotating its parameter.
"""

from __future__ import annotations

import inspect
import math
import numbers
import operator as operators
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

import tensorlang as tl
from tensorlang.errors import did_you_mean
from tensorlang.graph.ir import Attribute, Extent, Type
from tensorlang.graph.strided import Strided

Types: TypeAlias = "Sequence[Type | None]"
Function: TypeAlias = "Callable[..., tl.Tensor | tuple[tl.Tensor, ...]]"
View: TypeAlias = "Callable[..., Strided | None]"


@dataclass(frozen=True, slots=True)
class Spelling:
    """How an attribute is spelled, given the types of the operands."""

    of: Callable[[Any, Types], Attribute]


def _pair(value: Any, _: Types) -> Attribute:
    made: Attribute = (value, value) if isinstance(value, int) else value
    return made


def _axis(value: Any, types: Types) -> Attribute:
    first = types[0] if types else None
    if not isinstance(value, int) or isinstance(value, bool) or first is None:
        other: Attribute = value
        return other
    if not -first.rank <= value < first.rank:
        raise tl.DefinitionError(f"axis {value} is none of the {first.rank} axes of {first}")
    return value % first.rank


def _axes(value: Any, types: Types) -> Attribute:
    first = types[0] if types else None
    if first is not None and value in (None, ()):
        return tuple(range(first.rank))
    entries = value if isinstance(value, tuple) else (value,)
    return tuple(_axis(entry, types) for entry in entries)


def _sizes(value: Any, types: Types) -> Attribute:
    sizes = value if isinstance(value, tuple) else (value,)
    if -1 not in [size for size in sizes if isinstance(size, int)] or not types or types[0] is None:
        return sizes
    rest: Any = math.prod(size for size in sizes if not (isinstance(size, int) and size == -1))
    total: Any = math.prod(types[0].shape)
    if isinstance(rest, int) and isinstance(total, int) and (not rest or total % rest):
        raise tl.DefinitionError(f"the {total} elements of {types[0]} do not fall into {sizes}")
    return tuple(total // rest if isinstance(size, int) and size == -1 else size for size in sizes)


Pair: TypeAlias = Annotated[tuple[int, int], Spelling(_pair)]
"""Two numbers, vertical and horizontal; one stands for both."""
Axis: TypeAlias = Annotated[int, Spelling(_axis)]
"""An axis of the first operand; a negative one is counted from the back."""
Axes: TypeAlias = Annotated[tuple[int, ...], Spelling(_axes)]
"""Axes of the first operand; None are all of them."""
Sizes: TypeAlias = Annotated[tuple[Extent, ...], Spelling(_sizes)]
"""Extents, one of which may be -1: what the elements of the first operand leave for it."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that an operator takes; `several` stands for any number of them."""

    name: str
    optional: bool = False
    several: bool = False


@dataclass(frozen=True)
class Operator:
    """An operator: its name, its function, and what follows from its parameters.

    `commutative`: the first two operands may change places. `view`: how the result lies in memory, from how the first operand lies there
    and the attributes; None where the elements have to be moved.
    """

    name: str
    function: Function
    operands: tuple[Operand, ...]
    attributes: Mapping[str, inspect.Parameter]
    spellings: Mapping[str, Spelling]
    commutative: bool = False
    view: View | None = None

    @classmethod
    def of(cls, function: Function, name: str | None = None, *, commutative: bool = False, view: View | None = None) -> Operator:
        """The operator that a function is, by its name unless it gets another. Raises `GraphError` for a function without a signature."""
        try:
            hints = typing.get_type_hints(function, include_extras=True)
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError, NameError) as error:
            raise tl.GraphError(f"an operator is a function whose parameters are annotated, and {function!r:.60} is not: {error}") from None
        operands: list[Operand] = []
        attributes: dict[str, inspect.Parameter] = {}
        for label, parameter in parameters.items():
            kinds = {hints.get(label), *typing.get_args(hints.get(label))}
            if tl.Tensor in kinds:
                operands.append(Operand(label, type(None) in kinds, parameter.kind is parameter.VAR_POSITIONAL))
            else:
                attributes[label] = parameter
        if not operands:
            raise tl.GraphError(f"{function!r:.60} takes no tensor: an operand is a parameter annotated as tl.Tensor")
        spellings = {label: rule for label in attributes for rule in _rules(hints.get(label))}
        return cls(name or function.__name__, function, tuple(operands), attributes, spellings, commutative, view)

    def spelled(self, given: Mapping[str, object], types: Types) -> tuple[tuple[str, Attribute], ...]:
        """All attributes in their one spelling, in the order of the parameters. Raises `DefinitionError`."""
        for label in given:
            if label not in self.attributes:
                known = did_you_mean(label, self.attributes) or f"; it has {', '.join(self.attributes) or 'none'}"
                raise tl.DefinitionError(f"{self.name} has no attribute {label!r:.60}{known}")
        made: list[tuple[str, Attribute]] = []
        for label, parameter in self.attributes.items():
            if label not in given and parameter.default is inspect.Parameter.empty:
                raise tl.DefinitionError(f"{self.name} needs the attribute {label!r}")
            made.append((label, self.spelling(label, given.get(label, parameter.default), types)))
        return tuple(made)

    def spelling(self, label: str, value: object, types: Types) -> Attribute:
        """One attribute in its one spelling. Raises `DefinitionError`."""
        value = plain(value, f"attribute {label!r} of {self.name}")
        rule = self.spellings.get(label)
        return value if rule is None else rule.of(value, types)

    def arranged(self, operands: Sequence[object]) -> list[object]:
        """Operands in the order of the parameters, None for those that are left out at the end. Raises `DefinitionError`."""
        given = list(operands)
        if any(operand.several for operand in self.operands):
            return given
        given += [None] * (len(self.operands) - len(given))
        names = ", ".join(operand.name + "?" * operand.optional for operand in self.operands)
        if len(given) > len(self.operands):
            raise tl.DefinitionError(f"{self.name} takes {len(self.operands)} operands ({names}), not {len(given)}")
        for operand, one in zip(self.operands, given, strict=True):
            if one is None and not operand.optional:
                raise tl.DefinitionError(f"{self.name} needs the operand {operand.name!r}; it takes {names}")
        return given

    def __call__(self, operands: Sequence[tl.Tensor | None], attributes: Mapping[str, Attribute]) -> tuple[tl.Tensor, ...]:
        """The results for these tensors. Raises `DefinitionError` where the function does."""
        if any(operand.several for operand in self.operands):
            made = self.function(*operands, **attributes)
        else:
            made = self.function(**dict(zip((operand.name for operand in self.operands), operands, strict=True)), **attributes)
        return made if isinstance(made, tuple) else (made,)


def _rules(hint: object) -> tuple[Spelling, ...]:
    """The rule that an annotation carries, also one such as `Pair | None`."""
    parts = (hint, *typing.get_args(hint))
    return tuple(rule for part in parts for rule in getattr(part, "__metadata__", ()) if isinstance(rule, Spelling))


_DEEPEST: Final = 8


def plain(value: object, what: str, depth: int = _DEEPEST) -> Attribute:
    """A value that can stand in a node: numbers, words, dims, None, and tuples of these. Raises `DefinitionError`."""
    if value is None or isinstance(value, (bool, tl.Dim)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (list, tuple)) and depth:
        return tuple(plain(entry, what, depth - 1) for entry in value)
    try:
        return operators.index(value)  # type: ignore[arg-type]  # asked: NumPy's integers are ints
    except TypeError:
        pass
    if isinstance(value, numbers.Real):
        return float(value)
    raise tl.DefinitionError(f"{what} is made of numbers, words and tuples of them, not {value!r:.60}")
