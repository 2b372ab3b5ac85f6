"""What to write instead, where NumPy or Python is asked to compute with what has no value yet.

An operator is defined by index expressions, and none of them has a value while it is written: a function of NumPy, an index into an array
or arithmetic on whole tensors cannot be meant as it stands. Each says which name of this package, or which form, is the way.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from tensorlang.errors import DefinitionError

OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "true_divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}
"""Functions of NumPy that an operator stands for: a NumPy scalar on the left of one calls them."""

FUNCTIONS: Final = {
    "absolute": "abs",
    "rint": "round",
    "power": "pow",
    "float_power": "pow",
    "clip": "clamp",
    "where": "select",
    "logical_and": "&",
    "logical_or": "|",
    "logical_not": "~",
    "arctan": "atan",
    "arctan2": "atan2",
    "arcsin": "asin",
    "arccos": "acos",
}
"""Functions of NumPy that have another name here."""


_REDUCED: Final = "a reduction names its axis: k = tl.reduce_axis(n), then tl.{name}({of}, axis=k)"
READ: Final = "axes are exchanged, joined and split where elements are read, as in A[j, i] or A[i // n, i % n]"
RANKED: Final = (
    'there is no sort; count what comes before each element, tl.sum(tl.cast(x[k] < x[i], "int32"), axis=k) with ties by k < i, '
    'and store it there: tl.scatter(..., reduce="set")'
)
METHODS: Final = {
    **dict.fromkeys(("all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "sum"), _REDUCED),
    **dict.fromkeys(("T", "flatten", "permute", "ravel", "reshape", "swapaxes", "transpose", "view"), READ),
    **dict.fromkeys(("argsort", "sort"), RANKED),
    "astype": "write tl.cast({of}, ...)",
    "clip": "write tl.clamp({of}, lo, hi)",
    "cumprod": "write tl.recurrence",
    "cumsum": "write tl.recurrence",
    "dot": "write tl.sum({of} * ..., axis=k)",
    "round": "write tl.round({of})",
}
"""What arrays of NumPy do by themselves, and what to write instead."""


def no_attribute(value: object, name: str) -> AttributeError:
    """The error for what an expression or a tensor does not have."""
    hint = METHODS.get(name)
    if hint is None:
        return AttributeError(f"{type(value).__name__!r} object has no attribute {name!r}", name=name, obj=value)
    shown = of = f"{value!r:.60}"
    if isinstance(value, Whole):
        axes = ", ".join((*"ijlmn"[: max(getattr(value, "ndim", 1) - 1, 0)], "k"))
        of = f"{getattr(value, 'name', None) or 'A'}[{axes}]"
    return AttributeError(f"{shown} has no {name!r}; {hint.format(name=name, of=of)}", name=name, obj=value)


def instead_of(function: str) -> str:
    """What to write for a function of NumPy on an index expression."""
    import tensorlang  # noqa: PLC0415 - the facade, for the names that it has

    name = FUNCTIONS.get(function, function)
    if not name.isidentifier():
        return f"write the operator {name}"
    return f"write tl.{name}" if name in tensorlang.__all__ else "write it with the functions of tensorlang (tl.exp, tl.sqrt, ...)"


def apply(ufunc: Any, method: str, operands: tuple[Any, ...], what: str) -> Any:
    """A function of NumPy on an index expression: an operator's where there is one. Raises `DefinitionError` for any other."""
    name = ufunc.__name__
    if method == "__call__" and name in OPERATORS:
        return OPERATORS[name](*map(_scalar, operands))
    raise DefinitionError(f"{what} has no value while the operator is defined, so np.{name} cannot take it; {instead_of(name)}")


def _scalar(operand: Any) -> Any:
    """A NumPy scalar as Python's, which gives way to our operators. Raises `DefinitionError` for an array."""
    if not isinstance(operand, (np.ndarray, np.generic)):
        return operand
    if operand.ndim:
        raise DefinitionError(
            f"an array of shape {operand.shape} cannot stand in an index expression; make it an operand and index it: "
            "table = tl.buffer(array), then table[i]"
        )
    value = operand.item()
    return float(value) if isinstance(value, np.generic) else value


def no_array(what: str) -> NoReturn:
    """Refuse to make an array of what has no value."""
    raise DefinitionError(
        f"{what} has no value while the operator is defined, so NumPy cannot take it as a number or an index; "
        "to read an array at an axis, make it an operand first: table = tl.buffer(array), then table[i]"
    )


TOGETHER: Final = "indices stand together in one pair of brackets, as in A[i, j]"
"""What is told of `A[i][j]`."""


class Single:
    """What a list does and a number at hand, and an expression does not: it is one value, and nobody knows it yet."""

    __slots__ = ()

    def __iter__(self) -> NoReturn:
        raise DefinitionError(f"{self!r} is one value and cannot be iterated over")

    def __round__(self, digits: object = None) -> NoReturn:
        raise DefinitionError(f"Python cannot round {self!r} while the operator is defined; write tl.round")

    if not TYPE_CHECKING:  # a type checker goes by what there is

        def __len__(self) -> NoReturn:
            raise DefinitionError(f"{self!r} is one value and has no length")

        def __getitem__(self, index: object) -> NoReturn:
            raise DefinitionError(f"{self!r} is one value and has no elements; {TOGETHER}")

        def __divmod__(self, other: object) -> NoReturn:
            raise DefinitionError(f"Python cannot take divmod of {self!r} while the operator is defined; write a // b and a % b")

        __rdivmod__ = __divmod__


class Whole:
    """Arithmetic on whole tensors, which there is none of: elements are what is computed with."""

    __slots__ = ()

    def __bool__(self) -> bool:
        """A tensor is there, whatever it holds: Python would ask `__len__`, which refuses."""
        return True

    def _multiplied(self, other: object) -> NoReturn:
        self._refuse_for(self, other)

    def _multiplying(self, other: object) -> NoReturn:
        self._refuse_for(other, self)

    def _refuse_for(self, left: object, right: object) -> NoReturn:
        """Refuse `left @ right`."""
        if not all(isinstance(part, Whole) and getattr(part, "ndim", 0) == 2 for part in (left, right)):
            self._refuse()
        of = ", ".join(getattr(part, "name", None) or name for part, name in ((left, "A"), (right, "B")))
        raise DefinitionError(f"{left!r} @ {right!r}: a product of matrices is tl.ops.matmul({of}); operators of Python are on elements")

    def _refuse(self, *_: object) -> NoReturn:
        label = getattr(self, "name", None) or "A"
        axes = ", ".join("ijklmn"[: getattr(self, "ndim", 1)]) or "()"
        form = f"tl.compute({label}.shape, lambda {axes.strip('()')}: {label}[{axes}] + ...)"
        raise DefinitionError(f"{self!r} is a whole tensor, and arithmetic is on elements; write {form}, or a function of tl.ops")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _refuse
    __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _refuse
    __matmul__, __rmatmul__ = _multiplied, _multiplying
    __pow__ = __rpow__ = __and__ = __rand__ = __or__ = __ror__ = __xor__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = __invert__ = _refuse

    def __array_ufunc__(self, ufunc: Any, _method: str, *_operands: Any, **_options: Any) -> NoReturn:
        raise DefinitionError(
            f"{self!r} has no values while the operator is defined, so np.{ufunc.__name__} cannot take it; "
            "write an index expression over its elements in tl.compute, or a function of tl.ops"
        )

    if not TYPE_CHECKING:  # a type checker goes by what there is

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name)

        def __len__(self) -> NoReturn:
            label = getattr(self, "name", None) or "A"
            why = f"has no length of its own; write {label}.shape[0] for the extent of its first axis" if self.ndim else "has no axes"
            raise DefinitionError(f"{self!r} {why}")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise DefinitionError(f"{self!r} has no values while the operator is defined; build a kernel and call it, or use tl.evaluate")
