"""Convolutions beside the dense ones of an image in NCHW: other layouts, groups, dilated, transposed, of one dimension."""

from __future__ import annotations

from math import prod
from typing import Final

from bench.peers import images
from bench.peers.workload import Workload
from bench.peers.workloads.family import Family

BLOCK: Final = 16


def workload(operator: str, name: str, x: tuple[int, ...], w: tuple[int, ...], **attributes: int) -> Workload:
    """Operations count the border of zeros; in a transposed convolution each element of the image meets the whole window."""
    out, attributes = images.result(operator, attributes, x, w), {"padding": 0, "stride": 1, **attributes}
    sums = prod(x[1:]) if operator == "convolution_transposed" else prod(out)
    each = {"convolution_transposed": prod(w[1:]), "convolution_nhwc": prod(w[:3]), "convolution_blocked": prod(w[1:5])}
    return Workload(name, operator, (x, w), 2 * sums * each.get(operator, prod(w[1:])), constants=(1,), attributes=attributes)


def dense(operator: str, name: str, channels: int, outputs: int, size: int, window: int, stride: int = 1) -> Workload:
    """In one of the layouts."""
    padding = window // 2
    if operator == images.NHWC:
        x, w = (1, size, size, channels), (window, window, channels, outputs)
        return workload(operator, name, x, w, stride=stride, padding=padding)
    image = (1, channels // BLOCK, size, size, BLOCK)
    weights = (outputs // BLOCK, channels // BLOCK, window, window, BLOCK, BLOCK)
    return workload(operator, name, image, weights, stride=stride, padding=padding)


def resnext(channels: int, size: int, stride: int, *, last: bool = False) -> Workload:
    """The 3 x 3 windows of ResNeXt-50, 32 groups."""
    own = channels // 32
    name = f"grouped3x3{'s2' if stride == 2 else ''}{'_nhwc' if last else ''}_{channels}_{size}"
    x, w = ((1, size, size, channels), (3, 3, own, channels)) if last else ((1, channels, size, size), (channels, own, 3, 3))
    return workload(images.NHWC if last else "convolution", name, x, w, stride=stride, padding=1, groups=32)


def transposed(channels: int, outputs: int, size: int, window: int, padding: int) -> Workload:
    """Twice as large."""
    name = f"transposed{window}x{window}s2_{channels}-{outputs}_{size}"
    return workload(
        "convolution_transposed", name, (1, channels, size, size), (channels, outputs, window, window), stride=2, padding=padding
    )


FAMILY: Final = Family(
    "variants",
    "Other convolutions",
    (
        dense(images.NHWC, "conv3x3_nhwc_64-64_56", 64, 64, 56, 3),
        dense(images.NHWC, "conv1x1_nhwc_256-64_56", 256, 64, 56, 1),
        dense(images.BLOCKED, "conv3x3_blocked_64-64_56", 64, 64, 56, 3),
        resnext(128, 56, 1),
        resnext(256, 28, 1),
        resnext(512, 28, 2),
        resnext(128, 56, 1, last=True),
        transposed(256, 128, 16, 4, 1),
        transposed(128, 64, 56, 2, 0),
        workload("convolution", "dilated3x3_64-64_56", (1, 64, 56, 56), (64, 64, 3, 3), stride=1, padding=2, dilation=2),
        workload("convolution_1d", "conv1d3_256-256_1000", (1, 256, 1000), (256, 256, 3), stride=1, padding=1),
    ),
    geomean=1.0,
    least=0.9,
    note="Weights stay. Rows `nhwc` and `blocked` (16 channels side by side) say how images lie for us; peers have them in NCHW, which is "
    "what their interfaces take, but for torch's channels last, which takes part in the rows `nhwc`. JAX sits out the groups.",
    engines=("tensorlang", "numpy", "torch", "onnxruntime", "openvino", "jax"),
)
