"""Products of float32 matrices: with both operands new at every call, and with weights that stay.

Sizes: squares, odd ones, the three products of a BERT block (128 tokens), few rows, a batch of heads, a matrix by a vector.
"""

from __future__ import annotations

from typing import Final

from bench.peers.workload import Workload
from bench.peers.workloads.family import Family

BERT: Final = ((128, 768, 768), (128, 768, 3072), (128, 3072, 768))


def product(name: str, m: int, k: int, n: int, *, constant: bool = False) -> Workload:
    """(m, k) by (k, n); the machine's rate counts from 256 up."""
    return Workload(name, "matmul", ((m, k), (k, n)), 2 * m * k * n, constants=(1,) if constant else (), probe=min(m, k, n) >= 256)


def square(n: int, *, constant: bool = False) -> Workload:
    """(n, n) by (n, n)."""
    return product(f"matmul_{n}{'_weights' if constant else ''}", n, n, n, constant=constant)


def bert(suffix: str = "", *, constant: bool = False) -> tuple[Workload, ...]:
    """Projection, and the two products of the feed-forward part."""
    return tuple(product(f"matmul_bert_{m}x{k}x{n}{suffix}", m, k, n, constant=constant) for m, k, n in BERT)


BYTES: Final = 4 * (4096 * 4096 + 2 * 4096)

FAMILY: Final = Family(
    "matmul",
    "float32 matrix products",
    (
        *map(square, (64, 128, 256, 512, 1024, 2048, 127, 333, 1000)),
        *bert(),
        product("matmul_skinny_32x4096x4096", 32, 4096, 4096),
        Workload("matmul_batch_12x128x64x128", "matmul", ((12, 128, 64), (12, 64, 128)), 2 * 12 * 128 * 64 * 128),
        Workload("matvec_4096", "matmul", ((4096, 4096), (4096,)), BYTES, "GB/s"),
        Workload("vecmat_4096", "matmul", ((4096,), (4096, 4096)), BYTES, "GB/s"),
    ),
    geomean=1.05,
    least=0.95,
)

WEIGHTS: Final = Family(
    "weights",
    "float32 matrix products with constant weights",
    (
        *(square(n, constant=True) for n in (128, 512, 1024, 333)),
        *bert("_weights", constant=True),
        product("matmul_skinny_32x4096x4096_weights", 32, 4096, 4096, constant=True),
        Workload("vecmat_4096_weights", "matmul", ((4096,), (4096, 4096)), BYTES, "GB/s", constants=(1,)),
    ),
    geomean=1.05,
    least=0.95,
    note="The second operand is known before the first call: ours packs it once, ONNX Runtime and OpenVINO have it as an initializer.",
)
