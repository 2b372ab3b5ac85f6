"""Real models, weights drawn at random: imported in both of torch's spellings, they compute as kernels what torch computes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from tensorlang import graph
from tensorlang.bridges import torch_compile, torch_functions
from tensorlang.graph import Graph, passes
from tests.models.base import torch
from tests.models.zoo import MODELS, Model
from tests.thinned import few

pytestmark = [pytest.mark.extras("torch"), pytest.mark.filterwarnings("ignore")]  # torch's own

SIX = ("resnet50", "mobilenet_v3", "efficientnet_b0", "unet", "vit_b16", "bert")
"""Those of which torch.compile runs nothing in torch."""
EACH_RUN = (("mobilenet_v3", False), ("gpt2", True), ("lstm", False))
"""Convolutions in groups, attention that is masked, recurrence; other claims of models take others. Each in one spelling: the other one of
most models is other programs, which costs as much again."""


def imported(net: Any, inputs: tuple[Any, ...], *, core: bool) -> Graph:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(net, inputs)
        return graph.from_torch(program.run_decompositions() if core else program)


def wanted(net: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    with torch.no_grad():
        made = net(*inputs)
    return made if isinstance(made, tuple) else (made,)


def close(found: Any, want: Any) -> None:
    """To 1e-4 of the largest element, and that is far from nothing."""
    largest = float(want.abs().max())
    assert largest > 1e-2 and torch.isfinite(want).all()
    np.testing.assert_allclose(np.asarray(found), want.numpy(), rtol=0, atol=1e-4 * largest)


def agrees(model: Model, *, core: bool, full: bool = False) -> Graph:
    net, inputs = model.full() if full else model.small()
    g = imported(net, inputs, core=core)
    results = g.compile(threads=1)(*(one.numpy() for one in inputs))
    for found, want in zip(results, wanted(net, inputs), strict=True):
        close(found, want)
    return g


@pytest.mark.parametrize(
    ("name", "core"),
    [
        pytest.param(name, core, id=f"{name}-{'core' if core else 'exported'}", marks=() if (name, core) in EACH_RUN else pytest.mark.slow)
        for name in MODELS
        for core in (False, True)
    ],
)
def test_a_model_as_kernels_computes_what_torch_computes(name: str, core: bool) -> None:
    agrees(MODELS[name], core=core)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_at_its_published_size_computes_what_torch_computes(name: str) -> None:
    agrees(MODELS[name], core=False, full=True)


@pytest.mark.parametrize("name", ["resnet50", "unet"])
def test_both_spellings_of_a_convolutional_model_are_one_graph(name: str) -> None:
    net, inputs = MODELS[name].small()
    assert imported(net, inputs, core=False) == imported(net, inputs, core=True)


def test_no_batch_norm_of_a_residual_network_is_left_after_folding() -> None:
    net, inputs = MODELS["resnet50"].small()
    g = imported(net, inputs, core=False)
    folded = passes.apply(g, passes.fold_constants, passes.fold_batch_norm)
    assert len(g.by_operator["batch_norm"]) == 12 and "batch_norm" not in folded.by_operator
    (found,) = folded.compile(threads=1)(inputs[0].numpy())
    close(found, *wanted(net, inputs))


def test_a_masked_encoder_computes_what_torch_computes() -> None:
    net, (tokens,) = MODELS["bert"].small()
    attended = torch.tensor([[1] * 9 + [0] * 3])
    g = imported(net, (tokens, attended), core=False)
    results = g.compile(threads=1)(tokens.numpy(), attended.numpy())
    for found, want in zip(results, wanted(net, (tokens, attended)), strict=True):
        close(found, want)


@pytest.mark.parametrize("name", few(SIX, 2))
def test_torch_compile_runs_a_model_without_a_part_in_torch(name: str) -> None:
    torch._dynamo.reset()
    torch_functions._fallbacks.clear()
    net, inputs = MODELS[name].small()
    with torch.no_grad():
        found = torch.compile(net, backend=torch_compile.backend)(*inputs)
    for one, want in zip(found if isinstance(found, tuple) else (found,), wanted(net, inputs), strict=True):
        close(one, want)
    assert torch_compile.fallbacks() == ()
    torch._dynamo.reset()
