"""The layers of networks under torch's functional names: products, convolutions, attention, norms, pooling.

They are the definitions of `tl.ops`, so that a kernel of the library, a record of the tuner and a node of a graph are one program. What a
graph needs besides is said here: which of several functions of the library an operator is, and how operands are repeated.
"""

from __future__ import annotations

import string
from typing import Any, Final

import tensorlang as tl
from tensorlang import ops
from tensorlang.graph.operator import Axis, Function, Operator, Pair, Sizes
from tensorlang.graph.operators.pointwise import broadcast


def linear(input: tl.Tensor, weight: tl.Tensor, bias: tl.Tensor | None = None) -> tl.Tensor:
    """`y[..., o] = sum_c input[..., c] * weight[o, c] + bias[o]`."""
    return ops.linear(input, weight, bias, name="linear")


def matmul(input: tl.Tensor, other: tl.Tensor) -> tl.Tensor:
    """`y[..., i, j] = sum_k input[..., i, k] * other[..., k, j]`; leading axes are repeated, a vector is a row, or a column."""
    if min(len(input.shape), len(other.shape)) < 1:
        raise tl.DefinitionError(f"matmul: a factor has at least 1 axis, but they are {input!r} and {other!r}")
    row, column = len(input.shape) == 1, len(other.shape) == 1
    if not row and not column and (len(other.shape) == 2 or input.shape[:-2] == other.shape[:-2]):
        return ops.matmul(input, other)
    depth = input.shape[-1]
    if other.shape[-1 if column else -2] != depth:
        raise tl.DefinitionError(f"matmul: the inner extents of {input!r} and {other!r} differ")
    batch = broadcast(input.shape[:-2], other.shape[:-2])
    k = tl.reduce_axis(depth, name="k")

    def body(*at: Any) -> Any:
        lead, own = at[: len(batch)], list(at[len(batch) :])
        i = () if row else (own.pop(0),)
        j = () if column else (own.pop(0),)
        return tl.sum(_batched(input, lead, (*i, k)) * _batched(other, lead, (k, *j)), axis=k)

    rows, columns = () if row else (input.shape[-2],), () if column else (other.shape[-1],)
    made: tl.Tensor = tl.compute((*batch, *rows, *columns), body, name="matmul")
    return made


def _batched(tensor: tl.Tensor, lead: tuple[Any, ...], own: tuple[Any, ...]) -> tl.Expr:
    count = len(tensor.shape) - len(own)
    axes = lead[len(lead) - count :]
    places = [0 if extent == 1 else axis for extent, axis in zip(tensor.shape[:count], axes, strict=True)]
    found: tl.Expr = tensor[(*places, *own)]
    return found


def einsum(*operands: tl.Tensor, equation: str) -> tl.Tensor:
    """The sum of products that an equation spells, as `tl.einsum` has it; "..." stands for axes that all operands end, or begin, with."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    counts = [len(operand.shape) - len(term.replace("...", "")) for term, operand in zip(terms, operands, strict=False)]
    if len(terms) != len(operands) or any(count < 0 or (count and "..." not in term) for term, count in zip(terms, counts, strict=True)):
        raise tl.DefinitionError(f"einsum: {equation!r:.80} does not name the axes of {', '.join(map(repr, operands))}")
    free = "".join(letter for letter in string.ascii_letters if letter not in equation)[: max(counts, default=0)]
    spelled = [term.replace("...", free[len(free) - count :]) for term, count in zip(terms, counts, strict=True)]
    if not arrow:
        named = left.replace(",", "").replace("...", "")
        right = free + "".join(sorted(letter for letter in set(named) if named.count(letter) == 1))
    made: tl.Tensor = tl.einsum(f"{','.join(spelled)}->{right.replace('...', free)}", *operands)
    return made


def conv1d(
    input: tl.Tensor,
    weight: tl.Tensor,
    bias: tl.Tensor | None = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> tl.Tensor:
    """Convolution along one axis: (N, C, W), (O, C/groups, S) -> (N, O, X)."""
    return ops.conv1d(input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: tl.Tensor,
    weight: tl.Tensor,
    bias: tl.Tensor | None = None,
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> tl.Tensor:
    """Convolution: (N, C, H, W), (O, C/groups, R, S) -> (N, O, Y, X). With a group for each channel it is the depthwise one."""
    if 1 < groups == input.shape[1]:
        return ops.depthwise_conv2d(input, weight, bias, stride, padding, dilation)
    return ops.conv2d(input, weight, bias, stride, padding, dilation, groups)


def conv_transpose2d(
    input: tl.Tensor,
    weight: tl.Tensor,
    bias: tl.Tensor | None = None,
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    output_padding: Pair = (0, 0),
    groups: int = 1,
    dilation: Pair = (1, 1),
) -> tl.Tensor:
    """The gradient of `conv2d` as an operator: (N, C, H, W), (C, O/groups, R, S) -> (N, O, Y, X)."""
    return ops.conv2d_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation)


def scaled_dot_product_attention(
    query: tl.Tensor,
    key: tl.Tensor,
    value: tl.Tensor,
    attn_mask: tl.Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> tl.Tensor:
    """`softmax(query @ key^T * scale + mask) @ value`: (..., L, E), (..., S, E), (..., S, V) -> (..., L, V); the mask is (L, S)."""
    return ops.attention(query, key, value, attn_mask, is_causal, scale)


def batch_norm(
    input: tl.Tensor,
    running_mean: tl.Tensor,
    running_var: tl.Tensor,
    weight: tl.Tensor | None = None,
    bias: tl.Tensor | None = None,
    eps: float = 1e-5,
) -> tl.Tensor:
    """`(x - mean[c]) / sqrt(var[c] + eps) * weight[c] + bias[c]`, channels in axis 1, for inference."""
    return ops.batch_norm(input, running_mean, running_var, weight, bias, eps)


def layer_norm(
    input: tl.Tensor, normalized_shape: Sizes, weight: tl.Tensor | None = None, bias: tl.Tensor | None = None, eps: float = 1e-5
) -> tl.Tensor:
    """`(x - mean) / sqrt(variance + eps) * weight + bias` over the last axes."""
    return ops.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(input: tl.Tensor, normalized_shape: Sizes, weight: tl.Tensor | None = None, eps: float | None = None) -> tl.Tensor:
    """`x / sqrt(mean(x * x) + eps) * weight` over the last axes; `eps` is that of the type unless it is given."""
    return ops.rms_norm(input, normalized_shape, weight, eps)


def group_norm(
    input: tl.Tensor, num_groups: int, weight: tl.Tensor | None = None, bias: tl.Tensor | None = None, eps: float = 1e-5
) -> tl.Tensor:
    """`layer_norm` over groups of neighbouring channels, with a weight and a bias for each channel."""
    return ops.group_norm(input, num_groups, weight, bias, eps)


def softmax(input: tl.Tensor, dim: Axis) -> tl.Tensor:
    """`exp(x) / sum(exp(x))` along an axis."""
    return ops.softmax(input, dim)


def log_softmax(input: tl.Tensor, dim: Axis) -> tl.Tensor:
    """`x - log(sum(exp(x)))` along an axis."""
    return ops.log_softmax(input, dim)


def max_pool2d(
    input: tl.Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = (0, 0), dilation: Pair = (1, 1)
) -> tl.Tensor:
    """The largest element of each window; `stride` is `kernel_size` unless it is given."""
    return ops.max_pool2d(input, kernel_size, stride, padding, dilation)


def avg_pool2d(
    input: tl.Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = (0, 0), count_include_pad: bool = True
) -> tl.Tensor:
    """The mean of each window; `stride` is `kernel_size` unless it is given."""
    return ops.avg_pool2d(input, kernel_size, stride, padding, count_include_pad)


def interpolate(input: tl.Tensor, size: Pair, mode: str = "nearest", align_corners: bool = False) -> tl.Tensor:
    """The image at another size, by its nearest elements or bilinear: (N, C, H, W) -> (N, C, Y, X)."""
    return ops.resize2d(input, size, mode, align_corners)


def prelu(input: tl.Tensor, weight: tl.Tensor) -> tl.Tensor:
    """`x` where it is positive, else `weight[c] * x`, channels in axis 1."""

    def body(*at: Any) -> Any:
        x = input[at]
        return tl.select(x > 0, x, weight[0 if weight.shape[0] == 1 else at[1]] * x)

    made: tl.Tensor = tl.compute(input.shape, body, name="prelu")
    return made


_FUNCTIONS: Final[tuple[Function, ...]] = (
    linear, matmul, einsum, conv1d, conv2d, conv_transpose2d, scaled_dot_product_attention,
    batch_norm, layer_norm, rms_norm, group_norm, softmax, log_softmax, max_pool2d, avg_pool2d, interpolate, prelu,
)  # fmt: skip
OPERATORS: Final[tuple[Operator, ...]] = tuple(Operator.of(function) for function in _FUNCTIONS)
