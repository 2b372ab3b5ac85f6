"""The encoder of Whisper (Radford et al. 2022, arXiv 2212.04356): convolutions over mel frames, sinusoids, blocks with the norm first."""

from __future__ import annotations

import math
from typing import Any

from tests.models.base import F, Module, nn, torch


def sinusoids(length: int, width: int) -> Any:
    """Sines and cosines of places, by wavelengths from 2 pi to 10000 * 2 pi."""
    rates = torch.exp(-math.log(10000) / (width // 2 - 1) * torch.arange(width // 2))
    angles = torch.arange(length)[:, None] * rates[None]
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Block(Module):  # type: ignore[misc]
    """Attention, keys without bias, and a perceptron of four times the width."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.value, self.out = (nn.Linear(width, width) for _ in range(3))
        self.key = nn.Linear(width, width, bias=False)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        parts = (layer(y).view(*x.shape[:2], self.heads, -1).transpose(1, 2) for layer in (self.query, self.key, self.value))
        x = x + self.out(F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2))
        return x + self.perceptron(self.second(x))


class WhisperEncoder(Module):  # type: ignore[misc]
    """4 layers of width 384 with 6 heads over 1500 places, two frames each, are the tiny one."""

    def __init__(self, mels: int = 80, places: int = 1500, width: int = 384, heads: int = 6, layers: int = 4) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(mels, width, 3, padding=1), nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.register_buffer("position", sinusoids(places, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Any) -> Any:
        """Mel spectra (N, mels, 2 * places)."""
        x = F.gelu(self.second(F.gelu(self.first(x)))).permute(0, 2, 1)
        return self.norm(self.blocks(x + self.position))
