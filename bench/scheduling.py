"""What scheduling itself costs: a whole schedule, a question, the dearest directive on the shipped operators, and a build."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import tensorlang as tl
from bench import startup
from bench.measure import Figure
from tensorlang import ops
from tensorlang.definition.tensor import Tensor

ROUNDS = 15


def matmul(n: int = 512) -> Tensor:
    """A float32 product of square matrices."""
    return ops.matmul(tl.placeholder((n, n), name="A"), tl.placeholder((n, n), name="B"))


def fifteen_directives(product: Tensor) -> tl.Schedule:
    """A blocked, packed, register-tiled, parallel product."""
    s = tl.Schedule(product)
    stage = s.stages()[-1]
    i, j, k = s.loops(stage)
    i_b, i_r = s.split(i, 96)
    i_o, i_i = s.split(i_r, 6, tail="peel")
    j_o, j_i = s.split(j, 64, tail="peel")
    k_o, k_r = s.split(k, 128)
    k_b, k_i = s.split(k_r, 2)
    s.reorder(j_o, k_o, i_b, i_o, k_b, k_i, i_i, j_i)
    s.pack("B", at=k_o)
    copy = s.loops("B_pack")
    s.reorder(*copy)
    s.vectorize(copy[-1])
    s.accumulate(stage, at=i_o)
    s.vectorize(j_i)
    s.unroll(i_i)
    s.unroll(k_i)
    s.parallel(j_o)
    s.can("parallel", i_b)
    assert len(s.directives) >= 14
    return s


def operators() -> dict[str, Tensor]:
    """One small instance of each kind of shipped operator."""

    def p(*shape: int) -> Tensor:
        return tl.placeholder(shape)

    return {
        "matmul": matmul(),
        "dense": ops.dense(p(64, 96), p(80, 96), p(80)),
        "conv2d": ops.conv2d(p(1, 16, 28, 28), p(32, 16, 3, 3), padding=1),
        "depthwise_conv2d": ops.depthwise_conv2d(p(1, 16, 28, 28), p(16, 1, 3, 3), padding=1),
        "max_pool2d": ops.max_pool2d(p(1, 16, 28, 28), 2),
        "softmax": ops.softmax(p(64, 100)),
        "layer_norm": ops.layer_norm(p(64, 96), (96,)),
        "gelu": ops.gelu(p(64, 96)),
        "attention": ops.attention(p(2, 32, 16), p(2, 32, 16), p(2, 32, 16)),
    }


def seconds(call: Callable[[], Any]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def questions() -> tuple[list[float], dict[str, float]]:
    """The time of every question about every loop of every operator, and the dearest step by operator."""
    asked: list[float] = []
    dearest: dict[str, float] = {}
    for name, tensor in operators().items():
        s = tl.Schedule(tensor)
        for stage in s.stages():
            for loop in s.loops(stage):
                kinds = [("parallel", loop), ("vectorize", loop), ("unroll", loop), ("split", loop, 8, "shift"), ("rfactor", loop)]
                for question in [*((move,) for move in s.legal_moves(loop)), *kinds]:
                    asked.append(seconds(lambda s=s, question=question: s.can(*question)))  # type: ignore[misc]
                    dearest[name] = max(dearest.get(name, 0.0), asked[-1])
    return asked, dearest


def figures() -> list[Figure]:
    """The figures of the scheduling language and of building."""
    product = matmul()
    fifteen_directives(product)
    whole = [seconds(lambda: fifteen_directives(product)) for _ in range(ROUNDS)]
    asked, dearest = questions()
    return [
        Figure("a schedule of 15 directives, matmul 512", statistics.median(whole) * 1e3, 60.0, "at most", "ms", {"samples": whole}),
        Figure("s.can, median over the shipped operators", statistics.median(asked) * 1e3, 5.0, "at most", "ms", {"questions": len(asked)}),
        Figure("the dearest directive on the shipped operators", max(asked) * 1e3, 50.0, "at most", "ms", {"by_operator": dearest}),
        *startup.builds(),
    ]
