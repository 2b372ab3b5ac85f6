"""Blocks as in Llama (Touvron et al. 2023, arXiv 2302.13971): RMS norm, rotated queries and keys, SwiGLU, keys shared by heads."""

from __future__ import annotations

from typing import Any

from tests.models.base import F, Module, nn, torch


class RMSNorm(Module):  # type: ignore[misc]
    """`x / sqrt(mean(x * x) + eps) * weight`, spelled as the published code spells it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def rotated(x: Any, cosines: Any, sines: Any) -> Any:
    """Pairs of channels turned by the angle of their place (Su et al. 2021, arXiv 2104.09864)."""
    half = x.shape[-1] // 2
    return x * cosines + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sines


class Block(Module):  # type: ignore[misc]
    """Attention with rotated queries and keys, and a gated perceptron."""

    def __init__(self, width: int, heads: int, shared: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.shared = heads, shared
        size = width // heads
        self.query, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.key, self.value = nn.Linear(width, shared * size, bias=False), nn.Linear(width, shared * size, bias=False)
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((width, hidden), (width, hidden), (hidden, width)))
        self.first, self.second = RMSNorm(width), RMSNorm(width)

    def forward(self, x: Any, cosines: Any, sines: Any) -> Any:
        y = self.first(x)
        query = self.query(y).view(*x.shape[:2], self.heads, -1).transpose(1, 2)
        key, value = (layer(y).view(*x.shape[:2], self.shared, -1).transpose(1, 2) for layer in (self.key, self.value))
        key, value = (part.repeat_interleave(self.heads // self.shared, dim=1) for part in (rotated(key, cosines, sines), value))
        attended = F.scaled_dot_product_attention(rotated(query, cosines, sines), key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(Module):  # type: ignore[misc]
    """Words, blocks, logits of the next words."""

    def __init__(self, layers: int = 4, width: int = 512, heads: int = 8, shared: int = 4, hidden: int = 1376, words: int = 32000) -> None:
        super().__init__()
        self.size = width // heads
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads, shared, hidden) for _ in range(layers))
        self.norm, self.head = RMSNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: Any) -> Any:
        rates = 1 / 10000 ** (torch.arange(0, self.size, 2, dtype=torch.float32) / self.size)
        angles = torch.arange(tokens.shape[1], dtype=torch.float32)[:, None] * rates[None]
        angles = torch.cat([angles, angles], dim=-1)
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x, angles.cos(), angles.sin())
        return self.head(self.norm(x))
