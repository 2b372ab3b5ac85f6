"""JAX: one jitted function of the operands that change; those that stay are constants in it."""

from __future__ import annotations

import functools
import math
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
    return missing("jax")


def functions() -> Mapping[str, Callable[[Mapping[str, int]], Function]]:
    """What one writes in JAX for each operator, from its attributes."""
    import jax  # noqa: PLC0415 - an optional peer
    from jax import numpy as jnp  # noqa: PLC0415 - an optional peer

    def matmul(a: Any, b: Any) -> Any:
        return jnp.matmul(a, b, preferred_element_type=jnp.int32 if a.dtype == jnp.uint8 else a.dtype)

    def convolution(at: Mapping[str, int], groups: int | None) -> Function:
        def call(x: Any, w: Any) -> Any:
            pads = [(at["padding"],) * 2] * 2
            return jax.lax.conv_general_dilated(x, w, (at["stride"],) * 2, pads, feature_group_count=groups or x.shape[1])

        return call

    def another(at: Mapping[str, int]) -> Function:
        def call(x: Any, w: Any) -> Any:
            rank = x.ndim - 2
            dilation = (at.get("dilation", 1),) * rank
            return jax.lax.conv_general_dilated(x, w, (at["stride"],) * rank, [(at["padding"],) * 2] * rank, rhs_dilation=dilation)

        return call

    def transposed(at: Mapping[str, int]) -> Function:
        def call(x: Any, w: Any) -> Any:
            pads = [(size - 1 - at["padding"],) * 2 for size in w.shape[2:]]
            turned = jnp.flip(w.swapaxes(0, 1), (2, 3))
            return jax.lax.conv_general_dilated(x, turned, (1, 1), pads, lhs_dilation=(at["stride"],) * 2)

        return call

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + plain.EPSILON) * weight + bias

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bhld,bhsd->bhls", q, k) * (1 / math.sqrt(q.shape[-1]))
        return jnp.einsum("bhls,bhsd->bhld", jax.nn.softmax(scores), v)

    def jacobi(steps: int) -> Function:
        def step(_: Any, a: Any) -> Any:
            inner = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[:-2, 1:-1] + a[2:, 1:-1])
            return jax.lax.dynamic_update_slice(a, inner, (1, 1))

        return lambda a: jax.lax.fori_loop(0, steps, step, a)

    return {
        "matmul": lambda _: matmul,
        "add": lambda _: jnp.add,
        "transpose": lambda _: jnp.transpose,
        "conv2d": lambda at: convolution(at, 1),
        "depthwise": lambda at: convolution(at, None),
        "convolution": another,
        "convolution_1d": another,
        "convolution_transposed": transposed,
        "softmax": lambda _: jax.nn.softmax,
        "layer_norm": lambda _: layer_norm,
        "gelu": lambda _: functools.partial(jax.nn.gelu, approximate=False),
        "chain": lambda _: lambda x: jnp.maximum(x * 1.5 + 0.25, 0) * x,
        "attention": lambda _: attention,
        "jacobi": lambda at: jacobi(at["steps"]),
        "harris": lambda at: functools.partial(plain.harris, at),
    }


SLOW: Final = frozenset({"depthwise"})
"""Grouped convolutions run at a hundredth of what others do here; one of them shows it."""


def make(workload: Workload, operands: Sequence[Array]) -> Makers:
    """One function."""
    return in_nchw(jitted, workload, operands)


def jitted(workload: Workload, operands: Sequence[Array]) -> Makers:
    """Where there is one that is not out of all proportion."""
    if workload.operator == "conv2d" and workload.in_bytes:  # it has no convolution of unsigned by signed bytes
        return {}
    grouped = workload.attributes.get("groups", 1) > 1 or (workload.operator in SLOW and workload.shapes[0][1] > 64)
    if workload.threads > 1 or grouped:
        return {}
    return {"": functools.partial(candidate, workload, operands)}


def candidate(workload: Workload, operands: Sequence[Array]) -> Candidate:
    """Compiled ahead; a call is over when its result is there."""
    import jax  # noqa: PLC0415 - an optional peer

    function = functions()[workload.operator](workload.attributes)
    held = [jax.device_put(array) for array in operands]
    moving = [array for place, array in enumerate(held) if place not in workload.constants]

    def whole(*arguments: Any) -> Any:
        rest = iter(arguments)
        return function(*(held[place] if place in workload.constants else next(rest) for place in range(len(held))))

    compiled = jax.jit(whole).lower(*moving).compile()

    def call() -> Any:
        return compiled(*moving).block_until_ready()

    return Candidate(call, np.asarray, allocates=True)
