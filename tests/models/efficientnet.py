"""EfficientNet-B0 (Tan and Le 2019, arXiv 1905.11946, table 1): inverted bottlenecks with squeezed channels and SiLU."""

from __future__ import annotations

from typing import Any

from tests.models.base import F, Module, nn, torch

B0 = (
    # expansion, kernel, stride, out, repeated
    (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1),
)  # fmt: skip


def normed(inputs: int, outputs: int, size: int = 1, stride: int = 1, groups: int = 1, *, active: bool = True) -> Any:
    """A convolution without bias, its batch norm, and SiLU."""
    convolution = nn.Conv2d(inputs, outputs, size, stride, (size - 1) // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), *([nn.SiLU(inplace=True)] if active else []))


class Squeeze(Module):  # type: ignore[misc]
    """Channels scaled by what their means say; the width between is a quarter of the block's input."""

    def __init__(self, channels: int, between: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, between, 1), nn.Conv2d(between, channels, 1)

    def forward(self, x: Any) -> Any:
        return torch.sigmoid(self.up(F.silu(self.down(F.adaptive_avg_pool2d(x, 1))))) * x


class MBConv(Module):  # type: ignore[misc]
    """Expanded, filtered channel by channel, squeezed, projected."""

    def __init__(self, inputs: int, outputs: int, expansion: int, size: int, stride: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.body = nn.Sequential(
            *([normed(inputs, wide)] if expansion > 1 else []),
            normed(wide, wide, size, stride, wide),
            Squeeze(wide, max(1, inputs // 4)),
            normed(wide, outputs, active=False),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Any) -> Any:
        return x + self.body(x) if self.residual else self.body(x)


class EfficientNet(Module):  # type: ignore[misc]
    """`rows` are the stages; those of the table make B0."""

    def __init__(self, rows: tuple[tuple[int, ...], ...] = B0, last: int = 1280, classes: int = 1000) -> None:
        super().__init__()
        channels, blocks = 32, [normed(3, 32, 3, 2)]
        for expansion, size, stride, outputs, count in rows:
            for place in range(count):
                blocks.append(MBConv(channels, outputs, expansion, size, stride if place == 0 else 1))
                channels = outputs
        self.features = nn.Sequential(*blocks, normed(channels, last))
        self.classify = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, classes))

    def forward(self, x: Any) -> Any:
        return self.classify(torch.flatten(F.adaptive_avg_pool2d(self.features(x), 1), 1))
