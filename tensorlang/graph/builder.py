"""How graphs are made: value by value (`Builder`), or from another one, node by node (`Rewriter`).

Front doors, the parser and passes all make graphs here, so that each node has the types that its operator gives it, attributes in their
one spelling, and a name that nobody else has. What is wrong is refused where it is added, with its origin.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

import tensorlang as tl
from tensorlang.graph.arguments import require
from tensorlang.graph.definition import defined
from tensorlang.graph.ir import Array, Constant, Extent, Graph, Node, Origin, Type, Value
from tensorlang.graph.operators import find

RESERVED: Final = frozenset({*keyword.kwlist, "let", "constant", "inf", "nan"})
"""What a text of let-bindings means otherwise."""

_UNFIT: Final = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
"""What a definition raises that is handed something else than it is written for."""

LONGEST: Final = 190
"""Letters of a name; a longer one keeps so many less that there is room for a number."""

Operand: TypeAlias = "Value | Array | np.generic | bool | int | float | None"


class Builder:
    """A graph that grows: `b = Builder()`, `x = b.input((3, 4))`, `y = b("relu", x)`, `b.finish(y)`."""

    def __init__(self, name: str = "graph") -> None:
        self.name = identifier(name)
        self.origins: tuple[Origin, ...] = ()
        """Where nodes come from that are added without origins of their own."""
        self._inputs: list[Value] = []
        self._constants: list[Constant] = []
        self._nodes: list[Node] = []
        self._values: dict[str, Value] = {}
        self._numbers: dict[str, int] = {}
        self._makers: dict[str, Node] = {}
        self._arrays: dict[str, Array] = {}
        self._avoided: frozenset[str] = frozenset()

    def input(self, shape: Sequence[Extent], dtype: object = "float32", name: str = "x") -> Value:
        """An input, in the order of a call. Raises `DefinitionError` for extents or a type that are none."""
        require("name= of an input", "a string", name, str)
        like = tl.placeholder(shape, dtype)
        value = self._new(name, Type.of(like), given=True)
        self._inputs.append(value)
        return value

    def constant(self, array: object, name: str | None = None, origins: tuple[Origin, ...] = ()) -> Value:
        """An array, or a number, that is known; it is not copied, and must not change. Raises `GraphError` for anything else."""
        require("name= of a constant", "a string, or None", name, (str, type(None)))
        try:
            found = np.asarray(array)
            kind = Type.of(found)
        except (tl.DefinitionError, ValueError, TypeError) as error:
            raise tl.GraphError(f"the constant {array if name is None else name!r:.60}: {error}") from None
        value = self._new(name or "c", kind, given=name is not None)
        self._constants.append(Constant(value, found, origins))
        self._arrays[value.name] = found
        return value

    def scalar(self, number: object, dtype: str) -> Value:
        """A number as an operand without axes, of a type. Raises `GraphError` for what is no number of it."""
        wanted = tl.dtype(dtype)
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # what is too large for it is infinite, as in NumPy
                found = np.asarray(number).astype(wanted.numpy)
        except (ValueError, TypeError, OverflowError) as error:
            raise tl.GraphError(f"{number!r:.60} is no {wanted}: {error!s:.100}") from None
        return self.constant(found)

    def __call__(self, operator: str, *operands: Operand, **attributes: object) -> Value:
        """The only result of a node. Raises `GraphError`, also for an operator of several results."""
        made = self.node(operator, operands, attributes)
        if len(made) != 1:
            raise tl.GraphError(f"{operator} has {len(made)} results; use Builder.node")
        return made[0]

    def node(
        self,
        operator: str,
        operands: Sequence[Operand],
        attributes: Mapping[str, object] | None = None,
        name: str | Sequence[str] | None = None,
        origins: tuple[Origin, ...] | None = None,
    ) -> tuple[Value, ...]:
        """Add a node at the end, and give its results, named after it unless names are given.

        A number among the operands is of the type of the first tensor; arrays become constants. Raises `GraphError`.
        """
        entry = find(operator)
        for what, given in (("operands", operands), ("origins=", () if origins is None else origins)):
            require(f"{what} of {operator}", "a list or a tuple", given, (list, tuple))
        where = self.origins if origins is None else origins
        first = next((one for one in operands if isinstance(one, Value)), None)
        try:
            values = [self._operand(one, first) for one in entry.arranged(operands)]
            types = [None if value is None else value.type for value in values]
            spelled = entry.spelled(attributes or {}, types)
            results = defined(entry, types, spelled).types
        except tl.DefinitionError as error:
            raise tl.GraphError(f"{_call_of(operator, where)}: {error}") from None
        except _UNFIT as error:
            said = ", ".join(f"{word}={value!r:.60}" for word, value in (attributes or {}).items()) or "no attributes"
            raise tl.GraphError(
                f"{_call_of(operator, where)}: its operands and attributes do not fit together ({said}): {error}"
            ) from error
        every = (name,) if isinstance(name, str | None) else name
        if not isinstance(every, (list, tuple)) or not all(isinstance(one, str | None) for one in every):
            raise tl.GraphError(f"name= of {operator} is a string, or one for each result, not {name!r:.60}")
        names = [name or operator.rpartition(".")[2]] if isinstance(name, str | None) else list(name)
        labels = names if len(names) == len(results) else [names[0]] * len(results)
        made = tuple(self._new(label, kind, given=name is not None) for label, kind in zip(labels, results, strict=True))
        self._nodes.append(Node(operator, tuple(values), spelled, made, where))
        self._makers |= {value.name: self._nodes[-1] for value in made}
        return made

    def maker(self, value: Value) -> Node | None:
        """The node that makes a value; None for an input or a constant."""
        return self._makers.get(_known(value).name)

    def array(self, value: Value) -> Array | None:
        """The array of a constant; None for any other value."""
        return self._arrays.get(_known(value).name)

    def finish(self, *outputs: Value) -> Graph:
        """The graph of what was added, verified. Raises `GraphError`."""
        every = tuple(map(_known, outputs))
        return Graph(tuple(self._inputs), tuple(self._constants), tuple(self._nodes), every, self.name).verify()

    def _operand(self, one: Any, first: Value | None) -> Value | None:
        if one is None or isinstance(one, Value):
            if one is not None and self._values.get(one.name) is not one:
                raise tl.DefinitionError(f"the operand {one} belongs to another graph")
            return one
        if isinstance(one, np.ndarray | np.generic):
            return self.constant(one)
        if isinstance(one, bool | int | float):
            return self.scalar(one, first.dtype if first is not None else "float32")
        raise tl.DefinitionError(f"an operand is a value of the graph, an array, a number or None, not {one!r:.60}")

    def _new(self, name: str, kind: Type, *, given: bool) -> Value:
        stem = identifier(name)
        label, number = stem, self._numbers.get(stem, 0)
        while label in self._values or (not given and label in self._avoided):
            number += 1
            label = f"{stem}_{number}"
        self._numbers[stem] = number
        value = self._values[label] = Value(label, kind)
        return value


def _call_of(operator: str, where: tuple[Origin, ...]) -> str:
    """An operator, and where its call comes from."""
    return f"{operator} ({where[0]})" if where and str(where[0]) else operator


def _known(value: Value) -> Value:
    require("a builder", "values that it has made", value, Value)
    return value


def identifier(name: str) -> str:
    """A name of a model as one of a value or of a dim."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    word = word if word[:1].isalpha() or word[:1] == "_" else f"v{word}"
    word = f"{word}_" if word in RESERVED else word
    return word if len(word) <= LONGEST else word[: LONGEST - 40]


class Rewriter(Builder):
    """A graph made from another one: inputs and constants are there already, `rewriter[value]` is what became of a value.

    `copy` adds a node as it was; `replace` says what stands for its results. `finish` takes the outputs from what became of the old ones.
    What is added without a name gets one that the source does not have.
    """

    def __init__(self, source: Graph) -> None:
        super().__init__(source.name)
        self.source = source
        self._avoided = frozenset(source.values)
        self._became: dict[str, Value] = {}
        for value in source.inputs:
            self._became[value.name] = self._kept(value)
            self._inputs.append(self._became[value.name])
        for constant in source.constants:
            self._became[constant.value.name] = self._kept(constant.value)
            self._constants.append(constant)
            self._arrays[constant.value.name] = constant.array

    def __getitem__(self, value: Value) -> Value:
        """What became of a value of the source."""
        return self._became[value.name]

    def operands(self, node: Node) -> tuple[Value | None, ...]:
        """What became of the operands of a node."""
        return tuple(None if value is None else self[value] for value in node.inputs)

    def copy(self, node: Node) -> None:
        """Add a node of the source, reading what became of its operands."""
        names = [value.name for value in node.results]
        self.replace(node, *self.node(node.operator, self.operands(node), dict(node.attributes), names, node.origins))

    def replace(self, node: Node, *values: Value) -> None:
        """Let values stand for the results of a node. Raises `GraphError` where a type differs."""
        for old, new in zip(node.results, values, strict=True):
            self.become(old, new)

    def become(self, old: Value, new: Value) -> None:
        """Let a value of this graph stand for one of the source. Raises `GraphError` where the type differs."""
        if old.type != new.type:
            raise tl.GraphError(f"{new} cannot stand for {old}, which has another type")
        self._became[old.name] = new

    def finish(self, *outputs: Value) -> Graph:
        """The graph, verified; without outputs, with what became of those of the source. Raises `GraphError`."""
        return super().finish(*(outputs or [self[value] for value in self.source.outputs]))

    def _kept(self, value: Value) -> Value:
        self._values[value.name] = value
        return value
