"""BERT (Devlin et al. 2018, arXiv 1810.04805): an encoder with the norm last, three embeddings, a pooler."""

from __future__ import annotations

from typing import Any

from tests.models.base import F, Module, nn, torch


class Layer(Module):  # type: ignore[misc]
    """Attention and a perceptron, each added to what came in and normed."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.between, self.last = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.first, self.second = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)

    def split(self, x: Any) -> Any:
        """By heads: (N, L, width) -> (N, heads, L, width / heads)."""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x: Any, mask: Any) -> Any:
        query, key, value = (self.split(layer(x)) for layer in (self.query, self.key, self.value))
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = self.first(self.out(attended.transpose(1, 2).reshape(x.shape)) + x)
        return self.second(self.last(F.gelu(self.between(x))) + x)


class Bert(Module):  # type: ignore[misc]
    """12 layers of width 768 with 12 heads are the base; gives the states of all tokens and the pooled first one."""

    def __init__(
        self, layers: int = 12, width: int = 768, heads: int = 12, hidden: int = 3072, words: int = 30522, places: int = 512
    ) -> None:
        super().__init__()
        self.words, self.places, self.kinds = nn.Embedding(words, width), nn.Embedding(places, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(Layer(width, heads, hidden) for _ in range(layers))
        self.pooler = nn.Linear(width, width)

    def forward(self, tokens: Any, attended: Any = None) -> Any:
        """`tokens` are (N, L); `attended` is 1 where one counts, 0 where it is padding."""
        mask = None
        if attended is not None:
            mask = (1.0 - attended[:, None, None, :].to(torch.float32)) * torch.finfo(torch.float32).min
        places = torch.arange(tokens.shape[1])[None]
        x = self.norm(self.words(tokens) + self.kinds(torch.zeros_like(tokens)) + self.places(places))
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))
