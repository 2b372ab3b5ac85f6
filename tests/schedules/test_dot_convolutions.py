"""Convolutions of narrow numbers whose channels lie apart are computed by dot products: their image is written in blocks of products."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.strategies import choose

SHAPES = [  # channels, outputs, height and width, window, stride, padding
    (8, 16, 14, 3, 1, 1),
    (6, 20, 11, 3, 1, 1),
    (5, 7, 19, 3, 2, 1),
    (12, 33, 9, 3, 1, 0),
    (3, 16, 23, 7, 2, 3),
    (1, 8, 12, 5, 1, 2),
    (16, 24, 13, 1, 1, 0),
    (18, 12, 7, 1, 2, 0),
]
BYTES = ("uint8", "int8")
OTHERS = [("int8", "uint8"), ("int8", "int8"), ("bfloat16", "bfloat16"), ("float16", "float16")]
CASES = [
    *((shape, BYTES) for shape in SHAPES[::2]),
    *(pytest.param(shape, BYTES, marks=pytest.mark.slow) for shape in SHAPES[1::2]),
    *((SHAPES[1], kinds) for kinds in OTHERS[::2]),
    *(pytest.param(SHAPES[1], kinds, marks=pytest.mark.slow) for kinds in OTHERS[1::2]),
    *(pytest.param(SHAPES[4], kinds, marks=pytest.mark.slow) for kinds in OTHERS),
]


def convolution(shape: tuple[int, ...], kinds: tuple[str, str], images: int = 1) -> Tensor:
    """An image by channels, weights by output channel; sums in int32 or float32."""
    channels, outputs, size, window, stride, pad = shape
    sums = "int32" if "int8" in kinds else "float32"
    x = tl.placeholder((images, channels, size, size), kinds[0], name="X")
    w = tl.placeholder((outputs, channels, window, window), kinds[1], name="W")
    source = tl.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad))) if pad else x
    c, r, s = (tl.reduce_axis(extent, name=name) for extent, name in ((channels, "c"), (window, "r"), (window, "s")))
    out = (size + 2 * pad - window) // stride + 1

    def element(n: Any, o: Any, y: Any, z: Any) -> Any:
        return tl.sum(tl.cast(source[n, c, stride * y + r, stride * z + s], sums) * tl.cast(w[o, c, r, s], sums), axis=(c, r, s))

    result: Tensor = tl.compute((images, outputs, out, out), element, name="C")
    return result


def operand(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> Any:
    """Random values, the least and the greatest among them."""
    if "float" in kind:
        return rng.standard_normal(shape).astype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, endpoint=True).astype(kind)


def operands(shape: tuple[int, ...], kinds: tuple[str, str], images: int = 1) -> tuple[Any, Any]:
    """An image and weights."""
    channels, outputs, size, window, *_ = shape
    rng = np.random.default_rng(0)
    return operand(rng, (images, channels, size, size), kinds[0]), operand(rng, (outputs, channels, window, window), kinds[1])


def expected(shape: tuple[int, ...], x: Any, w: Any) -> Any:
    """Windows times weights in 64 bits."""
    *_, window, stride, pad = shape
    padded = np.pad(x.astype("float64"), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), axis=(2, 3))[:, :, ::stride, ::stride]
    return np.einsum("ncyzij,ocij->noyz", windows, w.astype("float64"))


def agree(found: Any, wanted: Any, kinds: tuple[str, str]) -> None:
    """Exactly for bytes, nearly for others."""
    tolerance = 0 if "int8" in kinds else 1e-3
    np.testing.assert_allclose(np.asarray(found, "float64"), wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())


@pytest.mark.parametrize(("shape", "kinds"), CASES, ids=str)
def test_the_default_is_the_convolution(shape: tuple[int, ...], kinds: tuple[str, str]) -> None:
    x, w = operands(shape, kinds)
    kernel = tl.build(convolution(shape, kinds))
    agree(kernel(x, w), expected(shape, x, w), kinds)
    agree(kernel.prepack(W=w)(x), expected(shape, x, w), kinds)


@pytest.mark.parametrize("spec", ["x86-64-v3", "x86-64"])
@pytest.mark.parametrize("kinds", [BYTES, ("bfloat16", "bfloat16")], ids="-".join)
def test_it_is_the_same_on_a_target_without_the_instruction(spec: str, kinds: tuple[str, str]) -> None:
    if not target(spec).is_native:
        pytest.skip(f"runs code for {spec}")
    shape = SHAPES[1]
    result = convolution(shape, kinds)
    assert (choose(result, target(spec), 1).name == "dots") == (spec == "x86-64-v3" and kinds == BYTES)  # by products of words
    x, w = operands(shape, kinds)
    agree(tl.build(result, target=spec)(x, w), expected(shape, x, w), kinds)


def test_a_schedule_of_blocks_means_the_same_where_the_instruction_is_missing() -> None:
    shape, kinds = SHAPES[1], BYTES
    strategy = choose(convolution(shape, kinds), target("sapphirerapids"), 1)
    schedule = strategy.schedule(strategy.default)
    assert "dpbusd" in str(schedule)
    x, w = operands(shape, kinds)
    agree(tl.build(schedule, target="x86-64-v3" if target("x86-64-v3").is_native else None)(x, w), expected(shape, x, w), kinds)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bytes_are_computed_by_dot_products(shape: tuple[int, ...]) -> None:
    constants = frozenset({"W"})
    assert choose(convolution(shape, BYTES), target("sapphirerapids"), 1, constants).name == "dots"


def test_a_padded_image_is_written_in_blocks_and_an_argument_is_copied_into_them() -> None:
    for pad, name in ((1, "X_pad"), (0, "X_cache")):
        strategy = choose(convolution((16, 32, 20, 3, 1, pad), BYTES), target("sapphirerapids"), 1, frozenset({"W"}))
        size = 20 + 2 * pad
        assert f"{name}: uint8[1, 4, {size}, {size}, 4]" in str(strategy.schedule(strategy.default))


def test_several_images_and_every_point_of_the_space() -> None:
    shape, kinds = (8, 20, 10, 3, 1, 1), BYTES
    x, w = operands(shape, kinds, images=3)
    result = convolution(shape, kinds, images=3)
    strategy = choose(result, target(), 2)
    assert strategy.space.contains(strategy.default)
    for config in [strategy.default, *strategy.space.sample(np.random.default_rng(0), 1)]:
        agree(tl.build(strategy.schedule(config))(x, w), expected(shape, x, w), kinds)


def test_halves_are_widened_without_waiting_for_a_sum() -> None:
    """LLVM inserts a half from memory into any register, a sum too, where it is free to."""
    code = tl.build(convolution((16, 32, 14, 3, 1, 1), ("float16", "float16")), target="x86-64-v4").inspect("asm")
    assert "vcvtph2ps" in code
    assert "vpinsrw" not in code
