"""An ONNX model as a graph: initializers become constants, dims without a number are dims by name.

What exporters write about shapes (`Shape`, `Gather`, `Concat`, ...) reads constants alone and is computed while it is read, so that
`Reshape` and its like know their attributes. A node is translated by a row of the table, by the function of the model or of its schema
that defines it, or not at all. Sequences, optionals and the bodies of `If`, `Loop` and `Scan` exist only while the model is read.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.bridges.onnx import extents
from tensorlang.bridges.onnx.call import Call, Held, ValueNeededError
from tensorlang.bridges.onnx.functions import body_of, defaults, domain_of, opsets_of, schema_of
from tensorlang.bridges.onnx.inputs import MALFORMED, Inputs, element_type
from tensorlang.bridges.onnx.outputs import require_declared
from tensorlang.bridges.onnx.scope import Folding, Imported, NameScope, flat
from tensorlang.bridges.onnx.table import TRANSLATIONS
from tensorlang.bridges.packages import required
from tensorlang.bridges.tracked_arguments import TrackedArguments
from tensorlang.errors import did_you_mean
from tensorlang.graph import Graph, Origin
from tensorlang.graph.passes import dead_code, with_indices_inside

LEAST_OPSET: Final = 7
"""Since then operands are repeated as NumPy does; what later opsets changed, rows read in both forms. Operators of older opsets are read
where they are those of this one."""
DEEPEST: Final = 32
"""Functions and bodies inside each other."""
_MEANINGLESS: Final = frozenset({
    "hidden_size", "kernel_shape", "dtype", "type", "seed", "ratio", "momentum", "sorted", "storage_order", "nearest_mode", "cubic_coeff_a",
    "extrapolation_value", "exclude_outside", "saturate", "round_mode", "then_branch", "else_branch", "weights",
})  # fmt: skip
"""Attributes that a row may leave unread: they say what operands say too, or something only in a mode that is another one here."""
NODES: Final = 100_000
"""Nodes that a model may have, those of functions and of unrolled loops included."""


def graph_of(model: Any, values: Mapping[str, object] | None = None, *, partial: bool = False) -> Graph:
    """The graph of a `ModelProto`. Raises `GraphError`, naming the node, for what has no translation."""
    if not isinstance(values, Mapping | None):
        raise tl.GraphError(f"values= of from_onnx is a mapping from names of inputs to arrays, not {values!r:.60}")
    found = {str(name): np.asarray(value) for name, value in (values or {}).items()}
    made = read(model, found, partial=partial)
    return made.graph


def read(
    model: Any, values: Mapping[str, np.ndarray[Any, Any]], given: Mapping[str, Any] | None = None, *, partial: bool = False
) -> Imported:
    """A model, where inputs have these values; `given` are arrays whose types inputs have that say none. Raises `GraphError`."""
    onnx = required("onnx", "onnx")
    require_model(onnx, model, "from_onnx")
    try:
        return _checked(onnx, model, values, given or {}, partial=partial)
    except MALFORMED as error:
        raise tl.GraphError(f"the model is not well formed: {error!r:.200}") from None
    except RecursionError:
        raise tl.GraphError("the model is too deep to be read") from None


def require_model(onnx: Any, model: Any, what: str) -> None:
    """Raise `GraphError` for what is no model."""
    if not isinstance(model, onnx.ModelProto):
        raise tl.GraphError(f"{what} takes an onnx.ModelProto, as onnx.load gives it, not a {type(model).__name__}")


def _checked(onnx: Any, model: Any, values: Mapping[str, np.ndarray[Any, Any]], given: Mapping[str, Any], *, partial: bool) -> Imported:
    """A model whose inputs and opsets are what they have to be."""
    opsets = opsets_of(model.opset_import)
    if not opsets:
        raise tl.GraphError("the model does not say of which opset it is")
    newest = onnx.defs.onnx_opset_version()
    if opsets.get("", newest) > newest:
        raise tl.GraphError(
            f"the model is of opset {opsets['']}, and onnx {onnx.__version__} has those up to {newest}; a newer onnx reads it"
        )
    unknown = [name for name in values if name not in {entry.name for entry in model.graph.input}]
    if unknown:
        raise tl.GraphError(
            f"values= names {unknown[0]!r:.80}, which is no input{did_you_mean(unknown[0], [e.name for e in model.graph.input])}"
        )
    return _Import(onnx, model, values, given, partial=partial).imported(NameScope({}, opsets))


@dataclass
class _Import:
    """A model that is read, node by node."""

    onnx: Any
    model: Any
    values: Mapping[str, np.ndarray[Any, Any]]
    given: Mapping[str, Any]
    partial: bool = field(kw_only=True)

    def __post_init__(self) -> None:
        self.builder = Folding(self.model.graph.name or "model")
        self.source = Inputs(self.onnx, self.builder, self.given)
        self.functions = {(domain_of(entry.domain), entry.name): entry for entry in self.model.functions}
        self.problems: list[str] = []
        self.nodes = 0

    def imported(self, scope: NameScope) -> Imported:
        """All of it."""
        proto = self.model.graph
        self.initializers(proto, scope)
        inputs: dict[str, Held] = {}
        for entry in proto.input:
            if entry.name in scope.held:
                continue
            if entry.name in self.values:
                scope.held[entry.name] = self.source.known(entry, self.values[entry.name])
            else:
                inputs[entry.name] = scope.held[entry.name] = self.source.input(entry)
        self.read(proto.node, scope)
        if self.problems:
            listed = "\n".join(f"  {problem}" for problem in self.problems)
            raise tl.GraphError(f"{len(self.problems)} nodes of the model have no translation:\n{listed}")
        outputs = []
        for entry in proto.output:
            found, value = scope.find(entry.name)
            if not found:
                raise tl.GraphError(f"the output {entry.name!r} of the model is made by no node")
            require_declared(self.onnx, entry, value)
            outputs.append(value)
        tensors = [one for held in outputs for one in flat(held)]
        return Imported(with_indices_inside(dead_code(self.builder.finish(*tensors))), inputs, tuple(outputs))

    def initializers(self, proto: Any, scope: NameScope) -> None:
        """The constants of a graph."""
        for tensor in proto.initializer:
            try:
                scope.held[tensor.name] = self.source.constant(self.source.array(tensor), tensor.name)
            except MALFORMED as error:
                raise tl.GraphError(f"the initializer {tensor.name!r}: {error}") from None
        for tensor in proto.sparse_initializer:
            raise tl.GraphError(f"the initializer {tensor.values.name!r} is sparse, and has no translation")

    def read(self, nodes: Any, scope: NameScope) -> None:
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
                if not self.partial:
                    raise
                self.problems.append(str(error))
                scope.held |= dict.fromkeys(node.output, _UNKNOWN)

    def node(self, node: Any, scope: NameScope, label: str) -> None:
        """Translate a node."""
        made = [name for name in node.output if name]
        twice = next((name for place, name in enumerate(made) if name in scope.held or name in made[:place]), None)
        if twice is not None:
            raise tl.GraphError(f"{label}: {twice!r} stands for something already, and a name has one meaning; name the result otherwise")
        operands: list[Held] = []
        for name in node.input:
            found, value = scope.find(name) if name else (True, None)
            if not found:
                later = any(name in other.output for other in self.model.graph.node)
                why = "; a later node makes it: nodes stand behind those whose results they read, in no cycle" if later else ""
                raise tl.GraphError(f"{label}: the operand {name!r} is made by no node before{why}")
            operands.append(value)
        domain = domain_of(node.domain)
        opset = scope.opsets.get(domain, self.onnx.defs.onnx_opset_version() if not domain else 1)
        schema = schema_of(self.onnx, domain, node.op_type, opset)
        if not domain and opset < LEAST_OPSET and (domain, node.op_type) not in self.functions:
            then = schema_of(self.onnx, domain, node.op_type, LEAST_OPSET)
            if schema is None or then is None or schema.since_version != then.since_version:
                wanted = f"at least {LEAST_OPSET} is needed; onnx.version_converter converts the model"
                raise tl.GraphError(f"{label}: {node.op_type} of opset {opset} has no translation: {wanted}")
        unknown = any(value is _UNKNOWN for value in operands)
        if unknown and (
            self.has(domain, node.op_type) or (schema is not None and (schema.has_function or schema.has_context_dependent_function))
        ):
            scope.held |= dict.fromkeys(node.output, _UNKNOWN)
            return
        try:
            results = self.results(node, domain, opset, schema, operands, scope, label)
        except ValueNeededError as error:
            raise self.source.needed(error, label) from None
        except (tl.TensorlangError, *MALFORMED) as error:
            text = str(error) if isinstance(error, tl.TensorlangError) else f"its operands or attributes do not fit: {error!r:.200}"
            raise tl.GraphError(text if text.startswith(label) else f"{label}: {text}") from None
        unmade = [name for name in list(node.output)[len(results) :] if name]
        if unmade:
            raise tl.GraphError(f"{label}: the result {unmade[0]!r} has no translation")
        scope.held.update((name, value) for name, value in zip(node.output, results, strict=False) if name)

    def has(self, domain: str, name: str) -> bool:
        """Has an operator a row, or a function of the model?"""
        return (domain, name) in self.functions or _key(domain, name) in TRANSLATIONS

    def results(
        self, node: Any, domain: str, opset: int, schema: Any, operands: list[Held], scope: NameScope, label: str
    ) -> Sequence[Held]:
        """What a node makes: by the model's function, by a row, or by the function of the schema."""
        attributes = self.attributes(node, scope, schema)
        own = self.functions.get((domain, node.op_type))
        if own is not None:
            return self.function(own, attributes, operands, scope, node.output)
        shaped = None if domain else extents.row(node.op_type, operands)
        translation = shaped or TRANSLATIONS.get(_key(domain, node.op_type))
        refusal: tl.TensorlangError | None = None
        if translation is not None:
            usual = defaults(self.onnx, schema)
            words = TrackedArguments({name: self.plain(entry) for name, entry in (usual | attributes).items()})
            inline = lambda body, given: self.body(body, given, scope)  # noqa: E731 - a closure on the scope
            call = Call(self.builder, node.op_type, opset, operands, words, tuple(node.output), inline)
            try:
                made = translation(call)
                for name, entry in attributes.items() if shaped is None else ():  # extents have one axis
                    said = name not in usual or entry.SerializeToString() != usual[name].SerializeToString()
                    if said and name not in words.asked and name not in _MEANINGLESS:
                        raise tl.GraphError(f"the attribute {name!r} has no translation")
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

    def attributes(self, node: Any, scope: NameScope, schema: Any) -> dict[str, Any]:
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
            return self.source.array(value)
        if entry.name in ("to", "dtype", "output_dtype") and isinstance(value, int):
            return element_type(self.onnx, value, f"the attribute {entry.name!r}") if value else None
        if isinstance(value, list | tuple) or hasattr(value, "extend"):
            return tuple(one.decode() if isinstance(one, bytes) else one for one in value)
        return value.decode() if isinstance(value, bytes) else value

    def function(
        self, proto: Any, attributes: Mapping[str, Any], operands: Sequence[Held], scope: NameScope, wanted: Sequence[str]
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
        inner = NameScope(held, opsets, None, given, scope.depth + 1)
        asked = [inside if outside else "" for inside, outside in zip(proto.output, wanted, strict=False)]
        return self.inside(proto.node, asked, inner)

    def body(self, proto: Any, operands: Sequence[Held], scope: NameScope) -> list[Held]:
        """A graph inside a node, for these operands."""
        if scope.depth >= DEEPEST:
            raise tl.GraphError(f"bodies stand more than {DEEPEST} deep in each other")
        if len(operands) != len(proto.input):
            raise tl.GraphError(f"the body {proto.name!r} takes {len(proto.input)} operands, not {len(operands)}")
        held = dict(zip((entry.name for entry in proto.input), operands, strict=True))
        inner = NameScope(held, scope.opsets, scope, scope.attributes, scope.depth + 1)
        self.initializers(proto, inner)
        return self.inside(proto.node, [entry.name for entry in proto.output], inner)

    def inside(self, nodes: Any, outputs: Sequence[str], scope: NameScope) -> list[Held]:
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
        """Operators that have a translation and are spelled alike: what a model means is not what its name is somewhat like."""
        alike = difflib.get_close_matches(name, {key.rpartition(".")[2] for key in TRANSLATIONS}, n=2, cutoff=0.85)
        return did_you_mean(name, alike) if alike else "; tensorlang.bridges.onnx.table lists what has"


def _key(domain: str, name: str) -> str:
    return f"{domain}.{name}" if domain else name


_UNKNOWN: Final[Any] = object()
"""What a name stands for whose node has no translation, where all of these are listed."""
