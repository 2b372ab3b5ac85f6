"""Nodes of torch's graphs as nodes of ours: what a program of `torch.export` and a graph of `torch.compile` have in common.

calls      by the table in `aten`, with arguments by the names of torch's schema
sizes      extents: what torch computes with them is read from what it knows of each result
origins    the last line of the stack trace outside of torch itself, and the module
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.bridges.aten import TRANSLATIONS, Call
from tensorlang.bridges.tracked_arguments import TrackedArguments
from tensorlang.graph import Builder, Origin, Type, Value
from tensorlang.graph.builder import identifier
from tensorlang.graph.ir import Extent

_FRAME: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
CHECKS: Final = ("aten._assert_tensor_metadata", "aten._assert_scalar", "aten._assert_async", "aten.sym_constrain_range_for_size")
"""Calls that compute nothing."""
_SILENT: Final = frozenset({
    "dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "copy", "implicit", "requires_grad", "half_to_float",
    "momentum", "padding_idx", "scale_grad_by_freq", "sparse", "sparse_grad", "stable", "sorted", "cudnn_enabled", "cudnn_enable",
    "use_input_stats", "N", "C", "HxW", "bias_sizes",
})  # fmt: skip
"""Arguments that a translation may leave unread: the type of the result says them, or they are about gradients, training and storage."""
_NOTHING: Final = object()
_ARITHMETIC: Final = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow", "neg": "neg", "_sym_sqrt": "sqrt", "sym_sqrt": "sqrt",
}  # fmt: skip
"""What Python computes of sizes in floating point, by the names of its functions."""


class Reader:
    """A graph of torch's that is read, node by node. `bounds` gives the range of a size by its symbol, `names` the user's word for it."""

    def __init__(self, torch: Any, name: str, bounds: Callable[[Any], Any], names: Mapping[str, str] | None = None) -> None:
        self.torch, self.bounds, self.names = torch, bounds, names or {}
        self.builder = Builder(name)
        self.became: dict[str, Any] = {}
        self._dims: dict[str, tl.Dim] = {}

    def input(self, node: Any, name: str) -> None:
        """A placeholder that is a tensor, as an input."""
        found = self.type(node.meta["val"])
        self.became[node.name] = self.builder.input(found.shape, found.dtype, name)

    def call(self, node: Any) -> Any:
        """What a node of torch becomes: a value, several, or an extent."""
        if node.target is operator.getitem:
            several, place = self.argument(node.args[0]), node.args[1]
            if several[place] is None and node.users:
                raise tl.GraphError(f"{node.name}{_at(node)}: result {place} of {node.args[0].target} has no translation")
            return several[place]
        known = node.meta.get("val")
        if isinstance(known, self.torch.SymInt | int) and not isinstance(known, bool):
            return self.extent(known)
        if isinstance(known, self.torch.SymFloat):
            return self.number(node)
        name = packet(node.target)
        if name in CHECKS:
            return None
        translation = TRANSLATIONS.get(name)
        if translation is None:
            if name == "with_effects":  # torch wraps what checks its data, with a token before its arguments
                name = packet(node.args[1])
            how = "write it by others, or let torch run it: torch.compile(model, backend='tensorlang') does"
            raise tl.GraphError(f"{node.name}{_at(node)}: {name} has no translation; {how}")
        self.builder.origins = (_origin(node),)
        results = known if isinstance(known, tuple | list) else (known,)
        types = [self.type(one) if isinstance(one, self.torch.Tensor) else None for one in results]
        arguments = self.arguments(node)
        try:
            made = translation(Call(self.builder, name, arguments, types, str(node.name)))
            self.heard(node, arguments)
        except tl.TensorlangError as error:
            raise tl.GraphError(f"{node.name}{_at(node)}: {error}") from None
        self.check(node, made, types)
        return made

    def number(self, node: Any) -> Any:
        """A floating number that is made of sizes, as a value of the 64 bits that Python gives it. Raises `GraphError`."""
        function = getattr(node.target, "__name__", str(node.target))
        made = [self.argument(one) for one in node.args]
        if function == "sym_float":
            return made[0]
        translated = _ARITHMETIC.get(function)
        if translated is None:
            raise tl.GraphError(f"{node.name}{_at(node)}: {function} of sizes has no translation")
        call = Call(self.builder, function, TrackedArguments({}), [None], str(node.name))
        return call(translated, *(call.as_type(one, "float64") for one in made))

    def check(self, node: Any, made: Any, types: list[Type | None]) -> None:
        """Raises `GraphError` where a translation has not the type that torch says."""
        for value, kind in zip(made if isinstance(made, tuple | list) else (made,), types, strict=False):
            if isinstance(value, Value) and kind is not None and not _is_alike(value.type, kind):
                raise tl.GraphError(f"{node.name}{_at(node)}: {node.target} gives {kind} here, and its translation {value.type}")

    def heard(self, node: Any, arguments: TrackedArguments) -> None:
        """Raises `GraphError` for an argument that is not its default and that the translation did not ask for."""
        for said in node.target._schema.arguments:  # noqa: SLF001 - as in `arguments`
            default = said.default_value if said.has_default_value() else _NOTHING
            if said.name not in arguments.asked and said.name not in _SILENT and dict.get(arguments, said.name) != default:
                raise tl.GraphError(f"{packet(node.target)}: {said.name}={dict.get(arguments, said.name)!r:.60} has no translation")

    def arguments(self, node: Any) -> TrackedArguments:
        """The arguments of a call by the names of its schema, with defaults."""
        schema = node.target._schema.arguments  # noqa: SLF001 - torch shows it nowhere else
        given = dict(zip((argument.name for argument in schema), node.args, strict=False)) | node.kwargs
        known = [argument for argument in schema if argument.name in given or argument.has_default_value()]
        return TrackedArguments({one.name: self.argument(given.get(one.name, one.default_value)) for one in known})

    def argument(self, value: Any) -> Any:
        """An argument: values for nodes, words for types. Raises `GraphError` for a node that became nothing: a size over 2."""
        if isinstance(value, self.torch.fx.Node):
            became = self.became[value.name]
            if became is None:
                raise tl.GraphError(f"it reads {value.name}{_at(value)}, which has no translation")
            return became
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
            return self.dim(formula)
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

    def dim(self, symbol: Any) -> tl.Dim:
        """A symbol as a dim with its range."""
        name = str(symbol)
        if name not in self._dims:
            range_of = self.bounds(symbol)
            least, most = (int(bound) if str(bound).isdigit() else None for bound in (range_of.lower, range_of.upper))
            self._dims[name] = tl.dim(
                identifier(self.names.get(name, name)), least or 0, *(() if most is None or most >= 1 << 48 else (most,))
            )
        return self._dims[name]


def _is_alike(one: Type, other: Type) -> bool:
    """Are types the same, sizes by their values? A sum is the same sum in another order."""
    same = one.dtype == other.dtype and len(one.shape) == len(other.shape)
    return same and all(a == b or a - b == 0 for a, b in zip(one.shape, other.shape, strict=True))


def packet(target: Any) -> str:
    """The name of an operator without its overload, as `aten.linear`."""
    return str(getattr(target, "overloadpacket", target))


def _dtype(value: Any) -> str:
    return str(value).removeprefix("torch.")


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
