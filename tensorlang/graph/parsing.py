"""Reading let-bindings: `from_let(g.to_let()) == g`.

Python's own parser reads what stands after a name: types, calls, numbers and extents. Nothing is executed.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

import numpy as np

import tensorlang as tl
from tensorlang.graph.arguments import require
from tensorlang.graph.builder import Builder
from tensorlang.graph.ir import Array, Attribute, Constant, Graph, Type, Value

_HEADER: Final = re.compile(r"graph (\w+)\((.*?)\)(?: where (.*))?\Z")
_CODE: Final = re.compile(r"""(?:[^#'"]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*""")
"""A line up to its comment."""
_BINDING: Final = re.compile(r"let (.+?) = (.+)\Z")
_END: Final = re.compile(r"in \((.*)\)\Z")
_ARITHMETIC: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


def from_let(text: str, constants: Mapping[str, Array] | None = None) -> Graph:
    """The graph that a text spells; `constants` are the arrays that it names by a digest, by the names of values, or the graph's own.

    Raises `GraphError`, which names the line, for a text that is no graph, and for arrays that are missing or others.
    """
    lines = [(number, line) for number, raw in enumerate(str(text).splitlines(), 1) if (line := _uncommented(raw))]
    if constants is not None:
        require("from_let", "a mapping from names to arrays", constants, Mapping)
    reader = _Reader({} if constants is None else constants)
    for number, line in lines:
        try:
            reader.read(line)
        except (tl.TensorlangError, SyntaxError, ValueError, OverflowError) as error:
            raise tl.GraphError(f"line {number}, {line!r:.100}: {error}") from None
        except (RecursionError, MemoryError):  # of Python's parser, or of what reads its tree
            raise tl.GraphError(
                f"line {number}, {line!r:.100}: it is nested too deeply; write it with fewer signs and parentheses"
            ) from None
    if reader.graph is None:
        raise tl.GraphError("the text ends without its last line, in (...): a graph is spelled as Graph.to_let prints it")
    return reader.graph


def _uncommented(line: str) -> str:
    match = _CODE.match(line)
    return match[0].strip() if match else ""


class _Reader:
    """What was read so far."""

    def __init__(self, constants: Mapping[str, Array]) -> None:
        self.arrays = constants
        self.builder: Builder | None = None
        self.graph: Graph | None = None
        self.values: dict[str, Value] = {}
        self.dims: dict[str, tl.Dim] = {}

    def read(self, line: str) -> None:
        """One line: the header, a binding, or what it all gives."""
        if self.graph is not None:
            _refuse("a graph ends with its line in (...), and nothing stands behind that")
        if self.builder is None:
            self._header(line)
        elif match := _BINDING.match(line):
            self._binding(self.builder, match[1], _expression(match[2]))
        elif match := _END.match(line):
            names = [name for name in re.split(r"[\s,]+", match[1]) if name]
            self.graph = self.builder.finish(*map(self._value, names))
        else:
            _refuse("a binding is spelled: let name: float32[3, 4] = operator(operands, attribute=value)")

    def _header(self, line: str) -> None:
        match = _HEADER.match(line)
        if match is None:
            _refuse("a graph begins with: graph name(x: float32[3, 4])")
        for part in (match[3] or "").split(" and ") if match[3] else ():
            bound = re.fullmatch(r"\s*(\d+) <= (\w+) <= (\d+)\s*", part)
            if bound is None:
                _refuse("bounds of dims are spelled: where 1 <= n <= 64")
            self.dims[bound[2]] = tl.dim(bound[2], int(bound[1]), int(bound[3]))
        self.builder = Builder(match[1])
        for name, kind in self._typed(match[2]):
            self.values[name] = self._named(name, self.builder.input(kind.shape, kind.dtype, name))

    def _binding(self, builder: Builder, target: str, right: ast.expr) -> None:
        results = self._typed(target)
        if not isinstance(right, ast.Call):
            _refuse("a value is bound to a call of an operator, or to constant(...)")
        name = ast.unparse(right.func)
        if name == "constant" and len(results) == len(right.args) == 1:
            made: tuple[Value, ...] = (builder.constant(self._array(results[0], right.args[0]), results[0][0]),)
        else:
            operands = [None if self._is_none(entry) else self._value(ast.unparse(entry)) for entry in right.args]
            attributes: dict[str, Attribute] = {}
            for keyword in right.keywords:
                if keyword.arg is None or keyword.arg in attributes:
                    _refuse(f"{name}: attributes are said once and by name, not as {ast.unparse(keyword)}")
                attributes[keyword.arg] = self._attribute(keyword.value)
            made = builder.node(name, operands, attributes, [name for name, _ in results])
        for (label, kind), value in zip(results, made, strict=True):
            if value.type != kind:
                _refuse(f"{label} is {value.type}, and not {kind}")
            self.values[label] = self._named(label, value)

    def _array(self, target: tuple[str, Type], held: ast.expr) -> Array:
        name, kind = target
        found = self._attribute(held)
        if isinstance(found, str):
            if name not in self.arrays:
                _refuse(f"the array of {name} ({found}) is not in the text; pass it as from_let(text, constants={{{name!r}: array}})")
            array = np.asarray(self.arrays[name])
            if Constant(Value(name, Type.of(array)), array).digest != found:
                _refuse(f"the array given for {name} is not the one that the text was printed with")
            return array
        entries = [_entry(name, entry, kind.dtype) for entry in np.array(found, object).reshape(-1)]
        return np.array(entries, kind.dtype.numpy).reshape([extent for extent in kind.shape if isinstance(extent, int)])

    def _typed(self, text: str) -> list[tuple[str, Type]]:
        """Names with types: `x: float32[n, 4], y: int64[()]`, which Python reads as the parameters of a function."""
        match ast.parse(f"def f({text}): pass").body:
            case [
                ast.FunctionDef(
                    args=ast.arguments(args=named, posonlyargs=[], vararg=None, kwonlyargs=[], kwarg=None, defaults=[]),
                    returns=None,
                    body=[ast.Pass()],
                )
            ]:
                return [(parameter.arg, self._type(parameter.annotation)) for parameter in named]
        return _refuse(f"{text!r:.60} are no names with types, which are spelled x: float32[3, 4], y: int64[()]")

    def _type(self, node: ast.expr | None) -> Type:
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
            _refuse("a type is spelled float32[3, 4], of a scalar float32[()]")
        entries = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        shape = [self._attribute(entry) for entry in entries]
        return Type.of(tl.placeholder(shape, node.value.id))

    def _attribute(self, node: ast.expr) -> Attribute:
        match node:
            case ast.Constant(value=(bool() | int() | float() | str() | None) as value):
                return value
            case ast.Name(id=("inf" | "nan") as name):
                return float(name)
            case ast.Name(id=name) if name in self.dims:
                return self.dims[name]
            case ast.Tuple(elts=entries) | ast.List(elts=entries):
                return tuple(map(self._attribute, entries))
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return _negated(_number(inner, self._attribute(inner)))
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _ARITHMETIC:
                first, second = (_number(side, self._attribute(side)) for side in (left, right))
                try:
                    result: Attribute = _ARITHMETIC[type(op)](first, second)
                except ZeroDivisionError:
                    return _refuse(f"{ast.unparse(node)} divides by 0")
                return result
        return _refuse(f"{ast.unparse(node)} is no number, word, dim, or tuple of these")

    def _is_none(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Constant) and node.value is None

    def _value(self, name: str) -> Value:
        if name not in self.values:
            _refuse(f"the value {name!r:.60} is not defined before")
        return self.values[name]

    def _named(self, name: str, value: Value) -> Value:
        if value.name != name:
            _refuse(f"the name {name!r} cannot name a value here, or is taken")
        return value


def _number(node: ast.expr, value: Attribute) -> Any:
    """A number or a dim, which arithmetic is for."""
    if value is None or isinstance(value, (str, tuple)):
        _refuse(f"{ast.unparse(node)} is no number and no dim, and cannot be reckoned with")
    return value


def _entry(name: str, value: Attribute, dtype: tl.DType) -> Any:
    """An element of a constant, as the type holds it. Raises `GraphError` where the type has no such value."""
    kind = dtype.numpy
    if dtype.is_floating and isinstance(value, (bool, int, float)):
        with np.errstate(over="ignore"):
            held = np.float64(value).astype(kind)
        if np.isinf(held) == np.isinf(np.float64(value)):
            return held
    elif kind == np.bool_:
        if isinstance(value, (bool, int)) and value in (0, 1):
            return bool(value)
    elif type(value) is int and np.iinfo(kind).min <= value <= np.iinfo(kind).max:
        return value
    return _refuse(f"{name}: {value!r:.60} is no {dtype}")


def _negated(value: Any) -> Attribute:
    made: Attribute = -value if isinstance(value, int | float) else 0 - value
    return made


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _refuse(reason: str) -> NoReturn:
    raise tl.GraphError(reason)
