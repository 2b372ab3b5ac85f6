"""Rows of the table: convolutions and pooling.

Forms along two axes with the same padding on both sides are the operators under torch's names, for which kernels are tuned; all others
are the general ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import tensorlang as tl
from tensorlang.bridges.onnx.call import Call, Translation
from tensorlang.graph import Value


@dataclass(frozen=True, slots=True)
class Windows:
    """How the windows of a node lie: extents, steps, distances, and padding on both sides, with what rounding up adds behind it."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    excess: tuple[int, ...]

    @property
    def axes(self) -> int:
        """The number of axes."""
        return len(self.kernel)

    @property
    def even(self) -> tuple[int, ...] | None:
        """The padding of each axis where it is the same on both sides; None where it differs."""
        return tuple(before for before, _ in self.padding) if all(before == after for before, after in self.padding) else None

    @property
    def pooled(self) -> tuple[int, ...] | None:
        """`even`, where it is at most half of a window of two axes, as torch has it."""
        even = self.even
        return (
            even
            if even is not None and self.axes == 2 and all(2 * pad <= size for pad, size in zip(even, self.kernel, strict=True))
            else None
        )


def windows(call: Call, kernel: tuple[int, ...] | None) -> Windows:
    """Windows as the attributes of a node say. Raises `GraphError` where they do not fit."""
    axes = len(call[0].shape) - 2
    kernel = tuple(kernel or ())
    stride = tuple(call.get("strides") or (1,) * axes)
    dilation = tuple(call.get("dilations") or (1,) * axes)
    pads = tuple(call.get("pads") or (0,) * (2 * axes))
    if axes < 1 or {len(kernel), len(stride), len(dilation)} != {axes} or len(pads) != 2 * axes or min((*stride, *dilation)) < 1:
        raise tl.GraphError(f"kernel, strides, dilations and pads do not fit the {axes} axes of windows")
    auto, ceiling = call.get("auto_pad", "NOTSET"), call.get("ceil_mode", 0)
    sides, excess = [], []
    for axis in range(axes):
        before, after = (pads[axis], pads[axes + axis]) if auto == "NOTSET" else (0, 0)
        reach, step = dilation[axis] * (kernel[axis] - 1) + 1, stride[axis]
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            extent = call.extents(call[0])[2 + axis]
            total = max(0, (-(-extent // step) - 1) * step + reach - extent)
            before = total // 2 if auto == "SAME_UPPER" else total - total // 2
            after = total - before
        more = 0
        if ceiling and auto in ("NOTSET", "VALID"):
            extent = call.extents(call[0])[2 + axis]
            room = extent + before + after - reach
            count = -(-room // step) + 1
            count -= (count - 1) * step >= extent + before
            more = max(0, (count - 1) * step + reach - (extent + before + after))
        sides.append((before, after + more))
        excess.append(more)
    return Windows(kernel, stride, dilation, tuple(sides), tuple(excess))


def convolution(call: Call) -> Value:
    """Along any number of axes."""
    return convolved(call, call[0], call[1], call.operand(2))


def convolved(call: Call, value: Value, weight: Value, bias: Value | None) -> Value:
    """The convolution that a node asks for, of these values."""
    made = windows(call, call.get("kernel_shape") or call.extents(weight)[2:])
    groups, even = call.get("group", 1), made.even
    if made.axes in (1, 2) and even is not None and value.dtype.is_floating:
        options: dict[str, Any] = {"stride": made.stride, "padding": even, "dilation": made.dilation}
        options = options if made.axes == 2 else {name: one[0] for name, one in options.items()}
        return call(f"conv{made.axes}d", value, weight, bias, groups=groups, **options)
    return call("convolution", value, weight, bias, stride=made.stride, padding=made.padding, dilation=made.dilation, groups=groups)


def transposed(call: Call) -> Value:
    """The gradient of a convolution: without padding, of which a part is taken."""
    value, weight = call[0], call[1]
    axes = len(value.shape) - 2
    kernel, extents = call.extents(weight)[2:], call.extents(value)[2:]
    if tuple(call.get("kernel_shape") or kernel) != kernel:
        raise tl.GraphError(f"kernel_shape {call.get('kernel_shape')} is not that of {weight}")
    stride, dilation = tuple(call.get("strides") or (1,) * axes), tuple(call.get("dilations") or (1,) * axes)
    more = tuple(call.get("output_padding") or (0,) * axes)
    pads, auto, wanted = tuple(call.get("pads") or (0,) * (2 * axes)), call.get("auto_pad", "NOTSET"), call.get("output_shape")
    full = call("conv_transpose", value, weight, call.operand(2), stride=stride, dilation=dilation, groups=call.get("group", 1))
    for axis in range(axes):
        length = stride[axis] * (extents[axis] - 1) + (kernel[axis] - 1) * dilation[axis] + 1
        before, after = (pads[axis], pads[axes + axis]) if auto == "NOTSET" else (0, 0)
        if wanted or auto in ("SAME_UPPER", "SAME_LOWER"):
            size = wanted[axis - axes] if wanted else extents[axis] * stride[axis]
            total = length + more[axis] - size
            before = total // 2 if auto == "SAME_UPPER" else total - total // 2
            after = total - before
        full = _shifted(call, full, 2 + axis, before, after - more[axis], call.operand(2))
    return full


def _shifted(call: Call, value: Value, axis: int, before: int, after: int, bias: Value | None) -> Value:
    """Without elements at both ends, or, where a number is negative, with more, which hold the bias alone."""
    if min(before, after) < 0:
        if bias is not None:
            raise tl.GraphError("output that no element of the input reaches has no translation beside a bias")
        sides = tuple((max(0, -before), max(0, -after)) if one == axis else (0, 0) for one in range(len(value.shape)))
        value = call("pad", value, pad=sides)
    start, end = max(0, before), value.shape[axis] - max(0, after)
    return value if (start, end) == (0, value.shape[axis]) else call("slice", value, dim=axis, start=start, end=end)


def max_pool(call: Call) -> Value | tuple[Value, Value]:
    """Windows of maxima, and where in the operand these are."""
    made = windows(call, call.get("kernel_shape"))
    options = {"kernel_size": made.kernel, "stride": made.stride, "dilation": made.dilation}
    even = made.pooled
    if even is not None and call[0].dtype.is_floating:
        largest = call("max_pool2d", call[0], padding=even, **options)
    else:
        largest = call("max_pool", call[0], padding=made.padding, **options)
    if call.results == 1:
        return largest
    return largest, call("max_pool_indices", call[0], padding=made.padding, by_column=bool(call.get("storage_order", 0)), **options)


def avg_pool(call: Call) -> Value:
    """Windows of means."""
    made = windows(call, call.get("kernel_shape"))
    options: dict[str, Any] = {
        "kernel_size": made.kernel,
        "stride": made.stride,
        "count_include_pad": bool(call.get("count_include_pad", 0)),
    }
    even = made.pooled
    if even is not None and not any(made.excess) and set(made.dilation) == {1}:
        return call("avg_pool2d", call[0], padding=even, **options)
    return call("avg_pool", call[0], padding=made.padding, dilation=made.dilation, excess=made.excess, **options)


def lp_pool(call: Call) -> Value:
    """Windows of norms."""
    made = windows(call, call.get("kernel_shape"))
    options = {"kernel_size": made.kernel, "stride": made.stride, "padding": made.padding, "dilation": made.dilation}
    return call("lp_pool", call[0], norm_type=float(call.get("p", 2)), **options)


def everywhere(operator: str) -> Translation:
    """A reduction of all axes after (N, C)."""
    return lambda call: call(operator, call[0], dim=tuple(range(2, len(call[0].shape))), keepdim=True)


def global_lp(call: Call) -> Value:
    """The norm of each image."""
    power = float(call.get("p", 2))
    total = call("sum", call("pow", call("abs", call[0]), power), dim=tuple(range(2, len(call[0].shape))), keepdim=True)
    return call("pow", total, 1.0 / power)


def max_unpool(call: Call) -> Value:
    """Elements back at the places from which they were taken, and 0 elsewhere."""
    value, indices = call[0], call[1]
    n, c, *spatial = call.extents(value)
    kernel, axes = call.needed("kernel_shape"), len(spatial)
    stride, pads = call.get("strides") or (1,) * axes, call.get("pads") or (0,) * (2 * axes)
    shape = [
        (extent - 1) * step + size - pads[axis] - pads[axes + axis]
        for axis, (extent, step, size) in enumerate(zip(spatial, stride, kernel, strict=True))
    ]
    total = n * c
    for extent in shape:
        total *= extent
    count = 1
    for extent in call.extents(value):
        count *= extent
    empty = call("expand", call.builder.scalar(0, str(value.dtype)), shape=(total,))
    made = call("scatter", empty, call.reshaped(indices, (count,)), call.reshaped(value, (count,)), dim=0)
    wanted = call.numbers(2)
    made = call.reshaped(made, (n, c, *shape))
    if wanted is None or wanted == (n, c, *shape):
        return made
    return call("pad", made, pad=tuple((0, after - before) for after, before in zip(wanted, (n, c, *shape), strict=True)))


def col2im(call: Call) -> Value:
    """Columns of windows added up to images."""
    image, block = call.numbers(1) or (), call.numbers(2) or ()
    axes = len(block)
    pads = call.get("pads") or (0,) * (2 * axes)
    return call(
        "fold", call[0], output_size=image, kernel_size=block, dilation=call.get("dilations") or (1,) * axes,
        padding=tuple(zip(pads[:axes], pads[axes:], strict=True)), stride=call.get("strides") or (1,) * axes,
    )  # fmt: skip


ROWS: Final[Mapping[str, Translation]] = {
    "Conv": convolution, "ConvTranspose": transposed, "MaxPool": max_pool, "AveragePool": avg_pool, "LpPool": lp_pool,
    "GlobalAveragePool": everywhere("mean"), "GlobalMaxPool": everywhere("amax"), "GlobalLpPool": global_lp, "MaxUnpool": max_unpool,
    "Col2Im": col2im,
}  # fmt: skip
"""By ONNX's names."""
