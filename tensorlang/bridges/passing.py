"""What a kernel takes and gives, as other libraries are told: tensors that are passed, and extents from shapes, which may be symbolic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorlang.codegen.cache.signature import Argument, Signature
from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.definition.extent import beyond
from tensorlang.errors import BuildError, CallError
from tensorlang.ir import Const, Dim, Limit
from tensorlang.ir.integers import value_of


@dataclass(frozen=True, slots=True)
class Passing:
    """The inputs that a call passes, in its order; the outputs; and which axis of which input fixes a dim.

    `told` are the other dims, `limits` the bounds of all.
    """

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    fixed: Mapping[str, tuple[int, int]]
    told: tuple[str, ...]
    limits: tuple[Limit, ...]

    @staticmethod
    def of(kernel: Kernel) -> Passing:
        """What a kernel takes. Raises `BuildError` for what is no kernel, or one with strides of its own."""
        if not isinstance(kernel, Kernel):
            raise BuildError(f"a bridge takes a kernel, as tl.build and kernels.compile give it, not {kernel!r:.60}")
        _ = kernel.address  # of a foreign target: a CallError that says so
        signature: Signature = kernel.program.signature
        if signature.is_placed:
            raise BuildError(
                f"{signature}: a bridge takes kernels whose arguments lie in C order and apart; build it without strides= and over="
            )
        inputs = tuple(argument for argument in signature.passed if argument.name not in kernel.program.bound)
        fixed: dict[str, tuple[int, int]] = {}
        for place, argument in enumerate(inputs):
            for axis, extent in enumerate(argument.shape):
                if isinstance(extent, Dim):
                    fixed.setdefault(extent.name, (place, axis))
        told = tuple(name for name in signature.dims if name not in fixed)
        return Passing(signature.name, inputs, signature.outputs, fixed, told, signature.limits)

    def result_shapes(self, shapes: Sequence[Sequence[Any]], types: Sequence[str], told: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The shapes of the outputs for inputs of these shapes and types; nothing runs. Raises `CallError` for what no call takes."""
        if len(shapes) != len(self.inputs):
            raise CallError(f"{self.name}: expected {len(self.inputs)} inputs, got {len(shapes)}")
        for argument, shape, dtype in zip(self.inputs, shapes, types, strict=True):
            wrong = dtype != str(argument.dtype) or len(shape) != len(argument.shape)
            if wrong or any(
                isinstance(extent, Const) and size != int(extent.value) for extent, size in zip(argument.shape, shape, strict=True)
            ):
                found = f"{dtype}[{', '.join(map(str, shape))}]"
                raise CallError(f"{self.name}: argument {argument.name!r}: expected {argument}, got {found}")
        dims = {name: shapes[place][axis] for name, (place, axis) in self.fixed.items()} | dict(zip(self.told, told, strict=True))
        for name, size in dims.items():
            if isinstance(size, int) and (reason := beyond(name, size, self.limits)):  # one that is traced is known when it runs
                raise CallError(f"{self.name}: {reason}")
        return [tuple(value_of(extent, dims) for extent in argument.shape) for argument in self.outputs]
