"""What a kernel takes and gives: named arguments with shapes and types, in the order of the C function."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from tensorlang.codegen import extents
from tensorlang.dtype import DType
from tensorlang.dtype import dtype as as_dtype
from tensorlang.ir import Expr, Limit
from tensorlang.printer import text

_C_TYPES: Final = {
    "bool": "bool",
    "float16": "uint16_t",  # the bits: C has no portable name for the type
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
}


@dataclass(frozen=True, slots=True)
class Argument:
    """One tensor: its extents are constants or arithmetic over the dims of the signature."""

    name: str
    shape: tuple[Expr, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(text(extent) for extent in self.shape)}]"


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a kernel: inputs, then outputs, then run-time dims, as the C function takes them; some dims have bounds."""

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    dims: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()

    @property
    def prototype(self) -> str:
        """The C declaration of the kernel. It returns 0, or 1 where memory for a workspace could not be allocated."""
        inputs = [f"const {_c_type(argument.dtype)} *{c_name(argument.name)}" for argument in self.inputs]
        outputs = [f"{_c_type(argument.dtype)} *{c_name(argument.name)}" for argument in self.outputs]
        dims = [f"int64_t {c_name(dim)}" for dim in self.dims]
        return f"int32_t {c_name(self.name)}({', '.join(inputs + outputs + dims) or 'void'})"

    def __str__(self) -> str:
        """As a call looks from Python: `matmul(A: float32[32, 16], B: float32[16, 48]) -> C: float32[32, 48]`."""
        inputs = ", ".join(f"{argument.name}: {argument}" for argument in self.inputs)
        outputs = ", ".join(f"{argument.name}: {argument}" for argument in self.outputs)
        bounds = "".join(f", {least} <= {name} <= {most}" for name, least, most in self.limits)
        return f"{self.name}({inputs}) -> {outputs}{bounds}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, read back by `from_json`."""
        return {
            "name": self.name,
            "inputs": [_argument_to_json(argument) for argument in self.inputs],
            "outputs": [_argument_to_json(argument) for argument in self.outputs],
            "dims": list(self.dims),
            **({"limits": [list(limit) for limit in self.limits]} if self.limits else {}),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Signature:
        """The signature that `to_json` wrote. Raises `ValueError`, `KeyError`, `TypeError` or `DefinitionError` for anything else."""
        return Signature(
            str(data["name"]),
            tuple(map(_argument_from_json, data["inputs"])),
            tuple(map(_argument_from_json, data["outputs"])),
            tuple(map(str, data["dims"])),
            tuple((str(name), int(least), int(most)) for name, least, most in data.get("limits", ())),
        )


def _argument_to_json(argument: Argument) -> list[Any]:
    return [argument.name, [extents.to_json(extent) for extent in argument.shape], str(argument.dtype)]


def _argument_from_json(data: list[Any]) -> Argument:
    name, shape, dtype = data
    return Argument(str(name), tuple(map(extents.from_json, shape)), as_dtype(str(dtype)))


def c_name(name: str) -> str:
    """An identifier for C: other characters become underscores."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    return word if word and not word[0].isdigit() else f"_{word}"


def _c_type(dtype: DType) -> str:
    return _C_TYPES.get(dtype, f"{dtype}_t")
