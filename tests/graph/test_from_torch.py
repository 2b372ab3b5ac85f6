"""Graphs of exported programs: what torch computes, in both spellings, by the same operators; what has no translation is named."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import graph
from tensorlang.bridges.aten import TRANSLATIONS
from tensorlang.bridges.aten.call import row
from tensorlang.graph import Graph, passes, pattern as pm
from tests.graph.torch_functions import IMAGE, MORE, I, X, rand

torch = pytest.importorskip("torch")
nn: Any = torch.nn
F: Any = torch.nn.functional
Module: Any = nn.Module

pytestmark = [pytest.mark.extras("torch"), pytest.mark.filterwarnings("ignore")]  # torch's own


class Function(Module):  # type: ignore[misc]
    """A function as a module."""

    def __init__(self, function, *tensors) -> None:
        super().__init__()
        self.function = function
        for place, tensor in enumerate(tensors):
            self.register_buffer(f"t{place}", tensor)
        self.count = len(tensors)

    def forward(self, *inputs):
        return self.function(*inputs, *(getattr(self, f"t{place}") for place in range(self.count)))


def exported(net, *inputs, core: bool = False, **options) -> Graph:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(net.eval(), inputs, **options)
        return graph.from_torch(program.run_decompositions() if core else program)


def agree(net, *inputs, compiled: bool = False) -> list[Graph]:
    """Both spellings compute what torch computes."""
    with torch.no_grad():
        wanted = net.eval()(*inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    arrays = [one.numpy() for one in inputs]
    made = []
    for core in (False, True):
        g = exported(net, *inputs, core=core)
        results = [g.run(*arrays), g.compile()(*arrays)] if compiled else [g.run(*arrays)]
        for found in results:
            for one, other in zip(found, wanted, strict=True):
                assert one.dtype == other.numpy().dtype
                np.testing.assert_allclose(one, other.numpy(), rtol=1e-4, atol=1e-5)
        made.append(g)
    return made


FUNCTIONS = {
    "sums": (lambda x: x + 2 * x - x / 3 + torch.add(x, x, alpha=3) - (1 - x), (X,)),
    "integers with numbers": (lambda i: i + 1.5, (I,)),
    "integers divided": (lambda i: (i / 2, i // 2, torch.div(i.float(), 2, rounding_mode="floor")), (I,)),
    "types mixed": (lambda x, i: x * i + (i > 0), (X, I)),
    "comparisons": (lambda x, i: (x > 0.5, i == 2, i < 1.5, x.ge(i)), (X, I)),
    "truth": (lambda x: (x > 0.5) & ~(x > 0.8) | (x < 0.2), (X,)),
    "powers": (lambda x: (x**2, x**0.5, 2**x, x.pow(x), x.square(), x.rsqrt()), (X,)),
    "activations": (
        lambda x: (F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.hardswish(x), F.relu6(x), F.elu(x), F.leaky_relu(x, 0.2)),
        (X - 0.5,),
    ),
    "more activations": (lambda x: (F.softplus(x), F.mish(x), F.hardsigmoid(x), F.hardtanh(x), F.softsign(x), F.logsigmoid(x)), (X - 0.5,)),
    "bounds": (lambda x: (x.clamp(0.2, 0.6), x.clamp(min=0.3), torch.maximum(x, x.flip(0)), x.clip(max=0.5)), (X,)),
    "choices": (lambda x: (torch.where(x > 0.5, x, 0.0), x.masked_fill(x > 0.5, -1.0)), (X,)),
    "reductions": (
        lambda x: (x.sum(), x.sum(0), x.mean((0, 1), keepdim=True), x.amax(-1), x.prod(1), x.var(1), x.std(0, unbiased=False)),
        (X,),
    ),
    "statistics": (lambda x: (*torch.var_mean(x, 1), *torch.native_layer_norm(x, [4], None, None, 1e-5), x.mean((1, 0))), (X,)),
    "attention as torch's core has it": (
        lambda q: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, q, q, 0.0, True)[0],
        (rand(1, 2, 5, 4),),
    ),
    "places of extrema": (lambda x: (x.argmax(), x.argmin(1), x.argmax(0, keepdim=True)), (X,)),
    "counts": (lambda i: (i.sum(), (i > 0).sum(1), (i > 0).any(), (i > -9).all(1)), (I,)),
    "views": (
        lambda x: (
            x.view(2, 6),
            x.t(),
            x.flatten(),
            x[None],
            x.unsqueeze(-1).squeeze(-1),
            x.transpose(0, 1).reshape(6, 2),
            x.unflatten(1, (2, 2)),
        ),
        (X,),
    ),
    "parts": (lambda x: (x[1], x[:, -1], x[..., 1:3], x[::2], x[-2:], x.narrow(1, 1, 2), x.select(0, -1)), (X,)),
    "pieces": (lambda x: (*x.split(2, 1), *x.chunk(2, 1), *x.unbind(0), *torch.split(x, [1, 3], 1)), (X,)),
    "joins": (
        lambda x: (torch.cat([x, x], 1), torch.stack([x, 2 * x], 1), x.repeat(2, 1, 3), x.expand(2, 3, 4), torch.tile(x, (2,))),
        (X,),
    ),
    "fillings": (
        lambda x: (torch.zeros(2, 3) + 1, torch.ones_like(x), x.new_full((2,), 7.0), torch.arange(1, 9, 2), torch.full((2, 2), 3)),
        (X,),
    ),
    "padding": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 0, 1, 1), value=2.0), F.pad(x[None], (1, 1), mode="reflect")), (X,)),
    "rows": (lambda i, t: (F.embedding(i, t), t.index_select(0, i[0]), t.gather(0, i)), (I % 5, rand(5, 4))),
    "indices": (lambda x, i: (x[i], x[:, i], x[:, i[0]]), (X, (I % 3)[:2])),
    "running sums": (lambda x: x.cumsum(1), (X,)),
    "types": (lambda x, i: (x.to(torch.float64), i.float(), x.to(torch.int32), i.bool(), x.double().type_as(x)), (X, I)),
    "products": (
        lambda x, w: (x @ w, torch.bmm(x[None], w[None]), F.linear(x, w.t()), torch.matmul(x, w[:, 0]), torch.addmm(x[0, :2], x, w)),
        (X, rand(4, 2)),
    ),
    "products with factors": (lambda x, w, c: torch.addmm(c, x, w, beta=0.5, alpha=2), (X, rand(4, 2), rand(3, 2))),
    "batches of products": (lambda q, k: q @ k.transpose(-1, -2), (rand(2, 3, 4, 5), rand(2, 1, 6, 5))),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q, scale=None), (rand(2, 2, 5, 4),)),
    "causal attention": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True, scale=0.3), (rand(2, 2, 5, 4),)),
    "masked attention": (lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m), (rand(2, 2, 5, 4), rand(2, 1, 5, 5))),
    "norms": (
        lambda x: (
            F.layer_norm(x, (4,)),
            F.layer_norm(x, (3, 4), eps=1e-3),
            F.rms_norm(x, (4,), eps=1e-5),
            F.softmax(x, 0),
            F.log_softmax(x, -1),
        ),
        (X,),
    ),
    "norms of channels": (lambda x, w: (F.group_norm(x, 2), F.group_norm(x, 4, w, w)), (IMAGE, rand(4))),
    "pooling": (
        lambda x: (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)),
        (IMAGE,),
    ),
    "adaptive pooling": (lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_avg_pool2d(x, 6)), (IMAGE,)),
    "images at other sizes": (lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(9, 4), mode="bilinear")), (IMAGE,)),
    "slopes": (F.prelu, (IMAGE - 0.5, rand(4))),
    "convolutions": (
        lambda x, w: (F.conv2d(x, w), F.conv2d(x, w, stride=2, padding=1), F.conv2d(x, w, padding="same", dilation=(1, 2))),
        (IMAGE, rand(5, 4, 3, 3)),
    ),
    "convolutions in groups": (
        lambda x, w, d: (F.conv2d(x, w, groups=2), F.conv2d(x, d, groups=4)),
        (IMAGE, rand(6, 2, 3, 3), rand(4, 1, 3, 3)),
    ),
    "convolutions in one axis": (
        lambda x, w: (F.conv1d(x, w), F.conv1d(x, w, stride=2, padding=1, dilation=2)),
        (rand(2, 4, 9), rand(5, 4, 3)),
    ),
    "transposed convolutions": (
        lambda x, w: (F.conv_transpose2d(x, w, stride=2), F.conv_transpose2d(x, w, padding=1, output_padding=1, stride=2)),
        (IMAGE, rand(4, 3, 3, 3)),
    ),
    "writes": (lambda x: torch.relu_(x.clone().add_(1).mul_(2)), (X,)),
    **MORE,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_torch_computes_is_what_the_graph_computes(name: str) -> None:
    function, inputs = FUNCTIONS[name]
    agree(Function(function), *inputs)


@pytest.mark.parametrize(("name", "operator"), [
    ("convolutions in one axis", "conv1d"), ("convolutions", "conv2d"), ("transposed convolutions", "conv_transpose2d"),
    ("attention", "scaled_dot_product_attention"), ("heads that share", "scaled_dot_product_attention"), ("windows one more", "max_pool2d"),
])  # fmt: skip
def test_layers_are_one_operator(name: str, operator: str) -> None:
    function, inputs = FUNCTIONS[name]
    assert operator in exported(Function(function), *inputs).by_operator


def linear_bn(pm):
    linear = pm.Op("linear", args=(pm.Tensor(), pm.Tensor(constant=True).bind("weight"), pm.Tensor().bind("bias") | pm.Absent()))
    return pm.Op("batch_norm", args=(linear, ...))


@pytest.mark.parametrize("bias", [True, False])
def test_one_pattern_matches_what_torch_exports_and_its_core(bias: bool) -> None:
    net = nn.Sequential(nn.Linear(4, 5, bias=bias), nn.BatchNorm1d(5), nn.ReLU())
    first, second = agree(net, X, compiled=True)
    for g in (first, second):
        (match,) = pm.match_all(g, linear_bn)
        assert ("bias" in match) is bias and match["weight"].shape == (5, 4)
    assert first == second


class Residual(Module):  # type: ignore[misc]
    """Two convolutions with batch norms, around which the input goes; activations in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.Conv2d(4, 4, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(4), nn.BatchNorm2d(4)])
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.norms[0](self.first(x)))
        return self.relu(self.norms[1](self.second(y)) + x)


class Layer(Module):  # type: ignore[misc]
    """Attention over heads and a feed-forward part, with residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (part.view(b, t, 2, d // 2).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Recurrent(Module):  # type: ignore[misc]
    """Three steps of an LSTM's cell, which torch takes apart."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 6)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], 6)
        for t in range(3):
            h, c = self.cell(x[:, t], (h, c))
        return h, c


NETWORKS = {
    "residual": lambda: (Residual(), IMAGE),
    "layer": lambda: (Layer(), rand(2, 5, 8)),
    "recurrent": lambda: (Recurrent(), rand(2, 3, 4)),
    "encoder": lambda: (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), rand(2, 5, 8)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_runs_as_in_torch_also_after_every_pass(name: str) -> None:
    torch.manual_seed(0)
    net, x = NETWORKS[name]()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 2)
    for g in agree(net, x):
        made = passes.apply(g, passes.fold_constants, passes.common_subexpressions, passes.fold_batch_norm)
        assert "batch_norm" not in made.by_operator
        np.testing.assert_allclose(made.compile()(x.numpy())[0], g.run(x.numpy())[0], rtol=1e-4, atol=1e-5)


def test_a_batch_within_bounds_is_one_graph() -> None:
    net = nn.Sequential(nn.Conv2d(4, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(108, 5)).eval()
    g = exported(net, IMAGE, dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=8)},))
    ((bounds),) = (dim.dims for dim in g.dims)
    assert list(bounds.values()) == [(1, 8)]
    compiled = g.compile()
    for size in (1, 2, 7):
        x = rand(size, 4, 6, 6)
        with torch.no_grad():
            np.testing.assert_allclose(compiled(x)[0], net(x).numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(tl.CallError, match="is from 1 to 8, and not 9"):
        compiled(rand(9, 4, 6, 6))


SIZES = {
    "quotient": lambda x: x.sum(0) / x.shape[0],
    "sum": lambda x: x + (2 * x.shape[0] + 1),
    "integers": lambda x: (x > 0).to(torch.int64) * (x.shape[0] // 2),
    "root": lambda x: x / x.shape[0] ** 0.5,
    "half": lambda x: x - x.shape[0] / 2,
    "reciprocal": lambda x: x * (1.0 / x.shape[0]),
    "choice": lambda x: torch.where(x > 0, x, x.shape[0]),
    "bound": lambda x: torch.clamp(40 * x, 0, x.shape[0]),
    "range": lambda x: x[:, 0] + torch.arange(x.shape[0]),
    "steps": lambda x: x[:, 0] * torch.arange(3, 3 + 2 * x.shape[0], 2, dtype=torch.float32),
    "filled": lambda x: torch.full((2,), x.shape[0]) + x[0, 0],
}


@pytest.mark.parametrize("name", SIZES)
def test_a_size_that_varies_is_the_number_that_it_is(name: str) -> None:
    """It was `no float32: float() argument must be a string or a real number, not 'Dim'`."""
    net = Function(SIZES[name])
    g = exported(net, rand(3, 4), dynamic_shapes=(({0: torch.export.Dim("n", min=1, max=64)},),))
    compiled = g.compile()
    for size in (1, 5, 64):
        x = rand(size, 4)
        wanted = net(x).numpy()
        for found in (compiled(x)[0], g.run(x)[0]):
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_indices_that_a_program_holds_have_to_be_inside() -> None:
    held = torch.tensor([0, -2])
    assert exported(Function(lambda x, at: x[at], held), rand(2, 3)).outputs
    net = Function(lambda x, at: x.scatter(0, at, x), torch.tensor([[0, 1, 1], [1, 0, 0]]))
    net.t0 += 1
    with pytest.raises(tl.GraphError, match=r"the index 2 that the model holds is outside axis 0 of .*: 0 to 1"):
        exported(net, rand(2, 3))


@pytest.mark.parametrize("core", [False, True], ids=["as exported", "core"])
def test_dims_have_the_names_that_the_user_gave_them(core: bool, tmp_path) -> None:
    """They were called `s77`, which `export(directory, n=3)` of the page refuses."""
    rows, columns = torch.export.Dim("n", min=1, max=64), torch.export.Dim("columns", min=3, max=9)
    sizes = {"dynamic_shapes": (({0: rows}, {0: rows, 1: columns}),)}
    g = exported(Function(lambda x, y: x[:, :2] + y[:, :2]), rand(3, 4), rand(3, 4), core=core, **sizes)
    assert [str(value.shape) for value in g.inputs] == ["(n, 4)", "(n, columns)"]
    assert g.compile(threads=1).export(tmp_path, formats=("h",), n=3, columns=5)


def test_buffers_that_nothing_reads_are_left_out() -> None:
    g = exported(nn.BatchNorm2d(4), IMAGE)
    assert sorted(constant.value.name for constant in g.constants) == ["bias", "running_mean", "running_var", "weight"]
    assert len(g.inputs) == 1


def test_a_graph_does_not_change_when_the_model_does() -> None:
    net = nn.Linear(4, 5)
    g = exported(net, X)
    (before,) = g.run(X.numpy())
    with torch.no_grad():
        net.weight.zero_()
    np.testing.assert_array_equal(g.run(X.numpy())[0], before)


def test_nodes_come_from_lines_of_the_model_and_keep_them_through_passes() -> None:
    g = exported(Residual(), IMAGE)
    line = Residual.forward.__code__.co_firstlineno
    for node in passes.apply(g, passes.fold_batch_norm).nodes:
        assert node.origins and all(origin.file == __file__ and line < origin.line <= line + 2 for origin in node.origins)
    assert any(origin.scope == "second" for node in g.nodes for origin in node.origins)


def test_weights_of_half_precision_are_read() -> None:
    net = nn.Linear(4, 5, dtype=torch.bfloat16)
    g = exported(net, X.bfloat16())
    assert {str(constant.value.dtype) for constant in g.constants} == {"bfloat16"}
    np.testing.assert_array_equal(g.constants[0].array.astype("float32"), net.weight.detach().float().numpy())


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (Function(torch.linalg.svdvals), "has no translation"),
        (
            Function(lambda x: torch.inverse(x[:, :3])),
            r"test_from_torch.py:\d+.*aten.linalg_inv_ex has no translation; write it by others, or let",
        ),
        (
            Function(lambda x: torch.linalg.cholesky(x[:, :3])),
            r"test_from_torch.py:\d+.*aten.linalg_cholesky_ex has no translation; write it",
        ),
        (
            Function(lambda x: F.embedding_bag(I[0] + 5, x, I[0, :2] + 5, mode="max")),
            r"test_from_torch.py:\d+.*mode='max' has no translation",
        ),
        (Function(lambda x: F.dropout(x, training=True)), "train=True has no translation; export the model after model.eval"),
        (Function(lambda x: x[x > 0.5]), "indices of truth, which say how many elements there are only at a call"),
    ],
)
def test_what_has_no_translation_is_refused_with_node_and_origin(net, message: str) -> None:
    with pytest.raises(tl.GraphError, match=message):
        exported(net, X)


def test_an_argument_that_a_translation_does_not_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """`selu` was once read as `elu`, its scale left out."""
    monkeypatch.setitem(TRANSLATIONS, "aten.elu", row("elu", "self", alpha="alpha"))
    exported(Function(lambda x: F.elu(x, 0.5)), X)
    with pytest.raises(tl.GraphError, match=r"aten.elu: scale=1.05\d* has no translation"):
        exported(Function(F.selu), X)


def test_a_model_in_training_and_what_is_no_program_are_refused() -> None:
    net = nn.BatchNorm2d(4).train()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(net, (IMAGE,))
    with pytest.raises(tl.GraphError, match="model.eval"):
        graph.from_torch(program)
    with pytest.raises(tl.GraphError, match="from_torch takes what torch.export.export gives, not a Linear"):
        graph.from_torch(nn.Linear(2, 2))
