"""Normalisation: `softmax`, `log_softmax`, `layer_norm`, `rms_norm`, `group_norm`, `batch_norm`.

Each statistic of a row is a stage, so that rows can be fused or kept apart by schedule. Half precision is computed in float32 and
rounded at the end, as torch does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from tensorlang.definition.elementary import exp, log, rsqrt
from tensorlang.definition.expr import Expr, as_expr, cast
from tensorlang.definition.extent import Extent, extent, shape_nodes
from tensorlang.definition.tensor import Tensor
from tensorlang.errors import DefinitionError
from tensorlang.language.definitions import reduce_axis
from tensorlang.language.reduction import accumulator, max as max_over, mean as mean_over, sum as sum_over
from tensorlang.ops.arguments import agree, define, floating, index_names, literal, need, one_of, whole_axis, wide

Entry = TypeVar("Entry")


def _part(name: str | None, suffix: str) -> str | None:
    return None if name is None else f"{name}_{suffix}"


def _without(entries: Sequence[Entry], axis: int) -> tuple[Entry, ...]:
    return (*entries[:axis], *entries[axis + 1 :])


def _one_axis(op: str, dim: object, axis: object) -> object:
    """The axis that one of two words names. Raises `DefinitionError` where both do, and differ."""
    if isinstance(axis, int) and isinstance(dim, int) and dim not in (-1, axis):
        raise DefinitionError(f"{op}: dim={dim!r:.40} and axis={axis!r:.40} are two words for one axis; give one of them")
    return dim if axis is None else axis


def _exponentials(op: str, input: Tensor, axis: object, name: str | None) -> tuple[int, Tensor, Tensor, Tensor]:
    """The axis; for each row along it the maximum m; exp(x - m); and for each row the sum of these."""
    input = need(op, "input", input, least=1)
    floating(op, "input", input)
    along = whole_axis(op, axis, input)
    names, extent = index_names(input.ndim), input.shape[along]
    rows, labels = _without(input.shape, along), _without(names, along)

    def at(row: tuple[Expr, ...], k: Expr) -> tuple[Expr, ...]:
        return (*row[:along], k, *row[along:])

    k = reduce_axis(extent, name="k")
    most = define(rows, labels, lambda row: max_over(wide(input[at(row, k)]), axis=k), _part(name, "max"))
    powers = define(input.shape, names, lambda at: exp(wide(input[at]) - most[_without(at, along)]), _part(name, "exp"))
    r = reduce_axis(extent, name="k")
    total = define(rows, labels, lambda row: sum_over(powers[at(row, r)], axis=r), _part(name, "sum"))
    return along, most, powers, total


def softmax(input: Tensor, dim: int = -1, name: str | None = "softmax", *, axis: int | None = None) -> Tensor:
    """`y = exp(x - m) * (1 / sum(exp(x - m)))` along `dim`, with `m` the maximum of the row; the shape of the input.

    `axis` is NumPy's word for `dim`. Raises `DefinitionError` for one that the input does not have, for two that differ, or elements that
    are not floating point.
    """
    along, _, powers, total = _exponentials("softmax", input, _one_axis("softmax", dim, axis), name)

    def element(at: tuple[Expr, ...]) -> Expr:
        return cast(powers[at] * (1.0 / total[_without(at, along)]), input.dtype)

    return define(input.shape, index_names(input.ndim), element, name)


def log_softmax(input: Tensor, dim: int = -1, name: str | None = "log_softmax", *, axis: int | None = None) -> Tensor:
    """`y = x - m - log(sum(exp(x - m)))` along `dim`, with `m` the maximum of the row; the shape of the input.

    `axis` is NumPy's word for `dim`. Raises `DefinitionError` for one that the input does not have, for two that differ, or elements that
    are not floating point.
    """
    along, most, _, total = _exponentials("log_softmax", input, _one_axis("log_softmax", dim, axis), name)

    def element(at: tuple[Expr, ...]) -> Expr:
        row = _without(at, along)
        return cast(wide(input[at]) - most[row] - log(total[row]), input.dtype)

    return define(input.shape, index_names(input.ndim), element, name)


def _normalised_axes(op: str, input: Tensor, normalized_shape: object, *parameters: tuple[str, Tensor | None]) -> int:
    """How many trailing axes `normalized_shape` names; the parameters have just that shape."""
    wanted = tuple(extent(node) for node in shape_nodes(normalized_shape, f"the parameters of {op}"))
    if not wanted or len(wanted) > input.ndim or input.shape[-len(wanted) :] != wanted:
        raise DefinitionError(f"{op}: normalized_shape {normalized_shape!r} is not the last axes of {input!r}")
    for what, tensor in parameters:
        if tensor is not None and need(op, what, tensor, len(wanted)).shape != wanted:
            raise DefinitionError(f"{op}: {what} has the shape normalized_shape, {wanted}, but is {tensor!r}")
    return len(wanted)


def _mean(input: Tensor, count: int, of: Callable[[Expr, tuple[Expr, ...]], Expr], name: str | None) -> Tensor:
    """The mean of `of(x, row)` over the last `count` axes."""
    lead = input.ndim - count
    axes = tuple(reduce_axis(extent, name="k" if count == 1 else f"k{n}") for n, extent in enumerate(input.shape[lead:]))
    size = _size(input.shape[lead:])
    to = accumulator(input.dtype)

    def element(row: tuple[Expr, ...]) -> Expr:
        return sum_over(of(wide(input[(*row, *axes)]), row), axis=axes) / cast(size, to)

    return define(input.shape[:lead], index_names(input.ndim)[:lead], element, name)


def _size(extents: Sequence[Extent]) -> Expr:
    return as_expr(math.prod(extents))


def layer_norm(
    input: Tensor,
    normalized_shape: object,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    name: str | None = "layer_norm",
) -> Tensor:
    """`y = (x - mean) / sqrt(variance + eps) * weight + bias`, mean and variance over the last axes, `normalized_shape`.

    `weight` and `bias` have the shape `normalized_shape`. Raises `DefinitionError` where the shapes do not fit.
    """
    input = need("layer_norm", "input", input, least=1)
    floating("layer_norm", "input", input)
    count = _normalised_axes("layer_norm", input, normalized_shape, ("weight", weight), ("bias", bias))
    lead = input.ndim - count
    mean = _mean(input, count, lambda x, _: x, _part(name, "mean"))
    variance = _mean(input, count, lambda x, row: (x - mean[row]) * (x - mean[row]), _part(name, "variance"))

    def element(at: tuple[Expr, ...]) -> Expr:
        row, inner = at[:lead], at[lead:]
        result = (wide(input[at]) - mean[row]) * rsqrt(variance[row] + eps)
        return cast(_affine(result, weight, bias, inner), input.dtype)

    return define(input.shape, index_names(input.ndim), element, name)


def _affine(value: Expr, weight: Tensor | None, bias: Tensor | None, at: tuple[Expr, ...]) -> Expr:
    scaled = value if weight is None else value * wide(weight[at])
    return scaled if bias is None else scaled + wide(bias[at])


def rms_norm(
    input: Tensor, normalized_shape: object, weight: Tensor | None = None, eps: float | None = None, name: str | None = "rms_norm"
) -> Tensor:
    """`y = x / sqrt(mean(x * x) + eps) * weight`, the mean over the last axes, `normalized_shape`.

    `eps` defaults to the type's machine epsilon. Raises `DefinitionError` where the shapes do not fit.
    """
    input = need("rms_norm", "input", input, least=1)
    floating("rms_norm", "input", input)
    count = _normalised_axes("rms_norm", input, normalized_shape, ("weight", weight))
    lead = input.ndim - count
    offset = float(np.finfo(accumulator(input.dtype).numpy).eps) if eps is None else eps
    square = _mean(input, count, lambda x, _: x * x, _part(name, "square"))

    def element(at: tuple[Expr, ...]) -> Expr:
        return cast(_affine(wide(input[at]) * rsqrt(square[at[:lead]] + offset), weight, None, at[lead:]), input.dtype)

    return define(input.shape, index_names(input.ndim), element, name)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    layout: str = "NCHW",
    name: str | None = "group_norm",
) -> Tensor:
    """`y = (x - mean) / sqrt(variance + eps) * weight[c] + bias[c]`, mean and variance over a group of channels of one image.

    The channels, axis 1 of the input, or the last with `layout="NHWC"`, fall into `num_groups` groups of neighbours; `weight` and `bias`
    have one axis of their extent. Raises `DefinitionError` where the shapes do not fit, or the groups do not share the channels evenly.
    """
    op = "group_norm"
    input = need(op, "input", input, least=2)
    floating(op, "input", input)
    channel = 1 if one_of(op, "layout", layout, "NCHW", "NHWC") == "NCHW" else input.ndim - 1
    channels = literal(op, "the number of channels", input.shape[channel])
    if not isinstance(num_groups, int) or isinstance(num_groups, bool) or num_groups < 1 or channels % num_groups or not channels:
        raise DefinitionError(f"{op}: num_groups {num_groups!r} does not divide the {channels} channels of {input!r}")
    for what, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None:
            agree(op, "the channels", input, channel, need(op, what, tensor, 1), 0)
    size = channels // num_groups
    plane = _without(input.shape, channel)[1:]

    def mean(of: Callable[[Expr, tuple[Expr, ...]], Expr], suffix: str) -> Tensor:
        c = reduce_axis(size, name="c")
        places = tuple(reduce_axis(extent, name=f"k{axis}") for axis, extent in enumerate(plane))

        def element(row: tuple[Expr, ...]) -> Expr:
            at: list[Expr] = [row[0], *places]
            at.insert(channel, row[1] * size + c)
            return mean_over(of(wide(input[tuple(at)]), row), axis=(c, *places))

        return define((input.shape[0], num_groups), ("n", "g"), element, _part(name, suffix))

    average = mean(lambda x, _: x, "mean")
    variance = mean(lambda x, row: (x - average[row]) * (x - average[row]), "variance")

    def element(at: tuple[Expr, ...]) -> Expr:
        row = (at[0], at[channel] // size)
        result = (wide(input[at]) - average[row]) * rsqrt(variance[row] + eps)
        return cast(_affine(result, weight, bias, (at[channel],)), input.dtype)

    return define(input.shape, _image_names(input.ndim, channel), element, name)


def _image_names(rank: int, channel: int) -> tuple[str, ...]:
    """Names for the axes of images with the channels at an axis."""
    names = {2: ("n", "c"), 3: ("n", "c", "x"), 4: ("n", "c", "y", "x")}.get(rank, index_names(rank))
    return (names[0], *names[2:], "c") if channel != 1 and rank in (3, 4) else names


def batch_norm(
    input: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    layout: str = "NCHW",
    name: str | None = "batch_norm",
) -> Tensor:
    """`y = (x - mean[c]) / sqrt(var[c] + eps) * weight[c] + bias[c]`, for inference.

    `c` is axis 1 of the input, or the last with `layout="NHWC"`; the statistics and parameters have one axis of its extent.
    Raises `DefinitionError` where the shapes do not fit.
    """
    input = need("batch_norm", "input", input, least=2)
    floating("batch_norm", "input", input)
    channel = 1 if one_of("batch_norm", "layout", layout, "NCHW", "NHWC") == "NCHW" else input.ndim - 1
    needed = {"running_mean": running_mean, "running_var": running_var}
    given = {what: tensor for what, tensor in (("weight", weight), ("bias", bias)) if tensor is not None}
    for what, tensor in {**needed, **given}.items():
        agree("batch_norm", "the channels", input, channel, need("batch_norm", what, tensor, 1), 0)

    def element(at: tuple[Expr, ...]) -> Expr:
        c = (at[channel],)
        result = (wide(input[at]) - wide(running_mean[c])) * rsqrt(wide(running_var[c]) + eps)
        return cast(_affine(result, weight, bias, c), input.dtype)

    return define(input.shape, _image_names(input.ndim, channel), element, name)
