"""The graph as data, in single static assignment: a value is defined once, before it is read, and never changes.

    graph    = Graph(inputs: value*, constants: constant*, nodes: node*, outputs: value*, name)
    node     = Node(operator, inputs: (value | None)*, attributes: (name, attribute)*, results: value*, origins: origin*)
    constant = Constant(value, array, origins: origin*)
    value    = Value(name, type)
    type     = Type(shape: (int | dim)*, dtype)
    origin   = Origin(file, line, scope)
    attribute = None | bool | int | float | str | dim | attribute*

A node reads values by themselves, not through numbers or pointers to nodes: who made a value and who reads it is asked of the graph. So a
node is a plain value that passes may keep, and nothing has to be patched when its neighbours change. An operand that is left out (a
linear layer without bias) is None at its place. All attributes are there, those with defaults too, in one spelling, so that equal nodes
are equal. Dims are `tl.dim`, with their ranges; equal names are one extent in the whole graph.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

import tensorlang as tl
from tensorlang.system import mapped
from tensorlang.system.lazy import cached_property

if TYPE_CHECKING:
    from tensorlang.graph.execution.compiled import CompiledGraph
    from tensorlang.graph.execution.tuning import TunedKernel
    from tensorlang.graph.passes.manager import Pass

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Extent: TypeAlias = "int | tl.Dim"
Attribute: TypeAlias = "bool | int | float | str | tl.Dim | tuple[Attribute, ...] | None"
Attributes: TypeAlias = tuple[tuple[str, Attribute], ...]

_UNNAMED: Final = "graph"


@dataclass(frozen=True, slots=True)
class Type:
    """What a value is: extents and the type of its elements. Prints as `float32[n, 4]`, a scalar as `float32[()]`.

    Two are equal (`==`) where dims have the same bounds too.
    """

    shape: tuple[Extent, ...]
    dtype: tl.DType

    @classmethod
    def of(cls, tensor: tl.Tensor | Array) -> Type:
        """The type of a tensor or an array."""
        return cls(tuple(tensor.shape), tl.dtype(tensor.dtype))

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def static(self) -> bool:
        """Are all extents numbers?"""
        return all(isinstance(extent, int) for extent in self.shape)

    @property
    def bounds(self) -> tuple[tuple[tuple[str, tuple[int, int]], ...], ...]:
        """The ranges of the dims of each extent: definitions and schedules depend on them, while dims of one name are equal without."""
        return tuple(tuple(extent.dims.items()) if isinstance(extent, tl.Dim) else () for extent in self.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Type) or (self.dtype, self.shape) != (other.dtype, other.shape):
            return False
        return self.static or self.bounds == other.bounds

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(repr, self.shape)) or '()'}]"


@dataclass(frozen=True, slots=True)
class Value:
    """What a graph names: an input, a constant, or a result of a node. Names are unique in a graph."""

    name: str
    type: Type

    @property
    def shape(self) -> tuple[Extent, ...]:
        """Its extents."""
        return self.type.shape

    @property
    def dtype(self) -> tl.DType:
        """The type of its elements."""
        return self.type.dtype

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node comes from: a line of a file, and the part of the model that it belongs to; what is not known is empty, or 0."""

    file: str = ""
    line: int = 0
    scope: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return " ".join(part for part in (place, f"in {self.scope}" if self.scope else "") if part)


@dataclass(frozen=True, slots=True)
class Node:
    """An operator applied: to values, with attributes. `origins` has one entry, or those of all the nodes that a pass made it of."""

    operator: str
    inputs: tuple[Value | None, ...]
    attributes: Attributes
    results: tuple[Value, ...]
    origins: tuple[Origin, ...] = ()

    def __getitem__(self, attribute: str) -> Attribute:
        """The value of an attribute. Raises `KeyError`."""
        return dict(self.attributes)[attribute]

    @property
    def read(self) -> tuple[Value, ...]:
        """The operands that are there."""
        return tuple(value for value in self.inputs if value is not None)

    @property
    def label(self) -> str:
        """How messages speak of it: operator, the name of its first result, where it comes from."""
        where = f" ({self.origins[0]})" if self.origins and str(self.origins[0]) else ""
        return f"{self.operator} {self.results[0].name if self.results else '?'}{where}"


@dataclass(frozen=True, eq=False)
class Constant:
    """A value that is known: weights, scalars. Equal where type and bits are; the array is never written to.

    `origins` are those of the nodes of which a pass computed it.
    """

    value: Value
    array: Array
    origins: tuple[Origin, ...] = ()

    @cached_property
    def digest(self) -> str:
        """The name of what it holds: 16 hexadecimal digits of a SHA-256."""
        found = hashlib.sha256(f"{self.value.type}".encode())
        if self.array.size:
            found.update(np.ascontiguousarray(self.array).reshape(-1).view(np.uint8).data)
        mapped.give_back(self.array)
        return found.hexdigest()[:16]


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A program of operators: `inputs` in the order of a call, `constants`, `nodes` after what they read, `outputs`.

    Two graphs are equal (`==`) where they compute the same outputs from the same inputs by the same operators, whatever the values are
    called, in which order independent nodes stand, and where these come from. A graph is never changed: passes return others.
    """

    inputs: tuple[Value, ...]
    constants: tuple[Constant, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Value, ...]
    name: str = _UNNAMED

    # Who made a value, and who reads it -------------------------------------------------------------------------------------

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """All values by name, in order of definition."""
        made = [value for node in self.nodes for value in node.results]
        return {value.name: value for value in (*self.inputs, *(constant.value for constant in self.constants), *made)}

    @cached_property
    def _producers(self) -> Mapping[str, Node]:
        return {value.name: node for node in self.nodes for value in node.results}

    @cached_property
    def _users(self) -> Mapping[str, tuple[Node, ...]]:
        found = defaultdict[str, list[Node]](list)
        for node in self.nodes:
            for name in dict.fromkeys(value.name for value in node.read):
                found[name].append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    @cached_property
    def _arrays(self) -> Mapping[str, Constant]:
        return {constant.value.name: constant for constant in self.constants}

    @cached_property
    def _results(self) -> frozenset[str]:
        return frozenset(value.name for value in self.outputs)

    @cached_property
    def by_operator(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes by their operators, each in order."""
        found = defaultdict[str, list[Node]](list)
        for node in self.nodes:
            found[node.operator].append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {node.results[0].name: place for place, node in enumerate(self.nodes)}

    def place(self, node: Node) -> int:
        """Where a node stands among the nodes. Raises `GraphError` for one of another graph."""
        if not isinstance(node, Node) or node.results[0].name not in self._places:
            raise tl.GraphError(f"{self.name} has no such node: {node!s:.60}")
        return self._places[node.results[0].name]

    @cached_property
    def live(self) -> tuple[Node, ...]:
        """The nodes that reach an output, in order."""
        wanted = set(self._results)
        found: list[Node] = []
        for node in reversed(self.nodes):
            if any(value.name in wanted for value in node.results):
                found.append(node)
                wanted.update(value.name for value in node.read)
        return tuple(reversed(found))

    def producer(self, value: Value) -> Node | None:
        """The node that makes a value; None for an input or a constant."""
        return self._producers.get(_name_of(value))

    def users(self, value: Value) -> tuple[Node, ...]:
        """The nodes that read a value, each once, in order."""
        return self._users.get(_name_of(value), ())

    def is_output(self, value: Value) -> bool:
        """Is it one of the results of the graph?"""
        return _name_of(value) in self._results

    def constant(self, value: Value) -> Array | None:
        """The array of a value that is constant, else None."""
        found = self._arrays.get(_name_of(value))
        return None if found is None else found.array

    @cached_property
    def dims(self) -> tuple[tl.Dim, ...]:
        """The extents known only at a call that the inputs show by themselves, in order."""
        extents = [extent for value in self.inputs for extent in value.shape if isinstance(extent, tl.Dim)]
        return tuple(dict.fromkeys(extent for extent in extents if repr(extent).isidentifier()))

    # What can be asked of it -----------------------------------------------------------------------------------------------

    @cached_property
    def _form(self) -> object:
        from tensorlang.graph.structure import form  # noqa: PLC0415 - it reads what stands here

        return form(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self._form == other._form

    def __hash__(self) -> int:
        return hash(self._form)

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {len(self.inputs)} inputs, {len(self.constants)} constants, {len(self.nodes)} nodes>"

    def __str__(self) -> str:
        return self.to_let()

    def to_let(self) -> str:
        """The graph as let-bindings, one node a line; `graph.from_let` reads them back."""
        from tensorlang.graph.printing import to_let  # noqa: PLC0415 - as above

        return to_let(self)

    def to_dot(self) -> str:
        """The graph in the language of Graphviz."""
        from tensorlang.graph.printing import to_dot  # noqa: PLC0415 - as above

        return to_dot(self)

    def table(self) -> str:
        """The nodes as a table: results, operator, operands, attributes, type, origin."""
        from tensorlang.graph.printing import table  # noqa: PLC0415 - as above

        return table(self)

    def verify(self) -> Graph:
        """The graph itself, if it is well formed. Raises `GraphError`, which names the node, its origin and what is wrong."""
        _ = self._well_formed
        return self

    @cached_property
    def _well_formed(self) -> bool:
        """True: a graph never changes, so it is looked through once. Raises `GraphError`."""
        from tensorlang.graph.verification import verify  # noqa: PLC0415 - as above

        verify(self)
        return True

    def run(self, *inputs: object) -> tuple[Array, ...]:
        """The outputs for these inputs, by the reference evaluator: slow, simple, and what kernels are held against.

        Raises `CallError` for inputs that do not fit, `GraphError` for a graph that is not well formed.
        """
        values = self.inspect(*inputs)
        return tuple(values[value.name] for value in self.outputs)

    def inspect(self, *inputs: object) -> dict[str, Array]:
        """All values of a run by name: inputs, constants, and the results of every node, in order. Raises as `run` does."""
        from tensorlang.graph.execution.reference import inspect  # noqa: PLC0415 - as above

        return inspect(self, inputs)

    def compile(
        self, target: str = "native", database: Any = None, threads: int | None = None, passes: Sequence[Pass] | Pass | None = None
    ) -> CompiledGraph:
        """The graph as kernels: a function from inputs to a tuple of outputs. `target`, `database` and `threads` are `kernels.compile`'s.

        `passes` run before, one or several; without, `passes.standard`, and with `()` none.
        Raises `GraphError` for a graph that is not well formed and for a pass that breaks it, `BuildError` where there is no kernel of a
        node.
        """
        from tensorlang.graph.execution.compiled import compiled  # noqa: PLC0415 - as above

        return compiled(self._prepared(passes), target, database, threads)

    def tune(
        self,
        log: Any,
        trials: int = 64,
        *,
        target: str = "native",
        threads: int | None = None,
        minutes: float | None = None,
        dims: Mapping[str, int] | None = None,
        passes: Sequence[Pass] | Pass | None = None,
        progress: Callable[[TunedKernel], object] | None = None,
    ) -> tuple[TunedKernel, ...]:
        """Tune the kernels that `compile` makes, into a log: `g.compile(database=log)` then runs the best of each.

        Kernels that are equal but for names and weights are tuned once, each with up to `trials` schedules, those first that are predicted
        to take most of the time; what takes less than a hundredth is left as it is. `minutes` bounds the whole run. `target`, `threads` and
        `passes` are to be those of `compile`; `dims` are the sizes at which a graph with dims is measured. `progress` is called with each
        kernel when it was tuned. Raises as `compile` does, `TuningError` for `minutes`, and `LogError` as `autotune.tune` does; what
        else keeps a kernel from being tuned is the `error` of its `TunedKernel`.
        """
        from tensorlang.graph.execution.tuning import tuned  # noqa: PLC0415 - as above

        return tuned(self._prepared(passes), log, trials, target, threads, minutes, dims or {}, progress)

    def _prepared(self, passes: Sequence[Pass] | Pass | None) -> Graph:
        """The graph after passes, as `compile` takes them."""
        from tensorlang.graph.passes import apply, standard  # noqa: PLC0415 - as above

        if not (passes is None or callable(passes) or isinstance(passes, Sequence)):
            raise tl.GraphError(f"passes= is a pass, or several, not {passes!r:.60}")
        run = (standard,) if passes is None else (passes,) if callable(passes) else tuple(passes)
        return apply(self.verify(), *run)


def dims_in(shapes: Iterable[Sequence[Extent]]) -> dict[str, tuple[int, int]]:
    """The dims that extents speak of, by name, with the least and the greatest size of each."""
    return {name: span for shape in shapes for extent in shape if isinstance(extent, tl.Dim) for name, span in extent.dims.items()}


def _name_of(value: object) -> str:
    if not isinstance(value, Value):
        raise tl.GraphError(f"a graph is asked about its values, as g.outputs[0], not about {value!r:.60}")
    return value.name
