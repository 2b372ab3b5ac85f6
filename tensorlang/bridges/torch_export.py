"""A `torch.export.ExportedProgram` as a graph: parameters and buffers become constants, symbolic sizes dims with their ranges.

    placeholders     inputs of the user, in order; what the signature calls a parameter, a buffer or a constant, if anything reads it
    calls            by the table in `aten`, with arguments by the names of torch's schema
    sizes            extents: what torch computes with them is read from what it knows of each result
    origins          the last line of the stack trace outside of torch itself, and the module

`torch.export` writes `aten.linear` and `aten.conv2d`; its core decomposition `addmm` and `convolution`. Both come to the same operators.
A program that writes into tensors is made functional first, by torch.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.bridges.aten import TRANSLATIONS, Call
from tensorlang.bridges.packages import required
from tensorlang.errors import did_you_mean
from tensorlang.graph import Builder, Graph, Origin, Type, Value
from tensorlang.graph.ir import Extent
from tensorlang.graph.passes import dead_code

_FRAME: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_ROUNDS: Final = 4
"""How often torch is asked to take calls apart: what they are made of may have no translation either."""
_CHECKS: Final = ("aten._assert_tensor_metadata", "aten._assert_scalar", "aten._assert_async", "aten.sym_constrain_range_for_size")
"""Calls that compute nothing."""


def graph_of(program: Any) -> Graph:
    """The graph of an exported program. Raises `GraphError`, naming node and origin, for what has no translation."""
    torch = required("torch", "torch")
    if not isinstance(program, torch.export.ExportedProgram):
        raise tl.GraphError(f"from_torch takes what torch.export.export gives, not a {type(program).__name__}")
    program = _functional(program, torch)
    changed = [*program.graph_signature.buffers_to_mutate.values(), *program.graph_signature.user_inputs_to_mutate.values()]
    if changed:
        raise tl.GraphError(f"the program changes {', '.join(changed)} at each call; export the model after model.eval()")
    return _Import(program, torch).graph()


def _functional(program: Any, torch: Any) -> Any:
    """The program without writes, and without calls that have no translation where torch knows what they are made of."""
    for _ in range(_ROUNDS):
        targets = {node.target for node in program.graph.nodes if node.op == "call_function" and hasattr(node.target, "_schema")}
        unknown = {target for target in targets if _packet(target) not in {*TRANSLATIONS, *_CHECKS}}
        known = torch.export.default_decompositions() if unknown else {}
        parts = {target: known[target] for target in unknown if target in known}
        if not parts and not any(target._schema.is_mutable for target in targets):  # noqa: SLF001 - torch shows it nowhere else
            break
        program = program.run_decompositions(parts)
    return program


def _packet(target: Any) -> str:
    """The name of an operator without its overload, as `aten.linear`."""
    return str(getattr(target, "overloadpacket", target))


class _Import:
    """A program that is read, node by node."""

    def __init__(self, program: Any, torch: Any) -> None:
        self.program, self.torch = program, torch
        self.builder = Builder(_word(type(program.graph_module).__name__))
        self.became: dict[str, Any] = {}
        self.dims: dict[str, tl.Dim] = {}
        for symbol, bounds in program.range_constraints.items():
            least, most = (int(bound) if str(bound).isdigit() else None for bound in (bounds.lower, bounds.upper))
            self.dims[str(symbol)] = tl.dim(_word(str(symbol)), least or 0, *(() if most is None or most >= 1 << 48 else (most,)))

    def graph(self) -> Graph:
        """All of it."""
        placeholders = [node for node in self.program.graph.nodes if node.op == "placeholder"]
        outputs: list[Any] = []
        for spec, node in zip(self.program.graph_signature.input_specs, placeholders, strict=True):
            self.placeholder(spec, node)
        for node in self.program.graph.nodes:
            if node.op == "call_function":
                self.became[node.name] = self.call(node)
            elif node.op == "output":
                outputs = [self.became[entry.name] for entry in node.args[0] if entry is not None]
        for value in outputs:
            if not isinstance(value, Value):
                raise tl.GraphError(f"an output of the program is {value!r:.60}, and not a tensor")
        return dead_code(self.builder.finish(*outputs))

    def placeholder(self, spec: Any, node: Any) -> None:
        """An input, or a tensor that the program holds."""
        kind = spec.kind.name
        if kind == "USER_INPUT":
            known = node.meta.get("val")
            if isinstance(known, self.torch.Tensor):
                found = self.type(known)
                self.became[node.name] = self.builder.input(found.shape, found.dtype, spec.arg.name)
            elif isinstance(known, self.torch.SymInt):
                raise tl.GraphError(f"the input {node.name} is a number; a graph takes tensors")
        elif node.users:
            held = self.program.constants if spec.target in self.program.constants else self.program.state_dict
            if not isinstance(held.get(spec.target), self.torch.Tensor):
                raise tl.GraphError(f"the program holds {spec.target!r} ({kind.lower()}), which is no tensor")
            self.became[node.name] = self.builder.constant(self.array(held[spec.target]), _word(spec.target))

    def call(self, node: Any) -> Any:
        """What a node of torch becomes: a value, several, or an extent."""
        if node.target is operator.getitem:
            several, place = self.argument(node.args[0]), node.args[1]
            if several[place] is None:
                raise tl.GraphError(f"{node.name}{_at(node)}: result {place} of {node.args[0].target} has no translation")
            return several[place]
        known = node.meta.get("val")
        if isinstance(known, self.torch.SymInt | int) and not isinstance(known, bool):
            return self.extent(known)
        name = _packet(node.target)
        if name in _CHECKS:
            return None
        translation = TRANSLATIONS.get(name)
        if translation is None:
            near = did_you_mean(name, TRANSLATIONS) or "; tensorlang.graph.operators() lists what there is"
            raise tl.GraphError(f"{node.name}{_at(node)}: {name} has no translation{near}")
        self.builder.origins = (_origin(node),)
        results = known if isinstance(known, tuple | list) else (known,)
        types = [self.type(one) if isinstance(one, self.torch.Tensor) else None for one in results]
        try:
            made = translation(Call(self.builder, name, self.arguments(node), types, _name(node)))
        except tl.TensorlangError as error:
            raise tl.GraphError(f"{node.name}{_at(node)}: {error}") from None
        self.check(node, made, types)
        return made

    def check(self, node: Any, made: Any, types: list[Type | None]) -> None:
        """A translation has the types that torch says."""
        for value, kind in zip(made if isinstance(made, tuple | list) else (made,), types, strict=False):
            if isinstance(value, Value) and kind is not None and value.type != kind:
                raise tl.InternalError(f"{node.name}{_at(node)}: {node.target} gives {kind}, and its translation {value.type}")

    def arguments(self, node: Any) -> dict[str, Any]:
        """The arguments of a call by the names of its schema, with defaults."""
        schema = node.target._schema.arguments  # noqa: SLF001 - torch shows it nowhere else
        given = dict(zip((argument.name for argument in schema), node.args, strict=False)) | node.kwargs
        missing = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
        return {name: self.argument(value) for name, value in (given | {key: missing[key] for key in missing if key not in given}).items()}

    def argument(self, value: Any) -> Any:
        """An argument: values for nodes, words for types."""
        if isinstance(value, self.torch.fx.Node):
            return self.became[value.name]
        if isinstance(value, tuple | list):
            return tuple(self.argument(entry) for entry in value)
        if isinstance(value, self.torch.dtype):
            return _dtype(value)
        return self.extent(value) if isinstance(value, self.torch.SymInt) else value

    def type(self, tensor: Any) -> Type:
        """The type of what torch knows as a tensor."""
        return Type(tuple(map(self.extent, tensor.shape)), tl.dtype(_dtype(tensor.dtype)))

    def extent(self, size: Any) -> Extent:
        """A size of torch's as an extent."""
        return size if isinstance(size, int) else self.computed(size.node.expr)

    def computed(self, formula: Any) -> Any:
        """Arithmetic of sympy on sizes as arithmetic on dims. Raises `GraphError`."""
        if formula.is_Integer:
            return int(formula)
        if formula.is_Symbol:
            return self.dims[str(formula)]
        parts = list(map(self.computed, formula.args))
        match type(formula).__name__:
            case "Add":
                return sum(parts)
            case "Mul":
                return np.prod(np.array(parts, dtype=object))
            case "FloorDiv" | "CleanDiv":
                return parts[0] // parts[1]
            case "Mod" | "PythonMod":
                return parts[0] % parts[1]
            case _:
                raise tl.GraphError(f"an extent is {formula}, which is not made of + * // %")

    def array(self, tensor: Any) -> Any:
        """The elements of a tensor that the program holds, copied: a graph does not change when a model is trained on."""
        found = tensor.detach().cpu().contiguous()
        if found.dtype == self.torch.bfloat16:
            return found.view(self.torch.int16).numpy().view(tl.dtype("bfloat16").numpy).copy()
        return found.numpy().copy()


def _dtype(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _word(text: str) -> str:
    return re.sub(r"\W", "_", text)


def _name(node: Any) -> str:
    return str(node.name)


def _origin(node: Any) -> Origin:
    """The innermost line that is not torch's own, else the innermost one, and the module."""
    frames = [(match["file"], int(match["line"])) for match in _FRAME.finditer(node.meta.get("stack_trace") or "")]
    own = [frame for frame in frames if "/torch/" not in frame[0].replace("\\", "/")]
    file, line = (own or frames or [("", 0)])[-1]
    modules = list((node.meta.get("nn_module_stack") or {}).values())
    return Origin(file, line, _scope(modules))


def _scope(modules: Iterable[Any]) -> str:
    names = [str(entry[0]) for entry in modules]
    return names[-1] if names else ""


def _at(node: Any) -> str:
    where = str(_origin(node))
    return f" ({where})" if where else ""
