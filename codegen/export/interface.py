"""What an exported kernel looks like from C: its entries, and the conditions under which a call is taken.

    int32_t name(inputs..., outputs..., dims...)              plain pointers; row-major and contiguous, or as the kernel was asked for
    int32_t name_dltensor(inputs..., outputs..., others...)   tensors of DLPack; dims that no shape fixes follow as int64_t
    const char *name_metadata(void)                           JSON

Conditions are expressions over dims, so that the C source and the machine code test the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy.typing as npt

from tensorlang.codegen.cache import identifiers
from tensorlang.codegen.cache.program import Program
from tensorlang.codegen.cache.signature import Argument
from tensorlang.ir import MOST, Binary, Compare, Const, Dim, Expr, Limit, const
from tensorlang.ir.dtype import BOOL, DType
from tensorlang.ir.traverse import children

NO_MEMORY: Final = 1
BAD_DIM: Final = 2
BAD_POINTER: Final = 3
BAD_TENSOR: Final = 4
BAD_SHAPE: Final = 5
BAD_PROCESSOR: Final = 6

ERRORS: Final[Mapping[str, tuple[int, str]]] = {
    "TENSORLANG_NO_MEMORY": (NO_MEMORY, "tensorlang_allocate gave none"),
    "TENSORLANG_BAD_DIM": (BAD_DIM, "an extent is outside its bounds"),
    "TENSORLANG_BAD_POINTER": (BAD_POINTER, "a pointer is null, or not aligned to its element type"),
    "TENSORLANG_BAD_TENSOR": (BAD_TENSOR, "a DLTensor is null, not of the CPU, or of another type or rank"),
    "TENSORLANG_BAD_SHAPE": (BAD_SHAPE, "a DLTensor has another shape, or lies otherwise in memory"),
    "TENSORLANG_BAD_PROCESSOR": (BAD_PROCESSOR, "no version in the library runs on this processor"),
}
"""What an entry returns besides 0. The inputs are untouched then; so are the outputs, but where memory ran out."""

_DLPACK_CODES: Final = {"signed": 0, "unsigned": 1, "floating": 2, "bool": 6}
_BFLOAT: Final = 4


@dataclass(frozen=True, slots=True)
class Interface:
    """The entries of a kernel: arguments that a caller passes (`bound` ones stand in the code), dims, and what is known of dims."""

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    all_inputs: tuple[Argument, ...]
    bound: Mapping[str, npt.NDArray[Any]]
    dims: tuple[str, ...]
    limits: tuple[Limit, ...]
    products: tuple[Expr, ...]

    @staticmethod
    def of(program: Program) -> Interface:
        """The interface of a program. Raises `BuildError` for names that C or C++ reserves."""
        signature = program.signature
        inputs = tuple(argument for argument in signature.inputs if argument.name not in program.bound)
        identifiers.require(signature.name, (*(argument.name for argument in (*inputs, *signature.outputs)), *signature.dims))
        return Interface(
            signature.name, inputs, signature.outputs, signature.inputs, program.bound, signature.dims, signature.limits, signature.products
        )

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The tensors that a caller passes, in order."""
        return (*self.inputs, *self.outputs)

    @property
    def words(self) -> dict[str, str]:
        """What parameters are called in C, by the names of tensors and dims: a result that is named as the kernel is called otherwise."""
        names = [*(argument.name for argument in self.arguments), *self.dims]
        spelled = self.name
        while spelled in names:
            spelled = f"out_{spelled}"
        return {name: spelled if name == self.name else name for name in names}

    @property
    def met(self) -> frozenset[str]:
        """The arguments that may lie in one place: results, and the inputs over which they may be written."""
        pairs = ((argument.name, self.all_inputs[argument.over].name) for argument in self.outputs if argument.over is not None)
        return frozenset(name for pair in pairs for name in pair)

    @property
    def fixed(self) -> dict[str, tuple[int, int]]:
        """The dims that the shape of a tensor gives: which tensor, and which of its axes."""
        found: dict[str, tuple[int, int]] = {}
        for place, argument in enumerate(self.arguments):
            for axis, extent in enumerate(argument.shape):
                if isinstance(extent, Dim):
                    found.setdefault(extent.name, (place, axis))
        return found

    @property
    def others(self) -> tuple[str, ...]:
        """The dims that no tensor fixes."""
        return tuple(dim for dim in self.dims if dim not in self.fixed)

    def dim_conditions(self) -> Iterator[tuple[str, Expr]]:
        """What has to hold of dims, with the name to blame, in an order in which no test overflows."""
        bounds = {name: (least, most) for name, least, most in self.limits}
        for dim in self.dims:
            least, most = bounds.get(dim, (0, MOST))
            above, below = Compare("ge", Dim(dim), const(least)), Compare("le", Dim(dim), const(most))
            yield dim, Binary("and", above, below)
        for product in self.products:
            for left, right in _factors(product):
                room = Compare("le", left, Binary("floordiv", const(MOST), right))
                yield "", Binary("or", Compare("le", right, const(0)), room)
            yield "", Compare("le", product, const(MOST))


def holds_elements(argument: Argument) -> Expr:
    """Whether a tensor has elements, so that its pointer must not be null."""
    found: Expr = Const(True, BOOL)
    for extent in argument.shape:
        if isinstance(extent, Const):
            if extent.value == 0:
                return Const(False, BOOL)
        else:
            positive = Compare("gt", extent, const(0))
            found = positive if isinstance(found, Const) else Binary("and", found, positive)
    return found


def _factors(expr: Expr) -> Iterator[tuple[Expr, Expr]]:
    """The operands of products in an extent, inner products first."""
    for part in children(expr):
        yield from _factors(part)
    if isinstance(expr, Binary) and expr.op == "mul":
        yield expr.left, expr.right


def dlpack_type(dtype: DType) -> tuple[int, int]:
    """The code and the bits by which DLPack knows a type."""
    return _BFLOAT if dtype == "bfloat16" else _DLPACK_CODES[dtype.kind], dtype.bits
