"""`share` changes no value: what windows that overlap compute alike is computed once, and copies with a border are asked for once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.directives.share import Share
from tensorlang.schedules.strategies import choose
from tests.schedules.programs import refused
from tests.schedules.test_separate import same

IMAGE = (23, 29)


def windows(form: str, image: tuple[int, int] = IMAGE, channels: int = 0) -> Tensor:
    """Sums over 3 x 3 windows that no step takes apart, said in one of several ways; of `channels` of a pixel, where there are some."""
    h, w = image
    x = tl.placeholder((*image, channels) if channels else image, name="X")
    g, a, b = tl.placeholder((3, 3), name="G"), tl.reduce_axis(3, name="a"), tl.reduce_axis(3, name="b")

    def clamped(i: Any, j: Any, *c: Any) -> Any:
        return x[(tl.clamp(i + a - 1, 0, h - 1), tl.clamp(j + b - 1, 0, w - 1), *c)]

    def inside(i: Any, j: Any) -> Any:
        return (i + a >= 1) & (i + a < h + 1) & (j + b >= 1) & (j + b < w + 1)

    forms: dict[str, tuple[tuple[int, ...], Callable[..., Any]]] = {
        "clamped": (image, clamped),
        "wrapped": (image, lambda i, j, *c: x[((i + a + h - 1) % h, (j + b + w - 1) % w, *c)]),
        "padded": (image, lambda i, j, *c: tl.select(inside(i, j), x[(i + a - 1, j + b - 1, *c)], 0.5)),
        "function": ((h - 2, w - 2), lambda i, j, *c: tl.exp(x[(i + a, j + b, *c)])),
        "twice": (image, lambda i, j, *c: clamped(i, j, *c) * tl.sqrt(clamped(i, j, *c))),
        "centred": (image, lambda i, j, *c: tl.abs(clamped(i, j, *c) - x[(i, j, *c)])),
        "strided": ((8, 9), lambda i, j, *c: tl.exp(x[(2 * i + a, 3 * j + b, *c)])),
        "enlarged": ((2 * h, 2 * w), lambda i, j, *c: clamped((i + 1) // 2, (j + 1) // 2, *c)),
        "plain": ((h - 2, w - 2), lambda i, j, *c: x[(i + a, j + b, *c)]),
    }
    extents, element = forms[form]
    shape = (*extents, channels) if channels else extents
    result: Tensor = tl.compute(shape, lambda *at: tl.sum(g[a, b] * element(*at), axis=(a, b)), name="Y")
    return result


SHARED = ["clamped", "wrapped", "padded", "function", "twice", "centred", "strided", "enlarged"]


@pytest.mark.parametrize("channels", [0, 3])
@pytest.mark.parametrize("form", SHARED)
def test_what_is_computed_once_is_what_each_computed(form: str, channels: int) -> None:
    s = tl.Schedule(windows(form, channels=channels))
    s.share("Y")
    assert "Y_shared" in s.stages()
    same(s)


def test_a_window_reads_a_copy_with_a_border() -> None:
    s = tl.Schedule(windows("clamped"))
    s.share("Y")
    assert "Y_shared: float32[25, 31]" in str(s)
    assert "Y[at0, at1] += G[a, b] * Y_shared[at0 + a, at1 + b]" in str(s)
    assert Share("Y").alike(s.nest) == []


def test_it_is_shared_after_a_split_as_well() -> None:
    s = tl.Schedule(windows("clamped"))
    s.split("Y.at1", 8)
    s.share("Y")
    same(s)


def guarded() -> Tensor:
    """Windows of what exists under a condition."""
    x, a = tl.placeholder((20,), name="X"), tl.reduce_axis(3, name="a")
    result: Tensor = tl.compute((20,), lambda i: tl.sum(tl.exp(x[i + a]), axis=a, where=i + a < 20), name="Y")
    return result


@pytest.mark.parametrize(("outputs", "code", "said"), [
    (lambda: windows("plain"), "TL-S301", "elements of 'Y' compute nothing alike"),
    (guarded, "TL-S302", "exists only under a condition"),
])  # fmt: skip
def test_a_refusal_says_what_is_missing(outputs: Any, code: str, said: str) -> None:
    refused(tl.Schedule(outputs()), code, said, "share", "Y")


@pytest.mark.parametrize(("form", "channels", "shared"), [
    ("clamped", 0, True), ("clamped", 3, True), ("wrapped", 0, True), ("function", 0, True), ("plain", 0, False), ("strided", 0, False),
])  # fmt: skip
def test_the_default_shares_what_is_asked_or_computed_often(form: str, channels: int, shared: bool) -> None:
    strategy = choose(windows(form, (60, 80), channels), target("znver3"), 1)
    s = strategy.schedule(strategy.default)
    assert any(isinstance(step, Share) for step in s.directives) == shared
    same(s)


def test_an_image_that_is_enlarged_reads_each_pixel_of_a_copy_once() -> None:
    """What moves with the rows is their quotient, which a loop stands for."""
    s = tl.Schedule(windows("enlarged"))
    s.share("Y")
    assert "Y_shared: float32[26, 32]" in str(s)
    assert "Y[at0, at1] += G[a, b] * Y_shared[(at0 + 1) // 2 + a, (at1 + 1) // 2 + b]" in str(s)
    assert Share("Y").alike(s.nest) == []
