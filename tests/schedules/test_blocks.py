"""Rows that a contraction reads are computed in blocks where whole intermediates would leave the cache, and nowhere else."""

import math
from typing import Any

import numpy as np
from scipy.special import softmax as scipy_softmax

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.analysis.fusion import inline_pointwise, raise_contractions
from tensorlang.schedules.strategies.analysis.stages import stages_of
from tensorlang.schedules.strategies.rows.row_blocks import block_rows
from tests.thinned import crossed

MACHINE = target("x86-64-v4")


def attention(*shape: Any, keys: int | None = None, **options: Any) -> Any:
    *lead, rows, width = shape
    Q = tl.placeholder(shape, name="Q")
    K, V = (tl.placeholder((*lead, keys or rows, width), name=name) for name in "KV")
    return tl.ops.attention(Q, K, V, **options)


def blocked(result: Any) -> tuple[tl.Schedule, Any]:
    s = tl.Schedule(result)
    inline_pointwise(s)
    return block_rows(raise_contractions(s, MACHINE), MACHINE)


def constants(shape: Any) -> list[Any]:
    return [extent.value for extent in shape]


def expected(q: Any, k: Any, v: Any, allowed: Any = True) -> Any:
    scores = np.where(allowed, q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]), -np.inf)
    return scipy_softmax(scores, axis=-1) @ v


@crossed(
    {
        "threads": [1, 2],
        "shape, keys": [
            ((3, 96, 16), 640),
            ((1, 384, 32), 384),
            ((2, 2, 197, 24), 197),
            ((2, 131, 8), 1100),
            ((480, 32), 480),
            ((1, 1, 64), 700),
            ((5, 8), 3),
        ],
    },
    count=4,
)
def test_attention_is_numpys_whatever_its_blocks(shape: tuple[int, ...], keys: int, threads: int) -> None:
    rng = np.random.default_rng(1)
    q = rng.standard_normal(shape)
    k, v = (rng.standard_normal((*shape[:-2], keys, shape[-1])) for _ in range(2))
    result = attention(*shape, keys=keys)
    strategy = choose((result,), target("native"), threads)
    kernel = tl.build(strategy.schedule(strategy.default))
    np.testing.assert_allclose(kernel(*(a.astype("f4") for a in (q, k, v))), expected(q, k, v), rtol=2e-4, atol=2e-5)


def test_masks_move_with_the_scores() -> None:
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((2, 512, 16)) for _ in range(3))
    result = attention(2, 512, 16, is_causal=True)
    assert blocked(result)[1].result == "attention"
    causal = np.tril(np.ones((512, 512), bool))
    np.testing.assert_allclose(tl.build(result)(*(a.astype("f4") for a in (q, k, v))), expected(q, k, v, causal), rtol=2e-4, atol=2e-5)


def test_a_block_stays_in_the_second_level_cache() -> None:
    s, blocks = blocked(attention(4, 2048, 64))
    assert blocks.shared == ("attention.b", "attention.l_o") and blocks.around == "attention.b"
    assert {"attention_dots", "attention_weights_exp", "attention_weights"} <= blocks.moved
    moved = [info for info in stages_of(s.nest) if info.name in blocks.moved]
    written = sum(4 * math.prod(map(int, constants(info.store.buffers[0].shape))) for info in moved)
    assert 0 < written < MACHINE.l2


def test_what_fits_the_cache_whole_stays_whole() -> None:
    s, blocks = blocked(attention(2, 32, 16))
    assert not blocks.moved and "attention" not in blocks and not s.directives


def test_operands_that_every_block_would_read_again_from_memory_weigh_more_than_small_intermediates() -> None:
    X, W, V = (tl.placeholder(shape, name=name) for name, shape in {"X": (64, 2048), "W": (8192, 2048), "V": (2048, 8192)}.items())
    assert not blocked(tl.ops.dense(tl.ops.gelu(tl.ops.dense(X, W)), V))[1].moved


def test_rows_of_any_number_are_never_refused() -> None:
    n = tl.dim("n")
    Q = tl.placeholder((2, n, 64), name="Q")
    K = tl.placeholder((2, 1024, 64), name="K")
    result = tl.ops.attention(Q, K, K)
    assert not blocked(result)[1].moved
    rng = np.random.default_rng(3)
    q, k = (rng.standard_normal(shape).astype("f4") for shape in ((2, 37, 64), (2, 1024, 64)))
    np.testing.assert_allclose(tl.build(result)(q, k), expected(q, k, k), rtol=2e-4, atol=2e-5)
