"""Functions of torch's, with inputs: what moves, sorts, scatters and pools, in the spellings that models use."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


def rand(*shape: int) -> Any:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)) + 0.1


X, I = rand(3, 4), torch.arange(12).reshape(3, 4) - 5
IMAGE = rand(2, 4, 6, 6)

ROWS, PLACES = rand(5, 7) - 0.5, torch.tensor([[0, 1], [2, 3], [1, 1], [0, 0], [6, 5]])
LINE, VOLUME = rand(2, 4, 9), rand(1, 2, 5, 6, 4)
EDGES = torch.tensor([-0.2, 0.0, 0.3])


def stored(x):
    y = x.clone()
    y[:, 1] = 0
    y[1:3, ::2] = 7.0
    y[x > 0.5] = -1
    y[torch.tensor([0, 2]), torch.tensor([1, 3])] += 5
    y[:, torch.tensor([1, 2])] = x[:, :2]
    return y


def windows(x):
    x = torch.roll(x, (-1, -2), (2, 3))
    n, c, h, w = x.shape
    return x.view(n, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(-1, c, 2, 2)


MORE = {
    "scaled units": (lambda x: (F.selu(x), F.celu(x, 0.5), F.elu(x, 0.3), F.hardshrink(x), F.softshrink(x), F.tanhshrink(x)), (ROWS,)),
    "angles": (lambda x: (torch.atan2(x, x + 1), torch.acosh(x.abs() + 1), torch.asinh(x), torch.atanh(torch.tanh(x))), (ROWS,)),
    "divisions": (
        lambda x, i: (
            torch.fmod(x, 0.3), torch.remainder(x, 0.3), torch.floor_divide(x, 0.3), torch.div(x, 0.3, rounding_mode="trunc"),
            torch.div(i, 4, rounding_mode="trunc"), torch.fmod(i, 4), i // 4, i % 4, torch.floor_divide(i / 10, 0.1), x / 0 // 1,
        ),
        (ROWS, I),
    ),
    "bits": (lambda i: ((i & 3) | (i << 1) ^ 5, (i + 9) >> 1, ~i), (I,)),
    "truth added and multiplied": (lambda x: ((x > 0) * (x < 0.2), (x > 0.3) + (x < 0), torch.isclose(x, x + 1e-9)), (ROWS,)),
    "extrema": (
        lambda x: (x.max(), x.min(), *x.max(1), *x.min(0, keepdim=True), *torch.aminmax(x, dim=1), torch.max(x, -x), torch.min(x, x * 2)),
        (ROWS,),
    ),
    "norms along axes": (
        lambda x: (
            x.norm(), x.norm(p=1, dim=0), torch.linalg.vector_norm(x, float("inf"), 1), torch.linalg.vector_norm(x, 3, (0, 1)),
            torch.linalg.vector_norm(x, 0), F.normalize(x, dim=1), F.cosine_similarity(x, x + 1, 1),
        ),
        (ROWS,),
    ),
    "distances": (lambda x: (torch.cdist(x, x + 1), torch.cdist(x, x[:2], p=1.0)), (ROWS,)),
    "orders": (
        lambda x: (
            *x.sort(0, descending=True), x.argsort(1), *x.topk(2, 0, largest=False), (x > 0).sort(1).values, x.median(), *x.median(0),
            *x.kthvalue(3, 1),
        ),
        (ROWS,),
    ),
    "running values": (lambda x: (x.cumprod(1), x.logcumsumexp(0), x.cummax(1).values, x.cummin(0).values), (ROWS,)),
    "buckets": (
        lambda x: (
            torch.bucketize(x, EDGES), torch.bucketize(x, EDGES, right=True, out_int32=True), torch.searchsorted(EDGES, x, side="right"),
        ),
        (ROWS,),
    ),
    "places by several tensors": (
        lambda x, a, b: (x[a, b], x[:, a, :, b], x[:, :, a[:, None], b], x[:, -a], x[b - 3]),
        (rand(4, 5, 4, 6), torch.tensor([0, 1]), torch.tensor([2, 3])),
    ),
    "stored": (stored, (ROWS,)),
    "scattered and reduced": (
        lambda x, i: tuple(
            one.scatter_reduce(1, i % 3, one[:, :2], kind, include_self=own)
            for one in (x, (x * 9).to(torch.int32))
            for kind in ("sum", "mean", "amax", "amin")
            for own in (True, False)
            if one is x or kind != "mean"
        ),
        (ROWS, PLACES),
    ),
    "scattered": (
        lambda x, i: (
            x.scatter_add(1, i, x[:, :2]), x.scatter(1, i[:, :1], 3.0),
            x.scatter_reduce(1, i, x[:, :2], "amax"), x.scatter(0, i[:1] % 5, x[:2] * 9), x.index_add(0, i[:3, 0], x[:3], alpha=2),
            x.index_copy(1, i[1], x[:, :2]), x.index_fill(1, i[1], 3.0),
        ),
        (ROWS, PLACES),
    ),
    "bags": (
        lambda x, i: (
            F.embedding_bag(i, x, i.new_tensor([0, 2, 2]), mode="sum"), F.embedding_bag(i, x, i.new_tensor([0, 2, 2])),
            F.embedding_bag(i, x, i.new_tensor([0, 2, 5]), mode="sum", include_last_offset=True), F.embedding_bag(i[None], x),
        ),
        (ROWS, torch.arange(5)),
    ),
    "moved": (
        lambda x: (
            x.roll(2, 0), x.roll((1, -1), (0, 1)), x.roll(-3), x.roll(9, 1), x.movedim(0, 1), x.swapaxes(0, 1), x.T, x.mT, x.ravel(),
            *torch.tensor_split(x, 3, 1), *torch.tensor_split(x, (1, 4)), x.unfold(1, 3, 2), torch.rot90(x), torch.diff(x, dim=1),
        ),
        (ROWS,),
    ),
    "diagonals": (
        lambda x: (x.diagonal(), x.diagonal(1), x.diagonal(-2), x.diagonal(0, 1, 0), torch.diag(x[0]), x[:5, :5].trace()),
        (ROWS,),
    ),
    "shifted windows": (windows, (IMAGE,)),
    "columns of windows": (lambda x: (F.unfold(x, 3, padding=1), F.fold(F.unfold(x, 2), (6, 6), 2), F.pixel_shuffle(x, 2)), (IMAGE,)),
    "windows of one image": (lambda x: (F.max_pool2d(x[0], 2), F.avg_pool2d(x[0], 3, 2, 1), F.adaptive_avg_pool2d(x[0], (4, 5))), (IMAGE,)),
    "windows one more": (
        lambda x: (
            F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 5, 2, ceil_mode=True),
            F.avg_pool2d(x, 2, divisor_override=3), *F.max_pool2d(x, 3, 2, 1, return_indices=True),
        ),
        (IMAGE,),
    ),
    "windows of a line": (
        lambda x: (
            F.max_pool1d(x, 3, 2, 1), F.avg_pool1d(x, 3, 2, 1, ceil_mode=True), F.adaptive_avg_pool1d(x, 4), F.adaptive_max_pool1d(x, 4),
        ),
        (LINE,),
    ),
    "windows of a volume": (
        lambda x, y: (F.max_pool3d(x, 2), F.avg_pool3d(x, 2, 1, 1), F.adaptive_avg_pool3d(x, (2, 3, 4)), F.local_response_norm(y, 3)),
        (VOLUME, IMAGE),
    ),
    "windows that share an image": (lambda x: (F.adaptive_avg_pool2d(x, (4, 5)), F.adaptive_max_pool2d(x, (4, 5))), (IMAGE,)),
    "convolutions along a volume": (
        lambda x, w: (F.conv3d(x, w, stride=2, padding=(1, 0, 2)), F.conv3d(x, w[:, :1], groups=2), F.conv3d(x[0], w)),
        (VOLUME, rand(4, 2, 2, 3, 2)),
    ),
    "convolutions of one image, and padded unevenly": (
        lambda x, w: (F.conv2d(x[0], w, padding=1), F.conv2d(x, w, padding="same"), F.conv2d(x, w, padding="valid")),
        (IMAGE, rand(5, 4, 2, 4)),
    ),
    "transposed convolutions of a line": (
        lambda x, w, b: (
            F.conv_transpose1d(x, w, b, stride=2, padding=1, output_padding=1),
            F.conv_transpose1d(x[0], w, stride=3, padding=2, dilation=2),
        ),
        (LINE, rand(4, 3, 4), rand(3)),
    ),
    "transposed convolutions of an image": (
        lambda x, w: (F.conv_transpose2d(x, w, stride=2, groups=2, dilation=2), F.conv_transpose2d(x[0], w, padding=1)),
        (IMAGE, rand(4, 2, 3, 3)),
    ),
    "sizes by factors": (
        lambda x: (
            F.interpolate(x, scale_factor=1.3, mode="bilinear"), F.interpolate(x, scale_factor=1.7), F.interpolate(x[:, 0], scale_factor=2),
            F.interpolate(x[:, 0], size=7, mode="linear"), F.interpolate(x, size=(5, 13), mode="bilinear", align_corners=True),
            F.interpolate(x, scale_factor=2, mode="bicubic"),
        ),
        (IMAGE,),
    ),
    "sampled": (
        lambda x, g: (F.grid_sample(x, g, align_corners=False), F.grid_sample(x, g, "nearest", "border", True)),
        (IMAGE, rand(2, 3, 3, 2)),
    ),
    "norms of instances": (lambda x, w: (F.instance_norm(x), F.instance_norm(x, weight=w, bias=w, eps=1e-3)), (IMAGE, rand(4))),
    "heads that share": (lambda q: F.scaled_dot_product_attention(q, q[:, :2], q[:, :2], enable_gqa=True), (rand(2, 4, 5, 4),)),
    "queries whose mask leaves nothing": (
        lambda q, m: (
            F.scaled_dot_product_attention(q, q, q, m[0]), F.scaled_dot_product_attention(q, q, q, m),
            F.scaled_dot_product_attention(q, q, q, torch.where(m[0], 0.0, -torch.inf)),
        ),
        (rand(2, 4, 3, 4), torch.tensor([[[True, False, True], [False] * 3, [True] * 3]] * 4)),
    ),
    "no numbers": (
        lambda x: (torch.sign(x), *x.topk(2, 1), *F.max_pool2d(x[None], 2, return_indices=True)),
        (torch.tensor([[1.0, torch.nan, -2.0, torch.nan], [0.0, torch.inf, -torch.inf, torch.nan]]),),
    ),
    "padding of negative widths": (lambda x: (F.pad(x, (1, -1, -2, 3), value=2.5), F.pad(x[0], (0, 0, -3, 0))), (IMAGE,)),
    "padding around": (lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"), (IMAGE,)),
    "products of vectors": (
        lambda x: (
            torch.mv(x, x[0]), torch.addmv(x[:, 0], x, x[0], beta=0.5), torch.dot(x[0], x[1]), torch.addbmm(x, x[None, :, :5], x[None]),
        ),
        (ROWS,),
    ),
}  # fmt: skip
"""By what they are about: a function of its inputs, and these."""
