"""GPT-2 (Radford et al. 2019): causal attention, weights that lie untransposed, GELU by its formula, the head tied to the words."""

from __future__ import annotations

import math
from typing import Any

from tests.models.base import F, Module, nn, torch


class Projection(Module):  # type: ignore[misc]
    """`x @ weight + bias`, the weight (inputs, outputs)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs
        self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs) / math.sqrt(inputs)), nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Any) -> Any:
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], self.outputs)


def gelu(x: Any) -> Any:
    """As the first implementation spelled it."""
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class Block(Module):  # type: ignore[misc]
    """Causal attention and a perceptron, each after a norm and added to what came in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.out = Projection(width, 3 * width), Projection(width, width)
        self.widen, self.narrow = Projection(width, 4 * width), Projection(4 * width, width)

    def forward(self, x: Any) -> Any:
        parts = self.attend(self.first(x)).split(self.width, dim=2)
        query, key, value = (part.view(*x.shape[:2], self.heads, -1).transpose(1, 2) for part in parts)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).contiguous().view(x.shape))
        return x + self.narrow(gelu(self.widen(self.second(x))))


class GPT2(Module):  # type: ignore[misc]
    """12 layers of width 768 with 12 heads are the small one; gives the logits of the next words."""

    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12, words: int = 50257, places: int = 1024) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        return F.linear(self.norm(self.blocks(x)), self.words.weight)
