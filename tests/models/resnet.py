"""ResNet (He et al. 2015, arXiv 1512.03385): bottlenecks with the stride on the 3x3 convolution, as torchvision has it."""

from __future__ import annotations

from typing import Any

from tests.models.base import Module, nn, torch

EXPANSION = 4


def normed(inputs: int, outputs: int, size: int, stride: int = 1) -> Any:
    """A convolution without bias, and its batch norm."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs))


class Bottleneck(Module):  # type: ignore[misc]
    """1x1, 3x3, 1x1 and the residual, which is projected where the shape changes."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.reduce, self.spatial, self.widen = normed(inputs, width, 1), normed(width, width, 3, stride), normed(width, outputs, 1)
        self.project = normed(inputs, outputs, 1, stride) if stride > 1 or inputs != outputs else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        y = self.relu(self.spatial(self.relu(self.reduce(x))))
        return self.relu(self.widen(y) + self.project(x))


class ResNet(Module):  # type: ignore[misc]
    """`counts` bottlenecks in each stage; (3, 4, 6, 3) with width 64 is ResNet-50."""

    def __init__(self, counts: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        )
        channels, blocks = width, []
        for stage, count in enumerate(counts):
            for place in range(count):
                blocks.append(Bottleneck(channels, width << stage, 2 if stage and not place else 1))
                channels = (width << stage) * EXPANSION
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classify = nn.Linear(channels, classes)

    def forward(self, x: Any) -> Any:
        return self.classify(torch.flatten(self.pool(self.blocks(self.stem(x))), 1))
