"""The operators in our language, one function of placeholders for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import tensorlang as tl
from bench.peers.plain import EPSILON
from bench.peers.workload import Workload


def matmul(_: Mapping[str, int], a: tl.Tensor, b: tl.Tensor) -> Any:
    """Of matrices, of batches, by vectors, of bytes."""
    match a.ndim, b.ndim:
        case 2, 1:
            return tl.einsum("ij,j->i", a, b)
        case 1, 2:
            return tl.einsum("i,ij->j", a, b)
        case _ if a.dtype != b.dtype:  # bytes, one side of them signed
            k = tl.reduce_axis(a.shape[1], name="k")
            return tl.compute(
                (a.shape[0], b.shape[1]), lambda i, j: tl.sum(tl.cast(a[i, k], "int32") * tl.cast(b[k, j], "int32"), axis=k), name="matmul"
            )
        case _:
            return tl.ops.matmul(a, b)


def conv2d(attributes: Mapping[str, int], x: tl.Tensor, w: tl.Tensor) -> Any:
    """Of an image with a border of zeros; of bytes, to int32."""
    stride, pad = attributes["stride"], attributes["padding"]
    if x.dtype == w.dtype:
        return tl.ops.conv2d(x, w, stride=stride, padding=pad)
    outputs, channels, rows, columns = (int(str(extent)) for extent in w.shape)
    down, across = ((int(str(extent)) + 2 * pad - size) // stride + 1 for extent, size in zip(x.shape[2:], (rows, columns), strict=True))
    source = tl.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad))) if pad else x
    c, r, s = (tl.reduce_axis(extent, name=name) for extent, name in ((channels, "c"), (rows, "r"), (columns, "s")))

    def element(n: tl.Expr, o: tl.Expr, y: tl.Expr, z: tl.Expr) -> Any:
        pixel = source[n, c, stride * y + r, stride * z + s]
        return tl.sum(tl.cast(pixel, "int32") * tl.cast(w[o, c, r, s], "int32"), axis=(c, r, s))

    return tl.compute((x.shape[0], outputs, down, across), element, name="conv2d")


def jacobi(attributes: Mapping[str, int], a: tl.Tensor) -> Any:
    """A scan over time."""
    n, m = a.shape

    def step(_: Any, x: tl.Tensor) -> Any:
        def element(i: tl.Expr, j: tl.Expr) -> Any:
            inside = (i >= 1) & (i < n - 1) & (j >= 1) & (j < m - 1)
            return tl.select(inside, 0.2 * (x[i, j] + x[i, j - 1] + x[i, j + 1] + x[i - 1, j] + x[i + 1, j]), x[i, j])

        return tl.compute((n, m), element, name="next")

    return tl.scan(step, a, attributes["steps"], keep="last", name="jacobi")


def harris(_: Mapping[str, int], rgb: Any) -> Any:
    """Stages as in the reference; the default schedule decides what to store."""
    height, width = (int(extent) for extent in rgb.shape[1:])
    grey = tl.compute((height, width), lambda i, j: 0.299 * rgb[0, i, j] + 0.587 * rgb[1, i, j] + 0.114 * rgb[2, i, j], name="grey")
    inner, outer = (height - 2, width - 2), (height - 4, width - 4)

    def down(i: tl.Expr, j: tl.Expr) -> Any:
        return (grey[i + 2, j] - grey[i, j] + 2 * (grey[i + 2, j + 1] - grey[i, j + 1]) + grey[i + 2, j + 2] - grey[i, j + 2]) * (1 / 12)

    def across(i: tl.Expr, j: tl.Expr) -> Any:
        return (grey[i, j + 2] - grey[i, j] + 2 * (grey[i + 1, j + 2] - grey[i + 1, j]) + grey[i + 2, j + 2] - grey[i + 2, j]) * (1 / 12)

    dx, dy = tl.compute(inner, across, name="dx"), tl.compute(inner, down, name="dy")

    def box(left: tl.Tensor, right: tl.Tensor, name: str) -> Any:
        product = tl.compute(inner, lambda i, j: left[i, j] * right[i, j], name=f"{name}_product")

        def element(i: tl.Expr, j: tl.Expr) -> Any:
            rows = [product[i, j + s] + product[i + 1, j + s] + product[i + 2, j + s] for s in range(3)]
            return rows[0] + rows[1] + rows[2]

        return tl.compute(outer, element, name=name)

    xx, yy, xy = box(dx, dx, "xx"), box(dy, dy, "yy"), box(dx, dy, "xy")

    def response(i: tl.Expr, j: tl.Expr) -> Any:
        trace = xx[i, j] + yy[i, j]
        return xx[i, j] * yy[i, j] - xy[i, j] * xy[i, j] - 0.04 * trace * trace

    return tl.compute(outer, response, name="harris")


def chain(_: Mapping[str, int], x: tl.Tensor) -> Any:
    """Four operations on each element."""
    return tl.compute(x.shape, lambda i: tl.maximum(x[i] * 1.5 + 0.25, 0) * x[i], name="chain")


def convolution(layout: str) -> Callable[..., Any]:
    """Of any kind, in torch's layout or with channels last."""

    def define(at: Mapping[str, int], x: tl.Tensor, w: tl.Tensor) -> Any:
        groups, dilation = at.get("groups", 1), at.get("dilation", 1)
        return tl.ops.conv2d(x, w, stride=at["stride"], padding=at["padding"], dilation=dilation, groups=groups, layout=layout)

    return define


def blocked(at: Mapping[str, int], x: tl.Tensor, w: tl.Tensor) -> Any:
    """Channels in blocks, those of one side by side."""
    (_, _, height, width, _), (outer, blocks, rows, columns, inner, outputs) = map(int, x.shape), map(int, w.shape)  # type: ignore[arg-type]
    pad, stride = at["padding"], at["stride"]
    source = tl.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad), (0, 0)))
    c, r, s, b = (tl.reduce_axis(extent, name=name) for extent, name in ((blocks, "c"), (rows, "r"), (columns, "s"), (inner, "b")))

    def element(n: Any, o: Any, y: Any, u: Any, q: Any) -> Any:
        return tl.sum(source[n, c, y * stride + r, u * stride + s, b] * w[o, c, r, s, b, q], axis=(c, r, s, b))

    down, across = ((extent + 2 * pad - window) // stride + 1 for extent, window in ((height, rows), (width, columns)))
    return tl.compute((1, outer, down, across, outputs), element, name="blocked")


OPERATORS: Final[Mapping[str, Callable[..., Any]]] = {
    "matmul": matmul,
    "jacobi": jacobi,
    "harris": harris,
    "chain": chain,
    "add": lambda _, a, b: tl.compute(a.shape, lambda i: a[i] + b[i], name="add"),
    "transpose": lambda _, a: tl.compute(a.shape[::-1], lambda i, j: a[j, i], name="transposed"),
    "conv2d": conv2d,
    "depthwise": lambda attributes, x, w: tl.ops.depthwise_conv2d(x, w, stride=attributes["stride"], padding=attributes["padding"]),
    "convolution": convolution("NCHW"),
    "convolution_nhwc": convolution("NHWC"),
    "convolution_blocked": blocked,
    "convolution_transposed": lambda at, x, w: tl.ops.conv2d_transpose(x, w, stride=at["stride"], padding=at["padding"]),
    "convolution_1d": lambda at, x, w: tl.ops.conv1d(x, w, stride=at["stride"], padding=at["padding"]),
    "softmax": lambda _, x: tl.ops.softmax(x),
    "layer_norm": lambda _, x, weight, bias: tl.ops.layer_norm(x, tuple(map(int, weight.shape)), weight, bias, EPSILON),
    "gelu": lambda _, x: tl.ops.gelu(x),
    "attention": lambda _, q, k, v: tl.ops.attention(q, k, v),
}


def definition(workload: Workload) -> Any:
    """Our operator, over placeholders of its own."""
    pairs = enumerate(zip(workload.shapes, workload.types, strict=True))
    operands = (tl.placeholder(shape, kind, name=f"operand{place}") for place, (shape, kind) in pairs)
    return OPERATORS[workload.operator](workload.attributes, *operands)
