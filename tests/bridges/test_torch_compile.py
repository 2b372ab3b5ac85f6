"""`torch.compile` with our backend: the same results, one compilation for every size, gradients, and reasons where torch runs a graph."""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tensorlang as tl
from tensorlang.bridges import torch_compile

torch = pytest.importorskip("torch")
nn: Any = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    torch._dynamo.reset()
    torch_compile._fallbacks.clear()
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


def test_a_graph_without_translation_runs_in_torch_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.rand(3, 3)
    with caplog.at_level(logging.WARNING, "tensorlang"), torch.no_grad():
        torch.testing.assert_close(compiled(lambda x: torch.linalg.inv(x) + 1)(x), torch.linalg.inv(x) + 1)
    (reason,) = torch_compile.fallbacks()
    assert "has no translation" in reason and reason in caplog.text


def test_options_are_refused() -> None:
    with pytest.raises(tl.BuildError, match="has no options, and"):
        torch_compile.backend(None, (), options={"unknown": True})


def test_torch_finds_the_backend_by_its_entry_point() -> None:
    with (Path(__file__).parents[2] / "pyproject.toml").open("rb") as file:
        found = tomllib.load(file)["project"]["entry-points"]["torch_dynamo_backends"]["tensorlang"]
    assert found == f"{torch_compile.backend.__module__}:{torch_compile.backend.__name__}"
