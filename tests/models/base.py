"""What the definitions of models share: torch as far as types go, and weights drawn at random so that no layer fades or overflows."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn
F: Any = torch.nn.functional
Module: Any = nn.Module


def seeded(seed: int = 0) -> Any:
    """A generator of torch's."""
    return torch.Generator().manual_seed(seed)


def drawn(net: Any, seed: int = 0) -> Any:
    """The model in inference, its weights drawn: products keep the size of what they take, statistics and scales are near 1."""
    generator = seeded(seed)
    with torch.no_grad():
        for module in net.modules():
            for name, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
                if not tensor.is_floating_point():
                    continue
                if name == "running_var" or (tensor.ndim == 1 and name.endswith("weight")):
                    tensor.uniform_(0.5, 1.5, generator=generator)
                elif tensor.ndim < 2 or isinstance(module, nn.Embedding):
                    tensor.normal_(0, 0.1, generator=generator)
                elif name.startswith(("weight", "in_proj")):
                    tensor.normal_(0, 1 / math.sqrt(tensor[0].numel()), generator=generator)
    return net.eval()


def image(*shape: int, seed: int = 0) -> Any:
    """Normal numbers."""
    return torch.randn(shape, generator=seeded(seed))


def tokens(*shape: int, words: int, seed: int = 0) -> Any:
    """Places in a vocabulary."""
    return torch.randint(0, words, shape, generator=seeded(seed))
