"""Products of matrices: `matmul`, `batch_matmul`, `dense`, and attention, which is two of them around a softmax.

A product is a stage of its own, so that its tile can stay in registers whatever is added to it afterwards.
"""

from __future__ import annotations

import math

from tensorlang.definition.elementary import select
from tensorlang.definition.expr import Expr
from tensorlang.definition.tensor import Tensor
from tensorlang.errors import DefinitionError
from tensorlang.ir.dtype import BOOL
from tensorlang.language.definitions import reduce_axis
from tensorlang.language.reduction import sum as sum_over
from tensorlang.ops.arguments import agree, define, flag, floating, literal, need, wide
from tensorlang.ops.normalization import softmax


def matmul(a: Tensor, b: Tensor, name: str | None = "matmul") -> Tensor:
    """`y[..., i, j] = sum_k a[..., i, k] * b[..., k, j]`: a (..., M, K), b (..., K, N) or (K, N) -> (..., M, N), as `torch.matmul`.

    Leading (batch) axes have to be equal. Raises `DefinitionError` where the shapes do not fit.
    """
    a, b = need("matmul", "a", a, least=2), need("matmul", "b", b, least=2)
    if b.ndim not in (2, a.ndim):
        raise DefinitionError(f"matmul: the batch axes of {a!r} and {b!r} differ; b has 2 axes or as many as a")
    batch = a.ndim - 2
    if b.ndim > 2:
        for axis in range(batch):
            agree("matmul", "the batch extents", a, axis, b, axis)
    depth = agree("matmul", "the inner extents", a, a.ndim - 1, b, b.ndim - 2)
    k = reduce_axis(depth, name="k")
    shape = (*a.shape[:-1], b.shape[-1])

    def element(at: tuple[Expr, ...]) -> Expr:
        *lead, i, j = at
        right = b[k, j] if b.ndim == 2 else b[(*lead, k, j)]
        return sum_over(a[(*lead, i, k)] * right, axis=k)

    names = ("b",) if batch == 1 else tuple(f"b{n}" for n in range(batch))
    return define(shape, (*names, "i", "j"), element, name)


def batch_matmul(input: Tensor, mat2: Tensor, name: str | None = "batch_matmul") -> Tensor:
    """`y[b, i, j] = sum_k input[b, i, k] * mat2[b, k, j]`: (B, M, K), (B, K, N) -> (B, M, N), as `torch.bmm`.

    Raises `DefinitionError` where the shapes do not fit.
    """
    return matmul(need("batch_matmul", "input", input, 3), need("batch_matmul", "mat2", mat2, 3), name)


def dense(input: Tensor, weight: Tensor, bias: Tensor | None = None, name: str | None = "dense") -> Tensor:
    """`y[..., o] = sum_c input[..., c] * weight[o, c] + bias[o]`: (..., C), (O, C), (O,) -> (..., O), as `torch.nn.functional.linear`.

    Raises `DefinitionError` where the shapes do not fit.
    """
    return _linear("dense", input, weight, bias, name)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, name: str | None = "dense") -> Tensor:
    """`dense`, under torch's name."""
    return _linear("linear", input, weight, bias, name)


def _linear(what: str, input: Tensor, weight: Tensor, bias: Tensor | None, name: str | None) -> Tensor:
    input, weight = need(what, "input", input, least=1), need(what, "weight", weight, 2)
    c = reduce_axis(agree(what, "the input channels", input, input.ndim - 1, weight, 1), name="c")
    shape = (*input.shape[:-1], weight.shape[0])
    names = ("n",)[: input.ndim - 1] if input.ndim <= 2 else tuple(f"n{n}" for n in range(input.ndim - 1))

    def product(at: tuple[Expr, ...]) -> Expr:
        return sum_over(input[(*at[:-1], c)] * weight[at[-1], c], axis=c)

    if bias is None:
        return define(shape, (*names, "o"), product, name)
    addend = need(what, "bias", bias, 1)
    agree(what, "the output channels", weight, 0, addend, 0)
    total = define(shape, (*names, "o"), product, None if name is None else f"{name}_product")
    return define(shape, (*names, "o"), lambda at: total[at] + addend[at[-1]], name)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    name: str | None = "attention",
) -> Tensor:
    """`softmax(query @ key^T * scale + mask) @ value`: (..., L, E), (..., S, E), (..., S, V) -> (..., L, V).

    As `torch.nn.functional.scaled_dot_product_attention`: `scale` defaults to `1 / sqrt(E)`; `attn_mask` (L, S) is added, or, of type
    bool, tells which scores count; `is_causal` counts the scores with `s <= l`. Raises `DefinitionError` where the shapes do not fit.
    """
    query, key = need("attention", "query", query, least=2), need("attention", "key", key, query.ndim)
    value = need("attention", "value", value, query.ndim)
    floating("attention", "query", query)
    lead = query.ndim - 2
    for axis in range(lead):
        agree("attention", "the batch extents", query, axis, key, axis)
        agree("attention", "the batch extents", query, axis, value, axis)
    e = reduce_axis(agree("attention", "the extents of a head", query, lead + 1, key, lead + 1), name="e")
    s = reduce_axis(agree("attention", "the numbers of keys and values", key, lead, value, lead), name="s")
    mask = None if attn_mask is None else need("attention", "attn_mask", attn_mask, 2)
    if mask is not None:
        agree("attention", "the numbers of queries", query, lead, mask, 0)
        agree("attention", "the numbers of keys", key, lead, mask, 1)
    causal = flag("attention", "is_causal", is_causal)
    factor = scale if scale is not None else 1 / math.sqrt(max(1, literal("attention", "the extent of a head", query.shape[-1])))
    batch = ("b", "h")[:lead] if lead <= 2 else tuple(f"b{n}" for n in range(lead))

    def part(suffix: str) -> str | None:
        return None if name is None else f"{name}_{suffix}"

    square = (*query.shape[:-1], key.shape[-2])

    def product(at: tuple[Expr, ...]) -> Expr:
        *b, i, j = at
        return sum_over(wide(query[(*b, i, e)]) * wide(key[(*b, j, e)]), axis=e)

    dots = define(square, (*batch, "l", "s"), product, part("dots"))

    def score(at: tuple[Expr, ...]) -> Expr:
        *_, i, j = at
        result = dots[at] * factor
        if mask is not None and mask.dtype != BOOL:
            result = result + wide(mask[i, j])
        elif mask is not None:
            result = select(mask[i, j], result, -math.inf)
        return select(j <= i, result, -math.inf) if causal else result

    scores = define(square, (*batch, "l", "s"), score, part("scores"))
    weights = softmax(scores, axis=-1, name=part("weights"))

    def mixed(at: tuple[Expr, ...]) -> Expr:
        *b, i, v = at
        return sum_over(weights[(*b, i, s)] * wide(value[(*b, s, v)]), axis=s)

    result = define(
        (*query.shape[:-1], value.shape[-1]), (*batch, "l", "v"), mixed, name if weights.dtype == query.dtype else part("mixed")
    )
    if result.dtype == query.dtype:
        return result
    from tensorlang.ops.activation import converted  # noqa: PLC0415 - only half precision needs it

    return converted(result, query.dtype, name)
