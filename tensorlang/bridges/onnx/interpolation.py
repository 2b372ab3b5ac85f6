"""Rows of the table: images at other sizes and places.

Interpolation is linear along one axis after the other, so `Resize` in all its modes is a table of places and weights for each axis,
written down here, and `resample` of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

import tensorlang as tl
from tensorlang.bridges.onnx.call import Call, Translation
from tensorlang.graph import Value

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis that is resized: extents before and after, the factor between them, and the part that is looked at."""

    before: int
    after: int
    factor: float
    start: float = 0.0
    end: float = 1.0

    def coordinates(self, mode: str) -> Numbers:
        """Where each result lies in the operand."""
        x, length, last = np.arange(self.after, dtype=np.float64), self.before * self.factor, self.before - 1
        half: Numbers = (x + 0.5) / self.factor - 0.5
        none: Numbers = 0 * x
        crop = self.end - self.start
        ways: dict[str, Callable[[], Numbers]] = {
            "half_pixel": lambda: half,
            "half_pixel_symmetric": lambda: half + self.before / 2 * (1 - self.after / length),
            "pytorch_half_pixel": lambda: half if length > 1 else none,
            "align_corners": lambda: x * last / (length - 1) if length != 1 else none,
            "asymmetric": lambda: x / self.factor,
            "tf_crop_and_resize": lambda: (
                last * (self.start + x * crop / (self.after - 1)) if self.after > 1 else none + last * (self.start + self.end) / 2
            ),
        }
        if mode not in ways:
            raise tl.GraphError(f"coordinate_transformation_mode {mode!r:.60} is not known; there are {', '.join(ways)}")
        return np.asarray(ways[mode]())


def _linear(distance: Numbers) -> Numbers:
    return np.asarray(np.maximum(1 - np.abs(distance), 0))


def _cubic(a: float) -> Any:
    def weight(distance: Numbers) -> Numbers:
        x = np.abs(distance)
        near, far = ((a + 2) * x - (a + 3)) * x * x + 1, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0.0))

    return weight


def _weighted(call: Call, axis: Axis, at: Numbers) -> tuple[Numbers, Numbers]:
    """The places that each result reads, and their weights."""
    cubic = call.get("mode", "nearest") == "cubic"
    kernel, reach = (_cubic(call.get("cubic_coeff_a", -0.75)), 2) if cubic else (_linear, 1)
    shrink = min(axis.factor, 1.0) if call.get("antialias", 0) else 1.0
    first = math.floor(-reach / shrink) + 1
    taps = np.floor(at)[:, None] + np.arange(first, reach + 1 if shrink == 1 else 2 - first)[None, :]
    weights = kernel((taps - at[:, None]) * shrink)
    if call.get("exclude_outside", 0):
        weights = np.where((taps >= 0) & (taps < axis.before), weights, 0.0)
    total = weights.sum(1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return np.clip(taps, 0, axis.before - 1).astype(np.int64), weights


_ROUNDED: Final[Mapping[str, Any]] = {
    "round_prefer_floor": lambda at: np.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: np.floor(at + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _axes(call: Call, value: Value, sizes: Sequence[int] | None, scales: Sequence[float] | None, roi: Sequence[float]) -> dict[int, Axis]:
    """The axes that change, with their factors."""
    extents = call.extents(value)
    named = call.get("axes")
    places = [call.place(axis, len(extents)) for axis in named] if named else list(range(len(extents)))
    crops = call.get("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    given = sizes if sizes is not None else scales
    if given is None or len(given) != len(places) or (crops and len(roi) != 2 * len(places)):
        raise tl.GraphError(f"sizes, or scales, and roi have to be for each of {len(places)} axes")
    factors = [float(scale) for scale in scales] if scales is not None else []
    if sizes is not None:
        factors = [size / extents[place] for size, place in zip(sizes, places, strict=True)]
        policy = call.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            factors = [min(factors) if policy == "not_larger" else max(factors)] * len(factors)
            sizes = [math.floor(factors[0] * extents[place] + 0.5) for place in places]
    made = {}
    for number, place in enumerate(places):
        start, end = (roi[number], roi[number + len(places)]) if crops else (0.0, 1.0)
        after = sizes[number] if sizes is not None else math.floor(extents[place] * factors[number] * (end - start if crops else 1.0))
        if after < 1 or factors[number] <= 0:
            raise tl.GraphError(f"axis {place} of {value} cannot become {after} elements")
        made[place] = Axis(extents[place], after, factors[number], start, end)
    return made


def resize(call: Call) -> Value:
    """Sizes or factors are operands."""
    eleven = call.opset >= 11
    roi = call.array(1) if eleven else None
    scales = call.array(2 if eleven else 1)
    sizes = call.numbers(3) if eleven else None
    scales = None if scales is None or scales.size == 0 else scales
    return _resized(
        call, None if scales is not None else sizes, None if scales is None else [float(one) for one in scales],
        [] if roi is None else [float(one) for one in roi],
        "half_pixel" if eleven else "asymmetric",
    )  # fmt: skip


def upsample(call: Call) -> Value:
    """Factors are an operand, in older opsets an attribute."""
    scales = call.get("scales") or call.array(1)
    return _resized(call, None, None if scales is None else [float(one) for one in scales], [], "asymmetric")


def _resized(call: Call, sizes: Sequence[int] | None, scales: Sequence[float] | None, roi: Sequence[float], usual: str) -> Value:
    value = call[0]
    mode = call.get("coordinate_transformation_mode", usual)
    kind, outside = call.get("mode", "nearest"), []
    for place, axis in _axes(call, value, sizes, scales, roi).items():
        at = axis.coordinates(mode)
        if mode == "tf_crop_and_resize":
            outside.append((place, (at < 0) | (at > axis.before - 1)))
        elif axis.before == axis.after and axis.factor == 1:
            continue
        if kind == "nearest":
            rule = "round_prefer_floor" if usual == "half_pixel" else "floor"
            near = np.clip(_ROUNDED[call.get("nearest_mode", rule)](at), 0, axis.before - 1).astype(np.int64)
            value = call("index_select", value, call.builder.constant(near), dim=place)
        else:
            places, weights = _weighted(call, axis, at)
            kept = call.builder.constant(weights.astype(value.dtype.numpy))
            value = call("resample", value, call.builder.constant(places), kept, dim=place)
    if any(mask.any() for _, mask in outside):
        rank, whole = len(value.shape), np.zeros(call.extents(value), bool)
        for place, mask in outside:
            whole |= mask.reshape([-1 if one == place else 1 for one in range(rank)])
        fill = call.builder.scalar(call.get("extrapolation_value", 0.0), str(value.dtype))
        value = call("where", call.builder.constant(whole), fill, value)
    return value


_MODES: Final = {"bilinear": "linear", "linear": "linear", "nearest": "nearest", "bicubic": "cubic", "cubic": "cubic"}


def grid_sample(call: Call) -> Value:
    """Elements at places that a grid names."""
    mode = _MODES[call.get("mode", "linear")]
    return call(
        "grid_sample", call[0], call[1], mode=mode, padding_mode=call.get("padding_mode", "zeros"),
        align_corners=bool(call.get("align_corners", 0)),
    )  # fmt: skip


def deformed(call: Call) -> Value:
    """A convolution whose taps an operand moves."""
    pads = call.get("pads") or (0, 0, 0, 0)
    if len(call[0].shape) != 4 or pads[:2] != pads[2:]:
        raise tl.GraphError("a deformable convolution along other than two axes, or with padding that differs, has no translation")
    taps = 2 * math.prod(call.extents(call[1])[2:])
    if call[2].shape[1] != call.get("offset_group", 1) * taps:
        raise tl.GraphError(f"{call[2]} does not hold {call.get('offset_group', 1)} groups of {taps} offsets")
    return call(
        "deform_conv2d", *(call[place] for place in range(3)), call.operand(3), call.operand(4), stride=call.get("strides") or (1, 1),
        padding=pads[:2], dilation=call.get("dilations") or (1, 1), groups=call.get("group", 1),
    )  # fmt: skip


def roi_align(call: Call) -> Value:
    """Means, or maxima, of samples in the cells of boxes that are known."""
    value, boxes = call[0], call.known(call[1], "operand 1").astype(np.float64)
    images = call.known(call[2], "operand 2").reshape(-1)
    rows, columns, ratio = call.get("output_height", 1), call.get("output_width", 1), call.get("sampling_ratio", 0)
    mode = call.get("mode", "avg")
    shift = 0.5 if call.opset >= 16 and call.get("coordinate_transformation_mode", "half_pixel") == "half_pixel" else 0.0
    _, channels, height, width = call.extents(value)
    flat = call.reshaped(call.permuted(value, (1, 0, 2, 3)), (channels, -1))
    made = []
    for box, image in zip(boxes, images, strict=True):
        x1, y1, x2, y2 = box * call.get("spatial_scale", 1.0) - shift
        wide, high = x2 - x1, y2 - y1
        if not shift:
            wide, high = max(wide, 1.0), max(high, 1.0)
        ways = ratio or math.ceil(high / rows), ratio or math.ceil(wide / columns)
        along = [
            _samples(start, length / count, count, way, extent)
            for start, length, count, way, extent in ((y1, high, rows, ways[0], height), (x1, wide, columns, ways[1], width))
        ]
        (places_y, weights_y), (places_x, weights_x) = along
        taps = []
        for one, other in itertools.product(range(2), range(2)):
            places = (image * height + places_y[one][:, None]) * width + places_x[other][None, :]
            read = call("index_select", flat, call.builder.constant(places.reshape(-1).astype(np.int64)), dim=1)
            weight = (weights_y[one][:, None] * weights_x[other][None, :]).reshape(-1).astype(value.dtype.numpy)
            taps.append(call("mul", read, call.builder.constant(weight)))
        joined = taps[0]
        for tap in taps[1:]:
            joined = call("maximum" if mode == "max" else "add", joined, tap)
        cells = call.reshaped(joined, (1, channels, rows, ways[0], columns, ways[1]))
        made.append(call("amax" if mode == "max" else "mean", cells, dim=(3, 5)))
    return call("cat", *made, dim=0)


def _samples(start: float, cell: float, count: int, ways: int, extent: int) -> tuple[list[Numbers], list[Numbers]]:
    """Two places and weights along an axis for each sample; those far outside weigh nothing."""
    at = (start + np.arange(count)[:, None] * cell + (np.arange(ways)[None, :] + 0.5) * cell / ways).reshape(-1)
    there = (at >= -1) & (at <= extent)
    at = np.clip(at, 0, None)
    low = np.minimum(np.floor(at), extent - 1)
    high = np.minimum(low + 1, extent - 1)
    part = np.where(low >= extent - 1, 0.0, at - low)
    return [low, high], [(1 - part) * there, part * there]


ROWS: Final[Mapping[str, Translation]] = {
    "Resize": resize, "Upsample": upsample, "GridSample": grid_sample, "RoiAlign": roi_align, "DeformConv": deformed,
}  # fmt: skip
"""By ONNX's names."""
