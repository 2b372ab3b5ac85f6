"""The values of indices, bounds and conditions over many iterations at once, by the tables of `semantics.arithmetic`.

Loops have values, either one or an array of them; derived axes follow from their relations. Inputs hold made-up numbers, so an index that
is read from one has a value too; one that depends on what the program computes has none, and `Unknown` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from tensorlang.ir import Axis, Binary, Buffer, Call, Cast, Compare, Const, Dim, Expr, Load, Nest, Param, Reduce, Select, Unary
from tensorlang.ir.relations import derived_values
from tensorlang.ir.traverse import dtype_of
from tensorlang.semantics import arithmetic

Array: TypeAlias = NDArray[Any]


class Unknown(Exception):  # noqa: N818 - what is not known is no error
    """A value that depends on what the program computes."""


@dataclass(slots=True)
class Values:
    """What axes stand for: `loops` are those in scope; `made` are the arrays of inputs, where numbers were made up for them."""

    dims: Mapping[str, int]
    derived: Mapping[str, Expr]
    made: Mapping[str, Array]
    loops: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, nest: Nest, dims: Mapping[str, int], made: Mapping[str, Array]) -> Values:
        """Those of a nest outside of its loops."""
        derived: dict[str, Expr] = {}
        for relation in nest.relations:
            derived = {**derived_values(relation), **derived}
        return cls(dims, derived, made)

    def at(self, columns: Mapping[str, Array]) -> Values:
        """The same where some loops have many values."""
        return Values(self.dims, self.derived, self.made, {**self.loops, **columns})

    def number(self, expr: Expr) -> int:
        """The value of an expression that has one."""
        return int(expr.value) if isinstance(expr, Const) else int(self.of_expression(expr))

    def of_expression(self, expr: Expr) -> Any:
        """The value of an expression, an array where a loop in it has one. Raises `Unknown`."""
        match expr:
            case Const():
                return arithmetic.literal(expr)
            case Axis(name):
                if name in self.loops:
                    return np.asarray(self.loops[name], np.int64)
                return self.of_expression(self.derived[name])
            case Dim(name):
                return np.asarray(self.dims[name], np.int64)
            case Load(buffer, index):
                return self._read(buffer, index)
            case Cast(value, dtype):
                return arithmetic.cast(self.of_expression(value), dtype_of(value), dtype)
            case Unary(op, value):
                return arithmetic.unary(op, self.of_expression(value), dtype_of(value))
            case Binary(op, left, right):
                return arithmetic.binary(op, self.of_expression(left), self.of_expression(right), dtype_of(left))
            case Compare(op, left, right):
                return arithmetic.compare(op, self.of_expression(left), self.of_expression(right), dtype_of(left))
            case Select(cond, yes, no):
                return np.where(self.of_expression(cond), self.of_expression(yes), self.of_expression(no))
            case Call(function, args, dtype):
                operands = tuple(map(self.of_expression, args))
                return arithmetic.call(function, operands, dtype_of(args[0]), dtype)
            case Param() | Reduce():
                raise Unknown(str(expr))
            case _:
                assert_never(expr)

    def _read(self, buffer: Any, index: tuple[Expr, ...]) -> Any:
        """An element of an input; outside of it, which only an iteration that does not run asks for, the nearest one."""
        if not isinstance(buffer, Buffer) or buffer.name not in self.made:
            raise Unknown(getattr(buffer, "name", "?"))
        array = self.made[buffer.name]
        if 0 in array.shape:
            raise Unknown(buffer.name)
        where = tuple(np.clip(self.of_expression(part), 0, size - 1) for part, size in zip(index, array.shape, strict=True))
        return array[where]
