"""`tc`: definitions in the notation of Tensor Comprehensions, whose ranges follow from the operands' shapes.

An index that stands alone on the left is an axis of the result; any other is reduced over. An index has the range of every tensor axis that
it indexes, and where it stands with others, as in `A(i + k)`, the range in which the sum stays inside once the others' are known. So
`O(i) +=! I(i + k) * W(k)` needs no ranges, and `where k in 0:K` gives one that does not follow.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tensorlang.definition import elementary
from tensorlang.definition.expr import Expr, as_expr, binary, cast
from tensorlang.definition.extent import Dim, Extent
from tensorlang.definition.tensor import Tensor
from tensorlang.errors import DefinitionError, did_you_mean
from tensorlang.ir.dtype import DType
from tensorlang.language import reduction
from tensorlang.language.definitions import compute, reduce_axis
from tensorlang.language.syntax import Applied, At, Comprehension, FunctionDefinition, Name, Number, Operation, Parameter, Value, parse

TYPES: Final = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    **{
        name: name
        for name in (
            "bool",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "float16",
            "bfloat16",
            "float32",
            "float64",
        )
    },
}
FUNCTIONS: Final[dict[str, Callable[..., Expr]]] = {
    **{
        name: getattr(elementary, name)
        for name in (
            "abs", "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "fmax", "fmin",
            "isnan", "log", "log10", "log1p", "log2", "pow", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh",
            "trunc",
        )
    },
    **{f"{name}f": getattr(elementary, name) for name in ("exp", "log", "sqrt", "tanh", "pow", "sin", "cos")},
    "fabs": elementary.abs,
    "max": elementary.maximum,
    "min": elementary.minimum,
    "fmaxf": elementary.fmax,
    "fminf": elementary.fmin,
}  # fmt: skip
REDUCERS: Final[dict[str, Callable[..., Expr]]] = {
    "+=!": reduction.sum,
    "*=!": reduction.prod,
    "max=!": reduction.max,
    "min=!": reduction.min,
}
ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "&&": functools.partial(binary, "and"),
    "||": functools.partial(binary, "or"),
}


def tc(source: str) -> Callable[..., Any]:
    """The function from tensors to tensors that a definition in Tensor Comprehensions notation spells; several results are a tuple.

    Raises `DefinitionError` with line and column for text that is no such definition; the function raises it for tensors that do not fit.
    """
    tree = parse(source)
    _check(tree)

    def function(*tensors: Tensor) -> Any:
        return _Builder.of(tree, tensors).run()

    function.__name__ = function.__qualname__ = tree.name
    function.__doc__ = source
    kind = inspect.Parameter.POSITIONAL_ONLY
    function.__signature__ = inspect.Signature([inspect.Parameter(part.name, kind) for part in tree.parameters])  # type: ignore[attr-defined]
    return function


def _check(tree: FunctionDefinition) -> None:
    """Raise `DefinitionError` for what is wrong whatever the operands are."""
    names = [part.name for part in tree.parameters]
    for part in tree.parameters:
        if part.type not in TYPES:
            part.at.fail(f"{part.type!r} is no type{did_you_mean(part.type, TYPES)}")
        if names.count(part.name) > 1:
            part.at.fail(f"the parameter {part.name} stands twice")
    made = {statement.name for statement in tree.statements}
    for result in tree.results:
        if result.name not in made:
            result.at.fail(f"the result {result.name} is defined by no statement{did_you_mean(result.name, made)}")
    for statement in tree.statements:
        labels = [index.name for index in statement.indices]
        if statement.name in names:
            statement.at.fail(f"{statement.name} is a parameter and cannot be defined")
        if len(set(labels)) != len(labels):
            statement.at.fail(f"{statement.name} has an index twice")


def _walk(value: Value) -> Iterator[Value]:
    yield value
    if isinstance(value, (Applied, Operation)):
        for part in value.args:
            yield from _walk(part)


@dataclass(slots=True)
class _Builder:
    """What the names mean so far: tensors and sizes."""

    tree: FunctionDefinition
    tensors: dict[str, Tensor] = field(default_factory=dict)
    sizes: dict[str, Extent] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: FunctionDefinition, tensors: tuple[Tensor, ...]) -> _Builder:
        """The parameters bound to operands. Raises `DefinitionError` where they do not fit."""
        self = cls(tree)
        if len(tensors) != len(tree.parameters):
            raise DefinitionError(f"{tree.name} takes {len(tree.parameters)} tensors, not {len(tensors)}")
        for part, tensor in zip(tree.parameters, tensors, strict=True):
            self._bind(part, tensor)
        return self

    def _bind(self, part: Parameter, tensor: Tensor) -> None:
        what = f"the parameter {part.name} of {self.tree.name}"
        if not isinstance(tensor, Tensor):
            raise DefinitionError(f"{what} is a tensor, not {tensor!r:.60}")
        if tensor.dtype != TYPES[part.type] or tensor.ndim != len(part.sizes):
            raise DefinitionError(f"{what} is {TYPES[part.type]} with {len(part.sizes)} axes, not {tensor!r}")
        for size, extent in zip(part.sizes, tensor.shape, strict=True):
            known = size.value if isinstance(size, Number) else self.sizes.setdefault(size.name, extent)
            if known != extent:
                label = "" if isinstance(size, Number) else f"{size.name} = "
                raise DefinitionError(f"{what} has {label}{extent} in {tensor!r}, where {label}{known} is expected")
        self.tensors[part.name] = tensor

    def run(self) -> Any:
        """The results."""
        for statement in self.tree.statements:
            try:
                self.tensors[statement.name] = self.statement(statement)
            except DefinitionError as error:
                if str(error).startswith("tl.tc"):
                    raise
                statement.at.fail(str(error))
        results = tuple(self.tensors[result.name] for result in self.tree.results)
        return results if len(results) > 1 else results[0]

    def statement(self, statement: Comprehension) -> Tensor:
        """The tensor that a statement defines."""
        ranges = self.ranges(statement)
        labels = [index.name for index in statement.indices]
        for label in labels:
            if ranges[label][0] != 0:
                statement.at.fail(f"{label} starts at {ranges[label][0]}, but an axis of {statement.name} starts at 0")
        reduced = {name: reduce_axis(ranges[name], name=name) for name in ranges if name not in labels}
        if reduced and statement.op == "=":
            statement.at.fail(f"{', '.join(reduced)} is not an index of {statement.name}; reduce over it with +=!, *=!, max=! or min=!")

        def body(*axes: Expr) -> Expr:
            value = as_expr(self.value(statement.value, {**reduced, **dict(zip(labels, axes, strict=True))}))
            return REDUCERS[statement.op](value, axis=tuple(reduced.values())) if reduced else value

        kind = inspect.Parameter.POSITIONAL_ONLY
        body.__signature__ = inspect.Signature([inspect.Parameter(label, kind) for label in labels])  # type: ignore[attr-defined]
        result: Tensor = compute(tuple(ranges[label][1] for label in labels), body, name=statement.name)
        return result

    # Ranges -----------------------------------------------------------------------------------------------------------------

    def ranges(self, statement: Comprehension) -> dict[str, tuple[Extent, Extent]]:
        """The range of every index of a statement, those of the result first."""
        known: dict[str, tuple[Extent, Extent]] = {}
        for given in statement.ranges:
            known[given.name] = (self.extent(given.lo), self.extent(given.hi))
        uses: list[tuple[Value, Extent, At]] = []
        names: dict[str, At] = {index.name: index.at for index in statement.indices}
        for part in _walk(statement.value):
            if isinstance(part, Applied) and part.name not in (*self.tensors, *FUNCTIONS, *TYPES):
                part.at.fail(f"{part.name} is no tensor and no function{did_you_mean(part.name, (*self.tensors, *FUNCTIONS))}")
            if isinstance(part, Applied) and part.name in self.tensors:
                tensor = self.tensors[part.name]
                if len(part.args) != tensor.ndim:
                    part.at.fail(f"{part.name} has {tensor.ndim} axes and is read with {len(part.args)} indices")
                uses += [(index, extent, part.at) for index, extent in zip(part.args, tensor.shape, strict=True)]
            if isinstance(part, Name) and part.name not in self.sizes and part.name not in self.tensors:
                names.setdefault(part.name, part.at)
        fixed = set(known)
        for index, extent, at in uses:
            if isinstance(index, Name) and index.name in names and index.name not in fixed:
                known[index.name] = (0, _least(known[index.name][1], extent, index.name, at) if index.name in known else extent)
        progress = True
        while progress:
            progress = False
            for index, extent, _ in uses:
                progress |= self._solve(index, extent, names, known)
        for name, at in names.items():
            if name not in known:
                at.fail(f"the range of {name} does not follow from the operands; write where {name} in 0:...")
        return {name: known[name] for name in names}

    def _solve(self, index: Value, extent: Extent, names: dict[str, At], known: dict[str, tuple[Extent, Extent]]) -> bool:
        """Give the one index without a range in an affine index the range in which that stays inside."""
        form = self._linear(index, names)
        if form is None:
            return False
        unknown = [name for name in form if name and name not in known]
        if len(unknown) != 1 or not isinstance(form[unknown[0]], int) or form[unknown[0]] < 1:
            return False
        most = form.get("", 0)
        for name, factor in form.items():
            if name in ("", unknown[0]):
                continue
            lo, hi = known[name]
            most = most + factor * ((hi - 1) if factor > 0 else lo)
        room = extent - 1 - most
        known[unknown[0]] = (0, room // form[unknown[0]] + 1 if form[unknown[0]] > 1 else room + 1)
        return True

    def _linear(self, index: Value, names: dict[str, At]) -> dict[str, Any] | None:
        """Factors of indices and (as "") the constant of an affine index; None for any other."""
        match index:
            case Number(int(value), _):
                return {"": value}
            case Name(name, _) if name in names:
                return {name: 1}
            case Name(name, _) if name in self.sizes:
                return {"": self.sizes[name]}
            case Operation("+" | "-" as op, (left, right), _):
                a, b = self._linear(left, names), self._linear(right, names)
                if a is None or b is None:
                    return None
                sign = 1 if op == "+" else -1
                return {name: a.get(name, 0) + sign * b.get(name, 0) for name in (*a, *b)}
            case Operation("*", (left, right), _):
                a, b = self._linear(left, names), self._linear(right, names)
                if a is None or b is None or (set(a) > {""} and set(b) > {""}):
                    return None
                scale, form = (a, b) if set(a) <= {""} else (b, a)
                factor = scale.get("", 0)
                return {name: factor * value for name, value in form.items()} if isinstance(factor, int) else None
            case _:
                return None

    def extent(self, value: Value) -> Extent:
        """The value of a bound over sizes."""
        match value:
            case Number(int(number), _):
                return number
            case Name(name, at):
                if name not in self.sizes:
                    at.fail(f"{name} is no size{did_you_mean(name, self.sizes)}")
                return self.sizes[name]
            case Operation("+" | "-" | "*" | "/" | "%" as op, (left, right), _):
                a, b = self.extent(left), self.extent(right)
                if op in ("/", "%") and not (isinstance(b, int) and b > 0):
                    value.at.fail("a bound is divided by positive integers only")
                found: Extent = operator.floordiv(a, b) if op == "/" else ARITHMETIC[op](a, b)
                return found
            case _:
                return value.at.fail("a bound is made of sizes and integers")

    # Values -----------------------------------------------------------------------------------------------------------------

    def value(self, value: Value, axes: dict[str, Expr]) -> Any:
        """A value over axes."""
        match value:
            case Number(number, _):
                return number
            case Name(name, at):
                if name in axes:
                    return axes[name]
                if name in self.sizes:
                    size = self.sizes[name]
                    return size.as_expr() if isinstance(size, Dim) else size
                if name in self.tensors and self.tensors[name].ndim == 0:
                    return self.tensors[name][()]
                return at.fail(f"{name} is a tensor; index it, as in {name}(i)" if name in self.tensors else f"{name} is not known here")
            case Applied(name, args, at):
                parts = [self.value(arg, axes) for arg in args]
                if name in self.tensors:
                    return self.tensors[name][tuple(parts)]
                if name in TYPES and len(parts) == 1:
                    return cast(parts[0], DType(TYPES[name]))
                try:
                    return FUNCTIONS[name](*parts)
                except TypeError as error:
                    return at.fail(f"{name} does not take {len(parts)} values ({error})")
            case Operation("?", (cond, yes, no), _):
                return elementary.select(self.value(cond, axes), self.value(yes, axes), self.value(no, axes))
            case Operation("-", (inner,), _):
                return -self.value(inner, axes)
            case Operation("!", (inner,), _):
                return ~as_expr(self.value(inner, axes))
            case Operation(op, (left, right), _):
                return ARITHMETIC[op](as_expr(self.value(left, axes)), as_expr(self.value(right, axes)))
            case _:
                return value.at.fail("this has no meaning")


def _least(first: Extent, second: Extent, name: str, at: At) -> Extent:
    """The range that both axes have."""
    if first == second:
        return first
    if isinstance(first, int) and isinstance(second, int):
        return min(first, second)
    return at.fail(f"{name} runs over {first} elsewhere and over {second} here; give the axes one size, or write where {name} in 0:...")
