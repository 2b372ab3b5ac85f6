"""What a kernel takes and gives: named arguments with shapes and types, in the order of the C function."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tensorlang.codegen.cache import extents
from tensorlang.definition.extent import MAX_EXTENT, checked_name
from tensorlang.ir import Const, Expr, Limit
from tensorlang.ir.dtype import DType
from tensorlang.ir.printer import text
from tensorlang.serialization.spelling import MAX_RANK, fail, read_dtype, read_list, read_number, read_record, read_text

MAX_ARGUMENTS: Final = 1024
"""Of one function: as many as `ctypes` passes."""

_LONGEST: Final = 4096

_C_TYPES: Final = {
    "bool": "bool",
    "float16": "uint16_t",  # the bits: C has no portable name for the type
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
}


@dataclass(frozen=True, slots=True)
class Argument:
    """One tensor: its extents are constants or arithmetic over the dims of the signature.

    `strides` say how it lies in memory, in elements, one for each axis; without any it is in C order. A result may lie where the input in
    the place `over` lies, if there is one.
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    strides: tuple[int, ...] = ()
    over: int | None = None

    def __str__(self) -> str:
        lies = f" with strides {self.strides}" if self.strides else ""
        return f"{self.dtype}[{', '.join(text(extent) for extent in self.shape)}]{lies}"


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a kernel: inputs, then outputs, then run-time dims, as the C function takes them; some dims have bounds.

    `products` are the extents inside the kernel in which dims are multiplied: they have to be extents as well. `order` are the places of
    the inputs in the order in which a call from Python passes them, where that is another one.
    """

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    dims: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    products: tuple[Expr, ...] = ()
    order: tuple[int, ...] = ()

    @property
    def passed(self) -> tuple[Argument, ...]:
        """The inputs in the order in which a call from Python passes them."""
        return tuple(self.inputs[place] for place in self.order) if self.order else self.inputs

    def under(self, name: str, inputs: Sequence[str], outputs: Sequence[str], order: tuple[int, ...] = ()) -> Signature:
        """The same function as a caller knows it: its name and those of its arguments, as they stand here, and the order of a call."""
        ins, outs = (
            tuple(replace(argument, name=label) for argument, label in zip(arguments, labels, strict=True))
            for arguments, labels in ((self.inputs, inputs), (self.outputs, outputs))
        )
        return replace(self, name=name, inputs=ins, outputs=outs, order=() if order == tuple(range(len(order))) else order)

    def seen_as(self, other: Signature) -> Signature:
        """The same function, with the shapes and strides of another signature of it for arguments that lie in an order of their own."""
        ins, outs = (
            tuple(replace(mine, shape=own.shape, strides=own.strides) if own.strides else mine for mine, own in zip(*sides, strict=True))
            for sides in ((self.inputs, other.inputs), (self.outputs, other.outputs))
        )
        return replace(self, inputs=ins, outputs=outs)

    @property
    def is_placed(self) -> bool:
        """Does some argument lie in memory otherwise than in C order, or may lie where another one does?"""
        return any(argument.strides or argument.over is not None for argument in (*self.inputs, *self.outputs))

    @property
    def prototype(self) -> str:
        """The C declaration of the kernel. It returns 0, or 1 where memory for a workspace could not be allocated."""
        inputs = [f"const {c_type(argument.dtype)} *{c_name(argument.name)}" for argument in self.inputs]
        outputs = [f"{c_type(argument.dtype)} *{c_name(argument.name)}" for argument in self.outputs]
        dims = [f"int64_t {c_name(dim)}" for dim in self.dims]
        return f"int32_t {c_name(self.name)}({', '.join(inputs + outputs + dims) or 'void'})"

    def __str__(self) -> str:
        """As a call looks from Python: `matmul(A: float32[32, 16], B: float32[16, 48]) -> C: float32[32, 48]`."""
        inputs = ", ".join(f"{argument.name}: {argument}" for argument in self.passed)
        outputs = ", ".join(f"{argument.name}: {argument}{self._over(argument)}" for argument in self.outputs)
        bounds = "".join(f", {least} <= {name} <= {most}" for name, least, most in self.limits)
        return f"{self.name}({inputs}) -> {outputs}{bounds}"

    def _over(self, argument: Argument) -> str:
        return "" if argument.over is None else f" over {self.inputs[argument.over].name}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, read back by `from_json`."""
        return {
            "name": self.name,
            "inputs": [_argument_to_json(argument) for argument in self.inputs],
            "outputs": [_argument_to_json(argument) for argument in self.outputs],
            "dims": list(self.dims),
            "limits": [list(limit) for limit in self.limits],
            "products": [extents.to_json(extent) for extent in self.products],
            "order": list(self.order),
        }

    @staticmethod
    def from_json(data: object) -> Signature:
        """The signature that `to_json` wrote. Raises `ValueError` or `DefinitionError` for anything else."""
        record = read_record(data, "signature", ("name", "inputs", "outputs", "dims", "limits", "products", "order"))
        dims = tuple(_name(dim, "signature, dims") for dim in read_list(record["dims"], "signature, dims", MAX_ARGUMENTS))
        inputs, outputs = (
            tuple(_argument_from_json(entry, f"signature, {side}", dims) for entry in read_list(record[side], side, MAX_ARGUMENTS))
            for side in ("inputs", "outputs")
        )
        for names in (dims, [argument.name for argument in inputs], [argument.name for argument in outputs]):
            if len(set(names)) < len(names):
                fail("signature", "different names", names)
        if len(inputs) + len(outputs) + len(dims) > MAX_ARGUMENTS:
            fail("signature", f"at most {MAX_ARGUMENTS} arguments", inputs)
        limits = tuple(_limit_from_json(entry, dims) for entry in read_list(record["limits"], "signature, limits", MAX_ARGUMENTS))
        products = tuple(extents.from_json(entry, dims) for entry in read_list(record["products"], "signature, products", MAX_ARGUMENTS))
        for argument in (*inputs, *outputs):
            if argument.over is not None and (argument in inputs or argument.over >= len(inputs)):
                fail("signature, over", "the place of an input, of a result", argument.over)
        order = tuple(read_number(place, "signature, order", MAX_ARGUMENTS) for place in read_list(record["order"], "order", MAX_ARGUMENTS))
        if order and sorted(order) != list(range(len(inputs))):
            fail("signature, order", "every input once", order)
        return Signature(_name(record["name"], "signature, name"), inputs, outputs, dims, limits, products, order)


def _argument_to_json(argument: Argument) -> list[Any]:
    over = [] if argument.over is None else [argument.over]
    lies = [list(argument.strides)] if argument.strides or over else []
    return [argument.name, [extents.to_json(extent) for extent in argument.shape], str(argument.dtype), *lies, *over]


def _argument_from_json(data: object, where: str, dims: tuple[str, ...]) -> Argument:
    name, shape, dtype, *rest = read_list(data, where, 5, max(3, len(data)) if isinstance(data, list) else 3)
    lies, over = rest[:1], rest[1:]
    sizes = tuple(extents.from_json(extent, dims) for extent in read_list(shape, f"{where}, shape", MAX_RANK))
    if not all(0 <= extent.value <= MAX_EXTENT for extent in sizes if isinstance(extent, Const)):
        fail(f"{where}, shape", "extents from 0 to 2**48", shape)
    steps = tuple(read_number(step, f"{where}, strides", MAX_EXTENT + 1) for part in lies for step in read_list(part, where, MAX_RANK))
    below = read_number(over[0], f"{where}, over", MAX_ARGUMENTS) if over else None
    if lies and len(steps) != (0 if over and not steps else len(sizes)):
        fail(f"{where}, strides", "one for each axis", lies)
    return Argument(_name(name, where), sizes, read_dtype(dtype, where), steps, below)


def _limit_from_json(data: object, dims: tuple[str, ...]) -> Limit:
    dim, *ends = read_list(data, "signature, limits", 3, 3)
    least, most = (read_number(end, "signature, limits", MAX_EXTENT + 1) for end in ends)
    if dim not in dims or least > most:
        fail("signature, limits", "a dim, its least and its greatest value", data)
    return _name(dim, "signature, limits"), least, most


def _name(value: object, where: str) -> str:
    return checked_name(read_text(value, where, _LONGEST), f"a part of the {where}")


def c_name(name: str) -> str:
    """An identifier for C: other characters become underscores."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    return word if word and not word[0].isdigit() else f"_{word}"


def c_type(dtype: DType) -> str:
    """The type of an element in C; halves are the bits."""
    return _C_TYPES.get(dtype, f"{dtype}_t")
