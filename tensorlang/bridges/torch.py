"""Kernels as operators of torch: in eager mode, under `torch.compile` without a break of the graph, and in exported programs.

An operator has a fake implementation, which gives shapes and types for any sizes, so that tracing runs no kernel. It has no gradient:
`torch.library.register_autograd` gives it one.
"""

from __future__ import annotations

import keyword
import re
from typing import Any

from tensorlang.bridges.packages import required
from tensorlang.bridges.passing import Passing
from tensorlang.codegen.cache.signature import c_name
from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.errors import BuildError


def op(kernel: Kernel, name: str) -> Any:
    """Register a kernel as the operator `name`, "ns::name", of tensors on the CPU, and return it: `torch.ops.ns.name.default`.

    It takes the kernel's inputs in order, then dims that no axis of an input is, and returns new tensors, one or a tuple. Inputs are passed
    without copies where they are contiguous. A call raises `CallError` as the kernel does.
    Raises `BuildError` where torch is not installed, for a name of another form, and for one that is taken.
    """
    torch = required("torch", "torch")
    passing = Passing.of(kernel)
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*::[A-Za-z_]\w*", name):
        raise BuildError(f"an operator of torch is named as 'ns::name', not {name!r:.60}")
    namespace, own = name.split("::")
    if hasattr(getattr(torch.ops, namespace), own):
        raise BuildError(f"there is an operator {name!r} already; name this one otherwise")
    types = [getattr(torch, str(argument.dtype)) for argument in passing.outputs]
    count, several = len(passing.inputs), len(passing.outputs) > 1

    def run(*arguments: Any) -> Any:
        tensors, told = [tensor.detach() for tensor in arguments[:count]], dict(zip(passing.told, arguments[count:], strict=True))
        made = results(*arguments)
        kernel(*tensors, out=made, **told)
        return made

    def results(*arguments: Any) -> Any:
        tensors, told = arguments[:count], arguments[count:]
        given = [str(tensor.dtype).removeprefix("torch.") for tensor in tensors]
        shapes = passing.result_shapes([tensor.shape for tensor in tensors], given, told)
        made = tuple(torch.empty(shape, dtype=dtype) for shape, dtype in zip(shapes, types, strict=True))
        return made if several else made[0]

    labels = _labels([argument.name for argument in passing.inputs] + list(passing.told))
    parameters = [f"Tensor {label}" for label in labels[:count]] + [f"SymInt {label}" for label in labels[count:]]
    given = ", ".join(["Tensor"] * len(types))
    schema = f"({', '.join(parameters)}) -> {f'({given})' if several else given}"
    made = torch.library.custom_op(name, run, mutates_args=(), device_types="cpu", schema=schema)
    made.register_fake(results)
    return getattr(getattr(torch.ops, namespace), own).default


def _labels(names: list[str]) -> list[str]:
    """Different identifiers for names, as Python has them."""
    made: list[str] = []
    for name in names:
        label = c_name(name)
        while label in made or keyword.iskeyword(label):
            label += "_"
        made.append(label)
    return made
