"""An ONNX model as a graph: initializers become constants, dims without a number are dims by name.

What exporters write about shapes (`Shape`, `Gather`, `Concat`, ...) reads constants alone and is computed while it is read, so that
`Reshape` and its like know their attributes. A node is translated by a row of the table, by the function of the model or of its schema
that defines it, or not at all. Sequences, optionals and the bodies of `If`, `Loop` and `Scan` exist only while the model is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.bridges.onnx.call import Call, Coded, Held, ValueNeededError
from tensorlang.bridges.onnx.functions import body_of, defaults, domain_of, opsets_of, schema_of
from tensorlang.bridges.onnx.narrow import codes, is_narrow
from tensorlang.bridges.onnx.table import TRANSLATIONS
from tensorlang.bridges.packages import required
from tensorlang.errors import did_you_mean
from tensorlang.graph import Builder, Graph, Origin, Value
from tensorlang.graph.builder import identifier
from tensorlang.graph.passes import dead_code
from tensorlang.graph.passes.folding import evaluated, worth

LEAST_OPSET: Final = 7
"""Since then operands are repeated as NumPy does; what later opsets changed, rows read in both forms."""
DEEPEST: Final = 32
"""Functions and bodies inside each other."""
NODES: Final = 100_000
"""Nodes that a model may have, those of functions and of unrolled loops included."""
DECIDING: Final = 64
"""Elements of inputs whose values may decide shapes."""

_MALFORMED: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What Python and onnx raise for attributes and tensors that do not fit together."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A model that was read: its graph, and which of the graph's inputs and outputs the model's are (several for a sequence)."""

    graph: Graph
    inputs: Mapping[str, Held]
    outputs: tuple[Held, ...]


def graph_of(model: Any, values: Mapping[str, object] | None = None, *, partial: bool = False) -> Graph:
    """The graph of a `ModelProto`. Raises `GraphError`, naming the node, for what has no translation."""
    found = {str(name): np.asarray(value) for name, value in (values or {}).items()}
    made = read(model, found, partial=partial)
    return made.graph


def read(
    model: Any, values: Mapping[str, np.ndarray[Any, Any]], given: Mapping[str, Any] | None = None, *, partial: bool = False
) -> Imported:
    """A model, where inputs have these values; `given` are arrays whose types inputs have that say none. Raises `GraphError`."""
    onnx = required("onnx", "onnx")
    if not isinstance(model, onnx.ModelProto):
        raise tl.GraphError(f"from_onnx takes an onnx.ModelProto, as onnx.load gives it, not a {type(model).__name__}")
    opsets = opsets_of(model.opset_import)
    opset = opsets.get("", LEAST_OPSET if opsets else 0)
    if opset < LEAST_OPSET:
        raise tl.GraphError(f"the model is of opset {opset}, and at least {LEAST_OPSET} is needed; onnx.version_converter converts it")
    unknown = [name for name in values if name not in {entry.name for entry in model.graph.input}]
    if unknown:
        raise tl.GraphError(
            f"values= names {unknown[0]!r:.80}, which is no input{did_you_mean(unknown[0], [e.name for e in model.graph.input])}"
        )
    return _Import(onnx, model, values, given or {}, partial=partial).imported(_Scope({}, opsets))


@dataclass(slots=True)
class _Scope:
    """The names of a graph or of a function, inside another graph whose names it knows, or with attributes of its own."""

    held: dict[str, Held]
    opsets: Mapping[str, int]
    outer: _Scope | None = None
    attributes: Mapping[str, Any] | None = None
    depth: int = 0

    def find(self, name: str) -> tuple[bool, Held]:
        """Is there such a name, and what does it stand for?"""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.held:
                return True, scope.held[name]
            scope = scope.outer
        return False, None


class _Folding(Builder):
    """A graph that grows, in which what reads constants alone is computed when it is added."""

    def node(self, *arguments: Any, **options: Any) -> tuple[Value, ...]:
        """The results of a node, constants where they are known. Raises as a `Builder` does."""
        made = super().node(*arguments, **options)
        node = self.maker(made[0])
        assert node is not None
        arrays = [None if value is None else self.array(value) for value in node.inputs]
        known = [array for array in arrays if array is not None]
        if len(known) < len(node.read) or not worth(node, known):
            return made
        return tuple(self.constant(array, value.name) for array, value in zip(evaluated(node, arrays), made, strict=True))


@dataclass
class _Import:
    """A model that is read, node by node."""

    onnx: Any
    model: Any
    values: Mapping[str, np.ndarray[Any, Any]]
    given: Mapping[str, Any]
    partial: bool = field(kw_only=True)

    def __post_init__(self) -> None:
        self.builder = _Folding(self.model.graph.name or "model")
        self.functions = {(domain_of(entry.domain), entry.name): entry for entry in self.model.functions}
        self.inputs: dict[str, str] = {}
        self.problems: list[str] = []
        self.nodes = 0

    def imported(self, scope: _Scope) -> Imported:
        """All of it."""
        proto = self.model.graph
        self.initializers(proto, scope)
        inputs: dict[str, Held] = {}
        for entry in proto.input:
            if entry.name in scope.held:
                continue
            if entry.name in self.values:
                scope.held[entry.name] = self.constant(self.values[entry.name], entry.name)
            else:
                inputs[entry.name] = scope.held[entry.name] = self.input(entry)
        self.read(proto.node, scope)
        if self.problems:
            listed = "\n".join(f"  {problem}" for problem in self.problems)
            raise tl.GraphError(f"{len(self.problems)} nodes of the model have no translation:\n{listed}")
        outputs = []
        for entry in proto.output:
            found, value = scope.find(entry.name)
            if not found:
                raise tl.GraphError(f"the output {entry.name!r} of the model is made by no node")
            outputs.append(value)
        flat = [one for held in outputs for one in _flat(held)]
        return Imported(dead_code(self.builder.finish(*flat)), inputs, tuple(outputs))

    def initializers(self, proto: Any, scope: _Scope) -> None:
        """The constants of a graph."""
        for tensor in proto.initializer:
            try:
                scope.held[tensor.name] = self.constant(self.onnx.numpy_helper.to_array(tensor), tensor.name)
            except _MALFORMED as error:
                raise tl.GraphError(f"the initializer {tensor.name!r}: {error}") from None
        for tensor in proto.sparse_initializer:
            raise tl.GraphError(f"the initializer {tensor.values.name!r} is sparse, and has no translation")

    def input(self, entry: Any) -> Held:
        """An input of the user."""
        try:
            return self.typed(entry.name, entry.type, self.given.get(entry.name))
        except (tl.DefinitionError, *_MALFORMED) as error:
            raise tl.GraphError(f"the input {entry.name!r} of the model: {error}") from None

    def typed(self, name: str, kind: Any, like: Any) -> Held:
        """An input of a type, which may be that of an array or a list of them."""
        if kind.HasField("optional_type"):
            if name not in self.given:
                raise ValueNeededError(f"the input {name!r} is optional: whether it is there decides what is computed", _NONE, (name,))
            return None if like is None else self.typed(name, kind.optional_type.elem_type, like)
        if kind.HasField("sequence_type"):
            if like is None:
                raise ValueNeededError(f"the input {name!r} is a sequence: its length decides what is computed", _NONE, (name,))
            return [self.tensor(name, one.shape, one.dtype) for one in like]
        tensor = kind.tensor_type
        if not kind.HasField("tensor_type"):
            raise tl.GraphError(f"the input {name!r} is no tensor")
        if like is not None:
            return self.tensor(name, like.shape, like.dtype)
        if not tensor.HasField("shape"):
            raise ValueNeededError(f"the input {name!r} is no tensor of a known number of axes", _NONE, (name,))
        shape = [
            dim.dim_value if dim.HasField("dim_value") else tl.dim(identifier(dim.dim_param or f"{name}_{axis}"))
            for axis, dim in enumerate(tensor.shape.dim)
        ]
        return self.tensor(name, shape, self.onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))

    def tensor(self, name: str, shape: Sequence[Any], dtype: object) -> Held:
        """A tensor among the inputs."""
        narrow = is_narrow(dtype)
        made = self.builder.input(shape, "uint8" if narrow else dtype, name)
        self.inputs[made.name] = name
        return Coded(made, dtype) if narrow else made

    def constant(self, array: np.ndarray[Any, Any], name: str) -> Held:
        """An array that is known."""
        if is_narrow(array.dtype):
            return Coded(self.builder.constant(codes(array), name), array.dtype)
        return self.builder.constant(array, name)

    def read(self, nodes: Any, scope: _Scope) -> None:
        """Translate nodes, one after the other."""
        for node in nodes:
            self.nodes += 1
            if self.nodes > NODES:
                raise tl.GraphError(f"the model has more than {NODES} nodes, those of functions and unrolled loops included")
            label = f"{node.op_type} {node.name or ', '.join(node.output)}"
            self.builder.origins = (Origin(scope=label),)
            try:
                self.node(node, scope, label)
            except tl.GraphError as error:
                if not self.partial or isinstance(error, ValueNeededError):
                    raise
                self.problems.append(str(error))
                scope.held |= dict.fromkeys(node.output, _UNKNOWN)

    def node(self, node: Any, scope: _Scope, label: str) -> None:
        """Translate a node."""
        operands: list[Held] = []
        for name in node.input:
            found, value = scope.find(name) if name else (True, None)
            if not found:
                raise tl.GraphError(f"{label}: the operand {name!r} is made by no node before")
            operands.append(value)
        domain = domain_of(node.domain)
        opset = scope.opsets.get(domain, 1)
        schema = schema_of(self.onnx, domain, node.op_type, opset)
        unknown = any(value is _UNKNOWN for value in operands)
        if unknown and (
            self.has(domain, node.op_type) or (schema is not None and (schema.has_function or schema.has_context_dependent_function))
        ):
            scope.held |= dict.fromkeys(node.output, _UNKNOWN)
            return
        try:
            results = self.results(node, domain, opset, schema, operands, scope, label)
        except ValueNeededError as error:
            raise self.needed(error, label) from None
        except (tl.TensorlangError, *_MALFORMED) as error:
            text = str(error) if isinstance(error, tl.TensorlangError) else f"its operands or attributes do not fit: {error!r:.200}"
            raise tl.GraphError(text if text.startswith(label) else f"{label}: {text}") from None
        unmade = [name for name in list(node.output)[len(results) :] if name]
        if unmade:
            raise tl.GraphError(f"{label}: the result {unmade[0]!r} has no translation")
        scope.held.update((name, value) for name, value in zip(node.output, results, strict=False) if name)

    def has(self, domain: str, name: str) -> bool:
        """Has an operator a row, or a function of the model?"""
        return (domain, name) in self.functions or _key(domain, name) in TRANSLATIONS

    def results(self, node: Any, domain: str, opset: int, schema: Any, operands: list[Held], scope: _Scope, label: str) -> Sequence[Held]:
        """What a node makes: by the model's function, by a row, or by the function of the schema."""
        attributes = self.attributes(node, scope, schema)
        own = self.functions.get((domain, node.op_type))
        if own is not None:
            return self.function(own, attributes, operands, scope, node.output)
        translation = TRANSLATIONS.get(_key(domain, node.op_type))
        refusal: tl.TensorlangError | None = None
        if translation is not None:
            words = {name: self.plain(entry) for name, entry in (defaults(self.onnx, schema) | attributes).items()}
            inline = lambda body, given: self.body(body, given, scope)  # noqa: E731 - a closure on the scope
            call = Call(self.builder, node.op_type, opset, operands, words, tuple(node.output), inline)
            try:
                made = translation(call)
                return made if isinstance(made, tuple) else (made,)
            except ValueNeededError:
                raise
            except tl.TensorlangError as error:
                refusal = error
        spelled = self.onnx.NodeProto()
        spelled.CopyFrom(node)
        del spelled.attribute[:]
        spelled.attribute.extend(attributes.values())
        body = body_of(self.onnx, schema, spelled, operands, opset)
        if body is not None:
            try:
                return self.function(body, defaults(self.onnx, schema) | attributes, operands, scope, node.output)
            except tl.TensorlangError:
                if refusal is None:
                    raise
        if refusal is not None:
            raise refusal
        raise tl.GraphError(f"{label}: {node.domain + '.' * bool(node.domain)}{node.op_type} has no translation{self.near(node.op_type)}")

    def needed(self, error: ValueNeededError, label: str) -> tl.GraphError:
        """A refusal for want of a value: one that names the inputs which make it, where they are few and small."""
        text = f"{error}" if f"{error}".startswith(label) else f"{label}: {error}"
        if error.inputs:
            return error
        roots, seen, waiting = [], set(), [error.value]
        while waiting:
            value = waiting.pop()
            if value.name in seen:
                continue
            seen.add(value.name)
            node = self.builder.maker(value)
            if node is not None:
                waiting += node.read
            elif self.builder.array(value) is None:
                roots.append(value)
        sizes = [int(np.prod(value.shape)) if value.type.static else DECIDING + 1 for value in roots]
        names = tuple(dict.fromkeys(self.inputs[value.name] for value in roots))
        if not names or sum(sizes) > DECIDING:
            return tl.GraphError(text)
        return ValueNeededError(f"{text}; from_onnx(model, values={{{names[0]!r}: ...}}) gives it", error.value, names)

    def attributes(self, node: Any, scope: _Scope, schema: Any) -> dict[str, Any]:
        """The attributes of a node as messages; those that name one of the function around it, replaced by that."""
        made: dict[str, Any] = {}
        for entry in node.attribute:
            found = entry
            if entry.ref_attr_name:
                around = (scope.attributes or {}).get(entry.ref_attr_name)
                if around is None:
                    continue
                found = self.onnx.AttributeProto()
                found.CopyFrom(around)
                found.name = entry.name
            wanted = schema.attributes.get(entry.name) if schema is not None else None
            if wanted is not None and int(wanted.type.value) != found.type:
                raise tl.GraphError(f"the attribute {entry.name!r} is of another type than {wanted.type.name}")
            made[entry.name] = found
        return made

    def plain(self, entry: Any) -> Any:
        """An attribute as Python: words for bytes, arrays for tensors."""
        value = self.onnx.helper.get_attribute_value(entry)
        if isinstance(value, self.onnx.TensorProto):
            return self.onnx.numpy_helper.to_array(value)
        if entry.name in ("to", "dtype", "output_dtype") and isinstance(value, int):
            return self.onnx.helper.tensor_dtype_to_np_dtype(value) if value else None
        if isinstance(value, list | tuple) or hasattr(value, "extend"):
            return tuple(one.decode() if isinstance(one, bytes) else one for one in value)
        return value.decode() if isinstance(value, bytes) else value

    def function(
        self, proto: Any, attributes: Mapping[str, Any], operands: Sequence[Held], scope: _Scope, wanted: Sequence[str]
    ) -> list[Held]:
        """A function, its nodes read in place of the one that calls it."""
        if scope.depth >= DEEPEST:
            raise tl.GraphError(f"functions stand more than {DEEPEST} deep in each other")
        if len(operands) > len(proto.input):
            raise tl.GraphError(f"the function {proto.name} takes {len(proto.input)} operands, not {len(operands)}")
        held: dict[str, Held] = dict.fromkeys(proto.input)
        held |= dict(zip(proto.input, operands, strict=False))
        given = {entry.name: entry for entry in proto.attribute_proto} | dict(attributes)
        opsets = {"": self.onnx.defs.onnx_opset_version()} | dict(scope.opsets) | dict(opsets_of(proto.opset_import))
        inner = _Scope(held, opsets, None, given, scope.depth + 1)
        asked = [inside if outside else "" for inside, outside in zip(proto.output, wanted, strict=False)]
        return self.inside(proto.node, asked, inner)

    def body(self, proto: Any, operands: Sequence[Held], scope: _Scope) -> list[Held]:
        """A graph inside a node, for these operands."""
        if scope.depth >= DEEPEST:
            raise tl.GraphError(f"bodies stand more than {DEEPEST} deep in each other")
        if len(operands) != len(proto.input):
            raise tl.GraphError(f"the body {proto.name!r} takes {len(proto.input)} operands, not {len(operands)}")
        held = dict(zip((entry.name for entry in proto.input), operands, strict=True))
        inner = _Scope(held, scope.opsets, scope, scope.attributes, scope.depth + 1)
        self.initializers(proto, inner)
        return self.inside(proto.node, [entry.name for entry in proto.output], inner)

    def inside(self, nodes: Any, outputs: Sequence[str], scope: _Scope) -> list[Held]:
        """Read nodes, and give what these names stand for then."""
        around, listing = self.builder.origins, self.partial
        self.partial = False  # what is listed is the node of the model
        try:
            self.read(nodes, scope)
        finally:
            self.builder.origins, self.partial = around, listing
        results = []
        for name in outputs:
            found, value = scope.find(name) if name else (False, None)
            if name and not found:
                raise tl.GraphError(f"the result {name!r} of a function or a body is made by no node")
            results.append(value)
        return results

    @staticmethod
    def near(name: str) -> str:
        """The nearest operators that have a translation."""
        return did_you_mean(name, [key.rpartition(".")[2] for key in TRANSLATIONS]) or "; tensorlang.bridges.onnx.table lists what has"


def _key(domain: str, name: str) -> str:
    return f"{domain}.{name}" if domain else name


def _flat(held: Held) -> list[Value]:
    if held is None:
        raise tl.GraphError("an output of the model is an empty optional, which no graph has")
    if isinstance(held, list):
        return [one for entry in held for one in _flat(entry)]
    return [held.value if isinstance(held, Coded) else held]


_NONE: Final[Any] = None
_UNKNOWN: Final[Any] = object()
"""What a name stands for whose node has no translation, where all of these are listed."""
