"""Vision transformer (Dosovitskiy et al. 2020, arXiv 2010.11929): patches, a class token, encoder blocks with the norm first."""

from __future__ import annotations

from typing import Any

from tests.models.base import Module, nn, torch


class Block(Module):  # type: ignore[misc]
    """Attention and a perceptron, each after a norm and added to what came in."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.perceptron = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.perceptron(self.second(x))


class ViT(Module):  # type: ignore[misc]
    """12 layers of width 768 with 12 heads over patches of 16 are ViT-B/16."""

    def __init__(
        self,
        image: int = 224,
        patch: int = 16,
        layers: int = 12,
        width: int = 768,
        heads: int = 12,
        hidden: int = 3072,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads, hidden) for _ in range(layers)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.classify = nn.Linear(width, classes)

    def forward(self, x: Any) -> Any:
        patches = self.embed(x)
        patches = patches.reshape(*patches.shape[:2], -1).permute(0, 2, 1)
        y = torch.cat([self.token.expand(x.shape[0], -1, -1), patches], dim=1) + self.position
        return self.classify(self.norm(self.blocks(y))[:, 0])
