"""PyTorch: eager (MKL, oneDNN), channels last, and `torch.compile` with weights frozen in."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from bench.peers import plain
from bench.peers.engines import Candidate, Makers, missing
from bench.peers.layouts import in_nchw
from bench.peers.workload import Array, Workload

Function = Callable[..., Any]


def available() -> str | None:
    """Why not, if not."""
    return missing("torch")


def functions() -> Mapping[str, Callable[[Mapping[str, int]], Function]]:
    """What one writes in torch for each operator, from its attributes."""
    import torch  # noqa: PLC0415 - an optional peer
    from torch.nn import functional as nn  # noqa: PLC0415 - an optional peer

    def product(a: Any, b: Any, **out: Any) -> Any:
        return torch.mv(b.t(), a, **out) if a.dim() == 1 else torch.matmul(a, b, **out)  # matmul's out= does not take (n,) by (n, m)

    def jacobi(steps: int) -> Function:
        def call(a: Any) -> Any:
            old, new = a.clone(), a.clone()
            for _ in range(steps):
                new[1:-1, 1:-1] = 0.2 * (old[1:-1, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:] + old[:-2, 1:-1] + old[2:, 1:-1])
                old, new = new, old
            return old

        return call

    return {
        "matmul": lambda _: product,
        "add": lambda _: torch.add,
        "transpose": lambda _: lambda a: a.t().contiguous(),
        "conv2d": lambda at: lambda x, w: nn.conv2d(x, w, stride=at["stride"], padding=at["padding"]),
        "depthwise": lambda at: lambda x, w: nn.conv2d(x, w, stride=at["stride"], padding=at["padding"], groups=x.shape[1]),
        "convolution": lambda at: (
            lambda x, w: nn.conv2d(
                x, w, stride=at["stride"], padding=at["padding"], dilation=at.get("dilation", 1), groups=at.get("groups", 1)
            )
        ),
        "convolution_transposed": lambda at: lambda x, w: nn.conv_transpose2d(x, w, stride=at["stride"], padding=at["padding"]),
        "convolution_1d": lambda at: lambda x, w: nn.conv1d(x, w, stride=at["stride"], padding=at["padding"]),
        "softmax": lambda _: lambda x: torch.softmax(x, -1),
        "layer_norm": lambda _: lambda x, weight, bias: nn.layer_norm(x, weight.shape, weight, bias, plain.EPSILON),
        "gelu": lambda _: nn.gelu,
        "chain": lambda _: lambda x: torch.relu(x * 1.5 + 0.25) * x,
        "attention": lambda _: nn.scaled_dot_product_attention,
        "jacobi": lambda at: jacobi(at["steps"]),
        "harris": lambda at: functools.partial(plain.harris, at),
    }


OUT: Final = frozenset({"matmul", "add", "softmax"})
"""Operators that take `out=`."""
FORMATS: Final = frozenset({"conv2d", "depthwise", "convolution", "convolution_transposed"})
ROWS: Final = frozenset({"softmax", "layer_norm", "gelu", "chain", "transpose", "attention"})
COMPILED: Final = FORMATS | ROWS | {"convolution_1d", "harris", "matmul"}


def make(workload: Workload, operands: Sequence[Array]) -> Makers:
    """By what is there for the workload, or for the same in NCHW."""
    return in_nchw(variants, workload, operands)


def variants(workload: Workload, operands: Sequence[Array]) -> Makers:
    """Eager always; channels last for images; compiled where Inductor generates or chooses code of its own."""
    if workload.operator == "conv2d" and workload.in_bytes:
        made = {"": functools.partial(quantized, workload, operands, last=False)}
        return made | {"channels last": functools.partial(quantized, workload, operands, last=True)}
    made = {"": functools.partial(eager, workload, operands)}
    if workload.operator in FORMATS:
        made["channels last"] = functools.partial(eager, workload, operands, last=True)
    if workload.operator in COMPILED and workload.plain_types:
        made["compile"] = functools.partial(compiled, workload, operands)
    return made


def tensors(operands: Sequence[Array]) -> list[Any]:
    """Without a copy; bfloat16 by way of its bits, unsigned bytes as signed ones, which `_int_mm` takes."""
    import torch  # noqa: PLC0415 - an optional peer

    def tensor(array: Array) -> Any:
        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
        return torch.from_numpy(array.view("int8") if array.dtype == np.uint8 else array)

    return [tensor(array) for array in operands]


def result(outcome: Any) -> Array:
    """Any tensor, as an array of the workload's layout."""
    import torch  # noqa: PLC0415 - an optional peer

    array: Array = (outcome.float() if outcome.dtype == torch.bfloat16 else outcome).contiguous().numpy()
    return array


def eager(workload: Workload, operands: Sequence[Array], *, last: bool = False) -> Candidate:
    """A call of the function, into a tensor that is there where torch offers that; where not, torch allocates."""
    import torch  # noqa: PLC0415 - an optional peer

    torch.set_num_threads(workload.threads)
    torch.set_grad_enabled(False)
    given = tensors(operands)
    if workload.in_bytes:
        return Candidate(functools.partial(torch._int_mm, *given), result, allocates=True, note="signed by signed")  # noqa: SLF001 - all there is
    function = functions()[workload.operator](workload.attributes)
    if last:
        given = [tensor.contiguous(memory_format=torch.channels_last) for tensor in given]
        return Candidate(functools.partial(function, *given), result, allocates=True, aside="NHWC in and out")
    if workload.operator in OUT:
        room = torch.empty_like(function(*given))
        function = torch.ops.aten._softmax.out if workload.operator == "softmax" else function  # noqa: SLF001 - torch.softmax has no out=
        arguments = (*given, -1, False) if workload.operator == "softmax" else tuple(given)
        return Candidate(functools.partial(function, *arguments, out=room), result)
    return Candidate(functools.partial(function, *given), result, allocates=True)


def quantized(workload: Workload, operands: Sequence[Array], *, last: bool) -> Candidate:
    """oneDNN's convolution of bytes with all scales 1, as a quantised program calls it: its sums come as float32, channels last."""
    import torch  # noqa: PLC0415 - an optional peer

    torch.set_num_threads(workload.threads)
    torch.set_grad_enabled(False)
    x, w = map(torch.from_numpy, operands)
    stride, padding, dilation = [workload.attributes["stride"]] * 2, [workload.attributes["padding"]] * 2, [1, 1]
    ones, zeros = torch.ones(w.shape[0]), torch.zeros(w.shape[0], dtype=torch.int64)
    packed = torch.ops.onednn.qconv_prepack(w, ones, 1.0, 0, stride, padding, dilation, 1, list(x.shape))
    given = x.contiguous(memory_format=torch.channels_last) if last else x
    geometry = (stride, padding, dilation, 1)
    arguments: tuple[Any, ...] = (given, 1.0, 0, packed, ones, zeros, None, *geometry, 1.0, 0, torch.float32, "none", [], "")
    if last:
        function = functools.partial(torch.ops.onednn.qconv2d_pointwise, *arguments)
        return Candidate(function, result, allocates=True, aside="NHWC in and out", note="sums in float32")

    def call() -> Any:
        return torch.ops.onednn.qconv2d_pointwise(*arguments).contiguous()

    return Candidate(call, result, allocates=True, note="sums in float32")


def compiled(workload: Workload, operands: Sequence[Array]) -> Candidate:
    """`torch.compile`; operands that stay are parameters of a module, which freezing lets Inductor pack."""
    import torch  # noqa: PLC0415 - an optional peer
    from torch._inductor import config  # noqa: PLC0415 - an optional peer

    torch.set_num_threads(workload.threads)
    torch.set_grad_enabled(False)
    config.freezing = bool(workload.constants)
    config.cpp.threads = workload.threads
    function = functions()[workload.operator](workload.attributes)
    given = tensors(operands)

    module = torch.nn.Module()
    for place in workload.constants:
        setattr(module, f"w{place}", torch.nn.Parameter(given[place], requires_grad=False))

    def forward(*moving: Any) -> Any:
        rest = iter(moving)
        return function(*(getattr(module, f"w{place}") if place in workload.constants else next(rest) for place in range(len(given))))

    module.forward = forward
    torch.compiler.reset()
    call = torch.compile(module.eval())
    moving = [tensor for place, tensor in enumerate(given) if place not in workload.constants]
    call(*moving)
    return Candidate(functools.partial(call, *moving), result, allocates=True)
