"""Windows: pooling and convolutions along one, two or three axes, of batches or of one image.

Along two axes they are the operators for which kernels are tuned, where these say it; else the general ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensorlang.bridges.aten.call import Call, Translation
from tensorlang.graph import Type, Value


def of_batches(axes: Callable[[Call], int], source: str = "input") -> Callable[[Translation], Callable[[Call], Any]]:
    """A translation that takes batches, for one image too: its results are those of a batch of one."""

    def wrapped(translation: Translation) -> Translation:
        def of_one_or_many(call: Call) -> Any:
            image = call[source]
            if len(image.shape) != axes(call) + 1:
                return translation(call)
            types = [None if kind is None else Type((1, *kind.shape), kind.dtype) for kind in call.types]
            one = call.builder("reshape", image, shape=(1, *image.shape))
            made = translation(replace(call.changed(**{source: one}), types=types))
            several = made if isinstance(made, tuple) else (made,)
            given = tuple(None if value is None else call("reshape", value, shape=value.shape[1:]) for value in several)
            return given if isinstance(made, tuple) else given[0]

        return of_one_or_many

    return wrapped


def spread(entries: int | Sequence[int], axes: int) -> tuple[int, ...]:
    """A number for each axis."""
    found = (entries,) if isinstance(entries, int) else tuple(entries)
    return found * axes if len(found) == 1 else found


@of_batches(lambda call: len(call["weight"].shape) - 2)
def convolution(call: Call) -> Value:
    """A convolution, transposed or not."""
    source, weight = call["input"], call["weight"]
    axes = len(weight.shape) - 2
    options: dict[str, Any] = {name: spread(call[name], axes) for name in ("stride", "padding", "dilation")} | {"groups": call["groups"]}
    after = spread(call.arguments.get("output_padding") or 0, axes)
    if call.arguments.get("transposed"):
        if axes == 2:
            return call("conv_transpose2d", source, weight, call["bias"], output_padding=after, **options)
        return _transposed(call, source, weight, options.pop("padding"), **options)
    if axes == 2:
        return call("conv2d", source, weight, call["bias"], **options)
    if axes == 1:
        single = {name: value[0] if isinstance(value, tuple) else value for name, value in options.items()}
        return call("conv1d", source, weight, call["bias"], **single)
    return call("convolution", source, weight, call["bias"], **options)


def _transposed(call: Call, source: Value, weight: Value, padding: tuple[int, ...], **options: Any) -> Value:
    """The part of the whole that padding leaves; rows after it are those that no window reaches, and hold the bias."""
    made = call.builder("conv_transpose", source, weight, **options)
    for axis, (width, wanted) in enumerate(zip(padding, call.type.shape[2:], strict=True), start=2):
        made = call.builder("slice", made, dim=axis, start=width, end=_least(width + wanted, made.shape[axis]))
        if made.shape[axis] != wanted:
            sides = tuple((0, wanted - made.shape[axis]) if place == axis else (0, 0) for place in range(len(made.shape)))
            made = call.builder("pad", made, pad=sides)
    if (bias := call["bias"]) is None:
        return made
    return call("add", made, call.reshaped(bias, (*bias.shape, *(1,) * len(padding))))


def _least(one: Any, other: Any) -> Any:
    return min(one, other) if isinstance(one, int) and isinstance(other, int) else one


def plain_convolution(call: Call) -> Value:
    """The same, with padding by name too; what is not the same on both sides is added beforehand."""
    padding, axes = call["padding"], len(call["weight"].shape) - 2
    widths = (0,) * axes
    source = call["input"]
    if padding == "same":
        gaps = spread(call["dilation"], axes)
        spans = [gap * (size - 1) for gap, size in zip(gaps, call["weight"].shape[2:], strict=True)]
        if any(span % 2 for span in spans):
            around = ((0, 0),) * (len(source.shape) - axes)
            source = call.builder("pad", source, pad=(*around, *((span // 2, span - span // 2) for span in spans)))
        else:
            widths = tuple(span // 2 for span in spans)
    elif padding != "valid":
        widths = spread(padding, axes)
    made: Value = convolution(call.changed(input=source, padding=widths, transposed=False))
    return made


def transposed_convolution(call: Call) -> Value:
    """The gradient of a convolution as an operator."""
    made: Value = convolution(call.changed(transposed=True))
    return made


def pooling(translation: Callable[[Call, int], Any], axes: int) -> Translation:
    """A kind of pooling along so many axes."""
    return of_batches(lambda _: axes, "self")(lambda call: translation(call, axes))


def _window(call: Call, axes: int) -> tuple[dict[str, Any], tuple[tuple[int, int], ...]]:
    """What all pooling says, and padding by sides: that after an axis goes on to the end of the last window, one more by `ceil_mode`."""
    size = spread(call["kernel_size"], axes)
    stride = spread(call["stride"] or size, axes)
    widths, gaps = spread(call["padding"], axes), spread(call.arguments.get("dilation") or 1, axes)
    sides = [(width, width) for width in widths]
    if call["ceil_mode"]:
        for axis, (extent, count) in enumerate(zip(call["self"].shape[2:], call.type.shape[2:], strict=True)):
            reached = (count - 1) * stride[axis] + gaps[axis] * (size[axis] - 1) + 1 - widths[axis]
            if not isinstance(reached, int) or not isinstance(extent, int):
                raise call.refuse("ceil_mode= of sizes that are known only at a call has no translation")
            sides[axis] = (widths[axis], max(widths[axis], reached - extent))
    return {"kernel_size": size, "stride": stride, "padding": widths, "dilation": gaps}, tuple(sides)


def max_pool(call: Call, axes: int) -> Any:
    """Windows of maxima, and where in its plane each was found."""
    told, sides = _window(call, axes)
    even = all(before == after for before, after in sides)
    general = told | {"padding": sides}
    made = call("max_pool2d", call["self"], **told) if axes == 2 and even else call("max_pool", call["self"], **general)
    if len(call.types) == 1:
        return made
    plane = math.prod(call["self"].shape[2:])
    if not isinstance(plane, int):
        return made, None
    whole = call.builder("max_pool_indices", call["self"], **general)
    return made, call.builder("remainder", whole, call.builder.scalar(plane, "int64"))


def avg_pool(call: Call, axes: int) -> Value:
    """Windows of means; what `ceil_mode` adds behind the padding counts for nothing."""
    told, sides = _window(call, axes)
    counted = call.arguments.get("count_include_pad", True)
    divisor = call.arguments.get("divisor_override")
    even = all(before == after for before, after in sides)
    if divisor is not None and not even:
        raise call.refuse("divisor_override= with ceil_mode= has no translation")
    counted = counted or divisor is not None
    if axes == 2 and even:
        del told["dilation"]
        made = call("avg_pool2d", call["self"], count_include_pad=counted, **told)
    else:
        excess = tuple(after - before for before, after in sides)
        made = call("avg_pool", call["self"], count_include_pad=counted, excess=excess, **(told | {"padding": sides}))
    if divisor is None:
        return made
    return call("mul", made, call.as_type(math.prod(told["kernel_size"]) / divisor, made.dtype))


def adaptive_mean(call: Call, axes: int) -> Value:
    """Means of windows that share the image; one window is the mean of all."""
    source: Value = call["self"]
    size = spread(call["output_size"], axes)
    if set(size) == {1}:
        return call("mean", source, dim=tuple(range(-axes, 0)), keepdim=True)
    image, window = _shares(call, source.shape[-axes:], size)
    if window is not None:
        return call("avg_pool2d" if axes == 2 else "avg_pool", source, kernel_size=window, stride=window)
    for axis, (extent, count) in enumerate(zip(image, size, strict=True), start=2):
        table, there = _rows(extent, count)
        weight = (there / there.sum(axis=1, keepdims=True)).astype(source.dtype.numpy)
        source = call("resample", source, call.builder.constant(table), call.builder.constant(weight), dim=axis)
    return source


def adaptive_max(call: Call, axes: int) -> tuple[Value, None]:
    """Maxima of windows that share the image, without their places."""
    source, size = call["self"], spread(call["output_size"], axes)
    image, window = _shares(call, source.shape[-axes:], size)
    if window is not None:
        return call("max_pool2d" if axes == 2 else "max_pool", source, kernel_size=window, stride=window), None
    for axis, (extent, count) in enumerate(zip(image, size, strict=True), start=2):
        table, _ = _rows(extent, count)
        read = call.builder("index_select", source, call.builder.constant(table.reshape(-1)), dim=axis)
        apart = call.reshaped(read, (*source.shape[:axis], *table.shape, *source.shape[axis + 1 :]))
        source = call("amax", apart, dim=axis + 1)
    return source, None


def _shares(call: Call, image: Sequence[Any], size: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """The extents of an image that windows share, and those of a window where they share it evenly."""
    if any(not isinstance(extent, int) for extent in image):
        raise call.refuse(f"windows that share {tuple(image)}, known only at a call, have no translation")
    parts = [divmod(extent, count) for extent, count in zip(image, size, strict=True)]
    return tuple(image), None if any(rest for _, rest in parts) else tuple(extent for extent, _ in parts)


def _rows(extent: int, count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The elements of each of so many windows along an axis, the last one again where a window is shorter, and which are there."""
    first = np.arange(count) * extent // count
    past = -(-(np.arange(1, count + 1) * extent) // count)
    reach = np.arange((past - first).max())
    table = first[:, None] + reach
    return np.minimum(table, past[:, None] - 1), table < past[:, None]
