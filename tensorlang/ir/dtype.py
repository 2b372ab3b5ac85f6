"""Numeric types: a closed set of names, each with a kind and a width.

A `DType` is a string ("float32"), so that it compares, prints, hashes and serialises as its name. Promotion is NumPy 2's within a
kind (signed, unsigned, floating); kinds never mix silently.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from tensorlang.errors import DefinitionError, did_you_mean
from tensorlang.ir.halves import to_half

Kind = Literal["bool", "signed", "unsigned", "floating"]


class DType(str):
    """One numeric type: its name, with `kind`, `bits` and `bytes`."""

    __slots__ = ()

    @property
    def kind(self) -> Kind:
        """The family within which types promote."""
        return _KINDS[self][0]

    @property
    def bits(self) -> int:
        """Width of one element in memory, in bits."""
        return _KINDS[self][1]

    @property
    def bytes(self) -> int:
        """Size of one element in memory, in bytes."""
        return self.bits // 8

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned, not bool."""
        return self.kind in ("signed", "unsigned")

    @property
    def is_floating(self) -> bool:
        """Any of float16, bfloat16, float32, float64."""
        return self.kind == "floating"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype in native byte order (bfloat16 is `ml_dtypes.bfloat16`)."""
        return _numpy_dtype(str(self))

    def rounded(self, numbers: npt.ArrayLike) -> npt.NDArray[Any]:
        """Numbers as this type has them, rounded once; without axes where there is one number."""
        return to_half(numbers, self.numpy) if self.is_floating and self.bits == 16 else np.asarray(numbers, self.numpy)

    @property
    def lowest(self) -> float | int | bool:
        """The identity of `max`: minus infinity, the least integer, or False."""
        if self.is_floating:
            return float("-inf")
        if self.kind == "bool":
            return False
        return -(1 << (self.bits - 1)) if self.kind == "signed" else 0

    @property
    def highest(self) -> float | int | bool:
        """The identity of `min`: infinity, the greatest integer, or True."""
        if self.is_floating:
            return float("inf")
        if self.kind == "bool":
            return True
        return (1 << (self.bits - 1)) - 1 if self.kind == "signed" else (1 << self.bits) - 1


_KINDS: Final[dict[str, tuple[Kind, int]]] = {
    "bool": ("bool", 8),
    "int8": ("signed", 8),
    "int16": ("signed", 16),
    "int32": ("signed", 32),
    "int64": ("signed", 64),
    "uint8": ("unsigned", 8),
    "uint16": ("unsigned", 16),
    "uint32": ("unsigned", 32),
    "uint64": ("unsigned", 64),
    "float16": ("floating", 16),
    "bfloat16": ("floating", 16),
    "float32": ("floating", 32),
    "float64": ("floating", 64),
}

_OTHERS: Final = {
    "single": "float32", "float": "float32", "double": "float64", "half": "float16", "int": "int64", "long": "int64", "short": "int16",
    "byte": "uint8", "uint": "uint64", "f2": "float16", "f4": "float32", "f8": "float64", "i1": "int8", "i2": "int16", "i4": "int32",
    "i8": "int64", "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64",
}  # fmt: skip
"""What C and NumPy call these."""

DTYPES: Final = tuple(DType(name) for name in _KINDS)
BOOL: Final = DType("bool")
INT32: Final = DType("int32")
INT64: Final = DType("int64")
FLOAT32: Final = DType("float32")
FLOAT64: Final = DType("float64")
EPSILON: Final = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
"""Of each floating type: the distance from 1 to the next greater number."""


def dtype(value: object) -> DType:
    """The `DType` named by a string, a NumPy dtype or scalar type.

    Raises `DefinitionError` for anything outside the closed set.
    """
    if isinstance(value, DType):
        return value
    name = value
    if isinstance(value, (type, np.dtype)):
        try:
            name = np.dtype(value).name
        except (TypeError, ValueError):  # a class that NumPy has no type for
            name = value.__name__ if isinstance(value, type) else str(value)
    if isinstance(name, str) and name in _KINDS:
        return DType(name)
    hint = "" if not isinstance(name, str) else f"; use {_OTHERS[name]!r}" if name in _OTHERS else did_you_mean(name, _KINDS)
    raise DefinitionError(f"{name!r:.60} is not a tensorlang type{hint or '; it has ' + ', '.join(_KINDS)}")


@cache
def _numpy_dtype(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes  # noqa: PLC0415 - loaded on use: it costs import time and few need it

        name = ml_dtypes.bfloat16
    found: np.dtype[Any] = np.dtype(name)
    return found


def promote(left: DType, right: DType) -> DType | None:
    """The common type of two types of one kind, as NumPy 2 has it; None where kinds differ."""
    if left == right:
        return left
    if left.kind != right.kind:
        return None
    if {left, right} == {"float16", "bfloat16"}:
        return FLOAT32
    return left if left.bits > right.bits else right
