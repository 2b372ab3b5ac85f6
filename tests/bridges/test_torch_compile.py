"""`torch.compile` with our backend: the same results, one compilation for every size, gradients, and reasons where torch runs a graph."""

from __future__ import annotations

import copy
import logging
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tensorlang as tl
from tensorlang.bridges import torch_compile, torch_functions
from tensorlang.bridges.torch_frozen import Frozen

torch = pytest.importorskip("torch")
nn: Any = torch.nn

pytestmark = [pytest.mark.extras("torch"), pytest.mark.filterwarnings("ignore")]  # torch's own


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    torch._dynamo.reset()
    torch_functions._fallbacks.clear()
    yield
    torch._dynamo.reset()


def compiled(net: Any, **options: Any) -> Any:
    return torch.compile(net, backend=torch_compile.backend, **options)


def convolutional() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 5), nn.Softmax(-1)
    )


def test_a_network_computes_what_torch_computes() -> None:
    net, x = convolutional().eval(), torch.rand(2, 3, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(compiled(net)(x), net(x), rtol=1e-4, atol=1e-5)
    assert torch_compile.fallbacks() == ()


def test_weights_are_passed_at_each_call() -> None:
    net, x = nn.Linear(4, 3), torch.rand(2, 4)
    run = compiled(net)
    with torch.no_grad():
        run(x)
        net.weight.mul_(2)
        torch.testing.assert_close(run(x), net(x), rtol=1e-4, atol=1e-5)


def test_one_graph_serves_every_size() -> None:
    net, calls = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 2)), []
    run = torch.compile(net, backend=lambda *given: calls.append(given) or torch_compile.backend(*given), dynamic=True)
    with torch.no_grad():
        for size in (2, 5, 9):
            x = torch.rand(size, 4)
            torch.testing.assert_close(run(x), net(x), rtol=1e-4, atol=1e-5)
    assert len(calls) == 1 and torch_compile.fallbacks() == ()


def test_gradients_are_those_of_torch() -> None:
    net, x = nn.Sequential(nn.Linear(4, 6), nn.Sigmoid(), nn.Linear(6, 2)), torch.rand(3, 4)
    compiled(net)(x).square().sum().backward()
    found = [parameter.grad.clone() for parameter in net.parameters()]
    net.zero_grad()
    net(x).square().sum().backward()
    for one, parameter in zip(found, net.parameters(), strict=True):
        torch.testing.assert_close(one, parameter.grad, rtol=1e-4, atol=1e-5)


def trained(net: Any, x: Any) -> None:
    """Gradients are those of torch, beside the largest of them."""
    compiled(net)(x).square().sum().backward()
    found = [parameter.grad.clone() for parameter in net.parameters()]
    net.zero_grad()
    net(x).square().sum().backward()
    largest = max(float(parameter.grad.abs().max()) for parameter in net.parameters())
    for one, parameter in zip(found, net.parameters(), strict=True):
        torch.testing.assert_close(one, parameter.grad, rtol=0, atol=1e-5 * largest)


def test_gradients_of_convolutions_and_of_norms_by_batches_are_those_of_torch() -> None:
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3, stride=2, dilation=(1, 2)))
    trained(nn.Sequential(*layers), torch.rand(2, 3, 8, 8))
    assert torch_compile.fallbacks() == ()


def test_the_running_statistics_of_a_batch_norm_go_on() -> None:
    nets = [nn.BatchNorm1d(3), nn.BatchNorm1d(3)]
    for net, run in zip(nets, (nets[0], compiled(nets[1])), strict=True):
        for seed in (1, 2):
            run(torch.rand(4, 3, generator=torch.Generator().manual_seed(seed)))
        assert int(net.num_batches_tracked) == 2
    torch.testing.assert_close(nets[0].running_var, nets[1].running_var)
    torch.testing.assert_close(nets[0].running_mean, nets[1].running_mean)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_attention_are_those_of_torch(causal: bool) -> None:
    q, k, v = (torch.rand(2, 3, 5, 4, generator=torch.Generator().manual_seed(seed), requires_grad=True) for seed in range(3))
    attend = torch.nn.functional.scaled_dot_product_attention
    compiled(lambda *parts: attend(*parts, is_causal=causal))(q, k, v).square().sum().backward()
    found = [part.grad.clone() for part in (q, k, v)]
    for part in (q, k, v):
        part.grad = None
    attend(q, k, v, is_causal=causal).square().sum().backward()
    for one, part in zip(found, (q, k, v), strict=True):
        torch.testing.assert_close(one, part.grad, rtol=1e-4, atol=1e-5)
    assert torch_compile.fallbacks() == ()


def test_the_logarithms_of_attention_are_those_of_torch() -> None:
    attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    q = torch.rand(1, 2, 5, 4)
    with torch.no_grad():
        found = compiled(lambda q: attend(q, q, q, 0.0, True)[:2])(q)
    for one, want in zip(found, attend(q, q, q, 0.0, True)[:2], strict=True):
        torch.testing.assert_close(one, want, rtol=1e-4, atol=1e-5)
    assert torch_compile.fallbacks() == ()


def test_one_graph_serves_every_size_forward_and_backward() -> None:
    net, calls = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 2)), []
    run = torch.compile(net, backend=lambda *given: calls.append(given) or torch_compile.backend(*given), dynamic=True)
    for size in (2, 5, 9):
        x = torch.rand(size, 4, requires_grad=True)
        run(x).square().sum().backward()
        found, x.grad = x.grad, None
        net(x).square().sum().backward()
        torch.testing.assert_close(found, x.grad, rtol=1e-4, atol=1e-5)
    assert len(calls) == 1 and torch_compile.fallbacks() == ()


@pytest.mark.parametrize(
    "part",
    [
        lambda x: x * (x.shape[0] / 2),
        lambda x: torch.where(x > 0, x, x.shape[0] * 1.5),
        lambda x: (x.new_full((2,), x.shape[0] / 3), x.clamp(max=x.shape[0] / 8)),
    ],
)
def test_numbers_that_sizes_are_divided_into_are_those_of_torch(part: Any) -> None:
    compiled = torch.compile(part, backend="tensorlang", dynamic=True)
    for rows in (3, 4, 7):
        x = torch.randn(rows, 5)
        torch.testing.assert_close(compiled(x), part(x))


def _first_row_set(x: Any) -> Any:
    y = x + 0
    y[0] = 1
    return y


@pytest.mark.parametrize(
    ("part", "shapes", "dynamic"),
    [
        (lambda x: x * torch.tensor([1.0, 2.0, 3.0]), [(2, 3)], None),
        (_first_row_set, [(2, 3)], None),
        (_first_row_set, [(2, 3)], True),
        (lambda x, y: torch.cat([x, y]), [(2, 4), (3, 4)], True),
        (lambda x: x.roll(1, 0), [(3,)], True),
        (lambda x: x.roll((-2, 1), (0, 1)), [(3, 4)], True),
        (lambda x: (x.t() + 1).as_strided((2,), (2,)), [(2, 3)], None),
        (lambda x: x.softmax(-1, dtype=torch.float64), [(2, 3)], None),
        (lambda x: (x + 1, x.expand(3, *x.shape)), [(2, 3)], True),
        (lambda x: (x + 1, x.t()), [(2, 3)], True),
    ],
)
def test_what_eager_code_does_beside_calls_of_layers_is_what_torch_does(part: Any, shapes: list[tuple[int, ...]], dynamic: Any) -> None:
    compiled = torch.compile(part, backend="tensorlang", dynamic=dynamic)
    for more in (0, 1):
        given = [torch.randn(shape[0] + (more if dynamic else 0), *shape[1:]) for shape in shapes]
        torch.testing.assert_close(compiled(*given), part(*given))


def test_gradients_of_norms_by_batches_of_any_size_are_those_of_torch() -> None:
    plain = nn.BatchNorm2d(4)
    compiled = torch.compile(copy.deepcopy(plain), backend="tensorlang", dynamic=True)
    for images in (3, 5):
        x = torch.randn(images, 4, 4, 4)
        inputs = [x.clone().requires_grad_() for _ in range(2)]
        for model, given in zip((plain, compiled), inputs, strict=True):
            (model(given) ** 3).sum().backward()
        torch.testing.assert_close(inputs[1].grad, inputs[0].grad, rtol=1e-4, atol=1e-4)


def test_a_size_with_a_range_is_a_dim_with_that_range(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(
        torch_functions, "_caller", lambda graph, *rest, call=torch_functions._caller: made.append(graph) or call(graph, *rest)
    )
    run = compiled(nn.Linear(4, 3))
    with torch.no_grad():
        for size in (2, 7, 16):
            x = torch.rand(size, 4)
            torch._dynamo.mark_dynamic(x, 0, min=2, max=16)
            assert run(x).shape == (size, 3)
    (graph,) = made
    assert [list(extent.dims.values()) for value in graph.inputs for extent in value.shape if isinstance(extent, tl.Dim)] == [[(2, 16)]]


def test_sizes_are_results_too() -> None:
    run = torch.compile(lambda x: (x + 1, 2 * x.shape[0]), backend=torch_compile.backend, dynamic=True)
    for size in (3, 5):
        assert run(torch.zeros(size))[1] == 2 * size


def test_a_node_without_translation_runs_in_torch_between_parts_that_have_one(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.rand(3, 4)

    def function(x: Any) -> Any:
        return torch.special.bessel_j0(torch.relu(x)).exp() + x.sum(1, keepdim=True)

    with caplog.at_level(logging.WARNING, "tensorlang"), torch.no_grad():
        torch.testing.assert_close(compiled(function)(x), function(x))
    (reason,) = torch_compile.fallbacks()
    assert "bessel_j0" in reason and "has no translation" in reason and Path(__file__).name in reason and reason in caplog.text


def test_a_node_of_which_one_result_has_no_translation_runs_in_torch_as_a_whole() -> None:
    x = torch.rand(1, 2, 6, 6)

    def function(x: Any) -> Any:
        values, places = torch.nn.functional.adaptive_max_pool2d(x + 1, 3, return_indices=True)
        return 2 * values, places + 1

    with torch.no_grad():
        torch.testing.assert_close(compiled(function)(x), function(x))
    (reason,) = torch_compile.fallbacks()
    assert "result 1 of aten.adaptive_max_pool2d" in reason


def test_frozen_weights_are_folded_and_packed_until_they_change() -> None:
    net, x = convolutional().eval(), torch.rand(2, 3, 8, 8)
    run = compiled(net, options={"freeze": True})
    with torch.no_grad():
        for change in (lambda: None, lambda: net[0].weight.mul_(2), lambda: net[1].running_var.fill_(3), lambda: renewed(net[5])):
            change()
            torch.testing.assert_close(run(x), net(x), rtol=1e-4, atol=1e-5)
    assert torch_compile.fallbacks() == ()


def renewed(layer: Any) -> None:
    layer.weight.data = torch.rand_like(layer.weight)  # lies elsewhere


def test_weights_are_folded_once_for_many_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    folded = []
    monkeypatch.setattr(Frozen, "_fold", lambda self, weights, fold=Frozen._fold: folded.append(1) or fold(self, weights))
    net = nn.Linear(4, 3)
    run = compiled(net, options={"freeze": True})
    with torch.no_grad():
        for _ in range(3):
            run(torch.rand(2, 4))
        assert len(folded) == 1
        net.bias.add_(1)
        run(torch.rand(2, 4))
    assert len(folded) == 2


def test_writes_that_no_version_counts_are_answered_by_refreeze() -> None:
    net, x = nn.Linear(4, 3), torch.rand(2, 4)
    run = compiled(net, options={"freeze": True})
    with torch.no_grad():
        old = run(x)
        net.weight.data.mul_(2)
        net.bias.data.mul_(2)
        torch.testing.assert_close(run(x), old)
        torch_compile.refreeze()
        torch.testing.assert_close(run(x), net(x), rtol=1e-4, atol=1e-5)


def test_inference_tensors_count_no_versions_and_are_frozen_all_the_same() -> None:
    with torch.inference_mode():
        net, x = nn.Linear(4, 3), torch.rand(2, 4)
        torch.testing.assert_close(compiled(net, options={"freeze": True})(x), net(x), rtol=1e-4, atol=1e-5)


def test_weights_are_not_frozen_in_training() -> None:
    net, x = nn.Linear(4, 3), torch.rand(2, 4)
    run = compiled(net, options={"freeze": True})
    run(x)
    net.weight.data.mul_(2)
    torch.testing.assert_close(run(x), net(x), rtol=1e-4, atol=1e-5)


def test_a_compiled_model_is_saved_and_loaded(tmp_path: Path) -> None:
    net, x = convolutional().eval(), torch.rand(2, 3, 8, 8)
    with torch.no_grad():
        made = compiled(net, fullgraph=True).forward.aot_compile(((x,), {}))
        torch.testing.assert_close(made(x), net(x), rtol=1e-4, atol=1e-5)
        made.save_compiled_function(tmp_path / "model", external_data={"model": net})
        with (tmp_path / "model").open("rb") as file:
            loaded = torch.compiler.load_compiled_function(file, external_data={"model": net})
        torch.testing.assert_close(loaded(x), net(x), rtol=1e-4, atol=1e-5)
    assert torch_compile.fallbacks() == ()


@pytest.mark.parametrize("options", [{"unknown": True}, {"freeze": 1}])
def test_other_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(tl.BuildError, match="has the option freeze=True or False, and"):
        torch_compile.backend(None, (), options=options)


def test_torch_finds_the_backend_by_its_entry_point() -> None:
    with (Path(__file__).parents[2] / "pyproject.toml").open("rb") as file:
        found = tomllib.load(file)["project"]["entry-points"]["torch_dynamo_backends"]["tensorlang"]
    assert found == f"{torch_compile.backend.__module__}:{torch_compile.backend.__name__}"
